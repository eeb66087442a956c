/* Kernels made ahead of time, where this library has them: columns all over
 * the weight against the C kernels; what is chosen, and by what limits; scales
 * that a plan converts, dense weights and zero points against f64; the note of
 * a plan that C computes. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/codec.h"
#include "tests/support/model.h"
#include "tests/support/product.h"
#include "tests/support/tiles.h"

#define COLUMNS 64u /* that are computed, in three places */

static nabla_diag diag;

typedef struct arrays {
  uint8_t *codes;
  void *scales;
  float *x, *y, *wanted;
  void *workspace;
} arrays;

enum { M_MOST = 41 };

/* Scales up to .05, or powers of two about 1/32. */
static void fill_scales(const nabla_format *format, size_t count, void *out) {
  const nabla_scale_info *info = nabla_scale_info_of(format->scale);
  for (size_t i = 0; i < count; i++) {
    const float value = 0.01f * (float)(1 + i % 5);
    if (format->scale == NABLA_SCALE_E8M0)
      ((uint8_t *)out)[i] = (uint8_t)(120 + i % 3);
    else
      nabla_from_f32(info->dtype, &value, 1, (uint8_t *)out + i * info->bytes);
  }
}

static arrays arrays_of(const nabla_format *format,
                        const nabla_packed_size *size, uint64_t n, uint64_t k) {
  arrays a = {.codes = malloc((size_t)size->code_bytes),
              .scales = malloc((size_t)size->scale_bytes),
              .x = malloc(M_MOST * k * sizeof(float)),
              .y = malloc(M_MOST * n * sizeof(float)),
              .wanted = malloc(M_MOST * n * sizeof(float))};
  cr_assert(a.codes && a.scales && a.x && a.y && a.wanted);
  uint64_t seed = n + k;
  for (size_t i = 0; i + 8 <= size->code_bytes; i += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t codes =
        format->encoding->bits == 8 && !format->encoding->has_zero_point
            ? seed & 0xbbbbbbbbbbbbbbbb /* no NaN of FP8 */
            : seed;
    memcpy(a.codes + i, &codes, 8);
  }
  fill_scales(format, (size_t)size->scales, a.scales);
  model_fill(a.x, (size_t)(M_MOST * k), 3);
  return a;
}

static void free_arrays(arrays *a) {
  free(a->codes);
  free(a->scales);
  free(a->x);
  free(a->y);
  free(a->wanted);
  free(a->workspace);
}

static nabla_matmul_plan *plan_of(const nabla_weight_desc *weight,
                                  nabla_matmul_provider provider,
                                  nabla_isa isa) {
  const nabla_matmul_options options = {
      .struct_size = sizeof options, .provider = provider, .isa = isa};
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_matmul_plan_create(weight, &options, &plan, &diag),
               NABLA_OK, "%s", diag.what);
  return plan;
}

/* Sums of |x| times the largest |w| that codes of a scale up to 0.05 give. */
static void sizes_of(const float *x, uint64_t k, float *out) {
  for (uint64_t i = 0; i < M_MOST; i++) {
    out[i] = 0;
    for (uint64_t j = 0; j < k; j++) out[i] += fabsf(x[i * k + j]) * 0.05f;
  }
}

/* The C kernels, whose own test is f64, read the same weight: columns from `n0`
 * on of both agree within the bounds of both. */
