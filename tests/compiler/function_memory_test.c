/* Trees, functions, control flow, operations of users: each allocation failing
 * once gives a status, and leaves nothing. */
#include <criterion/criterion.h>
#include <string.h>

#include "nabla/dlpack.h"
#include "nabla/function.h"
#include "nabla/operation.h"
#include "tests/support/each_allocation.h"
#include "tests/support/temp_folder.h"

static temp_folder folder; /* with the object cache: a compilation is short */
static char file[300], saved[300];

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "tree.safetensors", file);
  temp_folder_path(&folder, "function", saved);
}

TestSuite(function_memory, .init = set_up, .timeout = 300);

/* ---- what is recorded ---- */

static void square(nabla_scope *scope, const nabla_operation_frame *frame,
                   nabla_array **results) {
  (void)scope;
  results[0] = nabla_mul(frame->operands[0], frame->operands[0]);
}

static const nabla_operation square_operation = {
    .struct_size = sizeof square_operation,
    .name = "memory.square",
    .kind = NABLA_OPERATION_UNARY,
    .body = square};

static void add(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)scope;
  out->array = nabla_add(in->array, self);
}

static void sub(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)scope;
  out->array = nabla_sub(in->array, self);
}

static void sum(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)scope, (void)self;
  out->items[0].array = nabla_add(in->items[0].array, in->items[1].array);
  out->items[1].array = out->items[0].array;
}

static void body(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)self;
  nabla_array *x = in->items[0].array;
  const nabla_tree zero =
      nabla_tree_of_array(nabla_zeros(scope, NABLA_DTYPE_F32, 0, NULL));
  const nabla_tree inputs = nabla_tree_of_array(x);
  const nabla_scan_options options = {
      .struct_size = sizeof options, .initial = &zero, .inputs = &inputs};
  nabla_tree last = nabla_tree_of_array(NULL), sums = nabla_tree_of_array(NULL),
             chosen = nabla_tree_of_array(NULL);
  nabla_scan(sum, NULL, &options, &last, &sums);
  nabla_cond(nabla_less(last.array, zero.array), add, sub, last.array, &sums,
             &chosen);
  out->array = nabla_apply(&square_operation, 1, &chosen.array, NULL);
}

/* ---- runs ---- */

static void call_loaded(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)s;
  nabla_call(self, in, out);
}

/* Calls a loaded function in the trace of another. */
static nabla_status trace_loaded(nabla_engine *engine, nabla_function *loaded,
                                 const nabla_tree *in, nabla_diag *diag) {
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .self = loaded};
  nabla_function *outer;
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_status status =
      nabla_function_create(engine, call_loaded, &options, &outer, diag);
  if (status) return status;
  status = nabla_function_call(outer, in, &out, diag);
  nabla_function_destroy(outer);
  return status;
}

static nabla_status use_saved(nabla_engine *engine, nabla_function *function,
                              const nabla_tree *in, nabla_diag *diag) {
  nabla_function *loaded = NULL;
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_status status = nabla_function_save(function, saved, 1, diag);
  if (!status) status = nabla_function_load(engine, saved, &loaded, diag);
  if (!status) status = nabla_function_call(loaded, in, &out, diag);
  if (!status) status = trace_loaded(engine, loaded, in, diag);
  nabla_function_destroy(loaded);
  return status;
}

static nabla_status use(nabla_engine *engine, nabla_scope *scope,
                        nabla_function *function, nabla_diag *diag) {
  float values[3] = {1, 2, 3};
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 1, {3}};
  nabla_tree item = nabla_tree_of_array(nabla_array_of(scope, &dense));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_session *session = NULL;
  nabla_dlpack_managed *tensor = NULL;
  const nabla_environment environment = {.allocator =
                                             nabla_allocator_default()};
  nabla_status status = nabla_function_call(function, &in, &out, diag);
  if (status) return status;
  status = nabla_array_to_dlpack(out.array, &tensor, diag);
  if (!status) {
    cr_expect_eq(((float *)tensor->dl_tensor.data)[0], 25);
    tensor->deleter(tensor);
    status = nabla_function_session(function, &in, &out, NULL, &session, diag);
    nabla_session_close(session);
  }
  if (!status) status = use_saved(engine, function, &in, diag);
  if (!status) status = nabla_tree_write(&in, file, 1, &environment, diag);
  if (!status) status = nabla_tree_read(scope, file, &environment, &in, diag);
  return status;
}

