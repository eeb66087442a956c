/* The model: opened, compiled or loaded, and bound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

#if LLAMA_COMPILES
#include "nabla/compiler.h"

/* What --mesh divides: what the weights of a block are follows from its first
 * ones; tokens of the vocabulary, of which a model may have two matrices. */
#define BLOCKS \
  "*.q_proj.weight=[{\"model\"}, {}];*.gate_proj.weight=[{\"model\"}, {}]"
#define TOKENS "model.embed_tokens.weight=[{\"model\"}, {}]"
#define HEAD   "lm_head.weight"

static const char *shardings(const nabla_blob *program) {
  return memmem(program->bytes, program->size, HEAD, sizeof HEAD - 1)
             ? BLOCKS ";" TOKENS ";" HEAD "=[{\"model\"}, {}]"
             : BLOCKS ";" TOKENS;
}

/* A file that is whole, or not there. */
static nabla_status write_file(const char *path, const nabla_blob *bytes,
                               nabla_diag *diag) {
  FILE *file = fopen(path, "wb");
  const size_t done = file ? fwrite(bytes->bytes, 1, bytes->size, file) : 0;
  if (file && !fclose(file) && done == bytes->size) return NABLA_OK;
  if (file) (void)remove(path);
  const nabla_status status = nabla_fail(diag, NABLA_IO, "cannot be written");
  nabla_diag_set_file(diag, path);
  return status;
}

static nabla_status compile(engine *e, const settings *s, nabla_diag *diag) {
  nabla_blob text = {0}, program = {0};
  const nabla_sink to_text = nabla_blob_sink(&text),
                   to_program = nabla_blob_sink(&program);
  nabla_decoder_options decoder = {.struct_size = sizeof decoder,
                                   .context = s->context};
  const nabla_compiler_options how = {.struct_size = sizeof how,
                                      .cache = s->cache};
  nabla_compile_options options = {
      .struct_size = sizeof options, .numerics = s->numerics, .mesh = s->mesh};
  nabla_compiler *compiler = NULL;
  decoder.weights =
      nabla_packed_model_weights(e->packed, &decoder.weight_count);
  nabla_status status =
      nabla_decoder_write(e->model, &decoder, NULL, &to_text, NULL, diag);
  if (!status && s->text && !e->first_rank)
    status = write_file(s->text, &text, diag);
  if (!status && s->mesh) options.shard = shardings(&text);
  if (!status)
    status = nabla_compiler_create(&how, &e->environment, &compiler, diag);
  if (!status)
    status = nabla_compile_text(compiler, text.bytes, text.size, "decoder",
                                &options, &e->executable, diag);
  if (!status && s->save && !e->first_rank)
    status = nabla_emit_text(compiler, text.bytes, text.size, "decoder",
                             &options, NABLA_EMIT_SO, &to_program, diag);
  if (!status && s->save && !e->first_rank)
    status = write_file(s->save, &program, diag);
  nabla_compiler_destroy(compiler);
  nabla_blob_release(&program);
  nabla_blob_release(&text);
  return status;
}
#else
static nabla_status compile(engine *e, const settings *s, nabla_diag *diag) {
  (void)e, (void)s;
  const nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED, "this program has no compiler in it");
  nabla_diag_set_next(diag,
                      "save the model's program with llama --save FILE.so, and "
                      "name it: --program FILE.so");
  return status;
}
#endif

/* The weights, the sessions, and the sizes that the program was written for. */
static nabla_status begin(engine *e, nabla_diag *diag) {
  nabla_bind_options options = {.struct_size = sizeof options};
  nabla_bind_summary found;
  options.weights =
      nabla_packed_model_weights(e->packed, &options.weight_count);
  NABLA_TRY(nabla_executable_bind_model(e->executable, e->model, &options,
                                        &found, diag));
  NABLA_TRY(nabla_decoder_find_limits(e->executable, &e->limits, diag));
  NABLA_TRY(ranks_open(e, diag));
  e->weight_bytes = found.bound_bytes;
  e->order = calloc(e->limits.vocabulary, sizeof *e->order);
  return e->order ? NABLA_OK
                  : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for logits");
}

nabla_status engine_open(engine *e, const settings *s, nabla_diag *diag) {
  NABLA_TRY(ranks_connect(e, s->mesh, diag));
  NABLA_TRY(nabla_pool_create((uint32_t)s->threads, NULL, &e->environment.pool,
                              diag));
  NABLA_TRY(nabla_model_open(s->model, &e->environment, &e->model, diag));
  if (s->encoding && strcmp(s->encoding, "none") != 0)
    NABLA_TRY(nabla_model_pack(e->model, s->encoding, &e->environment,
                               &e->packed, diag));
  const double start = now_ms();
  NABLA_TRY(s->program ? nabla_executable_open(s->program, &e->environment,
                                               &e->executable, diag)
                       : compile(e, s, diag));
  e->program_ms = now_ms() - start;
  return begin(e, diag);
}

void engine_close(engine *e) {
  ranks_close(e);
  nabla_executable_close(e->executable);
  nabla_packed_model_close(e->packed);
  free(e->order);
  nabla_model_close(e->model);
  nabla_pool_destroy(e->environment.pool);
}