static void expect_columns(const nabla_matmul_plan *ahead,
                           const nabla_matmul_plan *c, const arrays *a,
                           const float *sizes, uint64_t m, uint64_t n0) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(ahead, &info);
  const uint64_t grain = nabla_matmul_plan_grain(ahead, m);
  n0 = n0 / grain * grain;
  uint64_t n1 = (n0 + COLUMNS + grain - 1) / grain * grain;
  if (n1 > info.n) n1 = info.n;
  size_t wrong = 0;
  cr_assert_eq(nabla_matmul_plan_run_rows(ahead, a->x, m, a->y, n0, n1,
                                          a->workspace, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(
      nabla_matmul_plan_run_rows(c, a->x, m, a->wanted, n0, n1, NULL, &diag),
      NABLA_OK);
  for (uint64_t i = 0; i < m; i++)
    for (uint64_t j = i * info.n + n0; j < i * info.n + n1; j++)
      wrong += !(fabs((double)a->y[j] - (double)a->wanted[j]) <=
                 (double)(info.k + 32) * 0x1p-24 * (double)sizes[i]);
  cr_expect_eq(wrong, 0, "%zu wrong, kernel '%s', M %u, columns from %u", wrong,
               product_kernel_of(ahead, m), (unsigned)m, (unsigned)n0);
}

static void expect_runs(const nabla_matmul_plan *ahead,
                        const nabla_matmul_plan *c, const arrays *a,
                        const float *sizes, uint64_t n) {
  static const uint64_t some_m[] = {1, 3, 4, 5, 8, 9, 32, M_MOST};
  for (size_t i = 0; i < sizeof some_m / sizeof *some_m; i++) {
    const uint64_t m = some_m[i], grain = nabla_matmul_plan_grain(ahead, m);
    cr_assert_eq(nabla_matmul_plan_prepare(ahead, a->x, m, a->workspace, &diag),
                 0);
    expect_columns(ahead, c, a, sizes, m, 0);
    expect_columns(ahead, c, a, sizes, m, n / 2 / grain * grain);
    expect_columns(ahead, c, a, sizes, m, (n - 1) / grain * grain);
  }
}

static void expect_set(const nabla_ahead_set *set, nabla_isa isa, uint64_t k) {
  float sizes[M_MOST];
  nabla_packed_size size;
  nabla_weight_desc weight = {
      .rank = 2,
      .shape = {set->n ? set->n : 97, k},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find(set->encoding),
                            .granularity = set->granularity,
                            .block = set->block ? set->block : k,
                            .scale = set->scale}},
      .component_count = 2};
  cr_assert_eq(
      nabla_format_size(&weight.layout.format,
                        weight.shape[0] * weight.shape[1], &size, NULL),
      0);
  arrays a =
      arrays_of(&weight.layout.format, &size, weight.shape[0], weight.shape[1]);
  weight.components[0].data = a.codes;
  weight.components[0].bytes = size.code_bytes;
  weight.components[1].data = a.scales;
  weight.components[1].bytes = size.scale_bytes;
  nabla_matmul_plan *plan = plan_of(&weight, NABLA_MATMUL_AHEAD, isa);
  nabla_matmul_plan *c = plan_of(&weight, NABLA_MATMUL_C, isa);
  const uint64_t bytes = nabla_matmul_plan_workspace_max(plan, M_MOST);
  a.workspace = aligned_alloc(64, (size_t)bytes / 64 * 64 + 64);
  sizes_of(a.x, weight.shape[1], sizes);
  const float largest = nabla_format_largest(&weight.layout.format);
  for (int i = 0; i < M_MOST && largest > 1; i++) sizes[i] *= largest;
  expect_runs(plan, c, &a, sizes, weight.shape[0]);
  nabla_matmul_plan_destroy(plan);
  nabla_matmul_plan_destroy(c);
  free_arrays(&a);
}

/* Within what docs/COMPILER.md promises for many rows in f32, or a sixteenth of
 * K in integers. */
static void expect_exact_run(const product *p, const nabla_matmul_plan *plan,
                             nabla_numerics numerics, uint64_t m) {
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, m);
  guarded_bytes x = product_x(p, m, NABLA_DTYPE_F32, m);
  guarded_bytes y =
      guarded_bytes_create((size_t)(m * p->weight.shape[0]) * 4, 0);
  guarded_bytes room = guarded_bytes_create((size_t)(bytes + 63) / 64 * 64, 0);
  memset(room.data, 0xff, room.size); /* NaN */
  cr_assert_eq(nabla_matmul_plan_run(plan, x.data, m, y.data, room.data, &diag),
               NABLA_OK, "%s", diag.what);
  const product_run done = {.x = x.data,
                            .y = y.data,
                            .x_type = NABLA_DTYPE_F32,
                            .y_type = NABLA_DTYPE_F32,
                            .m = m,
                            .chain = numerics ? p->weight.shape[1] / 16 + 8
                                              : p->weight.shape[1] / 256 + 256,
                            .numerics = numerics};
  cr_expect_eq(product_count_wrong(p, &done), 0, "%s block %u, M %u",
               p->weight.layout.format.encoding
                   ? p->weight.layout.format.encoding->name
                   : nabla_dtype_name(p->weight.dtype),
               (unsigned)p->weight.layout.format.block, (unsigned)m);
  guarded_bytes_destroy(&x);
  guarded_bytes_destroy(&y);
  guarded_bytes_destroy(&room);
}

