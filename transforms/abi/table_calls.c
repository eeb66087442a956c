/* nabla-table-calls: makes the tables that nabla-table-arguments asks for.
 * Before a call it allocates an array of pointers to descriptors, followed by
 * the descriptors, and frees it after the call. A descriptor of a buffer of
 * known size has only its two addresses. Arguments that the caller only passes
 * on keep the descriptors that they came with: a loop over a constant array of
 * their numbers copies the pointers. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/LLVM.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "transforms/abi/argument_table.h"
#include "transforms/abi/known_buffer.h"
#include "transforms/abi/part_ops.h"
#include "transforms/passes.h"

/* Returns the cast that names the buffers of a call; null if there is none. */
static MlirOperation buffers_of(MlirOperation op) {
  const MlirOperation none = {NULL};
  if (!nabla_is(op, "func.call") || mlirOperationGetNumOperands(op) == 0)
    return none;
  MlirOperation cast = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(cast, NABLA_CAST) || mlirOperationGetNumOperands(cast) == 0 ||
      !mlirTypeIsAMemRef(nabla_operand_type(cast, 0)) ||
      !mlirTypeIsALLVMPointerType(nabla_result_type(cast, 0)))
    return none;
  return cast;
}

static bool has_buffers(MlirOperation op) {
  return !mlirOperationIsNull(buffers_of(op));
}

/* Returns the address from which the descriptor of `buffer` was loaded; else
 * null. */
static MlirValue read_from(MlirValue buffer) {
  MlirOperation cast = nabla_defining_op(buffer);
  if (!nabla_is(cast, NABLA_CAST) || mlirOperationGetNumOperands(cast) != 1)
    return (MlirValue){NULL};
  MlirOperation load = nabla_defining_op(mlirOperationGetOperand(cast, 0));
  if (!nabla_is(load, "llvm.load")) return (MlirValue){NULL};
  return mlirOperationGetOperand(load, 0);
}

/* Whether only the two addresses of a descriptor are written: all readers of
 * tables, also of those that an entry point is given, have the rest from the
 * type. */
static bool is_short(MlirType buffer) {
  return nabla_part_is_plain(buffer) && nabla_known_buffer(buffer);
}

static int64_t descriptor_bytes(MlirType buffer) {
  return is_short(buffer)
             ? 16
             : 8 * (3 + 2 * (int64_t)mlirShapedTypeGetRank(buffer));
}

static int64_t table_bytes(MlirOperation cast) {
  const intptr_t count = mlirOperationGetNumOperands(cast);
  int64_t bytes = 8 * (int64_t)count;
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueIsNull(read_from(mlirOperationGetOperand(cast, i))))
      bytes += descriptor_bytes(nabla_operand_type(cast, i));
  return bytes;
}

static MlirValue allocate(MlirOperation before, int64_t bytes) {
  MlirContext context = nabla_op_context(before);
  MlirAttribute none = {NULL};
  const int32_t segments[] = {0, 0};
  MlirNamedAttribute attribute =
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 2, segments));
  MlirType type = mlirMemRefTypeContiguousGet(mlirIntegerTypeGet(context, 8), 1,
                                              &bytes, none);
  nabla_op_spec spec = {"memref.alloc", 0, NULL, 1, &type, 1, &attribute};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static void store(MlirOperation before, MlirValue value, MlirValue place) {
  MlirValue operands[] = {value, place};
  nabla_op_spec spec = {"llvm.store", 2, operands, 0, NULL, 0, NULL};
  nabla_op_create(before, &spec);
}

/* ---- arguments that the caller passes on ---- */

/* Number of passed-on arguments from which a loop copies them. Without a loop a
 * call with many arguments has as many loads and stores, for which LLVM's time
 * grows faster than linearly. */
#define COPIED_MIN 16

/* Finds the table and the entry from which `place` was loaded. */
static bool find_entry(MlirValue place, MlirValue *out_table,
                       int64_t *out_entry) {
  const MlirOperation load = nabla_defining_op(place);
  if (!nabla_is(load, "llvm.load")) return false;
  const MlirValue address = mlirOperationGetOperand(load, 0);
  const MlirOperation from = nabla_defining_op(address);
  *out_table = address;
  *out_entry = 0;
  if (!nabla_is(from, "llvm.getelementptr"))
    return mlirValueIsABlockArgument(address);
  const MlirAttribute indices =
      mlirOperationGetAttributeByName(from, nabla_ref("rawConstantIndices"));
  if (mlirOperationGetNumOperands(from) != 1 ||
      mlirDenseArrayGetNumElements(indices) != 1)
    return false;
  *out_table = mlirOperationGetOperand(from, 0);
  *out_entry = mlirDenseI32ArrayGetElement(indices, 0) / 8;
  return mlirValueIsABlockArgument(*out_table);
}

