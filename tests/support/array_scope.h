/* The engine and the scope of a test of nabla/array.h, without a cache of
 * objects: for TestSuite(NAME, .init = set_up, .fini = tear_down). */
#ifndef NABLA_TESTS_SUPPORT_ARRAY_SCOPE_H
#define NABLA_TESTS_SUPPORT_ARRAY_SCOPE_H

#include <criterion/criterion.h>

#include "nabla/array.h"

static nabla_engine *engine;
static nabla_scope *scope;
static nabla_diag diag;

static void set_up(void) {
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler};
  cr_assert_eq(nabla_engine_create(&options, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
}

static void tear_down(void) {
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
}

#endif