/* Integers against f64: C has none. */
static void expect_int8(const nabla_ahead_set *set, nabla_isa isa) {
  static const uint64_t some_m[] = {1, 3, 7, 24, M_MOST};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_AHEAD,
                                        .isa = isa,
                                        .numerics = NABLA_NUMERICS_INT8};
  for (uint64_t units = 1; units < 12; units += 5) {
    const product_shape shape = {
        .format = {.encoding = nabla_encoding_find(set->encoding),
                   .granularity = set->granularity,
                   .block = set->block,
                   .scale = set->scale},
        .n = 37,
        .k = units * set->any_size,
        .at_start = units == 6};
    product p = product_create(&shape);
    nabla_matmul_plan *plan = NULL;
    nabla_matmul_info info;
    cr_assert_eq(nabla_matmul_plan_create(&p.weight, &options, &plan, &diag),
                 NABLA_OK, "%s", diag.what);
    nabla_matmul_plan_describe(plan, &info);
    cr_expect_eq(info.numerics, NABLA_NUMERICS_INT8);
    for (size_t i = 0; i < sizeof some_m / sizeof *some_m; i++)
      expect_exact_run(&p, plan, NABLA_NUMERICS_INT8, some_m[i]);
    nabla_matmul_plan_destroy(plan);
    product_destroy(&p);
  }
}

/* Of sets for many rows the largest K, where sums are longest. */
static void expect_largest(const nabla_ahead_set *set) {
  const uint64_t some_m[] = {set->first, 32, 33};
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find(set->encoding),
                 .granularity = set->granularity,
                 .block = set->block ? set->block : set->k,
                 .scale = set->scale},
      .n = 37,
      .k = set->k};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_AHEAD};
  product p = product_create(&shape);
  nabla_matmul_plan *plan = plan_of(&p.weight, NABLA_MATMUL_AHEAD, options.isa);
  for (size_t i = 0; i < sizeof some_m / sizeof *some_m; i++) {
    cr_expect(
        strstr(product_kernel_of(plan, some_m[i]), "gemm_f32_bf16x3_amx, amx"));
    expect_exact_run(&p, plan, NABLA_NUMERICS_F32, some_m[i]);
  }
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

/* A weight between guard pages, for few rows of x and for many. */
static void expect_product(const product_shape *shape, nabla_isa isa) {
  static const uint64_t some_m[] = {1, 2, 3, 4, 7, 16, M_MOST};
  product p = product_create(shape);
  nabla_matmul_plan *plan = plan_of(&p.weight, NABLA_MATMUL_AHEAD, isa);
  for (size_t i = 0; i < sizeof some_m / sizeof *some_m; i++)
    expect_exact_run(&p, plan, NABLA_NUMERICS_F32, some_m[i]);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

Test(matmul_ahead, dense_weights_and_zero_points) {
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    const nabla_isa isa = product_isa_of(set->level);
    if (set->ggml || (set->encoding && !set->zero_point) ||
        !nabla_level_available(set->level, isa))
      continue;
    for (uint64_t units = 1; units < 8; units += 3) {
      const uint64_t k = units * set->any_size;
      product_shape shape = {
          .dtype = set->dense, .n = 37, .k = k, .at_start = units == 4};
      if (set->encoding)
        shape.format =
            (nabla_format){.encoding = nabla_encoding_find(set->encoding),
                           .granularity = set->granularity,
                           .block = set->block ? set->block : k,
                           .scale = set->scale,
                           .zero_point = 1};
      expect_product(&shape, isa);
    }
  }
}

/* Formats without a row, whose scales a plan converts: 16-bit scales, long
 * blocks, rows and tensors, zero points with them; each is said to have
 * kernels, and gives what f64 gives. */
