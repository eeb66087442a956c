/* Saved functions: loaded in another engine they give the same bytes, and a
 * file of another process its results; files that are damaged are refused. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/array/function/function_file_hash.h"
#include "nabla/function.h"
#include "tests/support/function_file.h"

#define GOLDEN        NABLA_GOLDEN_DIR "/function-v1.nabla"
#define GOLDEN_PACKED NABLA_GOLDEN_DIR "/function-v2.nabla"
#define GOLDEN_NOTE   NABLA_GOLDEN_DIR "/function-v3.nabla"

static nabla_function *function;

static void end(void) {
  nabla_function_destroy(function);
  end_file();
}

TestSuite(function_save, .init = begin, .fini = end, .timeout = 300);

static void save(nabla_function_callback callback, void *self,
                 nabla_function_options options) {
  options.struct_size = sizeof options;
  options.name = "f";
  options.self = self;
  cr_assert_eq(
      nabla_function_create(engine, callback, &options, &function, &diag),
      NABLA_OK, "%s", diag.what);
}

/* Saves, and makes everything anew. */
static void reload(void) {
  cr_assert_eq(nabla_function_save(function, file, 0, &diag), NABLA_OK, "%s",
               diag.what);
  nabla_function_destroy(function);
  tear_down();
  set_up();
  cr_assert_eq(nabla_function_load(engine, file, &function, &diag), NABLA_OK,
               "%s", diag.what);
}

static nabla_status call(nabla_array *x, nabla_array **out) {
  nabla_tree item = nabla_tree_of_array(x);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_status status =
      nabla_function_call(function, &in, &result, &diag);
  *out = result.array;
  return status;
}

static void run(nabla_array *x, float *out) {
  nabla_array *array;
  nabla_dense dense;
  cr_assert_eq(call(x, &array), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_array_read(array, &dense, &diag), NABLA_OK);
  size_t count = 1;
  for (uint32_t d = 0; d < dense.rank; d++) count *= (size_t)dense.shape[d];
  memcpy(out, dense.data, count * sizeof *out);
}

/* tanh(x + captured) * 3 */
static void affine(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  nabla_array *x = in->items[0].array;
  if (self) x = nabla_add(x, self);
  out->array = nabla_mul(nabla_tanh(x), nabla_scalar(s, 3));
}

Test(function_save, signatures_and_captured_arrays_give_the_same_bytes) {
  float want[2][4] = {{0}}, got[2][4] = {{0}};
  save(affine, vector(1), (nabla_function_options){0});
  run(vector(3), want[0]);
  run(vector(4), want[1]);
  reload();
  run(vector(3), got[0]);
  run(vector(4), got[1]);
  cr_expect(!memcmp(want, got, sizeof want));
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 0);
  cr_expect_eq(counts.hits, 2);
  cr_expect_eq(counts.signatures, 2);
}

Test(function_save, a_loaded_function_is_saved_again) {
  float want[3], got[3];
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  save(affine, NULL, (nabla_function_options){0});
  run(vector(3), want);
  reload();
  cr_assert_eq(nabla_function_print(function, &sink, &diag), NABLA_OK);
  cr_expect(strstr(text.bytes, "nabla.tanh"), "%s", text.bytes);
  nabla_blob_release(&text);
  cr_expect_eq(nabla_function_save(function, file, 0, &diag), NABLA_EXISTS);
  cr_assert_eq(unlink(file), 0);
  reload();
  run(vector(3), got);
  cr_expect(!memcmp(want, got, sizeof want));
}

Test(function_save, other_signatures_are_refused_by_name) {
  float got[3];
  nabla_array *out;
  save(affine, NULL, (nabla_function_options){0});
  run(vector(3), got);
  reload();
  cr_expect_eq(call(vector(4), &out), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "no signature (tensor<4xf32>)"), "%s", diag.what);
  cr_expect(strstr(diag.what, "it has (tensor<3xf32>)"), "%s", diag.what);
  nabla_scope_clear(scope);
  run(vector(3), got);
}

