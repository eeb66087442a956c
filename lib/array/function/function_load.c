/* Loading saved functions: each signature of the file is compiled when it is
 * called first. */

#include <string.h>

#include "lib/array/function/function.h"
#include "lib/array/function/function_file.h"
#include "lib/array/function/tree_packed.h"
#include "lib/array/graph.h"
#include "lib/array/packed.h"
#include "lib/base/file/file.h"
#include "lib/base/require.h"
#include "transforms/ir/ir.h"

/* A larger file is refused. */
#define MAX_FILE (SIZE_MAX / 4)

/* A file that is being loaded. */
typedef struct loading {
  nabla_engine *engine;
  nabla_function *function;
  nabla_recorder *recorder;
  nabla_scope *scope; /* of captured arrays, until they are held */
  nabla_function_file file;
  nabla_buffer bytes;
  nabla_diag *diag;
} loading;

/* ---- signatures ---- */

static nabla_status load_layout(const loading *l, const nabla_file_packed *from,
                                nabla_storage *out) {
  *out = (nabla_storage){
      .kind = (nabla_storage_kind)from->kind,
      .format = {.granularity = (nabla_granularity)from->granularity,
                 .block = from->block,
                 .scale = (nabla_scale_type)from->scale,
                 .zero_point = (int)from->zero_point,
                 .segment = from->segment},
      .nested_block = from->nested_block};
  if (out->kind == NABLA_STORAGE_BLOCKS)
    out->ggml = nabla_ggml_find(from->encoding);
  else
    out->format.encoding = nabla_encoding_find(from->encoding);
  if (out->ggml || out->format.encoding) return NABLA_OK;
  return nabla_fail(l->diag, NABLA_UNSUPPORTED,
                    "the saved function %.80s captures an array of the "
                    "encoding %.80s, which this library does not have",
                    l->file.name, from->encoding);
}

static nabla_status load_packed(const loading *l, const nabla_file_packed *from,
                                nabla_array **out) {
  nabla_weight_desc weight = {.rank = from->rank,
                              .dtype = (nabla_dtype)from->dtype,
                              .component_count = from->component_count};
  NABLA_TRY(load_layout(l, from, &weight.layout));
  if (weight.layout.kind == NABLA_STORAGE_DENSE)
    return nabla_fail(l->diag, NABLA_CORRUPT,
                      "a captured packed array is not packed");
  memcpy(weight.shape, from->shape, from->rank * sizeof from->shape[0]);
  for (uint32_t i = 0; i < from->component_count; i++) {
    weight.components[i].data = from->components[i].data;
    weight.components[i].bytes = from->components[i].size;
  }
  return nabla_tree_copy_weight(l->scope, &weight, out, l->diag);
}

static nabla_status load_captures(const loading *l,
                                  const nabla_file_signature *from,
                                  nabla_traced *to) {
  void *memory;
  NABLA_TRY(nabla_alloc(l->function->allocator, from->capture_count,
                        sizeof(nabla_array *), &memory, l->diag));
  to->captures = memory;
  to->capture_count = from->capture_count; /* NULL where loading ends early */
  for (uint32_t i = 0; i < from->capture_count; i++) {
    const nabla_file_capture *capture = &from->captures[i];
    nabla_array *array = NULL;
    if (capture->packed.encoding)
      NABLA_TRY(load_packed(l, &capture->packed, &array));
    else
      array = nabla_array_of(l->scope, &capture->dense);
    if (!array) return nabla_scope_status(l->scope, l->diag);
    nabla_array_hold(array);
    to->captures[i] = array;
  }
  return NABLA_OK;
}

static nabla_status load_result(const loading *l, const nabla_file_result *from,
                                nabla_traced_result *to) {
  if (*from->packed)
    NABLA_TRY(
        nabla_recorder_parse(l->recorder, from->packed, &to->type, l->diag));
  else
    to->type.dtype = (nabla_dtype)from->dtype;
  if (*from->packed && to->type.rank != from->rank)
    return nabla_fail(l->diag, NABLA_CORRUPT,
                      "a result of another rank than its type");
  to->type.rank = from->rank;
  to->donor = from->donor;
  to->is_open = from->is_open;
  for (uint32_t d = 0; d < from->rank; d++) {
    to->type.shape[d] = from->shape[d];
    to->sizes[d] = (nabla_result_size){from->leaf[d], from->dim[d]};
  }
  return NABLA_OK;
}

static nabla_status load_results(const loading *l,
                                 const nabla_file_signature *from,
                                 nabla_traced *to) {
  void *memory;
  NABLA_TRY(nabla_alloc(l->function->allocator, from->result_count,
                        sizeof(nabla_traced_result), &memory, l->diag));
  to->results = memory;
  to->result_count = from->result_count;
  for (uint32_t i = 0; i < from->result_count; i++)
    NABLA_TRY(load_result(l, &from->results[i], &to->results[i]));
  return NABLA_OK;
}

static nabla_status load_signature(const loading *l,
                                   const nabla_file_signature *from) {
  void *memory;
  nabla_traced *traced;
  const size_t text_size = strlen(from->text) + 1;
  NABLA_TRY(nabla_function_add_saved(l->function, from->key.data,
                                     (size_t)from->key.size, &traced, l->diag));
  NABLA_TRY(
      nabla_alloc(l->function->allocator, 1, text_size, &memory, l->diag));
  traced->text = memcpy(memory, from->text, text_size);
  traced->text_size = text_size;
  traced->policy = (nabla_array_policy)from->policy;
  traced->argument_count = from->argument_count;
  NABLA_TRY(load_captures(l, from, traced));
  NABLA_TRY(load_results(l, from, traced));
  if (!from->bytecode.size) return NABLA_OK;
  return nabla_buffer_append(&traced->bytecode, from->bytecode.data,
                             (size_t)from->bytecode.size, l->diag);
}

