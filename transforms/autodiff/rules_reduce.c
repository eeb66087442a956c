/* Derivatives of operations along dimensions: reductions, softmax, log_softmax,
 * logsumexp. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

/* Numbers of Nabla_ReduceKind. */
enum { SUM, MAX, PROD, MIN, MEAN };
/* Numbers of Nabla_CompareKind. */
enum { EQUAL };

typedef struct reduction {
  nabla_builder b;
  MlirOperation op;
  int64_t kind, dims[NABLA_MAX_RANK];
  intptr_t count;
  bool kept;
  MlirValue x; /* the operand, widened */
  MlirType work;
} reduction;

static bool has_unit(MlirOperation op, const char *key) {
  return !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref(key)));
}

static reduction read_reduction(const nabla_builder *b, MlirOperation op) {
  reduction r = {.b = *b, .op = op, .kind = nabla_op_integer(op, "kind", SUM)};
  r.count = nabla_op_integers(op, "dims", r.dims);
  r.kept = has_unit(op, "keep_dims");
  r.x = nabla_diff_widen(b, nabla_diff_operand(op, 0));
  r.work = nabla_array_element(mlirValueGetType(r.x));
  return r;
}

/* An array in the shape of the result, in that of the operand. */
static MlirValue repeat(const reduction *r, MlirValue reduced) {
  return nabla_diff_repeat(&r->b, reduced, r->count, r->dims, r->kept, r->x);
}

/* The sum of an array in the shape of the operand, in that of the result. */
static MlirValue total(const reduction *r, MlirValue x) {
  MlirValue sum =
      nabla_build_reduce_all(&r->b, NABLA_BUILD_SUM, x, r->count, r->dims);
  if (!r->kept || mlirValueIsNull(sum)) return sum;
  nabla_built_shape shape =
      nabla_build_shape_of(&r->b, mlirOperationGetResult(r->op, 0));
  return nabla_build_reshape(&r->b, sum, &shape);
}

static MlirValue two(const reduction *r, const char *name, MlirValue x,
                     MlirValue y) {
  return nabla_build_two(&r->b, name, x, y);
}

static MlirValue full(const reduction *r, double value, MlirValue like) {
  if (mlirValueIsNull(like)) return like;
  nabla_built_shape shape = nabla_build_shape_of(&r->b, like);
  return nabla_build_full(&r->b, value, &shape, r->work);
}

/* 1 where the operand equals `value`, else 0. */
static MlirValue where_equal(const reduction *r, MlirValue value) {
  MlirValue same = nabla_build_compare(&r->b, EQUAL, r->x, value);
  return nabla_build_select(&r->b, same, full(r, 1, r->x), full(r, 0, r->x));
}

/* Elements that are the extremum share its derivative equally. */
static MlirValue share(const reduction *r) {
  MlirValue best = nabla_diff_widen(&r->b, mlirOperationGetResult(r->op, 0));
  MlirValue hits = where_equal(r, repeat(r, best));
  return two(r, "div", hits, repeat(r, total(r, hits)));
}

/* The product of all others: with one zero among the elements, that of the
 * others at its place, with several 0. */
static MlirValue others(const reduction *r) {
  MlirValue zero = full(r, 0, r->x), one = full(r, 1, r->x);
  MlirValue is_zero = nabla_build_compare(&r->b, EQUAL, r->x, zero);
  MlirValue rest = nabla_build_select(&r->b, is_zero, one, r->x);
  MlirValue zeros = nabla_build_select(&r->b, is_zero, one, zero);
  MlirNamedAttribute list[3] = {
      nabla_build_list(&r->b, "dims", r->count, r->dims),
      nabla_build_integer(&r->b, "kind", 32, PROD),
      nabla_named(nabla_op_context(r->op), "keep_dims",
                  mlirUnitAttrGet(nabla_op_context(r->op)))};
  nabla_op_spec spec = {"nabla.reduce",  1,   &rest, -1, NULL,
                        r->kept ? 3 : 2, list};
  MlirValue product = repeat(r, nabla_build_op(&r->b, &spec));
  MlirValue left = two(r, "sub", repeat(r, total(r, zeros)), zeros);
  MlirValue none = nabla_build_compare(&r->b, EQUAL, left, zero);
  return nabla_build_select(&r->b, none, two(r, "div", product, rest), zero);
}

