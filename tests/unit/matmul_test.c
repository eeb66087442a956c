/* Plans of products: every encoding, shape and type against f64, whatever way
 * they are cut, with nothing read or written beyond the arrays; what is
 * refused; kernels of a provider from outside. */
#include "nabla/matmul.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/runtime/matmul/provider.h"
#include "nabla/quantize.h"
#include "tests/support/callback_pool.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/model.h"
#include "tests/support/product.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static nabla_diag diag;

static void set_up(void) { diag = (nabla_diag)NABLA_DIAG_INIT; }

TestSuite(matmul, .init = set_up);

/* Additions in a row of the C kernels: sums of 16 lanes, and their tree. */
static uint64_t chain_of(uint64_t k) { return k / 16 + 8; }

/* ---- a product in all ways
 * --------------------------------------------------- */

typedef struct setting {
  nabla_matmul_options options;
  uint64_t m;
} setting;

static nabla_dtype or_f32(nabla_dtype type) {
  return type ? type : NABLA_DTYPE_F32;
}

static guarded_bytes workspace_of(const nabla_matmul_plan *plan, uint64_t m,
                                  void **out) {
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, m);
  cr_assert(bytes <= nabla_matmul_plan_workspace_max(plan, m));
  cr_assert_eq(bytes % NABLA_MATMUL_WORKSPACE_ALIGNMENT, 0);
  cr_assert_eq(nabla_matmul_plan_workspace_max(plan, m) %
                   NABLA_MATMUL_WORKSPACE_ALIGNMENT,
               0);
  guarded_bytes workspace = guarded_bytes_create((size_t)bytes, 0);
  *out = bytes ? workspace.data : NULL;
  return workspace;
}