Test(function_save, named_dimensions_take_any_size) {
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  float want[8] = {0}, got[8] = {0};
  save(affine, NULL, (nabla_function_options){.dims = dims, .dim_count = 1});
  run(vector(3), want);
  run(vector(7), want);
  reload();
  run(vector(7), got);
  cr_expect(!memcmp(want, got, sizeof want));
}

static void doubled(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_add(in->items[0].array, in->items[0].array);
}

/* Whether the result has the memory of the argument. */
static bool call_donated(void) {
  nabla_array *x = vector(3);
  nabla_dense dense;
  cr_assert_eq(nabla_array_read(x, &dense, &diag), NABLA_OK, "%s", diag.what);
  const void *memory = dense.data;
  nabla_tree item = nabla_tree_of_array(x), result = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_list(1, &result);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_read(result.array, &dense, &diag), NABLA_OK);
  cr_expect_eq(((const float *)dense.data)[1], 2.6F);
  return dense.data == memory;
}

Test(function_save, donated_arguments_are_written_in_place) {
  static const nabla_function_replacement donated[] = {{"0", "0"}};
  save(doubled, NULL,
       (nabla_function_options){.donated = donated, .donated_count = 1});
  cr_expect(call_donated());
  reload();
  cr_expect(call_donated());
}

static void step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_add(in->items[0].array, in->items[1].array);
  out->items[1].array = nabla_mul(out->items[0].array, out->items[0].array);
}

static nabla_session *make_session(void) {
  nabla_session *session;
  nabla_tree items[2] = {nabla_tree_of_array(vector(3)),
                         nabla_tree_of_array(vector(3))},
             outs[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  const nabla_tree in = nabla_tree_of_list(2, items),
                   out = nabla_tree_of_list(2, outs);
  cr_assert_eq(
      nabla_function_session(function, &in, &out, NULL, &session, &diag),
      NABLA_OK, "%s", diag.what);
  return session;
}

static void run_session(float out[3]) {
  nabla_session *session = make_session();
  const float x[3] = {1, 2, 3};
  const nabla_dense input = {(void *)x, NABLA_DTYPE_F32, 1, {3}};
  nabla_dense output = {out, NABLA_DTYPE_F32, 1, {3}};
  for (int i = 0; i < 2; i++)
    cr_assert_eq(
        nabla_session_run(session, "main", &input, 1, &output, 1, &diag),
        NABLA_OK, "%s", diag.what);
  nabla_session_close(session);
}

Test(function_save, states_live_in_sessions) {
  static const nabla_function_replacement states[] = {{"0", "0"}};
  float want[3], got[3];
  save(step, NULL,
       (nabla_function_options){.states = states, .state_count = 1});
  run_session(want);
  reload();
  run_session(got);
  cr_expect(!memcmp(want, got, sizeof want));
  cr_expect_float_eq(got[0], 2.3F * 2.3F, 1e-5F);
}

static void product(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)s;
  out->array = nabla_materialize(self ? self : in->items[0].array);
}

static nabla_array *packed(void) {
  float values[128];
  for (int i = 0; i < 128; i++) values[i] = (float)(i % 7) - 3;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 64}};
  const nabla_storage nf4 = {.kind = NABLA_STORAGE_PLANES,
                             .format = {.encoding = nabla_encoding_find("nf4"),
                                        .granularity = NABLA_PER_BLOCK,
                                        .block = 64,
                                        .scale = NABLA_SCALE_F32}};
  return nabla_quantize(nabla_array_of(scope, &dense), &nf4);
}

Test(function_save, packed_arguments_are_told_by_their_type) {
  float want[128], got[128];
  save(product, NULL, (nabla_function_options){0});
  run(packed(), want);
  reload();
  run(packed(), got);
  cr_expect(!memcmp(want, got, sizeof want));
}

Test(function_save, packed_captures_stay_packed) {
  float want[128], got[128];
  save(product, packed(), (nabla_function_options){0});
  run(vector(3), want);
  reload();
  run(vector(3), got);
  cr_expect(!memcmp(want, got, sizeof want));
  cr_assert_eq(unlink(file), 0);
  reload(); /* what was loaded is saved again */
  memset(got, 0, sizeof got);
  run(vector(3), got);
  cr_expect(!memcmp(want, got, sizeof want));
  cr_expect_float_eq(got[0], -3, 1e-6F);
}

