/* Factors of products, norms and attention; see rules.h. */
#include "transforms/shard/rules.h"

/* x [..., k], w [n, k], bias [n] */
bool nabla_factors_linear(MlirOperation op, nabla_factors *f) {
  (void)op;
  nabla_factor_array *x = &f->arrays[0], *w = &f->arrays[1];
  nabla_factor_array *y = nabla_factor_result(f);
  if (x->rank < 1 || w->rank != 2) return false;
  for (intptr_t d = 0; d + 1 < x->rank; d++)
    nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, d);
  const uint8_t n =
      nabla_factor_share(f, NABLA_FACTOR_PASS, w, 0, y, y->rank - 1);
  nabla_factor_share(f, NABLA_FACTOR_REDUCE, w, 1, x, x->rank - 1);
  if (f->array_count == 4) nabla_factor_give(&f->arrays[2], 0, n);
  return true;
}

/* Result: batching, then the other dimensions of lhs, then those of rhs. */
bool nabla_factors_dot_general(MlirOperation op, nabla_factors *f) {
  int64_t lb[NABLA_MAX_RANK], rb[NABLA_MAX_RANK], lc[NABLA_MAX_RANK],
      rc[NABLA_MAX_RANK];
  const intptr_t batches = nabla_op_integers(op, "lhs_batching", lb);
  const intptr_t sums = nabla_op_integers(op, "lhs_contracting", lc);
  if (nabla_op_integers(op, "rhs_batching", rb) != batches ||
      nabla_op_integers(op, "rhs_contracting", rc) != sums)
    return false;
  nabla_factor_array *a = &f->arrays[0], *b = &f->arrays[1];
  nabla_factor_array *y = nabla_factor_result(f);
  intptr_t out = 0;
  for (intptr_t i = 0; i < batches; i++, out++) {
    const uint8_t factor =
        nabla_factor_share(f, NABLA_FACTOR_PASS, a, lb[i], y, out);
    nabla_factor_give(b, rb[i], factor);
  }
  for (intptr_t d = 0; d < a->rank; d++)
    if (!nabla_dims_have(batches, lb, d) && !nabla_dims_have(sums, lc, d))
      nabla_factor_share(f, NABLA_FACTOR_PASS, a, d, y, out++);
  for (intptr_t d = 0; d < b->rank; d++)
    if (!nabla_dims_have(batches, rb, d) && !nabla_dims_have(sums, rc, d))
      nabla_factor_share(f, NABLA_FACTOR_PASS, b, d, y, out++);
  for (intptr_t i = 0; i < sums; i++)
    nabla_factor_share(f, NABLA_FACTOR_REDUCE, a, lc[i], b, rc[i]);
  return out == y->rank;
}

/* Dimension i of a list of dimensions whose default is 0, 1, 2, ... */
static int64_t place(intptr_t count, const int64_t *list, intptr_t i) {
  return count ? list[i] : i;
}

/* Input [n, g i, ...], kernel [g o, i, ...], result [n, g o, ...]; windows move
 * along the spatial dimensions. */
bool nabla_factors_conv_general(MlirOperation op, nabla_factors *f) {
  int64_t in[NABLA_MAX_RANK], of[NABLA_MAX_RANK], to[NABLA_MAX_RANK];
  const intptr_t ins = nabla_op_integers(op, "input_dims", in);
  const intptr_t ofs = nabla_op_integers(op, "kernel_dims", of);
  const intptr_t tos = nabla_op_integers(op, "output_dims", to);
  const int64_t groups = nabla_op_integer(op, "groups", 1);
  nabla_factor_array *x = &f->arrays[0], *k = &f->arrays[1];
  nabla_factor_array *y = nabla_factor_result(f);
  const int64_t out = place(ofs, of, 0), from = place(ofs, of, 1);
  nabla_factor_share(f, NABLA_FACTOR_PASS, x, place(ins, in, 0), y,
                     place(tos, to, 0));
  const int64_t features = nabla_factor_size_of(k, out);
  if (groups > 1 && !nabla_is_dynamic(features)) {
    const uint8_t group = nabla_factor_add(f, NABLA_FACTOR_PASS, groups);
    nabla_factor_give(x, place(ins, in, 1), group);
    nabla_factor_give(k, out, group);
    nabla_factor_give(y, place(tos, to, 1), group);
    const uint8_t own =
        nabla_factor_add(f, NABLA_FACTOR_PASS, features / groups);
    nabla_factor_give(k, out, own);
    nabla_factor_give(y, place(tos, to, 1), own);
  } else if (groups == 1) {
    nabla_factor_share(f, NABLA_FACTOR_PASS, k, out, y, place(tos, to, 1));
  }
  if (groups == 1 || !nabla_is_dynamic(features))
    nabla_factor_share(f, NABLA_FACTOR_REDUCE, k, from, x, place(ins, in, 1));
  for (intptr_t i = 2; i < x->rank; i++) {
    nabla_factor_share(f, NABLA_FACTOR_MOVED, x, place(ins, in, i), NULL, 0);
    nabla_factor_share(f, NABLA_FACTOR_WHOLE, k, place(ofs, of, i), NULL, 0);
    nabla_factor_share(f, NABLA_FACTOR_MOVED, y, place(tos, to, i), NULL, 0);
  }
  return true;
}

