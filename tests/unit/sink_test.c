/* The sink that keeps bytes in memory: order, growth, and no memory. */
#include "nabla/sink.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(sink, pieces_of_all_sizes_in_order) {
  nabla_blob blob = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_sink sink = nabla_blob_sink(&blob);
  char piece[300];
  for (int i = 0; i < 300; i++) { /* piece i: i bytes of value i % 251 */
    memset(piece, i % 251, sizeof piece);
    cr_assert_eq(sink.write(sink.self, piece, (size_t)i, &diag), NABLA_OK);
  }
  cr_assert_eq(blob.size, 300u * 299 / 2);
  cr_expect_leq(blob.size + 1, blob.capacity);
  cr_expect_eq(blob.bytes[blob.size], '\0');
  const char *at = blob.bytes;
  for (int i = 0; i < 300; i++)
    for (int j = 0; j < i; j++)
      cr_assert_eq((unsigned char)*at++, i % 251, "byte %d of piece %d", j, i);
  nabla_blob_release(&blob);
  cr_expect_null(blob.bytes);
  cr_expect_eq(blob.size, 0);
}

Test(sink, nothing_is_a_text) {
  nabla_blob blob = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_sink sink = nabla_blob_sink(&blob);
  cr_assert_eq(sink.write(sink.self, NULL, 0, &diag), NABLA_OK);
  cr_expect_str_eq(blob.bytes, "");
  nabla_blob_release(&blob);
}

Test(sink, sizes_that_memory_lacks) {
  nabla_blob blob = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_sink sink = nabla_blob_sink(&blob);
  cr_assert_eq(sink.write(sink.self, "abc", 3, &diag), NABLA_OK);
  cr_expect_eq(sink.write(sink.self, "d", SIZE_MAX - 3, &diag),
               NABLA_TOO_LARGE);
  cr_expect_eq(sink.write(sink.self, "d", SIZE_MAX / 2, &diag),
               NABLA_NO_MEMORY);
  cr_expect_str_eq(blob.bytes, "abc"); /* as it was */
  nabla_blob_release(&blob);
}
