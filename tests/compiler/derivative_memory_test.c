/* Functions that are made from functions: each allocation failing once gives a
 * status, and leaves nothing. */
#include <criterion/criterion.h>

#include "nabla/derivative.h"
#include "tests/support/each_allocation.h"
#include "tests/support/temp_folder.h"

static temp_folder folder; /* with the object cache: a compilation is short */

static void set_up(void) { temp_folder_create(&folder); }

TestSuite(derivative_memory, .init = set_up, .timeout = 300);

static void square(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)scope, (void)self;
  nabla_array *x = in->items[0].array;
  out->array = nabla_sum(nabla_mul(x, x), NABLA_ALL_DIMS, 0);
}

static void forward(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  square(scope, in, &out->items[0], self);
  out->items[1].items[0].array = in->items[0].array;
}

static void backward(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)scope, (void)self;
  out->items[0].array =
      nabla_mul(in->items[0].items[0].array, in->items[1].items[0].array);
}

enum { SQUARE, FORWARD, BACKWARD, GRADIENT, BATCH, JACOBIAN, FUNCTIONS };

/* Makes the functions; a failure leaves the rest NULL. */
static nabla_status make(nabla_engine *engine, nabla_function **f,
                         nabla_diag *diag) {
  static const nabla_function_callback callbacks[] = {square, forward,
                                                      backward};
  nabla_status status = NABLA_OK;
  for (int i = SQUARE; i <= BACKWARD && !status; i++)
    status = nabla_function_create(engine, callbacks[i], NULL, &f[i], diag);
  if (!status)
    status =
        nabla_function_set_vjp(f[SQUARE], f[FORWARD], f[BACKWARD], 1, diag);
  if (!status) status = nabla_grad(f[SQUARE], NULL, &f[GRADIENT], diag);
  if (!status) status = nabla_vmap(f[GRADIENT], NULL, &f[BATCH], diag);
  if (!status) status = nabla_hessian(f[FORWARD], NULL, &f[JACOBIAN], diag);
  return status;
}

static nabla_status use(nabla_scope *scope, nabla_function *batch,
                        nabla_diag *diag) {
  float values[6] = {1, 2, 3, 4, 5, 6};
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 3}};
  nabla_tree item = nabla_tree_of_array(nabla_array_of(scope, &dense));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_dense have;
  nabla_status status = nabla_function_call(batch, &in, &out, diag);
  if (!status) status = nabla_array_read(out.array, &have, diag);
  /* the rule's: x, not 2 x */
  if (!status) cr_expect_eq(((const float *)have.data)[5], 6);
  return status;
}

static nabla_status run(const nabla_allocator *allocator) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *functions[FUNCTIONS] = {NULL};
  nabla_status status =
      create_scope_of(allocator, folder.path, &engine, &scope, &diag);
  if (!status) status = make(engine, functions, &diag);
  if (!status) status = use(scope, functions[BATCH], &diag);
  cr_expect(!status || *diag.what, "no text with %d", (int)status);
  for (int i = FUNCTIONS; i;) nabla_function_destroy(functions[--i]);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status;
}

Test(derivative_memory, each_allocation_fails_once) {
  fail_each_allocation(run);
  temp_folder_destroy(&folder);
}
