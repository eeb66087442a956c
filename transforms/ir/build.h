/* Functions that create operations of the dialect, for passes that replace an
 * op by others. Each new op is inserted before the op `before`; result types
 * are inferred. A null value means that an op could not be created, which was
 * reported. Ops with a null operand are null too, so that a pass need check
 * only the last one. Functions are in build.c, those of gather, scatter,
 * convolutions and pools in build_windows.c; operations with regions:
 * build_control.h. */
#ifndef NABLA_TRANSFORMS_IR_BUILD_H
#define NABLA_TRANSFORMS_IR_BUILD_H

#include "dialect/encoding/encoding.h"
#include "transforms/ir/ir.h"

typedef struct nabla_builder {
  MlirOperation before;
} nabla_builder;

/* The shape of an array. Where dims[i] is dynamic, sizes[i] is its value, of
 * type index. */
typedef struct nabla_built_shape {
  intptr_t rank;
  int64_t dims[NABLA_MAX_RANK];
  MlirValue sizes[NABLA_MAX_RANK];
} nabla_built_shape;

nabla_built_shape nabla_build_shape_of(const nabla_builder *b, MlirValue array);
/* Append a dimension to `shape`: dimension `index` of `from`, a static size, or
 * a dynamic size. */
void nabla_build_shape_add(nabla_built_shape *shape,
                           const nabla_built_shape *from, intptr_t index);
void nabla_build_shape_add_size(nabla_built_shape *shape, int64_t size);
void nabla_build_shape_add_value(nabla_built_shape *shape, MlirValue size);

/* Index arithmetic. */
MlirValue nabla_build_index(const nabla_builder *b, int64_t value);
/* arith.NAME of two indices. */
MlirValue nabla_build_arith(const nabla_builder *b, const char *name,
                            MlirValue lhs, MlirValue rhs);
/* Dimension `index` of a shape as an index. */
MlirValue nabla_build_size(const nabla_builder *b,
                           const nabla_built_shape *shape, intptr_t index);

/* Creates any op; returns its first result. */
MlirValue nabla_build_op(const nabla_builder *b, const nabla_op_spec *spec);
/* Attributes named `key`: array<i64: ...>, and an integer of `width` bits. */
MlirNamedAttribute nabla_build_list(const nabla_builder *b, const char *key,
                                    intptr_t count, const int64_t *values);
MlirNamedAttribute nabla_build_integer(const nabla_builder *b, const char *key,
                                       unsigned width, int64_t value);

/* nabla.NAME without attributes, of one operand or two. */
MlirValue nabla_build_one(const nabla_builder *b, const char *name,
                          MlirValue x);
MlirValue nabla_build_two(const nabla_builder *b, const char *name,
                          MlirValue lhs, MlirValue rhs);

/* nabla.convert, unless it would do nothing. */
MlirValue nabla_build_convert(const nabla_builder *b, MlirValue x,
                              MlirType element);
/* nabla.compare of x and y; `kind` is a number of Nabla_CompareKind. */
MlirValue nabla_build_compare(const nabla_builder *b, int64_t kind, MlirValue x,
                              MlirValue y);
MlirValue nabla_build_select(const nabla_builder *b, MlirValue condition,
                             MlirValue yes, MlirValue no);

/* nabla.reduce over dimension `dim`; `kind` is a number of Nabla_ReduceKind. */
#define NABLA_BUILD_SUM  0
#define NABLA_BUILD_MEAN 4
MlirValue nabla_build_reduce(const nabla_builder *b, int64_t kind, MlirValue x,
                             intptr_t dim);
/* nabla.softmax along `dim`. */
MlirValue nabla_build_softmax(const nabla_builder *b, MlirValue x,
                              intptr_t dim);

/* nabla.broadcast_in_dim of x to `shape`: dimension i of x becomes dimension
 * dims[i]. Returns x if it has that shape. */
MlirValue nabla_build_broadcast(const nabla_builder *b, MlirValue x,
                                const int64_t *dims,
                                const nabla_built_shape *shape);
/* nabla.reshape of x to `shape`; x if it has that shape. */
MlirValue nabla_build_reshape(const nabla_builder *b, MlirValue x,
                              const nabla_built_shape *shape);
