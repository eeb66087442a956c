/* The sort: against every order of few items, many in hard orders, stable,
 * without memory when nothing is to be done. */
#include "lib/base/sort.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

/* Sorted by `key` alone, so that `place` shows whether equals kept order. */
typedef struct item {
  uint32_t key, place;
} item;

static int compare_keys(const void *a, const void *b, const void *context) {
  const item *x = a, *y = b;
  size_t *comparisons = *(size_t *const *)context;
  ++*comparisons;
  return x->key < y->key ? -1 : x->key > y->key;
}

static size_t expect_sorted(item *items, size_t count) {
  size_t comparisons = 0, *counter = &comparisons;
  cr_assert_eq(nabla_sort(NULL, items, count, sizeof *items, compare_keys,
                          &counter, NULL),
               NABLA_OK);
  for (size_t i = 1; i < count; i++) {
    cr_assert_leq(items[i - 1].key, items[i].key, "%zu of %zu", i, count);
    if (items[i - 1].key == items[i].key)
      cr_assert_lt(items[i - 1].place, items[i].place, "%zu of %zu", i, count);
  }
  return comparisons;
}

/* All sequences of 0 to 6 items with keys 0 to 3. */
Test(sort, every_short_sequence) {
  for (size_t count = 0; count <= 6; count++) {
    for (uint32_t code = 0; code < 1u << (2 * count); code++) {
      item items[6];
      for (uint32_t i = 0; i < count; i++)
        items[i] = (item){code >> (2 * i) & 3, i};
      expect_sorted(items, count);
    }
  }
}

/* Orders in which quicksorts are quadratic, and random ones. */
static uint32_t key_of(size_t order, uint32_t i, uint32_t count) {
  switch (order) {
    case 0:
      return i;
    case 1:
      return count - i;
    case 2:
      return i < count / 2 ? i : count - i; /* organ pipe */
    case 3:
      return i % 2 ? i : count - i;
    case 4:
      return i * 2654435761u; /* scattered: Knuth's multiplicative hash */
    case 5:
      return (i * 2654435761u) % 7; /* few distinct keys */
    case 6:
      return i == count - 1 ? 0 : i + 1; /* all but one in order */
    default:
      return 5;
  }
}

ParameterizedTestParameters(sort, long_sequences) {
  static size_t orders[] = {0, 1, 2, 3, 4, 5, 6, 7};
  return cr_make_param_array(size_t, orders, 8);
}

ParameterizedTest(size_t *order, sort, long_sequences) {
  enum { MOST = 1 << 16 };
  static const size_t counts[] = {7, 8, 9, 15, 16, 17, 100, 1000, 4097, MOST};
  static item items[MOST];
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    uint64_t sum = 0, again = 0;
    for (uint32_t i = 0; i < counts[c]; i++) {
      items[i] = (item){key_of(*order, i, (uint32_t)counts[c]), i};
      sum += (uint64_t)items[i].key * (i + 1);
    }
    size_t comparisons = expect_sorted(items, counts[c]);
    for (size_t i = 0; i < counts[c]; i++)
      again += (uint64_t)items[i].key * (items[i].place + 1);
    cr_expect_eq(sum, again); /* the same items */
    size_t levels = 1;
    while ((size_t)1 << levels < counts[c]) levels++;
    cr_expect_leq(comparisons, counts[c] * (levels + 6));
  }
}

static int compare_first_byte(const void *a, const void *b,
                              const void *context) {
  (void)context;
  return (int)*(const uint8_t *)a - (int)*(const uint8_t *)b;
}

/* Every size of item from 1 to 256 bytes keeps its bytes together. */
Test(sort, every_item_size) {
  enum { COUNT = 50 };
  for (size_t size = 1; size <= 256; size++) {
    uint8_t items[COUNT * 256];
    for (size_t i = 0; i < COUNT; i++)
      memset(items + i * size, (int)(i * 37 % COUNT), size);
    cr_assert_eq(
        nabla_sort(NULL, items, COUNT, size, compare_first_byte, NULL, NULL),
        NABLA_OK);
    for (size_t i = 0; i < COUNT * size; i++)
      cr_assert_eq(items[i], i / size, "size %zu", size);
  }
  uint8_t byte = 0;
  cr_expect_eq(nabla_sort(NULL, &byte, 1, 0, compare_first_byte, NULL, NULL),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_sort(NULL, &byte, 1, 257, compare_first_byte, NULL, NULL),
               NABLA_INVALID_ARGUMENT);
}

Test(sort, memory) {
  uint8_t sorted[] = {1, 2, 2, 3}, unsorted[] = {3, 1, 2};
  failing_allocator failing;
  failing_allocator_init(&failing, 1);
  cr_expect_eq(nabla_sort(&failing.allocator, sorted, 4, 1, compare_first_byte,
                          NULL, NULL),
               NABLA_OK);
  cr_expect_eq(failing.requests, 0);
  cr_expect_eq(nabla_sort(&failing.allocator, unsorted, 3, 1,
                          compare_first_byte, NULL, NULL),
               NABLA_NO_MEMORY);
  cr_expect(unsorted[0] == 3 && unsorted[1] == 1 && unsorted[2] == 2);
  cr_expect_eq(nabla_sort(&failing.allocator, unsorted, 3, 1,
                          compare_first_byte, NULL, NULL),
               NABLA_OK);
  cr_expect(unsorted[0] == 1 && unsorted[1] == 2 && unsorted[2] == 3);
  cr_expect(failing_allocator_is_clean(&failing));
}
