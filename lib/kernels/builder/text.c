/* Growable text with a limit; see text.h. */
#include "lib/kernels/builder/text.h"

#include <stdarg.h>
#include <stdlib.h>

#include "lib/base/c_locale.h"

void nabla_text_deinit(nabla_text *text) {
  free(text->data);
  *text = (nabla_text){0};
}

/* Reserves `more` characters and a NUL. */
static int reserve(nabla_text *text, size_t more) {
  if (more > NABLA_TEXT_LIMIT || text->size > NABLA_TEXT_LIMIT - more) return 0;
  size_t need = text->size + more + 1;
  if (need <= text->capacity) return 1;
  size_t capacity = text->capacity ? text->capacity : 4096;
  while (capacity < need) capacity *= 2;
  char *data = realloc(text->data, capacity);
  if (!data) return 0;
  text->data = data;
  text->capacity = capacity;
  return 1;
}

void nabla_text_add(nabla_text *text, const char *format, ...) {
  if (text->failed) return;
  for (;;) {
    size_t room = text->capacity - text->size;
    va_list arguments;
    va_start(arguments, format);
    int length = nabla_c_vsnprintf(room ? text->data + text->size : NULL, room,
                                   format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room) {
      text->size += (size_t)length;
      return;
    }
    if (length < 0 || !reserve(text, (size_t)length)) {
      text->failed = 1;
      return;
    }
  }
}

void nabla_text_add_float(nabla_text *text, double value) {
  nabla_text_add(text, "%.17e", value);
}
