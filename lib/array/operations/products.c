/* Products of arrays, convolutions, windows. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/make.h"
#include "lib/array/trace.h"

/* ---- products ---- */

static nabla_array *dot(const nabla_making *m, nabla_array *x, nabla_array *y,
                        const nabla_dot_dims *dims) {
  nabla_array *both[2] = {x, y};
  int64_t lists[4][NABLA_ARRAY_MAX_RANK];
  uint32_t count;
  if (!m->scope || !x || !y) return NULL;
  const uint32_t b = dims->batching_count, c = dims->contracting_count;
  if (!nabla_make_dims(m, b, dims->x_batching, x->dense.rank, false, lists[0],
                       &count) ||
      !nabla_make_dims(m, b, dims->y_batching, y->dense.rank, false, lists[1],
                       &count) ||
      !nabla_make_dims(m, c, dims->x_contracting, x->dense.rank, false,
                       lists[2], &count) ||
      !nabla_make_dims(m, c, dims->y_contracting, y->dense.rank, false,
                       lists[3], &count))
    return NULL;
  const nabla_dtype dtype = nabla_make_promote(2, both, NABLA_DTYPES_floats);
  both[0] = nabla_make_convert(m, x, dtype);
  both[1] = nabla_make_convert(m, y, dtype);
  const nabla_recorded_attribute attributes[4] = {
      nabla_make_list("lhs_contracting", c, lists[2]),
      nabla_make_list("rhs_contracting", c, lists[3]),
      nabla_make_list("lhs_batching", b, lists[0]),
      nabla_make_list("rhs_batching", b, lists[1])};
  return nabla_make_op(m, "nabla.dot_general", 2, both, b ? 4 : 2, attributes,
                       NULL);
}

nabla_array *nabla_dot_general(nabla_array *x, nabla_array *y,
                               const nabla_dot_dims *dims) {
  NABLA_MAKE(m, dot_general, x, y);
  if (!m->scope) return NULL;
  if (!dims) return NABLA_MAKE_FAIL(m, "the argument dims is NULL");
  return dot(m, x, y, dims);
}

/* The shape of x with the leading dimensions of `batch`, and its last two. */
static nabla_array_type with_batch(const nabla_array_type *batch,
                                   const nabla_array *x) {
  nabla_array_type type = *batch;
  const uint32_t rank = x->dense.rank;
  type.shape[type.rank++] = x->dense.shape[rank - 2];
  type.shape[type.rank++] = x->dense.shape[rank - 1];
  return type;
}

/* The product of matrices with integers as elements: of i x k x 1 and k x j,
 * summed over k. */
static nabla_array *multiply_integers(const nabla_making *m, nabla_array *x,
                                      nabla_array *y) {
  const int64_t dim = -2;
  nabla_array *tall = nabla_make_unsqueeze(m, x, x->dense.rank);
  nabla_array *wide = nabla_make_unsqueeze(m, y, y->dense.rank - 2);
  nabla_array *product = nabla_make_binary(m, "nabla.mul", tall, wide);
  return nabla_make_reduce(m, NABLA_REDUCE_SUM, product, 1, &dim, 0);
}

/* The product of arrays of matrices. */
static nabla_array *multiply(const nabla_making *m, nabla_array *x,
                             nabla_array *y) {
  nabla_array *both[2] = {x, y};
  int64_t batch[NABLA_ARRAY_MAX_RANK];
  if (!x || !y) return NULL;
  const uint32_t left = x->dense.rank, right = y->dense.rank;
  const int64_t inner = x->dense.shape[left - 1];
  int64_t joined;
  if (!nabla_size_join(m->scope, inner, y->dense.shape[right - 2], &joined))
    return NABLA_MAKE_FAIL(m, "%" PRId64 " columns and %" PRId64 " rows", inner,
                           y->dense.shape[right - 2]);
  const nabla_dtype dtype = nabla_make_promote(2, both, NABLA_DTYPES_numbers);
  for (uint32_t i = 0; i < 2; i++)
    both[i] = nabla_make_convert(m, both[i], dtype);
  if (!both[0] || !both[1]) return NULL;
  if (!nabla_dtype_is_float(dtype))
    return multiply_integers(m, both[0], both[1]);
  nabla_dot_dims dims = {.contracting_count = 1,
                         .x_contracting = (const int64_t[]){-1},
                         .y_contracting = (const int64_t[]){-2}};
  if (right == 2) return dot(m, both[0], both[1], &dims);
  nabla_array leading[2];
  nabla_array *const pair[2] = {&leading[0], &leading[1]};
  for (uint32_t i = 0; i < 2; i++) {
    leading[i].dense = both[i]->dense;
    leading[i].dense.rank -= 2;
  }
  const nabla_array_call call = {m->site->function, m->site->place, 2, pair};
  nabla_array_type shape;
  if (!nabla_call_broadcast(&call, m->scope, &shape)) return NULL;
  const nabla_array_type types[2] = {with_batch(&shape, x),
                                     with_batch(&shape, y)};
  for (uint32_t i = 0; i < shape.rank; i++) batch[i] = (int64_t)i;
  dims.batching_count = shape.rank;
  dims.x_batching = dims.y_batching = batch;
  return dot(m, nabla_make_broadcast(m, both[0], &types[0]),
             nabla_make_broadcast(m, both[1], &types[1]), &dims);
}

