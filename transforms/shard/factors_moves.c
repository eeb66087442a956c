/* Factors of operations that move elements, and of reductions; see rules.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/gather.h"
#include "transforms/shard/rules.h"

bool nabla_factors_transpose(MlirOperation op, nabla_factors *f) {
  int64_t order[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  if (nabla_op_integers(op, "permutation", order) != x->rank) return false;
  for (intptr_t d = 0; d < y->rank; d++)
    nabla_factor_share(f, NABLA_FACTOR_PASS, x, order[d], y, d);
  return true;
}

/* Components of a lora: those of rows, along them, and of its factors, of which
 * a has no rows and b no columns of the weight. */
static bool share_lora(nabla_factors *f, nabla_factor_array *lora,
                       nabla_factor_array *parts) {
  const MlirType type = mlirValueGetType(lora->value);
  if (f->array_count != 4 || !nabla_layout_is_lora(type) ||
      nablaImplicitTypeParts(type).storageRank >= 0)
    return false;
  for (intptr_t d = 0; d < 2; d++) {
    const uint8_t factor =
        nabla_factor_share(f, NABLA_FACTOR_PASS, lora, d, &parts[0], d);
    nabla_factor_give(&parts[d ? 1 : 2], d, factor);
  }
  return true;
}

bool nabla_factors_pack(MlirOperation op, nabla_factors *f) {
  (void)op;
  return share_lora(f, nabla_factor_result(f), &f->arrays[0]);
}

bool nabla_factors_unpack(MlirOperation op, nabla_factors *f) {
  (void)op;
  return share_lora(f, &f->arrays[0], &f->arrays[1]);
}

bool nabla_factors_broadcast_in_dim(MlirOperation op, nabla_factors *f) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const intptr_t count = nabla_op_integers(op, "dims", dims);
  if (count != x->rank) return false;
  for (intptr_t d = 0; d < y->rank; d++) {
    const uint8_t factor =
        nabla_factor_add(f, NABLA_FACTOR_PASS, nabla_factor_size_of(y, d));
    nabla_factor_give(y, d, factor);
    for (intptr_t i = 0; i < count; i++) {
      if (dims[i] != d || nabla_factor_size_of(x, i) == 1) continue;
      if (nabla_factor_size_of(x, i) != nabla_factor_size_of(y, d) ||
          nabla_is_dynamic(nabla_factor_size_of(x, i)))
        f->all[factor].kind = NABLA_FACTOR_WHOLE; /* it may be 1 at run time */
      nabla_factor_give(x, i, factor);
    }
  }
  return true;
}

/* ---- reshape ---- */

typedef struct walk {
  nabla_factor_array *array;
  intptr_t at;
  int64_t left; /* of dimension `at` */
} walk;

/* Begins the next dimension where nothing is left of the last one. */
static void begin_dim(walk *d) {
  if (d->left == 1 && d->at < d->array->rank)
    d->left = nabla_factor_size_of(d->array, d->at);
}

