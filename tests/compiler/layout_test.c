/* Layouts of planned blocks, compared with what they must fulfil: no overlap,
 * a size near the peak, little time. */
#include "transforms/memory/layout.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "transforms/memory/open_layout.h"

static uint64_t state;

static uint64_t number(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

/* Checks every pair, and computes the peak at each time. */
static void check(const nabla_layout_part *parts, size_t count,
                  const nabla_layout_size *size) {
  uint64_t peak = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t now = 0;
    cr_assert_eq(parts[i].offset % NABLA_LAYOUT_ALIGNMENT, 0);
    cr_assert_leq(parts[i].offset + parts[i].bytes, size->bytes);
    for (size_t k = 0; k < count; k++) {
      if (parts[k].first <= parts[i].first && parts[i].first <= parts[k].last)
        now += parts[k].bytes;
      cr_assert(i == k || parts[i].last < parts[k].first ||
                parts[k].last < parts[i].first ||
                parts[i].offset + parts[i].bytes <= parts[k].offset ||
                parts[k].offset + parts[k].bytes <= parts[i].offset);
    }
    if (now > peak) peak = now;
  }
  cr_assert_eq(peak, size->peak);
}

static void fill(nabla_layout_part *parts, size_t count, size_t length) {
  for (size_t i = 0; i < count; i++) {
    parts[i] = (nabla_layout_part){.bytes = 1 + number(1u << number(16)),
                                   .first = i / 2};
    parts[i].last = parts[i].first + number(length);
  }
}

Test(layout, parts_that_meet_in_time_do_not_overlap) {
  nabla_layout_part parts[3000];
  nabla_layout_size size;
  for (size_t round = 0; round < 60; round++) {
    const size_t count = 1 + (size_t)number(round < 50 ? 60 : 3000);
    state = round;
    fill(parts, count, 1 + round / 2);
    cr_assert_eq(nabla_layout_place(parts, count, &size), NABLA_LAYOUT_DONE);
    check(parts, count, &size);
    cr_expect_leq(size.bytes, size.peak + size.peak / 3, "%zu: %ju for %ju",
                  round, (uintmax_t)size.bytes, (uintmax_t)size.peak);
  }
}

Test(layout, a_chain_needs_two_parts) {
  static nabla_layout_part parts[30000];
  for (size_t count = 2; count <= 30000; count *= 10) {
    nabla_layout_size size;
    for (size_t i = 0; i < count; i++)
      parts[i] = (nabla_layout_part){.bytes = 1000, .first = i, .last = i + 1};
    cr_assert_eq(nabla_layout_place(parts, count, &size), NABLA_LAYOUT_DONE);
    cr_expect_eq(size.bytes, 2 * 1024);
  }
}

Test(layout, time_does_not_grow_with_the_square) {
  const size_t count = 200000;
  nabla_layout_part *parts = calloc(count, sizeof *parts);
  nabla_layout_size size;
  cr_assert_not_null(parts);
  fill(parts, count, 2000);
  const clock_t start = clock();
  cr_assert_eq(nabla_layout_place(parts, count, &size), NABLA_LAYOUT_DONE);
  cr_expect_lt((double)(clock() - start) / CLOCKS_PER_SEC, 5);
  free(parts);
}

Test(layout, sizes_that_overflow_are_refused) {
  nabla_layout_part parts[3] = {{.bytes = UINT64_MAX}};
  nabla_layout_size size;
  cr_expect_eq(nabla_layout_place(parts, 1, &size), NABLA_LAYOUT_TOO_LARGE);
  for (int i = 0; i < 3; i++)
    parts[i] = (nabla_layout_part){.bytes = NABLA_LAYOUT_MAX / 2};
  cr_expect_eq(nabla_layout_place(parts, 3, &size), NABLA_LAYOUT_TOO_LARGE);
  cr_expect_eq(nabla_layout_place(parts, 2, &size), NABLA_LAYOUT_DONE);
  cr_expect_eq(size.bytes, NABLA_LAYOUT_MAX);
  cr_expect_eq(nabla_layout_place(parts, 0, &size), NABLA_LAYOUT_DONE);
}

/* ---- sizes known at run time ---- */

enum { OPEN = 60, FIXED = 20 };

