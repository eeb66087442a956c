/* Verifiers of ops whose result type is written: creation, convert. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/infer/infer_math.h"
#include "dialect/verify/verify.h"

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

static MlirType result(MlirOperation op) {
  return mlirValueGetType(mlirOperationGetResult(op, 0));
}

static bool takes(MlirOperation op, MlirType type) {
  return nabla_types_check(mlirOperationGetLocation(op),
                           mlirIdentifierStr(mlirOperationGetName(op)), type);
}

/* An implicit result is the operand with another element type. */
static MlirLogicalResult check_reading(MlirOperation op, MlirType from,
                                       MlirType to) {
  if (!nablaTypeIsAImplicit(from))
    return ERROR(op,
                 "an implicit result needs an implicit operand; "
                 "nabla.quantize makes one");
  if (nabla_implicit_encoding(from).kind == NABLA_KIND_LORA &&
      !mlirTypeEqual(from, to))
    return ERROR(op,
                 "the factors of a lora have its element type: unpack it, "
                 "convert its components and pack them");
  nablaImplicitType a = nablaImplicitTypeStored(from);
  a.elementType = nabla_array_element(to);
  if (!mlirTypeEqual(nablaImplicitTypeGet(mlirTypeGetContext(from), &a), to))
    return ERROR(op,
                 "an implicit result differs from the operand in the "
                 "element type alone");
  return mlirLogicalResultSuccess();
}

MlirLogicalResult verify_convert(MlirOperation op) {
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType to = result(op);
  intptr_t rank = nabla_array_rank(from);
  if (rank > NABLA_MAX_RANK)
    return ERROR(op, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  bool good = rank == nabla_array_rank(to);
  for (intptr_t i = 0; good && i < rank; i++)
    good = nabla_array_dim(from, i) == nabla_array_dim(to, i);
  if (!good) return ERROR(op, "the result has the shape of the operand");
  if (nablaTypeIsAImplicit(to)) return check_reading(op, from, to);
  return takes(op, to) ? mlirLogicalResultSuccess()
                       : mlirLogicalResultFailure();
}

MlirLogicalResult verify_full(MlirOperation op) {
  MlirAttribute value = mlirOperationGetAttributeByName(
      op, mlirStringRefCreateFromCString("value"));
  bool is_number =
      mlirAttributeIsAFloat(value) || mlirAttributeIsAInteger(value);
  if (!is_number || !mlirTypeEqual(mlirAttributeGetType(value),
                                   nabla_array_element(result(op))))
    return ERROR(op, "value is of the element type of the result");
  return nabla_verify_sizes(op, 0, false);
}

MlirLogicalResult verify_iota(MlirOperation op) {
  intptr_t rank = nabla_array_rank(result(op));
  int64_t dim = nabla_op_integer(op, "dim", -1);
  if (!takes(op, result(op))) return mlirLogicalResultFailure();
  if (dim < 0 || dim >= rank)
    return ERROR(op, "dim is less than the rank, %d", (int)rank);
  return nabla_verify_sizes(op, 0, false);
}

MlirLogicalResult verify_tri(MlirOperation op) {
  if (nabla_array_rank(result(op)) < 2)
    return ERROR(op, "the result has at least 2 dimensions");
  return nabla_verify_sizes(op, 0, false);
}

/* The result begins with the dimensions of the seeds: behind them are the
 * numbers of each seed. */
MlirLogicalResult verify_random(MlirOperation op) {
  MlirType seeds = mlirValueGetType(mlirOperationGetOperand(op, 0));
  intptr_t rank = nabla_array_rank(seeds);
  bool agree = rank <= nabla_array_rank(result(op));
  for (intptr_t i = 0; agree && i < rank; i++)
    agree = nabla_dims_compatible(nabla_array_dim(seeds, i),
                                  nabla_array_dim(result(op), i));
  if (!agree)
    return ERROR(op,
                 "the first dimensions of the result are those of the seeds; "
                 "one seed is a tensor<i64>");
  if (!mlirTypeIsAFloat(nabla_array_element(result(op))))
    return ERROR(op, "the result is of floats");
  return nabla_verify_sizes(op, 1, false);
}
