/* The model: opened, compiled or loaded, bound, and run step by step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

#if LLAMA_COMPILES
#include "nabla/compiler.h"

typedef struct text {
  char *bytes;
  size_t size;
} text;

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  text *t = self;
  char *bytes = realloc(t->bytes, t->size + size + 1);
  if (!bytes) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  t->bytes = memcpy(bytes + t->size, data, size) ? bytes : bytes;
  t->size += size;
  return NABLA_OK;
}

static nabla_status save(void *self, const void *data, size_t size,
                         nabla_diag *diag) {
  if (fwrite(data, 1, size, self) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "cannot write the program");
}

/* A file that is whole, or not there. */
static nabla_status finish_file(FILE *file, const char *path,
                                nabla_status status, nabla_diag *diag) {
  if (file && fclose(file) && !status)
    status = nabla_fail(diag, NABLA_IO, "cannot be written");
  if (file && status) (void)remove(path);
  if (status) nabla_diag_set_file(diag, path);
  return status;
}

/* The text, or the saved program. */
static nabla_status write_file(nabla_compiler *compiler, const text *t,
                               const nabla_compile_options *options,
                               const char *path, nabla_diag *diag) {
  FILE *file = fopen(path, "wb");
  const nabla_sink sink = {save, file};
  const nabla_status status =
      !file      ? nabla_fail(diag, NABLA_IO, "cannot be written")
      : compiler ? nabla_emit_text(compiler, t->bytes, t->size, "decoder",
                                   options, NABLA_EMIT_SO, &sink, diag)
                 : save(file, t->bytes, t->size, diag);
  return finish_file(file, path, status, diag);
}

static nabla_status compile(engine *e, const settings *s, nabla_diag *diag) {
  text t = {0};
  const nabla_sink sink = {append, &t};
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
  if (!status && s->text) status = write_file(NULL, &t, NULL, s->text, diag);
  if (!status)
    status = nabla_compiler_create(&how, &e->environment, &compiler, diag);
  if (!status)
    status = nabla_compile_text(compiler, t.bytes, t.size, "decoder", &options,
                                &e->executable, diag);
  if (!status && s->save)
    status = write_file(compiler, &t, &options, s->save, diag);
  e->compile_ms = now_ms() - start;
  nabla_compiler_destroy(compiler);
  free(t.bytes);
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
  const nabla_signature *f = nabla_executable_find(e->executable, "decode");
  NABLA_TRY(nabla_session_create(e->executable, NULL, &e->session, diag));
  const nabla_port *cache = nabla_session_state(e->session, 0);
  if (!f || !cache || cache->rank != 3 || f->result_count != 1 ||
      f->results[0].rank != 2)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "the program is none of nabla_decoder_write");
  nabla_session_usage usage = {.struct_size = sizeof usage};
  NABLA_TRY(nabla_session_memory(e->session, &usage, diag));
  e->cache_bytes = usage.state_bytes;
  e->vocabulary = (uint64_t)f->results[0].shape[1];
  e->context = (uint64_t)cache->shape[1];
  e->logits = calloc(e->vocabulary + 1, sizeof *e->logits);
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

static nabla_status check(const engine *e, const int64_t *ids, size_t count,
                          nabla_diag *diag) {
  for (size_t i = 0; i < count; i++)
    if (ids[i] < 0 || (uint64_t)ids[i] >= e->vocabulary)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "token %" PRId64 " is none of the model's %" PRIu64,
                        ids[i], e->vocabulary);
  if (count <= e->context - (uint64_t)e->position) return NABLA_OK;
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "%zu tokens behind %" PRId64
                                         " do not fit into a cache of %" PRIu64,
                                         count, e->position, e->context);
  nabla_diag_set_next(diag, "give a larger --context, or a shorter prompt");
  return status;
}

nabla_status engine_feed(engine *e, const int64_t *ids, size_t count,
                         nabla_diag *diag) {
  int64_t position = e->position;
  NABLA_TRY(check(e, ids, count, diag));
  if (!count) return NABLA_OK;
  const nabla_dense inputs[] = {{.data = (void *)(uintptr_t)ids,
                                 .dtype = NABLA_DTYPE_I64,
                                 .rank = 1,
                                 .shape = {(int64_t)count}},
                                {.data = &position, .dtype = NABLA_DTYPE_I64}};
  nabla_dense output = {.data = e->logits,
                        .dtype = NABLA_DTYPE_F32,
                        .rank = 2,
                        .shape = {1, (int64_t)e->vocabulary}};
  NABLA_TRY(nabla_session_run(e->session, count == 1 ? "decode" : "prefill",
                              inputs, 2, &output, 1, diag));
  e->position += (int64_t)count;
  return NABLA_OK;
}
