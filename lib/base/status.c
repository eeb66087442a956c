/* Names of the statuses, and the diag: texts that any terminal can show. */
#include "nabla/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/controls.h"
#include "lib/base/utf8.h"

/* More than any field holds, so that cutting here is cut again, with "...",
 * when the text is shown. */
#define FORMATTED 1024

/* Writes one shown unit of `text` to `unit` (at most 4 bytes), sets how many
 * bytes were read, and returns how many were written. */
static size_t show_unit(const uint8_t *text, size_t size, char unit[4],
                        size_t *out_read) {
  static const char digits[] = "0123456789abcdef";
  const size_t length = nabla_utf8_length(text, size);
  if (length > 0 && !nabla_is_control(nabla_utf8_code(text, length))) {
    memcpy(unit, text, length);
    *out_read = length;
    return length;
  }
  unit[0] = '\\';
  unit[1] = 'x';
  unit[2] = digits[text[0] >> 4];
  unit[3] = digits[text[0] & 15];
  *out_read = 1;
  return 4;
}

/* Copies `text` into a field of `room` bytes (at least 8), with what must not
 * reach a terminal as \xNN. Too long a text keeps its start and ends in
 * "...", never inside a character or an escape. */
static void show(char *out, size_t room, const char *text, size_t size) {
  const uint8_t *bytes = (const uint8_t *)text;
  size_t used = 0, kept = 0; /* kept: where "..." would still fit */
  for (size_t at = 0; at < size;) {
    char unit[4];
    size_t taken;
    const size_t length = show_unit(bytes + at, size - at, unit, &taken);
    if (used + length >= room) {
      memcpy(out + kept, "...", 4);
      return;
    }
    memcpy(out + used, unit, length);
    used += length;
    at += taken;
    if (used + 4 <= room) kept = used;
  }
  out[used] = '\0';
}

NABLA_PRINTF(4, 0)
static void show_format(char *out, size_t room, const char *fallback,
                        const char *format, va_list arguments) {
  char text[FORMATTED];
  const int length = nabla_c_vsnprintf(text, sizeof text, format, arguments);
  const char *shown = length < 0 ? fallback : text;
  show(out, room, shown, strlen(shown));
}

nabla_status nabla_fail(nabla_diag *diag, nabla_status code, const char *format,
                        ...) {
  if (!diag) return code;
  nabla_diag fresh = NABLA_DIAG_INIT; /* arguments may point into *diag */
  fresh.code = code;
  va_list arguments;
  va_start(arguments, format);
  show_format(fresh.what, sizeof fresh.what, nabla_status_text(code), format,
              arguments);
  va_end(arguments);
  *diag = fresh;
  return code;
}

void nabla_diag_set_file(nabla_diag *diag, const char *path) {
  if (!diag || !path || diag->file[0]) return;
  show(diag->file, sizeof diag->file, path, strlen(path));
}

void nabla_diag_set_tensor(nabla_diag *diag, const char *name,
                           uint64_t length) {
  if (!diag || !name || diag->tensor[0]) return;
  /* A field shows at most its own size of bytes, so more are not looked at. */
  const size_t size = length < FORMATTED ? (size_t)length : FORMATTED;
  show(diag->tensor, sizeof diag->tensor, name, size);
}

void nabla_diag_set_offset(nabla_diag *diag, uint64_t offset) {
  if (diag) diag->offset = offset;
}

void nabla_diag_set_next(nabla_diag *diag, const char *format, ...) {
  if (!diag) return;
  char next[sizeof diag->next];
  va_list arguments;
  va_start(arguments, format);
  show_format(next, sizeof next, "", format, arguments);
  va_end(arguments);
  memcpy(diag->next, next, sizeof next);
}

int nabla_diag_format(const nabla_diag *diag, char *out, uint64_t size) {
  const size_t room = size < INT32_MAX ? (size_t)size : INT32_MAX;
  const int has_what = diag->what[0] != '\0';
  const int has_tensor = diag->tensor[0] != '\0';
  const int has_body = has_what || has_tensor;
  char offset[40] = "";
  if (diag->offset != NABLA_NO_OFFSET)
    snprintf(offset, sizeof offset, " (at byte %" PRIu64 ")", diag->offset);
  return snprintf(out, room, "%s%s%s%s%s%s%s%s%s%s", diag->file,
                  diag->file[0] && has_body ? ": " : "",
                  has_tensor ? "tensor '" : "", diag->tensor,
                  has_tensor ? "'" : "", has_tensor && has_what ? ": " : "",
                  diag->what, offset, diag->next[0] ? "; " : "", diag->next);
}

const char *nabla_status_name(nabla_status code) {
  switch (code) {
#define NAME(id, number, sentence) \
  case NABLA_##id:                 \
    return #id;
    NABLA_STATUS_LIST(NAME)
#undef NAME
  }
  return "UNKNOWN";
}

const char *nabla_status_text(nabla_status code) {
  switch (code) {
#define TEXT(id, number, sentence) \
  case NABLA_##id:                 \
    return sentence;
    NABLA_STATUS_LIST(TEXT)
#undef TEXT
  }
  return "an unknown status";
}