Test(matmul_ahead, scales_are_converted) {
  static const struct {
    const char *encoding;
    nabla_granularity granularity;
    uint64_t block;
    nabla_scale_type scale;
    int zero;
  } formats[] = {{"nf4", NABLA_PER_BLOCK, 256, NABLA_SCALE_F32, 0},
                 {"nf4", NABLA_PER_BLOCK, 128, NABLA_SCALE_BF16, 0},
                 {"fp4", NABLA_PER_BLOCK, 64, NABLA_SCALE_F16, 0},
                 {"int4", NABLA_PER_BLOCK, 128, NABLA_SCALE_F16, 1},
                 {"int8", NABLA_PER_BLOCK, 64, NABLA_SCALE_BF16, 1},
                 {"int8", NABLA_PER_ROW, 0, NABLA_SCALE_F16, 0},
                 {"fp8", NABLA_PER_TENSOR, 0, NABLA_SCALE_F32, 0},
                 {"fp8", NABLA_PER_ROW, 0, NABLA_SCALE_BF16, 0},
                 {"nf4", NABLA_PER_BLOCK, 32, NABLA_SCALE_DYNAMIC8, 0},
                 {"nf4", NABLA_PER_BLOCK, 16, NABLA_SCALE_DYNAMIC8, 0}};
  enum { N = 35, K = 384 };
  if (!nabla_level_available(NABLA_LEVEL_avx2, NABLA_ISA_BEST) ||
      !nabla_ahead.count)
    cr_skip_test("nothing was made ahead of time for this CPU");
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    uint64_t block = formats[i].block;
    if (formats[i].granularity == NABLA_PER_ROW) block = K;
    if (formats[i].granularity == NABLA_PER_TENSOR) block = N * K;
    const product_shape shape = {
        .format = {.encoding = nabla_encoding_find(formats[i].encoding),
                   .granularity = formats[i].granularity,
                   .block = block,
                   .scale = formats[i].scale,
                   .zero_point = formats[i].zero},
        .n = N,
        .k = K};
    cr_expect(nabla_format_has_kernel(&shape.format, K), "format %zu", i);
    expect_product(&shape, NABLA_ISA_BEST);
    expect_product(&shape, NABLA_ISA_AVX2);
  }
}

/* The formats that are said to have kernels are those that plans have. */
Test(matmul_ahead, formats_that_have_kernels) {
  static const uint64_t some_k[] = {64, 100, 128, 512, 2880, 4097};
  static const uint64_t blocks[] = {16, 32, 64, 128, 4096};
  size_t count, with = 0, without = 0;
  const nabla_encoding *all = nabla_encodings(&count);
  if (!nabla_ahead.count ||
      !nabla_level_available(NABLA_LEVEL_avx2, NABLA_ISA_AVX2))
    cr_skip_test("nothing was made ahead of time for this CPU");
  for (size_t i = 0; i < count * 6 * 5; i++) {
    const nabla_encoding *encoding = &all[i % count];
    const int is_mx = encoding->is_mx;
    const product_shape shape = {
        .format = {.encoding = encoding,
                   .block = is_mx ? NABLA_BLOCK_MX : blocks[i / count / 6],
                   .scale = is_mx ? NABLA_SCALE_E8M0 : NABLA_SCALE_F32},
        .n = 2,
        .k = some_k[i / count % 6]};
    const nabla_matmul_options options = {.struct_size = sizeof options,
                                          .isa = NABLA_ISA_AVX2};
    product p = product_create(&shape);
    nabla_matmul_plan *plan = NULL;
    nabla_matmul_info info;
    const int expected = nabla_format_has_kernel(&shape.format, shape.k);
    cr_assert_eq(nabla_matmul_plan_create(&p.weight, &options, &plan, &diag),
                 NABLA_OK);
    nabla_matmul_plan_describe(plan, &info);
    cr_expect_eq(info.provider == NABLA_MATMUL_AHEAD, expected, "%s/%u, K %u",
                 encoding->name, (unsigned)shape.format.block,
                 (unsigned)shape.k);
    cr_expect_eq(info.note != NULL, !expected);
    cr_expect_eq(diag.code, NABLA_OK);
    cr_expect_eq(strstr(diag.what, "computed in C") != NULL, !expected, "%s",
                 diag.what);
    with += (size_t)expected;
    without += (size_t)!expected;
    nabla_matmul_plan_destroy(plan);
    product_destroy(&p);
  }
  cr_expect_gt(with, count * 5 * 2);
  cr_expect_gt(without, count * 5);
}

