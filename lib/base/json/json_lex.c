/* JSON tokens from a window of bytes. Runs of plain bytes are passed eight at
 * a time; only what a window cuts in two is looked at byte by byte. */
#include "lib/base/json/json_lex.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/utf8.h"

#define EACH_BYTE(byte) (0x0101010101010101u * (uint64_t)(byte))

nabla_status nabla_json_lex_fail(nabla_diag *diag, nabla_status code,
                                 uint64_t offset, const char *text) {
  const nabla_status status = nabla_fail(diag, code, "%s", text);
  nabla_diag_set_offset(diag, offset);
  return status;
}

nabla_status nabla_json_lex_unexpected(const nabla_json_lexer *lexer, int byte,
                                       const char *expected, nabla_diag *diag) {
  char found[32] = "the end of the input";
  if (byte > 0x20 && byte < 0x7f)
    snprintf(found, sizeof found, "'%c'", byte);
  else if (byte != NABLA_JSON_NO_BYTE)
    snprintf(found, sizeof found, "the byte 0x%02x", (unsigned)byte);
  const nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "expected %s, found %s", expected, found);
  nabla_diag_set_offset(diag, nabla_json_lex_offset(lexer));
  return status;
}

/* Gets more bytes when none are left; at the end there are none after it. */
static nabla_status refill(nabla_json_lexer *lexer, nabla_diag *diag) {
  if (lexer->at < lexer->end || !lexer->source.read) return NABLA_OK;
  size_t got = 0;
  const nabla_status status = lexer->source.read(
      lexer->source.self, lexer->window, NABLA_JSON_WINDOW, &got, diag);
  if (status) {
    if (diag && diag->offset == NABLA_NO_OFFSET)
      nabla_diag_set_offset(diag, nabla_json_lex_offset(lexer));
    return status;
  }
  lexer->base += lexer->end;
  lexer->at = 0;
  lexer->end = got;
  return NABLA_OK;
}

/* Sets the current byte, or NABLA_JSON_NO_BYTE, without passing it. */
static inline nabla_status peek(nabla_json_lexer *lexer, int *out,
                                nabla_diag *diag) {
  if (lexer->at == lexer->end) NABLA_TRY(refill(lexer, diag));
  *out = lexer->at < lexer->end ? lexer->data[lexer->at] : NABLA_JSON_NO_BYTE;
  return NABLA_OK;
}

