/* Text for people: tables, sizes, names from files, notes and errors. */
#include <stdarg.h>
#include <string.h>

#include "lib/base/controls.h"
#include "lib/base/utf8.h"
#include "tools/nabla-quant/cli.h"

#define BOLD   "\033[1m"
#define RED    "\033[1;31m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

#define TABLE_LIMIT ((size_t)1 << 31) /* bytes of all cells */
#define ESCAPED     17 /* an escaped character of 4 bytes, and a NUL */
#define WIDEST      72 /* a wider cell of a left column pushes the others */

void cli_size_text(uint64_t bytes, char out[CLI_SIZE_TEXT]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  if (bytes < 1024) {
    snprintf(out, CLI_SIZE_TEXT, "%u B", (unsigned)bytes);
    return;
  }
  /* 1023.995 would print as 1024.00 */
  for (value /= 1024; value >= 1023.995 && unit < 5; unit++) value /= 1024;
  snprintf(out, CLI_SIZE_TEXT, "%.2f %s", value, units[unit]);
}

void cli_shape_text(const nabla_tensor *tensor, char out[CLI_SHAPE_TEXT]) {
  size_t used = 1;
  out[0] = '[';
  for (uint32_t i = 0; i < tensor->rank; i++) {
    int wrote = snprintf(out + used, CLI_SHAPE_TEXT - used - 1, "%s%llu",
                         i ? ", " : "", (unsigned long long)tensor->shape[i]);
    used += (size_t)wrote; /* 32 dimensions of at most 22 bytes fit */
  }
  out[used] = ']', out[used + 1] = '\0';
}

/* Escapes the character at `name` into `out`; returns the bytes that it has. */
static size_t escape(const char *name, size_t length, char out[ESCAPED]) {
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
  char piece[ESCAPED];
  for (size_t taken; length; name += taken, length -= taken) {
    taken = escape(name, length, piece);
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

void cli_table_init(cli_table *table, const char *const *heads, size_t columns,
                    nabla_diag *diag) {
  *table = (cli_table){.heads = heads, .columns = columns, .diag = diag};
  nabla_buffer_init(&table->cells, NULL, "rows of a table", TABLE_LIMIT);
  for (size_t i = 0; i < columns; i++)
    table->width[i] = strlen(heads[i]) - (*heads[i] == '>');
}

/* Columns on screen: code points. */
static size_t width_of(const char *text) {
  size_t width = 0;
  for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

/* Takes the text in the last `length` + 1 bytes of the cells. */
static void end_cell(cli_table *table, const char *text) {
  size_t width = width_of(text), column = table->next;
  int right = *table->heads[column] == '>';
  if (!right && width > WIDEST) width = WIDEST;
  if (width > table->width[column]) table->width[column] = width;
  table->next = (column + 1) % table->columns;
}

void cli_table_cell(cli_table *table, const char *format, ...) {
  char text[CLI_SHAPE_TEXT];
  va_list arguments;
  va_start(arguments, format);
  if (!strcmp(format, "%s")) { /* most cells: nothing to format */
    const char *whole = va_arg(arguments, const char *);
    va_end(arguments);
    cli_table_name(table, whole, strnlen(whole, sizeof text - 1));
    return;
  }
  int wrote = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (wrote < 0) text[0] = '\0';
  cli_table_name(table, text, strlen(text));
}

/* Bytes at `name` that are shown as they are: printable ASCII. */
static size_t plain(const char *name, size_t length) {
  size_t at = 0;
  while (at < length && name[at] >= 0x20 && name[at] < 0x7f) at++;
  return at;
}

void cli_table_name(cli_table *table, const char *name, size_t length) {
  char piece[ESCAPED];
  size_t begin = table->cells.size;
  while (length && !table->status) {
    size_t taken = plain(name, length), shown = taken;
    const char *text = name;
    if (!taken) {
      taken = escape(name, length, piece);
      text = piece, shown = strlen(piece);
    }
    table->status =
        nabla_buffer_append(&table->cells, text, shown, table->diag);
    name += taken, length -= taken;
  }
  if (table->status) return;
  table->status = nabla_buffer_append(&table->cells, NULL, 1, table->diag);
  if (!table->status) end_cell(table, (const char *)table->cells.data + begin);
}

static void print_blanks(size_t count) {
  while (count--) putchar_unlocked(' ');
}

static void print_cell(const cli_table *table, size_t column,
                       const char *text) {
  size_t width = width_of(text), wanted = table->width[column];
  size_t padding = width < wanted ? wanted - width : 0;
  int right = *table->heads[column] == '>', last = column + 1 == table->columns;
  if (column) print_blanks(2);
  if (right) print_blanks(padding);
  fwrite_unlocked(text, 1, strlen(text), stdout);
  if (!right && !last) print_blanks(padding);
}

void cli_table_drop(cli_table *table) { nabla_buffer_deinit(&table->cells); }

nabla_status cli_table_print(cli_table *table, int colored) {
  const char *text = (const char *)table->cells.data;
  const char *end = table->status ? text : text + table->cells.size;
  if (!table->status) {
    if (colored) fputs(BOLD, stdout);
    for (size_t i = 0; i < table->columns; i++)
      print_cell(table, i, table->heads[i] + (*table->heads[i] == '>'));
    fputs(colored ? PLAIN "\n" : "\n", stdout);
  }
  for (size_t column = 0; text < end && table->columns;
       text += strlen(text) + 1) {
    print_cell(table, column, text);
    column = (column + 1) % table->columns;
    if (!column) putchar('\n');
  }
  cli_table_drop(table);
  return table->status;
}
