/* See x86_features.h. */
#include "lib/base/x86_features.h"

#include <string.h>

#define ASKED 1
#define FREE  0
#define ANY   0
#define YMM   0
#define ZMM   0
#define APX   0
#define TMM   1
#define FEATURE(id, name, implied, leaf, subleaf, reg, bit, state, use) \
  {name, implied, use, state},
static const struct {
  const char *name, *implied;
  int asked, tiles;
} rows[NABLA_X86_FEATURE_COUNT] = {
#include "lib/base/x86_features.def"
};
#undef FEATURE

static int is_row(size_t row, const char *name, size_t length) {
  return strlen(rows[row].name) == length &&
         !memcmp(rows[row].name, name, length);
}

size_t nabla_x86_feature_find(const char *name, size_t length) {
  size_t i = 0;
  while (i < NABLA_X86_FEATURE_COUNT && !is_row(i, name, length)) i++;
  return i;
}

const char *nabla_x86_feature_name(size_t index) { return rows[index].name; }

int nabla_x86_feature_is_asked(size_t index) { return rows[index].asked; }

int nabla_x86_feature_uses_tiles(size_t index) { return rows[index].tiles; }

/* Cuts the next name off a list "a,b"; 0 at its end. */
static size_t next_name(const char **list, const char **out) {
  size_t length = strcspn(*list, ",");
  *out = *list;
  *list += length + ((*list)[length] == ',');
  return length;
}

/* Rows stand below everything that they imply: both recursions end. */
void nabla_x86_feature_add(nabla_x86_features *set, size_t feature) {
  const char *list = rows[feature].implied, *name;
  set->has[feature] = 1;
  for (size_t length; (length = next_name(&list, &name)) > 0;) {
    size_t implied = nabla_x86_feature_find(name, length);
    if (implied < feature && !set->has[implied])
      nabla_x86_feature_add(set, implied);
  }
}

void nabla_x86_feature_remove(nabla_x86_features *set, size_t feature) {
  set->has[feature] = 0;
  for (size_t i = feature + 1; i < NABLA_X86_FEATURE_COUNT; i++) {
    const char *list = rows[i].implied, *name;
    for (size_t length; set->has[i] && (length = next_name(&list, &name)) > 0;)
      if (is_row(feature, name, length)) nabla_x86_feature_remove(set, i);
  }
}
