/* Saving functions: their signatures as bytecode of version 4, in the container
 * of function_file.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "lib/array/function/function.h"
#include "lib/array/function/function_file.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/base/file/file.h"
#include "lib/base/require.h"
#include "transforms/ir/ir.h"

/* Attributes are written by name up to this version, so that operations may get
 * further ones. */
#define BYTECODE_VERSION 4
#define TEXT_LIMIT       ((size_t)1000)

/* A signature that is being saved. */
typedef struct saved_signature {
  nabla_traced *traced; /* given back at the end */
  nabla_buffer text, bytecode;
} saved_signature;

typedef struct saving {
  nabla_function *function;
  nabla_recorder *recorder;
  nabla_buffer parts;      /* saved_signature      */
  nabla_buffer signatures; /* nabla_file_signature */
  nabla_buffer operations; /* const char *, of the context */
  nabla_buffer note;       /* a copy: another thread may give another one */
  nabla_buffer out;
  uint32_t version; /* of the container */
  nabla_status status;
  nabla_diag *diag;
} saving;

/* ---- programs ---- */

/* A buffer that MLIR writes to, and whether it could. */
typedef struct written {
  nabla_buffer *buffer;
  nabla_status status;
  nabla_diag *diag;
} written;

static void write_chunk(MlirStringRef chunk, void *self) {
  written *w = self;
  if (!w->status && chunk.length)
    w->status =
        nabla_buffer_append(w->buffer, chunk.data, chunk.length, w->diag);
}

static MlirWalkResult add_operation(MlirOperation op, void *self) {
  saving *s = self;
  const char *name = mlirIdentifierStr(mlirOperationGetName(op)).data;
  const char **known = (const char **)(void *)s->operations.data;
  const size_t count = s->operations.size / sizeof *known;
  for (size_t i = 0; i < count; i++)
    if (known[i] == name) return MlirWalkResultAdvance; /* names are unique */
  s->status = nabla_buffer_append(&s->operations, &name, sizeof name, s->diag);
  return s->status ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

/* "x: tensor<3xf32>, ..." */
static nabla_status describe(const saving *s, MlirModule module,
                             saved_signature *part) {
  written w = {&part->text, NABLA_OK, s->diag};
  const MlirOperation main = nabla_function_in(module, nabla_ref("main"));
  const MlirType type = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(main, nabla_ref("function_type")));
  for (size_t i = 0; i < part->traced->argument_count; i++) {
    if (i) write_chunk(nabla_ref(", "), &w);
    mlirTypePrint(mlirFunctionTypeGetInput(type, (intptr_t)i), write_chunk, &w);
    if (part->text.size > TEXT_LIMIT) {
      write_chunk(nabla_ref(", ..."), &w);
      break;
    }
  }
  if (w.status) return w.status;
  return nabla_buffer_append(&part->text, "", 1, s->diag);
}

static nabla_status write_module(saving *s, MlirModule module,
                                 saved_signature *part) {
  written w = {&part->bytecode, NABLA_OK, s->diag};
  const MlirOperation op = mlirModuleGetOperation(module);
  NABLA_TRY(describe(s, module, part));
  mlirOperationWalk(op, add_operation, s, MlirWalkPreOrder);
  if (s->status) return s->status;
  const MlirBytecodeWriterConfig config = mlirBytecodeWriterConfigCreate();
  mlirBytecodeWriterConfigDesiredEmitVersion(config, BYTECODE_VERSION);
  const MlirLogicalResult result =
      mlirOperationWriteBytecodeWithConfig(op, config, write_chunk, &w);
  mlirBytecodeWriterConfigDestroy(config);
  if (!w.status && mlirLogicalResultIsFailure(result))
    return nabla_fail(s->diag, NABLA_CORRUPT,
                      "the function %s cannot be written as bytecode of "
                      "version %d",
                      s->function->options.name, BYTECODE_VERSION);
  return w.status;
}

static nabla_status write_program(saving *s, saved_signature *part) {
  const nabla_traced *traced = part->traced;
  const nabla_buffer *from =
      traced->ruled.size ? &traced->ruled : &traced->bytecode;
  const MlirModule module = mlirModuleCreateParse(
      nabla_recorder_context(s->recorder),
      mlirStringRefCreate((const char *)from->data, from->size));
  if (mlirModuleIsNull(module))
    return nabla_fail(s->diag, NABLA_CORRUPT,
                      "a traced function does not parse");
  const nabla_status status = write_module(s, module, part);
  mlirModuleDestroy(module);
  return status;
}

/* ---- signatures ---- */

