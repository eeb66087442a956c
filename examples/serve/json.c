/* See json.h. */
#include "json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char *skip(char *at) { return at + strspn(at, " \t\r\n"); }

/* Four digits of an escape, or -1. */
static long read_unit(const char *at) {
  char digits[5] = "";
  for (int i = 0; i < 4 && at[i]; i++) digits[i] = at[i];
  return strspn(digits, "0123456789abcdefABCDEF") == 4
             ? strtol(digits, NULL, 16)
             : -1;
}

static char *write_utf8(char *to, uint32_t code) {
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t starts[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(starts[more] | code >> 6 * more);
  for (int i = more; i > 0; i--)
    *to++ = (char)(0x80 | (code >> 6 * (i - 1) & 0x3f));
  return to;
}

/* The escape at `at`, behind its backslash; NULL if there is no such. */
static char *read_escape(char *at, char **to) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char *name = *at ? strchr(names, *at) : NULL;
  if (name) {
    *(*to)++ = values[name - names];
    return at + 1;
  }
  long code = *at == 'u' ? read_unit(at + 1) : -1;
  at += 5;
  if (code >= 0xd800 && code < 0xdc00 && at[0] == '\\' && at[1] == 'u') {
    const long low = read_unit(at + 2);
    if (low < 0xdc00 || low > 0xdfff) return NULL;
    code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
    at += 6;
  }
  if (code <= 0 || (code >= 0xd800 && code < 0xe000)) return NULL;
  *to = write_utf8(*to, (uint32_t)code);
  return at;
}

/* The string behind the quote at `at`; NULL if it has no end. */
static char *read_string(char *at, const char **out, size_t *size) {
  char *to = at + 1;
  *out = to;
  for (at++; *at != '"';) {
    if ((unsigned char)*at < 0x20) return NULL;
    if (*at != '\\') {
      *to++ = *at++;
    } else if ((at = read_escape(at + 1, &to)) == NULL) {
      return NULL;
    }
  }
  *to = '\0';
  *size = (size_t)(to - *out);
  return at + 1;
}

/* The end of the digits at `at`, or NULL if there are none. */
static char *read_digits(char *at) {
  const size_t count = strspn(at, "0123456789");
  return count ? at + count : NULL;
}

static char *read_number(char *at, double *out) {
  char *end = at + (*at == '-');
  end = *end == '0' ? end + 1 : read_digits(end);
  if (end && *end == '.') end = read_digits(end + 1);
  if (end && (*end == 'e' || *end == 'E'))
    end = read_digits(end + 1 + (end[1] == '-' || end[1] == '+'));
  if (end) *out = strtod(at, NULL);
  return end;
}

static char *read_value(char *at, json_member *out) {
  if (*at == '"') {
    out->kind = JSON_TEXT;
    return read_string(at, &out->text, &out->size);
  }
  out->kind = JSON_BOOL;
  out->number = *at == 't';
  if (!strncmp(at, "true", 4)) return at + 4;
  if (!strncmp(at, "false", 5)) return at + 5;
  out->kind = JSON_NUMBER;
  return read_number(at, &out->number);
}

static const char *read_member(char **at, json_member *members, size_t count) {
  json_member *out = &members[count];
  size_t size;
  if (count == JSON_MEMBERS) return "the object has too many members";
  if (**at != '"') return "a member has no name";
  *at = read_string(*at, &out->key, &size);
  if (!*at) return "a name is not a string of JSON";
  *at = skip(*at);
  if (**at != ':') return "a name without a value";
  *at = read_value(skip(*at + 1), out);
  if (!*at) return "a value is neither string, number nor boolean";
  for (size_t i = 0; i < count; i++)
    if (!strcmp(members[i].key, out->key)) return "a member is given twice";
  *at = skip(*at);
  return NULL;
}

const char *json_read(char *line, json_member members[JSON_MEMBERS],
                      size_t *out_count) {
  char *at = skip(line);
  *out_count = 0;
  if (*at != '{') return "the line is no JSON object";
  at = skip(at + 1);
  while (*at != '}' || *out_count) {
    const char *why = read_member(&at, members, *out_count);
    if (why) return why;
    ++*out_count;
    if (*at == '}') break;
    if (*at != ',') return "the object has no end";
    at = skip(at + 1);
  }
  return *skip(at + 1) ? "there is more behind the object" : NULL;
}

void json_write(FILE *out, const char *text, size_t size) {
  fputc('"', out);
  for (size_t i = 0; i < size; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}
