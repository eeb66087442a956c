/* Operations that change shapes, move elements or join arrays. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/make.h"
#include "lib/base/checked.h"

/* ---- order of dimensions ---- */

nabla_array *nabla_transpose(nabla_array *x, uint32_t count,
                             const int64_t *permutation) {
  NABLA_MAKE(m, transpose, x);
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t listed;
  if (!m->scope) return NULL;
  const uint32_t rank = x->dense.rank;
  if (!count) {
    for (uint32_t i = 0; i < rank; i++) list[i] = (int64_t)(rank - 1 - i);
    return nabla_make_transpose(m, x, list);
  }
  if (!nabla_make_count(m, "dimensions", count, rank) ||
      !nabla_make_dims(m, count, permutation, rank, false, list, &listed))
    return NULL;
  return nabla_make_transpose(m, x, list);
}

nabla_array *nabla_swap_axes(nabla_array *x, int64_t first, int64_t second) {
  NABLA_MAKE(m, swap_axes, x);
  int64_t list[NABLA_ARRAY_MAX_RANK], a, b;
  if (!m->scope || !nabla_make_dim(m, first, x->dense.rank, &a) ||
      !nabla_make_dim(m, second, x->dense.rank, &b))
    return NULL;
  for (uint32_t i = 0; i < x->dense.rank; i++) list[i] = (int64_t)i;
  list[a] = b;
  list[b] = a;
  return nabla_make_transpose(m, x, list);
}

nabla_array *nabla_moveaxis(nabla_array *x, int64_t from, int64_t to) {
  NABLA_MAKE(m, moveaxis, x);
  int64_t list[NABLA_ARRAY_MAX_RANK], a, b, next = 0;
  if (!m->scope || !nabla_make_dim(m, from, x->dense.rank, &a) ||
      !nabla_make_dim(m, to, x->dense.rank, &b))
    return NULL;
  for (int64_t i = 0; i < (int64_t)x->dense.rank; i++) {
    if (next == a) next++;
    list[i] = i == b ? a : next++;
  }
  return nabla_make_transpose(m, x, list);
}

nabla_array *nabla_flip(nabla_array *x, uint32_t count, const int64_t *dims) {
  NABLA_MAKE(m, flip, x);
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t listed;
  if (!m->scope ||
      !nabla_make_dims(m, count, dims, x->dense.rank, true, list, &listed))
    return NULL;
  x = nabla_make_settle(m, x, NABLA_DTYPES_own);
  const nabla_recorded_attribute attribute =
      nabla_make_list("dims", listed, list);
  return nabla_make_op(m, "nabla.flip", 1, &x, 1, &attribute, NULL);
}

/* ---- shapes ---- */

/* Replaces a size of -1 by the one that gives the elements of x; it stays if a
 * size is unknown. False after a failure. */
static bool complete(const nabla_making *m, const nabla_array *x,
                     uint32_t count, int64_t *sizes) {
  const int64_t elements = nabla_make_elements_of(x);
  bool is_known = elements >= 0;
  size_t known = 1;
  uint32_t open = count;
  for (uint32_t i = 0; i < count; i++) {
    if (nabla_is_unknown(sizes[i]) && m->scope->trace) {
      is_known = false;
    } else if (sizes[i] == -1 && open == count) {
      open = i;
    } else if (sizes[i] < 0 ||
               !nabla_mul_size(known, (size_t)sizes[i], &known)) {
      (void)NABLA_MAKE_FAIL(m, "dimension %" PRIu32 " is %" PRId64, i,
                            sizes[i]);
      return false;
    }
  }
  if (!is_known) return true;
  if (open < count && known && (size_t)elements % known == 0) {
    sizes[open] = elements / (int64_t)known;
    return true;
  }
  if (open == count && known == (size_t)elements) return true;
  (void)NABLA_MAKE_FAIL(m, "%" PRId64 " elements in a shape of %zu%s", elements,
                        known, open < count ? " and -1" : "");
  return false;
}