/* Cuts [0, N) in two at each place, and in single columns. */
static void expect_cuts(const nabla_matmul_plan *plan, const product *p,
                        const void *x, uint64_t m, void *workspace,
                        const guarded_bytes *y) {
  const uint64_t n = p->weight.shape[0],
                 grain = nabla_matmul_plan_grain(plan, m);
  guarded_bytes cut = guarded_bytes_create(y->size, p->at_start);
  for (uint64_t at = 0; at <= n; at += grain) {
    memset(cut.data, 0xa5, cut.size);
    cr_assert_eq(nabla_matmul_plan_prepare(plan, x, m, workspace, &diag),
                 NABLA_OK);
    cr_assert_eq(nabla_matmul_plan_run_rows(plan, x, m, cut.data, at, n,
                                            workspace, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_assert_eq(nabla_matmul_plan_run_rows(plan, x, m, cut.data, 0, at,
                                            workspace, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect(!cut.size || !memcmp(cut.data, y->data, cut.size), "cut at %u",
              (unsigned)at);
  }
  memset(cut.data, 0xa5, cut.size);
  for (uint64_t at = 0; at < n; at += grain)
    cr_assert_eq(nabla_matmul_plan_run_rows(plan, x, m, cut.data, at,
                                            at + grain < n ? at + grain : n,
                                            workspace, &diag),
                 NABLA_OK);
  cr_expect(!cut.size || !memcmp(cut.data, y->data, cut.size), "columns");
  guarded_bytes_destroy(&cut);
}

static void expect_product(const product *p, const setting *s, int cuts) {
  const nabla_dtype x_type = or_f32(s->options.x_type);
  const nabla_dtype y_type = or_f32(s->options.y_type);
  const char *name = p->weight.layout.format.encoding
                         ? p->weight.layout.format.encoding->name
                         : "dense";
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_matmul_plan_create(&p->weight, &s->options, &plan, &diag),
               NABLA_OK, "%s: %s", name, diag.what);
  guarded_bytes x = product_x(p, s->m, x_type, 7);
  guarded_bytes y = guarded_bytes_create(
      (size_t)(s->m * p->weight.shape[0]) * (nabla_dtype_bits(y_type) / 8),
      p->at_start);
  void *room;
  guarded_bytes workspace = workspace_of(plan, s->m, &room);
  memset(y.data, 0x5a, y.size);
  cr_assert_eq(nabla_matmul_plan_run(plan, x.data, s->m, y.data, room, &diag),
               NABLA_OK, "%s", diag.what);
  const product_run done = {.x = x.data,
                            .y = y.data,
                            .bias = s->options.bias,
                            .x_type = x_type,
                            .y_type = y_type,
                            .m = s->m,
                            .chain = chain_of(p->weight.shape[1])};
  const size_t wrong = product_count_wrong(p, &done);
  cr_expect_eq(wrong, 0, "%s %ux%u, M %u, scale %d, block %u: %zu wrong", name,
               (unsigned)p->weight.shape[0], (unsigned)p->weight.shape[1],
               (unsigned)s->m, (int)p->weight.layout.format.scale,
               (unsigned)p->weight.layout.format.block, wrong);
  if (cuts) expect_cuts(plan, p, x.data, s->m, room, &y);
  guarded_bytes_destroy(&workspace);
  guarded_bytes_destroy(&x);
  guarded_bytes_destroy(&y);
  nabla_matmul_plan_destroy(plan);
}

static const uint64_t shapes[][2] = {{1, 1},   {5, 33},   {7, 100},
                                     {17, 66}, {3, 1031}, {6, 512}};
static const uint64_t some_m[] = {0, 1, 2, 7, 33};

static nabla_format format_of(const nabla_encoding *encoding,
                              nabla_granularity granularity, uint64_t n,
                              uint64_t k) {
  return (nabla_format){
      .encoding = encoding,
      .granularity = granularity,
      .block = encoding->is_mx                  ? NABLA_BLOCK_MX
               : granularity == NABLA_PER_BLOCK ? 16
               : granularity == NABLA_PER_ROW   ? k
                                                : n * k,
      .scale = encoding->is_mx ? NABLA_SCALE_E8M0 : NABLA_SCALE_F32};
}

/* All shapes and row counts of one format; blocks, rows or the tensor follow
 * the shape. */
static void expect_format(const nabla_encoding *encoding,
                          nabla_granularity granularity, nabla_isa isa) {
  for (size_t i = 0; i < COUNT(shapes); i++) {
    const uint64_t n = shapes[i][0], k = shapes[i][1];
    const product_shape shape = {
        .format = format_of(encoding, granularity, n, k),
        .n = n,
        .k = k,
        .at_start = (int)(i & 1)};
    product p = product_create(&shape);
    for (size_t j = 0; j < COUNT(some_m); j++) {
      const setting s = {
          .options = {.struct_size = sizeof(nabla_matmul_options),
                      .provider = NABLA_MATMUL_C,
                      .isa = isa},
          .m = some_m[j]};
      expect_product(&p, &s, j == 2);
    }
    product_destroy(&p);
  }
}

Test(matmul, every_encoding_gives_the_product) {
  size_t count;
  const nabla_encoding *all = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    expect_format(&all[i], NABLA_PER_BLOCK, NABLA_ISA_BEST);
    if (all[i].has_rows) expect_format(&all[i], NABLA_PER_ROW, NABLA_ISA_BEST);
    if (all[i].has_tensor)
      expect_format(&all[i], NABLA_PER_TENSOR, NABLA_ISA_BEST);
  }
}

Test(matmul, every_instruction_set_gives_the_product) {
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++)
    if (nabla_isa_available((nabla_isa)isa))
      expect_format(nabla_encoding_find("nf4"), NABLA_PER_BLOCK,
                    (nabla_isa)isa);
}

static void expect_variant(nabla_format format, uint64_t n, uint64_t k) {
  const product_shape shape = {.format = format, .n = n, .k = k};
  const setting s = {.options = {.struct_size = sizeof(nabla_matmul_options),
                                 .provider = NABLA_MATMUL_C},
                     .m = 3};
  product p = product_create(&shape);
  expect_product(&p, &s, 0);
  product_destroy(&p);
}

Test(matmul, scales_zero_points_blocks_and_segments) {
  static const char *const names[] = {"nf4",     "int4",   "int8",
                                      "ternary", "binary", "fp8"};
  static const uint64_t blocks[] = {16, 64, 256, 4096};
  for (size_t i = 0; i < COUNT(names); i++)
    for (int scale = NABLA_SCALE_F32; scale < NABLA_SCALE_E8M0; scale++)
      for (size_t j = 0; j < COUNT(blocks); j++) {
        nabla_format format = {.encoding = nabla_encoding_find(names[i]),
                               .block = blocks[j],
                               .scale = (nabla_scale_type)scale};
        expect_variant(format, 9, 203);
        format.segment = 200; /* blocks that end with rows */
        expect_variant(format, 9, 200);
        format.segment = 0;
        format.zero_point = 1;
        if (format.encoding->has_zero_point) expect_variant(format, 9, 203);
      }
}

Test(matmul, floats_of_all_types_in_weight_x_y_and_bias) {
  static const nabla_dtype types[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                      NABLA_DTYPE_BF16};
  for (size_t w = 0; w < 3; w++)
    for (size_t i = 0; i < 3; i++)
      for (size_t j = 0; j < 3; j++) {
        const product_shape shape = {
            .dtype = types[w], .n = 13, .k = 70, .at_start = (int)(i & 1)};
        product p = product_create(&shape);
        guarded_bytes bias = product_x(&p, 1, types[j], 5); /* K > N of them */
        const setting s = {
            .options = {.struct_size = sizeof(nabla_matmul_options),
                        .x_type = types[i],
                        .y_type = types[j],
                        .provider = NABLA_MATMUL_C,
                        .bias = bias.data,
                        .bias_bytes = bias.size},
            .m = 5};
        expect_product(&p, &s, 1);
        guarded_bytes_destroy(&bias);
        product_destroy(&p);
      }
}

static nabla_pool *pool_of(size_t number) {
  nabla_pool *pool;
  if (number) return callback_pool_create((callback_order)(number - 1), 3);
  cr_assert_eq(nabla_pool_create(3, NULL, &pool, NULL), NABLA_OK);
  return pool;
}

static void expect_same_with(nabla_pool *pool) {
  nabla_matmul_plan *one = NULL, *many = NULL;
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = 203,
      .k = 301};
  product p = product_create(&shape);
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .environment.pool = pool,
                                        .x_type = NABLA_DTYPE_BF16},
                             alone = {.struct_size = sizeof alone,
                                      .x_type = NABLA_DTYPE_BF16};
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &alone, &one, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &options, &many, &diag),
               NABLA_OK);
  const uint64_t m = 900; /* x is converted by all, too */
  guarded_bytes x = product_x(&p, m, NABLA_DTYPE_BF16, 3);
  guarded_bytes y = guarded_bytes_create(m * 203 * 4, 0), z = y;
  z = guarded_bytes_create(m * 203 * 4, 0);
  void *room;
  guarded_bytes workspace = workspace_of(one, m, &room);
  cr_expect_eq(nabla_matmul_plan_run(one, x.data, m, y.data, room, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_matmul_plan_run(many, x.data, m, z.data, room, &diag),
               NABLA_OK);
  cr_expect(!memcmp(y.data, z.data, y.size));
  const pid_t child = fork(); /* has no workers, and computes alone */
  if (!child) {
    alarm(60);
    memset(z.data, 0, z.size);
    int good = !nabla_matmul_plan_run(many, x.data, m, z.data, room, &diag) &&
               !memcmp(y.data, z.data, y.size);
    nabla_matmul_plan_destroy(many);
    nabla_pool_destroy(pool);
    _exit(!good);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect_eq(status, 0, "in a forked child");
  guarded_bytes_destroy(&x);
  guarded_bytes_destroy(&y);
  guarded_bytes_destroy(&z);
  guarded_bytes_destroy(&workspace);
  nabla_matmul_plan_destroy(one);
  nabla_matmul_plan_destroy(many);
  nabla_pool_destroy(pool);
  product_destroy(&p);
}

Test(matmul, a_pool_gives_the_same_bytes) {
  for (size_t i = 0; i <= CALLBACK_ORDERS; i++) expect_same_with(pool_of(i));
}

/* w.weight as nf4 with 8-bit scales in `to`. */
static void quantize_model(const char *from, const char *to) {
  static const char *const only[] = {"w.weight"};
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.block = 64, .has_scale = 1, .scale = NABLA_SCALE_DYNAMIC8},
      .only = only,
      .only_count = 1};
  model_quantize(from, to, &options);
}

