/* Names of numerics and layouts; see nabla/numerics.h. */
#include "nabla/numerics.h"

#include <string.h>

static const char *const numerics_names[] = {
#define ROW(id, name, summary) name,
    NABLA_NUMERICS_LIST(ROW)};
static const char *const layout_names[] = {NABLA_WEIGHT_LAYOUT_LIST(ROW)
#undef ROW
};

/* The number of `name` in a list, or -1. */
static int seek(const char *const *names, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

const char *nabla_numerics_name(nabla_numerics numerics) {
  return (unsigned)numerics < NABLA_NUMERICS_COUNT ? numerics_names[numerics]
                                                   : NULL;
}

const char *nabla_weight_layout_name(nabla_weight_layout layout) {
  return (unsigned)layout < NABLA_WEIGHT_LAYOUT_COUNT ? layout_names[layout]
                                                      : NULL;
}

int nabla_numerics_find(const char *name, nabla_numerics *out) {
  int found = seek(numerics_names, NABLA_NUMERICS_COUNT, name);
  if (found >= 0) *out = (nabla_numerics)found;
  return found >= 0;
}

int nabla_weight_layout_find(const char *name, nabla_weight_layout *out) {
  int found = seek(layout_names, NABLA_WEIGHT_LAYOUT_COUNT, name);
  if (found >= 0) *out = (nabla_weight_layout)found;
  return found >= 0;
}
