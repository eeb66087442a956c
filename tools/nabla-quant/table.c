/* Tables of text: cells are collected and printed once all widths are known. A
 * cell with the same text as the one above it takes one byte, so that listings
 * of millions of tensors, most of them alike, need little memory. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "lib/base/controls.h"
#include "tools/nabla-quant/cli.h"

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

#define TABLE_LIMIT ((size_t)1 << 31) /* bytes of all cells */
#define WIDEST      72     /* a wider cell of a left column pushes the others */
#define REPEATED    '\x01' /* such a cell; controls in others are escaped */

void cli_table_init(cli_table *table, const char *const *heads, size_t columns,
                    nabla_diag *diag) {
  *table = (cli_table){.heads = heads, .columns = columns, .diag = diag};
  nabla_buffer_init(&table->cells, NULL, "rows of a table", TABLE_LIMIT);
  for (size_t i = 0; i < columns; i++)
    table->column[i].width = strlen(heads[i]) - (*heads[i] == '>');
}

static int is_right(const cli_table *table, size_t column) {
  return *table->heads[column] == '>';
}

/* The width of a text on the screen: its number of code points. */
static size_t width_of(const char *text, size_t length) {
  size_t width = 0;
  for (size_t i = 0; i < length; i++)
    width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

static void next_cell(cli_table *table) {
  if (++table->next == table->columns) table->next = 0;
}

/* Makes the bytes from `begin` on the text of the next cell. */
static void end_cell(cli_table *table, size_t begin) {
  cli_column *column = &table->column[table->next];
  const size_t length = table->cells.size - begin;
  size_t width = width_of((const char *)table->cells.data + begin, length);
  table->status = nabla_buffer_append(&table->cells, "", 1, table->diag);
  if (table->status) return;
  if (!is_right(table, table->next) && width > WIDEST) width = WIDEST;
  if (width > column->width) column->width = width;
  if (length > column->longest) column->longest = length;
  column->last = begin;
  column->length = length;
  column->has_text = 1;
  column->has_value = 0;
  next_cell(table);
}

/* Adds a repeated cell if the cell above is `text`; returns whether it is. A
 * cell whose text was escaped differs from its source and is not repeated. */
static int repeat_text(cli_table *table, const char *text, size_t length) {
  const cli_column *above = &table->column[table->next];
  if (!above->has_text || above->length != length ||
      (length && memcmp(table->cells.data + above->last, text, length) != 0))
    return 0;
  table->status =
      nabla_buffer_append(&table->cells, &(char){REPEATED}, 1, table->diag);
  next_cell(table);
  return 1;
}

void cli_table_name(cli_table *table, const char *name, size_t length) {
  char piece[CLI_ESCAPED];
  const size_t begin = table->cells.size;
  if (table->status || repeat_text(table, name, length)) return;
  while (length && !table->status) {
    size_t taken = nabla_plain_length((const uint8_t *)name, length),
           shown = taken;
    const char *text = name;
    if (!taken) {
      taken = cli_escape(name, length, piece);
      text = piece, shown = strlen(piece);
    }
    table->status =
        nabla_buffer_append(&table->cells, text, shown, table->diag);
    name += taken, length -= taken;
  }
  if (!table->status) end_cell(table, begin);
}

void cli_table_text(cli_table *table, const char *text) {
  cli_table_name(table, text, strlen(text));
}

void cli_table_cell(cli_table *table, const char *format, ...) {
  char text[CLI_SHAPE_TEXT];
  va_list arguments;
  va_start(arguments, format);
  const int wrote = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (wrote < 0) text[0] = '\0';
  cli_table_text(table, text);
}

/* A number is formatted only if it differs from that of the cell above, because
 * most of millions of numbers are equal. */
void cli_table_real(cli_table *table, char conversion, int digits,
                    double value) {
  cli_column *column = &table->column[table->next];
  char text[400]; /* the largest double has 309 digits before the point */
  if (column->has_value && !memcmp(&column->value, &value, sizeof value)) {
    const char *above = (const char *)table->cells.data + column->last;
    if (!table->status) (void)repeat_text(table, above, column->length);
    return;
  }
  snprintf(text, sizeof text, conversion == 'f' ? "%.*f" : "%.*g", digits,
           value);
  cli_table_text(table, text);
  column->has_value = 1;
  column->value = value;
}

void cli_table_drop(cli_table *table) { nabla_buffer_deinit(&table->cells); }

/* ---- printing ---- */

/* The line that is being printed. Repeated cells keep their bytes in it. */
typedef struct line {
  const cli_table *table;
  char *text;
  size_t end[CLI_TABLE_MAX_COLUMNS]; /* of each cell with its padding */
  const char *cell[CLI_TABLE_MAX_COLUMNS];
  size_t length[CLI_TABLE_MAX_COLUMNS];
} line;

static char *blanks(char *to, size_t count) {
  memset(to, ' ', count);
  return to + count;
}

/* Writes a cell after the previous ones. @return whether its end has moved */
static int put_cell(line *l, size_t column) {
  const cli_table *table = l->table;
  const size_t length = l->length[column], wanted = table->column[column].width;
  const size_t width = width_of(l->cell[column], length);
  const size_t padding = width < wanted ? wanted - width : 0;
  const int right = is_right(table, column);
  char *to = l->text + (column ? l->end[column - 1] : 0);
  if (column) to = blanks(to, 2);
  if (right) to = blanks(to, padding);
  if (length) memcpy(to, l->cell[column], length);
  to += length;
  if (!right && column + 1 < table->columns) to = blanks(to, padding);
  const size_t end = (size_t)(to - l->text);
  const int moved = end != l->end[column];
  l->end[column] = end;
  return moved;
}

/* Prints the rows from `text` to `end`. In a line, cells are written again from
 * the first one whose end moves. */
static void print_rows(line *l, const char *text, const char *end) {
  const size_t last = l->table->columns - 1;
  int moved = 0;
  for (size_t column = 0; text < end; column++) {
    int changed = moved;
    if (*text == REPEATED) {
      text++;
    } else {
      l->cell[column] = text;
      l->length[column] = strlen(text);
      text += l->length[column] + 1;
      changed = 1;
    }
    if (changed && put_cell(l, column)) moved = 1;
    if (column < last) continue;
    l->text[l->end[last]] = '\n';
    fwrite_unlocked(l->text, 1, l->end[last] + 1, stdout);
    column = SIZE_MAX, moved = 0; /* the next is 0 */
  }
}

static nabla_status print_table(cli_table *table, int colored) {
  const char *cells = (const char *)table->cells.data;
  line l = {.table = table};
  size_t size = 1; /* the end of the line */
  void *block;
  for (size_t i = 0; i < table->columns; i++) {
    const size_t head = strlen(table->heads[i]);
    const size_t longest = table->column[i].longest;
    size += 2 + table->column[i].width + (longest > head ? longest : head);
  }
  NABLA_TRY(nabla_alloc(NULL, size, 1, &block, table->diag));
  l.text = block;
  if (colored) fputs(BOLD, stdout);
  for (size_t i = 0; i < table->columns; i++) {
    l.cell[i] = table->heads[i] + is_right(table, i);
    l.length[i] = strlen(l.cell[i]);
    (void)put_cell(&l, i);
  }
  fwrite(l.text, 1, l.end[table->columns - 1], stdout);
  fputs(colored ? PLAIN "\n" : "\n", stdout);
  if (table->cells.size) print_rows(&l, cells, cells + table->cells.size);
  nabla_free(NULL, block, size, 1);
  return NABLA_OK;
}

nabla_status cli_table_print(cli_table *table, int colored) {
  nabla_status status = table->status;
  if (!status && table->columns) status = print_table(table, colored);
  cli_table_drop(table);
  return status;
}
