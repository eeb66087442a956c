/* nabla/array.h: packed arrays, which stay packed until an operation decodes
 * them.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/array.h"
#include "nabla/encoding.h"
#include "nabla/function.h"
#include "nabla/weight.h"

#define N 6
#define K 128

static nabla_engine *engine;
static nabla_scope *scope;
static nabla_diag diag;

static void set_up(void) {
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_compile_options compile = {.struct_size = sizeof compile,
                                         .policy = "off"};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler,
                                        .compile = &compile};
  cr_assert_eq(nabla_engine_create(&options, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
}

static void tear_down(void) {
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
}

TestSuite(array_packed, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- a weight that the codec of quant/ has packed ---- */

typedef struct packed {
  nabla_storage layout;
  float values[N * K], decoded[N * K];
  uint8_t codes[N * K];
  float scales[N * K / 16];
  nabla_weight_desc weight;
} packed;

static packed w;

static void pack(const char *encoding, uint64_t block) {
  nabla_codec codec;
  w.layout = (nabla_storage){
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find(encoding), .block = block}};
  for (size_t i = 0; i < N * K; i++)
    w.values[i] = (float)((int)(i * 37 % 101) - 50) / 25;
  cr_assert_eq(nabla_codec_select(&w.layout.format, NULL, &codec, &diag),
               NABLA_OK);
  const nabla_packed parts = {w.codes, w.scales, NULL};
  cr_assert_eq(nabla_encode(&codec, w.values, NULL, N * K, &parts, NULL, &diag),
               NABLA_OK);
  nabla_decode(&codec, &parts, N * K, w.decoded);
  w.weight = (nabla_weight_desc){
      .rank = 2, .shape = {N, K}, .dtype = NABLA_DTYPE_F32, .layout = w.layout};
  cr_assert_eq(nabla_weight_components(&w.weight, w.weight.components,
                                       &w.weight.component_count, &diag),
               NABLA_OK);
  w.weight.components[0].data = w.codes;
  w.weight.components[1].data = w.scales;
}

static nabla_array *leaf(void) {
  nabla_array *array = nabla_array_of_weight(scope, &w.weight);
  (void)nabla_scope_status(scope, &diag);
  cr_assert_not_null(array, "%s", diag.what);
  return array;
}