/* Unit vectors give columns of the weight: those of the dense one, nearly. */
static void expect_columns(const nabla_matmul_plan *plan, const char *dense) {
  static _Alignas(64) float room[1024];
  float x[96] = {0}, y[24];
  cr_assert_leq(nabla_matmul_plan_workspace_size(plan, 1), sizeof room);
  nabla_checkpoint *checkpoint = model_open(dense);
  float *values = model_bytes(checkpoint, "w.weight", NULL);
  for (int k = 0; k < 96; k += 19) {
    x[k] = 1;
    cr_assert_eq(nabla_matmul_plan_run(plan, x, 1, y, room, &diag), NABLA_OK);
    x[k] = 0;
    for (int n = 0; n < 24; n++)
      cr_expect_float_eq(y[n], values[n * 96 + k], 0.03, "%d %d: %g", n, k,
                         (double)y[n]);
  }
  free(values);
  nabla_checkpoint_close(checkpoint);
}

Test(matmul, weights_of_a_model) {
  temp_folder folder;
  char dense[256], packed[256];
  const model_tensor tensors[] = {
      {"w.weight", NABLA_DTYPE_F32, 2, {24, 96}, NULL},
      {"cube", NABLA_DTYPE_F32, 3, {2, 3, 4}, NULL}};
  temp_folder_create(&folder);
  temp_folder_path(&folder, "dense.safetensors", dense);
  temp_folder_path(&folder, "packed.safetensors", packed);
  model_write(dense, tensors, COUNT(tensors));
  quantize_model(dense, packed);
  nabla_model *model = NULL;
  nabla_weight weight, cube;
  nabla_matmul_plan *plan = NULL;
  cr_assert_eq(nabla_model_open(packed, NULL, &model, &diag), NABLA_OK);
  cr_assert_eq(nabla_model_find(model, "w.weight", &weight, &diag), NABLA_OK);
  cr_assert_eq(nabla_model_find(model, "cube", &cube, &diag), NABLA_OK);
  cr_assert_eq(weight.tensor.format.scale, NABLA_SCALE_DYNAMIC8);
  cr_expect_eq(nabla_matmul_plan_create(&cube.desc, NULL, &plan, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "rank 3"), "%s", diag.what);
  cr_expect_str_eq(diag.tensor, "cube");
  cr_assert_eq(nabla_matmul_plan_create(&weight.desc, NULL, &plan, &diag),
               NABLA_OK, "%s", diag.what);
  expect_columns(plan, dense);
  nabla_matmul_plan_destroy(plan);
  nabla_model_close(model);
  model_remove_tree(folder.path);
}

