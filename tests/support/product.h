/* Products for tests: a weight of any format with made-up values, its
 * components between pages that cannot be touched, and what a product with it
 * gives in f64. What goes wrong here is no finding: it ends the program. */
#ifndef NABLA_TESTS_PRODUCT_H
#define NABLA_TESTS_PRODUCT_H

#include "nabla/matmul.h"

/* Bytes that end, or begin, at a page without access. */
typedef struct guarded_bytes {
  uint8_t *data;
  size_t size;
  void *map;
  size_t map_size;
} guarded_bytes;

guarded_bytes guarded_bytes_create(size_t size, int at_start);
void guarded_bytes_destroy(guarded_bytes *bytes);

typedef struct product {
  nabla_matmul_weight weight;
  guarded_bytes codes, scales, zero_points, nested_scales, nested_offset;
  float *dense; /* the weight decoded, N x K */
  int at_start;
} product;

/* What varies. `format.encoding` NULL: dense, of `dtype`. */
typedef struct product_shape {
  nabla_format format;
  nabla_dtype dtype;
  uint64_t n, k;
  int at_start; /* arrays begin, and do not end, at the guard */
} product_shape;

product product_create(const product_shape *shape);
void product_destroy(product *self);

/* x, m x K of `type`, made up; free with guarded_bytes_destroy. */
guarded_bytes product_x(const product *self, uint64_t m, nabla_dtype type,
                        uint64_t seed);

/* How many elements of y, m x N of `y_type`, are further from x . w^T + bias
 * in f64 than sums of `chain` additions may be, and the type rounds. */
size_t product_count_wrong(const product *self, const void *x,
                           nabla_dtype x_type, uint64_t m, const void *bias,
                           const void *y, nabla_dtype y_type, uint64_t chain);

#endif
