/* Rules for contractions of two tensors: a product that is large enough becomes
 * nabla.fused_dot with a dense weight, the second operand. Dimensions of an
 * operand that lie next to each other are joined, which moves nothing; an
 * operand in another order is transposed first. */
#include "transforms/dispatch/rules_dense.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/fused/fused_dense.h"
#include "transforms/ir/ir.h"

nabla_rule_outcome nabla_apply_dot_dense(MlirOperation op, const char **why);

/* Multiplications below which loops are no slower than the call of a kernel,
 * and compiled in a fraction of its time; and what counts for a size that is
 * not known. */
#define LEAST_PRODUCTS 8192.0
#define UNKNOWN_SIZE   32.0

/* Dimensions of an operand: FREE is kept, BATCH and CONTRACTED are paired with
 * those of the other operand. */
typedef enum role { FREE, BATCH, CONTRACTED } role;

/* One operand. `moved` is its type with dimensions in the order `order`; joined
 * it has `rank` = batches + 2 dimensions. */
typedef struct side {
  MlirValue value;
  MlirType type;
  intptr_t whole, rank, batches;
  role roles[NABLA_MAX_RANK];     /* of `type`                       */
  intptr_t pairs[NABLA_MAX_RANK]; /* number of the pair of each      */
  int64_t order[NABLA_MAX_RANK];  /* dimensions of `type`            */
  int64_t shape[NABLA_MAX_RANK];  /* joined                          */
  int64_t first[NABLA_MAX_RANK];  /* of each joined one: its first dimension
                                     in `order`, and how many */
  int64_t joined[NABLA_MAX_RANK];
  int64_t batch[NABLA_MAX_RANK], free, contracted; /* joined */
} side;

static side side_of(MlirOperation op, intptr_t operand) {
  side s = {.value = mlirOperationGetOperand(op, operand)};
  int64_t list[NABLA_MAX_RANK];
  s.type = mlirValueGetType(s.value);
  s.whole = nabla_array_rank(s.type);
  for (intptr_t i = 0; i < s.whole; i++) s.order[i] = i;
  s.batches =
      nabla_op_integers(op, operand ? "rhs_batching" : "lhs_batching", list);
  for (intptr_t i = 0; i < s.batches; i++) {
    s.roles[list[i]] = BATCH;
    s.pairs[list[i]] = i;
  }
  intptr_t count = nabla_op_integers(
      op, operand ? "rhs_contracting" : "lhs_contracting", list);
  for (intptr_t i = 0; i < count; i++) {
    s.roles[list[i]] = CONTRACTED;
    s.pairs[list[i]] = i;
  }
  return s;
}

static int64_t dim(const side *s, intptr_t at) {
  return nabla_array_dim(s->type, (intptr_t)s->order[at]);
}

/* Whether the dimension at `at` joins the one before: both are free, or both
 * contracted. */
static bool joins(const side *s, intptr_t at) {
  role before = s->roles[s->order[at - 1]], here = s->roles[s->order[at]];
  return before == here && here != BATCH;
}

/* Adds a joined dimension. */
static void open_dim(side *s, role kind, intptr_t at) {
  s->first[s->rank] = at;
  s->shape[s->rank] = 1;
  s->joined[s->rank] = 0;
  if (kind == FREE) s->free = s->rank;
  if (kind == CONTRACTED) s->contracted = s->rank;
  if (kind == BATCH) s->batch[s->pairs[s->order[at]]] = s->rank;
  s->rank++;
}

/* Multiplies the last joined dimension; false on overflow. */
static bool extend_dim(side *s, int64_t size) {
  int64_t *shape = &s->shape[s->rank - 1];
  s->joined[s->rank - 1]++;
  if (nabla_is_dynamic(size) || nabla_is_dynamic(*shape)) {
    *shape = nabla_is_dynamic(size) ? size : *shape;
    return true;
  }
  return !__builtin_mul_overflow(*shape, size, shape);
}

static bool has_free(const side *s) {
  for (intptr_t i = 0; i < s->whole; i++)
    if (s->roles[i] == FREE) return true;
  return false;
}

/* Joins what lies side by side; false where a role has several parts, or
 * contracted dimensions are not in the order of their pairs. An operand without
 * a free dimension gets one of size 1, before the contracted one. */
static bool join(side *s) {
  intptr_t parts[3] = {0};
  bool bare = !has_free(s);
  s->rank = 0;
  for (intptr_t i = 0; i < s->whole; i++) {
    role kind = s->roles[s->order[i]];
    bool more = i > 0 && joins(s, i);
    if (more && kind == CONTRACTED &&
        s->pairs[s->order[i]] != s->pairs[s->order[i - 1]] + 1)
      return false;
    if (!more) {
      if (bare && kind == CONTRACTED) open_dim(s, FREE, i);
      open_dim(s, kind, i);
      if (kind != BATCH && ++parts[kind] > 1) return false;
    }
    if (!extend_dim(s, dim(s, i))) return false;
  }
  return true;
}

/* The order of dimensions that always joins: batches, free ones, contracted
 * ones by their pairs. */