/* ---- what is told
 * -------------------------------------------------------------- */

static product nf4_product(uint64_t n, uint64_t k) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = n,
      .k = k};
  return product_create(&shape);
}

Test(matmul, a_plan_tells_what_was_chosen) {
  product p = nf4_product(9, 70);
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_info info;
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .numerics = NABLA_NUMERICS_INT8,
                                        .layout = NABLA_WEIGHT_LAYOUT_PREPACKED,
                                        .provider = NABLA_MATMUL_C,
                                        .m_max = 5};
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &options, &plan, &diag),
               NABLA_OK);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_C);
  cr_expect_eq(info.numerics, NABLA_NUMERICS_F32); /* what C has */
  cr_expect_eq(info.layout, NABLA_WEIGHT_LAYOUT_IN_PLACE);
  cr_expect(info.n == 9 && info.k == 70 && info.m_max == 5);
  cr_expect(info.kernel_count == 1 && info.packed_bytes == 0);
  cr_expect_eq(strncmp(info.kernels[0].name, "c, ", 3), 0);
  cr_expect_eq(nabla_matmul_plan_workspace_size(plan, 5), 0);
  cr_expect_eq(nabla_matmul_plan_workspace_size(plan, 6), UINT64_MAX);
  cr_expect_eq(nabla_matmul_plan_workspace_max(plan, 6), UINT64_MAX);
  cr_expect_eq(nabla_matmul_plan_grain(plan, 5), 1);
  cr_expect_str_eq(nabla_matmul_provider_name(NABLA_MATMUL_AHEAD), "ahead");
  cr_expect_null(nabla_matmul_provider_name(NABLA_MATMUL_PROVIDER_COUNT));
  nabla_matmul_plan_destroy(plan);
  nabla_matmul_plan_destroy(NULL);
  product_destroy(&p);
}