typedef struct open_case {
  nabla_open_part parts[OPEN];
  nabla_layout_part fixed[FIXED];
  nabla_layout_part placed[OPEN + FIXED]; /* the open parts first */
  nabla_layout_size fixed_size;
  size_t order[OPEN];
  size_t count;
} open_case;

static void make_open(open_case *c, size_t round) {
  state = round;
  *c = (open_case){.count = (size_t)number(OPEN + 1)};
  fill(c->fixed, FIXED, 1 + round / 2);
  for (size_t i = 0; i < c->count; i++) {
    c->parts[i] = (nabla_open_part){.likely = 1 + number(1u << number(16)),
                                    .first = (size_t)number(OPEN / 2)};
    c->parts[i].last = c->parts[i].first + number(1 + round / 2);
  }
  cr_assert_eq(nabla_layout_place(c->fixed, FIXED, &c->fixed_size),
               NABLA_LAYOUT_DONE);
  cr_assert(
      nabla_open_layout_make(c->parts, c->count, c->fixed, FIXED, c->order));
}

static uint64_t peak_of(const nabla_layout_part *parts, size_t count) {
  uint64_t peak = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t now = 0;
    for (size_t k = 0; k < count; k++)
      if (parts[k].first <= parts[i].first && parts[i].first <= parts[k].last)
        now += parts[k].bytes;
    if (now > peak) peak = now;
  }
  return peak;
}

/* Places parts as compiled code does, each `scale` times as large as likely, or
 * of any size where that is 0, and checks every pair. */
static void check_open(open_case *c, uint64_t scale) {
  nabla_layout_size size = {.bytes = c->fixed_size.bytes};
  for (size_t i = 0; i < c->count; i++) {
    const nabla_open_part *part = &c->parts[c->order[i]];
    nabla_layout_part *out = &c->placed[c->order[i]];
    const uint64_t bytes = scale ? part->likely * scale : number(100000);
    *out = (nabla_layout_part){(bytes + 63) / 64 * 64, part->first, part->last,
                               part->floor};
    for (size_t k = 0; k < part->below_count; k++) {
      const nabla_layout_part *below = &c->placed[part->below[k]];
      if (below->offset + below->bytes > out->offset)
        out->offset = below->offset + below->bytes;
    }
    if (out->offset + out->bytes > size.bytes)
      size.bytes = out->offset + out->bytes;
  }
  for (size_t i = 0; i < FIXED; i++) c->placed[c->count + i] = c->fixed[i];
  size.peak = peak_of(c->placed, c->count + FIXED);
  check(c->placed, c->count + FIXED, &size);
  if (scale)
    cr_expect_leq(size.bytes,
                  c->fixed_size.bytes + peak_of(c->placed, c->count) * 3 / 2);
}

Test(layout, parts_of_any_size_do_not_overlap) {
  static open_case c;
  for (size_t round = 0; round < 60; round++) {
    make_open(&c, round);
    for (uint64_t scale = 0; scale < 4; scale++) check_open(&c, scale);
    nabla_open_layout_deinit(c.parts, c.count);
  }
}

/* Arrays of one unknown size, one after the other: as many places as live at
 * one time. */
Test(layout, a_chain_of_unknown_sizes_needs_two_places) {
  static nabla_open_part parts[NABLA_OPEN_LAYOUT_MAX];
  static size_t order[NABLA_OPEN_LAYOUT_MAX];
  static uint64_t ends[NABLA_OPEN_LAYOUT_MAX];
  const uint64_t bytes = 4096;
  uint64_t end = 0;
  for (size_t i = 0; i < NABLA_OPEN_LAYOUT_MAX; i++)
    parts[i] = (nabla_open_part){.likely = 1000, .first = i, .last = i + 1};
  cr_assert(
      nabla_open_layout_make(parts, NABLA_OPEN_LAYOUT_MAX, NULL, 0, order));
  for (size_t i = 0; i < NABLA_OPEN_LAYOUT_MAX; i++) {
    const nabla_open_part *part = &parts[order[i]];
    uint64_t offset = 0;
    cr_assert_leq(part->below_count, 2);
    for (size_t k = 0; k < part->below_count; k++)
      if (ends[part->below[k]] > offset) offset = ends[part->below[k]];
    ends[order[i]] = offset + bytes;
    if (offset + bytes > end) end = offset + bytes;
  }
  cr_expect_eq(end, 2 * bytes);
  nabla_open_layout_deinit(parts, NABLA_OPEN_LAYOUT_MAX);
}
