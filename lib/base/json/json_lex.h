/* The lexical half of the JSON parser: bytes from a window into tokens.
 * Internal to lib/base/json*.c. Every error carries its offset. */
#ifndef NABLA_BASE_JSON_JSON_LEX_H
#define NABLA_BASE_JSON_JSON_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/json/json.h"
#include "lib/base/memory.h"

#define NABLA_JSON_MAX_NUMBER 64   /* characters */
#define NABLA_JSON_NO_BYTE    (-1) /* the input has ended */

typedef struct nabla_json_lexer {
  nabla_json_source source; /* `read` is NULL when `data` is everything */
  uint8_t *window;          /* NABLA_JSON_WINDOW bytes; NULL for a span */
  const uint8_t *data;      /* the bytes at hand */
  size_t at, end;
  uint64_t base;     /* offset of data[0] in the file */
  const char *token; /* the last string or number, and a NUL: in the window, */
  size_t length;     /* in `number` or in `text`                             */
  char number[NABLA_JSON_MAX_NUMBER + 1];
  nabla_buffer text;
} nabla_json_lexer;

static inline uint64_t nabla_json_lex_offset(const nabla_json_lexer *lexer) {
  return lexer->base + lexer->at;
}

/* Fails at `offset`; `text` is one clause. */
NABLA_MUST_USE nabla_status nabla_json_lex_fail(nabla_diag *diag,
                                                nabla_status code,
                                                uint64_t offset,
                                                const char *text);

/* Fails with "expected EXPECTED, found ..." at the current position, where
 * `byte` stands. */
NABLA_MUST_USE nabla_status
nabla_json_lex_unexpected(const nabla_json_lexer *lexer, int byte,
                          const char *expected, nabla_diag *diag);

/* nabla_json_lex_space where white space, or a new window, may follow. */
NABLA_MUST_USE nabla_status nabla_json_lex_pass(nabla_json_lexer *lexer,
                                                int *out, nabla_diag *diag);

/* Passes white space and sets the byte that follows, without passing it, or
 * NABLA_JSON_NO_BYTE. */
NABLA_MUST_USE static inline nabla_status nabla_json_lex_space(
    nabla_json_lexer *lexer, int *out, nabla_diag *diag) {
  if (lexer->at == lexer->end || lexer->data[lexer->at] <= ' ')
    return nabla_json_lex_pass(lexer, out, diag);
  *out = lexer->data[lexer->at];
  return NABLA_OK;
}

/* Each reads the token that starts at the current position: a string, decoded,
 * into `token` and `length`, valid until the next call, with a NUL behind it
 * that `length` does not count; a number likewise, as written; a literal,
 * compared with `word`. */
NABLA_MUST_USE nabla_status nabla_json_lex_string(nabla_json_lexer *lexer,
                                                  nabla_diag *diag);
NABLA_MUST_USE nabla_status nabla_json_lex_number(nabla_json_lexer *lexer,
                                                  nabla_diag *diag);
NABLA_MUST_USE nabla_status nabla_json_lex_literal(nabla_json_lexer *lexer,
                                                   const char *word,
                                                   nabla_diag *diag);

#endif