/* ---- what is refused
 * ------------------------------------------------------------ */

static void expect_refused_with(const nabla_weight_desc *weight,
                                const nabla_matmul_options *options,
                                nabla_status wanted, const char *text) {
  nabla_matmul_plan *plan = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_matmul_plan_create(weight, options, &plan, &diag), wanted,
               "%s: %s", text, diag.what);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
  cr_expect_null(plan);
  nabla_matmul_plan_destroy(plan);
}

static void expect_refused(const nabla_weight_desc *weight, nabla_status wanted,
                           const char *text) {
  expect_refused_with(weight, NULL, wanted, text);
}

Test(matmul, weights_that_contradict_themselves) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("int8"),
                 .block = 64,
                 .scale = NABLA_SCALE_DYNAMIC8,
                 .zero_point = 1},
      .n = 9,
      .k = 70};
  product p = product_create(&shape);
  const nabla_storage dense = {.kind = NABLA_STORAGE_DENSE};
  nabla_weight_desc w = p.weight;
  PRODUCT_REFUSED(w.components[0].bytes--, INVALID_ARGUMENT,
                  "codes have 629 bytes");
  PRODUCT_REFUSED(w.components[0].data = NULL, INVALID_ARGUMENT,
                  "codes have 0 bytes");
  PRODUCT_REFUSED(w.components[1].bytes--, INVALID_ARGUMENT,
                  "scales.codes have 9 bytes");
  PRODUCT_REFUSED(w.components[5].bytes = 0, INVALID_ARGUMENT,
                  "zero_points have 0");
  PRODUCT_REFUSED(w.component_count = 5, INVALID_ARGUMENT, "its layout has 6");
  PRODUCT_REFUSED(w.components[2].bytes--, INVALID_ARGUMENT,
                  "scales.scales have");
  PRODUCT_REFUSED(w.components[2].data = (const char *)w.components[2].data + 1,
                  INVALID_ARGUMENT, "not aligned to 4");
  PRODUCT_REFUSED(w.components[4].data = NULL, INVALID_ARGUMENT,
                  "scales.map have 0");
  PRODUCT_REFUSED(w.components[3].data = NULL, INVALID_ARGUMENT,
                  "scales.offset have 0");
  PRODUCT_REFUSED(w.layout.nested_block = 0, INVALID_ARGUMENT, "groups of");
  PRODUCT_REFUSED(w.shape[0] = 10, INVALID_ARGUMENT, "the shape needs 700");
  PRODUCT_REFUSED(w.shape[0] = UINT64_MAX, TOO_LARGE, "larger than any memory");
  PRODUCT_REFUSED(
      (w.shape[0] = (uint64_t)1 << 31, w.shape[1] = (uint64_t)1 << 31),
      TOO_LARGE, "larger than any memory");
  PRODUCT_REFUSED((w.shape[0] = 0, w.shape[1] = UINT64_MAX), TOO_LARGE,
                  "larger than any memory");
  PRODUCT_REFUSED(w.layout.format.block = 63, INVALID_ARGUMENT, "block");
  PRODUCT_REFUSED(
      (w.layout.format = (nabla_format){.encoding = w.layout.format.encoding,
                                        .granularity = NABLA_PER_ROW,
                                        .block = 630}),
      INVALID_ARGUMENT, "a row has 70");
  PRODUCT_REFUSED(
      (w.layout = dense, w.component_count = 1, w.dtype = NABLA_DTYPE_I32),
      UNSUPPORTED, "weights of I32");
  PRODUCT_REFUSED(
      (w.layout = dense, w.component_count = 1, w.dtype = (nabla_dtype)99),
      UNSUPPORTED, "unknown dtype");
  PRODUCT_REFUSED(
      (w.layout = dense, w.component_count = 1, w.dtype = NABLA_DTYPE_F32),
      INVALID_ARGUMENT, "values have 630 bytes");
  product_destroy(&p);
}

