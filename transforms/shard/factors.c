/* See factors.h. Rules for each operation; what has none is computed whole. */
#include "transforms/shard/factors.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"

/* ---- building ---- */

static uint8_t add_factor(nabla_factors *f, nabla_factor_kind kind,
                          int64_t size) {
  if (f->count == NABLA_MAX_FACTORS) return NABLA_MAX_FACTORS;
  f->all[f->count] = (nabla_factor){kind, 0, size};
  return (uint8_t)f->count++;
}

static nabla_factor_array *add_array(nabla_factors *f, MlirOperation op,
                                     bool is_result, intptr_t index) {
  if (f->array_count == NABLA_FACTOR_ARRAYS) return NULL;
  nabla_factor_array *a = &f->arrays[f->array_count++];
  memset(a, 0, sizeof *a);
  a->is_result = is_result;
  a->index = index;
  a->value = is_result ? mlirOperationGetResult(op, index)
                       : mlirOperationGetOperand(op, index);
  a->rank = nabla_array_rank(mlirValueGetType(a->value));
  return a;
}

/* All arrays among operands and results, without factors. Others, indices, are
 * left out. */
static bool add_arrays(nabla_factors *f, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nabla_layout_takes(nabla_operand_type(op, i)) &&
        !add_array(f, op, false, i))
      return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!nabla_layout_takes(nabla_result_type(op, i)) ||
        !add_array(f, op, true, i))
      return false;
  return f->array_count > 0;
}

static void give(nabla_factor_array *a, intptr_t dim, uint8_t factor) {
  nabla_factor_dim *d = &a->dims[dim];
  if (factor < NABLA_MAX_FACTORS && d->count < NABLA_FACTORS_OF_DIM)
    d->at[d->count++] = factor;
}

static int64_t size_of(const nabla_factor_array *a, intptr_t dim) {
  return nabla_array_dim(mlirValueGetType(a->value), dim);
}

static nabla_factor_array *result_of(nabla_factors *f) {
  return &f->arrays[f->array_count - 1];
}

/* A factor for dimension `dim` of `a`, which is dimension `other` of `b` too.
 */
static uint8_t share(nabla_factors *f, nabla_factor_kind kind,
                     nabla_factor_array *a, intptr_t dim, nabla_factor_array *b,
                     intptr_t other) {
  const uint8_t factor = add_factor(f, kind, size_of(a, dim));
  give(a, dim, factor);
  if (b) give(b, other, factor);
  return factor;
}

/* ---- rules ---- */

/* All arrays have one shape, but for those of rank 0. */
static bool elementwise(nabla_factors *f) {
  nabla_factor_array *y = result_of(f);
  for (intptr_t d = 0; d < y->rank; d++) {
    const uint8_t factor = add_factor(f, NABLA_FACTOR_PASS, size_of(y, d));
    for (uint32_t i = 0; i < f->array_count; i++)
      if (f->arrays[i].rank == y->rank) give(&f->arrays[i], d, factor);
  }
  for (uint32_t i = 0; i < f->array_count; i++)
    if (f->arrays[i].rank && f->arrays[i].rank != y->rank) return false;
  return true;
}

/* x [..., k], w [n, k], bias [n] */
static bool linear(nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *w = &f->arrays[1];
  nabla_factor_array *y = result_of(f);
  if (x->rank < 1 || w->rank != 2) return false;
  for (intptr_t d = 0; d + 1 < x->rank; d++)
    share(f, NABLA_FACTOR_PASS, x, d, y, d);
  const uint8_t n = share(f, NABLA_FACTOR_PASS, w, 0, y, y->rank - 1);
  share(f, NABLA_FACTOR_REDUCE, w, 1, x, x->rank - 1);
  /* each device would add a bias before the join */
  if (f->array_count == 4) {
    give(&f->arrays[2], 0, n);
    f->all[f->count - 1].kind = NABLA_FACTOR_WHOLE;
  }
  return true;
}

static bool has(intptr_t count, const int64_t *list, intptr_t dim) {
  for (intptr_t i = 0; i < count; i++)
    if (list[i] == dim) return true;
  return false;
}

