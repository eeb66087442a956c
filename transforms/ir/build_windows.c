/* Gather, scatter, convolutions and pools; see build.h. */
#include <mlir-c/BuiltinAttributes.h>

#include "transforms/ir/build.h"

/* Attributes of an op under construction. */
typedef struct list {
  const nabla_builder *builder;
  intptr_t count;
  MlirNamedAttribute entries[12];
} list;

/* Adds nothing if `values` is NULL. */
static void add(list *l, const char *key, intptr_t count,
                const int64_t *values) {
  if (values)
    l->entries[l->count++] = nabla_build_list(l->builder, key, count, values);
}

static void add_integer(list *l, const char *key, unsigned width,
                        int64_t value) {
  l->entries[l->count++] = nabla_build_integer(l->builder, key, width, value);
}

/* Makes an op whose result type is inferred. */
static MlirValue make(const list *l, const char *name, intptr_t count,
                      const MlirValue *operands) {
  nabla_op_spec spec = {name, count, operands, -1, NULL, l->count, l->entries};
  return nabla_build_op(l->builder, &spec);
}

/* ---- gather and scatter ---- */

static void add_dims(list *l, const nabla_built_gather *dims) {
  static const int64_t none[1];
  add(l, "offset_dims", dims->offset_count,
      dims->offset_count ? dims->offset_dims : none);
  add(l, "collapsed_dims", dims->collapsed_count, dims->collapsed_dims);
  add(l, "input_batching", dims->batching_count, dims->input_batching);
  add(l, "indices_batching", dims->batching_count, dims->indices_batching);
  add(l, "index_map", dims->map_count,
      dims->map_count ? dims->index_map : none);
  add_integer(l, "vector_dim", 64, dims->vector_dim);
}

MlirValue nabla_build_gather(const nabla_builder *b, MlirValue x,
                             MlirValue indices, const nabla_built_gather *dims,
                             const int64_t *sizes) {
  MlirValue operands[2] = {x, indices};
  list l = {.builder = b};
  if (mlirValueIsNull(x)) return x;
  add_dims(&l, dims);
  add(&l, "sizes", nabla_array_rank(mlirValueGetType(x)), sizes);
  return make(&l, "nabla.gather", 2, operands);
}

MlirValue nabla_build_scatter(const nabla_builder *b, int64_t kind,
                              const MlirValue operands[3],
                              const nabla_built_gather *dims) {
  list l = {.builder = b};
  add_integer(&l, "kind", 32, kind);
  add_dims(&l, dims);
  return make(&l, "nabla.scatter", 3, operands);
}

/* ---- windows ---- */

static void add_windows(list *l, const nabla_built_windows *windows,
                        const char *dilation) {
  add(l, "strides", windows->count, windows->strides);
  add(l, dilation, windows->count, windows->dilation);
  add(l, "low", windows->count, windows->low);
  add(l, "high", windows->count, windows->high);
}

MlirValue nabla_build_conv(const nabla_builder *b, MlirValue x,
                           MlirValue kernel, const nabla_built_conv *conv) {
  MlirValue operands[2] = {x, kernel};
  list l = {.builder = b};
  if (mlirValueIsNull(x)) return x;
  intptr_t rank = nabla_array_rank(mlirValueGetType(x));
  add_windows(&l, &conv->windows, "kernel_dilation");
  add(&l, "input_dilation", conv->windows.count, conv->input_dilation);
  add(&l, "input_dims", rank, conv->input_dims);
  add(&l, "kernel_dims", rank, conv->kernel_dims);
  add(&l, "output_dims", rank, conv->output_dims);
  if (conv->groups) add_integer(&l, "groups", 64, conv->groups);
  return make(&l, "nabla.conv_general", 2, operands);
}

MlirValue nabla_build_pool(const nabla_builder *b, MlirValue x,
                           const nabla_built_pool *pool) {
  list l = {.builder = b};
  if (mlirValueIsNull(x)) return x;
  add_integer(&l, "kind", 32, pool->kind);
  add(&l, "window", nabla_array_rank(mlirValueGetType(x)), pool->sizes);
  add_windows(&l, &pool->windows, "dilation");
  if (pool->count_padding) {
    MlirContext context = nabla_op_context(b->before);
    l.entries[l.count++] =
        nabla_named(context, "count_padding", mlirUnitAttrGet(context));
  }
  return make(&l, "nabla.pool", 1, &x);
}
