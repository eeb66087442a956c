/* Lowerings of dot_general and reduce. */
#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/list.h"

/* The dimensions of a dot_general, and the loop of each: batching, free ones of
 * lhs, free ones of rhs, contracting. */
typedef struct contraction {
  intptr_t batch, contracting, loops;
  int64_t lhs_batch[NABLA_MAX_RANK], rhs_batch[NABLA_MAX_RANK];
  int64_t lhs[NABLA_MAX_RANK], rhs[NABLA_MAX_RANK];
  intptr_t lhs_map[NABLA_MAX_RANK], rhs_map[NABLA_MAX_RANK];
} contraction;

/* Gives the loop `*at` on to each dimension of `tensor` that has none, and the
 * sizes to `shape`. */
static void map_free(nabla_template *t, nabla_ssa_tensor *tensor, intptr_t *map,
                     intptr_t *at, nabla_ssa_tensor *shape) {
  for (intptr_t i = 0; i < tensor->rank; i++) {
    if (map[i] >= 0) continue;
    if (nabla_is_dynamic(tensor->dims[i]))
      shape->sizes[*at] = nabla_ssa_tensor_size(t, tensor, i);
    map[i] = (*at)++;
  }
}

static void read_contraction(nabla_template *t, nabla_ssa_tensor *lhs,
                             nabla_ssa_tensor *rhs, contraction *c,
                             nabla_ssa_tensor *shape) {
  c->batch = nabla_op_integers(t->op, "lhs_batching", c->lhs_batch);
  nabla_op_integers(t->op, "rhs_batching", c->rhs_batch);
  c->contracting = nabla_op_integers(t->op, "lhs_contracting", c->lhs);
  nabla_op_integers(t->op, "rhs_contracting", c->rhs);
  for (intptr_t i = 0; i < NABLA_MAX_RANK; i++)
    c->lhs_map[i] = c->rhs_map[i] = -1;
  for (intptr_t i = 0; i < c->batch; i++) {
    intptr_t a = (intptr_t)c->lhs_batch[i], b = (intptr_t)c->rhs_batch[i];
    nabla_operands_agree(t, lhs, a, rhs, b);
    if (nabla_is_dynamic(lhs->dims[a]))
      shape->sizes[i] = nabla_ssa_tensor_size(t, lhs, a);
    c->lhs_map[a] = c->rhs_map[b] = i;
  }
  for (intptr_t i = 0; i < c->contracting; i++) {
    intptr_t a = (intptr_t)c->lhs[i], b = (intptr_t)c->rhs[i];
    nabla_operands_agree(t, lhs, a, rhs, b);
    c->lhs_map[a] = c->rhs_map[b] = shape->rank + i;
  }
  intptr_t at = c->batch;
  map_free(t, lhs, c->lhs_map, &at, shape);
  map_free(t, rhs, c->rhs_map, &at, shape);
  c->loops = shape->rank + c->contracting;
}

bool nabla_lower_dot_general(nabla_template *t) {
  contraction c = {0};
  nabla_template_open(t);
  nabla_ssa_tensor lhs = nabla_template_operand(t, 0);
  nabla_ssa_tensor rhs = nabla_template_operand(t, 1);
  nabla_ssa_tensor shape = nabla_template_result(t);
  read_contraction(t, &lhs, &rhs, &c, &shape);
  const char *work = lhs.element->work;
  bool sums = c.contracting > 0;
  nabla_ssa_tensor sum = sums ? nabla_ssa_tensor_full(t, &shape, work, "0.0")
                              : nabla_ssa_tensor_empty(t, &shape, work);
  nabla_generic g = {.loops = c.loops, .reductions = c.contracting};
  nabla_generic_add(&g, &lhs, c.lhs_map);
  nabla_generic_add(&g, &rhs, c.rhs_map);
  nabla_generic_add(&g, &sum, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0);
  nabla_ssa w = nabla_generic_load(t, &g, 1);
  nabla_ssa value = k_op(&t->emit, "arith.mulf %%v%u, %%v%u : %s", x, w, work);
  if (sums)
    value = k_op(&t->emit, "arith.addf %%v%u, %%v%u : %s",
                 g.operands[2].element, value, work);
  sum = nabla_generic_end(t, &g, value);
  return nabla_template_close(
      t, nabla_ssa_tensor_convert(t, &sum, lhs.element).value);
}

enum { MAX = 1, MIN = 3, MEAN = 4 }; /* of Nabla_ReduceKind */

/* How an element is folded into a result, by Nabla_ReduceKind: operations of
 * floats, signed and unsigned integers; what a result begins with, "least" or
 * "greatest" being those of the type. */
