/* An open tokenizer, and what the readers of its files share. Functions are in
 * open.c, encode.c, scored.c, texts.c and decode.c. */
#ifndef NABLA_QUANT_TOKENIZERS_TOKENIZER_INTERNAL_H
#define NABLA_QUANT_TOKENIZERS_TOKENIZER_INTERNAL_H

#include "nabla/tokenizer.h"
#include "quant/tokenizers/merge.h"
#include "quant/tokenizers/vocabulary.h"

#define NABLA_SPACE_MARK      "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define NABLA_SPACE_MARK_SIZE 3
#define NABLA_REPLACEMENT     "\xef\xbf\xbd" /* U+FFFD */

/* Which spaces at the beginning of a decoded text are left out. */
typedef enum nabla_strip {
  NABLA_STRIP_NONE,
  NABLA_STRIP_PIECE,  /* the mark of the first piece that has text          */
  NABLA_STRIP_PIECES, /* a mark of each piece until there is text           */
  NABLA_STRIP_FIRST,  /* all marks of the first token                       */
  NABLA_STRIP_TEXT,   /* `strip_count` spaces of the text                   */
} nabla_strip;

typedef struct nabla_decode_rules {
  nabla_strip strip;
  uint32_t strip_count;
  int is_bytes;   /* texts of pieces are bytes, not characters (ByteLevel) */
  int whole_runs; /* a run of byte pieces is UTF-8 as a whole or not at all */
  int is_spaced;  /* a space between all tokens (no decoder)               */
} nabla_decode_rules;

/* One encoding. */
typedef struct nabla_encode_run {
  const nabla_tokenizer *tokenizer;
  unsigned flags;
  nabla_buffer ids; /* uint32_t */
  nabla_merger merger;
  nabla_buffer text; /* normalized */
  int after_unknown; /* the last id is that of unknown characters */
  nabla_diag *diag;
} nabla_encode_run;

/* What a kind of file does. Positions in errors are set by `read`, the path by
 * the caller. `read` leaves to the caller to free what it made. */
typedef struct nabla_tokenizer_calls {
  nabla_status (*read)(nabla_tokenizer *tokenizer, const uint8_t *data,
                       size_t size, nabla_diag *diag);
  nabla_status (*encode)(nabla_encode_run *run, const uint8_t *text,
                         size_t size);
  void (*deinit)(nabla_tokenizer *tokenizer); /* frees `own`; may be NULL */
} nabla_tokenizer_calls;

struct nabla_tokenizer {
  const nabla_allocator *allocator;
  const nabla_tokenizer_calls *calls;
  nabla_vocabulary vocabulary;
  nabla_token_roles roles;
  nabla_decode_rules decode;
  const char *space; /* how pieces write a space */
  size_t space_size;
  /* No piece has a space after another character, so that words can be encoded
   * one by one. */
  int has_words_apart;
  int falls_to_bytes; /* characters that no piece has become bytes */
  void *own;          /* of the kind of file */
};

#define TOKENIZER(id, file, suffix, what) \
  extern const nabla_tokenizer_calls nabla_##id##_tokenizer;
#include "quant/tokenizers/tokenizers.def"
#undef TOKENIZER

/* Makes a tokenizer from the bytes of a file of the kind `calls`. */
NABLA_MUST_USE nabla_status nabla_tokenizer_read(
    const nabla_allocator *allocator, const nabla_tokenizer_calls *calls,
    const uint8_t *data, size_t size, nabla_tokenizer **out, nabla_diag *diag);

/* Sets space and has_words_apart. Pieces are stored. */
void nabla_tokenizer_set_space(nabla_tokenizer *tokenizer, const char *space);

/* Appends an id. */
NABLA_MUST_USE nabla_status nabla_encode_id(nabla_encode_run *run, uint32_t id);

/* Appends what stands for characters that no piece has: their bytes, or the
 * unknown token, once for a run of them if `is_fused`. */
NABLA_MUST_USE nabla_status nabla_encode_unknown(nabla_encode_run *run,
                                                 const uint8_t *text,
                                                 size_t size, int is_fused);

/* Returns the size of the word at the beginning of `text`, which a piece cannot
 * leave: all of it unless has_words_apart. */
size_t nabla_encode_word(const nabla_tokenizer *tokenizer, const uint8_t *text,
                         size_t size);

/* Adds the symbols of a word to run->merger. */
typedef nabla_status nabla_add_symbols(nabla_encode_run *run,
                                       const uint8_t *text, size_t size);

/* Encodes by joining the pair whose piece has the greatest score (llama2.c,
 * SentencePiece BPE); `add` splits a word into symbols. */
NABLA_MUST_USE nabla_status nabla_encode_scored(nabla_encode_run *run,
                                                const uint8_t *text,
                                                size_t size,
                                                nabla_add_symbols *add);

/* Sets the texts of all pieces with `space` in them replaced by a space, those
 * of bytes to the byte, and of control pieces to nothing. */
NABLA_MUST_USE nabla_status
nabla_tokenizer_set_texts(nabla_tokenizer *tokenizer, nabla_diag *diag);

#endif
