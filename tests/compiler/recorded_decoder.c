/* A Llama decoder recorded with arrays beside the text of nabla_decoder_write:
 * both programs are written, and run for 64 tokens, whose logits must be the
 * same bytes.
 *
 *   recorded_decoder MODEL RECORDED.mlir WRITTEN.mlir [PACKING]
 *
 * Prints the tokens. recorded_decoder.py compares the programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/decoder.h"
#include "nabla/function.h"
#include "nabla/sink.h"

#define MAX_LAYERS  8
#define MAX_WEIGHTS (MAX_LAYERS * 9 + 3)
#define MAX_LEAVES  (2 + 2 * MAX_LAYERS + MAX_WEIGHTS)
#define TOKENS      64
#define COUNT(a)    (sizeof(a) / sizeof *(a))

static nabla_diag diag;

static void must(nabla_status status) {
  if (!status) return;
  char text[1024];
  nabla_diag_format(&diag, text, sizeof text);
  (void)fprintf(stderr, "recorded_decoder: %s\n", text);
  exit(1);
}

/* ---- a decoder ----------------------------------------------------------- */

enum { NORM_1, Q, K, V, O, NORM_2, GATE, UP, DOWN, PARTS };
static const char *const parts[PARTS] = {
    "input_layernorm",  "self_attn.q_proj", "self_attn.k_proj",
    "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

/* Its leaves: token, position, the caches of each layer, weights. */
typedef struct decoder {
  nabla_decoder_shape shape;
  size_t layers, count; /* leaves */
  char names[MAX_LEAVES][80];
  const char *borrowed[MAX_LEAVES];
  nabla_tree leaves[MAX_LEAVES];
  nabla_weight_desc weights[MAX_LEAVES]; /* of those that are weights */
} decoder;

static size_t cache_at(size_t layer, size_t which) {
  return 2 + 2 * layer + which;
}

static nabla_array *weight_at(const decoder *d, const nabla_tree *in,
                              size_t layer, size_t part) {
  return in->items[2 + 2 * d->layers + PARTS * layer + part].array;
}

static nabla_array *table(const decoder *d, const nabla_tree *in, size_t i) {
  return in->items[2 + (2 + PARTS) * d->layers + i].array;
}

typedef struct step {
  nabla_scope *scope;
  const decoder *d;
  const nabla_tree *in;
  nabla_tree *out;
  nabla_array *positions, *keys;
} step;

static nabla_array *project(const step *s, nabla_array *x, size_t layer,
                            size_t part) {
  return nabla_linear(x, weight_at(s->d, s->in, layer, part), nabla_none());
}

static nabla_array *heads(const step *s, nabla_array *x, uint64_t count) {
  return nabla_reshape(
      x, NABLA_DIMS((int64_t)count, 1, (int64_t)s->d->shape.head_size));
}

static nabla_array *turn(const step *s, nabla_array *x) {
  const nabla_rope_options options = {.struct_size = sizeof options,
                                      .halves = 1};
  return nabla_rope(x, s->positions, 1, &options);
}

/* Puts a row into a cache, which is a result too. */
static nabla_array *put(const step *s, size_t layer, size_t which,
                        nabla_array *row) {
  nabla_array *zero = nabla_constant(
      s->scope,
      &(nabla_dense){.data = &(int64_t){0}, .dtype = NABLA_DTYPE_I64});
  nabla_array *starts[3] = {zero, s->in->items[1].array, zero};
  return s->out->items[1 + 2 * layer + which].array =
             nabla_dynamic_update_slice(
                 s->in->items[cache_at(layer, which)].array, row, 3, starts);
}

static nabla_array *attend(const step *s, nabla_array *x, size_t layer) {
  const nabla_decoder_shape *shape = &s->d->shape;
  nabla_array *q = turn(s, heads(s, project(s, x, layer, Q), shape->heads));
  nabla_array *k = put(
      s, layer, 0, turn(s, heads(s, project(s, x, layer, K), shape->kv_heads)));
  nabla_array *v =
      put(s, layer, 1, heads(s, project(s, x, layer, V), shape->kv_heads));
  nabla_array *a = nabla_attention(q, k, v, nabla_none(), s->keys, 0, 0);
  a = nabla_reshape(a,
                    NABLA_DIMS(1, (int64_t)(shape->heads * shape->head_size)));
  return project(s, a, layer, O);
}

static nabla_array *norm(const step *s, nabla_array *x, size_t layer,
                         size_t part) {
  return nabla_rms_norm(x, weight_at(s->d, s->in, layer, part), 1e-5);
}

static nabla_array *layer_of(const step *s, nabla_array *x, size_t layer) {
  x = nabla_add(x, attend(s, norm(s, x, layer, NORM_1), layer));
  nabla_array *y = norm(s, x, layer, NORM_2);
  y = nabla_mul(nabla_silu(project(s, y, layer, GATE)),
                project(s, y, layer, UP));
  return nabla_add(x, project(s, y, layer, DOWN));
}

static nabla_array *embed(const step *s) {
  static const int64_t first = 1, none = 0;
  const nabla_gather_dims dims = {.struct_size = sizeof dims,
                                  .offset_count = 1,
                                  .offset_dims = &first,
                                  .collapsed_count = 1,
                                  .collapsed_dims = &none,
                                  .map_count = 1,
                                  .index_map = &none,
                                  .vector_dim = 1};
  return nabla_gather(table(s->d, s->in, 0), s->in->items[0].array, &dims,
                      NABLA_DIMS(1, (int64_t)s->d->shape.hidden));
}

static void decode(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  const decoder *d = self;
  nabla_array *position = in->items[1].array;
  nabla_array *one = nabla_constant(
      scope, &(nabla_dense){.data = &(int64_t){1}, .dtype = NABLA_DTYPE_I64});
  const step s = {scope,
                  d,
                  in,
                  out,
                  nabla_reshape(position, NABLA_DIMS(1)),
                  nabla_add(position, one)};
  nabla_array *x = embed(&s);
  for (size_t i = 0; i < d->layers; i++) x = layer_of(&s, x, i);
  x = nabla_rms_norm(x, table(d, in, 1), 1e-5);
  out->items[0].array =
      nabla_linear(x, table(d, in, d->shape.is_tied ? 0 : 2), nabla_none());
}

/* ---- its leaves ---------------------------------------------------------- */

static void add_leaf(decoder *d, const char *name, nabla_array *array) {
  (void)snprintf(d->names[d->count], sizeof d->names[d->count], "%s", name);
  d->borrowed[d->count] = d->names[d->count];
  d->leaves[d->count++] = nabla_tree_of_array(array);
}

static void add_weight(decoder *d, nabla_scope *scope, nabla_model *model,
                       const nabla_packed_model *packed, const char *name) {
  nabla_weight weight;
  size_t count;
  const nabla_weight_desc *all = nabla_packed_model_weights(packed, &count);
  must(nabla_model_find(model, name, &weight, &diag));
  const nabla_weight_desc *desc = &weight.desc;
  for (size_t i = 0; i < count; i++)
    if (!strcmp(all[i].name, name)) desc = &all[i];
  d->weights[d->count] = *desc;
  add_leaf(d, name, nabla_array_of_weight(scope, desc));
}

static void add_leaves(decoder *d, nabla_scope *scope, nabla_model *model,
                       const nabla_packed_model *packed) {
  const nabla_decoder_shape *shape = &d->shape;
  char name[80];
  d->layers = shape->layers;
  add_leaf(d, "token", nabla_zeros(scope, NABLA_DTYPE_I64, NABLA_DIMS(1)));
  add_leaf(d, "position", nabla_zeros(scope, NABLA_DTYPE_I64, 0, NULL));
  for (size_t i = 0; i < d->layers; i++)
    for (const char *which = "kv"; *which; which++) {
      (void)snprintf(name, sizeof name, "cache.%zu.%c", i, *which);
      add_leaf(d, name,
               nabla_zeros(
                   scope, NABLA_DTYPE_F32,
                   NABLA_DIMS((int64_t)shape->kv_heads, (int64_t)shape->context,
                              (int64_t)shape->head_size)));
    }
  for (size_t i = 0; i < d->layers; i++)
    for (size_t part = 0; part < PARTS; part++) {
      (void)snprintf(name, sizeof name, "model.layers.%zu.%s.weight", i,
                     parts[part]);
      add_weight(d, scope, model, packed, name);
    }
  add_weight(d, scope, model, packed, "model.embed_tokens.weight");
  add_weight(d, scope, model, packed, "model.norm.weight");
  if (!shape->is_tied) add_weight(d, scope, model, packed, "lm_head.weight");
  must(nabla_scope_status(scope, &diag));
}

/* ---- programs ------------------------------------------------------------ */

static void write_file(const char *path, const nabla_blob *blob) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(blob->bytes, 1, blob->size, file) != blob->size ||
      fclose(file)) {
    perror(path);
    exit(1);
  }
}