static void end_dim(walk *d) {
  if (d->left == 1 && d->at < d->array->rank) d->at++;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Skips what has no common factor, until products agree again. */
static bool skip(walk *x, walk *y) {
  int64_t a = x->left, b = y->left;
  while (a != b) {
    walk *next = a < b ? x : y;
    if (++next->at >= next->array->rank) return false;
    const int64_t size = nabla_factor_size_of(next->array, next->at);
    if (nabla_is_dynamic(size) || size < 1) return false;
    *(a < b ? &a : &b) *= size;
  }
  x->left = y->left = 1;
  return true;
}

/* Dimensions of both sides whose products agree share factors. */
bool nabla_factors_reshape(MlirOperation op, nabla_factors *f) {
  (void)op;
  walk x = {&f->arrays[0], 0, 1}, y = {nabla_factor_result(f), 0, 1};
  while (x.at < x.array->rank || y.at < y.array->rank) {
    begin_dim(&x);
    begin_dim(&y);
    if (nabla_is_dynamic(x.left) || nabla_is_dynamic(y.left)) {
      if (x.left != y.left) return false; /* one `?` stays as it is */
      nabla_factor_share(f, NABLA_FACTOR_PASS, x.array, x.at++, y.array,
                         y.at++);
      x.left = y.left = 1;
      continue;
    }
    if (x.left < 1 || y.left < 1) return false;
    const int64_t common = gcd(x.left, y.left);
    if (common > 1) {
      nabla_factor_share(f, NABLA_FACTOR_PASS, x.array, x.at, y.array, y.at);
      f->all[f->count - 1].size = common;
      x.left /= common;
      y.left /= common;
    } else if (x.left > 1 && y.left > 1 && !skip(&x, &y)) {
      return false;
    } else if ((x.left > 1 && y.at >= y.array->rank) ||
               (y.left > 1 && x.at >= x.array->rank)) {
      return false;
    }
    end_dim(&x);
    end_dim(&y);
  }
  return true;
}

/* ---- boxes ---- */

/* Dimensions that are taken whole pass, along others elements move. `small` has
 * the sizes of the box; the first `count` arrays, and the result, are divided
 * in the same way. */
static bool boxes(nabla_factors *f, const nabla_factor_array *large,
                  const nabla_factor_array *small, uint32_t count) {
  if (large->rank != small->rank) return false;
  for (intptr_t d = 0; d < large->rank; d++) {
    const int64_t size = nabla_factor_size_of(large, d);
    const bool same =
        size == nabla_factor_size_of(small, d) && !nabla_is_dynamic(size);
    const uint8_t factor = nabla_factor_add(
        f, same ? NABLA_FACTOR_PASS : NABLA_FACTOR_MOVED, size);
    for (uint32_t i = 0; i < count; i++)
      nabla_factor_give(&f->arrays[i], d, factor);
    nabla_factor_give(nabla_factor_result(f), d, factor);
  }
  return true;
}

bool nabla_factors_dynamic_slice(MlirOperation op, nabla_factors *f) {
  (void)op;
  return boxes(f, &f->arrays[0], nabla_factor_result(f), 1);
}

bool nabla_factors_dynamic_update_slice(MlirOperation op, nabla_factors *f) {
  (void)op;
  return boxes(f, &f->arrays[0], &f->arrays[1], 2);
}

bool nabla_factors_slice(MlirOperation op, nabla_factors *f) {
  int64_t starts[NABLA_MAX_RANK], limits[NABLA_MAX_RANK],
      strides[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const intptr_t steps = nabla_op_integers(op, "strides", strides);
  if (nabla_op_integers(op, "starts", starts) != x->rank ||
      nabla_op_integers(op, "limits", limits) != x->rank)
    return false;
  for (intptr_t d = 0; d < x->rank; d++) {
    const int64_t size = nabla_factor_size_of(x, d);
    const bool all =
        starts[d] == 0 && (!steps || strides[d] == 1) &&
        (limits[d] == -1 || (limits[d] == size && !nabla_is_dynamic(size)));
    if (all) {
      nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, d);
      continue;
    }
    nabla_factor_share(f, NABLA_FACTOR_MOVED, x, d, NULL, 0);
    nabla_factor_share(f, NABLA_FACTOR_MOVED, y, d, NULL, 0);
  }
  return true;
}

/* Whether entry `d` of a list, which may be left out, is `value`. */
static bool entry_is(MlirOperation op, const char *key, intptr_t d,
                     int64_t value) {
  int64_t list[NABLA_MAX_RANK];
  const intptr_t count = nabla_op_integers(op, key, list);
  return d >= count || list[d] == value;
}

bool nabla_factors_pad(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  for (intptr_t d = 0; d < x->rank; d++) {
    const bool same = entry_is(op, "low", d, 0) && entry_is(op, "high", d, 0) &&
                      entry_is(op, "interior", d, 0);
    nabla_factor_share(f, same ? NABLA_FACTOR_PASS : NABLA_FACTOR_MOVED, x, d,
                       same ? y : NULL, d);
  }
  return true;
}

bool nabla_factors_pool(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  for (intptr_t d = 0; d < x->rank; d++) {
    const bool same = entry_is(op, "low", d, 0) && entry_is(op, "high", d, 0) &&
                      entry_is(op, "window", d, 1) &&
                      entry_is(op, "strides", d, 1);
    nabla_factor_share(f, same ? NABLA_FACTOR_PASS : NABLA_FACTOR_MOVED, x, d,
                       same ? y : NULL, d);
  }
  return true;
}

/* All arrays have one shape; the result has one dimension more. */
bool nabla_factors_stack(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *y = nabla_factor_result(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0, in = 0; d < y->rank; d++) {
    const uint8_t factor =
        nabla_factor_add(f, d == dim ? NABLA_FACTOR_MOVED : NABLA_FACTOR_PASS,
                         nabla_factor_size_of(y, d));
    nabla_factor_give(y, d, factor);
    if (d == dim) continue;
    for (uint32_t i = 0; i + 1 < f->array_count; i++)
      nabla_factor_give(&f->arrays[i], in, factor);
    in++;
  }
  return true;
}

/* ---- gather, scatter ---- */

/* Dimensions of the indices, but for that of vectors, are dimensions of what is
 * gathered, or of updates. Those of `batching` are dimensions of x too. */
static void give_indices(nabla_factors *f, const nabla_gather_numbers *n,
                         nabla_factor_array *y, nabla_factor_kind kind) {
  nabla_factor_array *x = &f->arrays[0], *at = &f->arrays[1];
  for (intptr_t d = 0; d < at->rank; d++) {
    if (n->result_of[d] < 0) {
      nabla_factor_share(f, NABLA_FACTOR_WHOLE, at, d, NULL, 0);
      continue;
    }
    const uint8_t factor =
        nabla_factor_share(f, kind, at, d, y, n->result_of[d]);
    for (intptr_t i = 0; i < x->rank && factor < NABLA_MAX_FACTORS; i++) {
      if (n->batch_of[i] != d) continue;
      f->all[factor].kind = NABLA_FACTOR_PASS;
      nabla_factor_give(x, i, factor);
      if (y != nabla_factor_result(f)) /* the result of a scatter is like x */
        nabla_factor_give(nabla_factor_result(f), i, factor);
    }
  }
}

/* Columns pass where a box has all of them. A table that is cut along gathered
 * rows: each device has rows or 0, which are summed. */
bool nabla_factors_gather(MlirOperation op, nabla_factors *f) {
  int64_t sizes[NABLA_MAX_RANK];
  nabla_gather_numbers n;
  nabla_factor_array *x = &f->arrays[0], *at = &f->arrays[1];
  nabla_factor_array *y = nabla_factor_result(f);
  if (nabla_op_integers(op, "sizes", sizes) != x->rank ||
      nabla_gather_read(op, (MlirAttribute){NULL}, x->rank, at->rank, &n))
    return false;
  for (intptr_t d = 0; d < x->rank; d++) {
    const int64_t size = nabla_factor_size_of(x, d);
    if (n.batch_of[d] >= 0) continue;
    if (n.offset_of[d] < 0) {
      const uint8_t factor = nabla_factor_share(
          f, n.start_of[d] < 0 ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_REDUCE, x, d,
          NULL, 0);
      if (factor == NABLA_MAX_FACTORS) return false;
      if (nabla_is_dynamic(size)) f->all[factor].kind = NABLA_FACTOR_WHOLE;
      continue;
    }
    const bool all =
        sizes[d] == -1 || (sizes[d] == size && !nabla_is_dynamic(size));
    nabla_factor_share(f, all ? NABLA_FACTOR_PASS : NABLA_FACTOR_MOVED, x, d,
                       all ? y : NULL, n.offset_of[d]);
  }
  give_indices(f, &n, y, NABLA_FACTOR_PASS);
  return true;
}

/* Updates of rows that another device has lie outside of its piece, and are
 * ignored. Each device applies all updates, in their order. Where index_map has
 * no dimension, its row is 0 whatever the piece: it is not divided. */
bool nabla_factors_scatter(MlirOperation op, nabla_factors *f) {
  nabla_gather_numbers n;
  nabla_factor_array *x = &f->arrays[0], *at = &f->arrays[1];
  nabla_factor_array *u = &f->arrays[2], *y = nabla_factor_result(f);
  if (nabla_gather_read(op, (MlirAttribute){NULL}, x->rank, at->rank, &n))
    return false;
  for (intptr_t d = 0; d < x->rank; d++) {
    const int64_t size = nabla_factor_size_of(x, d);
    if (n.batch_of[d] >= 0) continue;
    if (n.offset_of[d] < 0) {
      const bool is_whole = nabla_is_dynamic(size) || n.start_of[d] < 0;
      nabla_factor_share(f, is_whole ? NABLA_FACTOR_WHOLE : NABLA_FACTOR_PASS,
                         x, d, y, d);
      continue;
    }
    const bool all = size == nabla_factor_size_of(u, n.offset_of[d]) &&
                     !nabla_is_dynamic(size) && n.start_of[d] < 0;
    const uint8_t factor = nabla_factor_share(
        f, all ? NABLA_FACTOR_PASS : NABLA_FACTOR_MOVED, x, d, y, d);
    if (all) nabla_factor_give(u, n.offset_of[d], factor);
  }
  give_indices(f, &n, u, NABLA_FACTOR_WHOLE);
  return true;
}

/* ---- reductions ---- */

/* Each reduced dimension is one whose results are joined. */
bool nabla_factors_reduce(MlirOperation op, nabla_factors *f) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const intptr_t count = nabla_op_integers(op, "dims", dims);
  const int kind = (int)nabla_op_integer(op, "kind", 0);
  for (intptr_t d = 0, out = 0; d < x->rank; d++) {
    if (!nabla_dims_have(count, dims, d)) {
      nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, out++);
      continue;
    }
    const uint8_t factor =
        nabla_factor_share(f, NABLA_FACTOR_REDUCE, x, d, NULL, 0);
    if (factor == NABLA_MAX_FACTORS) return false;
    /* the mean of means of pieces of one size is a sum of parts of them */
    f->all[factor].join = kind == 4 ? 0 : kind;
    f->all[factor].is_even = kind == 4;
    if (kind == 4 && nabla_is_dynamic(nabla_factor_size_of(x, d)))
      f->all[factor].kind = NABLA_FACTOR_WHOLE;
    out += y->rank == x->rank;
  }
  return true;
}

