/* See the header. */
#include "transforms/memory/entry_sizes.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/abi/argument_table.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/state/state.h"

#define VISITS_MAX 512 /* values that one size may follow from */

#define DONATED "nabla.donated" /* of an argument that may be overwritten */

typedef enum divisor { NO, UNSIGNED, POSITIVE } divisor;

static const struct {
  const char *name;
  divisor kind;
} size_ops[] = {
#define SIZE_OP(name, divisor) {#name, divisor},
#include "transforms/memory/size_ops.def"
#undef SIZE_OP
};

/* Each of these finds what a value is before `at`, and computes it there if
 * `make`: otherwise `*out` is not for use. False where it is not known. */
static bool find_value(nabla_entry_sizes *s, MlirValue value, bool make,
                       MlirValue *out);
static bool find_dim(nabla_entry_sizes *s, MlirValue buffer, intptr_t dim,
                     bool make, MlirValue *out);

/* ---- what was computed ---- */

static bool recall(const nabla_entry_sizes *s, MlirValue value,
                   MlirValue *out) {
  for (size_t i = s->count; i-- > 0;)
    if (mlirValueEqual(s->pairs[2 * i], value)) {
      *out = s->pairs[2 * i + 1];
      return true;
    }
  return false;
}

static bool keep(nabla_entry_sizes *s, MlirValue value, MlirValue made) {
  if (s->count == s->capacity) {
    const size_t capacity = s->capacity ? 2 * s->capacity : 32;
    MlirValue *pairs = realloc(s->pairs, 2 * capacity * sizeof *pairs);
    if (!pairs) return false;
    s->pairs = pairs;
    s->capacity = capacity;
  }
  s->pairs[2 * s->count] = value;
  s->pairs[2 * s->count++ + 1] = made;
  return true;
}

/* ---- small parts ---- */

static MlirBlock entry_of(const nabla_entry_sizes *s) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(s->function, 0));
}

/* The number of an argument of the function, or -1. */
static int64_t argument_of(const nabla_entry_sizes *s, MlirValue value) {
  if (!mlirValueIsABlockArgument(value) ||
      !mlirBlockEqual(mlirBlockArgumentGetOwner(value), entry_of(s)))
    return -1;
  return mlirBlockArgumentGetArgNumber(value);
}

static bool is_before(const nabla_entry_sizes *s, MlirOperation op) {
  return s->index && !mlirOperationIsNull(op) &&
         mlirBlockEqual(mlirOperationGetBlock(op), entry_of(s)) &&
         nabla_block_index_find(s->index, op) < s->at_number;
}

static bool is_number(MlirType type) {
  return mlirTypeIsAIndex(type) || mlirTypeIsAInteger(type);
}

/* The value of a constant. */
static bool constant_of(MlirValue value, int64_t *out) {
  MlirOperation op = nabla_defining_op(value);
  if (!nabla_is(op, "arith.constant")) return false;
  MlirAttribute number =
      mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!mlirAttributeIsAInteger(number)) return false;
  *out = mlirIntegerAttrGetValueInt(number);
  return true;
}

static MlirValue constant(const nabla_entry_sizes *s, MlirType type,
                          int64_t number) {
  MlirNamedAttribute value = nabla_named(nabla_op_context(s->at), "value",
                                         mlirIntegerAttrGet(type, number));
  nabla_op_spec spec = {"arith.constant", 0, NULL, 1, &type, 1, &value};
  return mlirOperationGetResult(nabla_op_create(s->at, &spec), 0);
}

static MlirValue binary(const nabla_entry_sizes *s, const char *name,
                        MlirValue a, MlirValue b) {
  const MlirType type = mlirValueGetType(a);
  const MlirValue operands[] = {a, b};
  nabla_op_spec spec = {name, 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(s->at, &spec), 0);
}

static MlirValue dim_op(const nabla_entry_sizes *s, MlirValue buffer,
                        intptr_t dim) {
  const MlirType index = mlirIndexTypeGet(nabla_op_context(s->at));
  const MlirValue operands[] = {buffer, constant(s, index, dim)};
  nabla_op_spec spec = {"memref.dim", 2, operands, 1, &index, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(s->at, &spec), 0);
}