nabla_array *nabla_matmul(nabla_array *x, nabla_array *y) {
  NABLA_MAKE(m, matmul, x, y);
  if (!m->scope) return NULL;
  if (!x->dense.rank || !y->dense.rank)
    return NABLA_MAKE_FAIL(m, "an operand of rank 0");
  const bool is_row = x->dense.rank == 1, is_column = y->dense.rank == 1;
  const bool is_bool =
      x->dense.dtype == NABLA_DTYPE_BOOL && y->dense.dtype == NABLA_DTYPE_BOOL;
  if (is_row) x = nabla_make_unsqueeze(m, x, 0);
  if (is_column) y = nabla_make_unsqueeze(m, y, 1);
  nabla_array *out = multiply(m, x, y);
  if (is_bool) /* whether one of the products is true */
    out = nabla_make_convert(m, out, NABLA_DTYPE_BOOL);
  if (out && is_column) out = nabla_make_squeeze(m, out, out->dense.rank - 1);
  if (out && is_row)
    out = nabla_make_squeeze(m, out, out->dense.rank - (is_column ? 1 : 2));
  return out;
}

nabla_array *nabla_outer(nabla_array *x, nabla_array *y) {
  NABLA_MAKE(m, outer, x, y);
  nabla_array_type column = {.rank = 2}, row = {.rank = 2};
  if (!m->scope) return NULL;
  column.shape[0] = nabla_make_elements_of(x);
  row.shape[1] = nabla_make_elements_of(y);
  column.shape[1] = row.shape[0] = 1;
  const nabla_dtype dtype = nabla_make_promote(2, m_arrays, NABLA_DTYPES_own);
  x = nabla_make_convert(m, x, dtype);
  y = nabla_make_convert(m, y, dtype);
  return nabla_make_binary(m, "nabla.mul", nabla_make_reshape(m, x, &column),
                           nabla_make_reshape(m, y, &row));
}

nabla_array *nabla_linear(nabla_array *x, nabla_array *w, nabla_array *bias) {
  nabla_array *list[3] = {x, w, bias};
  const uint32_t count = nabla_is_none(bias) ? 2 : 3;
  NABLA_MAKE_LIST(m, linear, count, list);
  if (!m->scope) return NULL;
  const nabla_dtype dtype =
      nabla_make_promote(count, list, NABLA_DTYPES_floats);
  for (uint32_t i = 0; i < count; i++)
    list[i] = nabla_make_convert(m, list[i], dtype);
  return nabla_make_op(m, "nabla.linear", count, list, 0, NULL, NULL);
}

/* ---- windows ---- */

/* Attributes that are lists, NULL where the default is meant. */
typedef struct attributes {
  uint32_t count;
  nabla_recorded_attribute list[NABLA_MAX_ATTRIBUTES];
} attributes;

static void add_list(attributes *a, const char *key, uint32_t count,
                     const int64_t *values) {
  if (values) a->list[a->count++] = nabla_make_list(key, count, values);
}