Test(matmul, options_that_cannot_be) {
  product p = nf4_product(9, 70);
  nabla_matmul_options o = {.struct_size = sizeof o};
  float bias[10];
#define OPTION(change, status, text)                                         \
  do {                                                                       \
    o = (nabla_matmul_options){.struct_size = sizeof(nabla_matmul_options)}; \
    change;                                                                  \
    expect_refused_with(&p.weight, &o, NABLA_##status, text);                \
  } while (0)
  OPTION(o.numerics = NABLA_NUMERICS_COUNT, INVALID_ARGUMENT, "no such");
  OPTION(o.layout = NABLA_WEIGHT_LAYOUT_COUNT, INVALID_ARGUMENT, "no such");
  OPTION(o.provider = NABLA_MATMUL_PROVIDER_COUNT, INVALID_ARGUMENT, "no such");
  OPTION(o.isa = (nabla_isa)17, UNSUPPORTED, "cannot run such code");
  OPTION(o.x_type = NABLA_DTYPE_I8, UNSUPPORTED, "not I8");
  OPTION(o.y_type = (nabla_dtype)77, UNSUPPORTED, "unknown dtype");
  OPTION(o.provider = NABLA_MATMUL_COMPILED, UNSUPPORTED, "no compiler");
  OPTION((o.bias = bias, o.bias_bytes = 35), INVALID_ARGUMENT,
         "the bias have 35");
  OPTION((o.bias = (const char *)bias + 1, o.bias_bytes = 36), INVALID_ARGUMENT,
         "not aligned to 4");
  product_destroy(&p);
}

static void expect_no_run(const nabla_matmul_plan *plan, const void *x,
                          uint64_t m, void *y, void *workspace,
                          const char *text) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_matmul_plan_run(plan, x, m, y, workspace, &diag),
               NABLA_INVALID_ARGUMENT, "%s", text);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
}

static void expect_no_rows(const nabla_matmul_plan *plan, uint64_t n0,
                           uint64_t n1, const char *text) {
  float x[70] = {0}, y[9] = {0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_matmul_plan_run_rows(plan, x, 1, y, n0, n1, NULL, &diag),
               NABLA_INVALID_ARGUMENT, "%s", text);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
}

Test(matmul, runs_that_cannot_be) {
  product p = nf4_product(9, 70);
  nabla_matmul_plan *plan = NULL, *halves = NULL;
  float x[70 * 2] = {0}, y[9 * 2] = {0};
  _Alignas(64) float room[70 * 2 + 1];
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .m_max = 2,
                                        .provider = NABLA_MATMUL_C},
                             narrow = {.struct_size = sizeof narrow,
                                       .x_type = NABLA_DTYPE_F16,
                                       .provider = NABLA_MATMUL_C};
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &options, &plan, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &narrow, &halves, &diag),
               NABLA_OK);
  expect_no_run(plan, NULL, 1, y, NULL, "x is NULL");
  expect_no_run(plan, (char *)x + 2, 1, y, NULL, "x is not aligned");
  expect_no_run(plan, x, 1, NULL, NULL, "y is NULL");
  expect_no_run(plan, x, 1, (char *)y + 1, NULL, "y is not aligned");
  expect_no_run(plan, x, 3, y, NULL, "more than the 2 of the plan");
  expect_no_run(halves, x, UINT64_MAX, y, room, "rows are more than");
  expect_no_run(halves, x, 1, y, NULL, "the workspace is NULL");
  expect_no_run(halves, x, 1, y, room + 1, "the workspace is not aligned");
  expect_no_rows(plan, 5, 4, "columns 5 to 4 of 9");
  expect_no_rows(plan, 0, 10, "columns 0 to 10 of 9");
  expect_no_rows(plan, 10, UINT64_MAX, "of 9");
  cr_expect_eq(nabla_matmul_plan_run(plan, NULL, 0, NULL, NULL, &diag),
               NABLA_OK);
  nabla_matmul_plan_destroy(plan);
  nabla_matmul_plan_destroy(halves);
  product_destroy(&p);
}

