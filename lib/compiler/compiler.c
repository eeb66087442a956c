/* The implementation of nabla/compiler.h. */
#include "nabla/compiler.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file/file.h"
#include "lib/base/require.h"
#include "lib/base/thread.h"
#include "lib/compiler/bytecode.h"
#include "lib/compiler/cache.h"
#include "lib/compiler/codegen.h"
#include "lib/compiler/context.h"
#include "lib/compiler/header.h"
#include "lib/compiler/jit.h"
#include "lib/compiler/key.h"
#include "lib/compiler/link.h"
#include "lib/compiler/options.h"
#include "lib/compiler/outside.h"
#include "lib/compiler/target.h"
#include "lib/runtime/program/saved_program.h"
#include "transforms/fused/single_gemm.h"
#include "transforms/pipelines.h"
#include "transforms/shard/annotate.h"

#define PROGRAM_LIMIT ((size_t)1 << 30) /* bytes of a program */

struct nabla_compiler {
  nabla_environment environment;
  nabla_context context;
  nabla_cache *cache;
  nabla_machine *target; /* of the last compilation, kept: slow to make */
  nabla_compile_report report;
  int store_failed; /* the warning about the cache was given */
};

/* One compilation of a program. */
typedef struct job {
  nabla_compiler *compiler;
  const nabla_compile_options *options; /* NULL until read if defaults */
  nabla_text pipeline;
  nabla_text asked, outside; /* also in the key: options; contents of files
                                and what this process has registered */
  nabla_cache_key key;
  bool keyed; /* the program can be cached */
  bool is_bytecode;
  size_t object_size; /* of the result */
  int is_static;      /* the result is an object with a C header */
} job;

nabla_status nabla_compiler_create(const nabla_compiler_options *options,
                                   const nabla_environment *environment,
                                   nabla_compiler **out, nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  static const nabla_compiler_options defaults = {.struct_size =
                                                      sizeof defaults};
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "compiler options", diag);
  nabla_compiler *compiler = calloc(1, sizeof *compiler);
  if (!compiler)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a compiler");
  if (environment) compiler->environment = *environment;
  nabla_context_init(&compiler->context, options->diagnostic,
                     options->diagnostic_self);
  char why[256];
  nabla_status status = nabla_cache_open(options->cache, options->cache_limit,
                                         &compiler->cache, why, diag);
  if (!status && *why) {
    char text[300];
    snprintf(text, sizeof text, "warning: %s", why);
    nabla_context_say(&compiler->context, text);
  }
  if (status)
    nabla_compiler_destroy(compiler);
  else
    *out = compiler;
  return status;
}

void nabla_compiler_destroy(nabla_compiler *compiler) {
  if (!compiler) return;
  nabla_context_deinit(&compiler->context);
  nabla_cache_close(compiler->cache);
  nabla_machine_destroy(compiler->target);
  free(compiler);
}

nabla_compile_report nabla_compiler_last_report(
    const nabla_compiler *compiler) {
  const nabla_dispatch_counts *counts = &compiler->context.counts;
  nabla_compile_report report = compiler->report;
  report.materializations = counts->materializations;
  report.rules = counts->replaced;
  report.declined = counts->declined;
  report.fused = counts->fused;
  return report;
}

/* ---- options ---- */

static nabla_status use_target(nabla_compiler *compiler, const char *text,
                               nabla_diag *diag) {
  const char *wanted = text && *text ? text : "native";
  if (compiler->target && !strcmp(compiler->target->text, wanted))
    return NABLA_OK;
  nabla_machine *target;
  NABLA_TRY(nabla_machine_create(wanted, &target, diag));
  nabla_machine_destroy(compiler->target);
  compiler->target = target;
  return NABLA_OK;
}

/* Whether the target names AMX. Objects for other programs to link use AMX only
 * then, since those programs have to ask the system for it. */
static int names_tiles(const char *target) {
  return target && strstr(target, "+amx") != NULL;
}

