/* Plans with code generated for their shape: against f64 for every encoding
 * that has kernels, shared by plans of a kind, and kept by those that use it.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/matmul.h"
#include "nabla/pool.h"
#include "tests/support/product.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static nabla_diag diag;

static void set_up(void) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_compiler_provide_plans();
}

static void tear_down(void) { nabla_compiler_withhold_plans(); }

TestSuite(plans, .init = set_up, .fini = tear_down);

static nabla_matmul_plan *plan_of(const product *p,
                                  const nabla_matmul_options *options) {
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_matmul_plan_create(&p->weight, options, &plan, &diag),
               NABLA_OK, "%s", diag.what);
  return plan;
}

static void expect_provider(const nabla_matmul_plan *plan,
                            nabla_matmul_provider wanted) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, wanted, "%s",
               nabla_matmul_provider_name(info.provider));
}

static const char *name_of(const nabla_weight_desc *weight) {
  if (weight->layout.ggml) return weight->layout.ggml->name;
  return weight->layout.format.encoding ? weight->layout.format.encoding->name
                                        : "dense";
}

/* One run, in two cuts, of arrays that end at guards. */
static void expect_run(const nabla_matmul_plan *plan, const product *p,
                       const nabla_matmul_options *o, uint64_t m) {
  const nabla_dtype x_type = o->x_type ? o->x_type : NABLA_DTYPE_F32;
  const uint64_t n = p->weight.shape[0],
                 grain = nabla_matmul_plan_grain(plan, m);
  const uint64_t cut = n / 2 / grain * grain;
  guarded_bytes x = product_x(p, m, x_type, m);
  guarded_bytes y = guarded_bytes_create((size_t)(m * n) * 4, p->at_start);
  guarded_bytes z = guarded_bytes_create((size_t)(m * n) * 4, p->at_start);
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, m);
  guarded_bytes room = guarded_bytes_create((bytes + 63) / 64 * 64, 0);
  memset(y.data, 0x5a, y.size);
  cr_assert_eq(nabla_matmul_plan_run(plan, x.data, m, y.data, room.data, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_matmul_plan_prepare(plan, x.data, m, room.data, &diag), 0);
  cr_assert_eq(nabla_matmul_plan_run_rows(plan, x.data, m, z.data, 0, cut,
                                          room.data, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_matmul_plan_run_rows(plan, x.data, m, z.data, cut, n,
                                          room.data, &diag),
               NABLA_OK);
  cr_expect(!y.size || !memcmp(y.data, z.data, y.size), "a cut");
  const product_run done = {.x = x.data,
                            .y = y.data,
                            .bias = o->bias,
                            .x_type = x_type,
                            .y_type = NABLA_DTYPE_F32,
                            .m = m,
                            .chain = p->weight.shape[1],
                            .numerics = o->numerics};
  cr_expect_eq(product_count_wrong(p, &done), 0, "%s scale %d, %ux%u, M %u",
               name_of(&p->weight), (int)p->weight.layout.format.scale,
               (unsigned)n, (unsigned)p->weight.shape[1], (unsigned)m);
  guarded_bytes_destroy(&x);
  guarded_bytes_destroy(&y);
  guarded_bytes_destroy(&z);
  guarded_bytes_destroy(&room);
}

static void expect_products(const product_shape *shape,
                            const nabla_matmul_options *o) {
  static const uint64_t some_m[] = {0, 1, 2, 7, 33};
  product p = product_create(shape);
  nabla_matmul_plan *plan = plan_of(&p, o);
  expect_provider(plan, NABLA_MATMUL_COMPILED);
  for (size_t i = 0; i < COUNT(some_m); i++) expect_run(plan, &p, o, some_m[i]);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

Test(plans, encodings_scales_and_odd_shapes) {
  static const char *const names[] = {"nf4", "fp4", "int8", "int4"};
  static const nabla_scale_type scales[] = {NABLA_SCALE_F32, NABLA_SCALE_F16,
                                            NABLA_SCALE_DYNAMIC8};
  static const uint64_t shapes[][2] = {{17, 66}, {5, 33}, {40, 256}};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_COMPILED};
  for (size_t i = 0; i < COUNT(names); i++)
    for (size_t j = 0; j < COUNT(shapes); j++) {
      const product_shape shape = {
          .format = {.encoding = nabla_encoding_find(names[i]),
                     .block = 64,
                     .scale = scales[(i + j) % COUNT(scales)]},
          .n = shapes[j][0],
          .k = shapes[j][1],
          .at_start = (int)(j & 1)};
      expect_products(&shape, &options);
    }
}

Test(plans, bias_types_and_layouts) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = 20,
      .k = 128};
  float bias[20];
  for (int i = 0; i < 20; i++) bias[i] = (float)i - 9.5f;
  for (int layout = 0; layout < NABLA_WEIGHT_LAYOUT_COUNT; layout++) {
    const nabla_matmul_options options = {
        .struct_size = sizeof options,
        .provider = NABLA_MATMUL_COMPILED,
        .layout = (nabla_weight_layout)layout,
        .x_type = layout ? NABLA_DTYPE_BF16 : NABLA_DTYPE_F32,
        .bias = bias,
        .bias_bytes = sizeof bias};
    expect_products(&shape, &options);
  }
}

