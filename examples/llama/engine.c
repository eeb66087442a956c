/* The model: opened, compiled or loaded, bound, and run step by step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

#if LLAMA_COMPILES
#include "nabla/compiler.h"

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

static nabla_status save(nabla_compiler *compiler, const nabla_blob *text,
                         const nabla_compile_options *options, const char *path,
                         nabla_diag *diag) {
  nabla_blob program = {0};
  const nabla_sink sink = nabla_blob_sink(&program);
  nabla_status status =
      nabla_emit_text(compiler, text->bytes, text->size, "decoder", options,
                      NABLA_EMIT_SO, &sink, diag);
  if (!status) status = write_file(path, &program, diag);
  nabla_blob_release(&program);
  return status;
}

static nabla_status compile(engine *e, const settings *s, nabla_diag *diag) {
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  const nabla_decoder_options decoder = {.struct_size = sizeof decoder,
                                         .context = s->context,
                                         .weights = e->packed,
                                         .weight_count = e->packed_count};
  const nabla_compiler_options how = {.struct_size = sizeof how,
                                      .cache = s->cache};
  const nabla_compile_options options = {.struct_size = sizeof options,
                                         .numerics = s->numerics};
  nabla_compiler *compiler = NULL;
  const double start = now_ms();
  nabla_status status =
      nabla_decoder_write(e->model, &decoder, NULL, &sink, NULL, diag);
  if (!status && s->text) status = write_file(s->text, &text, diag);
  if (!status)
    status = nabla_compiler_create(&how, &e->environment, &compiler, diag);
  if (!status)
    status = nabla_compile_text(compiler, text.bytes, text.size, "decoder",
                                &options, &e->executable, diag);
  if (!status && s->save)
    status = save(compiler, &text, &options, s->save, diag);
  e->compile_ms = now_ms() - start;
  nabla_compiler_destroy(compiler);
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

/* Weights that were packed here by name, all others from the model. */
static nabla_status bind(engine *e, nabla_diag *diag) {
  nabla_bind_summary found;
  if (!e->packed_count) {
    NABLA_TRY(nabla_executable_bind_model(e->executable, e->model, NULL, &found,
                                          diag));
    e->weight_bytes = found.bound_bytes;
    return NABLA_OK;
  }
  const nabla_signature *f = nabla_executable_find(e->executable, "decode");
  for (size_t i = 0; f && i < f->argument_count; i++) {
    const char *name = f->arguments[i].name;
    const nabla_weight_desc *packed = NULL;
    nabla_weight weight;
    for (size_t j = 0; j < e->packed_count && !packed; j++)
      if (!strcmp(e->packed[j].name, name)) packed = &e->packed[j];
    if (!packed && strncmp(name, "model.", 6) != 0 &&
        strncmp(name, "lm_head.", 8) != 0)
      continue;
    if (!packed) {
      NABLA_TRY(nabla_model_find(e->model, name, &weight, diag));
      packed = &weight.desc;
    }
    NABLA_TRY(nabla_executable_bind(e->executable, name, packed, diag));
    for (uint32_t j = 0; j < packed->component_count; j++)
      e->weight_bytes += packed->components[j].bytes;
  }
  return NABLA_OK;
}

/* The session, and the sizes that the program was written for. */
static nabla_status begin(engine *e, nabla_diag *diag) {
  NABLA_TRY(nabla_decoder_find_limits(e->executable, &e->limits, diag));
  NABLA_TRY(nabla_session_create(e->executable, NULL, &e->session, diag));
  nabla_session_usage usage = {.struct_size = sizeof usage};
  NABLA_TRY(nabla_session_memory(e->session, &usage, diag));
  e->cache_bytes = usage.state_bytes;
  e->logits = calloc(e->limits.vocabulary, sizeof *e->logits);
  return e->logits ? NABLA_OK
                   : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for logits");
}

nabla_status engine_open(engine *e, const settings *s, nabla_diag *diag) {
  NABLA_TRY(nabla_pool_create((uint32_t)s->threads, NULL, &e->environment.pool,
                              diag));
  NABLA_TRY(nabla_model_open(s->model, &e->environment, &e->model, diag));
  if (s->encoding && strcmp(s->encoding, "none") != 0)
    NABLA_TRY(pack_weights(e, s->encoding, diag));
  NABLA_TRY(s->program ? nabla_executable_open(s->program, &e->environment,
                                               &e->executable, diag)
                       : compile(e, s, diag));
  NABLA_TRY(bind(e, diag));
  return begin(e, diag);
}

void engine_close(engine *e) {
  nabla_session_close(e->session);
  nabla_executable_close(e->executable);
  for (size_t i = 0; i < e->packed_count; i++)
    for (size_t j = 0; j < NABLA_WEIGHT_MAX_COMPONENTS; j++)
      free(e->packed_data[i].blocks[j]);
  free(e->packed_data);
  free(e->packed);
  free(e->logits);
  nabla_model_close(e->model);
  nabla_pool_destroy(e->environment.pool);
}

/* What lies in the cache behind `position` is never read. */
void engine_reset(engine *e) { e->position = 0; }

nabla_status engine_feed(engine *e, const int64_t *ids, size_t count,
                         nabla_diag *diag) {
  NABLA_TRY(nabla_decoder_run(e->session, ids, count, e->position, e->logits,
                              e->limits.vocabulary, diag));
  e->position += count;
  return NABLA_OK;
}