Test(matmul, weights_without_elements) {
  const product_shape none = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = 5,
      .k = 0};
  product p = product_create(&none);
  nabla_matmul_plan *plan = NULL;
  float y[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, NULL, &plan, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_matmul_plan_run(plan, NULL, 2, y, NULL, &diag), NABLA_OK);
  for (int i = 0; i < 10; i++) cr_expect_eq(y[i], 0); /* sums of nothing */
  nabla_matmul_plan_destroy(plan);
  p.weight.shape[0] = 0;
  p.weight.shape[1] = 5;
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, NULL, &plan, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_matmul_plan_run(plan, NULL, 2, NULL, NULL, &diag),
               NABLA_OK);
  nabla_matmul_plan_destroy(plan);
  product_destroy(&p);
}

/* ---- kernels from outside
 * --------------------------------------------------------- */

/* What an outside kernel sees: x doubled in the workspace, rows of a dense
 * weight halved in the rearranged copy, columns by fours. */
enum { GRAIN = 4 };
static int released;

static const float *floats(const uint64_t *words, nabla_kernel_arg word) {
  return (const float *)(uintptr_t)words[word];
}

static void outside_prepare(const uint64_t *words, uint64_t begin,
                            uint64_t end) {
  const uint64_t k = words[NABLA_ARG_K];
  float *out = (float *)(uintptr_t)words[NABLA_ARG_WORKSPACE];
  for (uint64_t i = begin * k; i < end * k; i++)
    out[i] = 2 * floats(words, NABLA_ARG_X)[i];
}

static void outside_prepack(const uint64_t *words, uint64_t begin,
                            uint64_t end) {
  const uint64_t k = words[NABLA_ARG_K];
  float *out = (float *)(uintptr_t)words[NABLA_ARG_PACKED];
  for (uint64_t i = begin * k; i < end * k; i++)
    out[i] = floats(words, NABLA_ARG_CODES)[i] / 2;
}

static void outside_run(const uint64_t *words, uint64_t begin, uint64_t end) {
  const uint64_t n = words[NABLA_ARG_N], k = words[NABLA_ARG_K];
  const float *x = floats(words, NABLA_ARG_WORKSPACE);
  const float *w = floats(words, NABLA_ARG_PACKED);
  float *y = (float *)(uintptr_t)words[NABLA_ARG_Y];
  cr_assert(begin % GRAIN == 0 && (end % GRAIN == 0 || end == n));
  for (uint64_t i = 0; i < words[NABLA_ARG_M]; i++)
    for (uint64_t j = begin; j < end; j++) {
      float sum = 0;
      for (uint64_t l = 0; l < k; l++) sum += x[i * k + l] * w[j * k + l];
      y[i * n + j] = sum;
    }
}

static void count_release(void *owner) { released += *(int *)owner; }

static int owned = 1;

/* Two kernels, the first for up to `*self` rows; of rearranged weights only. */
static nabla_status outside(void *self, const nabla_matmul_request *request,
                            nabla_provided *out, nabla_diag *into) {
  const int *limit = self;
  (void)into;
  *out = (nabla_provided){0};
  if (request->weight.layout.kind != NABLA_STORAGE_DENSE ||
      request->layout != NABLA_WEIGHT_LAYOUT_PREPACKED)
    return NABLA_OK;
  const nabla_kernel code = {.run = outside_run,
                             .prepare = outside_prepare,
                             .prepack = outside_prepack,
                             .workspace = {1, 1, 4},
                             .packed = {1, 1, 4},
                             .grain = GRAIN};
  *out = (nabla_provided){.count = 2,
                          .kernels = {{code, "outside", (uint64_t)*limit},
                                      {code, "beyond", UINT64_MAX}},
                          .numerics = request->numerics,
                          .bias_is_left = 1,
                          .owner = &owned,
                          .release = count_release};
  return NABLA_OK;
}

