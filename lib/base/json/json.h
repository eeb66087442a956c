/* A pull parser for JSON that never builds a tree, and a small writer. Memory
 * is one window and one string, whatever the input's size. */
#ifndef NABLA_BASE_JSON_JSON_H
#define NABLA_BASE_JSON_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/memory.h"
#include "nabla/status.h"

#define NABLA_JSON_MAX_DEPTH  32        /* nested objects and arrays */
#define NABLA_JSON_MAX_STRING (1 << 22) /* bytes of one decoded string */
#define NABLA_JSON_WINDOW     (1 << 16)
#define NABLA_JSON_OUT_BUFFER 4096

typedef enum nabla_json_kind {
  NABLA_JSON_END, /* after the top-level value and trailing white space */
  NABLA_JSON_OBJECT_BEGIN,
  NABLA_JSON_OBJECT_END,
  NABLA_JSON_ARRAY_BEGIN,
  NABLA_JSON_ARRAY_END,
  NABLA_JSON_KEY,    /* string fields set */
  NABLA_JSON_STRING, /* string fields set */
  NABLA_JSON_NUMBER, /* string fields hold the number's text */
  NABLA_JSON_TRUE,
  NABLA_JSON_FALSE,
  NABLA_JSON_NULL,
} nabla_json_kind;

typedef struct nabla_json_event {
  nabla_json_kind kind;
  uint64_t offset;  /* of the event's first byte, from the input's start   */
  const char *text; /* decoded UTF-8, valid until the next call; a NUL is
                       appended. Text with an embedded U+0000 is refused.  */
  size_t length;
} nabla_json_event;

/* Source of bytes: fills up to `size` bytes and returns the number, 0 at the
 * end, in *out_got. */
typedef struct nabla_json_source {
  void *self;
  nabla_status (*read)(void *self, void *out, size_t size, size_t *out_got,
                       nabla_diag *diag);
} nabla_json_source;

typedef struct nabla_json nabla_json;

/* Creates a parser. `origin` is added to every offset in errors and events, so
 * that these are offsets in the file. Strict RFC 8259: one top-level value, no
 * comments, no trailing commas, valid UTF-8 (including the surrogate pairs of
 * \u escapes), numbers of at most 64 characters. */
NABLA_MUST_USE nabla_status nabla_json_create(const nabla_allocator *allocator,
                                              nabla_json_source source,
                                              uint64_t origin, nabla_json **out,
                                              nabla_diag *diag);

/* Creates a parser of bytes in memory, which must outlive it. */
NABLA_MUST_USE nabla_status nabla_json_create_span(
    const nabla_allocator *allocator, const void *data, size_t size,
    uint64_t origin, nabla_json **out, nabla_diag *diag);

void nabla_json_destroy(nabla_json *json);

/* Makes the parser accept NaN, Infinity and -Infinity as numbers, as Python's
 * json writes them; their event has no text. Only for a parser of bytes in
 * memory. */
void nabla_json_allow_nonfinite(nabla_json *json);

/* Returns the offset of the byte after the last event. */
uint64_t nabla_json_offset(const nabla_json *json);

/* Delivers the next event. Fails with NABLA_CORRUPT (bad JSON, with offset),
 * NABLA_TOO_LARGE (limit of depth, string or number), or the error of the
 * source. */
NABLA_MUST_USE nabla_status nabla_json_next(nabla_json *json,
                                            nabla_json_event *out,
                                            nabla_diag *diag);

/* Skips the rest of the value whose first event is `event`. */
NABLA_MUST_USE nabla_status nabla_json_skip(nabla_json *json,
                                            const nabla_json_event *event,
                                            nabla_diag *diag);

/* An array of unsigned integers. The caller sets `least` and `most`, the range
 * of lengths, and `values` with space for `most`; nabla_json_take_u64s sets
 * `count`, and `offset` to that of the '['. */
typedef struct nabla_json_u64s {
  uint64_t *values;
  uint32_t least, most, count;
  uint64_t offset;
} nabla_json_u64s;

/* Reads such an array, the value of the key that was delivered last, without
 * events, since headers have millions of arrays. This works only if the whole
 * array is in the window and has the usual form: no white space except one
 * blank after ':' and ','.
 * @return 1 if the array was read, else 0: then nabla_json_next delivers the
 *         events of the value */
int nabla_json_take_u64s(nabla_json *json, nabla_json_u64s *array);

/* Reads the next event, which must be of `kind`; otherwise NABLA_CORRUPT, with
 * the expected value (`what`: "an array of dimensions") and the actual one in
 * the message. */
NABLA_MUST_USE nabla_status nabla_json_expect(nabla_json *json,
                                              nabla_json_kind kind,
                                              const char *what,
                                              nabla_json_event *out,
                                              nabla_diag *diag);

/* Converts a NUMBER event to an unsigned integer. NABLA_CORRUPT unless the text
 * is digits only, without leading zero, sign or fraction; NABLA_TOO_LARGE above
 * 2^64 - 1. `what` names the field. */
NABLA_MUST_USE nabla_status nabla_json_u64(const nabla_json_event *event,
                                           const char *what, uint64_t *out,
                                           nabla_diag *diag);

/* The writer: a sink that gets bytes, commas handled, strings escaped. The sink
 * is called when NABLA_JSON_OUT_BUFFER bytes are held, and by
 * nabla_json_out_finish, so that a failed write shows late. Invalid
 * UTF-8 in strings is written as U+FFFD; controls and format characters
 * (lib/base/controls.h) as \uXXXX, since a terminal may show what is written.
 * Errors stick and are returned by nabla_json_out_finish. Numbers that are not
 * finite become null. */
typedef struct nabla_json_out {
  void *self;
  nabla_status (*write)(void *self, const void *data, size_t size,
                        nabla_diag *diag);
  nabla_diag *diag;
  nabla_status status;
  uint32_t depth;
  int spaced; /* 1: ", " and ": " as Python's json.dumps; 0: compact */
  uint8_t has_item[NABLA_JSON_MAX_DEPTH];
  int after_key;
  size_t held; /* bytes of `buffer` */
  char buffer[NABLA_JSON_OUT_BUFFER];
} nabla_json_out;

void nabla_json_out_object(nabla_json_out *out);
void nabla_json_out_object_end(nabla_json_out *out);
void nabla_json_out_array(nabla_json_out *out);
void nabla_json_out_array_end(nabla_json_out *out);
void nabla_json_out_key(nabla_json_out *out, const char *key);
void nabla_json_out_key_n(nabla_json_out *out, const char *key, size_t length);
void nabla_json_out_string(nabla_json_out *out, const char *text);
void nabla_json_out_string_n(nabla_json_out *out, const char *text,
                             size_t length);
void nabla_json_out_u64(nabla_json_out *out, uint64_t value);
void nabla_json_out_double(nabla_json_out *out, double value); /* %.9g */
void nabla_json_out_bool(nabla_json_out *out, int value);
void nabla_json_out_null(nabla_json_out *out);
NABLA_MUST_USE nabla_status nabla_json_out_finish(nabla_json_out *out);

#endif
