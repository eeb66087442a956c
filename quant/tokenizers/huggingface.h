/* What an open tokenizer.json has beside its pieces. Functions are in
 * components.c, around.c, added_tokens.c, hf_normalize.c, merges.c, split.c and
 * words.c. */
#ifndef NABLA_QUANT_TOKENIZERS_HUGGINGFACE_H
#define NABLA_QUANT_TOKENIZERS_HUGGINGFACE_H

#include "lib/base/json/json.h"
#include "quant/tokenizers/split.h"
#include "quant/tokenizers/tokenizer_internal.h"
#include "quant/tokenizers/trie.h"

/* Limits, each refused with NABLA_TOO_LARGE. */
#define NABLA_HF_MAX_STEPS  16   /* of normalizers, of pre-tokenizers        */
#define NABLA_HF_MAX_AROUND 64   /* ids before, and after a text             */
#define NABLA_HF_MAX_ADDED  1024 /* bytes of an added token                  */
#define NABLA_HF_MAX_SETTINGS \
  (1u << 20) /* bytes of all texts of components   */

/* A text of the file, in nabla_hf_tokenizer.texts. */
typedef struct nabla_hf_text {
  uint32_t at, size;
} nabla_hf_text;

typedef enum nabla_hf_step_kind {
  NABLA_HF_NFC,
  NABLA_HF_PREPEND, /* content                     */
  NABLA_HF_REPLACE, /* pattern by content          */
  NABLA_HF_BYTE_LEVEL,
  NABLA_HF_METASPACE, /* content for spaces        */
  NABLA_HF_SPLIT,
} nabla_hf_step_kind;

typedef enum nabla_hf_prepend {
  NABLA_HF_PREPEND_NEVER,
  NABLA_HF_PREPEND_FIRST, /* at the beginning of the text alone */
  NABLA_HF_PREPEND_ALWAYS,
} nabla_hf_prepend;

/* A normalizer or pre-tokenizer. */
typedef struct nabla_hf_step {
  nabla_hf_step_kind kind;
  nabla_hf_text pattern, content;
  nabla_hf_prepend prepend; /* a space, or content                      */
  int splits;               /* Metaspace: at each mark                  */
  const nabla_split_pattern *words; /* Split, ByteLevel: NULL for no split */
} nabla_hf_step;

/* Bits of nabla_piece.is_added. */
#define NABLA_HF_ADDED        1u
#define NABLA_HF_STRIPS_LEFT  2u
#define NABLA_HF_STRIPS_RIGHT 4u
#define NABLA_HF_NORMALIZED   8u  /* searched in normalized text       */
#define NABLA_HF_ONLY_ADDED   16u /* the model does not have the piece */

typedef struct nabla_merge {
  uint32_t left, right; /* NABLA_TOKEN_NONE: a free slot */
  uint32_t rank, id;
} nabla_merge;

typedef struct nabla_hf_tokenizer {
  nabla_buffer texts; /* of components */
  nabla_hf_step normalizers[NABLA_HF_MAX_STEPS];
  nabla_hf_step words[NABLA_HF_MAX_STEPS]; /* pre-tokenizers */
  size_t normalizer_count, word_count;
  uint32_t before[NABLA_HF_MAX_AROUND], after[NABLA_HF_MAX_AROUND];
  size_t before_count, after_count;
  /* Added tokens: those that are searched before and after normalization, the
   * latter as they are when normalized. */
  nabla_trie raw, normalized;
  nabla_vocabulary patterns;
  /* The model. */
  nabla_merge *merges; /* a hash table */
  size_t merge_slots;
  int falls_to_bytes, fuses_unknown, ignores_merges, is_byte_level;
  uint32_t letter_ids[256]; /* ByteLevel: pieces of single bytes */
} nabla_hf_tokenizer;

static inline const uint8_t *nabla_hf_bytes(const nabla_hf_tokenizer *own,
                                            nabla_hf_text text) {
  return own->texts.data + text.at;
}