static void expect_outside(const product *p, const nabla_matmul_options *o) {
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_info info;
  for (uint64_t m = 1; m < 7; m++) {
    const setting s = {.options = *o, .m = m};
    expect_product(p, &s, 1);
  }
  cr_assert_eq(nabla_matmul_plan_create(&p->weight, o, &plan, &diag), NABLA_OK);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_COMPILED);
  cr_expect_eq(info.layout, NABLA_WEIGHT_LAYOUT_PREPACKED);
  cr_expect_eq(info.packed_bytes,
               2 * p->weight.shape[0] * p->weight.shape[1] * 4);
  cr_expect_eq(info.kernel_count, 2);
  cr_expect_str_eq(info.kernels[1].name, "beyond");
  cr_expect_eq(info.kernels[0].m_last, 3);
  cr_expect_eq(nabla_matmul_plan_grain(plan, 1), GRAIN);
  float x[70] = {0}, y[9];
  _Alignas(64) float room[70];
  cr_expect_eq(nabla_matmul_plan_run_rows(plan, x, 1, y, 2, 4, room, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "multiples of 4, not at 2"), "%s", diag.what);
  nabla_matmul_plan_destroy(plan);
}

Test(matmul, kernels_from_outside) {
  const product_shape shape = {.dtype = NABLA_DTYPE_F32, .n = 9, .k = 70};
  product p = product_create(&shape);
  float bias[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  int limit = 3;
  nabla_pool *pool = NULL;
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_info info;
  const nabla_matmul_options in_place = {.struct_size = sizeof in_place};
  cr_assert_eq(nabla_pool_create(3, NULL, &pool, NULL), NABLA_OK);
  nabla_matmul_options o = {.struct_size = sizeof o,
                            .layout = NABLA_WEIGHT_LAYOUT_PREPACKED,
                            .numerics = NABLA_NUMERICS_BF16,
                            .bias = bias,
                            .bias_bytes = sizeof bias};
  nabla_provider_register(outside, &limit);
  expect_outside(&p, &o);
  o.environment.pool = pool;
  expect_outside(&p, &o);
  cr_expect_eq(released, 2 * 7);
  /* what it has not, others have */
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &in_place, &plan, &diag),
               NABLA_OK);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_C);
  nabla_matmul_plan_destroy(plan);
  nabla_provider_withdraw(&owned); /* of somebody else */
  expect_outside(&p, &o);
  nabla_provider_withdraw(&limit);
  cr_assert_eq(nabla_matmul_plan_create(&p.weight, &o, &plan, &diag), NABLA_OK);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_C);
  nabla_matmul_plan_destroy(plan);
  nabla_pool_destroy(pool);
  product_destroy(&p);
}

/* Every allocation fails once; nothing is left. */
Test(matmul, no_memory) {
  const product_shape shape = {.dtype = NABLA_DTYPE_F32, .n = 9, .k = 70};
  product p = product_create(&shape);
  int limit = 3;
  nabla_provider_register(outside, &limit);
  for (size_t at = 1;; at++) {
    failing_allocator failing;
    failing_allocator_init(&failing, at);
    const nabla_matmul_options o = {
        .struct_size = sizeof o,
        .layout = NABLA_WEIGHT_LAYOUT_PREPACKED,
        .environment.allocator = &failing.allocator};
    nabla_matmul_plan *plan = NULL;
    const nabla_status status =
        nabla_matmul_plan_create(&p.weight, &o, &plan, &diag);
    const int failed = failing.failures > 0;
    cr_expect_eq(status, failed ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect_eq(plan == NULL, failed);
    nabla_matmul_plan_destroy(plan);
    cr_expect(failing_allocator_is_clean(&failing));
    if (!failed) {
      cr_expect_eq(at, 4); /* plan and two copies */
      break;
    }
  }
  nabla_provider_withdraw(&limit);
  product_destroy(&p);
}
