/* JSON of one line: a flat object is read, strings are written. */
#ifndef NABLA_EXAMPLES_JSON_H
#define NABLA_EXAMPLES_JSON_H

#include <stddef.h>
#include <stdio.h>

#define JSON_MEMBERS 16

typedef struct json_member {
  const char *key; /* ends with NUL, as `text` does */
  enum { JSON_TEXT, JSON_NUMBER, JSON_BOOL } kind;
  const char *text; /* of JSON_TEXT, with `size` bytes: NUL is none of them */
  size_t size;
  double number; /* of JSON_NUMBER; JSON_BOOL: 0 or 1 */
} json_member;

/* Reads an object whose members are strings, numbers and booleans. Strings are
 * decoded in place, in `line`, which ends with NUL.
 * @return NULL, or why it was refused */
const char *json_read(char *line, json_member members[JSON_MEMBERS],
                      size_t *out_count);

/* Writes a string with its quotes. */
void json_write(FILE *out, const char *text, size_t size);

#endif