static nabla_status write_pipeline(job *j, const nabla_option_values *values,
                                   nabla_diag *diag) {
  nabla_options_describe(values, &j->asked);
  nabla_text_add(&j->pipeline, "builtin.module(");
  NABLA_TRY(nabla_pipeline_write(NABLA_PIPELINE_cpu, values->list, &j->pipeline,
                                 diag));
  nabla_text_add(&j->pipeline, ")");
  if (j->pipeline.failed || j->asked.failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a pipeline");
  return NABLA_OK;
}

static nabla_status read_options(job *j, nabla_diag *diag) {
  static const nabla_compile_options defaults = {.struct_size =
                                                     sizeof defaults};
  if (!j->options) j->options = &defaults;
  const nabla_compile_options *options = j->options;
  NABLA_REQUIRE_SIZE(options, "compile options", diag);
  NABLA_TRY(use_target(j->compiler, options->target, diag));
  char features[256];
  int with_tiles = !j->is_static || names_tiles(options->target);
  nabla_features_format(nabla_machine_kernels(j->compiler->target, with_tiles),
                        features, sizeof features);
  nabla_option_values values = {0};
  nabla_status status = nabla_option_values_init(
      &values, options, j->compiler->target, features, diag);
  if (!status) status = write_pipeline(j, &values, diag);
  nabla_option_values_deinit(&values);
  return status;
}

nabla_context *nabla_compiler_context(nabla_compiler *compiler) {
  return &compiler->context;
}

/* ---- compiling ---- */

static nabla_status parse(job *j, const char *text, size_t size,
                          const char *name, MlirModule *out, nabla_diag *diag) {
  nabla_compiler *compiler = j->compiler;
  NABLA_TRY(nabla_context_begin(&compiler->context, name, diag));
  double start = nabla_milliseconds();
  NABLA_TRY(
      j->is_bytecode
          ? nabla_context_read(&compiler->context, text, size, out, diag)
          : nabla_context_parse(&compiler->context, text, size, out, diag));
  compiler->report.parse_ms = nabla_milliseconds() - start;
  if (!mlirOperationIsNull(mlirBlockGetFirstOperation(mlirModuleGetBody(*out))))
    return NABLA_OK;
  mlirModuleDestroy(*out);
  nabla_status status = nabla_fail(diag, NABLA_CORRUPT, "the program is empty");
  nabla_diag_set_file(diag, name);
  nabla_diag_set_next(diag, "a program has functions: func.func @f(...)");
  return status;
}

static nabla_status run_passes(job *j, MlirModule module, nabla_diag *diag) {
  nabla_compiler *compiler = j->compiler;
  double start = nabla_milliseconds();
  if (nabla_options_have_files(j->options))
    nabla_context_forget_passes(&compiler->context);
  const nabla_compile_options *options = j->options;
  nabla_status status = NABLA_OK;
  if (!nabla_shard_annotate(mlirModuleGetOperation(module),
                            options->mesh ? options->mesh : "",
                            options->shard ? options->shard : ""))
    status = nabla_fail(diag, NABLA_CORRUPT,
                        "the program cannot be divided as --mesh and --shard "
                        "ask");
  if (!status)
    status =
        nabla_context_run(&compiler->context, module, j->pipeline.data, diag);
  compiler->report.passes_ms = nabla_milliseconds() - start;
  return status;
}

static nabla_status link_object(nabla_compiler *compiler, const void *object,
                                size_t size, nabla_executable **out,
                                nabla_diag *diag) {
  nabla_code code;
  double start = nabla_milliseconds();
  NABLA_TRY(nabla_jit_link(compiler->target, object, size, &code, diag));
  NABLA_TRY(nabla_executable_create(&code, &compiler->environment, out, diag));
  compiler->report.link_ms = nabla_milliseconds() - start;
  return NABLA_OK;
}

/* Returns 1 if an entry of the cache was linked into `*out`. An entry that is
 * found but cannot be linked is removed. */
static int take_cached(job *j, nabla_executable **out) {
  nabla_compiler *compiler = j->compiler;
  nabla_cache_entry entry;
  double start = nabla_milliseconds();
  if (!nabla_cache_find(compiler->cache, &j->key, &entry)) return 0;
  nabla_status status =
      nabla_object_check(entry.object, entry.object_size, NULL);
  if (!status)
    status = link_object(compiler, entry.object, entry.object_size, out, NULL);
  if (status) {
    nabla_cache_remove(compiler->cache, &j->key);
  } else {
    compiler->report.from_cache = 1;
    j->object_size = entry.object_size;
    compiler->report.link_ms = nabla_milliseconds() - start;
    nabla_context_replay(&compiler->context, entry.diagnostics,
                         entry.diagnostics_size);
  }
  free(entry.memory);
  return !status;
}

/* Whether rule files and registrations are the same as when the key was made:
 * only then may the object be stored under it. */
static bool is_unchanged(const job *j) {
  nabla_text now = {0};
  bool known,
      same = !nabla_outside_describe(j->options, &now, &known, NULL) && known &&
             now.size == j->outside.size &&
             (!now.size || !memcmp(now.data, j->outside.data, now.size));
  nabla_text_deinit(&now);
  return same;
}

static void store(job *j, LLVMMemoryBufferRef object) {
  nabla_compiler *compiler = j->compiler;
  if (!j->keyed || !is_unchanged(j)) return;
  const nabla_context *context = &compiler->context;
  if (context->record_failed) return;
  nabla_cache_entry entry = {
      .object = (const uint8_t *)LLVMGetBufferStart(object),
      .object_size = LLVMGetBufferSize(object),
      .diagnostics = context->recorded.data,
      .diagnostics_size = context->recorded.size,
  };
  int error = nabla_cache_store(compiler->cache, &j->key, &entry);
  if (!error || compiler->store_failed) return;
  char text[200];
  compiler->store_failed = 1;
  snprintf(text, sizeof text, "warning: the cache cannot be written: %s",
           strerror(error));
  nabla_context_say(context, text);
}

static nabla_status build(job *j, MlirModule module, nabla_executable **out,
                          nabla_diag *diag) {
  nabla_compiler *compiler = j->compiler;
  LLVMMemoryBufferRef object;
  NABLA_TRY(run_passes(j, module, diag));
  NABLA_TRY(nabla_codegen(mlirModuleGetOperation(module), compiler->target,
                          NABLA_EMIT_OBJ, &object, NULL, &compiler->report,
                          diag));
  nabla_status status = link_object(compiler, LLVMGetBufferStart(object),
                                    LLVMGetBufferSize(object), out, diag);
  j->object_size = LLVMGetBufferSize(object);
  if (!status) store(j, object);
  LLVMDisposeMemoryBuffer(object);
  return status;
}

/* Makes the key from the program, the pipeline, the options, and dependencies
 * outside the program (outside.h). */
static nabla_status make_key(job *j, MlirModule module, nabla_diag *diag) {
  nabla_text all = {0};
  nabla_status status =
      nabla_outside_describe(j->options, &j->outside, &j->keyed, diag);
  nabla_text_add(&all, "%s\n%s%s", j->pipeline.data, j->asked.data,
                 j->outside.data ? j->outside.data : "");
  if (!status && all.failed)
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a key");
  if (!status && j->keyed)
    status =
        nabla_key_make(module, all.data, j->compiler->target, &j->key, diag);
  nabla_text_deinit(&all);
  return status;
}

static nabla_status compile(job *j, const char *text, size_t size,
                            const char *name, nabla_executable **out,
                            nabla_diag *diag) {
  nabla_compiler *compiler = j->compiler;
  MlirModule module;
  NABLA_TRY(read_options(j, diag));
  if (compiler->target->is_foreign) {
    nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "target '%s' is another kind of machine than this one",
                   compiler->target->text);
    nabla_diag_set_next(diag, "write a file for it: nabla-compile -o OUT.o");
    return status;
  }
  if (compiler->target->missing) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED, "this machine lacks %s, which target '%s' has",
        compiler->target->missing, compiler->target->text);
    nabla_diag_set_next(diag, "compile for 'native', or run it elsewhere");
    return status;
  }
  NABLA_TRY(parse(j, text, size, name, &module, diag));
  nabla_status status = NABLA_OK;
  if (compiler->cache) status = make_key(j, module, diag);
  if (!status && !(j->keyed && take_cached(j, out)))
    status = build(j, module, out, diag);
  mlirModuleDestroy(module);
  return status;
}

