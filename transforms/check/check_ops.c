/* nabla-check-ops: refuses operations of other dialects that the passes behind
 * it cannot lower, where they stand, with the way to say the same, and
 * constants that would make the object too large. It runs when constants were
 * folded and dead code is gone, before bufferization: upstream passes would
 * name neither. Kernels, which are llvm.func, are left out. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

/* Bytes of constants of one value each, written out, in a program. */
#define CONSTANTS_MAX ((uint64_t)1 << 30)

/* Rows of upstream_ops.def. */
static const struct {
  const char *name, *instead;
} rows[] = {
#define UPSTREAM(op, instead) {#op, instead},
#include "transforms/check/upstream_ops.def"
#undef UPSTREAM
};

/* Dialects of which no operation can be compiled, whatever it takes: for other
 * machines, for tools, or of what the runtime does not have. */
static const char *const dialects[] = {
    "acc",   "amdgpu",     "async",   "emitc", "gpu",  "irdl",
    "mpi",   "ml_program", "nvgpu",   "nvvm",  "omp",  "pdl",
    "rocdl", "pdl_interp", "shard",   "smt",   "tosa", "sparse_tensor",
    "spirv", "transform",  "wasmssa", "xegpu", "xevm", "arm_sme",
};

static bool equals(MlirStringRef text, const char *other) {
  return text.length == strlen(other) && !memcmp(text.data, other, text.length);
}

static const char *instead_of(MlirStringRef name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (equals(name, rows[i].name)) return rows[i].instead;
  return NULL;
}

/* The name behind the dialect's. */
static MlirStringRef mnemonic(MlirStringRef name) {
  const char *point = memchr(name.data, '.', name.length);
  size_t used = point ? (size_t)(point - name.data) + 1 : 0;
  return mlirStringRefCreate(name.data + used, name.length - used);
}

/* The operation of the nabla dialect with the same mnemonic, or NULL. */
static const char *namesake(MlirStringRef name) {
  size_t count;
  const nabla_op_row *known = nabla_op_rows(&count);
  MlirStringRef short_name = mnemonic(name);
  for (size_t i = 0; i < count; i++)
    if (equals(short_name, known[i].name + strlen("nabla.")))
      return known[i].name;
  return NULL;
}

static bool is_of_refused_dialect(MlirStringRef name) {
  size_t length = (size_t)(mnemonic(name).data - name.data);
  if (length) length--;
  for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
    if (equals(mlirStringRefCreate(name.data, length), dialects[i]))
      return true;
  return false;
}

static bool has_tensor(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (mlirTypeIsATensor(nabla_operand_type(op, i))) return true;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (mlirTypeIsATensor(nabla_result_type(op, i))) return true;
  return false;
}

/* x to a power that is a constant becomes products. */
static bool has_constant_power(MlirOperation op) {
  if (!nabla_is(op, "math.fpowi")) return false;
  MlirOperation power = nabla_defining_op(mlirOperationGetOperand(op, 1));
  return !mlirOperationIsNull(power) && nabla_is(power, "arith.constant");
}

static bool is_refused(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  if (instead_of(name)) return !has_constant_power(op);
  return is_of_refused_dialect(name) ||
         (has_tensor(op) && !nablaOpHasBuffers(op));
}

static void refuse(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  const char *use = instead_of(name);
  if (!use) use = namesake(name);
  if (use)
    nabla_error_at(op, "cannot be compiled: use %s", use);
  else
    nabla_error_at(op,
                   "cannot be compiled: use operations of nabla "
                   "(docs/OPS.md), arith, tensor, linalg and scf");
}

/* ---- constants ---- */

static uint64_t element_bits(MlirType type) {
  if (mlirTypeIsAInteger(type)) return mlirIntegerTypeGetWidth(type);
  if (mlirTypeIsAFloat(type)) return mlirFloatTypeGetWidth(type);
  if (mlirTypeIsAComplex(type))
    return 2 * element_bits(mlirComplexTypeGetElementType(type));
  return 64; /* an index, or what needs a pointer */
}

/* The bytes that one value is written out to; UINT64_MAX: or more. Constants
 * of several values are in the program's text. */
static uint64_t splat_bytes(MlirAttribute value) {
  if (!mlirAttributeIsADenseElements(value) ||
      !mlirDenseElementsAttrIsSplat(value))
    return 0;
  const MlirType type = mlirAttributeGetType(value);
  uint64_t bytes = element_bits(mlirShapedTypeGetElementType(type)) / 8;
  if (!bytes) bytes = 1;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (__builtin_mul_overflow(
            bytes, (uint64_t)mlirShapedTypeGetDimSize(type, i), &bytes))
      bytes = UINT64_MAX;
  return bytes;
}

/* `total` is the bytes of the constants before it. */
static bool check_constants(MlirOperation op, uint64_t *total) {
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    const uint64_t bytes =
        splat_bytes(mlirOperationGetAttribute(op, i).attribute);
    if (__builtin_add_overflow(*total, bytes, total)) *total = UINT64_MAX;
  }
  if (*total <= CONSTANTS_MAX) return true;
  nabla_error_at(op,
                 "makes the program's constants larger than %llu bytes: "
                 "broadcast a scalar, or make it an argument",
                 (unsigned long long)CONSTANTS_MAX);
  return false;
}

/* ---- the pass ---- */

typedef struct check {
  bool good;
  uint64_t constants; /* bytes */
} check;

static MlirWalkResult visit(MlirOperation op, void *self) {
  check *c = self;
  if (nabla_is(op, "llvm.func")) return MlirWalkResultSkip;
  if (!check_constants(op, &c->constants)) {
    c->good = false;
    return MlirWalkResultInterrupt;
  }
  if (!is_refused(op)) return MlirWalkResultAdvance;
  refuse(op);
  c->good = false;
  return MlirWalkResultSkip;
}

MlirLogicalResult nabla_run_check_ops(MlirOperation module,
                                      const nablaPassValue *values,
                                      void *prepared) {
  (void)values, (void)prepared;
  check c = {.good = true};
  mlirOperationWalk(module, visit, &c, MlirWalkPreOrder);
  return c.good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
