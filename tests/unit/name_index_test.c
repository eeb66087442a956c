/* The index of names: all found, nothing else found, duplicates named. */
#include "quant/formats/name_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

/* Name i is the decimal number of i % `period`. */
typedef struct numbers {
  size_t period;
} numbers;

enum { MOST = 100010 };
static char texts[MOST][8];

static const char *number_name(const void *self, size_t index,
                               size_t *out_length) {
  const numbers *n = self;
  const size_t number = index % n->period;
  *out_length = strlen(texts[number]);
  return texts[number];
}

static void set_up(void) {
  for (size_t i = 0; i < MOST; i++)
    snprintf(texts[i], sizeof texts[i], "%zu", i);
}

TestSuite(name_index, .init = set_up);

static nabla_status build(nabla_name_index *index, numbers *n, size_t count,
                          size_t *out_first, size_t *out_second) {
  return nabla_name_index_build(index, NULL, (nabla_names){n, number_name},
                                count, out_first, out_second, NULL);
}

static size_t find(const nabla_name_index *index, numbers *n,
                   const char *name) {
  return nabla_name_index_find(index, (nabla_names){n, number_name}, name,
                               strlen(name));
}

Test(name_index, finds_all_and_nothing_else) {
  static const size_t counts[] = {0, 1, 2, 7, 8, 9, 16, 17, 1000, 100000};
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    numbers n = {SIZE_MAX};
    nabla_name_index index;
    size_t first = 0, second = 0;
    cr_assert_eq(build(&index, &n, counts[c], &first, &second), NABLA_OK);
    cr_expect_eq(first, SIZE_MAX);
    cr_expect_eq(second, SIZE_MAX);
    for (size_t i = 0; i < counts[c] + 10; i++) {
      cr_assert_eq(find(&index, &n, texts[i]), i < counts[c] ? i : SIZE_MAX);
    }
    cr_expect_eq(find(&index, &n, ""), SIZE_MAX);
    cr_expect_eq(find(&index, &n, "00"), SIZE_MAX);
    nabla_name_index_deinit(&index);
    cr_expect_eq(find(&index, &n, "0"), SIZE_MAX);
  }
}

Test(name_index, names_the_first_duplicate) {
  static const size_t periods[] = {1, 2, 100, 65535};
  for (size_t p = 0; p < sizeof periods / sizeof *periods; p++) {
    numbers n = {periods[p]};
    nabla_name_index index;
    size_t first, second;
    cr_assert_eq(build(&index, &n, periods[p] + 2, &first, &second), NABLA_OK);
    cr_expect_eq(first, 0);
    cr_expect_eq(second, periods[p]);
    cr_expect_eq(find(&index, &n, "0"), SIZE_MAX);
    nabla_name_index_deinit(&index);
  }
}

/* Two indexes never share a seed, so that no file knows what collides. */
Test(name_index, seeds_differ) {
  numbers n = {SIZE_MAX};
  nabla_name_index a, b;
  size_t first, second;
  cr_assert_eq(build(&a, &n, 3, &first, &second), NABLA_OK);
  cr_assert_eq(build(&b, &n, 3, &first, &second), NABLA_OK);
  cr_expect_neq(a.seed, b.seed);
  nabla_name_index_deinit(&a);
  nabla_name_index_deinit(&b);
}

static const char *long_name(const void *self, size_t index,
                             size_t *out_length) {
  (void)index;
  *out_length = strlen(self);
  return self;
}

/* Every prefix of a name is another name, also the few that meet its slot. */
Test(name_index, prefixes_are_other_names) {
  char name[4001];
  memset(name, 'n', 4000);
  name[4000] = '\0';
  for (size_t seed = 0; seed < 20; seed++) {
    const nabla_names names = {name, long_name};
    nabla_name_index index;
    size_t first, second;
    cr_assert_eq(
        nabla_name_index_build(&index, NULL, names, 1, &first, &second, NULL),
        NABLA_OK);
    for (size_t length = 0; length < 4000; length++)
      cr_assert_eq(nabla_name_index_find(&index, names, name, length),
                   SIZE_MAX);
    cr_expect_eq(nabla_name_index_find(&index, names, name, 4000), 0);
    nabla_name_index_deinit(&index);
  }
}

Test(name_index, limits) {
  numbers n = {SIZE_MAX};
  nabla_name_index index;
  size_t first, second;
  cr_expect_eq(
      build(&index, &n, (size_t)NABLA_NAME_INDEX_MAX + 1, &first, &second),
      NABLA_TOO_LARGE);
  nabla_name_index_deinit(&index);
  failing_allocator failing;
  failing_allocator_init(&failing, 1);
  cr_expect_eq(nabla_name_index_build(&index, &failing.allocator,
                                      (nabla_names){&n, number_name}, 3, &first,
                                      &second, NULL),
               NABLA_NO_MEMORY);
  nabla_name_index_deinit(&index);
  cr_expect(failing_allocator_is_clean(&failing));
}