/* Rows are computed on their own; parameters belong to the last dimension. */
bool nabla_factors_norm(MlirOperation op, nabla_factors *f) {
  (void)op;
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  if (x->rank < 1) return false;
  for (intptr_t d = 0; d + 1 < x->rank; d++)
    nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, d);
  const uint8_t row =
      nabla_factor_share(f, NABLA_FACTOR_WHOLE, x, x->rank - 1, y, y->rank - 1);
  for (uint32_t i = 1; i + 1 < f->array_count; i++)
    nabla_factor_give(&f->arrays[i], 0, row);
  return true;
}

/* Along dimension `dim`, which the result may lack, all elements are needed. */
bool nabla_factors_across(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0, out = 0; d < x->rank; d++) {
    if (d != dim) {
      nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, out++);
      continue;
    }
    nabla_factor_share(f, NABLA_FACTOR_WHOLE, x, d, NULL, 0);
    out += y->rank == x->rank;
  }
  return true;
}

/* x has its positions along `dim`; pairs lie in the last dimension. */
bool nabla_factors_rope(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0; d < x->rank; d++) {
    const bool whole = d + 1 == x->rank || (d == dim && f->array_count == 2);
    const uint8_t factor = nabla_factor_share(
        f, whole ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, x, d, y, d);
    if (d == dim && f->array_count == 3 && f->arrays[1].rank)
      nabla_factor_give(&f->arrays[1], 0, factor);
  }
  return true;
}

/* ---- attention ---- */

/* Dimension `d` of q, as its factors, in a mask, which has the last dimensions
 * of [..., H, T, S]. */
static void give_mask(nabla_factors *f, nabla_factor_array *mask, intptr_t d) {
  const nabla_factor_array *q = &f->arrays[0];
  const intptr_t at = d - (q->rank - mask->rank);
  if (at < 0 || nabla_factor_size_of(mask, at) == 1) return;
  const bool same =
      nabla_factor_size_of(mask, at) == nabla_factor_size_of(q, d) &&
      !nabla_is_dynamic(nabla_factor_size_of(q, d));
  for (uint8_t i = 0; i < q->dims[d].count; i++) {
    if (!same) f->all[q->dims[d].at[i]].kind = NABLA_FACTOR_WHOLE;
    nabla_factor_give(mask, at, q->dims[d].at[i]);
  }
}

/* Heads of q are those of k, and for each of them a group. */
static bool heads(nabla_factors *f, intptr_t at) {
  nabla_factor_array *q = &f->arrays[0], *k = &f->arrays[1];
  nabla_factor_array *v = &f->arrays[2], *y = nabla_factor_result(f);
  const int64_t kv = nabla_factor_size_of(k, at);
  const int64_t all = nabla_factor_size_of(q, at);
  if (nabla_is_dynamic(kv) || nabla_is_dynamic(all) || kv < 1) return false;
  const uint8_t head = nabla_factor_add(f, NABLA_FACTOR_PASS, kv);
  nabla_factor_give(q, at, head), nabla_factor_give(y, at, head);
  nabla_factor_give(k, at, head), nabla_factor_give(v, at, head);
  if (all == kv) return true;
  const uint8_t group = nabla_factor_add(f, NABLA_FACTOR_PASS, all / kv);
  nabla_factor_give(q, at, group), nabla_factor_give(y, at, group);
  return true;
}

/* q [.., H, T, D], k and v [.., H', S, D], the result [.., H, T, E]; H is H'
 * times the number of queries of a group. Keys stay whole. */
bool nabla_factors_attention(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *q = &f->arrays[0], *k = &f->arrays[1];
  nabla_factor_array *v = &f->arrays[2], *y = nabla_factor_result(f);
  const intptr_t rank = q->rank, first = rank - 3;
  if (rank < 2 || k->rank != rank) return false;
  for (intptr_t d = 0; d < first; d++) {
    const uint8_t factor = nabla_factor_share(f, NABLA_FACTOR_PASS, q, d, y, d);
    nabla_factor_give(k, d, factor);
    nabla_factor_give(v, d, factor);
  }
  if (first >= 0 && !heads(f, first)) return false;
  const bool causal = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref("causal")));
  nabla_factor_share(f, causal ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS, q,
                     rank - 2, y, rank - 2);
  nabla_factor_share(f, NABLA_FACTOR_WHOLE, q, rank - 1, k, rank - 1);
  nabla_factor_share(f, NABLA_FACTOR_WHOLE, k, rank - 2, v, rank - 2);
  nabla_factor_share(f, NABLA_FACTOR_WHOLE, v, rank - 1, y, rank - 1);
  for (intptr_t d = 0; nabla_op_segment(op, 3) && d + 1 < rank; d++)
    give_mask(f, &f->arrays[3], d);
  return true;
}
