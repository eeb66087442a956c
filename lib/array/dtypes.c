/* Dtypes of arrays; see dtypes.h. */
#include "lib/array/dtypes.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

/* ---- MLIR ---- */

MlirType nabla_dtype_to_mlir(MlirContext context, nabla_dtype dtype) {
  switch ((int)dtype) {
    case NABLA_DTYPE_F64:
      return mlirF64TypeGet(context);
    case NABLA_DTYPE_F32:
      return mlirF32TypeGet(context);
    case NABLA_DTYPE_F16:
      return mlirF16TypeGet(context);
    case NABLA_DTYPE_BF16:
      return mlirBF16TypeGet(context);
    case NABLA_DTYPE_I64:
      return mlirIntegerTypeGet(context, 64);
    case NABLA_DTYPE_I32:
      return mlirIntegerTypeGet(context, 32);
    case NABLA_DTYPE_I8:
      return mlirIntegerTypeGet(context, 8);
    case NABLA_DTYPE_U8:
      return mlirIntegerTypeUnsignedGet(context, 8);
    case NABLA_DTYPE_BOOL:
      return mlirIntegerTypeGet(context, 1);
    default:
      return (MlirType){NULL};
  }
}

bool nabla_dtype_from_mlir(MlirType type, nabla_dtype *out) {
  static const nabla_dtype known[] = {
      NABLA_DTYPE_F64,  NABLA_DTYPE_F32, NABLA_DTYPE_F16,
      NABLA_DTYPE_BF16, NABLA_DTYPE_I64, NABLA_DTYPE_I32,
      NABLA_DTYPE_I8,   NABLA_DTYPE_U8,  NABLA_DTYPE_BOOL};
  const MlirContext context = mlirTypeGetContext(type);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (mlirTypeEqual(type, nabla_dtype_to_mlir(context, known[i]))) {
      *out = known[i];
      return true;
    }
  return false;
}

bool nabla_dtype_is_known(nabla_dtype dtype) {
  return nabla_dtype_is_float(dtype) || dtype == NABLA_DTYPE_I64 ||
         dtype == NABLA_DTYPE_I32 || dtype == NABLA_DTYPE_I8 ||
         dtype == NABLA_DTYPE_U8 || dtype == NABLA_DTYPE_BOOL;
}

size_t nabla_dtype_count(const nabla_dense *dense) {
  size_t count = 1;
  for (uint32_t i = 0; i < dense->rank; i++) count *= (size_t)dense->shape[i];
  return count;
}

size_t nabla_dtype_bytes(const nabla_dense *dense) {
  return nabla_dtype_count(dense) * (nabla_dtype_bits(dense->dtype) / 8);
}

MlirAttribute nabla_dense_to_mlir(MlirContext context,
                                  const nabla_dense *dense) {
  const MlirType element = nabla_dtype_to_mlir(context, dense->dtype);
  const MlirType type = mlirRankedTensorTypeGet(
      dense->rank, dense->shape, element, mlirAttributeGetNull());
  const size_t count = nabla_dtype_count(dense);
  if (dense->dtype != NABLA_DTYPE_BOOL)
    return mlirDenseElementsAttrRawBufferGet(type, nabla_dtype_bytes(dense),
                                             dense->data);
  /* MLIR packs truth values: they are given one by one */
  int list[NABLA_MAX_CONSTANT_BOOLS];
  const uint8_t *bytes = dense->data;
  if (count > NABLA_MAX_CONSTANT_BOOLS) return mlirAttributeGetNull();
  for (size_t i = 0; i < count; i++) list[i] = bytes[i] != 0;
  return mlirDenseElementsAttrBoolGet(type, (intptr_t)count, list);
}

/* ---- pairs ---- */

/* Order within the integers; floats are above. */
static int rank_of(nabla_dtype dtype) {
  switch ((int)dtype) {
    case NABLA_DTYPE_BOOL:
      return 0;
    case NABLA_DTYPE_U8:
    case NABLA_DTYPE_I8:
      return 1;
    case NABLA_DTYPE_I32:
      return 2;
    case NABLA_DTYPE_I64:
      return 3;
    case NABLA_DTYPE_F16:
    case NABLA_DTYPE_BF16:
      return 4;
    case NABLA_DTYPE_F32:
      return 5;
    default:
      return 6;
  }
}

static nabla_dtype promote_strong(nabla_dtype a, nabla_dtype b) {
  if (a == b) return a;
  const int left = rank_of(a), right = rank_of(b);
  if (left != right) return left > right ? a : b;
  /* i8 and u8 (JAX: i16, which programs do not have); f16 and bf16 */
  return nabla_dtype_is_float(a) ? NABLA_DTYPE_F32 : NABLA_DTYPE_I32;
}

nabla_operand_dtype nabla_dtype_promote(nabla_operand_dtype a,
                                        nabla_operand_dtype b) {
  if (a.is_weak == b.is_weak)
    return (nabla_operand_dtype){promote_strong(a.dtype, b.dtype), a.is_weak};
  const nabla_operand_dtype weak = a.is_weak ? a : b;
  const nabla_operand_dtype strong = a.is_weak ? b : a;
  if (nabla_dtype_is_float(strong.dtype)) return strong;
  if (nabla_dtype_is_float(weak.dtype))
    return (nabla_operand_dtype){NABLA_DTYPE_F32, false};
  if (strong.dtype != NABLA_DTYPE_BOOL) return strong;
  return (nabla_operand_dtype){NABLA_DTYPE_I32, false};
}

nabla_dtype nabla_dtype_settle(nabla_operand_dtype operand) {
  if (!operand.is_weak) return operand.dtype;
  return nabla_dtype_is_float(operand.dtype) ? NABLA_DTYPE_F32
                                             : NABLA_DTYPE_I32;
}