intptr_t nabla_entry_open_before(MlirType type, intptr_t dim) {
  intptr_t open = 0;
  for (intptr_t i = 0; i < dim; i++)
    open += mlirShapedTypeIsDynamicDim(type, i);
  return open;
}

/* ---- buffers that can be read at the beginning ---- */

/* Whether nothing writes to an argument in a run. */
static bool is_constant_argument(const nabla_entry_sizes *s, int64_t number) {
  return s->index &&
         mlirAttributeIsNull(nabla_state_attribute(s->function, NABLA_ARGUMENTS,
                                                   number, NABLA_STATE)) &&
         mlirAttributeIsNull(nabla_state_attribute(s->function, NABLA_ARGUMENTS,
                                                   number, DONATED));
}

static bool find_clone(nabla_entry_sizes *s, MlirOperation op, intptr_t count,
                       const MlirValue *operands, MlirValue value,
                       MlirValue *out);

/* A pointer, a descriptor or a buffer that is read from the table of all
 * arguments (argument_table.h). */
static bool find_entry(nabla_entry_sizes *s, MlirValue value, bool make,
                       MlirValue *out) {
  if (make && recall(s, value, out)) return true;
  if (argument_of(s, value) == 0) {
    *out = value;
    return nabla_op_has(s->function, NABLA_TABLE_MARK);
  }
  MlirOperation op = nabla_defining_op(value);
  if (!s->index || mlirOperationIsNull(op) ||
      mlirOperationGetNumOperands(op) != 1 ||
      (!nabla_is(op, NABLA_CAST) && !nabla_is(op, "llvm.load") &&
       !nabla_is(op, "llvm.getelementptr")) ||
      nabla_op_has(op, NABLA_STATE) || nabla_op_has(op, DONATED))
    return false;
  const bool clones = make && !is_before(s, op);
  MlirValue operand;
  *out = value;
  if (!find_entry(s, mlirOperationGetOperand(op, 0), clones, &operand))
    return false;
  return !clones || find_clone(s, op, 1, &operand, value, out);
}

static bool find_buffer(nabla_entry_sizes *s, MlirValue buffer, bool make,
                        MlirValue *out) {
  const int64_t number = argument_of(s, buffer);
  *out = buffer;
  if (number >= 0) return is_constant_argument(s, number);
  return find_entry(s, buffer, make, out);
}

/* Whether an operation loads an element of a buffer that has it for certain. */
static bool is_safe_load(MlirOperation op) {
  const MlirType type = nabla_operand_type(op, 0);
  for (intptr_t i = 1; i < mlirOperationGetNumOperands(op); i++) {
    int64_t index;
    if (!constant_of(mlirOperationGetOperand(op, i), &index) || index < 0 ||
        mlirShapedTypeIsDynamicDim(type, i - 1) ||
        index >= mlirShapedTypeGetDimSize(type, i - 1))
      return false;
  }
  return true;
}

/* ---- operations ---- */

/* A copy of `op` before `at`, with `count` other operands. */
static bool find_clone(nabla_entry_sizes *s, MlirOperation op, intptr_t count,
                       const MlirValue *operands, MlirValue value,
                       MlirValue *out) {
  MlirOperation made = mlirOperationClone(op);
  for (intptr_t i = 0; i < count; i++)
    mlirOperationSetOperand(made, i, operands[i]);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(s->at), s->at,
                                      made);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!keep(s, mlirOperationGetResult(op, i),
              mlirOperationGetResult(made, i)))
      return false;
  return recall(s, value, out);
}

#define OPERANDS_MAX 8

