/* Loaded functions within traces: the program of a signature becomes a private
 * function of the trace, which is called with its captured arrays. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/function/function.h"
#include "transforms/ir/ir.h"

/* A call that is being recorded. */
typedef struct importing {
  nabla_function_arguments call;
  const nabla_traced *traced;
  nabla_array_call site;
  nabla_buffer operands; /* nabla_array *: arguments, then captured ones */
  nabla_buffer types;    /* const nabla_array_type *: of these */
  nabla_buffer results;  /* nabla_array * */
  char name[128];        /* of the private function */
  nabla_status status;
  nabla_diag *diag;
} importing;

static nabla_array **arrays(const nabla_buffer *buffer) {
  return (nabla_array **)(void *)buffer->data;
}

/* ---- the function ---- */

/* Makes "main" of a saved program a function that programs may call. */
static void make_private(const importing *im, MlirOperation main) {
  static const char *const ports[] = {"arg_attrs", "res_attrs"};
  const MlirContext context = nabla_op_context(main);
  for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
    (void)mlirOperationRemoveAttributeByName(main, nabla_ref(ports[i]));
  mlirOperationSetAttributeByName(
      main, nabla_ref("sym_name"),
      mlirStringAttrGet(context, nabla_ref(im->name)));
  mlirOperationSetAttributeByName(
      main, nabla_ref("sym_visibility"),
      mlirStringAttrGet(context, nabla_ref("private")));
}

/* Copies the function into the recorder's module, with the functions that it
 * calls. Nothing is copied twice. */
static nabla_status import(const importing *im, MlirContext context,
                           MlirOperation *out) {
  const MlirStringRef name = nabla_ref(im->name);
  const nabla_buffer *bytes = &im->traced->bytecode;
  const MlirModule to = nabla_recorder_module(im->call.scope->recorder);
  *out = nabla_function_in(to, name);
  if (!mlirOperationIsNull(*out)) return NABLA_OK;
  const MlirModule from = mlirModuleCreateParse(
      context, mlirStringRefCreate((const char *)bytes->data, bytes->size));
  if (!mlirModuleIsNull(from)) {
    const MlirOperation main = nabla_function_in(from, nabla_ref("main"));
    if (!mlirOperationIsNull(main)) {
      make_private(im, main);
      nabla_function_copy(from, to, name, true);
      *out = nabla_function_in(to, name);
    }
    mlirModuleDestroy(from);
  }
  if (!mlirOperationIsNull(*out)) return NABLA_OK;
  return nabla_fail(im->diag, NABLA_CORRUPT,
                    "the program of the function %s does not parse",
                    im->call.function->options.name);
}

/* A nabla_built: the call of the function. */
static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  importing *im = self;
  MlirOperation op = {NULL}, function;
  const MlirContext context = nabla_op_context(before);
  im->status = import(im, context, &function);
  if (im->status) return op;
  const MlirType type = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.call"), mlirLocationUnknownGet(context));
  mlirOperationStateAddOperands(
      &state, (intptr_t)(im->operands.size / sizeof(nabla_array *)), operands);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumResults(type); i++) {
    const MlirType result = mlirFunctionTypeGetResult(type, i);
    mlirOperationStateAddResults(&state, 1, &result);
  }
  const MlirNamedAttribute callee =
      nabla_named(context, "callee",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref(im->name)));
  mlirOperationStateAddAttributes(&state, 1, &callee);
  op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        op);
  return op;
}

/* ---- operands and results ---- */

/* An array of the same values, some of whose sizes are known, or not, as in
 * `type`. */
static nabla_array *cast(const importing *im, nabla_array *x,
                         const nabla_array_type *type) {
  const nabla_array_type *operand = &x->dense;
  const nabla_recording recording = {.op = "tensor.cast",
                                     .operand_count = 1,
                                     .operands = &operand,
                                     .result = type};
  return nabla_record(&im->site, im->call.scope, &recording, &x);
}

/* Adds the arguments. Sizes that the options name are not known within. */
static nabla_status add_arguments(importing *im) {
  const int64_t *dims = (const int64_t *)(const void *)im->call.dims.data;
  for (size_t i = 0; i < im->call.count; i++) {
    nabla_array *x = im->call.leaves[i];
    nabla_array_type type = x->dense;
    bool is_other = false;
    for (uint32_t d = 0; d < type.rank; d++) {
      if (dims[d] >= 0 || type.shape[d] < 0) continue;
      type.shape[d] = NABLA_DYNAMIC;
      is_other = true;
    }
    dims += type.rank;
    if (is_other) x = cast(im, x, &type);
    if (!x) return nabla_scope_status(im->call.scope, im->diag);
    NABLA_TRY(nabla_buffer_append(&im->operands, &x, sizeof(nabla_array *),
                                  im->diag));
  }
  if (!im->traced->capture_count) return NABLA_OK;
  return nabla_buffer_append(&im->operands, im->traced->captures,
                             im->traced->capture_count * sizeof(nabla_array *),
                             im->diag);
}

