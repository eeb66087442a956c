/* See the header. */
#include "transforms/memory/open_layout.h"

#include <stdlib.h>
#include <string.h>

static bool meet(const nabla_open_part *a, const nabla_open_part *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The end of all static parts that live at a time with `part`. */
static uint64_t floor_of(const nabla_open_part *part,
                         const nabla_layout_part *fixed, size_t count) {
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++)
    if (fixed[i].first <= part->last && part->first <= fixed[i].last &&
        fixed[i].offset + fixed[i].bytes > end)
      end = fixed[i].offset + fixed[i].bytes;
  return end;
}

/* Whether a part that `part` lies on already lies on `low` itself. */
static bool is_implied(const nabla_open_part *parts,
                       const nabla_open_part *part, size_t low) {
  for (size_t i = 0; i < part->below_count; i++)
    if (meet(&parts[part->below[i]], &parts[low])) return true;
  return false;
}

/* Finds the parts that number `at` of the order lies on, the highest first:
 * most of the others are below those. */
static bool find_below(nabla_open_part *parts, const size_t *order, size_t at,
                       size_t *found) {
  nabla_open_part *part = &parts[order[at]];
  part->below = found;
  part->below_count = 0;
  for (size_t i = at; i-- > 0;)
    if (meet(part, &parts[order[i]]) && !is_implied(parts, part, order[i]))
      found[part->below_count++] = order[i];
  part->below = NULL;
  if (part->below_count == 0) return true;
  part->below = calloc(part->below_count, sizeof *part->below);
  if (!part->below) return false;
  memcpy(part->below, found, part->below_count * sizeof *found);
  return true;
}

/* The order of the offsets that parts of the likely sizes would have. */
static bool find_order(const nabla_open_part *parts, size_t count,
                       size_t *order) {
  nabla_layout_part *likely = calloc(count, sizeof *likely);
  nabla_layout_size size;
  for (size_t i = 0; likely && i < count; i++) {
    likely[i] = (nabla_layout_part){.bytes = parts[i].likely,
                                    .first = parts[i].first,
                                    .last = parts[i].last};
    if (likely[i].bytes > NABLA_LAYOUT_MAX / NABLA_OPEN_LAYOUT_MAX)
      likely[i].bytes = NABLA_LAYOUT_MAX / NABLA_OPEN_LAYOUT_MAX;
  }
  const bool good =
      likely && nabla_layout_place(likely, count, &size) == NABLA_LAYOUT_DONE;
  for (size_t i = 0; good && i < count; i++) {
    size_t at = i;
    for (; at > 0 && likely[order[at - 1]].offset > likely[i].offset; at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  free(likely);
  return good;
}

bool nabla_open_layout_make(nabla_open_part *parts, size_t count,
                            const nabla_layout_part *fixed, size_t fixed_count,
                            size_t *order) {
  if (count == 0) return true;
  size_t *found = calloc(count, sizeof *found);
  bool good = found && find_order(parts, count, order);
  for (size_t i = 0; good && i < count; i++)
    good = find_below(parts, order, i, found);
  for (size_t i = 0; good && i < count; i++)
    parts[i].floor = floor_of(&parts[i], fixed, fixed_count);
  free(found);
  return good;
}

void nabla_open_layout_deinit(nabla_open_part *parts, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(parts[i].below);
    parts[i].below = NULL;
    parts[i].below_count = 0;
  }
}
