/* Derivatives of pool. */
#include <assert.h>
#include <mlir-c/BuiltinAttributes.h>

#include "dialect/verify/checks.h"
#include "transforms/autodiff/rules.h"

/* Numbers of Nabla_CompareKind. */
enum { EQUAL };
/* Numbers of Nabla_PoolKind. */
enum { SUM, MAX, MIN, AVG };

/* Positions of a window that are tried one after the other. */
enum { MOST_POSITIONS = 256 };

typedef struct pool {
  const nabla_builder *b;
  MlirOperation op;
  MlirValue x; /* widened */
  MlirType work;
  intptr_t rank;
  int64_t kind, window[NABLA_MAX_RANK], stride[NABLA_MAX_RANK];
  int64_t dilation[NABLA_MAX_RANK], low[NABLA_MAX_RANK], high[NABLA_MAX_RANK];
  int64_t in[NABLA_MAX_RANK], out[NABLA_MAX_RANK]; /* sizes */
  bool count_padding;
} pool;

static void read_list(MlirOperation op, const char *key, intptr_t rank,
                      int64_t missing, int64_t *out) {
  if (nabla_op_integers(op, key, out)) return;
  for (intptr_t i = 0; i < rank; i++) out[i] = missing;
}

/* Dimension i is not touched by the windows. */
static bool is_plain(const pool *p, intptr_t i) {
  return p->window[i] == 1 && p->stride[i] == 1 && !p->low[i] && !p->high[i];
}

static bool read_pool(const nabla_builder *b, MlirOperation op, pool *out) {
  *out = (pool){.b = b, .op = op, .kind = nabla_op_integer(op, "kind", 0)};
  out->x = nabla_diff_widen(b, nabla_diff_operand(op, 0));
  MlirType type = mlirValueGetType(out->x);
  MlirType result = nabla_result_type(op, 0);
  out->work = nabla_array_element(type);
  out->rank = nabla_array_rank(type);
  (void)nabla_op_integers(op, "window", out->window);
  read_list(op, "strides", out->rank, 1, out->stride);
  read_list(op, "dilation", out->rank, 1, out->dilation);
  read_list(op, "low", out->rank, 0, out->low);
  read_list(op, "high", out->rank, 0, out->high);
  out->count_padding = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref("count_padding")));
  for (intptr_t i = 0; i < out->rank; i++) {
    out->in[i] = nabla_array_dim(type, i);
    out->out[i] = nabla_array_dim(result, i);
    if (is_plain(out, i) ||
        (!nabla_is_dynamic(out->in[i]) && !nabla_is_dynamic(out->out[i])))
      continue;
    nabla_error_at(op,
                   "has no derivative: the size of dimension %d, over which "
                   "windows move, has to be known",
                   (int)i);
    return false;
  }
  return true;
}

/* Puts an array of the result's shape where the windows' element `at` is in the
 * operand; all else is 0. */
static MlirValue put(const pool *p, MlirValue y, const int64_t *at) {
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], between[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < p->rank; i++) {
    low[i] = high[i] = between[i] = 0;
    if (is_plain(p, i)) continue;
    const int64_t span = p->out[i] ? (p->out[i] - 1) * p->stride[i] + 1 : 0;
    between[i] = p->stride[i] - 1;
    low[i] = at[i] * p->dilation[i] - p->low[i];
    high[i] = p->in[i] - low[i] - span;
  }
  return nabla_build_pad(p->b, y, low, high, between);
}

/* The elements `at` of all windows; 0 for those in the padding. */
static MlirValue take(const pool *p, MlirValue x, const int64_t *at) {
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], end[NABLA_MAX_RANK];
  static const int64_t start[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < p->rank; i++) {
    low[i] = high[i] = 0;
    end[i] = -1;
    if (is_plain(p, i)) continue;
    const int64_t span = p->out[i] ? (p->out[i] - 1) * p->stride[i] + 1 : 0;
    low[i] = p->low[i] - at[i] * p->dilation[i];
    high[i] = span - p->in[i] - low[i];
  }
  x = nabla_build_pad(p->b, x, low, high, NULL);
  return nabla_build_slice_strided(p->b, x, start, end, p->stride);
}

/* The next position of a window in row-major order. */
static bool next(const pool *p, int64_t *at) {
  assert(p->rank >= 0 && p->rank <= NABLA_MAX_RANK);
  for (size_t i = (size_t)p->rank; i-- > 0;) {
    if (++at[i] < p->window[i]) return true;
    at[i] = 0;
  }
  return false;
}

static bool few_positions(const pool *p) {
  int64_t count = 1;
  for (intptr_t i = 0; i < p->rank; i++)
    if (__builtin_mul_overflow(count, p->window[i], &count) ||
        count > MOST_POSITIONS) {
      nabla_error_at(p->op,
                     "has no derivative: its windows have more than %d "
                     "elements",
                     MOST_POSITIONS);
      return false;
    }
  return count > 0;
}

static MlirValue full(const pool *p, double value, MlirValue like) {
  if (mlirValueIsNull(like)) return like;
  const nabla_built_shape shape = nabla_build_shape_of(p->b, like);
  return nabla_build_full(p->b, value, &shape, p->work);
}

static MlirValue two(const pool *p, const char *name, MlirValue x,
                     MlirValue y) {
  return nabla_build_two(p->b, name, x, y);
}

/* What each window divides by: its elements, those of the padding too if they
 * count. Null for a sum. */
