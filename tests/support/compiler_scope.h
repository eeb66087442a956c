/* The compiler of a test, without a cache of objects: for TestSuite(NAME, .init
 * = set_up, .fini = tear_down). */
#ifndef NABLA_TESTS_SUPPORT_COMPILER_SCOPE_H
#define NABLA_TESTS_SUPPORT_COMPILER_SCOPE_H

#include <criterion/criterion.h>

#include "nabla/compiler.h"

static nabla_diag diag;
static nabla_compiler *compiler;

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0, "%s",
               diag.what);
}

static void tear_down(void) { nabla_compiler_destroy(compiler); }

#endif
