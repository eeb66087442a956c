/* See partials.h. */
#include "transforms/autodiff/partials.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#define PARTIAL(op, operand, text) +1
enum {
  PARTIALS = 0
#include "transforms/autodiff/partials.def"
};
#undef PARTIAL

static nabla_formula_tree trees[PARTIALS];
static nabla_formula partials[] = {
#define PARTIAL(op, operand, text) {#op "." #operand, "a b c r", text, NULL},
#include "transforms/autodiff/partials.def"
#undef PARTIAL
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The table is part of the program, and a test parses each row. */
static void parse_all(void) {
  for (size_t i = 0; i < PARTIALS; i++) {
    const char *error = nabla_formula_parse(&partials[i], &trees[i], NULL);
    assert(!error);
    (void)error;
    partials[i].tree = &trees[i];
  }
}

const nabla_formula *nabla_partials(size_t *out_count) {
  (void)pthread_once(&once, parse_all);
  *out_count = PARTIALS;
  return partials;
}

const nabla_formula *nabla_partial_find(const char *op, int operand) {
  size_t count;
  const size_t length = strlen(op);
  const nabla_formula *all = nabla_partials(&count);
  for (size_t i = 0; i < count; i++)
    if (!strncmp(all[i].name, op, length) && all[i].name[length] == '.' &&
        all[i].name[length + 1] == '0' + operand)
      return &all[i];
  return NULL;
}