static const struct {
  const char *operations[3], *float_initial, *integer_initial;
} folds[] = {
    {{"addf", "addi", "addi"}, "0.0", "0"},
    {{"maximumf", "maxsi", "maxui"}, "least", "least"},
    {{"mulf", "muli", "muli"}, "1.0", "1"},
    {{"minimumf", "minsi", "minui"}, "greatest", "greatest"},
    {{"addf", "addi", "addi"}, "0.0", "0"},
    {{"ori", "ori", "ori"}, "0", "0"},
    {{"andi", "andi", "andi"}, "1", "-1"},
};

static const char *initial_of(int64_t kind, const nabla_element *element) {
  const char *text = element->is_float ? folds[kind].float_initial
                                       : folds[kind].integer_initial;
  if (!strcmp(text, "least")) return element->least;
  if (!strcmp(text, "greatest")) return nabla_element_greatest(element);
  /* "1" of i1 is written as its sign bit */
  return !strcmp(text, "1") && !strcmp(element->name, "i1") ? "-1" : text;
}

static const char *fold_name(int64_t kind, const nabla_element *element) {
  return folds[kind].operations[element->is_float      ? 0
                                : element->is_unsigned ? 2
                                                       : 1];
}

/* The sums over their number of terms. */
static nabla_ssa_tensor divide_by_count(nabla_template *t, nabla_ssa_tensor *in,
                                        uint32_t reduced,
                                        const nabla_ssa_tensor *sums) {
  const char *work = in->element->work;
  nabla_ssa count = nabla_emit_index(t, 1);
  for (intptr_t i = 0; i < in->rank; i++)
    if (reduced >> i & 1u)
      count = k_op(&t->emit, "arith.muli %%v%u, %%v%u : index", count,
                   nabla_ssa_tensor_size(t, in, i));
  count = k_op(&t->emit, "arith.index_cast %%v%u : index to i64", count);
  count = k_op(&t->emit, "arith.sitofp %%v%u : i64 to %s", count, work);
  nabla_ssa_tensor shape = *sums;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, work);
  nabla_generic g = {.loops = sums->rank};
  nabla_generic_add(&g, sums, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa mean = k_op(&t->emit, "arith.divf %%v%u, %%v%u : %s",
                        g.operands[0].element, count, work);
  return nabla_generic_end(t, &g, mean);
}

/* What a reduction writes, and where: the loops are the kept dimensions, then
 * the reduced ones. */
typedef struct reduction {
  uint32_t reduced; /* a bit for each dimension */
  bool keep_dims;
  intptr_t kept; /* number of dimensions that stay */
  intptr_t in_map[NABLA_MAX_RANK], out_map[NABLA_MAX_RANK];
  nabla_ssa_tensor shape;
} reduction;

static void read_reduction(nabla_template *t, nabla_ssa_tensor *in,
                           reduction *r) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(t->op, "dims", dims);
  for (intptr_t i = 0; i < count; i++) r->reduced |= 1u << dims[i];
  r->keep_dims = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(t->op, nabla_ref("keep_dims")));
  r->shape = nabla_template_result(t);
  intptr_t at = 0, loop = in->rank - count;
  for (intptr_t i = 0; i < in->rank; i++) {
    bool reduced = r->reduced >> i & 1u;
    r->in_map[i] = reduced ? loop++ : r->kept++;
    if (reduced && !r->keep_dims) continue;
    r->out_map[at] = reduced ? NABLA_AT(0) : r->in_map[i];
    if (!reduced && nabla_is_dynamic(in->dims[i]))
      r->shape.sizes[at] = nabla_ssa_tensor_size(t, in, i);
    at++;
  }
}

bool nabla_lower_reduce(nabla_template *t) {
  reduction r = {0};
  int64_t kind = nabla_op_integer(t->op, "kind", 0);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  read_reduction(t, &in, &r);
  if (r.kept == in.rank) return nabla_template_close(t, in.value);
  const nabla_element *element = in.element;
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &r.shape, element->work,
                                               initial_of(kind, element));
  nabla_generic g = {.loops = in.rank, .reductions = in.rank - r.kept};
  nabla_generic_add(&g, &in, r.in_map);
  nabla_generic_add(&g, &out, r.out_map);
  nabla_generic_begin(t, &g);
  nabla_ssa value = nabla_generic_load(t, &g, 0);
  nabla_ssa both[] = {g.operands[1].element, value};
  value = nabla_emit_two(t, fold_name(kind, element), both[0], both[1],
                         element->work);
  if (element->is_float && (kind == MAX || kind == MIN))
    value = nabla_emit_order_zeros(t, element, both, kind == MAX, value);
  out = nabla_generic_end(t, &g, value);
  if (kind == MEAN) out = divide_by_count(t, &in, r.reduced, &out);
  return nabla_template_close(t,
                              nabla_ssa_tensor_convert(t, &out, element).value);
}
