/* A whole model; see generate_model.h. */
#include "bench/nabla-bench/generate_model.h"

#include <stdlib.h>
#include <string.h>

#include "bench/nabla-bench/weights.h"
#include "nabla/compiler.h"

/* ---- packing ---- */

static uint64_t bytes_of(const nabla_weight_desc *w) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->component_count; i++)
    bytes += w->components[i].bytes;
  return bytes;
}

/* Where each component begins: at a multiple of a cache line. */
static uint64_t room_of(const nabla_weight_desc *w) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->component_count; i++)
    bytes += (w->components[i].bytes + 127) / 64 * 64;
  return bytes;
}

static nabla_status encode(const nabla_weight_desc *from,
                           const nabla_weight_desc *to, float *values,
                           nabla_diag *diag) {
  const uint64_t count = to->shape[0] * to->shape[1];
  void *data[2] = {0};
  for (uint32_t i = 0; i < 2 && i < to->component_count; i++)
    data[i] = (void *)(uintptr_t)to->components[i].data;
  NABLA_TRY(nabla_weight_read(from, 0, from->shape[0], values, diag));
  if (to->layout.ggml)
    return nabla_ggml_encode(to->layout.ggml, NABLA_DTYPE_F32, values,
                             count / to->layout.ggml->elements, data[0], NULL,
                             diag);
  nabla_codec codec;
  NABLA_TRY(nabla_codec_select(&to->layout.format, NULL, &codec, diag));
  const nabla_packed out = {.codes = data[0], .scales = data[1]};
  return nabla_encode(&codec, values, NULL, count, &out, NULL, diag);
}

/* All matrices, without bytes; `most` is the number of values of the largest.
 */
static nabla_status plan_packing(bench_model *self, const nabla_storage *layout,
                                 nabla_weight_desc *from, uint64_t *most,
                                 nabla_diag *diag) {
  const nabla_checkpoint *c = nabla_model_borrow_checkpoint(self->model);
  for (size_t i = 0; i < nabla_checkpoint_count(c); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(c, i);
    nabla_weight weight;
    NABLA_TRY(nabla_model_find_n(self->model, tensor.name, tensor.name_length,
                                 &weight, diag));
    if (weight.desc.rank != 2) continue;
    nabla_weight_desc *to = &self->packed[self->packed_count];
    if (weight.desc.layout.kind != NABLA_STORAGE_DENSE)
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "its weights are packed; --encoding dense measures "
                        "them as they are");
    from[self->packed_count++] = *to = weight.desc;
    to->layout = *layout;
    NABLA_TRY(nabla_weight_components(to, to->components, &to->component_count,
                                      diag));
    self->arena_bytes += room_of(to);
    if (to->shape[0] * to->shape[1] > *most)
      *most = to->shape[0] * to->shape[1];
  }
  return NABLA_OK;
}

static nabla_status fill_packing(bench_model *self,
                                 const nabla_weight_desc *from, float *values,
                                 nabla_diag *diag) {
  uint8_t *at = self->arena = bench_pages(self->arena_bytes);
  if (!at || !values || !self->packed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory to pack weights");
  for (size_t i = 0; i < self->packed_count; i++) {
    nabla_weight_desc *to = &self->packed[i];
    for (uint32_t j = 0; j < to->component_count; j++) {
      to->components[j].data = at;
      at += (to->components[j].bytes + 127) / 64 * 64;
    }
    NABLA_TRY(encode(&from[i], to, values, diag));
  }
  return NABLA_OK;
}

static nabla_status pack(bench_model *self, nabla_diag *diag) {
  const bench_problem *p = &self->settings->problem;
  const size_t count =
      nabla_checkpoint_count(nabla_model_borrow_checkpoint(self->model));
  bench_made made = {0};
  uint64_t most = 0;
  snprintf(self->format, sizeof self->format, "%s", p->encoding);
  if (!strcmp(p->encoding, "dense")) return NABLA_OK;
  NABLA_TRY(bench_weights_choose(p, &made, diag));
  if (made.layout.kind == NABLA_STORAGE_DENSE || p->block == BENCH_BLOCK_ROW ||
      made.layout.nested_block ||
      (made.layout.ggml && !made.layout.ggml->can_encode))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "a model is not packed as %s here", made.name);
  snprintf(self->format, sizeof self->format, "%s", made.name);
  if (made.layout.ggml) made.layout.format = (nabla_format){0};
  self->packed = calloc(count + 1, sizeof *self->packed);
  nabla_weight_desc *from = calloc(count + 1, sizeof *from);
  if (!self->packed || !from) {
    free(from);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory to pack weights");
  }
  nabla_status status = plan_packing(self, &made.layout, from, &most, diag);
  float *values = malloc(most * sizeof *values + 1);
  if (!status) status = fill_packing(self, from, values, diag);
  free(values);
  free(from);
  return status;
}