static inline int is_space(int byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

nabla_status nabla_json_lex_pass(nabla_json_lexer *lexer, int *out,
                                 nabla_diag *diag) {
  for (;;) {
    const uint8_t *data = lexer->data;
    size_t at = lexer->at;
    const size_t end = lexer->end;
    while (at < end && is_space(data[at])) {
      at++;
      while (end - at >= 8 && nabla_load_le64(data + at) == EACH_BYTE(' '))
        at += 8;
    }
    lexer->at = at;
    NABLA_TRY(peek(lexer, out, diag));
    if (!is_space(*out)) return NABLA_OK;
  }
}

/* Sets the high bit of each byte of `word` that is zero. Bits above the lowest
 * set one may be wrong. */
static inline uint64_t zero_bytes(uint64_t word) {
  return (word - EACH_BYTE(0x01)) & ~word & EACH_BYTE(0x80);
}

/* As zero_bytes, for the bytes of a string that need a closer look: the quote,
 * the backslash, control bytes and whatever is not ASCII. */
static inline uint64_t special_bytes(uint64_t word) {
  const uint64_t control = (word - EACH_BYTE(0x20)) & ~word;
  return (((control | word) & EACH_BYTE(0x80)) |
          zero_bytes(word ^ EACH_BYTE('"')) |
          zero_bytes(word ^ EACH_BYTE('\\')));
}

/* Returns how many bytes from `data` on are plain text of a string: ASCII and
 * whole UTF-8 sequences, up to the first byte that is something else. */
static size_t plain_run(const uint8_t *data, size_t size) {
  size_t at = 0;
  while (at < size) {
    if (size - at >= 8) {
      const uint64_t special = special_bytes(nabla_load_le64(data + at));
      at += special ? (size_t)__builtin_ctzll(special) / 8 : 8;
      if (!special) continue;
    }
    const uint8_t byte = data[at];
    if (byte < 0x20 || byte == '"' || byte == '\\') return at;
    const size_t length = nabla_utf8_length(data + at, size - at);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

/* Appends to the string that started at `start`. */
static nabla_status put(nabla_json_lexer *lexer, const void *data, size_t size,
                        uint64_t start, nabla_diag *diag) {
  nabla_buffer *text = &lexer->text;
  nabla_status status;
  if (size > NABLA_JSON_MAX_STRING - text->size)
    status =
        nabla_fail(diag, NABLA_TOO_LARGE, "a string is longer than %d bytes",
                   NABLA_JSON_MAX_STRING);
  else
    status = nabla_buffer_append(text, data, size, diag);
  if (status) nabla_diag_set_offset(diag, start);
  return status;
}

/* Makes `text` the token, with a NUL behind it. */
static nabla_status terminate(nabla_json_lexer *lexer, uint64_t start,
                              nabla_diag *diag) {
  const nabla_status status = nabla_buffer_append(&lexer->text, "", 1, diag);
  if (status) {
    nabla_diag_set_offset(diag, start);
    return status;
  }
  lexer->token = (const char *)lexer->text.data;
  lexer->length = lexer->text.size - 1;
  return NABLA_OK;
}

/* Reads four hexadecimal digits. */
static nabla_status hex4(nabla_json_lexer *lexer, uint32_t *out,
                         nabla_diag *diag) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    const int lower = byte | 0x20;
    if (byte >= '0' && byte <= '9')
      value = value << 4 | (uint32_t)(byte - '0');
    else if (byte != NABLA_JSON_NO_BYTE && lower >= 'a' && lower <= 'f')
      value = value << 4 | (uint32_t)(lower - 'a' + 10);
    else
      return nabla_json_lex_unexpected(
          lexer, byte, "four hexadecimal digits after \\u", diag);
    lexer->at++;
  }
  *out = value;
  return NABLA_OK;
}

/* Reads what follows a high surrogate and joins the two. `start` is where the
 * first escape starts. */
static nabla_status low_surrogate(nabla_json_lexer *lexer, uint64_t start,
                                  uint32_t *code, nabla_diag *diag) {
  for (const char *expected = "\\u"; *expected; expected++) {
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    if (byte != *expected)
      return nabla_json_lex_fail(diag, NABLA_CORRUPT, start,
                                 "a high surrogate without a low one");
    lexer->at++;
  }
  uint32_t low;
  NABLA_TRY(hex4(lexer, &low, diag));
  if (low < 0xdc00 || low > 0xdfff)
    return nabla_json_lex_fail(diag, NABLA_CORRUPT, start,
                               "a high surrogate without a low one");
  *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
  return NABLA_OK;
}

/* Reads an escape, from the byte behind its backslash, which is at `start`. */
static nabla_status escape(nabla_json_lexer *lexer, uint64_t start,
                           uint64_t string_start, nabla_diag *diag) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  int byte;
  NABLA_TRY(peek(lexer, &byte, diag));
  const char *simple = byte > 0 ? strchr(names, byte) : NULL;
  if (simple) {
    lexer->at++;
    return put(lexer, values + (simple - names), 1, string_start, diag);
  }
  if (byte != 'u')
    return nabla_json_lex_unexpected(lexer, byte, "an escape after '\\'", diag);
  lexer->at++;
  uint32_t code;
  NABLA_TRY(hex4(lexer, &code, diag));
  if (code == 0)
    return nabla_json_lex_fail(diag, NABLA_CORRUPT, start,
                               "a string holds the character U+0000");
  if (code >= 0xdc00 && code <= 0xdfff)
    return nabla_json_lex_fail(diag, NABLA_CORRUPT, start,
                               "a low surrogate without a high one");
  if (code >= 0xd800 && code <= 0xdbff)
    NABLA_TRY(low_surrogate(lexer, start, &code, diag));
  uint8_t utf8[4];
  const size_t length = nabla_utf8_encode(code, utf8);
  return put(lexer, utf8, length, string_start, diag);
}

/* Reads the non-ASCII character at the current position, byte by byte. */
static nabla_status wide_char(nabla_json_lexer *lexer, uint64_t string_start,
                              nabla_diag *diag) {
  const uint64_t start = nabla_json_lex_offset(lexer);
  uint8_t utf8[4] = {lexer->data[lexer->at]};
  const size_t need = nabla_utf8_need(utf8[0]);
  lexer->at++;
  for (size_t i = 1; i < need; i++) {
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    if (byte < 0x80) break; /* the end of the input too */
    utf8[i] = (uint8_t)byte;
    lexer->at++;
  }
  if (need == 0 || nabla_utf8_length(utf8, need) == 0)
    return nabla_json_lex_fail(diag, NABLA_CORRUPT, start,
                               "a string is not valid UTF-8");
  return put(lexer, utf8, need, string_start, diag);
}

/* Takes a string without escapes that ends in the window as it lies there: the
 * NUL replaces the quote that ended it. */
static int take_in_place(nabla_json_lexer *lexer, size_t run) {
  const size_t end = lexer->at + run;
  if (!lexer->window || end == lexer->end || lexer->window[end] != '"')
    return 0;
  lexer->window[end] = '\0';
  lexer->token = (const char *)lexer->window + lexer->at;
  lexer->length = run;
  lexer->at = end + 1;
  return 1;
}