/* Result: batching, then the other dimensions of lhs, then those of rhs. */
static bool dot_general(MlirOperation op, nabla_factors *f) {
  int64_t lb[NABLA_MAX_RANK], rb[NABLA_MAX_RANK], lc[NABLA_MAX_RANK],
      rc[NABLA_MAX_RANK];
  const intptr_t batches = nabla_op_integers(op, "lhs_batching", lb);
  const intptr_t sums = nabla_op_integers(op, "lhs_contracting", lc);
  if (nabla_op_integers(op, "rhs_batching", rb) != batches ||
      nabla_op_integers(op, "rhs_contracting", rc) != sums)
    return false;
  nabla_factor_array *a = &f->arrays[0], *b = &f->arrays[1];
  nabla_factor_array *y = result_of(f);
  intptr_t out = 0;
  for (intptr_t i = 0; i < batches; i++, out++) {
    const uint8_t factor = share(f, NABLA_FACTOR_PASS, a, lb[i], y, out);
    give(b, rb[i], factor);
  }
  for (intptr_t d = 0; d < a->rank; d++)
    if (!has(batches, lb, d) && !has(sums, lc, d))
      share(f, NABLA_FACTOR_PASS, a, d, y, out++);
  for (intptr_t d = 0; d < b->rank; d++)
    if (!has(batches, rb, d) && !has(sums, rc, d))
      share(f, NABLA_FACTOR_PASS, b, d, y, out++);
  for (intptr_t i = 0; i < sums; i++)
    share(f, NABLA_FACTOR_REDUCE, a, lc[i], b, rc[i]);
  return out == y->rank;
}

/* Rows are computed on their own; parameters belong to the last dimension. */
static bool norm(nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  for (intptr_t d = 0; d + 1 < x->rank; d++)
    share(f, NABLA_FACTOR_PASS, x, d, y, d);
  const uint8_t row =
      share(f, NABLA_FACTOR_WHOLE, x, x->rank - 1, y, y->rank - 1);
  for (uint32_t i = 1; i + 1 < f->array_count; i++) give(&f->arrays[i], 0, row);
  return x->rank > 0;
}

/* Along dimension `dim` nothing is divided; results may lack it. */
static bool along(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0, out = 0; d < x->rank; d++) {
    const bool kept = d != dim || y->rank == x->rank;
    const bool same = kept && size_of(x, d) == size_of(y, out);
    share(f, d == dim ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, x, d,
          same ? y : NULL, out);
    out += kept;
  }
  return true;
}

/* x has its positions along `dim`; pairs lie in the last dimension. */
static bool rope(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0; d < x->rank; d++) {
    const bool whole = d + 1 == x->rank || (d == dim && f->array_count == 2);
    const uint8_t factor =
        share(f, whole ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, x, d, y, d);
    if (d == dim && f->array_count == 3) give(&f->arrays[1], 0, factor);
  }
  return true;
}

/* q [.., H, T, D], k and v [.., H', S, D], the result [.., H, T, E]; H is H'
 * times the number of queries of a group. Keys stay whole. */
static bool attention(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *q = &f->arrays[0], *k = &f->arrays[1];
  nabla_factor_array *v = &f->arrays[2], *y = result_of(f);
  if (nabla_op_segment(op, 3) || q->rank < 2 || k->rank != q->rank)
    return false; /* with a mask */
  const intptr_t rank = q->rank, heads = rank - 3;
  for (intptr_t d = 0; d < heads; d++) {
    const uint8_t factor = share(f, NABLA_FACTOR_PASS, q, d, y, d);
    give(k, d, factor);
    give(v, d, factor);
  }
  if (heads >= 0) {
    const int64_t kv = size_of(k, heads), all = size_of(q, heads);
    if (nabla_is_dynamic(kv) || nabla_is_dynamic(all) || kv < 1) return false;
    const uint8_t head = add_factor(f, NABLA_FACTOR_PASS, kv);
    const uint8_t group = add_factor(f, NABLA_FACTOR_PASS, all / kv);
    give(q, heads, head), give(q, heads, group);
    give(y, heads, head), give(y, heads, group);
    give(k, heads, head), give(v, heads, head);
  }
  const bool causal = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref("causal")));
  share(f, causal ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, q, rank - 2, y,
        rank - 2);
  share(f, NABLA_FACTOR_WHOLE, q, rank - 1, k, rank - 1);
  share(f, NABLA_FACTOR_WHOLE, k, rank - 2, v, rank - 2);
  share(f, NABLA_FACTOR_WHOLE, v, rank - 1, y, rank - 1);
  return true;
}

static bool transpose(MlirOperation op, nabla_factors *f) {
  int64_t order[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  if (nabla_op_integers(op, "permutation", order) != x->rank) return false;
  for (intptr_t d = 0; d < y->rank; d++)
    share(f, NABLA_FACTOR_PASS, x, order[d], y, d);
  return true;
}

static bool broadcast(MlirOperation op, nabla_factors *f) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  const intptr_t count = nabla_op_integers(op, "dims", dims);
  if (count != x->rank) return false;
  for (intptr_t d = 0; d < y->rank; d++) {
    const uint8_t factor = add_factor(f, NABLA_FACTOR_PASS, size_of(y, d));
    give(y, d, factor);
    for (intptr_t i = 0; i < count; i++)
      if (dims[i] == d && size_of(x, i) == size_of(y, d)) give(x, i, factor);
  }
  return true;
}