/* The arguments of nabla_compile_*, which runs on a thread with a larger stack.
 */
typedef struct compile_call {
  job job;
  const char *text; /* text[size] is NUL */
  size_t size;
  const char *name;
  nabla_executable **out;
  nabla_status status;
  nabla_diag *diag;
} compile_call;

static void run_compile(void *self) {
  compile_call *c = self;
  c->status = compile(&c->job, c->text, c->size, c->name, c->out, c->diag);
}

static nabla_status compile_aside(compile_call *c) {
  c->job.compiler->report = (nabla_compile_report){0};
  NABLA_TRY(nabla_stack_run(run_compile, c, c->diag));
  nabla_text_deinit(&c->job.pipeline);
  nabla_text_deinit(&c->job.asked);
  nabla_text_deinit(&c->job.outside);
  return c->status;
}

static nabla_status copy_text(const char *text, size_t size, nabla_buffer *out,
                              nabla_diag *diag) {
  nabla_buffer_init(out, NULL, "a program", PROGRAM_LIMIT);
  nabla_status status = nabla_buffer_append(out, text, size, diag);
  if (!status) status = nabla_buffer_append(out, NULL, 1, diag);
  if (status) nabla_buffer_deinit(out);
  return status;
}

nabla_status nabla_compile_text(nabla_compiler *compiler, const char *text,
                                size_t size, const char *name,
                                const nabla_compile_options *options,
                                nabla_executable **out, nabla_diag *diag) {
  NABLA_REQUIRE(compiler, diag);
  if (size) NABLA_REQUIRE(text, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(out, diag);
  nabla_buffer copy;
  NABLA_TRY(copy_text(text, size, &copy, diag));
  compile_call c = {.job = {.compiler = compiler, .options = options},
                    .text = (const char *)copy.data,
                    .size = size,
                    .name = name,
                    .out = out,
                    .diag = diag};
  const nabla_status status = compile_aside(&c);
  nabla_buffer_deinit(&copy);
  return status;
}

nabla_status nabla_compile_bytecode(nabla_compiler *compiler,
                                    const void *bytecode, size_t size,
                                    const nabla_compile_options *options,
                                    nabla_executable **out, size_t *out_code,
                                    nabla_diag *diag) {
  compile_call c = {
      .job = {.compiler = compiler, .options = options, .is_bytecode = true},
      .text = bytecode,
      .size = size,
      .name = "graph",
      .out = out,
      .diag = diag};
  const nabla_status status = compile_aside(&c);
  *out_code = c.job.object_size;
  return status;
}

static nabla_status read_program(const nabla_compiler *compiler,
                                 const char *path, nabla_buffer *out,
                                 nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(compiler->environment.os,
                            compiler->environment.allocator, path, &file,
                            diag));
  nabla_buffer_init(out, NULL, "a program", PROGRAM_LIMIT);
  nabla_status status = nabla_file_read_all(file, PROGRAM_LIMIT - 1, out, diag);
  if (!status) status = nabla_buffer_append(out, NULL, 1, diag); /* a NUL */
  nabla_file_close(file);
  if (status) nabla_diag_set_file(diag, path);
  if (status) nabla_buffer_deinit(out);
  return status;
}