/* ---- files ---- */

static nabla_status check_operations(const loading *l) {
  const MlirContext context = nabla_recorder_context(l->recorder);
  for (uint32_t i = 0; i < l->file.operation_count; i++) {
    const char *name = l->file.operations[i];
    if (mlirContextIsRegisteredOperation(context, nabla_ref(name))) continue;
    return nabla_fail(l->diag, NABLA_UNSUPPORTED,
                      "the saved function %.80s needs the operation %.80s, "
                      "which this library does not have",
                      l->file.name, name);
  }
  return NABLA_OK;
}

static nabla_status make_function(loading *l) {
  const nabla_function_file *file = &l->file;
  const nabla_function_options options = {
      .struct_size = sizeof options,
      .name = file->name,
      .dims = file->dims,
      .dim_count = file->dim_count,
      .states = file->states,
      .state_count = file->state_count,
      .donated = file->donated,
      .donated_count = file->donated_count,
      .max_signatures = (size_t)file->signature_count + 1};
  NABLA_TRY(nabla_function_create(l->engine, nabla_function_call_saved,
                                  &options, &l->function, l->diag));
  l->function->options.self = l->function;
  l->function->is_loaded = true;
  if (file->note.size)
    return nabla_function_set_note(l->function, (size_t)file->note.size,
                                   file->note.data, l->diag);
  return NABLA_OK;
}

static nabla_status read_file(loading *l, const char *path) {
  nabla_file *file;
  const nabla_environment *environment = nabla_engine_environment(l->engine);
  NABLA_TRY(nabla_file_open(environment->os, environment->allocator, path,
                            &file, l->diag));
  const nabla_status status =
      nabla_file_read_all(file, MAX_FILE, &l->bytes, l->diag);
  nabla_file_close(file);
  if (status) return status;
  return nabla_function_file_read(&l->file, environment->allocator,
                                  l->bytes.data, l->bytes.size, l->diag);
}

static nabla_status load(loading *l, const char *path) {
  NABLA_TRY(read_file(l, path));
  NABLA_TRY(nabla_engine_take_recorder(l->engine, &l->recorder, l->diag));
  NABLA_TRY(check_operations(l));
  NABLA_TRY(make_function(l));
  NABLA_TRY(nabla_scope_create(l->engine, &l->scope, l->diag));
  /* The last one becomes the newest, as it was when they were saved. */
  for (uint32_t i = l->file.signature_count; i > 0; i--)
    NABLA_TRY(load_signature(l, &l->file.signatures[i - 1]));
  return NABLA_OK;
}

nabla_status nabla_function_load(nabla_engine *engine, const char *path,
                                 nabla_function **out, nabla_diag *diag) {
  NABLA_REQUIRE(engine, diag);
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  loading l = {.engine = engine, .diag = diag};
  nabla_buffer_init(&l.bytes, nabla_engine_allocator(engine),
                    "a saved function", MAX_FILE);
  const nabla_status status = load(&l, path);
  if (status) nabla_diag_set_file(diag, path);
  nabla_scope_end(l.scope);
  if (l.recorder) nabla_engine_give_recorder(engine, l.recorder);
  nabla_function_file_deinit(&l.file);
  nabla_buffer_deinit(&l.bytes);
  if (status)
    nabla_function_destroy(l.function);
  else
    *out = l.function;
  return status;
}

/* ---- calls ---- */

nabla_status nabla_function_compile_saved(nabla_function *function,
                                          nabla_traced *traced,
                                          nabla_diag *diag) {
  traced->bytes = sizeof *traced + traced->key_size + traced->bytecode.size;
  if (function->options.state_count) return NABLA_OK;
  NABLA_TRY(nabla_function_take_program(function, traced, false,
                                        &traced->program, diag));
  traced->bytes += nabla_program_bytes(traced->program);
  traced->counts = nabla_program_counts(traced->program);
  return NABLA_OK;
}

/* A text of limited size. */
typedef struct short_text {
  char data[200];
  size_t size;
} short_text;

static void add_chunk(MlirStringRef chunk, void *self) {
  short_text *text = self;
  const size_t left = sizeof text->data - 1 - text->size;
  const size_t size = chunk.length < left ? chunk.length : left;
  memcpy(text->data + text->size, chunk.data, size);
  text->size += size;
}

nabla_status nabla_function_refuse_unsaved(const nabla_function_arguments *call,
                                           nabla_diag *diag) {
  const nabla_function *function = call->function;
  nabla_recorder *recorder;
  short_text given = {.size = 0}, known = {.size = 0};
  NABLA_TRY(nabla_engine_take_recorder(function->engine, &recorder, diag));
  for (size_t i = 0; i < call->count; i++) {
    if (i) add_chunk(nabla_ref(", "), &given);
    const MlirType type = nabla_recorder_type(nabla_recorder_context(recorder),
                                              &call->leaves[i]->dense);
    mlirTypePrint(type, add_chunk, &given);
  }
  nabla_engine_give_recorder(function->engine, recorder);
  for (const nabla_traced *t = function->newest; t; t = t->older) {
    if (known.size) add_chunk(nabla_ref("; "), &known);
    add_chunk(nabla_ref(t->text), &known);
  }
  const nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "the file of the function %.60s has no signature (%s) of this structure; "
      "it has (%s)",
      function->options.name, given.data, known.data);
  nabla_diag_set_next(diag,
                      "call the function that was saved with such "
                      "arguments, or name the dimension, and save it "
                      "again");
  return status;
}