nabla_array *nabla_reshape(nabla_array *x, uint32_t count,
                           const int64_t *shape) {
  NABLA_MAKE(m, reshape, x);
  nabla_array_type type = {.rank = count};
  if (!m->scope) return NULL;
  if (count > NABLA_ARRAY_MAX_RANK || (count && !shape))
    return NABLA_MAKE_FAIL(m, "a shape of rank %" PRIu32, count);
  if (count) memcpy(type.shape, shape, count * sizeof shape[0]);
  if (!complete(m, x, count, type.shape)) return NULL;
  return nabla_make_reshape(m, nabla_make_settle(m, x, NABLA_DTYPES_own),
                            &type);
}

nabla_array *nabla_flatten(nabla_array *x, int64_t first, int64_t last) {
  NABLA_MAKE(m, flatten, x);
  int64_t a, b;
  nabla_array_type type = {0};
  if (!m->scope) return NULL;
  if (!x->dense.rank && (first == 0 || first == -1) &&
      (last == 0 || last == -1)) {
    type.rank = 1;
    type.shape[0] = 1;
    return nabla_make_reshape(m, nabla_make_settle(m, x, NABLA_DTYPES_own),
                              &type);
  }
  if (!nabla_make_dim(m, first, x->dense.rank, &a) ||
      !nabla_make_dim(m, last, x->dense.rank, &b))
    return NULL;
  if (a > b)
    return NABLA_MAKE_FAIL(m, "dimensions %" PRId64 " to %" PRId64, a, b);
  for (int64_t i = 0; i < (int64_t)x->dense.rank; i++) {
    const int64_t size = x->dense.shape[i];
    if (!type.rank || i <= a || i > b) {
      type.shape[type.rank++] = size;
      continue;
    }
    int64_t *joined = &type.shape[type.rank - 1];
    if (*joined < 0 || size < 0)
      *joined = -1;
    else if (__builtin_mul_overflow(*joined, size, joined))
      return NABLA_MAKE_FAIL(m, "the sizes overflow");
  }
  return nabla_make_reshape(m, x, &type);
}

nabla_array *nabla_squeeze(nabla_array *x, uint32_t count,
                           const int64_t *dims) {
  NABLA_MAKE(m, squeeze, x);
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t listed;
  bool is_gone[NABLA_ARRAY_MAX_RANK] = {false};
  nabla_array_type type = {0};
  if (!m->scope ||
      !nabla_make_dims(m, count, dims, x->dense.rank, true, list, &listed))
    return NULL;
  for (uint32_t i = 0; i < listed; i++) {
    is_gone[list[i]] = x->dense.shape[list[i]] == 1;
    if (count && !is_gone[list[i]])
      return NABLA_MAKE_FAIL(
          m, "dimension %" PRId64 " has size %" PRId64 ", not 1", list[i],
          x->dense.shape[list[i]]);
  }
  for (uint32_t i = 0; i < x->dense.rank; i++)
    if (!is_gone[i]) type.shape[type.rank++] = x->dense.shape[i];
  return nabla_make_reshape(m, x, &type);
}

nabla_array *nabla_unsqueeze(nabla_array *x, int64_t dim) {
  NABLA_MAKE(m, unsqueeze, x);
  int64_t at;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank + 1, &at)) return NULL;
  return nabla_make_unsqueeze(m, nabla_make_settle(m, x, NABLA_DTYPES_own),
                              (uint32_t)at);
}

nabla_array *nabla_broadcast_to(nabla_array *x, uint32_t count,
                                const int64_t *shape) {
  NABLA_MAKE(m, broadcast_to, x);
  nabla_array_type type;
  if (!m->scope) return NULL;
  x = nabla_make_settle(m, x, NABLA_DTYPES_own);
  if (!x || !nabla_make_type(m, nabla_make_dtype(x), count, shape, &type))
    return NULL;
  if (count < x->dense.rank)
    return NABLA_MAKE_FAIL(m, "a shape of rank %" PRIu32, count);
  return nabla_make_broadcast(m, x, &type);
}