static void fill_result(const nabla_traced_result *from,
                        nabla_file_result *to) {
  const bool is_packed = nabla_dtype_is_packed(from->type.dtype);
  *to = (nabla_file_result){
      .dtype = is_packed ? 0 : (uint32_t)from->type.dtype,
      .packed = is_packed ? nabla_packed_text(from->type.dtype) : "",
      .rank = from->type.rank,
      .donor = from->donor,
      .is_open = from->is_open};
  for (uint32_t d = 0; d < to->rank; d++) {
    const bool is_known = from->type.shape[d] >= 0;
    to->shape[d] = is_known ? from->type.shape[d] : NABLA_DYNAMIC;
    to->leaf[d] = is_known ? UINT32_MAX : from->sizes[d].leaf;
    to->dim[d] = is_known ? 0 : from->sizes[d].dim;
  }
}

/* Components stay where they are. */
static nabla_status fill_packed(saving *s, const nabla_array *array,
                                nabla_file_packed *to) {
  const nabla_weight_desc *weight = &array->packed->weight;
  const nabla_storage *layout = &weight->layout;
  const nabla_format *format = &layout->format;
  const char *name = NULL;
  if (layout->kind == NABLA_STORAGE_BLOCKS && layout->ggml)
    name = layout->ggml->name;
  else if (layout->kind != NABLA_STORAGE_BLOCKS && format->encoding)
    name = format->encoding->name;
  if (!name)
    return nabla_fail(s->diag, NABLA_UNSUPPORTED,
                      "the function %s captures a packed array of an encoding "
                      "that files have no name for",
                      s->function->options.name);
  if (s->version < 2) s->version = 2;
  *to = (nabla_file_packed){.encoding = name,
                            .kind = (uint32_t)layout->kind,
                            .granularity = (uint32_t)format->granularity,
                            .scale = (uint32_t)format->scale,
                            .zero_point = format->zero_point ? 1 : 0,
                            .nested_block = layout->nested_block,
                            .block = format->block,
                            .segment = format->segment,
                            .dtype = (uint32_t)weight->dtype,
                            .rank = weight->rank,
                            .component_count = weight->component_count};
  memcpy(to->shape, weight->shape, weight->rank * sizeof to->shape[0]);
  for (uint32_t i = 0; i < weight->component_count; i++)
    to->components[i] = (nabla_file_bytes){weight->components[i].data,
                                           weight->components[i].bytes};
  return NABLA_OK;
}

/* Fills lists of `to`, which are freed with it. */
static nabla_status fill_arrays(saving *s, const nabla_traced *traced,
                                nabla_file_signature *to) {
  void *memory;
  const nabla_allocator *allocator = s->function->allocator;
  NABLA_TRY(nabla_alloc(allocator, traced->capture_count,
                        sizeof(nabla_file_capture), &memory, s->diag));
  to->captures = memory;
  to->capture_count = (uint32_t)traced->capture_count;
  for (size_t i = 0; i < traced->capture_count; i++) {
    if (traced->captures[i]->packed)
      NABLA_TRY(fill_packed(s, traced->captures[i], &to->captures[i].packed));
    else
      NABLA_TRY(nabla_array_whole(traced->captures[i], &to->captures[i].dense,
                                  s->diag));
  }
  NABLA_TRY(nabla_alloc(allocator, traced->result_count,
                        sizeof(nabla_file_result), &memory, s->diag));
  to->results = memory;
  to->result_count = (uint32_t)traced->result_count;
  for (size_t i = 0; i < traced->result_count; i++)
    fill_result(&traced->results[i], &to->results[i]);
  return NABLA_OK;
}

static nabla_status fill_signature(saving *s, const saved_signature *part,
                                   nabla_file_signature *to) {
  const nabla_traced *traced = part->traced;
  to->text = (const char *)part->text.data;
  to->key = (nabla_file_bytes){traced->key, traced->key_size};
  to->bytecode = (nabla_file_bytes){part->bytecode.data, part->bytecode.size};
  to->policy = (uint32_t)traced->policy;
  to->argument_count = (uint32_t)traced->argument_count;
  return fill_arrays(s, traced, to);
}

/* Takes the signatures, and writes the program of each. */
static nabla_status take_signatures(saving *s) {
  nabla_traced *traced = nabla_function_next(s->function, NULL);
  while (traced) {
    const nabla_allocator *allocator = s->function->allocator;
    saved_signature part = {.traced = traced};
    nabla_buffer_init(&part.text, allocator, "a signature", SIZE_MAX / 2);
    nabla_buffer_init(&part.bytecode, allocator, "a function", SIZE_MAX / 2);
    const nabla_status status =
        nabla_buffer_append(&s->parts, &part, sizeof part, s->diag);
    if (status) nabla_function_give(s->function, traced);
    if (status) return status;
    saved_signature *kept =
        (saved_signature *)(void *)(s->parts.data + s->parts.size) - 1;
    NABLA_TRY(write_program(s, kept));
    traced = nabla_function_next(s->function, traced);
  }
  return NABLA_OK;
}

