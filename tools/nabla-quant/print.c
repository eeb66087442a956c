/* Text for people: sizes, names from files, notes and errors. */
#include <stdarg.h>
#include <string.h>

#include "lib/base/controls.h"
#include "lib/base/decimal.h"
#include "lib/base/utf8.h"
#include "tools/nabla-quant/cli.h"

#define RED    "\033[1;31m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

void cli_size_text(uint64_t bytes, char out[CLI_SIZE_TEXT]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  if (bytes < 1024) {
    memcpy(nabla_decimal_write(out, bytes), " B", 3);
    return;
  }
  /* 1023.995 would print as 1024.00 */
  for (value /= 1024; value >= 1023.995 && unit < 5; unit++) value /= 1024;
  snprintf(out, CLI_SIZE_TEXT, "%.2f %s", value, units[unit]);
}

void cli_shape_text(const nabla_tensor *tensor, char out[CLI_SHAPE_TEXT]) {
  char *to = out; /* 32 dimensions of at most 22 bytes fit */
  *to++ = '[';
  for (uint32_t i = 0; i < tensor->rank; i++) {
    if (i) *to++ = ',', *to++ = ' ';
    to = nabla_decimal_write(to, tensor->shape[i]);
  }
  *to++ = ']', *to = '\0';
}

size_t cli_escape(const char *name, size_t length, char out[CLI_ESCAPED]) {
  const uint8_t *bytes = (const uint8_t *)name;
  size_t taken = nabla_utf8_length(bytes, length);
  int control = !taken || nabla_is_control(nabla_utf8_code(bytes, taken));
  if (!taken) taken = 1;
  if (!control) {
    memcpy(out, name, taken);
    out[taken] = '\0';
    return taken;
  }
  for (size_t i = 0; i < taken; i++)
    snprintf(out + 4 * i, 5, "\\x%02x", bytes[i]);
  return taken;
}

const char *cli_plural(uint64_t count) { return count == 1 ? "" : "s"; }

void cli_print_name(FILE *out, const char *name, size_t length) {
  char piece[CLI_ESCAPED];
  for (size_t taken; length; name += taken, length -= taken) {
    taken = cli_escape(name, length, piece);
    fputs(piece, out);
  }
}

void cli_print_text(FILE *out, const char *text) {
  cli_print_name(out, text, strlen(text));
}

static void print_line(cli *c, const char *color, const char *text) {
  cli_progress_clear(c);
  if (c->colored_error)
    fprintf(stderr, "%snabla-quant:%s ", color, PLAIN);
  else
    fputs("nabla-quant: ", stderr);
  cli_print_text(stderr, text); /* it may hold names and patterns */
  fputc('\n', stderr);
}

void cli_note(cli *c, const char *format, ...) {
  char text[512];
  va_list arguments;
  if (cli_given(&c->options, CLI_OPTION_quiet)) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_line(c, YELLOW, text);
}

void cli_error(cli *c, const nabla_diag *diag) {
  char text[sizeof *diag + 64];
  nabla_diag_format(diag, text, sizeof text);
  print_line(c, RED, text);
}