static void reorder(side *s) {
  int64_t order[NABLA_MAX_RANK];
  intptr_t at = 0;
  for (role kind = BATCH;; kind = kind == BATCH ? FREE : CONTRACTED) {
    for (intptr_t pair = 0; pair < (kind == FREE ? 1 : s->whole); pair++)
      for (intptr_t i = 0; i < s->whole; i++)
        if (s->roles[i] == kind && (kind == FREE || s->pairs[i] == pair))
          order[at++] = i;
    if (kind == CONTRACTED) break;
  }
  for (intptr_t i = 0; i < s->whole; i++) s->order[i] = order[i];
}

/* Whether a joined matrix has consecutive rows or columns. */
static bool is_consecutive(const side *s, bool is_x) {
  int64_t last = s->rank - 1;
  if (s->contracted == last) return true;
  return s->free == last && (!is_x || s->contracted == last - 1);
}

static bool prepare(side *s, bool is_x) {
  if (join(s) && is_consecutive(s, is_x)) return true;
  reorder(s);
  return join(s) && is_consecutive(s, is_x);
}

/* ---- the operation ----------------------------------------------------------
 */

static MlirValue result_of(MlirOperation op) {
  return mlirOperationGetResult(op, 0);
}

static MlirValue dim_of(MlirOperation before, MlirValue value, int64_t index) {
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirIndexTypeGet(context);
  MlirNamedAttribute at =
      nabla_named(context, "value", mlirIntegerAttrGet(type, index));
  nabla_op_spec constant = {"arith.constant", 0, NULL, 1, &type, 1, &at};
  MlirValue operands[2] = {value,
                           result_of(nabla_op_create(before, &constant))};
  nabla_op_spec spec = {"tensor.dim", 2, operands, 1, &type, 0, NULL};
  return result_of(nabla_op_create(before, &spec));
}

/* The size of joined dimension `index` as a value. */
static MlirValue joined_size(MlirOperation before, const side *s,
                             intptr_t index) {
  MlirValue size = {NULL};
  for (int64_t i = 0; i < s->joined[index]; i++) {
    MlirValue one = dim_of(before, s->value, s->order[s->first[index] + i]);
    MlirValue factors[2] = {size, one};
    MlirType type = mlirValueGetType(one);
    nabla_op_spec product = {"arith.muli", 2, factors, 1, &type, 0, NULL};
    size = i ? result_of(nabla_op_create(before, &product)) : one;
  }
  return size;
}

static MlirType joined_type(const side *s) {
  return mlirRankedTensorTypeGet(
      s->rank, s->shape, nabla_array_element(s->type), mlirAttributeGetNull());
}

static MlirValue reshape(MlirOperation before, MlirValue value, MlirType type,
                         intptr_t count, const MlirValue *sizes) {
  MlirValue operands[NABLA_MAX_RANK + 1] = {value};
  if (mlirTypeEqual(mlirValueGetType(value), type)) return value;
  for (intptr_t i = 0; i < count; i++) operands[i + 1] = sizes[i];
  nabla_op_spec spec = {"nabla.reshape", count + 1, operands, 1,
                        &type,           0,         NULL};
  return result_of(nabla_op_create(before, &spec));
}

/* The operand with its dimensions joined. */
static MlirValue joined_value(MlirOperation op, const side *s) {
  MlirValue sizes[NABLA_MAX_RANK];
  intptr_t count = 0;
  MlirType type = joined_type(s);
  MlirValue value = nabla_value_transpose(op, s->value, s->whole, s->order);
  if (!mlirTypeEqual(mlirValueGetType(value), type))
    for (intptr_t i = 0; i < s->rank; i++)
      if (nabla_is_dynamic(s->shape[i])) sizes[count++] = joined_size(op, s, i);
  return reshape(op, value, type, count, sizes);
}

/* Adds, for each free dimension of `s` that is not known, its size. */
static void add_free_sizes(MlirOperation op, const side *s, MlirValue *sizes,
                           intptr_t *count) {
  for (intptr_t i = 0; i < s->whole; i++)
    if (s->roles[i] == FREE && nabla_is_dynamic(nabla_array_dim(s->type, i)))
      sizes[(*count)++] = dim_of(op, s->value, i);
}

/* The result of the product in the shape that `op` has. */
static MlirValue as_result(MlirOperation op, MlirValue y, const side *x,
                           const side *w) {
  MlirType type = nabla_result_type(op, 0);
  MlirValue sizes[NABLA_MAX_RANK];
  intptr_t count = 0;
  if (mlirTypeEqual(mlirValueGetType(y), type)) return y;
  for (intptr_t i = 0; i < x->batches; i++) {
    const side *from = nabla_is_dynamic(x->shape[x->batch[i]]) ? w : x;
    if (nabla_is_dynamic(nabla_array_dim(type, i)))
      sizes[count++] = joined_size(op, from, (intptr_t)from->batch[i]);
  }
  add_free_sizes(op, x, sizes, &count);
  add_free_sizes(op, w, sizes, &count);
  return reshape(op, y, type, count, sizes);
}

