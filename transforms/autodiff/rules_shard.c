/* Derivatives of operations on shardings and of collectives. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

/* Stores the cotangent of operand 0. */
static bool give(const nabla_pullback *p, MlirValue cotangent) {
  p->out[0] = nabla_diff_narrow(&p->b, cotangent, nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

/* ---- shardings ---- */

/* A cotangent is divided as its value is; propagation passes a barrier in the
 * other direction. */
bool nabla_vjp_sharding(const nabla_pullback *p) {
  enum { FORWARD = 1, BACKWARD = 2 };
  MlirOperation op = p->op;
  MlirValue x = p->cotangents[0];
  MlirType type = mlirValueGetType(x);
  const bool barrier = nabla_is(op, "nabla.propagation_barrier");
  const char *key = barrier ? "allowed" : "sharding";
  MlirNamedAttribute attribute =
      nabla_named(nabla_op_context(op), key,
                  mlirOperationGetAttributeByName(op, nabla_ref(key)));
  const int64_t allowed = nabla_op_integer(op, "allowed", 0);
  if (barrier && (allowed == FORWARD || allowed == BACKWARD))
    attribute =
        nabla_build_integer(&p->b, key, 32, FORWARD + BACKWARD - allowed);
  const nabla_op_spec spec = {mlirIdentifierStr(mlirOperationGetName(op)).data,
                              1,
                              &x,
                              1,
                              &type,
                              1,
                              &attribute};
  return give(p, nabla_build_op(&p->b, &spec));
}

/* ---- collectives ---- */

static MlirNamedAttribute attribute_of(MlirOperation op, const char *key) {
  return nabla_named(nabla_op_context(op), key,
                     mlirOperationGetAttributeByName(op, nabla_ref(key)));
}

/* A collective over the axes of another. */
static MlirValue exchange(const nabla_builder *b, const char *name,
                          MlirOperation over, MlirValue x, MlirType type,
                          intptr_t count, const MlirNamedAttribute *more) {
  MlirNamedAttribute attributes[4];
  attributes[0] = attribute_of(over, "axes");
  for (intptr_t i = 0; i < count && i < 3; i++) attributes[i + 1] = more[i];
  if (mlirValueIsNull(x)) return x;
  const nabla_op_spec spec = {name, 1, &x, 1, &type, 1 + count, attributes};
  return nabla_build_op(b, &spec);
}

static MlirValue all_sum(const nabla_builder *b, MlirOperation over,
                         MlirValue x) {
  if (mlirValueIsNull(x)) return x;
  const MlirNamedAttribute sum =
      nabla_build_integer(b, "kind", 32, NABLA_BUILD_SUM);
  return exchange(b, "nabla.all_reduce", over, x, mlirValueGetType(x), 1, &sum);
}

/* The number of this device among those that exchange, of rank 0. */
static MlirValue own_number(const nabla_builder *b, MlirOperation over) {
  MlirType type = mlirRankedTensorTypeGet(
      0, NULL, mlirIntegerTypeGet(nabla_op_context(over), 64),
      (MlirAttribute){NULL});
  const MlirNamedAttribute axes = attribute_of(over, "axes");
  const nabla_op_spec spec = {"nabla.axis_index", 0, NULL, 1, &type, 1, &axes};
  return nabla_build_op(b, &spec);
}

/* The type of x, dense, in the element type of `like`. */
static MlirType type_of(MlirValue x, MlirValue like) {
  MlirType type = nabla_dense_type(mlirValueGetType(x));
  int64_t dims[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    dims[i] = nabla_array_dim(type, i);
  return mlirRankedTensorTypeGet(nabla_array_rank(type), dims,
                                 nabla_array_element(mlirValueGetType(like)),
                                 (MlirAttribute){NULL});
}

/* The share of each device in a maximum or minimum: those that hold it have
 * equal ones. */
static MlirValue share(const nabla_builder *b, MlirOperation op) {
  enum { EQUAL = 0 };
  MlirValue y = mlirOperationGetResult(op, 0);
  MlirValue is = nabla_build_compare(b, EQUAL, nabla_diff_operand(op, 0), y);
  MlirValue one = nabla_build_convert(
      b, is, nabla_array_element(mlirValueGetType(nabla_diff_widen(b, y))));
  return nabla_build_two(b, "div", one, all_sum(b, op, one));
}

static bool is_sum(MlirOperation op) {
  return nabla_op_integer(op, "kind", 0) == NABLA_BUILD_SUM;
}

/* Sum, maximum and minimum have derivatives. */
static bool check_kind(MlirOperation op) {
  enum { MAX = 1, MIN = 3 };
  const int64_t kind = nabla_op_integer(op, "kind", 0);
  if (kind == NABLA_BUILD_SUM || kind == MAX || kind == MIN) return true;
  nabla_error_at(
      op,
      "has no derivative: those of sum, max and min are known; write "
      "a product as the exponential of a sum of logarithms");
  return false;
}

bool nabla_vjp_all_reduce(const nabla_pullback *p) {
  MlirValue cotangent = p->cotangents[0];
  if (!check_kind(p->op)) return false;
  if (!is_sum(p->op))
    cotangent = nabla_build_two(
        &p->b, "mul", nabla_diff_widen(&p->b, cotangent), share(&p->b, p->op));
  return give(p, cotangent);
}

bool nabla_jvp_all_reduce(const nabla_pushforward *p) {
  MlirValue tangent = p->tangents[0];
  if (!check_kind(p->op)) return false;
  if (!is_sum(p->op))
    tangent = nabla_build_two(&p->b, "mul", nabla_diff_widen(&p->b, tangent),
                              share(&p->b, p->op));
  p->out[0] = nabla_diff_narrow(&p->b, all_sum(&p->b, p->op, tangent),
                                mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

static bool check_scatter(MlirOperation op) {
  if (is_sum(op)) return true;
  nabla_error_at(op,
                 "has no derivative: that of sum is known; write others as "
                 "all_reduce and all_slice");
  return false;
}

bool nabla_vjp_reduce_scatter(const nabla_pullback *p) {
  MlirValue x = nabla_diff_operand(p->op, 0), cotangent = p->cotangents[0];
  const MlirNamedAttribute dim = attribute_of(p->op, "dim");
  return check_scatter(p->op) &&
         give(p, exchange(&p->b, "nabla.all_gather", p->op, cotangent,
                          type_of(x, cotangent), 1, &dim));
}

bool nabla_jvp_reduce_scatter(const nabla_pushforward *p) {
  const MlirNamedAttribute more[] = {attribute_of(p->op, "dim"),
                                     attribute_of(p->op, "kind")};
  if (!check_scatter(p->op)) return false;
  p->out[0] = exchange(&p->b, "nabla.reduce_scatter", p->op, p->tangents[0],
                       nabla_result_type(p->op, 0), 2, more);
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_vjp_all_gather(const nabla_pullback *p) {
  MlirValue cotangent = p->cotangents[0];
  const MlirNamedAttribute dim = attribute_of(p->op, "dim");
  return give(
      p, exchange(&p->b, "nabla.all_slice", p->op, cotangent,
                  type_of(nabla_diff_operand(p->op, 0), cotangent), 1, &dim));
}

/* Each device's piece is of its own array: zeros around it. */
static MlirValue own_piece(const nabla_pullback *p, MlirValue cotangent) {
  MlirValue starts[NABLA_MAX_RANK], x = nabla_diff_operand(p->op, 0);
  MlirType element = nabla_array_element(mlirValueGetType(cotangent));
  const int64_t dim = nabla_op_integer(p->op, "dim", 0);
  const int64_t size = nabla_array_dim(nabla_result_type(p->op, 0), dim);
  const nabla_built_shape scalar = {0};
  MlirType integer = mlirIntegerTypeGet(nabla_op_context(p->op), 64);
  for (intptr_t i = 0; i < nabla_array_rank(mlirValueGetType(x)); i++)
    starts[i] =
        nabla_build_full_integer(&p->b, i == dim ? size : 0, &scalar, integer);
  starts[dim] =
      nabla_build_two(&p->b, "mul", starts[dim], own_number(&p->b, p->op));
  return nabla_build_box_update(&p->b, nabla_build_zeros(&p->b, x, element),
                                cotangent, starts);
}

bool nabla_vjp_all_slice(const nabla_pullback *p) {
  MlirValue x = nabla_diff_operand(p->op, 0), cotangent = p->cotangents[0];
  const MlirNamedAttribute dim = attribute_of(p->op, "dim");
  if (!p->is_varying)
    return give(p, exchange(&p->b, "nabla.all_gather", p->op, cotangent,
                            type_of(x, cotangent), 1, &dim));
  if (nabla_is_dynamic(nabla_array_dim(nabla_result_type(p->op, 0),
                                       nabla_op_integer(p->op, "dim", 0)))) {
    nabla_error_at(p->op,
                   "has no derivative: its operand varies, and the size of a "
                   "piece is not known");
    return false;
  }
  return give(p, own_piece(p, cotangent));
}

bool nabla_vjp_all_to_all(const nabla_pullback *p) {
  MlirValue cotangent = p->cotangents[0];
  const MlirNamedAttribute more[] = {
      nabla_build_integer(&p->b, "split", 64,
                          nabla_op_integer(p->op, "concat", 0)),
      nabla_build_integer(&p->b, "concat", 64,
                          nabla_op_integer(p->op, "split", 0))};
  return give(
      p, exchange(&p->b, "nabla.all_to_all", p->op, cotangent,
                  type_of(nabla_diff_operand(p->op, 0), cotangent), 2, more));
}

bool nabla_vjp_permute(const nabla_pullback *p) {
  MlirAttribute list =
      mlirOperationGetAttributeByName(p->op, nabla_ref("pairs"));
  const intptr_t count = mlirDenseArrayGetNumElements(list);
  int64_t *pairs = calloc((size_t)count + 1, sizeof *pairs);
  if (!pairs) return false;
  for (intptr_t i = 0; i < count; i++)
    pairs[i ^ 1] = mlirDenseI64ArrayGetElement(list, i);
  const MlirNamedAttribute back =
      nabla_build_list(&p->b, "pairs", count, pairs);
  free(pairs);
  MlirValue cotangent = p->cotangents[0];
  return give(p, exchange(&p->b, "nabla.permute", p->op, cotangent,
                          mlirValueGetType(cotangent), 1, &back));
}

/* All of it is of the device that gave the value. */
bool nabla_vjp_broadcast(const nabla_pullback *p) {
  enum { EQUAL = 0 };
  MlirValue cotangent = p->cotangents[0];
  const nabla_built_shape scalar = {0};
  const nabla_built_shape shape = nabla_build_shape_of(&p->b, cotangent);
  MlirValue from = nabla_build_full_integer(
      &p->b, nabla_op_integer(p->op, "from", 0), &scalar,
      mlirIntegerTypeGet(nabla_op_context(p->op), 64));
  MlirValue is =
      nabla_build_compare(&p->b, EQUAL, own_number(&p->b, p->op), from);
  MlirValue zeros = nabla_build_zeros(
      &p->b, cotangent, nabla_array_element(mlirValueGetType(cotangent)));
  return give(p, nabla_build_select(
                     &p->b, nabla_build_broadcast(&p->b, is, NULL, &shape),
                     cotangent, zeros));
}
