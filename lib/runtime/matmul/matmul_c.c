/* The provider that has everything: rows decoded by the codecs, a chunk at a
 * time, and dot products in C. */
#include "lib/runtime/matmul/matmul_c.h"

#include <stdalign.h>
#include <string.h>

#include "lib/runtime/matmul/provider.h"

#define ROWS  NABLA_MATMUL_TILE_ROWS
#define CHUNK NABLA_TILE_CHUNK
#define TILE  NABLA_TILE_M

static const void *address(const uint64_t *args, nabla_kernel_arg arg) {
  return (const void *)(uintptr_t)args[arg];
}

/* The sum as a tree, always the same. */
static float sum_of(const float *lanes) {
  float sums[NABLA_TILE_LANES];
  memcpy(sums, lanes, sizeof sums);
  for (size_t width = NABLA_TILE_LANES / 2; width; width /= 2)
    for (size_t i = 0; i < width; i++) sums[i] += sums[i + width];
  return sums[0];
}

static size_t width_of(nabla_dtype dtype) {
  return nabla_dtype_bits(dtype) / 8;
}

/* Rows [n, n + rows) of w, elements [k, k + count), with zeros behind them. */
static void fill(const nabla_matmul_request *request, uint64_t n, size_t rows,
                 uint64_t k, size_t count, float *out) {
  const size_t padded =
      (count + NABLA_TILE_LANES - 1) / NABLA_TILE_LANES * NABLA_TILE_LANES;
  for (size_t r = 0; r < ROWS; r++, out += CHUNK) {
    const size_t known = r < rows ? count : 0;
    if (known)
      nabla_weight_decode(&request->weight, (n + r) * request->weight.k + k,
                          count, out);
    memset(out + known, 0, (padded - known) * sizeof *out);
  }
}

/* Elements of y from their sums. */
static void finish(const nabla_matmul_request *request, const float *sums,
                   size_t m, uint64_t n, size_t rows, uint8_t *y) {
  const size_t width = width_of(request->y_type);
  for (size_t i = 0; i < m; i++, sums += ROWS * NABLA_TILE_LANES) {
    float values[ROWS] = {0}, bias[ROWS] = {0};
    for (size_t r = 0; r < rows; r++)
      values[r] = sum_of(sums + r * NABLA_TILE_LANES);
    if (request->bias) {
      nabla_to_f32(request->y_type, (const uint8_t *)request->bias + n * width,
                   rows, bias);
      for (size_t r = 0; r < rows; r++) values[r] += bias[r];
    }
    (void)nabla_from_f32(request->y_type, values, rows,
                         y + (i * request->weight.n + n) * width);
  }
}

typedef struct tile {
  const nabla_matmul_request *request;
  nabla_tile_function *function;
  const float *x; /* the first row */
  uint8_t *y;
  size_t m;
} tile;

static void run_tile(const tile *t, uint64_t n, size_t rows) {
  alignas(64) float w[ROWS * CHUNK], sums[TILE * ROWS * NABLA_TILE_LANES];
  const uint64_t k = t->request->weight.k;
  memset(sums, 0, t->m * ROWS * NABLA_TILE_LANES * sizeof *sums);
  for (uint64_t at = 0; at < k; at += CHUNK) {
    const size_t count = k - at < CHUNK ? (size_t)(k - at) : CHUNK;
    fill(t->request, n, rows, at, count, w);
    t->function(t->x + at, (size_t)k, t->m, w, count, sums);
  }
  finish(t->request, sums, t->m, n, rows, t->y);
}

static void run(const uint64_t *args, uint64_t begin, uint64_t end,
                nabla_tile_function *function) {
  const nabla_matmul_request *request = address(args, NABLA_ARG_CONTEXT);
  const int converted = request->x_type != NABLA_DTYPE_F32;
  const float *x = address(args, converted ? NABLA_ARG_WORKSPACE : NABLA_ARG_X);
  uint8_t *y = (uint8_t *)(uintptr_t)args[NABLA_ARG_Y];
  const uint64_t m = args[NABLA_ARG_M];
  const size_t row = (size_t)request->weight.n * width_of(request->y_type);
  for (uint64_t n = begin; n < end; n += ROWS) {
    const size_t rows = end - n < ROWS ? (size_t)(end - n) : ROWS;
    for (uint64_t i = 0; i < m; i += TILE) {
      const tile one = {request, function, x + i * request->weight.k,
                        y + i * row, m - i < TILE ? (size_t)(m - i) : TILE};
      run_tile(&one, n, rows);
    }
  }
}

static void run_scalar(const uint64_t *args, uint64_t begin, uint64_t end) {
  run(args, begin, end, nabla_tile_scalar);
}

#if defined(__x86_64__)
static void run_avx2(const uint64_t *args, uint64_t begin, uint64_t end) {
  run(args, begin, end, nabla_tile_avx2);
}

static void run_avx512(const uint64_t *args, uint64_t begin, uint64_t end) {
  run(args, begin, end, nabla_tile_avx512);
}
#endif

/* Rows [begin, end) of x to f32. */
static void prepare(const uint64_t *args, uint64_t begin, uint64_t end) {
  const nabla_matmul_request *request = address(args, NABLA_ARG_CONTEXT);
  const uint64_t k = request->weight.k;
  const uint8_t *x = address(args, NABLA_ARG_X);
  float *out = (float *)(uintptr_t)args[NABLA_ARG_WORKSPACE];
  nabla_to_f32(request->x_type, x + begin * k * width_of(request->x_type),
               (size_t)((end - begin) * k), out + begin * k);
}

static nabla_provided_kernel kernel_for(nabla_isa isa) {
#if defined(__x86_64__)
  if (isa == NABLA_ISA_AVX512)
    return (nabla_provided_kernel){.code.run = run_avx512, .name = "c, avx512"};
  if (isa == NABLA_ISA_AVX2)
    return (nabla_provided_kernel){.code.run = run_avx2, .name = "c, avx2"};
#endif
  (void)isa;
  return (nabla_provided_kernel){.code.run = run_scalar, .name = "c, scalar"};
}

nabla_status nabla_provide_c(void *self, const nabla_matmul_request *request,
                             nabla_provided *out, nabla_diag *diag) {
  (void)self;
  (void)diag;
  nabla_provided_kernel kernel = kernel_for(nabla_isa_resolve(request->isa));
  kernel.m_last = UINT64_MAX;
  kernel.code.grain = 1;
  if (request->x_type != NABLA_DTYPE_F32) {
    kernel.code.prepare = prepare;
    kernel.code.workspace = (nabla_kernel_tiles){1, 1, sizeof(float)};
  }
  *out = (nabla_provided){
      .count = 1, .kernels = {kernel}, .numerics = NABLA_NUMERICS_F32};
  return NABLA_OK;
}