Test(function_save, captured_views_of_packed_arrays_stay_views) {
  static const int64_t order[2] = {1, 0};
  float want[128], got[128];
  nabla_array *turned = nabla_transpose(packed(), 2, order);
  cr_expect(nabla_array_is_packed(turned));
  save(product, turned, (nabla_function_options){0});
  run(vector(3), want);
  reload();
  run(vector(3), got);
  cr_expect(!memcmp(want, got, sizeof want));
  cr_expect_float_eq(got[0], -3, 1e-6F);
  cr_expect_eq(got[1], got[2]); /* values 64 and 1, which are alike */
}

Test(function_save, nothing_is_saved_before_a_call) {
  save(affine, NULL, (nabla_function_options){0});
  cr_expect_eq(nabla_function_save(function, file, 0, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "has no signature yet"), "%s", diag.what);
}

/* ---- files ---- */

/* Runs a function with a packed capture; saves it where `made` is a path. */
static void run_of_packed(float out[128], const char *made) {
  save(product, packed(), (nabla_function_options){0});
  run(vector(3), out);
  if (made)
    cr_assert_eq(nabla_function_save(function, made, 1, &diag), NABLA_OK, "%s",
                 diag.what);
}

/* Made by the first version of the format: it loads for ever. */
Test(function_save, golden_file_loads) {
  static const float want[3] = {0x1.9c744p+0F, 0x1.61ebb4p+1F, 0x1.7bc958p+1F};
  float got[3];
  const char *made = getenv("NABLA_MAKE_GOLDEN");
  if (made) {
    save(affine, vector(1), (nabla_function_options){0});
    run(vector(3), got);
    printf("golden: %a %a %a\n", (double)got[0], (double)got[1],
           (double)got[2]);
    cr_assert_eq(nabla_function_save(function, made, 1, &diag), NABLA_OK);
    return;
  }
  cr_assert_eq(nabla_function_load(engine, GOLDEN, &function, &diag), NABLA_OK,
               "%s", diag.what);
  run(vector(3), got);
  for (int i = 0; i < 3; i++) cr_expect_float_eq(got[i], want[i], 1e-6F);
}

/* Made by the second version, which has captured packed arrays. */
Test(function_save, golden_file_of_a_packed_capture_loads) {
  float want[128], got[128];
  const char *made = getenv("NABLA_MAKE_GOLDEN_PACKED");
  run_of_packed(want, made);
  if (made) return;
  nabla_function_destroy(function);
  cr_assert_eq(nabla_function_load(engine, GOLDEN_PACKED, &function, &diag),
               NABLA_OK, "%s", diag.what);
  run(vector(3), got);
  cr_expect(!memcmp(want, got, sizeof want));
}

static void expect_note(const char *want) {
  size_t size;
  const char *note = nabla_function_borrow_note(function, &size);
  cr_expect_eq(size, strlen(want));
  cr_expect(note ? !memcmp(note, want, size) : !size);
}

/* Made by the third version, which has notes. */
Test(function_save, golden_file_with_a_note_loads) {
  float got[3];
  const char *made = getenv("NABLA_MAKE_GOLDEN_NOTE");
  if (made) {
    save(affine, vector(1), (nabla_function_options){0});
    run(vector(3), got);
    cr_assert_eq(nabla_function_set_note(function, 6, "a note", &diag),
                 NABLA_OK);
    cr_assert_eq(nabla_function_save(function, made, 1, &diag), NABLA_OK);
    return;
  }
  cr_assert_eq(nabla_function_load(engine, GOLDEN_NOTE, &function, &diag),
               NABLA_OK, "%s", diag.what);
  expect_note("a note");
  run(vector(3), got);
  cr_expect_float_eq(got[0], 0x1.9c744p+0F, 1e-6F);
}

