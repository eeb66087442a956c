/* Prints the columns that rows of dialect/ops.def lack, VERIFY and INFER apart,
 * which not every operation needs. passes_ops.txt has the same lines, so that
 * a commit that fills a column says so. Fails where words of a row contradict
 * each other. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "dialect/ops.h"
#include "transforms/autodiff/partials.h"

/* The text of each row: "INFER(unary) TYPES(float) ...". */
static const struct {
  const char *op, *columns;
} rows[] = {
#define OP(id, ...) {#id, #__VA_ARGS__},
#include "dialect/ops.def"
};
#define ROWS (sizeof rows / sizeof *rows)

enum { MAX_COLUMNS = 32, MAX_NAME = 24 };

static bool has_column(const char *columns, const char *name) {
  size_t length = strlen(name);
  for (const char *at = columns; (at = strstr(at, name)); at += length)
    if ((at == columns || at[-1] == ' ') && at[length] == '(') return true;
  return false;
}

static bool says(size_t row, const char *words) {
  return strstr(rows[row].columns, words) != NULL;
}

/* Names of all columns that a row has, in their order of appearance. */
static size_t list_columns(char names[MAX_COLUMNS][MAX_NAME]) {
  size_t count = 0;
  for (size_t i = 0; i < ROWS; i++)
    for (const char *at = rows[i].columns; *at;) {
      char name[MAX_NAME] = "";
      int length = (int)strcspn(at, "(");
      (void)snprintf(name, sizeof name, "%.*s", length, at);
      bool known = false;
      for (size_t c = 0; c < count; c++) known |= !strcmp(names[c], name);
      if (!known && count < MAX_COLUMNS) memcpy(names[count++], name, MAX_NAME);
      at += strcspn(at, ")");
      at += strspn(at, ") ");
    }
  return count;
}

/* A word, or NAME_BY(function) in its place. */
static bool is_filled(const char *columns, const char *name) {
  char by[MAX_NAME + 4];
  (void)snprintf(by, sizeof by, "%s_BY", name);
  return has_column(columns, name) || has_column(columns, by);
}

static bool is_optional(const char *name) {
  size_t length = strlen(name);
  return !strcmp(name, "VERIFY") || !strcmp(name, "INFER") ||
         !strcmp(name, "BATCH_DIMS") ||
         (length > 3 && !strcmp(name + length - 3, "_BY"));
}

static void print_empty(void) {
  char names[MAX_COLUMNS][MAX_NAME];
  size_t count = list_columns(names);
  for (size_t i = 0; i < ROWS; i++) {
    bool any = false;
    for (size_t c = 0; c < count; c++) {
      if (is_optional(names[c]) || is_filled(rows[i].columns, names[c]))
        continue;
      printf("%s%s", any ? " " : rows[i].op, any ? "" : ": ");
      printf("%s", names[c]);
      any = true;
    }
    if (any) printf("\n");
  }
}

/* `is` and `must` of a row: what one implies of the other. */
static int check(size_t row, bool is, bool must, const char *what) {
  if (!is || must) return 0;
  printf("failed: %s %s, but has %s\n", rows[row].op, what, rows[row].columns);
  return 1;
}

/* Whether an operation has a row of transforms/autodiff/refusals.def. */
static bool is_refused(const char *op) {
  static const char *const refused[] = {
#define REFUSAL(op, why) #op,
#include "transforms/autodiff/refusals.def"
#undef REFUSAL
  };
  bool found = false;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    found = found || !strcmp(refused[i], op);
  return found;
}