/* Boxes: dimensions that are taken whole pass, others stay whole. `small` has
 * the sizes of the box. */
static bool boxes(nabla_factors *f, const nabla_factor_array *large,
                  const nabla_factor_array *small, uint32_t count) {
  if (large->rank != small->rank) return false;
  for (intptr_t d = 0; d < large->rank; d++) {
    const bool same = size_of(large, d) == size_of(small, d) &&
                      !nabla_is_dynamic(size_of(large, d));
    const uint8_t factor = add_factor(
        f, same ? NABLA_FACTOR_PASS : NABLA_FACTOR_WHOLE, size_of(large, d));
    for (uint32_t i = 0; i < count; i++) give(&f->arrays[i], d, factor);
    give(result_of(f), d, factor);
  }
  return true;
}

/* Rows of a table: columns pass where a box has all of them. */
static bool gather(MlirOperation op, nabla_factors *f) {
  int64_t offset[NABLA_MAX_RANK], collapsed[NABLA_MAX_RANK],
      sizes[NABLA_MAX_RANK], batching[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *at = &f->arrays[1];
  nabla_factor_array *y = result_of(f);
  const intptr_t offsets = nabla_op_integers(op, "offset_dims", offset);
  const intptr_t dropped = nabla_op_integers(op, "collapsed_dims", collapsed);
  const int64_t vector = nabla_op_integer(op, "vector_dim", -1);
  if (nabla_op_integers(op, "input_batching", batching) ||
      nabla_op_integers(op, "sizes", sizes) != x->rank)
    return false;
  intptr_t next = 0;
  for (intptr_t d = 0; d < x->rank; d++) {
    if (has(dropped, collapsed, d)) {
      share(f, NABLA_FACTOR_WHOLE, x, d, NULL, 0);
      continue;
    }
    if (next == offsets) return false;
    const bool all = sizes[d] == size_of(x, d);
    share(f, all ? NABLA_FACTOR_PASS : NABLA_FACTOR_WHOLE, x, d, all ? y : NULL,
          offset[next]);
    next++;
  }
  for (intptr_t d = 0, out = 0; d < at->rank; d++) {
    if (d == vector) {
      share(f, NABLA_FACTOR_WHOLE, at, d, NULL, 0);
      continue;
    }
    while (out < y->rank && has(offsets, offset, out)) out++;
    share(f, NABLA_FACTOR_PASS, at, d, y, out++);
  }
  return true;
}

/* Dimensions of both sides whose products agree share factors. */
static bool reshape(nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  intptr_t i = 0, k = 0;
  int64_t a = 1, b = 1; /* what is left of dimensions i and k */
  while (i < x->rank || k < y->rank) {
    if (a == 1 && i < x->rank) a = size_of(x, i);
    if (b == 1 && k < y->rank) b = size_of(y, k);
    if (nabla_is_dynamic(a) || nabla_is_dynamic(b)) {
      if (a != b) return false; /* one `?` stays as it is */
      share(f, NABLA_FACTOR_WHOLE, x, i++, y, k++);
      a = b = 1;
      continue;
    }
    if (a < 1 || b < 1) return false;
    const int64_t common = a % b == 0 ? b : b % a == 0 ? a : 0;
    if (!common) return false;
    if (common > 1) share(f, NABLA_FACTOR_PASS, x, i, y, k);
    if (common > 1) f->all[f->count - 1].size = common;
    a /= common;
    b /= common;
    if (a == 1) i++;
    if (b == 1) k++;
    if (common == 1 && a > 1 && k >= y->rank) return false;
    if (common == 1 && b > 1 && i >= x->rank) return false;
  }
  return true;
}

/* Each reduced dimension is one whose results are joined. */
static bool reduce(MlirOperation op, nabla_factors *f) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = result_of(f);
  const intptr_t count = nabla_op_integers(op, "dims", dims);
  const int kind = (int)nabla_op_integer(op, "kind", 0);
  for (intptr_t d = 0, out = 0; d < x->rank; d++) {
    if (!has(count, dims, d)) {
      share(f, NABLA_FACTOR_PASS, x, d, y, out++);
      continue;
    }
    /* a mean would have to be one of means of equal weight */
    share(f, kind == 4 ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_REDUCE, x, d, NULL,
          0);
    f->all[f->count - 1].join = kind;
    out += y->rank == x->rank;
  }
  return true;
}

static bool concatenate(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *y = result_of(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0; d < y->rank; d++) {
    const uint8_t factor = add_factor(
        f, d == dim ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, size_of(y, d));
    for (uint32_t i = 0; i < f->array_count; i++)
      give(&f->arrays[i], d, factor);
  }
  return true;
}