/* ---- the program ---- */

typedef struct text {
  char *bytes;
  size_t size;
} text;

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  text *t = self;
  char *bytes = realloc(t->bytes, t->size + size + 1);
  if (!bytes) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  t->bytes = bytes;
  memcpy(bytes + t->size, data, size);
  t->size += size;
  return NABLA_OK;
}

static nabla_status compile_text(bench_model *self, const text *t,
                                 nabla_diag *diag) {
  const nabla_compile_options options = {
      .struct_size = sizeof options,
      .numerics = nabla_numerics_name(self->settings->problem.numerics)};
  nabla_compiler *compiler;
  NABLA_TRY(nabla_compiler_create(NULL, &self->environment, &compiler, diag));
  const double start = bench_now(2);
  const nabla_status status =
      nabla_compile_text(compiler, t->bytes, t->size, "decoder", &options,
                         &self->executable, diag);
  self->compile_ms = (bench_now(2) - start) * 1e3;
  self->from_cache = nabla_compiler_last_report(compiler).from_cache;
  nabla_compiler_destroy(compiler);
  return status;
}

static nabla_status compile(bench_model *self, nabla_diag *diag) {
  text t = {0};
  const nabla_sink sink = {append, &t};
  const nabla_decoder_options options = {.struct_size = sizeof options,
                                         .context = self->settings->context,
                                         .cache = NABLA_DTYPE_F16,
                                         .weights = self->packed,
                                         .weight_count = self->packed_count};
  nabla_status status = nabla_decoder_write(self->model, &options, NULL, &sink,
                                            &self->shape, diag);
  if (!status) status = compile_text(self, &t, diag);
  free(t.bytes);
  return status;
}

/* The weight of an argument: packed here, or the model's. */
static nabla_status find(bench_model *self, const char *name,
                         nabla_weight_desc *out, nabla_diag *diag) {
  nabla_weight weight;
  for (size_t i = 0; i < self->packed_count; i++)
    if (!strcmp(self->packed[i].name, name))
      return *out = self->packed[i], NABLA_OK;
  NABLA_TRY(nabla_model_find(self->model, name, &weight, diag));
  *out = weight.desc;
  return NABLA_OK;
}

static int is_named(const char *name, const char *prefix) {
  return !strncmp(name, prefix, strlen(prefix));
}

/* Binds all, and sums up what a token and a prompt need of them. */
static nabla_status bind(bench_model *self, nabla_diag *diag) {
  const nabla_signature *f = nabla_executable_find(self->executable, "decode");
  for (size_t i = 0; i < f->argument_count; i++) {
    const char *name = f->arguments[i].name;
    nabla_weight_desc w;
    if (!is_named(name, "model.") && !is_named(name, "lm_head.")) continue;
    NABLA_TRY(find(self, name, &w, diag));
    NABLA_TRY(nabla_executable_bind(self->executable, name, &w, diag));
    const int is_table = is_named(name, "model.embed_tokens.");
    const int is_head =
        is_named(name, "lm_head.") || (is_table && self->shape.is_tied);
    self->weight_bytes += bytes_of(&w);
    if (!is_table || is_head) self->token_bytes += bytes_of(&w);
    if (w.rank == 2 && (!is_table || is_head))
      self->prompt_flops +=
          2 * w.shape[0] * w.shape[1] * (is_head ? 1 : self->prompt);
  }
  return NABLA_OK;
}

static nabla_status check_sizes(const bench_model *self, nabla_diag *diag) {
  if (self->shape.context <= BENCH_GENERATED)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--context: more than the %u tokens that are generated",
                      BENCH_GENERATED);
  if (self->prompt <= self->shape.context) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "--prompt: at most --context, %llu",
                    (unsigned long long)self->shape.context);
}