nabla_array *nabla_broadcast_in_dim(nabla_array *x, uint32_t count,
                                    const int64_t *shape, uint32_t dim_count,
                                    const int64_t *dims) {
  NABLA_MAKE(m, broadcast_in_dim, x);
  nabla_array_type type;
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t listed;
  if (!m->scope) return NULL;
  x = nabla_make_settle(m, x, NABLA_DTYPES_own);
  if (!x || !nabla_make_type(m, nabla_make_dtype(x), count, shape, &type) ||
      !nabla_make_count(m, "dimensions", dim_count, x->dense.rank) ||
      !nabla_make_dims(m, dim_count, dims, count, false, list, &listed))
    return NULL;
  return nabla_make_spread(m, x, list, &type);
}

/* ---- boxes ---- */

/* A limit or start as the IR has it: those below 0 count from the end. */
static int64_t from_end(int64_t value, int64_t size) {
  return value < 0 ? value + size : value;
}

nabla_array *nabla_slice(nabla_array *x, uint32_t count, const int64_t *starts,
                         const int64_t *limits, const int64_t *strides) {
  NABLA_MAKE(m, slice, x);
  int64_t first[NABLA_ARRAY_MAX_RANK], past[NABLA_ARRAY_MAX_RANK];
  if (!m->scope ||
      !nabla_make_count(m, "starts and limits", count, x->dense.rank))
    return NULL;
  if (count && (!starts || !limits))
    return NABLA_MAKE_FAIL(m, "starts or limits are NULL");
  for (uint32_t i = 0; i < count; i++) {
    const int64_t size = x->dense.shape[i];
    if (size < 0) { /* checked when the program runs */
      first[i] = starts[i];
      past[i] = limits[i] == NABLA_END ? -1 : limits[i];
      if (starts[i] < 0 || past[i] < -1 ||
          (limits[i] < 0 && limits[i] != NABLA_END))
        return NABLA_MAKE_FAIL(
            m, "a place from the end of a dimension of unknown size");
      continue;
    }
    first[i] = from_end(starts[i], size);
    past[i] = limits[i] == NABLA_END ? size : from_end(limits[i], size);
    if (first[i] < 0 || past[i] < first[i] || past[i] > size)
      return NABLA_MAKE_FAIL(
          m, "elements %" PRId64 " to %" PRId64 " of dimension %" PRIu32,
          starts[i], limits[i], i);
  }
  x = nabla_make_settle(m, x, NABLA_DTYPES_own);
  const nabla_recorded_attribute attributes[3] = {
      nabla_make_list("starts", count, first),
      nabla_make_list("limits", count, past),
      nabla_make_list("strides", count, strides)};
  return nabla_make_op(m, "nabla.slice", 1, &x, strides ? 3 : 2, attributes,
                       NULL);
}

/* Appends the starts of a box to `operands`, as i64. */
static bool add_starts(const nabla_making *m, uint32_t count,
                       nabla_array *const *starts, nabla_array **operands) {
  for (uint32_t i = 0; i < count; i++) {
    nabla_array *start = starts[i];
    if (start->dense.rank || nabla_dtype_is_float(nabla_make_dtype(start))) {
      (void)NABLA_MAKE_FAIL(m, "starts are integers of rank 0");
      return false;
    }
    if (start->is_weak || nabla_make_dtype(start) != NABLA_DTYPE_I32)
      start = nabla_make_convert(m, start, NABLA_DTYPE_I64);
    if (!start) return false;
    operands[i] = start;
  }
  return true;
}

/* The arrays of a call in one list: `first`, then `count` more. */
typedef struct operands {
  nabla_array *list[NABLA_ARRAY_MAX_RANK + 2];
} operands;