/* The derivative of the result to each element; null of a sum, where it is 1.
 */
static MlirValue slope(const reduction *r) {
  switch (r->kind) {
    case MEAN:
      return two(r, "div", full(r, 1, r->x),
                 repeat(r, total(r, full(r, 1, r->x))));
    case MAX:
    case MIN:
      return share(r);
    case PROD:
      return others(r);
    default:
      return (MlirValue){NULL};
  }
}

static bool differentiable(const reduction *r) {
  if (r->kind <= MEAN) return true;
  nabla_error_at(r->op, "has no derivative: any and all have truth values");
  return false;
}

bool nabla_vjp_reduce(const nabla_pullback *p) {
  reduction r = read_reduction(&p->b, p->op);
  if (!differentiable(&r)) return false;
  MlirValue spread = repeat(&r, nabla_diff_widen(&p->b, p->cotangents[0]));
  if (r.kind != SUM) spread = two(&r, "mul", spread, slope(&r));
  p->out[0] = nabla_diff_narrow(&p->b, spread, nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_jvp_reduce(const nabla_pushforward *p) {
  reduction r = read_reduction(&p->b, p->op);
  if (!differentiable(&r)) return false;
  MlirValue tangent = nabla_diff_widen(&p->b, p->tangents[0]);
  if (r.kind != SUM) tangent = two(&r, "mul", tangent, slope(&r));
  p->out[0] = nabla_diff_narrow(&p->b, total(&r, tangent),
                                mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

/* ---- along one dimension ---- */

/* Without `keep_dims` in operations that give as many elements as they take. */
static reduction read_along(const nabla_builder *b, MlirOperation op) {
  reduction r = read_reduction(b, op);
  r.count = 1;
  r.dims[0] = nabla_op_integer(op, "dim", 0);
  return r;
}

static MlirValue softmax(const reduction *r) {
  return nabla_build_softmax(&r->b, r->x, (intptr_t)r->dims[0]);
}

bool nabla_vjp_logsumexp(const nabla_pullback *p) {
  reduction r = read_along(&p->b, p->op);
  MlirValue spread = repeat(&r, nabla_diff_widen(&p->b, p->cotangents[0]));
  p->out[0] = nabla_diff_narrow(&p->b, two(&r, "mul", spread, softmax(&r)),
                                nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_jvp_logsumexp(const nabla_pushforward *p) {
  reduction r = read_along(&p->b, p->op);
  MlirValue tangent = nabla_diff_widen(&p->b, p->tangents[0]);
  p->out[0] =
      nabla_diff_narrow(&p->b, total(&r, two(&r, "mul", tangent, softmax(&r))),
                        mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

/* r (v - sum(v r)): its Jacobian is symmetric. */
static MlirValue of_softmax(const nabla_builder *b, MlirOperation op,
                            MlirValue v) {
  reduction r = read_along(b, op);
  MlirValue y = nabla_diff_widen(b, mlirOperationGetResult(op, 0));
  v = nabla_diff_widen(b, v);
  MlirValue mean = repeat(&r, total(&r, two(&r, "mul", v, y)));
  return two(&r, "mul", y, two(&r, "sub", v, mean));
}

bool nabla_vjp_softmax(const nabla_pullback *p) {
  p->out[0] =
      nabla_diff_narrow(&p->b, of_softmax(&p->b, p->op, p->cotangents[0]),
                        nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_jvp_softmax(const nabla_pushforward *p) {
  p->out[0] = nabla_diff_narrow(&p->b, of_softmax(&p->b, p->op, p->tangents[0]),
                                mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_vjp_log_softmax(const nabla_pullback *p) {
  reduction r = read_along(&p->b, p->op);
  MlirValue v = nabla_diff_widen(&p->b, p->cotangents[0]);
  MlirValue sum = repeat(&r, total(&r, v));
  p->out[0] = nabla_diff_narrow(
      &p->b, two(&r, "sub", v, two(&r, "mul", softmax(&r), sum)),
      nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_jvp_log_softmax(const nabla_pushforward *p) {
  reduction r = read_along(&p->b, p->op);
  MlirValue v = nabla_diff_widen(&p->b, p->tangents[0]);
  MlirValue mean = repeat(&r, total(&r, two(&r, "mul", softmax(&r), v)));
  p->out[0] = nabla_diff_narrow(&p->b, two(&r, "sub", v, mean),
                                mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}
