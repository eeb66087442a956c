/* Operations that read and write elements at indices. */
#include <inttypes.h>

#include "lib/array/make.h"

/* Indices as i32 or i64; NULL after a failure. */
static nabla_array *as_indices(const nabla_making *m, nabla_array *indices) {
  if (!m->scope || !indices) return NULL;
  const nabla_dtype dtype = nabla_make_dtype(indices);
  if (nabla_dtype_is_float(dtype) || dtype == NABLA_DTYPE_BOOL)
    return NABLA_MAKE_FAIL(m, "indices of dtype %s", nabla_dtype_name(dtype));
  return dtype == NABLA_DTYPE_I32 || dtype == NABLA_DTYPE_I64
             ? indices
             : nabla_make_convert(m, indices, NABLA_DTYPE_I32);
}

/* The same, where those below 0 count from the end of a dimension. */
static nabla_array *from_start(const nabla_making *m, nabla_array *indices,
                               int64_t size) {
  indices = as_indices(m, indices);
  if (!indices) return NULL;
  if (size < 0)
    return NABLA_MAKE_FAIL(m, "indices of a dimension of unknown size");
  nabla_array_type type = indices->dense;
  nabla_array *is_negative =
      nabla_make_compare(m, 2, indices, nabla_make_full(m, 0, &type));
  nabla_array *moved = nabla_make_binary(
      m, "nabla.add", indices, nabla_make_full(m, (double)size, &type));
  return nabla_make_select(m, is_negative, moved, indices);
}

#define DIM_ATTRIBUTES 6

/* Writes the attributes that gather and scatter share. */
static void write_dims(const nabla_gather_dims *dims,
                       nabla_recorded_attribute *out) {
  out[0] =
      nabla_make_list("offset_dims", dims->offset_count, dims->offset_dims);
  out[1] = nabla_make_list("collapsed_dims", dims->collapsed_count,
                           dims->collapsed_dims);
  out[2] =
      nabla_make_list("input_batching", dims->batching_count, dims->x_batching);
  out[3] = nabla_make_list("indices_batching", dims->batching_count,
                           dims->indices_batching);
  out[4] = nabla_make_list("index_map", dims->map_count, dims->index_map);
  out[5] = nabla_make_i64("vector_dim", &dims->vector_dim);
}

/* The dimension numbers of rows of x: indices in dimension `dim`. */
typedef struct rows {
  int64_t offset[2 * NABLA_ARRAY_MAX_RANK];
  int64_t dim;
  nabla_gather_dims dims;
} rows;

static void describe_rows(uint32_t rank, uint32_t index_rank, int64_t dim,
                          rows *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < rank + index_rank - 1; i++)
    if (i < dim || i >= dim + index_rank) out->offset[count++] = (int64_t)i;
  out->dim = dim;
  out->dims = (nabla_gather_dims){.struct_size = sizeof out->dims,
                                  .offset_count = count,
                                  .offset_dims = out->offset,
                                  .collapsed_count = 1,
                                  .collapsed_dims = &out->dim,
                                  .map_count = 1,
                                  .index_map = &out->dim,
                                  .vector_dim = (int64_t)index_rank};
}

static nabla_array *gather(const nabla_making *m, nabla_array *x,
                           nabla_array *indices, const nabla_gather_dims *dims,
                           const int64_t *sizes) {
  nabla_array *both[2] = {x, indices};
  nabla_recorded_attribute attributes[DIM_ATTRIBUTES + 1];
  if (!x) return NULL;
  write_dims(dims, attributes);
  attributes[DIM_ATTRIBUTES] = nabla_make_list("sizes", x->dense.rank, sizes);
  return nabla_make_op(m, "nabla.gather", 2, both, DIM_ATTRIBUTES + 1,
                       attributes, NULL);
}

static nabla_array *scatter(const nabla_making *m, int64_t kind, nabla_array *x,
                            nabla_array *indices, nabla_array *updates,
                            const nabla_gather_dims *dims) {
  nabla_array *all[3] = {x, indices, updates};
  nabla_recorded_attribute attributes[DIM_ATTRIBUTES + 1];
  write_dims(dims, attributes);
  attributes[DIM_ATTRIBUTES] = nabla_make_i32("kind", &kind);
  return nabla_make_op(m, "nabla.scatter", 3, all, DIM_ATTRIBUTES + 1,
                       attributes, NULL);
}

static bool check_dims(const nabla_making *m, const nabla_gather_dims *dims) {
  if (!m->scope) return false;
  if (dims && dims->struct_size == sizeof *dims) return true;
  (void)NABLA_MAKE_FAIL(m, "dims is NULL, or of another version");
  return false;
}