static nabla_fused_dims dims_of(const side *x, const side *w) {
  nabla_fused_dims d = {.batches = x->batches,
                        .x_free = x->free,
                        .x_contracted = x->contracted,
                        .w_free = w->free,
                        .w_contracted = w->contracted};
  for (intptr_t i = 0; i < x->batches; i++) {
    d.x_batch[i] = x->batch[i];
    d.w_batch[i] = w->batch[i];
  }
  return d;
}

static MlirOperation build(MlirOperation op, const side *x, const side *w) {
  MlirContext context = nabla_op_context(op);
  const MlirValue operands[2] = {joined_value(op, x), joined_value(op, w)};
  MlirNamedAttribute list[4];
  intptr_t count = 0;
  bool plain = x->batches == 0 && x->contracted == 1 && w->contracted == 1;
  if (!plain) {
    list[count++] =
        nabla_named(context, "lhs_contracting",
                    mlirDenseI64ArrayGet(context, 1, &x->contracted));
    list[count++] =
        nabla_named(context, "rhs_contracting",
                    mlirDenseI64ArrayGet(context, 1, &w->contracted));
  }
  if (x->batches) {
    list[count++] =
        nabla_named(context, "lhs_batching",
                    mlirDenseI64ArrayGet(context, x->batches, x->batch));
    list[count++] =
        nabla_named(context, "rhs_batching",
                    mlirDenseI64ArrayGet(context, w->batches, w->batch));
  }
  nabla_op_spec spec = {"nabla.fused_dot", 2, operands, -1, NULL, count, list};
  return nabla_op_create(op, &spec);
}

/* ---- whether it pays --------------------------------------------------------
 */

static double size_or(int64_t size) {
  return nabla_is_dynamic(size) ? UNKNOWN_SIZE : (double)size;
}

static double products(const side *x, const side *w) {
  double all = 1;
  for (intptr_t i = 0; i < x->rank; i++) all *= size_or(x->shape[i]);
  return all * size_or(w->shape[w->free]);
}

static bool is_float(MlirType element) {
  return mlirTypeIsAF32(element) || mlirTypeIsAF16(element) ||
         mlirTypeIsABF16(element);
}

/* A weight that was widened to f32 is read as it is stored. */
static void read_narrow(side *w) {
  MlirOperation convert = nabla_defining_op(w->value);
  if (mlirOperationIsNull(convert) || !nabla_is(convert, "nabla.convert"))
    return;
  MlirType from = nabla_operand_type(convert, 0);
  if (nablaTypeIsAImplicit(from) ||
      !mlirTypeIsAF32(nabla_array_element(w->type)))
    return;
  MlirType element = nabla_array_element(from);
  if (!mlirTypeIsAF16(element) && !mlirTypeIsABF16(element)) return;
  w->value = mlirOperationGetOperand(convert, 0);
  w->type = from;
}

/* What is known of a contracted size from one operand holds for the other. */
static const char *objection_to(const side *x, const side *w) {
  if (nabla_is_dynamic(x->shape[x->contracted]) && x->joined[x->contracted] > 1)
    return "more than one contracted dimension is not known";
  if (products(x, w) < LEAST_PRODUCTS) return "the product is small";
  return NULL;
}

nabla_rule_outcome nabla_apply_dot_dense(MlirOperation op, const char **why) {
  side x = side_of(op, 0), w = side_of(op, 1);
  int64_t list[NABLA_MAX_RANK];
  *why = NULL;
  if (!is_float(nabla_array_element(x.type)))
    *why = "kernels compute in f32, f16 and bf16";
  else if (!nabla_op_integers(op, "lhs_contracting", list))
    *why = "nothing is contracted";
  if (*why) return NABLA_RULE_DECLINED;
  read_narrow(&w);
  if (!prepare(&x, true) || !prepare(&w, false))
    *why = "its dimensions do not join";
  if (!*why) *why = objection_to(&x, &w);
  nabla_fused_spec unused;
  nabla_fused_dims dims = dims_of(&x, &w);
  if (!*why)
    *why = nabla_fused_dense_spec(nabla_target_of(op), joined_type(&x),
                                  joined_type(&w), &dims, 0, &unused);
  if (*why) return NABLA_RULE_DECLINED;
  MlirOperation fused = build(op, &x, &w);
  if (mlirOperationIsNull(fused)) return NABLA_RULE_FAILED;
  MlirValue y = as_result(op, result_of(fused), &x, &w);
  nabla_op_replace(op, &y);
  return NABLA_RULE_APPLIED;
}

bool nabla_linear_pays(MlirOperation op) {
  MlirType x = nabla_operand_type(op, 0), w = nabla_operand_type(op, 1);
  double all = size_or(nabla_array_dim(w, 0));
  for (intptr_t i = 0; i < nabla_array_rank(x); i++)
    all *= size_or(nabla_array_dim(x, i));
  return nabla_dense_product_pays(nabla_array_element(x), all);
}

bool nabla_dense_product_pays(MlirType element, double products) {
  return is_float(element) && products >= LEAST_PRODUCTS;
}