static bool find_load(nabla_entry_sizes *s, MlirOperation op, MlirValue value,
                      bool make, MlirValue *out) {
  MlirValue operands[OPERANDS_MAX + 1];
  const intptr_t count = mlirOperationGetNumOperands(op);
  if (count > OPERANDS_MAX + 1 || !is_safe_load(op) ||
      !find_buffer(s, mlirOperationGetOperand(op, 0), make, &operands[0]))
    return false;
  for (intptr_t i = 1; i < count; i++)
    if (!find_value(s, mlirOperationGetOperand(op, i), make, &operands[i]))
      return false;
  return !make || find_clone(s, op, count, operands, value, out);
}

static bool find_pure(nabla_entry_sizes *s, MlirOperation op, divisor kind,
                      MlirValue value, bool make, MlirValue *out) {
  MlirValue operands[3];
  const intptr_t count = mlirOperationGetNumOperands(op);
  int64_t number = 0;
  if (count > 3) return false;
  for (intptr_t i = 0; i < count; i++)
    if (!is_number(nabla_operand_type(op, i)) ||
        !find_value(s, mlirOperationGetOperand(op, i), make, &operands[i]))
      return false;
  const bool is_constant =
      kind != NO && constant_of(mlirOperationGetOperand(op, 1), &number);
  if (kind == POSITIVE && (!is_constant || number <= 0)) return false;
  if (!make) return true;
  if (kind == UNSIGNED && (!is_constant || number == 0))
    operands[1] = binary(s, "arith.maxui", operands[1],
                         constant(s, mlirValueGetType(operands[1]), 1));
  return find_clone(s, op, count, operands, value, out);
}

static bool find_dim_op(nabla_entry_sizes *s, MlirOperation op, MlirValue value,
                        bool make, MlirValue *out) {
  int64_t dim;
  const MlirValue buffer = mlirOperationGetOperand(op, 0);
  if (!constant_of(mlirOperationGetOperand(op, 1), &dim) || dim < 0 ||
      !mlirTypeIsAMemRef(mlirValueGetType(buffer)) ||
      dim >= mlirShapedTypeGetRank(mlirValueGetType(buffer)) ||
      !find_dim(s, buffer, dim, make, out))
    return false;
  return !make || keep(s, value, *out);
}

static bool find_value(nabla_entry_sizes *s, MlirValue value, bool make,
                       MlirValue *out) {
  *out = value;
  if (make && recall(s, value, out)) return true;
  if (!is_number(mlirValueGetType(value)) || s->budget == 0) return false;
  s->budget--;
  const int64_t number = argument_of(s, value);
  if (number >= 0) {
    if (make) *out = s->source(s->self, (nabla_size_source){number, -1});
    return !mlirValueIsNull(*out) && (!make || keep(s, value, *out));
  }
  MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op)) return false;
  if (is_before(s, op)) return true;
  if (nabla_is(op, "arith.constant"))
    return !make || find_clone(s, op, 0, NULL, value, out);
  if (nabla_is(op, "memref.dim")) return find_dim_op(s, op, value, make, out);
  if (nabla_is(op, "memref.load")) return find_load(s, op, value, make, out);
  for (size_t i = 0; i < sizeof size_ops / sizeof *size_ops; i++)
    if (nabla_is(op, size_ops[i].name))
      return find_pure(s, op, size_ops[i].kind, value, make, out);
  return false;
}

/* ---- dimensions ---- */

/* The dimension of a buffer whose sizes are operands of `op`, those of `?`
 * alone, the first of them number `first`. */
static bool find_operand(nabla_entry_sizes *s, MlirOperation op, intptr_t first,
                         intptr_t dim, bool make, MlirValue *out) {
  const intptr_t at =
      first + nabla_entry_open_before(nabla_result_type(op, 0), dim);
  return at < mlirOperationGetNumOperands(op) &&
         find_value(s, mlirOperationGetOperand(op, at), make, out);
}

/* The first of the sizes of a view with offsets, sizes and strides. */
static intptr_t view_sizes(MlirOperation op) {
  MlirAttribute segments =
      mlirOperationGetAttributeByName(op, nabla_ref("operandSegmentSizes"));
  return mlirDenseI32ArrayGetElement(segments, 0) +
         mlirDenseI32ArrayGetElement(segments, 1);
}