/* The function of a decoder, with its caches as states. */
static nabla_function *make_function(nabla_engine *engine, decoder *d) {
  static nabla_function_replacement states[2 * MAX_LAYERS];
  nabla_function *function;
  for (size_t i = 0; i < 2 * d->layers; i++)
    states[i] =
        (nabla_function_replacement){d->borrowed[2 + i], d->borrowed[2 + i]};
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "decode",
                                          .self = d,
                                          .states = states,
                                          .state_count = 2 * d->layers,
                                          .policy = "error"};
  must(nabla_function_create(engine, decode, &options, &function, &diag));
  return function;
}

/* A session of the recorded decoder, which is printed to `path`. */
static nabla_session *record(nabla_function *function, decoder *d,
                             const char *path) {
  nabla_session *session;
  nabla_blob text = {0};
  nabla_tree results[1 + 2 * MAX_LAYERS];
  const char *names[1 + 2 * MAX_LAYERS] = {"logits"};
  results[0] = nabla_tree_of_array(NULL);
  for (size_t i = 0; i < 2 * d->layers; i++) {
    results[1 + i] = nabla_tree_of_array(NULL);
    names[1 + i] = d->borrowed[2 + i];
  }
  const nabla_tree in = nabla_tree_of_fields(d->count, d->borrowed, d->leaves),
                   out =
                       nabla_tree_of_fields(1 + 2 * d->layers, names, results);
  must(nabla_function_session(function, &in, &out, NULL, &session, &diag));
  const nabla_sink sink = nabla_blob_sink(&text);
  must(nabla_function_print(function, &sink, &diag));
  write_file(path, &text);
  nabla_blob_release(&text);
  return session;
}