/* Gives results the sizes that they have from arguments. */
static nabla_status size_results(importing *im) {
  nabla_array **results = arrays(&im->results);
  for (size_t i = 0; i < im->traced->result_count; i++) {
    const nabla_traced_result *result = &im->traced->results[i];
    nabla_array_type type = results[i]->dense;
    bool is_known = false;
    for (uint32_t d = 0; d < type.rank; d++) {
      const nabla_result_size *from = &result->sizes[d];
      if (type.shape[d] >= 0 || from->leaf == UINT32_MAX) continue;
      type.shape[d] = im->call.leaves[from->leaf]->dense.shape[from->dim];
      if (type.shape[d] >= 0)
        is_known = true;
      else
        results[i]->dense.shape[d] = type.shape[d];
    }
    if (!is_known) continue;
    results[i] = cast(im, results[i], &type);
    if (!results[i]) return nabla_scope_status(im->call.scope, im->diag);
  }
  return NABLA_OK;
}

/* ---- the call ---- */

static nabla_status find(importing *im, nabla_buffer *key,
                         const nabla_recorded **out) {
  static const char label[] = "saved";
  const nabla_buffer *bytes = &im->traced->bytecode;
  const XXH128_hash_t hash = XXH3_128bits(bytes->data, bytes->size);
  const size_t count = im->operands.size / sizeof(nabla_array *);
  (void)snprintf(im->name, sizeof im->name, "%.60s.%016" PRIx64 "%016" PRIx64,
                 im->call.function->options.name, hash.high64, hash.low64);
  for (size_t i = 0; i < count; i++) {
    const nabla_array_type *type = &arrays(&im->operands)[i]->dense;
    NABLA_TRY(nabla_buffer_append(&im->types, &type, sizeof(nabla_array_type *),
                                  im->diag));
  }
  NABLA_TRY(nabla_buffer_append(key, label, sizeof label, im->diag));
  NABLA_TRY(nabla_buffer_append(key, im->name, strlen(im->name) + 1, im->diag));
  const nabla_built built = {
      .key = key->data,
      .key_size = key->size,
      .operand_count = (uint32_t)count,
      .direct_count = (uint32_t)count,
      .operands = (const nabla_array_type *const *)(void *)im->types.data,
      .build = build,
      .self = im};
  const nabla_status status = nabla_recorder_find_built(
      im->call.scope->recorder, &built, out, im->diag);
  return im->status ? im->status : status;
}

static nabla_status record(importing *im, const nabla_recorded *recorded) {
  const size_t count = im->traced->result_count;
  if (count)
    NABLA_TRY(nabla_buffer_append(&im->results, NULL,
                                  count * sizeof(nabla_array *), im->diag));
  if (!nabla_record_recorded(&im->site, im->call.scope, recorded,
                             arrays(&im->operands), (uint32_t)count,
                             arrays(&im->results)))
    return nabla_scope_status(im->call.scope, im->diag);
  NABLA_TRY(size_results(im));
  if (!count) return NABLA_OK;
  return nabla_tree_unflatten(im->call.results, count, arrays(&im->results),
                              im->diag);
}

static nabla_status run(importing *im) {
  nabla_buffer key;
  const nabla_recorded *recorded;
  NABLA_TRY(nabla_function_read(&im->call, im->diag));
  NABLA_TRY(nabla_function_find_saved(&im->call, &im->traced, im->diag));
  NABLA_TRY(add_arguments(im));
  nabla_buffer_init(&key, im->call.function->allocator, "a call", SIZE_MAX / 2);
  const nabla_status status = find(im, &key, &recorded);
  nabla_buffer_deinit(&key);
  return status ? status : record(im, recorded);
}

void nabla_function_call_saved(nabla_scope *scope, const nabla_tree *arguments,
                               nabla_tree *results, void *self) {
  nabla_function *function = self;
  nabla_diag diag = NABLA_DIAG_INIT;
  importing im = {.call = {.function = function,
                           .scope = scope,
                           .arguments = arguments,
                           .results = results},
                  .site = {function->options.name, NULL, 0, NULL},
                  .diag = &diag};
  nabla_buffer_init(&im.operands, function->allocator, "a call", SIZE_MAX / 2);
  nabla_buffer_init(&im.types, function->allocator, "a call", SIZE_MAX / 2);
  nabla_buffer_init(&im.results, function->allocator, "a call", SIZE_MAX / 2);
  const nabla_status status = run(&im);
  nabla_function_unread(&im.call);
  nabla_buffer_deinit(&im.operands);
  nabla_buffer_deinit(&im.types);
  nabla_buffer_deinit(&im.results);
  if (status) nabla_scope_fail(scope, &diag, __builtin_return_address(0));
}