/* Dimension `dim` of a collapse_shape: a product. */
static bool find_collapsed(nabla_entry_sizes *s, MlirOperation op, intptr_t dim,
                           bool make, MlirValue *out) {
  MlirAttribute group = mlirArrayAttrGetElement(
      mlirOperationGetAttributeByName(op, nabla_ref("reassociation")), dim);
  MlirValue all = {NULL};
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(group); i++) {
    const int64_t from =
        mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(group, i));
    MlirValue one;
    if (!find_dim(s, mlirOperationGetOperand(op, 0), from, make, &one))
      return false;
    all =
        !make || mlirValueIsNull(all) ? one : binary(s, "arith.muli", all, one);
  }
  *out = all;
  return !make || !mlirValueIsNull(all);
}

static bool find_table_dim(nabla_entry_sizes *s, MlirValue buffer, intptr_t dim,
                           bool make, MlirValue *out) {
  MlirValue found;
  if (!find_entry(s, buffer, make, &found)) return false;
  if (make) *out = dim_op(s, found, dim);
  return true;
}

static bool find_dim(nabla_entry_sizes *s, MlirValue buffer, intptr_t dim,
                     bool make, MlirValue *out) {
  const MlirType type = mlirValueGetType(buffer);
  if (s->budget == 0 || !mlirTypeIsAMemRef(type)) return false;
  s->budget--;
  if (!mlirShapedTypeIsDynamicDim(type, dim)) {
    if (make)
      *out = constant(s, mlirIndexTypeGet(nabla_op_context(s->at)),
                      mlirShapedTypeGetDimSize(type, dim));
    return true;
  }
  const int64_t number = argument_of(s, buffer);
  if (number >= 0) {
    if (make) *out = s->source(s->self, (nabla_size_source){number, dim});
    return !make || !mlirValueIsNull(*out);
  }
  MlirOperation op = nabla_defining_op(buffer);
  if (mlirOperationIsNull(op)) return false;
  if (is_before(s, op)) {
    if (make) *out = dim_op(s, buffer, dim);
    return true;
  }
  if (nabla_is(op, "memref.alloc"))
    return find_operand(s, op, 0, dim, make, out);
  if (nabla_is(op, "memref.expand_shape"))
    return find_operand(s, op, 1, dim, make, out);
  if (nabla_is(op, "memref.subview") || nabla_is(op, "memref.reinterpret_cast"))
    return find_operand(s, op, view_sizes(op), dim, make, out);
  if (nabla_is(op, "memref.cast"))
    return find_dim(s, mlirOperationGetOperand(op, 0), dim, make, out);
  if (nabla_is(op, "memref.collapse_shape"))
    return find_collapsed(s, op, dim, make, out);
  return find_table_dim(s, buffer, dim, make, out);
}

/* ---- the interface ---- */

bool nabla_entry_knows(nabla_entry_sizes *sizes, MlirValue value) {
  MlirValue none;
  sizes->budget = VISITS_MAX;
  return find_value(sizes, value, false, &none);
}

bool nabla_entry_knows_dim(nabla_entry_sizes *sizes, MlirValue buffer,
                           intptr_t dim) {
  MlirValue none;
  sizes->budget = VISITS_MAX;
  return find_dim(sizes, buffer, dim, false, &none);
}

MlirValue nabla_entry_value(nabla_entry_sizes *sizes, MlirValue value) {
  MlirValue out = {NULL};
  sizes->budget = SIZE_MAX;
  return find_value(sizes, value, true, &out) ? out : (MlirValue){NULL};
}

MlirValue nabla_entry_dim(nabla_entry_sizes *sizes, MlirValue buffer,
                          intptr_t dim) {
  MlirValue out = {NULL};
  sizes->budget = SIZE_MAX;
  return find_dim(sizes, buffer, dim, true, &out) ? out : (MlirValue){NULL};
}

void nabla_entry_sizes_deinit(nabla_entry_sizes *sizes) {
  free(sizes->pairs);
  *sizes = (nabla_entry_sizes){0};
}
