/* nabla_session_call of an executable whose compiled code is C: packed arrays
 * in and out, the caller's memory, the caller's allocator, refusals, and each
 * allocation failing. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/runtime/program/code.h"
#include "nabla/session.h"
#include "tests/support/failing_allocator.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { CODES = 64, SCALES = 2 };

/* ---- the code ------------------------------------------------------------ */

/* A buffer of rank 1. */
typedef struct buffer {
  void *allocated, *aligned;
  int64_t offset, size, stride;
} buffer;

static void give(void *const *results, int number, void *data, int64_t size) {
  *(buffer *)results[number] = (buffer){data, data, 0, size, 1};
}

static void fail_memory(const nabla_services *services) {
  services->fail(services, NABLA_FAILURE_NO_MEMORY, "pack", 0, 0);
}

/* codes = those of w plus 1, scales = those of w plus x, and sum, that of both,
 * which is a part of a block: it has to be copied. */
static void pack(const nabla_services *services, void *const *arguments,
                 void *const *results) {
  const buffer *x = arguments[0], *codes = arguments[1], *scales = arguments[2];
  const float add = *(const float *)x->aligned;
  uint8_t *to = services->result(services, 0, CODES);
  float *factors = services->result(services, 1, SCALES * sizeof *factors);
  float *sums = services->allocate(services, 256);
  if (!to || !factors || !sums) {
    fail_memory(services);
    return;
  }
  sums[32] = 0;
  for (int i = 0; i < CODES; i++)
    to[i] = (uint8_t)(((const uint8_t *)codes->aligned)[i] + 1);
  for (int i = 0; i < SCALES; i++)
    factors[i] = ((const float *)scales->aligned)[i] + add;
  for (int i = 0; i < CODES; i++) sums[32] += to[i];
  for (int i = 0; i < SCALES; i++) sums[32] += factors[i];
  give(results, 0, to, CODES);
  give(results, 1, factors, SCALES);
  *(buffer *)results[2] = (buffer){sums, sums + 32, 0, 1, 1};
}

/* Gives one block twice, its argument, and the block's second half. */
static void share(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  const buffer *x = arguments[0];
  float *y = services->result(services, 0, 2 * sizeof *y);
  if (!y) {
    fail_memory(services);
    return;
  }
  y[0] = 2 * *(const float *)x->aligned;
  y[1] = 3 * *(const float *)x->aligned;
  for (int i = 0; i < 2; i++) *(buffer *)results[i] = (buffer){y, y, 0, 1, 1};
  *(buffer *)results[2] = *x;
  *(buffer *)results[3] = (buffer){y, y, 1, 1, 1};
}

#define VALUE(name) "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[1]}"
#define PACKED                                               \
  "\"dtype\":\"F32\",\"shape\":[4,32],\"encoding\":\"nf4\"," \
  "\"granularity\":\"block\",\"block\":64,\"components\":["  \
  "{\"name\":\"codes\",\"dtype\":\"U8\",\"bytes\":64},"      \
  "{\"name\":\"scales\",\"dtype\":\"F32\",\"bytes\":8}]"
#define CODES_RESULT(rest) \
  "{\"name\":\"codes\",\"dtype\":\"U8\",\"shape\":[64]" rest "}"
#define SCALES_RESULT(name, size) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[" size "]}"
#define PROGRAM(results) \
  "{\"abi\":1,\"functions\":[{\"name\":\"pack\",\"arguments\":["          \
  VALUE("x") ",{\"name\":\"w\"," PACKED "}],\"results\":[" results "]},"  \
  "{\"name\":\"share\",\"arguments\":[" VALUE("x") "],\"results\":["      \
  VALUE("") "," VALUE("") "," VALUE("") "," VALUE("") "]}]}"
#define FIRST CODES_RESULT(",\"packed\":{" PACKED "}")

static const char manifest[] =
    PROGRAM(FIRST "," SCALES_RESULT("scales", "2") "," VALUE(""));

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  return !strcmp(symbol, "nabla_entry_pack") ? pack : share;
}

/* ---- the tests ----------------------------------------------------------- */

static nabla_diag diag;
static failing_allocator memory, results;
static nabla_environment environment;
static nabla_executable *executable;
static nabla_session *session;
static uint8_t codes[CODES];
static float scales[SCALES] = {.5F, .25F}, x = 2;
static nabla_weight_desc weight;