/* What the word of DIFF asks for: a transpose, a reason, formulas. */
static int check_diff(size_t row, nabla_diff_rule diff) {
  const char *op = rows[row].op;
  const bool pairs = says(row, "INFER(binary)") || says(row, "INFER(mul)");
  int failed =
      check(row,
            (diff == NABLA_DIFF_linear || diff == NABLA_DIFF_product) !=
                has_column(rows[row].columns, "LINEAR_BY"),
            false, "must name its transpose if, and only if, it is linear");
  failed += check(row, (diff == NABLA_DIFF_refused) != is_refused(op), false,
                  "must have a reason if, and only if, it is refused");
  for (int i = 0; diff == NABLA_DIFF_formula && i < (pairs ? 2 : 1); i++)
    failed += check(row, !nabla_partial_find(op, i), false,
                    "lacks a row of partials.def");
  return failed;
}

/* Whether an operation has a row of transforms/shard/undivided.def. */
static bool is_undivided(const char *op) {
  static const char *const whole[] = {
#define UNDIVIDED(op, why) #op,
#include "transforms/shard/undivided.def"
#undef UNDIVIDED
  };
  bool found = false;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    found = found || !strcmp(whole[i], op);
  return found;
}

static int check_shard(size_t row, nabla_shard_rule shard) {
  int failed = check(row, shard == NABLA_SHARD_empty, false,
                     "must say how it is divided (SHARD)");
  failed +=
      check(row, (shard == NABLA_SHARD_none) != is_undivided(rows[row].op),
            false, "must have a reason if, and only if, SHARD is none");
  return failed + check(row, says(row, "LOWER(control)"),
                        shard == NABLA_SHARD_control, "is lowered by control");
}

static int check_words(size_t row, const nabla_op_row *op) {
  const char *float_types = nabla_type_class_types(op->types);
  bool has_floats = strstr(float_types, "f32") != NULL;
  bool is_elementwise = says(row, "INFER(unary)") ||
                        says(row, "INFER(binary)") ||
                        says(row, "INFER(predicate)");
  bool is_composite = says(row, "LOWER(composite)");
  int failed = 0;
  failed += check(row, strcmp(rows[row].op, op->name + strlen("nabla.")) != 0,
                  false, "is not the operation of its row");
  failed += check(row, is_elementwise,
                  op->batch == NABLA_BATCH_elementwise &&
                      op->shard == NABLA_SHARD_elementwise,
                  "works element by element");
  failed += check(row, !has_floats && !says(row, "INFER(select)"),
                  op->diff == NABLA_DIFF_zero, "takes no floats");
  failed += check(row,
                  says(row, "INFER(predicate)") ||
                      says(row, "INFER(compare)") || says(row, "INFER(arg)"),
                  op->diff == NABLA_DIFF_zero, "gives no floats");
  failed += check(row, is_composite != (op->diff == NABLA_DIFF_parts), false,
                  "must be a composite if, and only if, DIFF is parts");
  failed += check(row, is_composite,
                  (op->batch == NABLA_BATCH_parts || says(row, "BATCH_BY(")) &&
                      op->shard == NABLA_SHARD_own,
                  "is a composite");
  failed +=
      check(row, (op->batch == NABLA_BATCH_dims) != says(row, "BATCH_DIMS("),
            false, "lists dimensions if, and only if, BATCH is dims");
  failed +=
      check(row,
            !says(row, "VERIFY(shard_map)") && /* nabla-partition removes it */
                says(row, "LOWER(control)") != (op->diff == NABLA_DIFF_control),
            false, "must be lowered by control if DIFF is control");
  failed += check(row, op->diff == NABLA_DIFF_formula,
                  op->batch == NABLA_BATCH_elementwise,
                  "has a derivative element by element");
  return failed + check_diff(row, op->diff) + check_shard(row, op->shard);
}

int main(void) {
  size_t count;
  int failed = 0;
  const nabla_op_row *ops = nabla_op_rows(&count);
  for (size_t i = 0; i < ROWS && i < count; i++)
    failed += check_words(i, &ops[i]);
  if (count != ROWS) printf("failed: %zu rows, not %zu\n", count, ROWS);
  print_empty();
  return failed > 0 || count != ROWS;
}