/* Reads the value of "normalizer", "pre_tokenizer", "decoder" or
 * "post_processor"; the value is what comes next. */
NABLA_MUST_USE nabla_status nabla_hf_read_normalizer(nabla_tokenizer *tokenizer,
                                                     nabla_json *json,
                                                     nabla_diag *diag);
NABLA_MUST_USE nabla_status nabla_hf_read_words(nabla_tokenizer *tokenizer,
                                                nabla_json *json,
                                                nabla_diag *diag);

/* Sets the rules of decoding and the texts of all pieces; `json` NULL: there is
 * no decoder. */
NABLA_MUST_USE nabla_status nabla_hf_read_decoder(nabla_tokenizer *tokenizer,
                                                  nabla_json *json,
                                                  nabla_diag *diag);

/* Sets the ids around a text, pieces being known. */
NABLA_MUST_USE nabla_status nabla_hf_read_around(nabla_tokenizer *tokenizer,
                                                 nabla_json *json,
                                                 nabla_diag *diag);

/* Reads "added_tokens": adds pieces that the model lacks. */
NABLA_MUST_USE nabla_status nabla_hf_read_added(nabla_tokenizer *tokenizer,
                                                nabla_json *json,
                                                nabla_diag *diag);

/* Makes the trees of added tokens, normalizers being known. */
NABLA_MUST_USE nabla_status nabla_hf_prepare_added(nabla_tokenizer *tokenizer,
                                                   nabla_diag *diag);

/* Reads "merges", pieces being known. */
NABLA_MUST_USE nabla_status nabla_hf_read_merges(nabla_tokenizer *tokenizer,
                                                 nabla_json *json,
                                                 nabla_diag *diag);
const nabla_merge *nabla_hf_find_merge(const nabla_tokenizer *tokenizer,
                                       uint32_t left, uint32_t right);

/* Appends `text` with `pattern` replaced by `content`. */
NABLA_MUST_USE nabla_status
nabla_hf_replace(const uint8_t *text, size_t size, const uint8_t *pattern,
                 size_t pattern_size, const uint8_t *content,
                 size_t content_size, nabla_buffer *out, nabla_diag *diag);

/* Writes `text` to the empty `out` as the normalizers make it. */
NABLA_MUST_USE nabla_status nabla_hf_normalize(const nabla_hf_tokenizer *own,
                                               const uint8_t *text, size_t size,
                                               nabla_buffer *out,
                                               nabla_diag *diag);

/* Returns the id of a piece of the model, or NABLA_TOKEN_NONE: added tokens
 * that only the tokenizer has are not the model's. */
uint32_t nabla_hf_find(const nabla_tokenizer *tokenizer, const void *bytes,
                       size_t length);

/* A part of a text between added tokens, or one of them. */
typedef struct nabla_hf_part {
  size_t begin, end;
  uint32_t id; /* NABLA_TOKEN_NONE: text */
} nabla_hf_part;

/* Walks the parts of a text. */
typedef struct nabla_hf_parts {
  const nabla_tokenizer *tokenizer;
  const nabla_trie *tree;
  const uint8_t *text;
  size_t size, at; /* what is before `at` has been given out */
  size_t search;   /* the next match begins here or later    */
  int parses_special, has_pending;
  nabla_hf_part pending; /* an added token after text         */
} nabla_hf_parts;

/* Gives the next part, never an empty one; 0 at the end. */
int nabla_hf_next_part(nabla_hf_parts *parts, nabla_hf_part *out);

/* Encodes a part of normalized text: pre-tokenizers, then the model. */
NABLA_MUST_USE nabla_status nabla_hf_encode_words(nabla_encode_run *run,
                                                  const uint8_t *text,
                                                  size_t size, int is_first);

/* The character that ByteLevel writes for a byte (GPT-2's encoder.py,
 * bytes_to_unicode), and the byte of one, or -1. */
uint32_t nabla_byte_letter(uint8_t byte);
int nabla_letter_byte(uint32_t code);

#endif