/* What nabla-quant writes by default, and its documents show. */
Test(matmul_ahead, formats_of_the_documents_have_kernels) {
  static const struct {
    const char *encoding;
    uint64_t block;
    nabla_scale_type scale;
  } formats[] = {
      {"int8", 128, NABLA_SCALE_F32},    {"nf4", 64, NABLA_SCALE_DYNAMIC8},
      {"nf4", 32, NABLA_SCALE_DYNAMIC8}, {"nf4", 16, NABLA_SCALE_DYNAMIC8},
      {"int8", 32, NABLA_SCALE_F16},     {"int4", 32, NABLA_SCALE_F16},
      {"nf4", 128, NABLA_SCALE_F32}};
  size_t count;
  const nabla_encoding *all = nabla_encodings(&count);
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const nabla_format format = {
        .encoding = nabla_encoding_find(formats[i].encoding),
        .block = formats[i].block,
        .scale = formats[i].scale};
    cr_expect(nabla_format_has_kernel(&format, 4096), "format %zu", i);
  }
  for (size_t i = 0; i < count; i++) {
    const int is_mx = all[i].is_mx;
    const nabla_format format = {
        .encoding = &all[i],
        .block = is_mx ? NABLA_BLOCK_MX : 64,
        .scale = is_mx ? NABLA_SCALE_E8M0 : NABLA_SCALE_F32};
    cr_expect(nabla_format_has_kernel(&format, 4096), "%s", all[i].name);
  }
}

/* The nearest format has a kernel, and the same encoding where it can. */
Test(matmul_ahead, nearest_format) {
  nabla_format format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
               nearest = format;
  cr_expect(nabla_format_nearest_kernel(&format, 4096, &nearest));
  cr_expect_eq(nearest.encoding, format.encoding);
  cr_expect_eq(nearest.block, 64);
  cr_expect_not(nabla_format_nearest_kernel(&format, 4097, &nearest));
  cr_expect_not(nabla_format_nearest_kernel(NULL, 4096, &nearest));
  cr_expect_not(nabla_format_has_kernel(NULL, 4096));
  format.encoding = nabla_encoding_find("binary");
  format.block = 128;
  cr_expect(nabla_format_nearest_kernel(&format, 4096, &nearest));
  cr_expect_eq(nearest.encoding, format.encoding);
}

Test(matmul_ahead, kernels_of_the_largest_k) {
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    if (!set->ggml && set->level == NABLA_LEVEL_amx &&
        nabla_level_available(set->level, NABLA_ISA_BEST))
      expect_largest(set);
  }
}

Test(matmul_ahead, kernels_in_integers) {
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    const nabla_isa isa = product_isa_of(set->level);
    if (!set->ggml && set->numerics == NABLA_NUMERICS_INT8 &&
        nabla_level_available(set->level, isa))
      expect_int8(set, isa);
  }
}

Test(matmul_ahead, kernels_give_what_c_gives) {
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    if (set->ggml) continue;                         /* matmul_blocks_test.c */
    if (!set->encoding || set->zero_point) continue; /* against f64 */
    if (set->numerics == NABLA_NUMERICS_INT8) continue; /* above */
    const nabla_isa isa = product_isa_of(set->level);
    if (!nabla_level_available(set->level, isa)) continue;
    expect_set(set, isa, set->any_size ? 6 * set->any_size : set->k);
    if (set->any_size) expect_set(set, isa, set->any_size);
  }
}

/* The last kernel for `m` rows of a weight of any size with K = k; "" if there
 * is none. */
static const char *kernel_for(const nabla_ahead_set *set, uint64_t k,
                              nabla_matmul_options options, uint64_t m) {
  static char name[64];
  nabla_packed_size size;
  nabla_weight_desc weight = {
      .rank = 2,
      .shape = {1, k},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find(set->encoding),
                            .granularity = set->granularity,
                            .block = set->block ? set->block : k,
                            .scale = set->scale}},
      .component_count = 2};
  cr_assert_eq(nabla_format_size(&weight.layout.format, k, &size, NULL), 0);
  arrays a = arrays_of(&weight.layout.format, &size, 1, k);
  weight.components[0].data = a.codes;
  weight.components[0].bytes = size.code_bytes;
  weight.components[1].data = a.scales;
  weight.components[1].bytes = size.scale_bytes;
  options.provider = NABLA_MATMUL_AHEAD;
  nabla_matmul_plan *plan = NULL;
  name[0] = 0;
  if (!nabla_matmul_plan_create(&weight, &options, &plan, &diag)) {
    (void)snprintf(name, sizeof name, "%s", product_kernel_of(plan, m));
    nabla_matmul_plan_destroy(plan);
  }
  free_arrays(&a);
  return name;
}

static void expect_other(const char *name) {
  cr_expect(strlen(name) > 0);
  cr_expect_not(strstr(name, ", amx"), "%s", name);
}

/* Levels for many rows: not for few, nor for a larger K than errors are
 * promised for, nor beyond a limit. */
