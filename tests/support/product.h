/* Products for tests: a weight of any format with made-up values, its
 * components between pages that cannot be touched, and what a product with it
 * gives in f64. What goes wrong here is no finding: it ends the program. */
#ifndef NABLA_TESTS_PRODUCT_H
#define NABLA_TESTS_PRODUCT_H

#include "lib/runtime/matmul/ahead.h"
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
  nabla_weight_desc weight;
  guarded_bytes codes, scales, zero_points, nested_scales, nested_offset;
  float *dense;  /* the weight decoded, N x K */
  float *minima; /* of blocks of GGUF files: what it is where codes are 0;
                    NULL: 0 */
  int at_start;
} product;

/* What varies. `ggml`: random blocks of it; `format.encoding` NULL: dense, of
 * `dtype`. */
typedef struct product_shape {
  nabla_format format;
  nabla_dtype dtype;
  const nabla_ggml *ggml;
  uint64_t n, k;
  int at_start; /* arrays begin, and do not end, at the guard */
} product_shape;

product product_create(const product_shape *shape);
void product_destroy(product *self);

/* x, m x K of `type`, made up; free with guarded_bytes_destroy. */
guarded_bytes product_x(const product *self, uint64_t m, nabla_dtype type,
                        uint64_t seed);

/* A run of it, and what it gave. */
typedef struct product_run {
  const void *x;    /* m x K of x_type */
  const void *y;    /* m x N of y_type */
  const void *bias; /* NULL, or N of y_type */
  nabla_dtype x_type, y_type;
  uint64_t m;
  uint64_t chain; /* additions in a row */
  /* F32; or INT8 of a weight whose rows are whole blocks of codes, or of a GGUF
   * file */
  nabla_numerics numerics;
} product_run;

/* How many elements of y are further from x . w^T + bias in f64 than sums of
 * `chain` additions may be, the numerics (docs/COMPILER.md) and the type round.
 */
size_t product_count_wrong(const product *self, const product_run *run);

/* In a test with a product p and a description w: changes a copy of its weight,
 * which the file's expect_refused(weight, status, text) then expects to be
 * refused. */
#define PRODUCT_REFUSED(change, status, text) \
  do {                                        \
    w = p.weight;                             \
    change;                                   \
    expect_refused(&w, NABLA_##status, text); \
  } while (0)

/* The limit under which kernels of `level` are chosen, and none of a level
 * after it for the same weight. */
static inline nabla_isa product_isa_of(nabla_level level) {
  if (level == NABLA_LEVEL_avx2) return NABLA_ISA_AVX2;
  return level == NABLA_LEVEL_amx ? NABLA_ISA_BEST : NABLA_ISA_AVX512;
}

/* The name of the kernel for `m` rows; it lives as long as the plan. */
static inline const char *product_kernel_of(const nabla_matmul_plan *plan,
                                            uint64_t m) {
  nabla_matmul_info info;
  uint32_t i = 0;
  nabla_matmul_plan_describe(plan, &info);
  while (info.kernels[i].m_last < m) i++;
  return info.kernels[i].name;
}

#endif
