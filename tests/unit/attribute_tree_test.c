/* Trees of attributes as text: floats keep each bit, whatever the locale. */
#include "lib/base/attribute_tree.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

static void check_float(double value) {
  const nabla_attribute_tree from = {.kind = NABLA_ATTRIBUTE_FLOAT,
                                     .number = value};
  nabla_attribute_tree back = {0};
  nabla_buffer text;
  nabla_arena arena = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer_init(&text, NULL, "text", 4096);
  cr_assert_eq(nabla_attribute_tree_write(&from, &text, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_buffer_append(&text, "", 1, &diag), NABLA_OK);
  const char *written = (const char *)text.data;
  cr_assert_eq(strspn(written, "0123456789abcdefinpx.:;+-"), strlen(written),
               "%s", written);
  cr_assert_eq(nabla_attribute_tree_read(written, &arena, &back, &diag),
               NABLA_OK, "%s: %s", written, diag.what);
  cr_assert_eq(memcmp(&back.number, &value, sizeof value), 0, "%s", written);
  nabla_arena_clear(&arena);
  nabla_buffer_deinit(&text);
}

Test(attribute_tree, floats_are_read_as_written) {
  const double values[] = {0,       -0.0,      0.5,      -2.5,
                           1.0 / 3, DBL_MIN,   5e-324,   DBL_MAX,
                           1e10,    12345.678, INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    check_float(values[i]);
}