static nabla_array *matrix(int64_t rows, int64_t columns, const float *data) {
  const nabla_dense dense = {
      (void *)(uintptr_t)data, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

static const float *read(nabla_array *array) {
  nabla_dense out = {0};
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(out.dtype, NABLA_DTYPE_F32);
  return out.data;
}

/* ---- tests ---- */

Test(array_packed, a_weight_shows_its_dtype_and_decodes_as_quant_does) {
  pack("nf4", 64);
  nabla_array *x = leaf();
  const nabla_dense *shown = nabla_array_dense(x);
  cr_expect_eq(shown->dtype, NABLA_DTYPE_F32);
  cr_expect_eq(shown->rank, 2);
  cr_expect_eq(shown->shape[0], N);
  cr_expect_eq(shown->shape[1], K);
  cr_expect_null(shown->data);
  cr_expect(nabla_array_is_packed(x));
  nabla_array *dense = nabla_materialize(x);
  cr_expect_not(nabla_array_is_packed(dense));
  cr_expect_eq(nabla_materialize(dense), dense);
  cr_expect_arr_eq(read(dense), w.decoded, sizeof w.decoded);
  cr_expect_arr_eq(read(nabla_transpose(
                       nabla_materialize(nabla_transpose(x, NABLA_DIMS(1, 0))),
                       NABLA_DIMS(1, 0))),
                   w.decoded, sizeof w.decoded);
}

static void expect_product(nabla_array *y, const float *x) {
  const float *got = read(y);
  for (size_t n = 0; n < N; n++) {
    double want = 0, size = 0;
    for (size_t k = 0; k < K; k++) {
      want += (double)x[k] * (double)w.decoded[n * K + k];
      size += fabs((double)x[k] * (double)w.decoded[n * K + k]);
    }
    cr_expect(fabs((double)got[n] - want) <= 1e-5 * size, "%zu: %g, not %g", n,
              (double)got[n], want);
  }
}

Test(array_packed, products_take_packed_weights) {
  float x[K];
  for (size_t k = 0; k < K; k++) x[k] = (float)((int)(k % 7) - 3);
  static const char *const names[] = {"nf4", "int8", "fp4"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    pack(names[i], 64);
    nabla_array *a = matrix(1, K, x), *b = leaf();
    expect_product(nabla_linear(a, b, nabla_none()), x);
    expect_product(nabla_matmul(a, nabla_transpose(b, 0, NULL)), x);
  }
}

/* Other weights of the same layout are other arguments of the same program. */
Test(array_packed, other_weights_hit) {
  nabla_engine_statistics before = {.struct_size = sizeof before}, after;
  float x[K];
  for (size_t k = 0; k < K; k++) x[k] = 1;
  pack("nf4", 64);
  expect_product(nabla_linear(matrix(1, K, x), leaf(), nabla_none()), x);
  cr_assert_eq(nabla_engine_count(engine, &before, &diag), NABLA_OK);
  w.scales[0] *= 2;
  nabla_codec codec;
  cr_assert_eq(nabla_codec_select(&w.layout.format, NULL, &codec, &diag),
               NABLA_OK);
  const nabla_packed parts = {w.codes, w.scales, NULL};
  nabla_decode(&codec, &parts, N * K, w.decoded);
  expect_product(nabla_linear(matrix(1, K, x), leaf(), nabla_none()), x);
  after = before;
  cr_assert_eq(nabla_engine_count(engine, &after, &diag), NABLA_OK);
  cr_expect_eq(after.misses, before.misses);
  cr_expect_eq(after.hits, before.hits + 1);
}

Test(array_packed, quantize_gives_the_bytes_of_quant) {
  pack("nf4", 64);
  nabla_array *x = nabla_quantize(matrix(N, K, w.values), &w.layout);
  nabla_weight_desc out;
  cr_assert(nabla_array_is_packed(x));
  cr_assert_eq(nabla_array_weight(x, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(out.component_count, 2);
  cr_expect_arr_eq(out.components[0].data, w.codes, N * K / 2);
  cr_expect_arr_eq(out.components[1].data, w.scales,
                   N * K / 64 * sizeof(float));
  /* a realized packed array is a leaf */
  cr_expect_arr_eq(read(nabla_materialize(x)), w.decoded, sizeof w.decoded);
}

Test(array_packed, pack_and_unpack) {
  pack("nf4", 64);
  nabla_array *parts[3];
  nabla_unpack(leaf(), 2, parts);
  cr_assert_not_null(parts[0]);
  const float *scales = read(parts[1]);
  cr_expect_arr_eq(scales, w.scales, N * K / 64 * sizeof(float));
  nabla_array *halved[2] = {parts[0],
                            nabla_mul(parts[1], nabla_scalar(scope, 0.5))};
  const int64_t shape[2] = {N, K};
  const float *got =
      read(nabla_materialize(nabla_pack(2, halved, &w.layout, 2, shape)));
  for (size_t i = 0; i < N * K; i++)
    cr_expect_eq(got[i], w.decoded[i] / 2, "%zu", i);
  nabla_unpack(leaf(), 3, parts);
  cr_expect_null(parts[0]);
  cr_expect(nabla_scope_status(scope, &diag));
}

/* Where no rule applies, the values are those of the dense array. */
Test(array_packed, other_operations_decode) {
  pack("int8", 64);
  nabla_array *x = leaf();
  const float *got = read(nabla_add(x, nabla_scalar(scope, 1)));
  for (size_t i = 0; i < N * K; i++) cr_expect_eq(got[i], w.decoded[i] + 1);
  got = read(nabla_reshape(x, NABLA_DIMS(-1)));
  cr_expect_arr_eq(got, w.decoded, sizeof w.decoded);
  got = read(nabla_broadcast_to(x, NABLA_DIMS(2, N, K)));
  cr_expect_arr_eq(got + N * K, w.decoded, sizeof w.decoded);
  got = read(nabla_take(x, nabla_integer(scope, -1), 0));
  cr_expect_arr_eq(got, w.decoded + (N - 1) * K, K * sizeof(float));
  nabla_array *half = nabla_convert(x, NABLA_DTYPE_F64);
  cr_expect_eq(nabla_array_dense(half)->dtype, NABLA_DTYPE_F64);
  nabla_dense out;
  cr_assert_eq(
      nabla_array_read(nabla_sum(half, NABLA_ALL_DIMS, 0), &out, &diag),
      NABLA_OK);
  double want = 0;
  for (size_t i = 0; i < N * K; i++) want += (double)w.decoded[i];
  cr_expect(fabs(*(double *)out.data - want) < 1e-9);
  cr_assert_eq(nabla_array_read(nabla_implicit_depth(x), &out, &diag),
               NABLA_OK);
  cr_expect_eq(*(int64_t *)out.data, 1);
}

/* Gives the packed argument, and products with it and a captured weight. */
static nabla_array *captured;

static void record_products(nabla_scope *s, const nabla_tree *in,
                            nabla_tree *out, void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array, *b = in->items[1].array;
  cr_expect(nabla_array_is_packed(b));
  cr_expect_eq(nabla_array_dense(b)->dtype, NABLA_DTYPE_F32);
  out->items[0].array = nabla_linear(x, b, nabla_none());
  out->items[1].array = nabla_linear(x, captured, nabla_none());
  out->items[2].array = b;
}

Test(array_packed, functions_take_give_and_capture) {
  nabla_function *function;
  float x[K];
  for (size_t k = 0; k < K; k++) x[k] = (float)(k % 5);
  pack("nf4", 64);
  captured = leaf();
  cr_assert_eq(
      nabla_function_create(engine, record_products, NULL, &function, &diag),
      NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 2; i++) {
    nabla_tree items[2] = {nabla_tree_of_array(matrix(1, K, x)),
                           nabla_tree_of_array(leaf())};
    nabla_tree given[3] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
    const nabla_tree in = nabla_tree_of_list(2, items);
    nabla_tree out = nabla_tree_of_list(3, given);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s", diag.what);
    expect_product(given[0].array, x);
    expect_product(given[1].array, x);
    nabla_weight_desc weight;
    cr_assert_eq(nabla_array_weight(given[2].array, &weight, &diag), NABLA_OK);
    cr_expect_arr_eq(weight.components[0].data, w.codes, N * K / 2);
  }
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
  nabla_function_destroy(function);
}

Test(array_packed, misuse) {
  nabla_dense out;
  nabla_weight_desc weight;
  pack("nf4", 64);
  nabla_array *x = leaf();
  cr_expect_eq(nabla_array_read(x, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "packed"), "%s", diag.what);
  cr_expect_eq(nabla_array_weight(nabla_materialize(x), &weight, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(nabla_quantize(x, NULL));
  nabla_scope_clear(scope);
  nabla_storage odd = w.layout;
  odd.format.block = 48;
  cr_expect_null(nabla_quantize(nabla_materialize(x), &odd));
  cr_expect(nabla_scope_status(scope, &diag));
  nabla_scope_clear(scope);
  w.weight.components[0].bytes = 3;
  cr_expect_null(nabla_array_of_weight(scope, &w.weight));
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_null(nabla_array_of_weight(scope, NULL));
  nabla_scope_clear(scope);
}