nabla_status nabla_json_lex_string(nabla_json_lexer *lexer, nabla_diag *diag) {
  const uint64_t start = nabla_json_lex_offset(lexer);
  lexer->text.size = 0;
  lexer->at++;
  size_t run = plain_run(lexer->data + lexer->at, lexer->end - lexer->at);
  if (take_in_place(lexer, run)) return NABLA_OK;
  for (;;) {
    if (run > 0)
      NABLA_TRY(put(lexer, lexer->data + lexer->at, run, start, diag));
    lexer->at += run;
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    if (byte == '"') {
      lexer->at++;
      return terminate(lexer, start, diag);
    }
    if (byte == '\\') {
      const uint64_t escape_start = nabla_json_lex_offset(lexer);
      lexer->at++;
      NABLA_TRY(escape(lexer, escape_start, start, diag));
    } else if (byte >= 0x80) {
      NABLA_TRY(wide_char(lexer, start, diag));
    } else if (byte < 0x20) {
      return nabla_json_lex_unexpected(
          lexer, byte, "text or the closing quote of a string", diag);
    } /* else a new window with plain text */
    run = plain_run(lexer->data + lexer->at, lexer->end - lexer->at);
  }
}

/* Passes digits; returns how many. */
static size_t digits(const char **at) {
  const char *start = *at;
  while (**at >= '0' && **at <= '9') ++*at;
  return (size_t)(*at - start);
}

/* Returns where `number` (NUL-terminated) leaves the grammar of RFC 8259,
 * section 6, or NULL when it is a number. */
static const char *bad_number(const char *number) {
  const char *at = number;
  if (*at == '-') at++;
  if (*at == '0')
    at++;
  else if (digits(&at) == 0)
    return at;
  if (*at == '.') {
    at++;
    if (digits(&at) == 0) return at;
  }
  if (*at == 'e' || *at == 'E') {
    at++;
    if (*at == '+' || *at == '-') at++;
    if (digits(&at) == 0) return at;
  }
  return *at ? at : NULL;
}

/* Says whether `byte`, which may be NABLA_JSON_NO_BYTE, occurs in numbers. */
static inline int is_number_byte(int byte) {
  static const uint8_t table[1 + 256] = {
      [1 + '0'] = 1, [1 + '1'] = 1, [1 + '2'] = 1, [1 + '3'] = 1,
      [1 + '4'] = 1, [1 + '5'] = 1, [1 + '6'] = 1, [1 + '7'] = 1,
      [1 + '8'] = 1, [1 + '9'] = 1, [1 + '.'] = 1, [1 + '-'] = 1,
      [1 + '+'] = 1, [1 + 'e'] = 1, [1 + 'E'] = 1};
  return table[1 + byte];
}

/* Takes an unsigned integer that ends in the window: most numbers. */
static int take_integer(nabla_json_lexer *lexer) {
  const uint8_t *data = lexer->data + lexer->at;
  const size_t left = lexer->end - lexer->at;
  size_t length = 0;
  for (; length < left && length < NABLA_JSON_MAX_NUMBER; length++) {
    if (data[length] < '0' || data[length] > '9') break;
    lexer->number[length] = (char)data[length];
  }
  if (!length || length == left || is_number_byte(data[length]) ||
      (length > 1 && data[0] == '0'))
    return 0;
  lexer->number[length] = '\0';
  lexer->token = lexer->number;
  lexer->length = length;
  lexer->at += length;
  return 1;
}

nabla_status nabla_json_lex_number(nabla_json_lexer *lexer, nabla_diag *diag) {
  const uint64_t start = nabla_json_lex_offset(lexer);
  char *number = lexer->number;
  size_t length = 0;
  if (take_integer(lexer)) return NABLA_OK;
  for (;;) {
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    if (!is_number_byte(byte)) break;
    if (length == NABLA_JSON_MAX_NUMBER)
      return nabla_json_lex_fail(diag, NABLA_TOO_LARGE, start,
                                 "a number has more than 64 characters");
    number[length++] = (char)byte;
    lexer->at++;
  }
  number[length] = '\0';
  const char *bad = bad_number(number);
  if (bad)
    return nabla_json_lex_fail(diag, NABLA_CORRUPT,
                               start + (uint64_t)(bad - number),
                               "a number is not written as JSON wants it");
  lexer->token = number;
  lexer->length = length;
  return NABLA_OK;
}

nabla_status nabla_json_lex_literal(nabla_json_lexer *lexer, const char *word,
                                    nabla_diag *diag) {
  for (const char *letter = word; *letter; letter++) {
    int byte;
    NABLA_TRY(peek(lexer, &byte, diag));
    if (byte != *letter)
      return nabla_json_lex_unexpected(lexer, byte, word, diag);
    lexer->at++;
  }
  return NABLA_OK;
}
