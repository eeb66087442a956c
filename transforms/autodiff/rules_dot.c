/* Transposes of dot_general: the cotangent times the other operand, which may
 * be packed: nabla-dispatch then uses a kernel of the transposed weight. And
 * derivatives of quantize and materialize. */
#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

/* The dimensions of both operands: batches, contracted, free. */
typedef struct sides {
  nabla_built_dot dims;
  intptr_t rank[2], free_count[2];
  int64_t free_dims[2][NABLA_MAX_RANK];
} sides;

static bool holds(intptr_t count, const int64_t *dims, int64_t dim) {
  for (intptr_t i = 0; i < count; i++)
    if (dims[i] == dim) return true;
  return false;
}

static sides read_sides(MlirOperation op) {
  static const char *const keys[2][2] = {{"lhs_batching", "lhs_contracting"},
                                         {"rhs_batching", "rhs_contracting"}};
  sides s = {0};
  for (int i = 0; i < 2; i++) {
    s.dims.batches = nabla_op_integers(op, keys[i][0], s.dims.batching[i]);
    s.dims.contracted =
        nabla_op_integers(op, keys[i][1], s.dims.contracting[i]);
    s.rank[i] = nabla_array_rank(nabla_operand_type(op, i));
    for (intptr_t d = 0; d < s.rank[i]; d++)
      if (!holds(s.dims.batches, s.dims.batching[i], d) &&
          !holds(s.dims.contracted, s.dims.contracting[i], d))
        s.free_dims[i][s.free_count[i]++] = d;
  }
  return s;
}

/* The cotangent of operand `side`: its dimensions are the batches, the free
 * ones of this side, and those contracted in the order of the other side. */
static MlirValue pull(const nabla_pullback *p, const sides *s, int side) {
  const int other = 1 - side;
  nabla_built_dot dot = {.batches = s->dims.batches,
                         .contracted = s->free_count[other]};
  intptr_t first = s->dims.batches + (other ? s->free_count[side] : 0);
  int64_t order[NABLA_MAX_RANK];
  intptr_t at = 0;
  for (intptr_t i = 0; i < dot.batches; i++) {
    dot.batching[0][i] = i;
    dot.batching[1][i] = s->dims.batching[other][i];
    order[s->dims.batching[side][i]] = at++;
  }
  for (intptr_t i = 0; i < dot.contracted; i++) {
    dot.contracting[0][i] = first + i;
    dot.contracting[1][i] = s->free_dims[other][i];
  }
  for (intptr_t i = 0; i < s->free_count[side]; i++)
    order[s->free_dims[side][i]] = at++;
  for (intptr_t d = 0; d < s->rank[other]; d++)
    for (intptr_t i = 0; i < s->dims.contracted; i++)
      if (s->dims.contracting[other][i] == d)
        order[s->dims.contracting[side][i]] = at++;
  MlirValue product = nabla_build_dot_of(
      &p->b, p->cotangents[0], nabla_diff_operand(p->op, other), &dot);
  return nabla_build_transpose(&p->b, product, order);
}

bool nabla_vjp_dot_general(const nabla_pullback *p) {
  const sides s = read_sides(p->op);
  for (int i = 0; i < 2; i++) {
    if (!p->wanted[i]) continue;
    p->out[i] =
        nabla_diff_narrow(&p->b, pull(p, &s, i), nabla_diff_operand(p->op, i));
    if (mlirValueIsNull(p->out[i])) return false;
  }
  return true;
}

/* ---- implicit arrays ---- */

/* Straight through: as if the array were not rounded. */
bool nabla_vjp_quantize(const nabla_pullback *p) {
  p->out[0] =
      nabla_diff_narrow(&p->b, p->cotangents[0], nabla_diff_operand(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}
bool nabla_jvp_quantize(const nabla_pushforward *p) {
  p->out[0] = nabla_diff_narrow(&p->b, p->tangents[0],
                                mlirOperationGetResult(p->op, 0));
  return !mlirValueIsNull(p->out[0]);
}

bool nabla_vjp_materialize(const nabla_pullback *p) {
  return nabla_vjp_quantize(p);
}
bool nabla_jvp_materialize(const nabla_pushforward *p) {
  return nabla_jvp_quantize(p);
}