nabla_status nabla_compile_file(nabla_compiler *compiler, const char *path,
                                const nabla_compile_options *options,
                                nabla_executable **out, nabla_diag *diag) {
  NABLA_REQUIRE(compiler, diag);
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  nabla_buffer text;
  NABLA_TRY(read_program(compiler, path, &text, diag));
  compile_call c = {.job = {.compiler = compiler, .options = options},
                    .text = (const char *)text.data,
                    .size = text.size - 1,
                    .name = path,
                    .out = out,
                    .diag = diag};
  const nabla_status status = compile_aside(&c);
  nabla_buffer_deinit(&text);
  return status;
}

/* ---- emitting ---- */

static bool is_product(const void *module, const char *function) {
  return nabla_single_gemm_has(*(const MlirOperation *)module, function);
}

/* Writes the C header of the object that is made from `module`. */
static nabla_status emit_header(MlirOperation module, const char *prefix,
                                const nabla_sink *to, nabla_diag *diag) {
  MlirAttribute text = mlirOperationGetAttributeByName(
      module, mlirStringRefCreateFromCString("nabla.manifest"));
  if (mlirAttributeIsNull(text) || !mlirAttributeIsAString(text))
    return nabla_fail(diag, NABLA_CORRUPT, "the program has no manifest");
  MlirStringRef json = mlirStringAttrGetValue(text);
  nabla_manifest manifest;
  NABLA_TRY(
      nabla_manifest_parse(NULL, json.data, json.length, &manifest, diag));
  const nabla_status status =
      nabla_header_write(&manifest, prefix, is_product, &module, to, diag);
  nabla_manifest_deinit(&manifest);
  return status;
}

