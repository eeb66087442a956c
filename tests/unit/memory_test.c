/* Allocation: checked sizes, zeroed memory, bounded growth, no leaks. */
#include "lib/base/memory.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

Test(memory, the_default_allocator_resizes_and_frees) {
  const nabla_allocator *standard = nabla_allocator_default();
  uint8_t *block = standard->resize(standard->self, NULL, 0, 8);
  cr_assert_not_null(block);
  memcpy(block, "abcdefg", 8);
  block = standard->resize(standard->self, block, 8, 100000);
  cr_assert_str_eq((char *)block, "abcdefg");
  cr_assert_null(standard->resize(standard->self, block, 100000, 0));
}

/* Large blocks, for which the system is asked for huge pages. */
Test(memory, large_blocks_keep_their_content) {
  const nabla_allocator *a = nabla_allocator_default();
  const size_t sizes[] = {3 << 20, (4 << 20) + 1, 21 << 20, 5 << 20, 1};
  uint8_t *block = NULL;
  size_t had = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    block = a->resize(a->self, block, had, sizes[i]);
    cr_assert_not_null(block);
    const size_t kept = had < sizes[i] ? had : sizes[i];
    for (size_t at = 0; at < kept; at += 4093)
      cr_assert_eq(block[at], (uint8_t)(at / 4093));
    for (size_t at = 0; at < sizes[i]; at += 4093)
      block[at] = (uint8_t)(at / 4093);
    had = sizes[i];
  }
  cr_expect_null(a->resize(a->self, block, had, 0));
}

Test(memory, alloc_zeroes) {
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  void *block;
  cr_assert_eq(nabla_alloc(&failing.allocator, 100, 3, &block, NULL), 0);
  for (size_t i = 0; i < 300; i++) cr_assert_eq(((uint8_t *)block)[i], 0);
  cr_assert_eq(failing.live_bytes, 300);
  nabla_free(&failing.allocator, block, 100, 3);
  cr_assert(failing_allocator_is_clean(&failing));
}

Test(memory, nothing_is_null) {
  void *block = &block;
  cr_assert_eq(nabla_alloc(NULL, 0, 8, &block, NULL), 0);
  cr_assert_null(block);
  block = &block;
  cr_assert_eq(nabla_alloc(NULL, 8, 0, &block, NULL), 0);
  cr_assert_null(block);
  nabla_free(NULL, NULL, 8, 0);
}

Test(memory, overflow_and_exhaustion_leave_the_output) {
  failing_allocator failing;
  failing_allocator_init(&failing, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  void *block = &failing;
  cr_assert_eq(
      nabla_alloc(&failing.allocator, SIZE_MAX / 4 + 1, 4, &block, &diag),
      NABLA_TOO_LARGE);
  cr_assert_eq(failing.requests, 0);
  cr_assert_eq(nabla_alloc(&failing.allocator, 4, 4, &block, &diag),
               NABLA_NO_MEMORY);
  cr_assert_eq(diag.code, NABLA_NO_MEMORY);
  cr_assert_eq(block, (void *)&failing);
  cr_assert(failing_allocator_is_clean(&failing));
}

Test(memory, a_buffer_keeps_its_content_and_grows_by_half) {
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  nabla_buffer buffer;
  nabla_buffer_init(&buffer, &failing.allocator, "bytes", 1 << 20);
  for (uint32_t i = 0; i < 140000; i++) {
    const uint8_t byte = (uint8_t)(i * 7 >> 3);
    cr_assert_eq(nabla_buffer_append(&buffer, &byte, 1, NULL), 0);
  }
  cr_assert_eq(buffer.size, 140000);
  cr_assert_leq(buffer.capacity, 210000);
  cr_assert_leq(failing.peak_bytes, 350000);
  cr_assert_leq(failing.requests, 25);
  for (uint32_t i = 0; i < 140000; i++)
    cr_assert_eq(buffer.data[i], (uint8_t)(i * 7 >> 3));
  nabla_buffer_deinit(&buffer);
  cr_assert_null(buffer.data);
  cr_assert(failing_allocator_is_clean(&failing));
}

Test(memory, a_buffer_appends_zeros_for_no_data) {
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  nabla_buffer buffer;
  nabla_buffer_init(&buffer, &failing.allocator, "bytes", 1000);
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, 0, NULL), 0);
  cr_assert_null(buffer.data);
  cr_assert_eq(nabla_buffer_append(&buffer, "ab", 2, NULL), 0);
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, 70, NULL), 0);
  for (size_t i = 2; i < 72; i++) cr_assert_eq(buffer.data[i], 0);
  cr_assert_eq(memcmp(buffer.data, "ab", 2), 0);
  nabla_buffer_deinit(&buffer);
  cr_assert(failing_allocator_is_clean(&failing));
}

Test(memory, a_buffer_stops_exactly_at_its_limit) {
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  nabla_buffer buffer;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer_init(&buffer, &failing.allocator, "tensor names", 100);
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, 99, &diag), 0);
  cr_assert_eq(nabla_buffer_append(&buffer, "ab", 2, &diag), NABLA_TOO_LARGE);
  cr_assert_not_null(strstr(diag.what, "tensor names"));
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, SIZE_MAX, &diag),
               NABLA_TOO_LARGE);
  cr_assert_eq(buffer.size, 99);
  cr_assert_eq(nabla_buffer_append(&buffer, "a", 1, &diag), 0);
  cr_assert_eq(buffer.capacity, 100);
  nabla_buffer_deinit(&buffer);
  cr_assert(failing_allocator_is_clean(&failing));
}

Test(memory, a_failed_growth_leaves_the_buffer) {
  failing_allocator failing;
  failing_allocator_init(&failing, 2);
  nabla_buffer buffer;
  nabla_buffer_init(&buffer, &failing.allocator, "bytes", 1000);
  cr_assert_eq(nabla_buffer_append(&buffer, "abc", 3, NULL), 0);
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, 500, NULL), NABLA_NO_MEMORY);
  cr_assert_eq(buffer.size, 3);
  cr_assert_eq(memcmp(buffer.data, "abc", 3), 0);
  cr_assert_eq(nabla_buffer_append(&buffer, NULL, 500, NULL), 0);
  nabla_buffer_deinit(&buffer);
  cr_assert(failing_allocator_is_clean(&failing));
}

/* The test allocator must see what it is there to see. */
Test(memory, the_failing_allocator_sees_misuse) {
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  const nabla_allocator *allocator = &failing.allocator;
  uint8_t *block = allocator->resize(allocator->self, NULL, 0, 8);
  block = allocator->resize(allocator->self, block, 9, 16);
  cr_assert_eq(failing.misuses, 1);
  block[16] = 1;
  block = allocator->resize(allocator->self, block, 16, 24);
  cr_assert_eq(failing.misuses, 2);
  cr_assert_eq(failing.live_blocks, 1);
  cr_assert_eq(failing.live_bytes, 24);
  allocator->resize(allocator->self, block, 24, 0);
  cr_assert_not(failing_allocator_is_clean(&failing));

  failing_allocator_init(&failing, 0);
  block = allocator->resize(allocator->self, NULL, 0, 8);
  cr_assert_not(failing_allocator_is_clean(&failing));
  allocator->resize(allocator->self, block, 8, 0);
}
