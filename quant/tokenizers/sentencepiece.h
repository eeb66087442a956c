/* What an open SentencePiece model has beside its pieces. Functions are in
 * normalize.c and unigram.c. */
#ifndef NABLA_QUANT_TOKENIZERS_SENTENCEPIECE_H
#define NABLA_QUANT_TOKENIZERS_SENTENCEPIECE_H

#include "quant/tokenizers/charsmap.h"
#include "quant/tokenizers/tokenizer_internal.h"
#include "quant/tokenizers/trie.h"

/* The numbers of TrainerSpec.ModelType. */
typedef enum nabla_sentencepiece_type {
  NABLA_SENTENCEPIECE_UNIGRAM = 1,
  NABLA_SENTENCEPIECE_BPE = 2,
} nabla_sentencepiece_type;

typedef struct nabla_sentencepiece {
  nabla_sentencepiece_type type;
  int falls_to_bytes;
  int adds_prefix;    /* add_dummy_prefix                        */
  int removes_spaces; /* remove_extra_whitespaces                */
  int escapes_spaces; /* escape_whitespaces                      */
  int has_suffix;     /* treat_whitespace_as_suffix              */
  nabla_charsmap charsmap;
  nabla_buffer rules; /* its bytes                               */
  nabla_trie users;   /* pieces of NABLA_PIECE_USER              */
  nabla_trie pieces;  /* unigram: those that text becomes        */
  float least, most;  /* scores of normal pieces                 */
} nabla_sentencepiece;

/* Normalizes into run->text. */
NABLA_MUST_USE nabla_status nabla_sentencepiece_normalize(nabla_encode_run *run,
                                                          const uint8_t *text,
                                                          size_t size);

/* Encodes normalized text by the path of greatest score. */
NABLA_MUST_USE nabla_status nabla_unigram_encode(nabla_encode_run *run,
                                                 const uint8_t *text,
                                                 size_t size);

#endif
