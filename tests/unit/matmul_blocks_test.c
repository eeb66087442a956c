/* Plans of weights that are blocks of GGUF files: every format against f64,
 * by the C kernels and by those made ahead of time, whatever way they are cut,
 * with nothing read or written beyond the arrays; what is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/product.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static nabla_diag diag;

static void set_up(void) { diag = (nabla_diag)NABLA_DIAG_INIT; }

TestSuite(matmul_blocks, .init = set_up);

/* ---- a product in all ways
 * --------------------------------------------------- */

static nabla_dtype or_f32(nabla_dtype type) {
  return type ? type : NABLA_DTYPE_F32;
}

static nabla_matmul_plan *plan_of(const product *p,
                                  const nabla_matmul_options *options) {
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_matmul_plan_create(&p->weight, options, &plan, &diag),
               NABLA_OK, "%s: %s", p->weight.layout.ggml->name, diag.what);
  return plan;
}

static guarded_bytes workspace_of(const nabla_matmul_plan *plan, uint64_t m) {
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, m);
  cr_assert(bytes <= nabla_matmul_plan_workspace_max(plan, m));
  guarded_bytes room = guarded_bytes_create((size_t)(bytes + 63) / 64 * 64, 0);
  memset(room.data, 0xff, room.size); /* NaN */
  return room;
}

/* Columns by the grain, the last first, give the bytes of one run. */
static void expect_cuts(const nabla_matmul_plan *plan, const product *p,
                        const product_run *run, size_t y_bytes) {
  const uint64_t n = p->weight.shape[0],
                 grain = nabla_matmul_plan_grain(plan, run->m);
  guarded_bytes y = guarded_bytes_create(y_bytes, p->at_start);
  guarded_bytes room = workspace_of(plan, run->m);
  memset(y.data, 0xa5, y.size);
  cr_assert_eq(
      nabla_matmul_plan_prepare(plan, run->x, run->m, room.data, &diag),
      NABLA_OK);
  for (uint64_t at = (n - 1) / grain * grain;; at -= grain) {
    cr_assert_eq(nabla_matmul_plan_run_rows(plan, run->x, run->m, y.data, at,
                                            at + grain < n ? at + grain : n,
                                            room.data, &diag),
                 NABLA_OK, "%s", diag.what);
    if (!at) break;
  }
  cr_expect(!memcmp(y.data, run->y, y.size), "%s, M %u: a cut",
            p->weight.layout.ggml->name, (unsigned)run->m);
  guarded_bytes_destroy(&y);
  guarded_bytes_destroy(&room);
}

/* Of C and of few rows; of many where K is large. */
static uint64_t chain_of(uint64_t k) {
  return k / 16 + 8 < 256 + k / 256 ? k / 16 + 8 : 256 + k / 256;
}

static void expect_run(const nabla_matmul_plan *plan, const product *p,
                       const nabla_matmul_options *o, uint64_t m) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  product_run run = {.bias = o->bias,
                     .x_type = or_f32(o->x_type),
                     .y_type = or_f32(o->y_type),
                     .m = m,
                     .chain = chain_of(p->weight.shape[1]),
                     .numerics = info.numerics};
  const size_t bytes =
      (size_t)(m * p->weight.shape[0]) * (nabla_dtype_bits(run.y_type) / 8);
  guarded_bytes x = product_x(p, m, run.x_type, m);
  guarded_bytes y = guarded_bytes_create(bytes, p->at_start);
  guarded_bytes room = workspace_of(plan, m);
  memset(y.data, 0x5a, y.size);
  cr_assert_eq(nabla_matmul_plan_run(plan, x.data, m, y.data, room.data, &diag),
               NABLA_OK, "%s", diag.what);
  run.x = x.data;
  run.y = y.data;
  const size_t wrong = product_count_wrong(p, &run);
  cr_expect_eq(wrong, 0, "%s %ux%u, M %u, '%s': %zu wrong",
               p->weight.layout.ggml->name, (unsigned)p->weight.shape[0],
               (unsigned)p->weight.shape[1], (unsigned)m,
               product_kernel_of(plan, m), wrong);
  if (m) expect_cuts(plan, p, &run, bytes);
  guarded_bytes_destroy(&x);
  guarded_bytes_destroy(&y);
  guarded_bytes_destroy(&room);
}

/* N, and blocks in a row, or what K is a multiple of. */
static const uint64_t shapes[][2] = {{1, 1}, {5, 3}, {37, 2}, {70, 9}};
static const uint64_t some_m[] = {0, 1, 2, 4, 7, 17, 35};

static void expect_format(const nabla_ggml *ggml, uint64_t unit,
                          const nabla_matmul_options *options) {
  for (size_t i = 0; i < COUNT(shapes); i++) {
    const product_shape shape = {.ggml = ggml,
                                 .n = shapes[i][0],
                                 .k = shapes[i][1] * unit,
                                 .at_start = (int)(i & 1)};
    product p = product_create(&shape);
    nabla_matmul_plan *plan = plan_of(&p, options);
    nabla_matmul_info info;
    nabla_matmul_plan_describe(plan, &info);
    if (options->provider == NABLA_MATMUL_AHEAD)
      cr_expect_eq(info.numerics, options->numerics, "%s", ggml->name);
    for (size_t j = 0; j < COUNT(some_m); j++)
      expect_run(plan, &p, options, some_m[j]);
    nabla_matmul_plan_destroy(plan);
    product_destroy(&p);
  }
}