Test(function_save, notes_are_replaced_and_saved) {
  float got[3];
  save(affine, NULL, (nabla_function_options){0});
  run(vector(3), got);
  expect_note("");
  for (int i = 0; i < 2; i++)
    cr_assert_eq(
        nabla_function_set_note(function, 5, i ? "other" : "first", &diag),
        NABLA_OK);
  reload();
  expect_note("other");
  cr_assert_eq(nabla_function_set_note(function, 0, NULL, &diag), NABLA_OK);
  cr_assert_eq(unlink(file), 0);
  reload();
  expect_note("");
  cr_expect_eq(nabla_function_set_note(function, SIZE_MAX / 4, "", &diag),
               NABLA_TOO_LARGE);
}

/* A loaded function takes any tree of results with as many leaves. */
Test(function_save, results_of_another_structure_are_taken_in_order) {
  float got[3];
  nabla_dense dense;
  save(affine, NULL, (nabla_function_options){0});
  run(vector(3), got);
  reload();
  nabla_tree item = nabla_tree_of_array(vector(3)),
             results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_list(1, results);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_read(results[0].array, &dense, &diag), NABLA_OK);
  cr_expect(!memcmp(dense.data, got, sizeof got));
  out = nabla_tree_of_list(2, results);
  cr_expect_eq(nabla_function_call(function, &in, &out, &diag),
               NABLA_INVALID_ARGUMENT);
}

static size_t read_golden(const char *path, unsigned char *out,
                          size_t capacity) {
  FILE *from = fopen(path, "rb");
  cr_assert(from);
  const size_t size = fread(out, 1, capacity, from);
  cr_assert(!fclose(from) && size > 40 && size < capacity);
  return size;
}

static nabla_status load_bytes(const unsigned char *bytes, size_t size) {
  FILE *to = fopen(file, "wb");
  cr_assert(to && fwrite(bytes, 1, size, to) == size && !fclose(to));
  return nabla_function_load(engine, file, &function, &diag);
}

static void refuse_damaged(const char *path) {
  static unsigned char bytes[1 << 16];
  const size_t size = read_golden(path, bytes, sizeof bytes);
  for (size_t i = 0; i < size; i++) {
    bytes[i] ^= 0x10;
    const nabla_status status = load_bytes(bytes, size);
    cr_assert(status == NABLA_CORRUPT || status == NABLA_UNSUPPORTED,
              "byte %zu: %d", i, (int)status);
    cr_assert(*diag.what && !function);
    bytes[i] ^= 0x10;
  }
  for (size_t i = 0; i < size; i++)
    cr_assert_eq(load_bytes(bytes, i), NABLA_CORRUPT, "%zu bytes", i);
  cr_expect_eq(load_bytes(bytes, size), NABLA_OK, "%s", diag.what);
}

Test(function_save, damaged_files_are_refused) { refuse_damaged(GOLDEN); }

Test(function_save, damaged_files_with_notes_are_refused) {
  refuse_damaged(GOLDEN_NOTE);
}

Test(function_save, damaged_files_of_packed_captures_are_refused) {
  refuse_damaged(GOLDEN_PACKED);
}

/* A saved function that says other things, and has the hash of that: hostile,
 * where bytes that are damaged have another one. */
static void load_hostile(const char *path, bool calls) {
  static unsigned char bytes[1 << 16];
  const size_t size = read_golden(path, bytes, sizeof bytes);
  static const unsigned char changes[] = {0x01, 0x04, 0x80, 0xFF};
  for (size_t i = 40; i < size; i++)
    for (size_t k = 0; k < sizeof changes; k++) {
      nabla_array *out;
      bytes[i] ^= changes[k];
      nabla_function_file_hash(bytes, size, bytes + 24);
      const nabla_status status = load_bytes(bytes, size);
      cr_assert_eq(!status, function != NULL);
      cr_assert(!status || *diag.what, "byte %zu", i);
      if (!status && calls) (void)!call(vector(3), &out);
      nabla_function_destroy(function);
      function = NULL;
      bytes[i] ^= changes[k];
    }
}

Test(function_save, hostile_files_do_no_harm) {
  load_hostile(GOLDEN, getenv("NABLA_CALLS"));
  load_hostile(GOLDEN_NOTE, getenv("NABLA_CALLS"));
  load_hostile(GOLDEN_PACKED, getenv("NABLA_CALLS"));
}