/* ---- files of all versions ---- */

static void product(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)scope;
  out->array = nabla_linear(in->items[0].array, self, nabla_none());
}

/* Files with a captured packed array and a note: versions 2 and 3. Made with an
 * allocator that works. */
static char version_2[300], version_3[300];

static void make_files(void) {
  float values[2 * 64];
  for (int i = 0; i < 2 * 64; i++) values[i] = (float)(i % 7) - 3;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 64}};
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine;
  nabla_scope *scope;
  nabla_function *function;
  cr_assert_eq(nabla_engine_create(NULL, NULL, &engine, &diag), NABLA_OK);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
  nabla_array *w = nabla_array_of(scope, &dense);
  const nabla_function_options how = {
      .struct_size = sizeof how, .name = "f", .self = nabla_quantize(w, &nf4)};
  cr_assert_eq(nabla_function_create(engine, product, &how, &function, &diag),
               NABLA_OK);
  nabla_tree item = nabla_tree_of_array(w), out = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  temp_folder_path(&folder, "version_2", version_2);
  temp_folder_path(&folder, "version_3", version_3);
  cr_assert_eq(nabla_function_save(function, version_2, 0, &diag), NABLA_OK);
  cr_assert_eq(nabla_function_set_note(function, 6, "a note", &diag), NABLA_OK);
  cr_assert_eq(nabla_function_save(function, version_3, 0, &diag), NABLA_OK);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
}

/* Loads a file, calls it and its copy in a trace, emits its program, and saves
 * it again. */
static nabla_status use_file(nabla_engine *engine, nabla_scope *scope,
                             const char *path, nabla_diag *diag) {
  static float values[2 * 64];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {2, 64}};
  nabla_tree item = nabla_tree_of_array(nabla_array_of(scope, &dense));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_function *loaded = NULL;
  size_t size = 0;
  nabla_blob blob = {0};
  const nabla_sink sink = nabla_blob_sink(&blob);
  const nabla_function_emit_options emit = {
      .struct_size = sizeof emit, .captured = file, .force = 1};
  nabla_status status = nabla_function_load(engine, path, &loaded, diag);
  if (status) return status;
  cr_expect(path != version_3 ||
            (nabla_function_borrow_note(loaded, &size) && size == 6));
  status = nabla_function_call(loaded, &in, &out, diag);
  if (!status) status = trace_loaded(engine, loaded, &in, diag);
  if (!status)
    status = nabla_function_emit(loaded, NABLA_EMIT_MLIR, &emit, &sink, diag);
  nabla_blob_release(&blob);
  if (!status) status = nabla_function_save(loaded, saved, 1, diag);
  nabla_function_destroy(loaded);
  return status;
}

static const char *loaded_file;

static nabla_status run_file(const nabla_allocator *allocator) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_status status =
      create_scope_of(allocator, folder.path, &engine, &scope, &diag);
  if (!status) status = use_file(engine, scope, loaded_file, &diag);
  cr_expect(!status || *diag.what, "no text with %d", (int)status);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status;
}

Test(function_memory, files_with_a_packed_capture) {
  make_files();
  loaded_file = version_2;
  fail_each_allocation(run_file);
  temp_folder_destroy(&folder);
}

Test(function_memory, files_with_a_note) {
  make_files();
  loaded_file = version_3;
  fail_each_allocation(run_file);
  temp_folder_destroy(&folder);
}

/* What was asked for is told, and the scope has a status. */
static nabla_status run(const nabla_allocator *allocator) {
  nabla_diag diag = NABLA_DIAG_INIT;
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  const nabla_function_options how = {
      .struct_size = sizeof how, .name = "f", .dims = dims, .dim_count = 1};
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *function = NULL;
  nabla_status status =
      create_scope_of(allocator, folder.path, &engine, &scope, &diag);
  if (!status)
    status = nabla_function_create(engine, body, &how, &function, &diag);
  if (!status) status = use(engine, scope, function, &diag);
  cr_expect(!status || *diag.what, "no text with %d", (int)status);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status;
}

Test(function_memory, each_allocation_fails_once) {
  nabla_diag diag;
  cr_assert_eq(nabla_add_operation(&square_operation, &diag), NABLA_OK);
  fail_each_allocation(run);
  temp_folder_destroy(&folder);
}