Test(plans, limits_of_the_instruction_set) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = 20,
      .k = 128};
  for (int isa = NABLA_ISA_BEST; isa <= NABLA_ISA_AVX512; isa++) {
    const nabla_matmul_options options = {.struct_size = sizeof options,
                                          .provider = NABLA_MATMUL_COMPILED,
                                          .isa = (nabla_isa)isa};
    if (nabla_isa_available((nabla_isa)isa)) expect_products(&shape, &options);
  }
}

/* The most kernels that a plan has: one for each range of M that differs. */
Test(plans, integers_and_bf16_of_every_block) {
  static const char *const names[] = {"nf4", "int4", "int8"};
  static const uint64_t blocks[] = {16, 32, 64};
  for (size_t i = 0; i < COUNT(names) * COUNT(blocks); i++)
    for (int numerics = 1; numerics < NABLA_NUMERICS_COUNT; numerics++) {
      const product_shape shape = {
          .format = {.encoding = nabla_encoding_find(names[i % COUNT(names)]),
                     .block = blocks[i / COUNT(names)]},
          .n = 64,
          .k = 512};
      const nabla_matmul_options options = {
          .struct_size = sizeof options,
          .provider = NABLA_MATMUL_COMPILED,
          .numerics = (nabla_numerics)numerics};
      product p = product_create(&shape);
      nabla_matmul_plan *plan = plan_of(&p, &options);
      nabla_matmul_info info;
      nabla_matmul_plan_describe(plan, &info);
      cr_expect_leq(info.kernel_count, NABLA_MATMUL_MAX_KERNELS);
      nabla_matmul_plan_destroy(plan);
      product_destroy(&p);
    }
}

/* Blocks of GGUF files, for all numerics; the instruction sets in turn. */
Test(plans, blocks_of_gguf_files) {
  size_t count;
  const nabla_ggml *all = nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++)
    for (int numerics = 0; numerics <= NABLA_NUMERICS_INT8; numerics++) {
      const nabla_isa turn = (nabla_isa)((i + (size_t)numerics) % 3 + 1);
      const product_shape shape = {.ggml = &all[i],
                                   .n = 37,
                                   .k = all[i].elements * (i % 3 + 2),
                                   .at_start = (int)(i & 1)};
      nabla_matmul_options options = {.struct_size = sizeof options,
                                      .provider = NABLA_MATMUL_COMPILED,
                                      .numerics = (nabla_numerics)numerics};
      if (numerics == NABLA_NUMERICS_BF16) continue; /* bounds of its own */
      expect_products(&shape, &options);
      options.isa = turn;
      if (nabla_isa_available(turn)) expect_products(&shape, &options);
    }
}

/* Equal sizes of two formats are two kinds of plans. */
Test(plans, formats_of_blocks_share_no_code) {
  static const char *const names[] = {"q4_0", "iq4_nl", "q4_0"};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_COMPILED,
                                        .m_max = 1};
  for (size_t i = 0; i < COUNT(names); i++) {
    const product_shape shape = {
        .ggml = nabla_ggml_find(names[i]), .n = 16, .k = 64};
    product p = product_create(&shape);
    nabla_matmul_plan *plan = plan_of(&p, &options);
    expect_run(plan, &p, &options, 1);
    nabla_matmul_plan_destroy(plan);
    product_destroy(&p);
  }
}