static void say(const void *context, const char *text) {
  nabla_context_say(context, text);
}

/* Writes a saved program: a shared library, then a record with its target. */
static nabla_status emit_saved(nabla_compiler *compiler, const void *object,
                               size_t size, const nabla_x86_features *needed,
                               const nabla_sink *to, nabla_diag *diag) {
  nabla_buffer file;
  double start = nabla_milliseconds();
  nabla_buffer_init(&file, NULL, "a saved program", NABLA_SAVED_MAX);
  nabla_status status =
      nabla_link_library(object, size, &file, say, &compiler->context, diag);
  if (!status)
    status = nabla_saved_append(&file, compiler->target->triple, needed, diag);
  compiler->report.link_ms = nabla_milliseconds() - start;
  if (!status) status = to->write(to->self, file.data, file.size, diag);
  nabla_buffer_deinit(&file);
  return status;
}

/* What to emit, and the sinks that get it. */
typedef struct destination {
  nabla_emission emission;
  const nabla_sink *to;
  const nabla_sink *header; /* or NULL */
  const char *prefix;
  const char *program; /* its name, for errors */
} destination;

/* The arguments and results of nabla_emit_*. The compiler runs on a thread with
 * a larger stack; the linker is started, and sinks are called, on the caller's
 * thread. */
typedef struct emit_call {
  job job;
  const char *text;
  size_t size;
  const destination *to;
  nabla_buffer header, mlir;
  LLVMMemoryBufferRef code; /* NULL: `mlir` is the result */
  nabla_x86_features needed;
  nabla_status status;
  nabla_diag *diag;
} emit_call;

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  return nabla_buffer_append(self, data, size, diag);
}

static nabla_status emit(emit_call *c, MlirModule module) {
  const destination *d = c->to;
  NABLA_TRY(run_passes(&c->job, module, c->diag));
  const MlirOperation operation = mlirModuleGetOperation(module);
  if (d->header) {
    const nabla_sink header = {append, &c->header};
    const nabla_status status =
        emit_header(operation, d->prefix, &header, c->diag);
    if (status) nabla_diag_set_file(c->diag, d->program);
    if (status) return status;
  }
  if (d->emission == NABLA_EMIT_MLIR)
    return nabla_context_print(operation, &c->mlir, c->diag);
  nabla_compiler *compiler = c->job.compiler;
  return nabla_codegen(
      operation, compiler->target,
      d->emission == NABLA_EMIT_SO ? NABLA_EMIT_OBJ : d->emission, &c->code,
      &c->needed, &compiler->report, c->diag);
}