/* A session of the text, which is written to `path`. */
static nabla_session *compile(nabla_compiler *compiler, nabla_model *model,
                              const nabla_packed_model *packed,
                              nabla_decoder_shape *shape, const char *path,
                              nabla_executable **executable) {
  nabla_blob text = {0};
  nabla_session *session;
  nabla_decoder_options options = {.struct_size = sizeof options};
  options.weights = nabla_packed_model_weights(packed, &options.weight_count);
  const nabla_sink sink = nabla_blob_sink(&text);
  const nabla_compile_options how = {.struct_size = sizeof how,
                                     .policy = "error"};
  must(nabla_decoder_write(model, &options, NULL, &sink, shape, &diag));
  write_file(path, &text);
  must(nabla_compile_text(compiler, text.bytes, text.size, "decoder", &how,
                          executable, &diag));
  nabla_blob_release(&text);
  const nabla_bind_options bind = {.struct_size = sizeof bind,
                                   .weights = options.weights,
                                   .weight_count = options.weight_count};
  must(nabla_executable_bind_model(*executable, model, &bind, NULL, &diag));
  must(nabla_session_create(*executable, NULL, &session, &diag));
  return session;
}

/* ---- runs ---------------------------------------------------------------- */

/* Runs a step of the recorded decoder. */
static void run_recorded(const decoder *d, nabla_session *session,
                         int64_t token, int64_t position, float *logits) {
  const size_t first = 2 + 2 * d->layers; /* weight */
  nabla_session_input inputs[MAX_LEAVES] = {
      {.dense = {&token, NABLA_DTYPE_I64, 1, {1}}},
      {.dense = {&position, NABLA_DTYPE_I64, 0, {0}}}};
  for (size_t i = first; i < d->count; i++)
    inputs[2 + i - first].weight = &d->weights[i];
  nabla_session_output output = {
      .dense = {logits, NABLA_DTYPE_F32, 2, {1, (int64_t)d->shape.vocabulary}}};
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = inputs,
                                       .input_count = 2 + d->count - first,
                                       .outputs = &output,
                                       .output_count = 1};
  must(nabla_session_call(session, "main", &arrays, &diag));
}

/* Runs both for the same token; the likeliest next one. */
static int64_t run(const decoder *d, nabla_session *recorded,
                   nabla_session *written, int64_t token, int64_t position) {
  static float logits[2][1 << 16];
  const size_t words = d->shape.vocabulary;
  must(nabla_decoder_run(written, &token, 1, (uint64_t)position, logits[0],
                         words, &diag));
  run_recorded(d, recorded, token, position, logits[1]);
  if (memcmp(logits[0], logits[1], words * sizeof(float)) != 0) {
    (void)fprintf(stderr, "recorded_decoder: other logits at %lld\n",
                  (long long)position);
    exit(1);
  }
  int64_t best = 0;
  for (size_t i = 1; i < words; i++)
    if (logits[0][i] > logits[0][best]) best = (int64_t)i;
  return best;
}

int main(int count, char **arguments) {
  static decoder d;
  nabla_compiler *compiler;
  nabla_engine *engine;
  nabla_scope *scope;
  nabla_model *model;
  nabla_packed_model *packed = NULL;
  nabla_executable *executable;
  if (count < 4) return 2;
  const nabla_compiler_options how = {.struct_size = sizeof how, .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &how};
  must(nabla_compiler_create(&how, NULL, &compiler, &diag));
  must(nabla_engine_create(&options, NULL, &engine, &diag));
  must(nabla_scope_create(engine, &scope, &diag));
  must(nabla_model_open(arguments[1], NULL, &model, &diag));
  if (count > 4)
    must(nabla_model_pack(model, arguments[4], NULL, &packed, &diag));
  nabla_session *written =
      compile(compiler, model, packed, &d.shape, arguments[3], &executable);
  add_leaves(&d, scope, model, packed);
  nabla_function *function = make_function(engine, &d);
  nabla_session *recorded = record(function, &d, arguments[2]);
  int64_t token = 1;
  for (int64_t i = 0; i < TOKENS; i++) {
    token = run(&d, recorded, written, token, i);
    (void)printf("%lld%s", (long long)token, i + 1 < TOKENS ? " " : "\n");
  }
  nabla_session_close(recorded);
  nabla_session_close(written);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  nabla_executable_close(executable);
  nabla_packed_model_close(packed);
  nabla_model_close(model);
  nabla_compiler_destroy(compiler);
  return 0;
}