/* Devices find an element each, of which the first best one is taken. */
bool nabla_factors_arg(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *x = &f->arrays[0], *y = nabla_factor_result(f);
  const int64_t dim = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0, out = 0; d < x->rank; d++) {
    if (d != dim) {
      nabla_factor_share(f, NABLA_FACTOR_PASS, x, d, y, out++);
      continue;
    }
    const uint8_t factor =
        nabla_factor_share(f, NABLA_FACTOR_REDUCE, x, d, NULL, 0);
    if (factor == NABLA_MAX_FACTORS) return false;
    f->all[factor].join = NABLA_JOIN_OWN;
    if (nabla_is_dynamic(nabla_factor_size_of(x, d)))
      f->all[factor].kind = NABLA_FACTOR_WHOLE;
    out += y->rank == x->rank;
  }
  return true;
}

/* ---- creation ---- */

/* Each element is known from its index. */
bool nabla_factors_create(MlirOperation op, nabla_factors *f) {
  (void)op;
  nabla_factor_array *y = nabla_factor_result(f);
  for (intptr_t d = 0; d < y->rank; d++)
    nabla_factor_share(f, NABLA_FACTOR_PASS, y, d, NULL, 0);
  for (uint32_t i = 0; i + 1 < f->array_count; i++) /* of seeds */
    for (intptr_t d = 0; d < f->arrays[i].rank; d++)
      nabla_factor_give(&f->arrays[i], d, y->dims[d].at[0]);
  return true;
}

/* The same, if all elements are equal; else each device has all of them, and
 * takes its piece. */
bool nabla_factors_constant(MlirOperation op, nabla_factors *f) {
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!nabla_factors_create(op, f)) return false;
  const bool splat = mlirAttributeIsADenseElements(value) &&
                     mlirDenseElementsAttrIsSplat(value);
  for (uint32_t i = 0; i < f->count && !splat; i++)
    f->all[i].kind = NABLA_FACTOR_WHOLE;
  return true;
}

/* Each seed has its own numbers, which are drawn by their place among all of
 * them: a device draws all numbers of its seeds, and takes its piece. */
bool nabla_factors_random(MlirOperation op, nabla_factors *f) {
  const nabla_factor_array *seed = &f->arrays[0];
  if (!nabla_factors_create(op, f)) return false;
  for (uint32_t i = (uint32_t)seed->rank; i < f->count; i++)
    f->all[i].kind = NABLA_FACTOR_WHOLE;
  return true;
}