/* The entries of one table that a call passes on; 0 for any other argument. */
typedef struct passed {
  MlirValue table;
  int32_t *entries;
  bool *is_copied;
  intptr_t count, copied;
} passed;

static bool passed_init(passed *p, MlirOperation cast) {
  const intptr_t count = mlirOperationGetNumOperands(cast);
  *p = (passed){.count = count};
  p->entries = calloc((size_t)count, sizeof *p->entries);
  p->is_copied = calloc((size_t)count, sizeof *p->is_copied);
  if (!p->entries || !p->is_copied) return false;
  for (intptr_t i = 0; i < count; i++) {
    MlirValue table;
    int64_t entry;
    const MlirValue place = read_from(mlirOperationGetOperand(cast, i));
    if (mlirValueIsNull(place) || !find_entry(place, &table, &entry)) continue;
    if (mlirValueIsNull(p->table)) p->table = table;
    if (!mlirValueEqual(p->table, table)) continue;
    p->entries[i] = (int32_t)entry;
    p->is_copied[i] = true;
    p->copied++;
  }
  return true;
}

static void passed_deinit(passed *p) {
  free(p->entries);
  free(p->is_copied);
}

/* The tables made in a module. */
typedef struct table_maker {
  MlirOperation module;
  MlirBlock body; /* of the module */
  unsigned arrays;
} table_maker;

static void declare(table_maker *m, MlirContext context, const char *text) {
  mlirBlockInsertOwnedOperation(
      m->body, 0,
      mlirOperationCreateParse(context, nabla_ref(text), nabla_ref("tables")));
}

/* Makes a constant array of the module with the entries that a call passes on.
 */
static MlirValue entries_array(table_maker *m, MlirOperation before,
                               const passed *p) {
  MlirContext context = nabla_op_context(before);
  nabla_text text = {0};
  char name[32];
  snprintf(name, sizeof name, "nabla_entries_%u", m->arrays++);
  nabla_text_add(&text, "llvm.mlir.global internal constant @%s(dense<[", name);
  for (intptr_t i = 0; i < p->count; i++)
    nabla_text_add(&text, "%s%d", i ? ", " : "", p->entries[i]);
  nabla_text_add(&text,
                 "]> : tensor<%jdxi32>) {addr_space = 0 : i32} : "
                 "!llvm.array<%jd x i32>",
                 (intmax_t)p->count, (intmax_t)p->count);
  declare(m, context, text.data);
  nabla_text_deinit(&text);
  MlirNamedAttribute of =
      nabla_named(context, "global_name",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref(name)));
  MlirType pointer = nabla_table_pointer(context);
  nabla_op_spec spec = {"llvm.mlir.addressof", 0, NULL, 1, &pointer, 1, &of};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Calls the function that copies all entries; those that the call does not pass
 * on are overwritten later. */
static void copy_entries(table_maker *m, MlirOperation before, const passed *p,
                         MlirValue table) {
  MlirContext context = nabla_op_context(before);
  MlirType word = mlirIntegerTypeGet(context, 64);
  if (m->arrays == 0)
    declare(m, context,
            "func.func private @nabla_fill_table(!llvm.ptr, !llvm.ptr, "
            "!llvm.ptr, i64)");
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "value", mlirIntegerAttrGet(word, p->count)),
      nabla_named(
          context, "callee",
          mlirFlatSymbolRefAttrGet(context, nabla_ref("nabla_fill_table")))};
  MlirValue array = entries_array(m, before, p);
  nabla_op_spec number = {"arith.constant", 0, NULL, 1, &word, 1, attributes};
  MlirValue count = mlirOperationGetResult(nabla_op_create(before, &number), 0);
  MlirValue operands[] = {table, p->table, array, count};
  nabla_op_spec call = {"func.call", 4, operands, 0, NULL, 1, attributes + 1};
  nabla_op_create(before, &call);
}

/* ---- calls ---- */

/* Number of long descriptors of a table from which a function stores them. */
#define STORED_MIN 16

static bool has_many_long(MlirOperation cast) {
  intptr_t count = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(cast); i++) {
    MlirValue buffer = mlirOperationGetOperand(cast, i);
    count += mlirValueIsNull(read_from(buffer)) &&
             !is_short(mlirValueGetType(buffer));
  }
  return count >= STORED_MIN;
}