static nabla_status create(const char *text) {
  const nabla_code code = {NULL, text, look_up, NULL, 0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_create(&code, &environment, &executable, &diag);
}

static void set_up(void) {
  failing_allocator_init(&memory, 0);
  failing_allocator_init(&results, 0);
  environment = (nabla_environment){.allocator = &memory.allocator};
  cr_assert_eq(create(manifest), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag),
               NABLA_OK);
  for (int i = 0; i < CODES; i++) codes[i] = (uint8_t)i;
  weight = (nabla_weight_desc){
      .name = "w",
      .rank = 2,
      .shape = {4, 32},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("nf4"),
                            .granularity = NABLA_PER_BLOCK,
                            .block = 64}},
      .component_count = 2,
      .components = {{NULL, NABLA_DTYPE_U8, codes, sizeof codes},
                     {NULL, NABLA_DTYPE_F32, scales, sizeof scales}}};
}

static void close_all(void) {
  nabla_session_close(session);
  nabla_executable_close(executable);
  session = NULL, executable = NULL;
}

static void tear_down(void) {
  close_all();
  cr_expect(failing_allocator_is_clean(&memory));
  cr_expect(failing_allocator_is_clean(&results));
}

TestSuite(session_call, .init = set_up, .fini = tear_down);

static nabla_dense one(float *data) {
  return (nabla_dense){
      .data = data, .dtype = NABLA_DTYPE_F32, .rank = 1, .shape = {1}};
}

static nabla_status call_pack(nabla_weight_desc *out, nabla_dense *sum) {
  const nabla_session_input inputs[] = {{.dense = one(&x)},
                                        {.weight = &weight}};
  nabla_session_output outputs[] = {{.weight = out}, {.dense = *sum}};
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = inputs,
                                       .input_count = COUNT(inputs),
                                       .outputs = outputs,
                                       .output_count = COUNT(outputs),
                                       .allocator = &results.allocator};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  const nabla_status status =
      nabla_session_call(session, "pack", &arrays, &diag);
  *sum = outputs[1].dense;
  return status;
}

static void expect_packed(const nabla_weight_desc *got, float add) {
  cr_assert_eq(got->component_count, 2);
  const uint8_t *to = got->components[0].data;
  const float *factors = got->components[1].data;
  for (int i = 0; i < CODES; i++) cr_expect_eq(to[i], i + 1);
  for (int i = 0; i < SCALES; i++) cr_expect_eq(factors[i], scales[i] + add);
}

static void free_packed(nabla_weight_desc *got) {
  for (uint32_t i = 0; i < got->component_count; i++)
    nabla_result_free(&results.allocator,
                      (void *)(uintptr_t)got->components[i].data);
}

Test(session_call, packed_in_and_out_outlive_the_executable) {
  nabla_weight_desc got = {.name = "mine"};
  nabla_dense sum = {0};
  cr_assert_eq(call_pack(&got, &sum), NABLA_OK, "%s", diag.what);
  close_all();
  expect_packed(&got, 2);
  cr_expect_eq(*(float *)sum.data, 2080 + 4.75F);
  cr_expect_str_eq(got.name, "mine");
  cr_expect(nabla_storage_equal(&got.layout, &weight.layout));
  cr_expect_eq(got.rank, 2);
  cr_expect_eq(got.shape[1], 32);
  cr_expect_eq(got.dtype, NABLA_DTYPE_F32);
  cr_expect_str_eq(got.components[1].name, "scales");
  cr_expect_eq(nabla_weight_check(&got, &diag), NABLA_OK, "%s", diag.what);
  free_packed(&got);
  nabla_result_free(&results.allocator, sum.data);
}

/* What was given is an input of the next call: it is a whole description. */
Test(session_call, a_result_is_an_input) {
  nabla_weight_desc got = {0}, again = {0};
  nabla_dense sum = {0}, other = {0};
  cr_assert_eq(call_pack(&got, &sum), NABLA_OK);
  weight = got;
  cr_assert_eq(call_pack(&again, &other), NABLA_OK, "%s", diag.what);
  cr_expect_eq(((const uint8_t *)again.components[0].data)[5], 7);
  free_packed(&got);
  free_packed(&again);
  nabla_result_free(&results.allocator, sum.data);
  nabla_result_free(&results.allocator, other.data);
}

