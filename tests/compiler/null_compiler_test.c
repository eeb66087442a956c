/* Every function that returns a status, with each pointer NULL in turn: refused
 * by name, and nothing is touched; what ends the life of something takes NULL.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nabla/array.h"
#include "nabla/array_rule.h"
#include "nabla/compiler.h"
#include "nabla/custom_encoding.h"
#include "nabla/derivative.h"
#include "nabla/dlpack.h"
#include "nabla/function.h"
#include "nabla/mlir.h"
#include "nabla/operation.h"
#include "nabla/shard.h"
#include "nabla/tree.h"

/* A row is called with P for every other pointer: one that is looked at before
 * all are checked shows as a crash. */
static void *unreadable = (void *)(uintptr_t)8;
#define P unreadable

static nabla_array *unchanged(void *self, nabla_array *array) {
  (void)self;
  return array;
}

static void never_called(nabla_scope *scope, const nabla_tree *arguments,
                         nabla_tree *results, void *self) {
  (void)scope, (void)arguments, (void)results, (void)self;
}

static void expect(nabla_status status, const nabla_diag *diag,
                   const char *function, const char *parameter) {
  char text[80];
  (void)snprintf(text, sizeof text, " %s is NULL", parameter);
  cr_expect_eq(status, NABLA_INVALID_ARGUMENT, "%s, %s: %d", function,
               parameter, (int)status);
  cr_expect(strstr(diag->what, text), "%s, %s: %s", function, parameter,
            diag->what);
}

#define REFUSED(function, parameter, arguments)     \
  Test(null, function##_##parameter) {              \
    nabla_diag diag = NABLA_DIAG_INIT;              \
    const nabla_status status = function arguments; \
    expect(status, &diag, #function, #parameter);   \
  }
#define OPTIONAL(function, parameter)
#include "tests/compiler/null_cases.def"
#undef REFUSED
#undef OPTIONAL

Test(null, lives_that_end) {
  nabla_compiler_destroy(NULL);
  nabla_engine_destroy(NULL);
  nabla_function_destroy(NULL);
  nabla_mesh_destroy(NULL);
  nabla_scope_end(NULL);
}
