/* nabla_session_call of compiled programs: packed arrays as arguments and as
 * results, in several layouts, against the codecs of quant/ and sums in f64. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/session.h"

enum { N = 8, K = 64, M = 3, ELEMENTS = N * K };

/* Layouts of which each result is one weight; `block` is 0 where the bytes are
 * not compared with those of nabla_encode. */
static const struct {
  const char *attribute, *encoding;
  unsigned block;
} layouts[] = {
    {"#nabla.nf4<block = 64>", "nf4", 64},
    {"#nabla.int8<block = 16>", "int8", 16},
    {"#nabla.fp4<block = 32>", "fp4", 32},
    {"#nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>", "nf4", 0},
};

static nabla_diag diag;
static nabla_compiler *compiler;
static nabla_executable *executable;
static nabla_session *session;
static float values[ELEMENTS], x[M * K];

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  uint32_t seed = 1;
  for (int i = 0; i < ELEMENTS + M * K; i++) {
    seed = seed * 1664525 + 1013904223;
    const float value = (float)(seed >> 8) / (float)(1 << 23) - 1;
    if (i < ELEMENTS)
      values[i] = value;
    else
      x[i - ELEMENTS] = value;
  }
}

static void tear_down(void) { nabla_compiler_destroy(compiler); }

TestSuite(packed_runs, .init = set_up, .fini = tear_down, .timeout = 300);

static void open_program(const char *attribute, int can_encode) {
  char text[4096];
  (void)snprintf(
      text, sizeof text,
      "!w = !nabla.implicit<8x64xf32, %s>\n"
      "func.func @product(%%x: tensor<?x64xf32>, %%w: !w {nabla.name = \"w\"})"
      " -> tensor<?x8xf32> {\n"
      "  %%y = nabla.dot_general %%x, %%w contracting = [1] x [1]"
      " : tensor<?x64xf32>, !w\n"
      "  return %%y : tensor<?x8xf32>\n}\n"
      "func.func @same(%%w: !w {nabla.name = \"w\"}) -> !w {\n"
      "  return %%w : !w\n}\n"
      "%s",
      attribute,
      can_encode ? "func.func @pack(%x: tensor<8x64xf32>, %w: !w {nabla.name ="
                   " \"w\"}) -> (tensor<8x64xf32>, !w) {\n"
                   "  %d = nabla.materialize %w : !w\n"
                   "  %q = nabla.quantize %x : tensor<8x64xf32> -> !w\n"
                   "  return %d, %q : tensor<8x64xf32>, !w\n}\n"
                 : "");
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "p.mlir", NULL,
                                  &executable, &diag),
               NABLA_OK, "%s: %s", attribute, diag.what);
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag),
               NABLA_OK);
}

static void close_program(void) {
  nabla_session_close(session);
  nabla_executable_close(executable);
}

static nabla_status call(const char *function, const nabla_dense *dense,
                         const nabla_weight_desc *weight,
                         nabla_session_output *outputs, size_t output_count) {
  const nabla_session_input inputs[] = {
      {.dense = dense ? *dense : (nabla_dense){0}}, {.weight = weight}};
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = dense ? inputs : inputs + 1,
                                       .input_count = dense ? 2 : 1,
                                       .outputs = outputs,
                                       .output_count = output_count};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_session_call(session, function, &arrays, &diag);
}

static void free_weight(nabla_weight_desc *weight) {
  for (uint32_t i = 0; i < weight->component_count; i++)
    nabla_result_free(NULL, (void *)(uintptr_t)weight->components[i].data);
}

/* x . w^T, against sums in f64 of what nabla_weight_read decodes. */
static void expect_product(const nabla_weight_desc *weight, const char *name) {
  static float rows[ELEMENTS];
  const nabla_dense in = {x, NABLA_DTYPE_F32, 2, {M, K}};
  nabla_session_output y = {.weight = NULL};
  cr_assert_eq(nabla_weight_read(weight, 0, N, rows, &diag), NABLA_OK, "%s: %s",
               name, diag.what);
  cr_assert_eq(call("product", &in, weight, &y, 1), NABLA_OK, "%s: %s", name,
               diag.what);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum += (double)x[m * K + k] * (double)rows[n * K + k];
      cr_expect_float_eq((double)((float *)y.dense.data)[m * N + n], sum, 2e-5,
                         "%s [%d, %d]", name, m, n);
    }
  nabla_result_free(NULL, y.dense.data);
}