Test(session_call, the_callers_memory_is_written_and_nothing_allocated) {
  float room = 0;
  void *to[] = {nabla_result_allocate(NULL, CODES),
                nabla_result_allocate(NULL, sizeof scales)};
  nabla_dense sum = one(&room);
  nabla_weight_desc got = weight;
  for (int i = 0; i < 2; i++) {
    cr_assert_eq((uintptr_t)to[i] % 64, 0);
    got.components[i].data = to[i];
  }
  cr_assert_eq(call_pack(&got, &sum), NABLA_OK, "%s", diag.what);
  const size_t requests = memory.requests;
  x = 3;
  cr_assert_eq(call_pack(&got, &sum), NABLA_OK, "%s", diag.what);
  cr_expect_eq(memory.requests, requests);
  cr_expect_eq(results.requests, 0);
  cr_expect_eq(got.components[0].data, to[0]);
  expect_packed(&got, 3);
  cr_expect_eq(room, 2080 + 6.75F);
  for (int i = 0; i < 2; i++) nabla_result_free(NULL, to[i]);
}

/* The result may be where the input is: it is written when all was read. */
Test(session_call, in_place) {
  float room = 0;
  nabla_dense sum = one(&room);
  nabla_weight_desc got = weight;
  cr_assert_eq(call_pack(&got, &sum), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < CODES; i++) cr_expect_eq(codes[i], i + 1);
  cr_expect_eq(scales[0], 2.5F);
  scales[0] = .5F, scales[1] = .25F;
}

Test(session_call, results_that_share_a_block) {
  float given = 5;
  const nabla_session_input input = {.dense = one(&given)};
  nabla_session_output outputs[4] = {0};
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = &input,
                                       .input_count = 1,
                                       .outputs = outputs,
                                       .output_count = 4,
                                       .allocator = &results.allocator};
  static const float expected[] = {10, 10, 5, 15};
  cr_assert_eq(nabla_session_call(session, "share", &arrays, &diag), NABLA_OK,
               "%s", diag.what);
  for (int i = 0; i < 4; i++) {
    cr_expect_eq(*(float *)outputs[i].dense.data, expected[i]);
    for (int j = 0; j < i; j++)
      cr_expect_neq(outputs[i].dense.data, outputs[j].dense.data);
  }
  for (int i = 0; i < 4; i++)
    nabla_result_free(&results.allocator, outputs[i].dense.data);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect_refused(nabla_status status, const char *what) {
  cr_expect_eq(status, NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, what), "'%s' says not '%s'", diag.what, what);
}

static nabla_status call_with(const nabla_session_input *inputs, size_t count,
                              nabla_session_output *outputs, size_t room) {
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = inputs,
                                       .input_count = count,
                                       .outputs = outputs,
                                       .output_count = room};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_session_call(session, "pack", &arrays, &diag);
}

Test(session_call, inputs_are_checked) {
  nabla_weight_desc got = {0}, other = weight;
  nabla_session_input inputs[] = {{.dense = one(&x)}, {.weight = &weight}};
  nabla_session_output outputs[] = {{.weight = &got}, {.weight = NULL}};
  expect_refused(call_with(inputs, 1, outputs, 2),
                 "'pack' takes 2 inputs (x, w); 1 were given");
  other.shape[0] = 8;
  inputs[1].weight = &other;
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "argument 'w' takes nf4 in blocks of 64, [4,32]; the weight "
                 "is nf4 in blocks of 64, [8,32]");
  other = weight;
  other.components[1].bytes = 4;
  expect_refused(call_with(inputs, 2, outputs, 2), "argument 'w': ");
  inputs[1] = (nabla_session_input){.dense = one(&x)};
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "input 1 ('w') takes nf4 in blocks of 64, [4,32]; a dense "
                 "array was given");
  inputs[1] = (nabla_session_input){.weight = &weight};
  inputs[0] = (nabla_session_input){.weight = &weight};
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "argument 'x' takes F32 [1]; the weight is nf4");
  cr_expect_eq(got.component_count, 0);
}