Test(matmul_ahead, levels_for_many_rows_are_used_for_these_alone) {
  int count = 0;
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    const nabla_matmul_options best = {.struct_size = sizeof best},
                               avx512 = {.struct_size = sizeof avx512,
                                         .isa = NABLA_ISA_AVX512};
    if (set->ggml || set->level != NABLA_LEVEL_amx ||
        !nabla_level_available(set->level, NABLA_ISA_BEST))
      continue;
    const uint64_t k = set->any_size;
    cr_expect_str_eq(kernel_for(set, k, best, 32), "gemm_f32_bf16x3_amx, amx");
    cr_expect_str_eq(kernel_for(set, k, best, set->first),
                     "gemm_f32_bf16x3_amx, amx");
    cr_expect_str_eq(kernel_for(set, set->k, best, 32),
                     "gemm_f32_bf16x3_amx, amx");
    expect_other(kernel_for(set, k, best, set->first - 1));
    expect_other(kernel_for(set, set->k + k, best, 32));
    expect_other(kernel_for(set, k, avx512, 32));
    for (uint64_t m = 1; m < set->first; m++)
      expect_other(kernel_for(
          set, k,
          (nabla_matmul_options){.struct_size = sizeof(nabla_matmul_options),
                                 .m_max = m},
          m));
    const nabla_matmul_options few = {.struct_size = sizeof few,
                                      .m_max = set->first};
    cr_expect_str_eq(kernel_for(set, k, few, few.m_max),
                     "gemm_f32_bf16x3_amx, amx");
    count++;
  }
  if (!count) cr_skip_test("this CPU, or the system, has no AMX");
}

Test(matmul_ahead, what_is_not_there_is_refused_by_a_sentence) {
  float values[6] = {0};
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {2, 3},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{.data = values, .bytes = sizeof values}}};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_AHEAD};
  nabla_matmul_plan *plan = NULL;
  cr_expect_eq(nabla_matmul_plan_create(&weight, &options, &plan, &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "ahead of time"), "%s", diag.what);
  cr_expect(strlen(diag.next) > 0);
}

/* Plans with kernels made ahead of time that need no tiles: of few rows, of a
 * limit without, of a K that those with tiles do not serve. */
Test(matmul_ahead, plans_that_need_no_tiles_do_not_ask_for_them) {
  enum { LARGE = 32768 + 128 };
  static const uint8_t codes[LARGE / 2];
  static const float scales[LARGE / 64];
  static const struct {
    uint64_t k;
    nabla_matmul_options options;
  } plans[] = {{4096, {.m_max = 4}},
               {4096, {.isa = NABLA_ISA_AVX512}},
               {LARGE, {.m_max = 0}}};
  tiles_needed();
  if (!nabla_ahead.count) cr_skip_test("nothing was made ahead of time");
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    const nabla_weight_desc weight = {
        .rank = 2,
        .shape = {1, plans[i].k},
        .layout = {.kind = NABLA_STORAGE_PLANES,
                   .format = {.encoding = nabla_encoding_find("nf4"),
                              .granularity = NABLA_PER_BLOCK,
                              .block = 64}},
        .component_count = 2,
        .components = {
            {.data = codes, .bytes = plans[i].k / 2},
            {.data = scales, .bytes = plans[i].k / 64 * sizeof *scales}}};
    nabla_matmul_options options = plans[i].options;
    options.struct_size = sizeof options;
    nabla_matmul_plan *plan = NULL;
    options.provider = NABLA_MATMUL_AHEAD;
    cr_assert_eq(nabla_matmul_plan_create(&weight, &options, &plan, &diag),
                 NABLA_OK, "%s", diag.what);
    nabla_matmul_plan_destroy(plan);
    cr_expect_not(tiles_permitted(), "plan %zu", i);
  }
}

/* Code for what the CPU has not is never chosen. */
Test(matmul_ahead, limits_are_kept) {
  for (int level = 0; level < NABLA_LEVEL_COUNT; level++) {
    cr_expect(!nabla_level_available((nabla_level)level, NABLA_ISA_SCALAR));
    if (level == NABLA_LEVEL_amx)
      cr_expect(!nabla_level_available((nabla_level)level, NABLA_ISA_AVX512));
    if (level != NABLA_LEVEL_avx2)
      cr_expect(!nabla_level_available((nabla_level)level, NABLA_ISA_AVX2));
  }
}
