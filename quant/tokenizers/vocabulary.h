/* The pieces of a tokenizer by id, and the ids of pieces by their bytes. */
#ifndef NABLA_QUANT_TOKENIZERS_VOCABULARY_H
#define NABLA_QUANT_TOKENIZERS_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/memory.h"
#include "nabla/tokenizer.h"
#include "quant/formats/name_index.h"

/* The numbers are those of SentencePiece's ModelProto.SentencePiece.Type. */
typedef enum nabla_piece_kind {
  NABLA_PIECE_ABSENT = 0, /* no piece has this id              */
  NABLA_PIECE_NORMAL = 1,
  NABLA_PIECE_UNKNOWN = 2,
  NABLA_PIECE_CONTROL = 3, /* never from text, never text      */
  NABLA_PIECE_USER = 4,    /* always a token where it stands   */
  NABLA_PIECE_UNUSED = 5,
  NABLA_PIECE_BYTE = 6, /* "<0x0A>": stands for one byte        */
} nabla_piece_kind;

typedef struct nabla_piece {
  uint32_t at, length;           /* as the file writes it            */
  uint32_t text_at, text_length; /* what it decodes to               */
  float score;                   /* SentencePiece: greater is better */
  uint8_t kind;                  /* nabla_piece_kind                 */
  uint8_t byte;                  /* of a NABLA_PIECE_BYTE            */
  uint8_t is_special;            /* nabla_tokenizer_is_special       */
  uint8_t is_added;              /* of added_tokens                  */
} nabla_piece;

typedef struct nabla_vocabulary {
  const nabla_allocator *allocator;
  nabla_buffer bytes;  /* pieces and texts, one after the other             */
  nabla_buffer pieces; /* nabla_piece by id                                 */
  nabla_buffer order;  /* uint32_t: ids that pieces have                    */
  nabla_name_index index;
  uint32_t byte_ids[256]; /* of NABLA_PIECE_BYTE, else NABLA_TOKEN_NONE     */
  uint32_t longest_text;  /* bytes, of all texts that pieces ever had       */
} nabla_vocabulary;

void nabla_vocabulary_init(nabla_vocabulary *vocabulary,
                           const nabla_allocator *allocator);
void nabla_vocabulary_deinit(nabla_vocabulary *vocabulary);

/* A piece before it is stored. */
typedef struct nabla_piece_source {
  const char *bytes;
  size_t length;
  float score;
  nabla_piece_kind kind;
} nabla_piece_source;

/* Stores a piece under an id that has none; ids in between stay absent. A
 * NABLA_PIECE_BYTE must be spelled "<0xXX>".
 * @return NABLA_CORRUPT, NABLA_TOO_LARGE, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_vocabulary_put(nabla_vocabulary *vocabulary,
                                                 uint32_t id,
                                                 nabla_piece_source piece,
                                                 nabla_diag *diag);

/* Sets what a piece decodes to; until then that is its own bytes. */
NABLA_MUST_USE nabla_status
nabla_vocabulary_set_text(nabla_vocabulary *vocabulary, uint32_t id,
                          const void *text, size_t size, nabla_diag *diag);

/* Makes pieces findable, once, when all are stored: equal ones are
 * NABLA_CORRUPT. */
NABLA_MUST_USE nabla_status
nabla_vocabulary_finish(nabla_vocabulary *vocabulary, nabla_diag *diag);

/* @return the id, or NABLA_TOKEN_NONE */
uint32_t nabla_vocabulary_find(const nabla_vocabulary *vocabulary,
                               const void *bytes, size_t length);

/* Greatest id + 1. */
static inline uint32_t nabla_vocabulary_size(
    const nabla_vocabulary *vocabulary) {
  return (uint32_t)(vocabulary->pieces.size / sizeof(nabla_piece));
}

/* `id` is below the size. */
static inline nabla_piece *nabla_vocabulary_at(
    const nabla_vocabulary *vocabulary, uint32_t id) {
  return (nabla_piece *)(void *)vocabulary->pieces.data + id;
}

#endif