nabla_status bench_model_open(const bench_settings *settings, const char *path,
                              bench_model *self, nabla_diag *diag) {
  *self = (bench_model){.settings = settings, .prompt = settings->prompt};
  if (settings->problem.threads > 1)
    NABLA_TRY(nabla_pool_create(settings->problem.threads, NULL,
                                &self->environment.pool, diag));
  NABLA_TRY(nabla_model_open(path, &self->environment, &self->model, diag));
  NABLA_TRY(pack(self, diag));
  NABLA_TRY(compile(self, diag));
  NABLA_TRY(check_sizes(self, diag));
  NABLA_TRY(bind(self, diag));
  self->logits = calloc(self->shape.vocabulary, sizeof *self->logits);
  if (!self->logits) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  return nabla_session_create(self->executable, NULL, &self->session, diag);
}

void bench_model_close(bench_model *self) {
  nabla_session_close(self->session);
  nabla_executable_close(self->executable);
  bench_unmap(self->arena, self->arena_bytes);
  free(self->packed);
  free(self->logits);
  nabla_model_close(self->model);
  nabla_pool_destroy(self->environment.pool);
}

/* ---- runs ---- */

nabla_status bench_model_feed(bench_model *self, const int64_t *tokens,
                              uint64_t count, uint64_t position,
                              nabla_diag *diag) {
  int64_t at = (int64_t)position;
  const nabla_dense inputs[] = {{.data = (void *)(uintptr_t)tokens,
                                 .dtype = NABLA_DTYPE_I64,
                                 .rank = 1,
                                 .shape = {(int64_t)count}},
                                {.data = &at, .dtype = NABLA_DTYPE_I64}};
  nabla_dense output = {.data = self->logits,
                        .dtype = NABLA_DTYPE_F32,
                        .rank = 2,
                        .shape = {1, (int64_t)self->shape.vocabulary}};
  return nabla_session_run(self->session, count == 1 ? "decode" : "prefill",
                           inputs, 2, &output, 1, diag);
}

/* Token i of every text: as in bench/peers/llama-generate.c. */
static int64_t token_at(const bench_model *self, uint64_t i) {
  return (int64_t)((i * 2654435761u >> 8) % self->shape.vocabulary);
}

/* Tokens from..to of the text, in pieces of at most a prompt. */
static nabla_status read_text(bench_model *self, uint64_t from, uint64_t to,
                              nabla_diag *diag) {
  int64_t *tokens = malloc((size_t)self->prompt * sizeof *tokens);
  nabla_status status = NABLA_OK;
  if (!tokens) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  while (from < to && !status) {
    const uint64_t count = to - from < self->prompt ? to - from : self->prompt;
    for (uint64_t i = 0; i < count; i++) tokens[i] = token_at(self, from + i);
    status = bench_model_feed(self, tokens, count, from, diag);
    from += count;
  }
  free(tokens);
  return status;
}

static nabla_status generate(bench_model *self, double *out, nabla_diag *diag) {
  const uint64_t begin = self->shape.context - BENCH_GENERATED;
  const uint32_t threads = self->settings->problem.threads;
  int64_t token = token_at(self, begin);
  if (!self->is_filled) NABLA_TRY(read_text(self, 0, begin, diag));
  self->is_filled = 1;
  const double start = bench_now(threads);
  for (uint64_t i = 0; i < BENCH_GENERATED; i++) {
    NABLA_TRY(bench_model_feed(self, &token, 1, begin + i, diag));
    token = 0;
    for (uint64_t j = 1; j < self->shape.vocabulary; j++)
      if (self->logits[j] > self->logits[token]) token = (int64_t)j;
  }
  *out = bench_now(threads) - start;
  return NABLA_OK;
}

nabla_status bench_model_generate(void *self, uint64_t first, uint32_t count,
                                  double *out, nabla_diag *diag) {
  (void)first;
  for (uint32_t i = 0; i < count; i++) NABLA_TRY(generate(self, &out[i], diag));
  return NABLA_OK;
}

nabla_status bench_model_prompt(void *context, uint64_t first, uint32_t count,
                                double *out, nabla_diag *diag) {
  bench_model *self = context;
  const uint32_t threads = self->settings->problem.threads;
  (void)first;
  for (uint32_t i = 0; i < count; i++) {
    const double start = bench_now(threads);
    NABLA_TRY(read_text(self, 0, self->prompt, diag));
    out[i] = bench_now(threads) - start;
  }
  return NABLA_OK;
}