/* What has no rearranged form is read where it lies, and nothing is copied. */
Test(plans, blocks_stay_in_place) {
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_COMPILED,
                                        .layout = NABLA_WEIGHT_LAYOUT_PREPACKED,
                                        .m_max = 1};
  const product_shape shape = {
      .ggml = nabla_ggml_find("q4_k"), .n = 20, .k = 512};
  product p = product_create(&shape);
  nabla_matmul_plan *plan = plan_of(&p, &options);
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.layout, NABLA_WEIGHT_LAYOUT_IN_PLACE);
  cr_expect_eq(info.packed_bytes, 0);
  expect_run(plan, &p, &options, 1);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

/* x in 8 bits is prepared in tiles of rows, on several threads where there are
 * enough elements: 70 rows have no half that is whole tiles. */
Test(plans, any_number_of_threads_gives_the_same_bytes) {
  enum { M = 70, N = 48, K = 4096 };
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = N,
      .k = K};
  product p = product_create(&shape);
  guarded_bytes x = product_x(&p, M, NABLA_DTYPE_F32, 5);
  static float y[4][M * N];
  for (uint32_t threads = 1; threads <= 4; threads++) {
    nabla_matmul_options options = {.struct_size = sizeof options,
                                    .provider = NABLA_MATMUL_COMPILED,
                                    .numerics = NABLA_NUMERICS_INT8};
    nabla_pool *pool;
    cr_assert_eq(nabla_pool_create(threads, NULL, &pool, &diag), NABLA_OK);
    options.environment.pool = pool;
    nabla_matmul_plan *plan = plan_of(&p, &options);
    const size_t bytes = nabla_matmul_plan_workspace_size(plan, M);
    guarded_bytes room = guarded_bytes_create((bytes + 63) / 64 * 64, 0);
    memset(room.data, 0xff, room.size); /* nothing of an earlier run */
    cr_assert_eq(nabla_matmul_plan_run(plan, x.data, M, y[threads - 1],
                                       room.data, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect(!memcmp(y[0], y[threads - 1], sizeof *y), "%u threads", threads);
    guarded_bytes_destroy(&room);
    nabla_matmul_plan_destroy(plan);
    nabla_pool_destroy(pool);
  }
  guarded_bytes_destroy(&x);
  product_destroy(&p);
}

/* The best provider is the compiler where it has a kernel, and C where not. */
Test(plans, what_has_no_kernel_is_left_to_others) {
  const product_shape segments = {
      .format = {.encoding = nabla_encoding_find("nf4"),
                 .block = 64,
                 .segment = 80},
      .n = 5,
      .k = 80};
  product p = product_create(&segments);
  const nabla_matmul_options best = {.struct_size = sizeof best},
                             only = {.struct_size = sizeof only,
                                     .provider = NABLA_MATMUL_COMPILED};
  nabla_matmul_plan *plan = plan_of(&p, &best);
  expect_provider(plan, NABLA_MATMUL_C);
  expect_run(plan, &p, &best, 3);
  nabla_matmul_plan_destroy(plan);
  plan = NULL;
  cr_expect_eq(nabla_matmul_plan_create(&p.weight, &only, &plan, &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strlen(diag.what) > 0 && !plan, "%s", diag.what);
  product_destroy(&p);
}

Test(plans, code_outlives_the_provider) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("int8"), .block = 64},
      .n = 20,
      .k = 128};
  const nabla_matmul_options best = {.struct_size = sizeof best};
  product p = product_create(&shape);
  nabla_matmul_plan *first = plan_of(&p, &best), *second = plan_of(&p, &best);
  nabla_compiler_withhold_plans();
  nabla_compiler_withhold_plans();
  nabla_matmul_plan_destroy(first);
  expect_provider(second, NABLA_MATMUL_COMPILED);
  expect_run(second, &p, &best, 7);
  nabla_matmul_plan *third = plan_of(&p, &best);
  expect_provider(third, NABLA_MATMUL_C);
  nabla_matmul_plan_destroy(third);
  nabla_matmul_plan_destroy(second);
  nabla_compiler_provide_plans();
  nabla_compiler_provide_plans();
  first = plan_of(&p, &best);
  expect_provider(first, NABLA_MATMUL_COMPILED);
  nabla_matmul_plan_destroy(first);
  product_destroy(&p);
}