nabla_array *nabla_conv_general(nabla_array *x, nabla_array *kernel,
                                const nabla_conv_options *options) {
  static const nabla_conv_options defaults = {.struct_size = sizeof defaults};
  NABLA_MAKE(m, conv_general, x, kernel);
  nabla_array *both[2] = {x, kernel};
  attributes a = {0};
  if (!m->scope) return NULL;
  if (!options) options = &defaults;
  if (options->struct_size != sizeof *options)
    return NABLA_MAKE_FAIL(m, "the options are of another version");
  const uint32_t rank = x->dense.rank, spatial = rank < 2 ? 0 : rank - 2;
  const nabla_dtype dtype = nabla_make_promote(2, both, NABLA_DTYPES_floats);
  for (uint32_t i = 0; i < 2; i++)
    both[i] = nabla_make_convert(m, both[i], dtype);
  add_list(&a, "strides", spatial, options->strides);
  add_list(&a, "low", spatial, options->low);
  add_list(&a, "high", spatial, options->high);
  add_list(&a, "input_dilation", spatial, options->input_dilation);
  add_list(&a, "kernel_dilation", spatial, options->kernel_dilation);
  add_list(&a, "input_dims", rank, options->input_dims);
  add_list(&a, "kernel_dims", rank, options->kernel_dims);
  add_list(&a, "output_dims", rank, options->output_dims);
  if (options->groups)
    a.list[a.count++] = nabla_make_i64("groups", &options->groups);
  return nabla_make_op(m, "nabla.conv_general", 2, both, a.count, a.list, NULL);
}

static nabla_array *pool(const nabla_making *m, nabla_array *x, int64_t kind,
                         uint32_t count, const nabla_window_options *window) {
  attributes a = {0};
  if (!m->scope || !x ||
      !nabla_make_count(m, "sizes of a window", count, x->dense.rank))
    return NULL;
  if (count && !window->sizes) return NABLA_MAKE_FAIL(m, "no sizes");
  nabla_array *operand =
      nabla_make_settle(m, x,
                        kind == NABLA_WINDOW_AVG   ? NABLA_DTYPES_floats
                        : kind == NABLA_WINDOW_SUM ? NABLA_DTYPES_sums
                                                   : NABLA_DTYPES_own);
  a.list[a.count++] = nabla_make_i32("kind", &kind);
  a.list[a.count++] = nabla_make_list("window", count, window->sizes);
  add_list(&a, "strides", count, window->strides);
  add_list(&a, "dilation", count, window->dilation);
  add_list(&a, "low", count, window->low);
  add_list(&a, "high", count, window->high);
  if (window->count_padding)
    a.list[a.count++] = nabla_make_unit("count_padding");
  return nabla_make_op(m, "nabla.pool", 1, &operand, a.count, a.list, NULL);
}

nabla_array *nabla_reduce_window(nabla_array *x, nabla_window_kind kind,
                                 const nabla_window_options *window) {
  NABLA_MAKE(m, reduce_window, x);
  if (!m->scope) return NULL;
  if (!window || window->struct_size != sizeof *window)
    return NABLA_MAKE_FAIL(m, "the window is NULL, or of another version");
  return pool(m, x, kind, window->count, window);
}

/* A pool over the last `count` dimensions. */
static nabla_array *pool_last(const nabla_making *m, nabla_array *x,
                              int64_t kind, uint32_t count,
                              const int64_t *sizes, const int64_t *strides,
                              const int64_t *padding) {
  int64_t lists[3][NABLA_ARRAY_MAX_RANK];
  if (!m->scope) return NULL;
  const uint32_t rank = x->dense.rank;
  if (!count || count > rank || !sizes)
    return NABLA_MAKE_FAIL(m, "windows over %" PRIu32 " dimensions", count);
  for (uint32_t i = 0; i < rank; i++) {
    const uint32_t first = rank - count;
    lists[0][i] = i < first ? 1 : sizes[i - first];
    lists[1][i] = i < first ? 1 : (strides ? strides : sizes)[i - first];
    lists[2][i] = i < first || !padding ? 0 : padding[i - first];
  }
  const nabla_window_options window = {.sizes = lists[0],
                                       .strides = lists[1],
                                       .low = lists[2],
                                       .high = lists[2]};
  return pool(m, x, kind, rank, &window);
}

nabla_array *nabla_max_pool(nabla_array *x, uint32_t count,
                            const int64_t *sizes, const int64_t *strides,
                            const int64_t *padding) {
  NABLA_MAKE(m, max_pool, x);
  return pool_last(m, x, NABLA_WINDOW_MAX, count, sizes, strides, padding);
}

nabla_array *nabla_avg_pool(nabla_array *x, uint32_t count,
                            const int64_t *sizes, const int64_t *strides,
                            const int64_t *padding) {
  NABLA_MAKE(m, avg_pool, x);
  return pool_last(m, x, NABLA_WINDOW_AVG, count, sizes, strides, padding);
}