static operands list_of(nabla_array *x, nabla_array *y, uint32_t count,
                        nabla_array *const *more) {
  operands out = {{x}};
  uint32_t used = 1;
  if (y) out.list[used++] = y;
  for (uint32_t i = 0; i < count; i++) out.list[used++] = more[i];
  return out;
}

nabla_array *nabla_dynamic_slice(nabla_array *x, uint32_t count,
                                 nabla_array *const *starts,
                                 const int64_t *sizes) {
  const bool is_short = count <= NABLA_ARRAY_MAX_RANK && (!count || starts);
  operands all = list_of(x, NULL, is_short ? count : 0, starts);
  NABLA_MAKE_LIST(m, dynamic_slice, is_short ? count + 1 : 1, all.list);
  nabla_array_type type;
  if (!m->scope) return NULL;
  if (!is_short) return NABLA_MAKE_FAIL(m, "the starts are NULL, or too many");
  x = all.list[0] = nabla_make_settle(m, x, NABLA_DTYPES_own);
  if (!x || !nabla_make_count(m, "starts", count, x->dense.rank) ||
      !nabla_make_type(m, nabla_make_dtype(x), count, sizes, &type) ||
      !add_starts(m, count, starts, all.list + 1))
    return NULL;
  const int64_t segments[3] = {1, count, 0};
  const nabla_recorded_attribute attribute = {.key = "operandSegmentSizes",
                                              .kind = NABLA_ATTRIBUTE_SIZES,
                                              .count = 3,
                                              .values = segments};
  return nabla_make_op(m, "nabla.dynamic_slice", count + 1, all.list, 1,
                       &attribute, &type);
}

nabla_array *nabla_dynamic_update_slice(nabla_array *x, nabla_array *update,
                                        uint32_t count,
                                        nabla_array *const *starts) {
  const bool is_short = count <= NABLA_ARRAY_MAX_RANK && (!count || starts);
  operands all = list_of(x, update, update && is_short ? count : 0, starts);
  NABLA_MAKE_LIST(m, dynamic_update_slice, update && is_short ? count + 2 : 2,
                  all.list);
  if (!m->scope || !x || !update) return NULL;
  if (!is_short) return NABLA_MAKE_FAIL(m, "the starts are NULL, or too many");
  x = all.list[0] = nabla_make_settle(m, x, NABLA_DTYPES_own);
  if (!x || !nabla_make_count(m, "starts", count, x->dense.rank) ||
      !add_starts(m, count, starts, all.list + 2))
    return NULL;
  all.list[1] = nabla_make_convert(m, update, nabla_make_dtype(x));
  return nabla_make_op(m, "nabla.dynamic_update_slice", count + 2, all.list, 0,
                       NULL, NULL);
}

nabla_array *nabla_pad(nabla_array *x, nabla_array *value, uint32_t count,
                       const int64_t *low, const int64_t *high,
                       const int64_t *interior) {
  NABLA_MAKE(m, pad, x, value);
  if (!m->scope || !nabla_make_count(m, "paddings", count, x->dense.rank))
    return NULL;
  if (count && (!low || !high))
    return NABLA_MAKE_FAIL(m, "low or high is NULL");
  x = nabla_make_settle(m, x, NABLA_DTYPES_own);
  if (!x) return NULL;
  nabla_array *both[2] = {x, nabla_make_convert(m, value, nabla_make_dtype(x))};
  const nabla_recorded_attribute attributes[3] = {
      nabla_make_list("low", count, low), nabla_make_list("high", count, high),
      nabla_make_list("interior", count, interior)};
  return nabla_make_op(m, "nabla.pad", 2, both, interior ? 3 : 2, attributes,
                       NULL);
}

