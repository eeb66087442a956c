/* Prints what dialect/ops.def leaves empty: for each op the columns that are
 * `_`. passes_ops.txt has the same, so that who fills a column in says so. */
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 10 };

static const struct {
  const char *op, *values[COLUMNS];
} rows[] = {
#define OP(id, verify, infer, lowering, implicit, vjp, jvp, batch, factor,     \
           cost, types)                                                        \
  {#id,                                                                        \
   {#verify, #infer, #lowering, #implicit, #vjp, #jvp, #batch, #factor, #cost, \
    #types}},
#include "dialect/ops.def"
#undef OP
};

static const char *const columns[COLUMNS] = {
    "verify", "infer", "lowering", "implicit", "vjp",
    "jvp",    "batch", "factor",   "cost",     "types",
};

int main(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    printf("%s:", rows[i].op);
    for (size_t c = 0; c < COLUMNS; c++)
      if (!strcmp(rows[i].values[c], "_")) printf(" %s", columns[c]);
    printf("\n");
  }
  return 0;
}
