/* The file of a test of saved functions, beside the scope of array_scope.h, and
 * vectors to call them with. */
#ifndef NABLA_TESTS_SUPPORT_FUNCTION_FILE_H
#define NABLA_TESTS_SUPPORT_FUNCTION_FILE_H

#include "tests/support/array_scope.h"
#include "tests/support/temp_folder.h"

static temp_folder folder;
static char file[300];

static void begin(void) {
  set_up();
  temp_folder_create(&folder);
  temp_folder_path(&folder, "f.nabla", file);
}

/* Behind the functions of the test. */
static void end_file(void) {
  tear_down();
  temp_folder_destroy(&folder);
}

/* .3, 1.3, 2.3, ...; at most 8. */
static nabla_array *vector(int64_t count) {
  float values[8];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 1, {count}};
  for (int64_t i = 0; i < count; i++) values[i] = .3F + (float)i;
  return nabla_array_of(scope, &dense);
}

#endif