/* A dense argument takes a dense weight, too. */
Test(session_call, a_dense_weight_is_an_input) {
  const nabla_weight_desc dense = {
      .rank = 1,
      .shape = {1},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{NULL, NABLA_DTYPE_F32, &x, sizeof x}}};
  const nabla_session_input inputs[] = {{.weight = &dense},
                                        {.weight = &weight}};
  nabla_weight_desc got = {0};
  nabla_session_output outputs[] = {{.weight = &got}, {.weight = NULL}};
  cr_assert_eq(call_with(inputs, 2, outputs, 2), NABLA_OK, "%s", diag.what);
  expect_packed(&got, 2);
  for (int i = 0; i < 2; i++)
    nabla_result_free(NULL, (void *)(uintptr_t)got.components[i].data);
  nabla_result_free(NULL, outputs[1].dense.data);
}

Test(session_call, outputs_are_checked) {
  nabla_weight_desc got = weight;
  const nabla_session_input inputs[] = {{.dense = one(&x)},
                                        {.weight = &weight}};
  nabla_session_output outputs[3] = {{.weight = &got}};
  expect_refused(call_with(inputs, 2, outputs, 3),
                 "'pack' gives 2 results; there is room for 3");
  got.layout.format.block = 32;
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "result 0 is nf4 in blocks of 64, [4,32]; its array is nf4 in "
                 "blocks of 32, [4,32]");
  got = weight;
  got.components[0].bytes = 63;
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "result 0 is nf4 in blocks of 64, [4,32]; ");
  outputs[0].weight = NULL;
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "give its output a weight, not a dense array");
  got = weight;
  outputs[0].weight = outputs[1].weight = &got;
  expect_refused(call_with(inputs, 2, outputs, 2),
                 "result 1 is F32 [1]; give its output no weight");
}

Test(session_call, a_run_of_dense_arrays_wants_bound_weights) {
  const nabla_dense inputs[] = {one(&x), one(&x)};
  nabla_dense outputs[3] = {{0}};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  expect_refused(
      nabla_session_run(session, "pack", inputs, 2, outputs, 3, &diag),
      "argument 'w' of 'pack' is not bound");
}

/* ---- memory -------------------------------------------------------------- */

/* Each allocation of a call fails once, ours or of the results: nothing is
 * lost, outputs are untouched, and the next call is good. */
static int fail_each(failing_allocator *of) {
  int failures = 0;
  for (size_t fail = 1;; fail++) {
    nabla_weight_desc got = {0};
    nabla_dense sum = {0};
    nabla_session *const first = session;
    cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag),
                 NABLA_OK);
    of->fail_at = of->requests + fail;
    const nabla_status status = call_pack(&got, &sum);
    of->fail_at = 0;
    if (status) {
      cr_expect_eq(status, NABLA_NO_MEMORY);
      cr_expect_eq(got.component_count, 0);
      cr_expect_null(sum.data);
      cr_expect_eq(results.live_blocks, 0);
      cr_assert_eq(call_pack(&got, &sum), NABLA_OK, "%s", diag.what);
    }
    free_packed(&got);
    nabla_result_free(&results.allocator, sum.data);
    nabla_session_close(session);
    session = first;
    if (!status) return failures;
    failures++;
  }
}

Test(session_call, no_memory) {
  cr_expect_eq(fail_each(&memory), 1);
  cr_expect_eq(fail_each(&results), 3);
}

/* ---- manifests ----------------------------------------------------------- */

Test(session_call_manifest, hostile) {
  static const char *const bad[] = {
      PROGRAM(FIRST "," SCALES_RESULT("scales", "3")),
      PROGRAM(FIRST "," SCALES_RESULT("scale", "2")),
      PROGRAM(FIRST),
      PROGRAM(FIRST "," FIRST),
      PROGRAM(CODES_RESULT(",\"packed\":{\"dtype\":\"F32\",\"shape\":[4],"
                           "\"encoding\":\"splat\",\"components\":[]}")),
      PROGRAM(CODES_RESULT(",\"packed\":{" PACKED "},\"packed\":{" PACKED "}")),
      PROGRAM(CODES_RESULT(",\"packed\":[]")),
  };
  environment = (nabla_environment){0};
  for (size_t i = 0; i < COUNT(bad); i++) {
    const nabla_status status = create(bad[i]);
    cr_expect(status == NABLA_CORRUPT || status == NABLA_UNSUPPORTED,
              "%zu: %d %s", i, (int)status, diag.what);
  }
}