static nabla_status emit_terminated(emit_call *c, const char *text) {
  MlirModule module;
  NABLA_TRY(read_options(&c->job, c->diag));
  NABLA_TRY(parse(&c->job, text, c->size, c->to->program, &module, c->diag));
  const nabla_status status = emit(c, module);
  mlirModuleDestroy(module);
  return status;
}

static void run_emit(void *self) {
  emit_call *c = self;
  nabla_buffer copy;
  c->status = copy_text(c->text, c->size, &copy, c->diag);
  if (c->status) return;
  c->status = emit_terminated(c, (const char *)copy.data);
  nabla_buffer_deinit(&copy);
}

static nabla_status write_result(emit_call *c) {
  const destination *d = c->to;
  const nabla_sink *to = d->to;
  if (d->header)
    NABLA_TRY(d->header->write(d->header->self, c->header.data, c->header.size,
                               c->diag));
  if (!c->code) return to->write(to->self, c->mlir.data, c->mlir.size, c->diag);
  const char *data = LLVMGetBufferStart(c->code);
  const size_t size = LLVMGetBufferSize(c->code);
  return d->emission == NABLA_EMIT_SO
             ? emit_saved(c->job.compiler, data, size, &c->needed, to, c->diag)
             : to->write(to->self, data, size, c->diag);
}

static nabla_status emit_aside(emit_call *c) {
  c->job.compiler->report = (nabla_compile_report){0};
  c->job.is_static = c->to->header != NULL;
  nabla_buffer_init(&c->header, NULL, "a header", SIZE_MAX / 2);
  nabla_buffer_init(&c->mlir, NULL, "a module", SIZE_MAX / 2);
  nabla_status status = nabla_stack_run(run_emit, c, c->diag);
  if (!status) status = c->status;
  if (!status) status = write_result(c);
  if (c->code) LLVMDisposeMemoryBuffer(c->code);
  nabla_buffer_deinit(&c->header);
  nabla_buffer_deinit(&c->mlir);
  nabla_text_deinit(&c->job.pipeline);
  nabla_text_deinit(&c->job.asked);
  return status;
}

nabla_status nabla_emit_text(nabla_compiler *compiler, const char *text,
                             size_t size, const char *name,
                             const nabla_compile_options *options,
                             nabla_emission emission, const nabla_sink *sink,
                             nabla_diag *diag) {
  NABLA_REQUIRE(compiler, diag);
  if (size) NABLA_REQUIRE(text, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(sink, diag);
  const destination d = {.emission = emission, .to = sink, .program = name};
  emit_call c = {.job = {.compiler = compiler, .options = options},
                 .text = text,
                 .size = size,
                 .to = &d,
                 .diag = diag};
  return emit_aside(&c);
}

nabla_status nabla_emit_static(nabla_compiler *compiler, const char *text,
                               size_t size, const char *name,
                               const nabla_compile_options *options,
                               const nabla_static_sinks *sinks,
                               nabla_diag *diag) {
  NABLA_REQUIRE(compiler, diag);
  if (size) NABLA_REQUIRE(text, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(sinks, diag);
  NABLA_REQUIRE_SIZE(sinks, "sinks", diag);
  const destination d = {.emission = NABLA_EMIT_OBJ,
                         .to = &sinks->object,
                         .header = &sinks->header,
                         .prefix = sinks->prefix,
                         .program = name};
  emit_call c = {.job = {.compiler = compiler, .options = options},
                 .text = text,
                 .size = size,
                 .to = &d,
                 .diag = diag};
  return emit_aside(&c);
}