/* Stores the descriptor of a buffer. */
static void store_descriptor(const table_maker *m, MlirOperation before,
                             MlirValue buffer, MlirValue place,
                             bool calls_for_long) {
  const bool is_long = !is_short(mlirValueGetType(buffer));
  if (is_long && calls_for_long) {
    nabla_table_store(m->module, before, buffer, place);
    return;
  }
  MlirValue descriptor = nabla_known_buffer_descriptor(before, buffer);
  if (is_long) {
    store(before, descriptor, place);
    return;
  }
  store(before, nabla_known_buffer_field(before, descriptor, 0), place);
  store(before, nabla_known_buffer_field(before, descriptor, 1),
        nabla_table_address(before, place, 8));
}

static void fill(const table_maker *m, MlirOperation call, MlirOperation cast,
                 MlirValue table, const passed *p) {
  const bool copies = p->copied >= COPIED_MIN;
  const bool calls_for_long = has_many_long(cast);
  int64_t next = 8 * (int64_t)p->count; /* offset of the next descriptor */
  for (intptr_t i = 0; i < p->count; i++) {
    MlirValue buffer = mlirOperationGetOperand(cast, i);
    MlirValue place = read_from(buffer);
    if (copies && p->is_copied[i]) continue;
    if (mlirValueIsNull(place)) {
      place = nabla_table_address(call, table, next);
      next += descriptor_bytes(mlirValueGetType(buffer));
      store_descriptor(m, call, buffer, place, calls_for_long);
    }
    store(call, place, nabla_table_address(call, table, 8 * (int64_t)i));
  }
}

static bool make_table(MlirOperation call, void *self) {
  MlirOperation cast = buffers_of(call);
  const int64_t bytes = table_bytes(cast);
  if (bytes > INT32_MAX) {
    nabla_error_at(call, "takes too many arguments: more than 2 GiB of them");
    return false;
  }
  passed p;
  const bool good = passed_init(&p, cast);
  if (good) {
    MlirValue memory = allocate(call, bytes);
    MlirValue table = nabla_part_address(call, memory);
    if (p.copied >= COPIED_MIN) copy_entries(self, call, &p, table);
    fill(self, call, cast, table, &p);
    mlirOperationSetOperand(call, 0, table);
    nabla_op_spec release = {"memref.dealloc", 1, &memory, 0, NULL, 0, NULL};
    nabla_op_create(mlirOperationGetNextInBlock(call), &release);
    if (nabla_use_count(mlirOperationGetResult(cast, 0)) == 0)
      nabla_op_erase(cast);
  } else {
    nabla_error_at(call, "nabla-table-calls: out of memory");
  }
  passed_deinit(&p);
  return good;
}

/* ---- functions that read tables ---- */

/* A buffer whose descriptor comes from a table. */
static bool is_read(MlirOperation op) {
  return nabla_is(op, NABLA_CAST) && mlirOperationGetNumResults(op) == 1 &&
         !mlirValueIsNull(read_from(mlirOperationGetResult(op, 0)));
}

/* Reads the two addresses of a descriptor alone. */
static bool read_short(MlirOperation cast, void *self) {
  (void)self;
  MlirType pointer = nabla_table_pointer(nabla_op_context(cast));
  MlirType type = nabla_result_type(cast, 0);
  if (!is_short(type)) return true;
  MlirOperation load = nabla_defining_op(mlirOperationGetOperand(cast, 0));
  MlirValue place = mlirOperationGetOperand(load, 0);
  MlirValue allocation = nabla_table_op(load, "llvm.load", place, pointer);
  MlirValue address = nabla_table_op(
      load, "llvm.load", nabla_table_address(load, place, 8), pointer);
  MlirValue buffer = nabla_known_buffer_at(cast, allocation, address, type);
  nabla_op_replace(cast, &buffer);
  if (nabla_use_count(mlirOperationGetResult(load, 0)) == 0)
    nabla_op_erase(load);
  return true;
}

MlirLogicalResult nabla_run_table_calls(MlirOperation module,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)values, (void)prepared;
  table_maker m = {
      .module = module,
      .body = mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0))};
  const MlirLogicalResult made =
      nabla_ops_each(module, has_buffers, make_table, &m);
  return mlirLogicalResultIsSuccess(made)
             ? nabla_ops_each(module, is_read, read_short, NULL)
             : made;
}
