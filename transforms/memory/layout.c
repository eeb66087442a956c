/* See the header. */
#include "transforms/memory/layout.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST_FIRST_MAX 1024 /* parts: the time is the square of it  */
#define GAPS_MAX          256  /* free gaps; the smallest one is forgotten */

/* ---- largest first ---- */

static int larger_first(const void *left, const void *right) {
  const nabla_layout_part *a = *(nabla_layout_part *const *)left;
  const nabla_layout_part *b = *(nabla_layout_part *const *)right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b;
}

/* Puts `part` in the smallest gap among `placed`, in order of offsets, that
 * holds it, or behind all of them that it meets in time. */
static void place_among(nabla_layout_part *const *placed, size_t count,
                        nabla_layout_part *part) {
  uint64_t end = 0, best = UINT64_MAX;
  bool is_found = false;
  for (size_t i = 0; i < count; i++) {
    const nabla_layout_part *other = placed[i];
    if (other->last < part->first || part->last < other->first) continue;
    if (other->offset > end && other->offset - end >= part->bytes &&
        other->offset - end < best) {
      best = other->offset - end;
      part->offset = end;
      is_found = true;
    }
    if (other->offset + other->bytes > end) end = other->offset + other->bytes;
  }
  if (!is_found) part->offset = end;
}

static void place_largest_first(nabla_layout_part **order, size_t count,
                                nabla_layout_part **placed) {
  qsort(order, count, sizeof *order, larger_first);
  for (size_t i = 0; i < count; i++) {
    place_among(placed, i, order[i]);
    size_t at = i;
    for (; at > 0 && placed[at - 1]->offset > order[i]->offset; at--)
      placed[at] = placed[at - 1];
    placed[at] = order[i];
  }
}

/* ---- in the order of time ---- */

static int sooner_first(const void *left, const void *right) {
  const nabla_layout_part *a = *(nabla_layout_part *const *)left;
  const nabla_layout_part *b = *(nabla_layout_part *const *)right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return larger_first(left, right);
}

static int ends_sooner(const void *left, const void *right) {
  const nabla_layout_part *a = *(nabla_layout_part *const *)left;
  const nabla_layout_part *b = *(nabla_layout_part *const *)right;
  if (a->last != b->last) return a->last < b->last ? -1 : 1;
  return a < b ? -1 : a > b;
}

typedef struct gap {
  uint64_t offset, bytes;
} gap;

typedef struct gaps {
  gap items[GAPS_MAX + 1]; /* in the order of offsets */
  size_t count;
  uint64_t end; /* of all that was placed */
} gaps;

static void remove_gap(gaps *g, size_t at) {
  g->count--;
  memmove(&g->items[at], &g->items[at + 1], (g->count - at) * sizeof *g->items);
}

static void forget_smallest(gaps *g) {
  size_t least = 0;
  for (size_t i = 1; i < g->count; i++)
    if (g->items[i].bytes < g->items[least].bytes) least = i;
  remove_gap(g, least);
}

/* Adds a gap, joined with its neighbours. */
static void add_gap(gaps *g, uint64_t offset, uint64_t bytes) {
  size_t at = 0;
  while (at < g->count && g->items[at].offset < offset) at++;
  if (at < g->count && offset + bytes == g->items[at].offset) {
    bytes += g->items[at].bytes;
    remove_gap(g, at);
  }
  if (at > 0 && g->items[at - 1].offset + g->items[at - 1].bytes == offset) {
    g->items[at - 1].bytes += bytes;
    return;
  }
  memmove(&g->items[at + 1], &g->items[at], (g->count - at) * sizeof *g->items);
  g->items[at] = (gap){offset, bytes};
  if (++g->count > GAPS_MAX) forget_smallest(g);
}

static void place_in_gap(gaps *g, nabla_layout_part *part) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < g->count; i++)
    if (g->items[i].bytes >= part->bytes &&
        (best == SIZE_MAX || g->items[i].bytes < g->items[best].bytes))
      best = i;
  if (best == SIZE_MAX) {
    /* at the end: in the gap that ends there too, where there is one */
    const gap *last = g->count ? &g->items[g->count - 1] : NULL;
    part->offset = g->end;
    if (last && last->offset + last->bytes == g->end) {
      part->offset = last->offset;
      g->count--;
    }
    g->end = part->offset + part->bytes;
    return;
  }
  part->offset = g->items[best].offset;
  g->items[best].offset += part->bytes;
  g->items[best].bytes -= part->bytes;
  if (g->items[best].bytes == 0) remove_gap(g, best);
}

static void place_in_time(nabla_layout_part **order, size_t count,
                          nabla_layout_part **ending) {
  gaps g = {.count = 0};
  size_t ended = 0;
  memcpy(ending, order, count * sizeof *ending);
  qsort(order, count, sizeof *order, sooner_first);
  qsort(ending, count, sizeof *ending, ends_sooner);
  for (size_t i = 0; i < count; i++) {
    for (; ended < i && ending[ended]->last < order[i]->first; ended++)
      add_gap(&g, ending[ended]->offset, ending[ended]->bytes);
    place_in_gap(&g, order[i]);
  }
}

/* ---- the peak ---- */

/* The most bytes in use at one time; `order` and `ending` are overwritten. */
static uint64_t peak_of(nabla_layout_part **order, size_t count,
                        nabla_layout_part **ending) {
  uint64_t now = 0, peak = 0;
  size_t ended = 0;
  memcpy(ending, order, count * sizeof *ending);
  qsort(order, count, sizeof *order, sooner_first);
  qsort(ending, count, sizeof *ending, ends_sooner);
  for (size_t i = 0; i < count; i++) {
    for (; ended < i && ending[ended]->last < order[i]->first; ended++)
      now -= ending[ended]->bytes;
    now += order[i]->bytes;
    if (now > peak) peak = now;
  }
  return peak;
}

/* Rounds sizes up; false where their sum has no place in a block. */
static bool round_sizes(nabla_layout_part *parts, size_t count) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (parts[i].bytes > NABLA_LAYOUT_MAX) return false;
    parts[i].bytes = (parts[i].bytes + NABLA_LAYOUT_ALIGNMENT - 1) /
                     NABLA_LAYOUT_ALIGNMENT * NABLA_LAYOUT_ALIGNMENT;
    total += parts[i].bytes;
    if (total > UINT64_MAX / 2) return false;
  }
  return true;
}

nabla_layout_result nabla_layout_place(nabla_layout_part *parts, size_t count,
                                       nabla_layout_size *out) {
  *out = (nabla_layout_size){0};
  if (count == 0) return NABLA_LAYOUT_DONE;
  if (!round_sizes(parts, count)) return NABLA_LAYOUT_TOO_LARGE;
  nabla_layout_part **order = calloc(count, 2 * sizeof *order);
  if (!order) return NABLA_LAYOUT_NO_MEMORY;
  for (size_t i = 0; i < count; i++) order[i] = &parts[i];
  out->peak = peak_of(order, count, order + count);
  if (count <= LARGEST_FIRST_MAX)
    place_largest_first(order, count, order + count);
  else
    place_in_time(order, count, order + count);
  free(order);
  for (size_t i = 0; i < count; i++)
    if (parts[i].offset + parts[i].bytes > out->bytes)
      out->bytes = parts[i].offset + parts[i].bytes;
  return out->bytes > NABLA_LAYOUT_MAX ? NABLA_LAYOUT_TOO_LARGE
                                       : NABLA_LAYOUT_DONE;
}