Test(matmul_blocks, every_format_by_c) {
  size_t count;
  const nabla_ggml *all = nabla_ggml_formats(&count);
  for (int isa = NABLA_ISA_BEST; isa <= NABLA_ISA_AVX512; isa++)
    for (size_t i = 0; i < count; i++) {
      const nabla_matmul_options options = {.struct_size = sizeof options,
                                            .provider = NABLA_MATMUL_C,
                                            .isa = (nabla_isa)isa};
      if (nabla_isa_available((nabla_isa)isa))
        expect_format(&all[i], all[i].elements, &options);
    }
}

/* Many rows at the largest K, where sums are longest. */
static void expect_largest(const nabla_ahead_set *set,
                           const nabla_matmul_options *options) {
  const product_shape shape = {
      .ggml = nabla_ggml_find(set->ggml), .n = 33, .k = set->k};
  product p = product_create(&shape);
  nabla_matmul_plan *plan = plan_of(&p, options);
  cr_expect_str_eq(product_kernel_of(plan, set->first),
                   "gemm_f32_bf16x3_amx, amx");
  expect_run(plan, &p, options, set->first);
  expect_run(plan, &p, options, 33);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

Test(matmul_blocks, every_kernel_made_ahead_of_time) {
  for (size_t i = 0; i < nabla_ahead.count; i++) {
    const nabla_ahead_set *set = &nabla_ahead.sets[i];
    const nabla_isa isa = product_isa_of(set->level);
    const nabla_matmul_options options = {.struct_size = sizeof options,
                                          .provider = NABLA_MATMUL_AHEAD,
                                          .isa = isa,
                                          .numerics = set->numerics};
    if (!set->ggml || !nabla_level_available(set->level, isa)) continue;
    expect_format(nabla_ggml_find(set->ggml), set->any_size, &options);
    if (set->k) expect_largest(set, &options);
  }
}

Test(matmul_blocks, floats_of_all_types_in_x_y_and_bias) {
  static const nabla_dtype types[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                      NABLA_DTYPE_BF16};
  for (size_t i = 0; i < 9; i++) {
    const product_shape shape = {
        .ggml = nabla_ggml_find("q5_k"), .n = 13, .k = 512};
    product p = product_create(&shape);
    guarded_bytes bias = product_x(&p, 1, types[i / 3], 5); /* K > N of them */
    const nabla_matmul_options options = {.struct_size = sizeof options,
                                          .x_type = types[i % 3],
                                          .y_type = types[i / 3],
                                          .bias = bias.data,
                                          .bias_bytes = bias.size};
    nabla_matmul_plan *plan = plan_of(&p, &options);
    expect_run(plan, &p, &options, 5);
    nabla_matmul_plan_destroy(plan);
    guarded_bytes_destroy(&bias);
    product_destroy(&p);
  }
}

Test(matmul_blocks, a_pool_gives_the_same_bytes) {
  enum { M = 40, N = 203, K = 768 };
  static const char *const names[] = {"q4_0", "q4_1", "q6_k"};
  static float y[2][M * N];
  nabla_pool *pool = NULL;
  cr_assert_eq(nabla_pool_create(3, NULL, &pool, NULL), NABLA_OK);
  for (size_t i = 0; i < COUNT(names); i++) {
    const product_shape shape = {
        .ggml = nabla_ggml_find(names[i]), .n = N, .k = K};
    product p = product_create(&shape);
    guarded_bytes x = product_x(&p, M, NABLA_DTYPE_F32, 3);
    for (int shared = 0; shared < 2; shared++) {
      const nabla_matmul_options options = {
          .struct_size = sizeof options,
          .environment.pool = shared ? pool : NULL};
      nabla_matmul_plan *plan = plan_of(&p, &options);
      guarded_bytes room = workspace_of(plan, M);
      cr_expect_eq(
          nabla_matmul_plan_run(plan, x.data, M, y[shared], room.data, &diag),
          NABLA_OK);
      guarded_bytes_destroy(&room);
      nabla_matmul_plan_destroy(plan);
    }
    cr_expect(!memcmp(y[0], y[1], sizeof *y), "%s", names[i]);
    guarded_bytes_destroy(&x);
    product_destroy(&p);
  }
  nabla_pool_destroy(pool);
}

/* ---- what is told, and refused
 * ----------------------------------------------- */

Test(matmul_blocks, what_c_has_not_is_exact_and_in_place) {
  const product_shape shape = {
      .ggml = nabla_ggml_find("q4_k"), .n = 9, .k = 256};
  product p = product_create(&shape);
  for (int numerics = 0; numerics < NABLA_NUMERICS_COUNT; numerics++) {
    const nabla_matmul_options options = {
        .struct_size = sizeof options,
        .numerics = (nabla_numerics)numerics,
        .layout = NABLA_WEIGHT_LAYOUT_PREPACKED,
        .provider = NABLA_MATMUL_C};
    nabla_matmul_plan *plan = plan_of(&p, &options);
    nabla_matmul_info info;
    nabla_matmul_plan_describe(plan, &info);
    cr_expect_eq(info.numerics, NABLA_NUMERICS_F32);
    cr_expect_eq(info.layout, NABLA_WEIGHT_LAYOUT_IN_PLACE);
    cr_expect(info.n == 9 && info.k == 256 && info.packed_bytes == 0);
    nabla_matmul_plan_destroy(plan);
  }
  product_destroy(&p);
}

/* A weight of a format that no kernel was made for is left to C. */
Test(matmul_blocks, formats_without_kernels_made_ahead_of_time) {
  const product_shape shape = {
      .ggml = nabla_ggml_find("mxfp4"), .n = 9, .k = 128};
  const nabla_matmul_options best = {.struct_size = sizeof best},
                             ahead = {.struct_size = sizeof ahead,
                                      .provider = NABLA_MATMUL_AHEAD};
  product p = product_create(&shape);
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_info info;
  cr_expect_eq(nabla_matmul_plan_create(&p.weight, &ahead, &plan, &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "ahead of time"), "%s", diag.what);
  plan = plan_of(&p, &best);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_C);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

/* Of other kinds of layout nothing is read. */
Test(matmul_blocks, members_of_other_layouts_are_not_read) {
  const product_shape shape = {
      .ggml = nabla_ggml_find("q8_0"), .n = 9, .k = 128};
  const nabla_matmul_options options = {.struct_size = sizeof options};
  product p = product_create(&shape);
  p.weight.dtype = NABLA_DTYPE_I32;
  p.weight.layout.format.segment = 5;
  p.weight.layout.format.zero_point = 1;
  p.weight.layout.format.scale = NABLA_SCALE_DYNAMIC8;
  nabla_matmul_plan *plan = plan_of(&p, &options);
  expect_run(plan, &p, &options, 3);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

static void expect_refused(const nabla_weight_desc *weight, nabla_status wanted,
                           const char *text) {
  nabla_matmul_plan *plan = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_matmul_plan_create(weight, NULL, &plan, &diag), wanted,
               "%s: %s", text, diag.what);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
  cr_expect_null(plan);
}

Test(matmul_blocks, weights_that_contradict_themselves) {
  const product_shape shape = {
      .ggml = nabla_ggml_find("q6_k"), .n = 3, .k = 512};
  product p = product_create(&shape);
  nabla_weight_desc w = p.weight;
  PRODUCT_REFUSED(w.components[0].bytes--, INVALID_ARGUMENT,
                  "blocks have 1259 bytes, and the shape needs 1260");
  PRODUCT_REFUSED(w.components[0].data = NULL, INVALID_ARGUMENT,
                  "blocks have 0 bytes");
  PRODUCT_REFUSED(w.shape[0] = 4, INVALID_ARGUMENT, "the shape needs 1680");
  PRODUCT_REFUSED(w.shape[1] = 384, INVALID_ARGUMENT,
                  "rows of 384 elements are no whole number of blocks of q6_k");
  cr_expect(strstr(diag.next, "256 elements"), "%s", diag.next);
  /* as many blocks, but not in rows of their own */
  PRODUCT_REFUSED((w.shape[0] = 4, w.shape[1] = 384), INVALID_ARGUMENT,
                  "no whole number of blocks");
  PRODUCT_REFUSED(w.layout.format.encoding = nabla_encoding_find("nf4"),
                  INVALID_ARGUMENT, "codes of nf4 or blocks of q6_k, not both");
  PRODUCT_REFUSED(w.shape[0] = UINT64_MAX, TOO_LARGE, "larger than any memory");
  PRODUCT_REFUSED(
      (w.shape[0] = (uint64_t)1 << 31, w.shape[1] = (uint64_t)1 << 31),
      TOO_LARGE, "larger than any memory");
  product_destroy(&p);
}

Test(matmul_blocks, weights_without_elements) {
  nabla_weight_desc w = {
      .rank = 2,
      .shape = {5, 0},
      .layout = {.kind = NABLA_STORAGE_BLOCKS, .ggml = nabla_ggml_find("q4_0")},
      .component_count = 1};
  nabla_matmul_plan *plan = NULL;
  float y[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  cr_assert_eq(nabla_matmul_plan_create(&w, NULL, &plan, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_matmul_plan_run(plan, NULL, 2, y, NULL, &diag), NABLA_OK);
  for (int i = 0; i < 10; i++) cr_expect_eq(y[i], 0); /* sums of nothing */
  nabla_matmul_plan_destroy(plan);
  w.shape[0] = 0;
  w.shape[1] = 64;
  cr_assert_eq(nabla_matmul_plan_create(&w, NULL, &plan, &diag), NABLA_OK);
  cr_assert_eq(nabla_matmul_plan_run(plan, NULL, 2, NULL, NULL, &diag),
               NABLA_OK);
  nabla_matmul_plan_destroy(plan);
}