/* A weight handed through: the same bytes, in other memory. */
static void expect_same(const nabla_weight_desc *weight, const char *name) {
  nabla_weight_desc got = {0};
  nabla_session_output output = {.weight = &got};
  cr_assert_eq(call("same", NULL, weight, &output, 1), NABLA_OK, "%s: %s", name,
               diag.what);
  cr_assert_eq(got.component_count, weight->component_count);
  for (uint32_t i = 0; i < got.component_count; i++) {
    cr_expect_neq(got.components[i].data, weight->components[i].data);
    cr_expect(!memcmp(got.components[i].data, weight->components[i].data,
                      (size_t)got.components[i].bytes),
              "%s", name);
  }
  free_weight(&got);
}

/* The bytes of `values` as nabla_encode writes them. */
static void encode(const nabla_weight_desc *like, uint8_t *codes,
                   float *scales) {
  const nabla_packed packed = {.codes = codes, .scales = scales};
  nabla_codec codec;
  cr_assert_eq(
      nabla_codec_select(&like->layout.format, NULL, &codec, &diag) ||
          nabla_encode(&codec, values, NULL, ELEMENTS, &packed, NULL, &diag),
      0, "%s", diag.what);
}

/* A description of zeros in static memory, for the first call. */
static nabla_weight_desc zeros(const nabla_port *port) {
  static uint64_t bytes[NABLA_WEIGHT_MAX_COMPONENTS][ELEMENTS];
  nabla_weight_desc out = {.rank = 2,
                           .shape = {N, K},
                           .dtype = NABLA_DTYPE_F32,
                           .layout = port->layout};
  cr_assert_eq(nabla_weight_components(&out, out.components,
                                       &out.component_count, &diag),
               NABLA_OK);
  for (uint32_t i = 0; i < out.component_count; i++)
    out.components[i].data = bytes[i];
  return out;
}

static void try_layout(size_t number) {
  const char *name = layouts[number].attribute;
  static uint8_t codes[ELEMENTS];
  static float scales[ELEMENTS], decoded[ELEMENTS], plain[ELEMENTS];
  const nabla_dense in = {values, NABLA_DTYPE_F32, 2, {N, K}};
  open_program(name, 1);
  const nabla_signature *pack = nabla_executable_find(executable, "pack");
  const nabla_port *packed = pack->results[1].packed;
  cr_assert(packed && !pack->results[0].packed, "%s", name);
  cr_expect_str_eq(packed->encoding_name, layouts[number].encoding);
  cr_expect(nabla_storage_equal(&packed->layout, &pack->arguments[1].layout));
  const nabla_weight_desc before = zeros(packed);
  nabla_weight_desc got = {0};
  nabla_session_output outputs[] = {{.weight = NULL}, {.weight = &got}};
  cr_assert_eq(call("pack", &in, &before, outputs, 2), NABLA_OK, "%s: %s", name,
               diag.what);
  for (int i = 0; i < ELEMENTS; i++)
    cr_expect_eq(((float *)outputs[0].dense.data)[i], 0);
  nabla_result_free(NULL, outputs[0].dense.data);
  if (layouts[number].block) {
    encode(&got, codes, scales);
    cr_expect(
        !memcmp(codes, got.components[0].data, (size_t)got.components[0].bytes),
        "%s", name);
    cr_expect(!memcmp(scales, got.components[1].data,
                      (size_t)got.components[1].bytes),
              "%s", name);
  }
  /* what was given is an argument again, and decodes to the same */
  nabla_weight_desc again = {0};
  outputs[0] =
      (nabla_session_output){.dense = {plain, NABLA_DTYPE_F32, 2, {N, K}}};
  outputs[1].weight = &again;
  cr_assert_eq(call("pack", &in, &got, outputs, 2), NABLA_OK, "%s: %s", name,
               diag.what);
  cr_assert_eq(nabla_weight_read(&got, 0, N, decoded, &diag), NABLA_OK);
  cr_expect(!memcmp(plain, decoded, sizeof plain), "%s", name);
  expect_product(&got, name);
  expect_same(&got, name);
  close_program();
  free_weight(&got);
  free_weight(&again);
}

Test(packed_runs, packed_results_are_arguments) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) try_layout(i);
}

/* Blocks of GGUF files: arguments, and results that are handed through. */
Test(packed_runs, blocks) {
  const nabla_ggml *ggml = nabla_ggml_find("q4_0");
  static uint8_t bytes[ELEMENTS / 32 * 18];
  cr_assert_eq(nabla_ggml_encode(ggml, NABLA_DTYPE_F32, values, ELEMENTS / 32,
                                 bytes, NULL, &diag),
               NABLA_OK, "%s", diag.what);
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {N, K},
      .dtype = NABLA_DTYPE_F32,
      .layout = {.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml},
      .component_count = 1,
      .components = {{.data = bytes, .bytes = sizeof bytes}}};
  open_program("#nabla.ggml<q4_0>", 0);
  expect_product(&weight, "q4_0");
  expect_same(&weight, "q4_0");
  close_program();
}
