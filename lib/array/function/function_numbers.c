/* Numbers that a function captured, as constants of a program that is emitted:
 * a program of its own has no other values for them. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/function/function.h"
#include "lib/array/packed.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/ir.h"

bool nabla_traced_is_number(const nabla_traced *traced, size_t capture) {
  const nabla_array *array = traced->captures[capture];
  return array->is_weak && !array->packed && !array->dense.rank &&
         array->dense.data;
}

size_t nabla_traced_array_count(const nabla_traced *traced) {
  size_t count = 0;
  for (size_t i = 0; i < traced->capture_count; i++)
    count += !nabla_traced_is_number(traced, i);
  return count;
}

/* A constant at the beginning of the function in place of an argument. */
static void replace(MlirBlock entry, MlirValue argument,
                    const nabla_array *number) {
  const MlirContext context = mlirTypeGetContext(mlirValueGetType(argument));
  const MlirNamedAttribute value = nabla_named(
      context, "value", nabla_dense_to_mlir(context, &number->dense));
  const MlirType type = mlirValueGetType(argument);
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("arith.constant"), mlirLocationUnknownGet(context));
  mlirOperationStateAddResults(&state, 1, &type);
  mlirOperationStateAddAttributes(&state, 1, &value);
  const MlirOperation op = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperation(entry, 0, op);
  mlirValueReplaceAllUsesOfWith(argument, mlirOperationGetResult(op, 0));
}

/* Names the arrays that stay by their numbers among them: the last `count`
 * arguments. */
static nabla_status name_arrays(const nabla_allocator *allocator,
                                MlirOperation main, size_t first, size_t count,
                                nabla_diag *diag) {
  const MlirContext context = mlirOperationGetContext(main);
  char name[32];
  void *memory;
  NABLA_TRY(nabla_alloc(allocator, first + count, sizeof(MlirAttribute),
                        &memory, diag));
  MlirAttribute *names = memory;
  for (size_t i = 0; i < count; i++) {
    (void)snprintf(name, sizeof name, NABLA_CAPTURED_NAME, i);
    names[first + i] = mlirStringAttrGet(context, nabla_ref(name));
  }
  nabla_arguments_set(main, "nabla.name", names);
  nabla_free(allocator, names, first + count, sizeof *names);
  return NABLA_OK;
}

/* Takes numbers out of the arguments of "main" and out of `ports`, which are
 * their attributes. */
static void take_out(const nabla_traced *traced, MlirOperation main,
                     MlirBlock entry, MlirAttribute *ports) {
  const size_t first = traced->argument_count;
  const MlirAttribute all =
      mlirOperationGetAttributeByName(main, nabla_ref("arg_attrs"));
  size_t kept = first;
  for (size_t i = 0; i < first; i++)
    ports[i] = mlirArrayAttrGetElement(all, (intptr_t)i);
  for (size_t i = 0; i < traced->capture_count; i++)
    if (!nabla_traced_is_number(traced, i))
      ports[kept++] = mlirArrayAttrGetElement(all, (intptr_t)(first + i));
  for (size_t i = traced->capture_count; i-- > 0;)
    if (nabla_traced_is_number(traced, i)) {
      const intptr_t at = (intptr_t)(first + i);
      replace(entry, mlirBlockGetArgument(entry, at), traced->captures[i]);
      mlirBlockEraseArgument(entry, (unsigned)at);
    }
  mlirOperationSetAttributeByName(
      main, nabla_ref("arg_attrs"),
      mlirArrayAttrGet(mlirOperationGetContext(main), (intptr_t)kept, ports));
}

nabla_status nabla_traced_freeze(const nabla_traced *traced,
                                 const nabla_allocator *allocator,
                                 MlirModule module, nabla_diag *diag) {
  void *ports;
  const size_t count = traced->argument_count + traced->capture_count;
  const MlirOperation main = nabla_function_in(module, nabla_ref("main"));
  if (nabla_traced_array_count(traced) == traced->capture_count)
    return NABLA_OK;
  const MlirBlock entry =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(main, 0));
  NABLA_TRY(nabla_alloc(allocator, count, sizeof(MlirAttribute), &ports, diag));
  take_out(traced, main, entry, ports);
  nabla_free(allocator, ports, count, sizeof(MlirAttribute));
  if (!nabla_function_update_type(main))
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a program");
  return name_arrays(allocator, main, traced->argument_count,
                     nabla_traced_array_count(traced), diag);
}