static MlirValue divisor(const pool *p) {
  if (p->kind != AVG) return (MlirValue){NULL};
  MlirValue y = mlirOperationGetResult(p->op, 0);
  double size = 1;
  for (intptr_t i = 0; i < p->rank; i++) size *= (double)p->window[i];
  if (p->count_padding) return full(p, size, y);
  const nabla_built_pool counts = {
      NABLA_BUILD_POOL_SUM,
      p->window,
      {p->rank, p->stride, p->dilation, p->low, p->high},
      false};
  return nabla_build_pool(p->b, full(p, 1, p->x), &counts);
}

/* Calls for each position of a window: which windows have their extremum there
 * first, 1 or 0 in the shape of the result. */
typedef struct hits {
  const pool *p;
  MlirValue best, found; /* found: 1 where an earlier position was it */
} hits;

static hits begin(const pool *p) {
  MlirValue y = nabla_diff_widen(p->b, mlirOperationGetResult(p->op, 0));
  return (hits){p, y, full(p, 0, y)};
}

static MlirValue hit(hits *h, const int64_t *at) {
  const pool *p = h->p;
  MlirValue zero = full(p, 0, h->best), one = full(p, 1, h->best);
  MlirValue same = nabla_build_compare(p->b, EQUAL, take(p, p->x, at), h->best);
  MlirValue real = nabla_build_compare(
      p->b, EQUAL, take(p, full(p, 1, p->x), at), one); /* not padding */
  MlirValue open = nabla_build_compare(p->b, EQUAL, h->found, zero);
  MlirValue here = two(p, "and", two(p, "and", same, real), open);
  MlirValue number = nabla_build_select(p->b, here, one, zero);
  h->found = two(p, "add", h->found, number);
  return number;
}

static MlirValue pull_best(const pool *p, MlirValue cotangent) {
  int64_t at[NABLA_MAX_RANK] = {0};
  MlirValue sum = {NULL};
  hits h = begin(p);
  do {
    MlirValue part = put(p, two(p, "mul", cotangent, hit(&h, at)), at);
    sum = mlirValueIsNull(sum) ? part : two(p, "add", sum, part);
  } while (next(p, at));
  return sum;
}

/* The sums of the windows in which each element is: with strides as gaps, those
 * of windows of the same form. */
static MlirValue pull_sum(const pool *p, MlirValue cotangent) {
  static const int64_t none[NABLA_MAX_RANK];
  int64_t low[NABLA_MAX_RANK], high[NABLA_MAX_RANK], between[NABLA_MAX_RANK];
  MlirValue by = divisor(p);
  if (!mlirValueIsNull(by)) cotangent = two(p, "div", cotangent, by);
  for (intptr_t i = 0; i < p->rank; i++) {
    low[i] = high[i] = between[i] = 0;
    if (is_plain(p, i)) continue;
    const int64_t span = p->out[i] ? (p->out[i] - 1) * p->stride[i] + 1 : 0;
    const int64_t reach = (p->window[i] - 1) * p->dilation[i];
    between[i] = p->stride[i] - 1;
    low[i] = reach - p->low[i];
    high[i] = p->in[i] - span - low[i] + reach;
  }
  const nabla_built_pool sums = {NABLA_BUILD_POOL_SUM,
                                 p->window,
                                 {p->rank, NULL, p->dilation, low, high},
                                 false};
  return nabla_build_pool(
      p->b, nabla_build_pad(p->b, cotangent, none, none, between), &sums);
}

bool nabla_vjp_pool(const nabla_pullback *v) {
  pool p;
  if (!read_pool(&v->b, v->op, &p)) return false;
  MlirValue cotangent = nabla_diff_widen(&v->b, v->cotangents[0]);
  const bool picks = p.kind == MAX || p.kind == MIN;
  if (picks && !few_positions(&p)) return false;
  MlirValue sum = picks ? pull_best(&p, cotangent) : pull_sum(&p, cotangent);
  v->out[0] = nabla_diff_narrow(&v->b, sum, nabla_diff_operand(v->op, 0));
  return !mlirValueIsNull(v->out[0]);
}

/* Of a sum or mean the same of the tangent. */
static MlirValue push_sum(const pool *p, MlirValue tangent) {
  const nabla_built_pool same = {
      p->kind,
      p->window,
      {p->rank, p->stride, p->dilation, p->low, p->high},
      p->count_padding};
  return nabla_build_pool(p->b, tangent, &same);
}

static MlirValue push_best(const pool *p, MlirValue tangent) {
  int64_t at[NABLA_MAX_RANK] = {0};
  MlirValue sum = {NULL};
  hits h = begin(p);
  do {
    MlirValue part = two(p, "mul", take(p, tangent, at), hit(&h, at));
    sum = mlirValueIsNull(sum) ? part : two(p, "add", sum, part);
  } while (next(p, at));
  return sum;
}

bool nabla_jvp_pool(const nabla_pushforward *v) {
  pool p;
  if (!read_pool(&v->b, v->op, &p)) return false;
  MlirValue tangent = nabla_diff_widen(&v->b, v->tangents[0]);
  const bool picks = p.kind == MAX || p.kind == MIN;
  if (picks && !few_positions(&p)) return false;
  MlirValue y = picks ? push_best(&p, tangent) : push_sum(&p, tangent);
  v->out[0] = nabla_diff_narrow(&v->b, y, mlirOperationGetResult(v->op, 0));
  return !mlirValueIsNull(v->out[0]);
}