/* x where `is_upper` says of the triangle, else 0. */
static nabla_array *triangle(const nabla_making *m, nabla_array *x,
                             int64_t diagonal, bool is_upper) {
  if (!m->scope) return NULL;
  if (x->dense.rank < 2) return NABLA_MAKE_FAIL(m, "a rank of 2 or more");
  nabla_array_type type = x->dense;
  type.dtype = NABLA_DTYPE_BOOL;
  const nabla_recorded_attribute attribute =
      nabla_make_i64("diagonal", &diagonal);
  nabla_array *tri =
      nabla_make_op(m, "nabla.tri", 0, NULL, 1, &attribute, &type);
  type.dtype = nabla_make_dtype(x);
  nabla_array *zero = nabla_make_full(m, 0, &type);
  return is_upper ? nabla_make_select(m, tri, zero, x)
                  : nabla_make_select(m, tri, x, zero);
}

nabla_array *nabla_triu(nabla_array *x, int64_t diagonal) {
  NABLA_MAKE(m, triu, x);
  if (diagonal == INT64_MIN) diagonal++;
  return triangle(m, x, diagonal - 1, true);
}

nabla_array *nabla_tril(nabla_array *x, int64_t diagonal) {
  NABLA_MAKE(m, tril, x);
  return triangle(m, x, diagonal, false);
}

/* ---- pieces ---- */

/* Splits x; `out` is NULL after a failure. */
static void split(const nabla_making *m, nabla_array *x, int64_t dim,
                  uint32_t count, const int64_t *sizes, nabla_array **out) {
  for (uint32_t i = 0; i < count; i++) out[i] = NULL;
  if (!count) {
    (void)NABLA_MAKE_FAIL(m, "no pieces");
    return;
  }
  const nabla_recorded_attribute attributes[2] = {
      nabla_make_i64("dim", &dim), nabla_make_list("sizes", count, sizes)};
  const nabla_recording recording = {.op = "nabla.split",
                                     .operand_count = 1,
                                     .attribute_count = 2,
                                     .attributes = attributes};
  (void)nabla_record_all(m->site, m->scope, &recording, &x, count, out);
}

void nabla_split(nabla_array *x, int64_t dim, uint32_t count,
                 const int64_t *sizes, nabla_array **out) {
  NABLA_MAKE(m, split, x);
  int64_t at;
  for (uint32_t i = 0; i < count; i++) out[i] = NULL;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at)) return;
  split(m, x, at, count, sizes, out);
}

#define MAX_PIECES 1024

void nabla_chunk(nabla_array *x, int64_t dim, uint32_t count,
                 nabla_array **out) {
  NABLA_MAKE(m, chunk, x);
  int64_t at, sizes[MAX_PIECES];
  for (uint32_t i = 0; i < count; i++) out[i] = NULL;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at)) return;
  const int64_t size = x->dense.shape[at];
  if (!count || count > MAX_PIECES || size < 0 || size % (int64_t)count) {
    (void)NABLA_MAKE_FAIL(m, "%" PRIu32 " equal pieces of %" PRId64, count,
                          size);
    return;
  }
  for (uint32_t i = 0; i < count; i++) sizes[i] = size / (int64_t)count;
  split(m, x, at, count, sizes, out);
}

void nabla_unbind(nabla_array *x, int64_t dim, uint32_t count,
                  nabla_array **out) {
  NABLA_MAKE(m, unbind, x);
  int64_t at, sizes[MAX_PIECES];
  for (uint32_t i = 0; i < count; i++) out[i] = NULL;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at)) return;
  if (count > MAX_PIECES || (int64_t)count != x->dense.shape[at]) {
    (void)NABLA_MAKE_FAIL(m,
                          "%" PRIu32 " arrays of a dimension of size %" PRId64,
                          count, x->dense.shape[at]);
    return;
  }
  if (!count) return;
  for (uint32_t i = 0; i < count; i++) sizes[i] = 1;
  split(m, x, at, count, sizes, out);
  for (uint32_t i = 0; i < count; i++)
    out[i] = nabla_make_squeeze(m, out[i], (uint32_t)at);
}