static nabla_status fill_signatures(saving *s) {
  const saved_signature *parts = (const saved_signature *)(void *)s->parts.data;
  const size_t count = s->parts.size / sizeof *parts;
  if (!count)
    return nabla_fail(s->diag, NABLA_INVALID_ARGUMENT,
                      "the function %s has no signature yet: it is saved after "
                      "its first call",
                      s->function->options.name);
  NABLA_TRY(nabla_buffer_append(&s->signatures, NULL,
                                count * sizeof(nabla_file_signature), s->diag));
  nabla_file_signature *list =
      (nabla_file_signature *)(void *)s->signatures.data;
  for (size_t i = 0; i < count; i++)
    NABLA_TRY(fill_signature(s, &parts[i], &list[i]));
  return NABLA_OK;
}

/* ---- files ---- */

static nabla_status take_note(saving *s) {
  nabla_function *function = s->function;
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&function->lock);
  if (function->note.size) {
    s->version = 3;
    status = nabla_buffer_append(&s->note, function->note.data,
                                 function->note.size, s->diag);
  }
  pthread_mutex_unlock(&function->lock);
  return status;
}

static nabla_status write_body(saving *s) {
  const nabla_function *function = s->function;
  NABLA_TRY(take_note(s));
  NABLA_TRY(
      nabla_engine_take_recorder(function->engine, &s->recorder, s->diag));
  NABLA_TRY(take_signatures(s));
  NABLA_TRY(fill_signatures(s));
  const nabla_function_file file = {
      .version = s->version,
      .name = function->options.name,
      .operation_count = (uint32_t)(s->operations.size / sizeof(const char *)),
      .operations = (const char **)(void *)s->operations.data,
      .dim_count = (uint32_t)function->options.dim_count,
      .dims = function->dims,
      .state_count = (uint32_t)function->options.state_count,
      .states = function->states,
      .donated_count = (uint32_t)function->options.donated_count,
      .donated = function->donated,
      .note = {s->note.data, s->note.size},
      .signature_count =
          (uint32_t)(s->signatures.size / sizeof(nabla_file_signature)),
      .signatures = (nabla_file_signature *)(void *)s->signatures.data};
  return nabla_function_file_write(&file, &s->out, s->diag);
}

static nabla_status write_file(const saving *s, const char *path, int force) {
  nabla_output *output;
  const nabla_output_options options = {
      .os = nabla_engine_environment(s->function->engine)->os,
      .allocator = s->function->allocator,
      .force = force,
      .expected = s->out.size};
  NABLA_TRY(nabla_output_create(path, &options, &output, s->diag));
  nabla_status status =
      nabla_output_write(output, 0, s->out.data, s->out.size, s->diag);
  if (!status) status = nabla_output_commit(output, s->diag);
  nabla_output_destroy(output);
  return status;
}

static void deinit(saving *s) {
  const nabla_allocator *allocator = s->function->allocator;
  saved_signature *parts = (saved_signature *)(void *)s->parts.data;
  const size_t count = s->parts.size / sizeof *parts;
  for (size_t i = 0; i < count; i++) {
    nabla_buffer_deinit(&parts[i].text);
    nabla_buffer_deinit(&parts[i].bytecode);
    nabla_function_give(s->function, parts[i].traced);
  }
  const nabla_file_signature *list =
      (const nabla_file_signature *)(void *)s->signatures.data;
  for (size_t i = 0; i < s->signatures.size / sizeof *list; i++) {
    nabla_free(allocator, list[i].captures, list[i].capture_count,
               sizeof(nabla_file_capture));
    nabla_free(allocator, list[i].results, list[i].result_count,
               sizeof(nabla_file_result));
  }
  nabla_buffer_deinit(&s->parts);
  nabla_buffer_deinit(&s->signatures);
  nabla_buffer_deinit(&s->operations);
  nabla_buffer_deinit(&s->note);
  nabla_buffer_deinit(&s->out);
  if (s->recorder) nabla_engine_give_recorder(s->function->engine, s->recorder);
}

nabla_status nabla_function_save(nabla_function *function, const char *path,
                                 int force, nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(path, diag);
  const nabla_allocator *allocator = function->allocator;
  saving s = {.function = function, .version = 1, .diag = diag};
  nabla_buffer_init(&s.parts, allocator, "signatures", SIZE_MAX / 2);
  nabla_buffer_init(&s.signatures, allocator, "signatures", SIZE_MAX / 2);
  nabla_buffer_init(&s.operations, allocator, "operations", SIZE_MAX / 2);
  nabla_buffer_init(&s.note, allocator, "a note", SIZE_MAX / 2);
  nabla_buffer_init(&s.out, allocator, "a saved function", SIZE_MAX / 2);
  nabla_status status = write_body(&s);
  if (!status) status = write_file(&s, path, force);
  if (status) nabla_diag_set_file(diag, path);
  deinit(&s);
  return status;
}
