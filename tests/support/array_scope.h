/* The engine and the scope of a test of nabla/array.h, without a cache of
 * objects: for TestSuite(NAME, .init = set_up, .fini = tear_down). */
#ifndef NABLA_TESTS_SUPPORT_ARRAY_SCOPE_H
#define NABLA_TESTS_SUPPORT_ARRAY_SCOPE_H

#include <criterion/criterion.h>

#include "nabla/array.h"
#include "nabla/function.h"

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

/* A function of the engine, named "f" unless the options name it. */
static inline nabla_function *make_function(nabla_function_callback callback,
                                            void *self,
                                            nabla_function_options options) {
  nabla_function *made = NULL;
  options.struct_size = sizeof options;
  options.self = self;
  if (!options.name) options.name = "f";
  cr_assert_eq(nabla_function_create(engine, callback, &options, &made, &diag),
               NABLA_OK, "%s", diag.what);
  return made;
}

#endif
