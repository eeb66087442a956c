#include "tests/support/corpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads what stands after a backslash; NULL if that is no escape. */
static const char *read_escape(const char *at, uint8_t *out) {
  static const char kinds[] = "\\\"nrt", values[] = "\\\"\n\r\t";
  if (*at == 'x') {
    int high = hex_digit(at[1]);
    int low = high < 0 ? -1 : hex_digit(at[2]);
    if (low < 0) return NULL;
    *out = (uint8_t)(16 * high + low);
    return at + 3;
  }
  const char *kind = *at ? strchr(kinds, *at) : NULL;
  if (!kind) return NULL;
  *out = (uint8_t)values[kind - kinds];
  return at + 1;
}

/* Writes the bytes of the text after an opening quotation mark to `out`, which
 * has the text's length; false unless the line ends with the closing mark. */
static bool read_bytes(const char *at, uint8_t *out, size_t *size) {
  *size = 0;
  while (at && *at && *at != '"') {
    uint8_t byte = (uint8_t)*at;
    if (byte < 0x20 || byte > 0x7e) return false;
    at = byte == '\\' ? read_escape(at + 1, &byte) : at + 1;
    out[(*size)++] = byte;
  }
  return at && at[0] == '"' && !at[1];
}

/* Passes the input of a line on. Returns false for a line that is none. */
static bool read_line(char *line, size_t length, corpus_input input,
                      void *context) {
  char *blank = strchr(line, ' ');
  uint8_t *bytes = malloc(length), *exact = NULL;
  size_t size = 0;
  bool good = bytes && blank && blank > line && blank[1] == '"' &&
              read_bytes(blank + 2, bytes, &size);
  /* of exactly this size: sanitizers see the first byte read beyond it */
  if (good) exact = malloc(size ? size : 1);
  if (exact) {
    *blank = 0;
    memcpy(exact, bytes, size);
    input(context, line, exact, size);
  }
  free(exact);
  free(bytes);
  return exact != NULL;
}

long corpus_read(const char *path, corpus_input input, void *context) {
  FILE *file = fopen(path, "r");
  char *line = NULL;
  size_t room = 0;
  long count = 0, number = 0;
  ssize_t length = 0;
  while (file && count >= 0 && (length = getline(&line, &room, file)) > 0) {
    number++;
    bool whole = line[length - 1] == '\n';
    line[length - 1] = 0;
    if (line[0] == '#') continue;
    bool good = whole && strlen(line) == (size_t)length - 1 &&
                read_line(line, (size_t)length, input, context);
    count = good ? count + 1 : -1;
  }
  if (count < 0)
    (void)fprintf(stderr, "%s:%ld: no input: NAME \"BYTES\"\n", path, number);
  if (!file || ferror(file)) {
    (void)fprintf(stderr, "%s: cannot be read\n", path);
    count = -1;
  }
  free(line);
  if (file) (void)fclose(file);
  return count;
}