nabla_array *nabla_gather(nabla_array *x, nabla_array *indices,
                          const nabla_gather_dims *dims, uint32_t count,
                          const int64_t *sizes) {
  NABLA_MAKE(m, gather, x, indices);
  if (!check_dims(m, dims) ||
      !nabla_make_count(m, "sizes", count, x->dense.rank))
    return NULL;
  return gather(m, x, as_indices(m, indices), dims, sizes);
}

nabla_array *nabla_scatter(nabla_array *x, nabla_array *indices,
                           nabla_array *updates, nabla_scatter_kind kind,
                           const nabla_gather_dims *dims) {
  NABLA_MAKE(m, scatter, x, indices, updates);
  if (!check_dims(m, dims)) return NULL;
  return scatter(m, kind, x, as_indices(m, indices),
                 nabla_make_convert(m, updates, nabla_make_dtype(x)), dims);
}

/* Rows of a dimension without elements, of which no index asks for one; NULL
 * where one may. */
static nabla_array *take_none(const nabla_making *m, const nabla_array *x,
                              const nabla_array *indices, int64_t at) {
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  uint32_t rank = 0;
  bool is_empty = false;
  for (uint32_t d = 0; d < x->dense.rank; d++) {
    if (d != at) shape[rank++] = x->dense.shape[d];
    for (uint32_t i = 0; d == at && i < indices->dense.rank; i++) {
      is_empty = is_empty || !indices->dense.shape[i];
      shape[rank++] = indices->dense.shape[i];
    }
  }
  if (x->dense.shape[at] || !is_empty) return NULL;
  return nabla_zeros(m->scope, nabla_make_dtype(x), rank, shape);
}

nabla_array *nabla_take(nabla_array *x, nabla_array *indices, int64_t dim) {
  NABLA_MAKE(m, take, x, indices);
  rows r;
  int64_t at, sizes[NABLA_ARRAY_MAX_RANK];
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at)) return NULL;
  if (x->dense.rank + indices->dense.rank > NABLA_ARRAY_MAX_RANK)
    return NABLA_MAKE_FAIL(m, "a rank above %d", NABLA_ARRAY_MAX_RANK);
  nabla_array *starts = from_start(m, indices, x->dense.shape[at]);
  if (!starts) return NULL;
  nabla_array *none = take_none(m, x, indices, at);
  if (none) return none;
  describe_rows(x->dense.rank, indices->dense.rank, at, &r);
  for (uint32_t i = 0; i < x->dense.rank; i++)
    sizes[i] = x->dense.shape[i] < 0 ? -1 : x->dense.shape[i];
  sizes[at] = 1;
  return gather(m, x, starts, &r.dims, sizes);
}

nabla_array *nabla_at(nabla_array *x, int64_t dim, nabla_array *indices,
                      nabla_array *values, nabla_scatter_kind kind) {
  NABLA_MAKE(m, at, x, indices, values);
  rows r;
  int64_t at;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at) || at < 0)
    return NULL;
  const uint32_t rank = x->dense.rank, index_rank = indices->dense.rank;
  if (rank + index_rank > NABLA_ARRAY_MAX_RANK)
    return NABLA_MAKE_FAIL(m, "a rank above %d", NABLA_ARRAY_MAX_RANK);
  describe_rows(rank, index_rank, at, &r);
  nabla_array_type type = {0};
  for (uint32_t i = 0; i < rank; i++) {
    if (i != (uint32_t)at) {
      type.shape[type.rank++] = x->dense.shape[i];
      continue;
    }
    for (uint32_t k = 0; k < index_rank && type.rank < NABLA_ARRAY_MAX_RANK;
         k++)
      type.shape[type.rank++] = indices->dense.shape[k];
  }
  if (values->dense.rank > type.rank)
    return NABLA_MAKE_FAIL(m, "values of rank %" PRIu32 "; at most %" PRIu32,
                           values->dense.rank, type.rank);
  nabla_array *updates = nabla_make_broadcast(
      m, nabla_make_convert(m, values, nabla_make_dtype(x)), &type);
  return scatter(m, kind, x, from_start(m, indices, x->dense.shape[at]),
                 updates, &r.dims);
}

nabla_array *nabla_one_hot(nabla_array *indices, int64_t size,
                           nabla_dtype dtype) {
  NABLA_MAKE(m, one_hot, indices);
  nabla_array_type type;
  nabla_array *index = as_indices(m, indices);
  if (!index || !nabla_make_type(m, dtype, 1, &size, &type)) return NULL;
  type.dtype = nabla_make_dtype(index);
  nabla_array *column = nabla_make_unsqueeze(m, index, index->dense.rank);
  nabla_array *is_equal =
      nabla_make_compare(m, 0, column, nabla_make_iota(m, 0, &type));
  return nabla_make_convert(m, is_equal, dtype);
}
