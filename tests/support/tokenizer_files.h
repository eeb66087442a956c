/* Small files of every kind of tokenizer, for tests. */
#ifndef NABLA_TESTS_TOKENIZER_FILES_H
#define NABLA_TESTS_TOKENIZER_FILES_H

#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer_file {
  uint8_t bytes[32768];
  size_t size;
} tokenizer_file;

/* Ids of the vocabulary that all these files have: all bytes, and few pieces.
 */
enum {
  UNK,
  BOS,
  EOS,
  BYTE, /* that of byte 0 */
  SPACE = BYTE + 256,
  A,
  B,
  C,
  AB,
  BC,
  SPACE_A,
  SPACE_B,
  VOCABULARY_SIZE
};

/* A tokenizer.bin. */
void tokenizer_file_llama2c(tokenizer_file *out);

/* A tokenizer.model, BPE or unigram, with U+2581 for spaces. Its charsmap makes
 * 'B' of the text to "b". */
void tokenizer_file_sentencepiece(tokenizer_file *out, int is_unigram);

/* The same with `trainer`, more fields of the trainer's specification, and
 * `model`, more of the model. */
void tokenizer_file_sentencepiece_with(tokenizer_file *out, const void *trainer,
                                       size_t trainer_size, const void *model,
                                       size_t model_size);

/* A tokenizer.json with the same pieces, merges in the order of their scores,
 * and U+2581 for spaces; `more` are further members of the object, "" or text
 * that begins with a comma, and `model` those of the model. */
void tokenizer_file_json(tokenizer_file *out, const char *more,
                         const char *model);

/* Members that make it like Llama 2's. */
extern const char tokenizer_file_llama2[];

/* Makes file `index` of TOKENIZER_FILES, one of each kind; returns its name. */
#define TOKENIZER_FILES 4
const char *tokenizer_file_make(size_t index, tokenizer_file *out);

#endif