static bool read(MlirOperation op, nabla_factors *f) {
  const nabla_op_row *row = nabla_op_find(op);
  if (!row || mlirOperationGetNumRegions(op) || !add_arrays(f, op))
    return false;
  if (row->shard == NABLA_SHARD_elementwise &&
      mlirOperationGetNumOperands(op) > 0 && !nabla_is(op, "nabla.full"))
    return elementwise(f);
  if (nabla_is(op, "nabla.linear")) return linear(f);
  if (nabla_is(op, "nabla.dot_general")) return dot_general(op, f);
  if (nabla_is(op, "nabla.rms_norm") || nabla_is(op, "nabla.layer_norm"))
    return norm(f);
  if (nabla_is(op, "nabla.softmax") || nabla_is(op, "nabla.log_softmax") ||
      nabla_is(op, "nabla.cumsum") || nabla_is(op, "nabla.argmax") ||
      nabla_is(op, "nabla.argmin") || nabla_is(op, "nabla.logsumexp"))
    return along(op, f);
  if (nabla_is(op, "nabla.rope")) return rope(op, f);
  if (nabla_is(op, "nabla.attention")) return attention(op, f);
  if (nabla_is(op, "nabla.transpose")) return transpose(op, f);
  if (nabla_is(op, "nabla.broadcast_in_dim")) return broadcast(op, f);
  if (nabla_is(op, "nabla.dynamic_update_slice"))
    return boxes(f, &f->arrays[0], &f->arrays[1], 2);
  if (nabla_is(op, "nabla.dynamic_slice"))
    return boxes(f, &f->arrays[0], result_of(f), 1);
  if (nabla_is(op, "nabla.gather")) return gather(op, f);
  if (nabla_is(op, "nabla.reshape")) return reshape(f);
  if (nabla_is(op, "nabla.reduce")) return reduce(op, f);
  if (nabla_is(op, "nabla.concatenate")) return concatenate(op, f);
  return false;
}

bool nabla_op_factors(MlirOperation op, nabla_factors *out) {
  memset(out, 0, sizeof *out);
  return read(op, out) && out->count < NABLA_MAX_FACTORS;
}

/* ---- layouts ---- */

bool nabla_factors_split(const nabla_grid *shard, const nabla_factors *factors,
                         const nabla_factor_array *array,
                         const nabla_division *layout,
                         nabla_atom_list out[NABLA_MAX_FACTORS]) {
  for (uint32_t i = 0; i < factors->count; i++) out[i].count = 0;
  for (intptr_t d = 0; d < array->rank; d++) {
    const nabla_factor_dim *dim = &array->dims[d];
    const nabla_atom_list *atoms = &layout->dims[d];
    uint32_t at = 0;
    for (uint8_t i = 0; i < dim->count && at < atoms->count; i++) {
      int64_t left = factors->all[dim->at[i]].size;
      nabla_atom_list *list = &out[dim->at[i]];
      for (; at < atoms->count && left > 0; at++) {
        const int64_t size = shard->atoms.size[atoms->at[at]];
        if (left % size) break;
        left /= size;
        list->at[list->count++] = atoms->at[at];
      }
      if (left != 1) break; /* the next factor begins behind a whole one */
    }
    if (at < atoms->count) return false;
  }
  return true;
}

nabla_division nabla_factors_join(
    const nabla_grid *shard, const nabla_factors *factors,
    const nabla_factor_array *array,
    const nabla_atom_list lists[NABLA_MAX_FACTORS]) {
  nabla_division layout = nabla_layout_whole(mlirValueGetType(array->value));
  for (intptr_t d = 0; d < array->rank; d++) {
    const nabla_factor_dim *dim = &array->dims[d];
    nabla_atom_list *out = &layout.dims[d];
    for (uint8_t i = 0; i < dim->count; i++) {
      const nabla_atom_list *list = &lists[dim->at[i]];
      for (uint32_t k = 0; k < list->count && out->count < NABLA_MAX_ATOMS; k++)
        out->at[out->count++] = list->at[k];
      if (nabla_atoms_product(&shard->atoms, list) !=
          factors->all[dim->at[i]].size)
        break;
    }
  }
  return layout;
}

void nabla_factors_adjust(MlirOperation op, const nabla_grid *shard,
                          const nabla_factors *factors,
                          const nabla_atom_list lists[NABLA_MAX_FACTORS]) {
  int64_t sizes[NABLA_MAX_RANK];
  if (!nabla_is(op, "nabla.gather")) return;
  const nabla_factor_array *x = &factors->arrays[0];
  const intptr_t count = nabla_op_integers(op, "sizes", sizes);
  for (intptr_t d = 0; d < count; d++)
    if (x->dims[d].count)
      sizes[d] /= nabla_atoms_product(&shard->atoms, &lists[x->dims[d].at[0]]);
  mlirOperationSetAttributeByName(
      op, nabla_ref("sizes"),
      mlirDenseI64ArrayGet(nabla_op_context(op), count, sizes));
}