/* `vector`, whose size has to be that of dimension `index` of `shape`. A
 * dynamic size is checked at run time, by a reshape: a broadcast would accept
 * and repeat a vector of size 1. */
MlirValue nabla_build_vector_of(const nabla_builder *b, MlirValue vector,
                                const nabla_built_shape *shape, intptr_t index);
/* nabla.slice: elements [start, limit) of dimension `dim`, all of the others.
 */
MlirValue nabla_build_slice(const nabla_builder *b, MlirValue x, intptr_t dim,
                            int64_t start, int64_t limit);
MlirValue nabla_build_concatenate(const nabla_builder *b, MlirValue x,
                                  MlirValue y, int64_t dim);
MlirValue nabla_build_flip(const nabla_builder *b, MlirValue x, intptr_t count,
                           const int64_t *dims);

/* nabla.full: an array in which all elements are `value`, of a float type. */
MlirValue nabla_build_full(const nabla_builder *b, double value,
                           const nabla_built_shape *shape, MlirType element);
/* The same of an integer type. */
MlirValue nabla_build_full_integer(const nabla_builder *b, int64_t value,
                                   const nabla_built_shape *shape,
                                   MlirType element);
MlirValue nabla_build_iota(const nabla_builder *b, intptr_t dim,
                           const nabla_built_shape *shape, MlirType element);
MlirValue nabla_build_tri(const nabla_builder *b, int64_t diagonal,
                          const nabla_built_shape *shape, MlirType element);

/* nabla.dot_general; the first `batching` dimensions of both operands are batch
 * dimensions. */
MlirValue nabla_build_dot(const nabla_builder *b, MlirValue lhs, MlirValue rhs,
                          intptr_t batching, int64_t lhs_contracting,
                          int64_t rhs_contracting);

/* Dimension numbers of gather and scatter; docs/DIALECT.md defines them.
 * Zero-initialise. */
typedef struct nabla_built_gather {
  intptr_t offset_count, collapsed_count, batching_count, map_count;
  const int64_t *offset_dims, *collapsed_dims;
  const int64_t *input_batching, *indices_batching; /* `batching_count` each */
  const int64_t *index_map;
  int64_t vector_dim;
} nabla_built_gather;

/* nabla.gather; `sizes` are those of the boxes that it reads, one for each
 * dimension of x. */
MlirValue nabla_build_gather(const nabla_builder *b, MlirValue x,
                             MlirValue indices, const nabla_built_gather *dims,
                             const int64_t *sizes);
/* nabla.scatter; operands: x, indices, updates; `kind`: Nabla_ScatterKind. */
#define NABLA_BUILD_SET 0
#define NABLA_BUILD_ADD 1
MlirValue nabla_build_scatter(const nabla_builder *b, int64_t kind,
                              const MlirValue operands[3],
                              const nabla_built_gather *dims);

/* Windows of conv_general (over spatial dimensions) and pool (over all). Each
 * list has `count` elements, or is NULL for the op's default. */
typedef struct nabla_built_windows {
  intptr_t count;
  const int64_t *strides, *dilation, *low, *high;
} nabla_built_windows;

/* Attributes of conv_general. Zero-initialise. */
typedef struct nabla_built_conv {
  nabla_built_windows windows;   /* dilation: the kernel's */
  const int64_t *input_dilation; /* NULL, or of each spatial dimension */
  int64_t groups;                /* 0: 1 */
  /* NULL, or for all dimensions */
  const int64_t *input_dims, *kernel_dims, *output_dims;
} nabla_built_conv;
MlirValue nabla_build_conv(const nabla_builder *b, MlirValue x,
                           MlirValue kernel, const nabla_built_conv *conv);

/* nabla.pool: `kind` is one of Nabla_PoolKind, `sizes` those of a window. */
#define NABLA_BUILD_POOL_SUM 0
#define NABLA_BUILD_POOL_MAX 1
#define NABLA_BUILD_POOL_AVG 3
typedef struct nabla_built_pool {
  int64_t kind;
  const int64_t *sizes;
  nabla_built_windows windows;
  bool count_padding;
} nabla_built_pool;
MlirValue nabla_build_pool(const nabla_builder *b, MlirValue x,
                           const nabla_built_pool *pool);

#endif
