/* Writes the program of a Llama decoder: nabla/decoder.h. A function is the
 * same text for one token and for several but for sizes: what is "1" in
 * `decode` is "?" in `prefill`, and has a size of %n. */
#include "nabla/decoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/require.h"
#include "lib/models/decoder_weights.h"

typedef struct writer {
  nabla_model_text text;
  nabla_decoder_config c;
  nabla_decoder_weights weights;
  nabla_decoder_shape shape;
  nabla_decoder_logits logits;
  char cache[96]; /* its type */
  /* Of the function that is written: */
  int is_open;       /* it takes any number of tokens */
  const char *t;     /* "1" or "?" */
  const char *sizes; /* of results with one `?`: " sizes(%n)" */
  unsigned next;     /* number of the next value */
} writer;

#define ADD(...) nabla_model_text_add(&w->text, __VA_ARGS__)

/* Begins a line "  %t3 = "; the number. */
static unsigned value(writer *w) {
  ADD("  %%t%u = ", w->next);
  return w->next++;
}

/* "x64xf32" of rows of so many columns: with the size in front, a type. */
#define ROWS     "tensor<%sx%" PRIu64 "xf32>"
#define HEADS    "tensor<%" PRIu64 "x%sx%" PRIu64 "xf32>"
#define BY_TOKEN "tensor<%sx%" PRIu64 "x%" PRIu64 "xf32>"

/* ---- weights ------------------------------------------------------------- */

/* How operations see a weight: as it is, or converted to f32, which products
 * do while they read it. */
typedef struct operand {
  char value[16], type[NABLA_MODEL_TYPE_SIZE];
} operand;

static operand weight(writer *w, size_t index) {
  const nabla_decoder_weight *of = &w->weights.all[index];
  operand out;
  if (!of->is_widened) {
    (void)snprintf(out.value, sizeof out.value, "%%w%zu", index);
    (void)snprintf(out.type, sizeof out.type, "!w%zu", index);
    return out;
  }
  char rows[24] = "";
  if (of->rows) (void)snprintf(rows, sizeof rows, "%" PRIu64 "x", of->rows);
  (void)snprintf(out.type, sizeof out.type, "tensor<%s%" PRIu64 "xf32>", rows,
                 of->columns);
  const unsigned v = value(w);
  ADD("nabla.convert %%w%zu : !w%zu -> %s\n", index, index, out.type);
  (void)snprintf(out.value, sizeof out.value, "%%t%u", v);
  return out;
}

static unsigned linear(writer *w, unsigned x, size_t index) {
  const operand by = weight(w, index);
  const unsigned v = value(w);
  ADD("nabla.linear %%t%u, %s : " ROWS ", %s\n", x, by.value, w->t,
      w->weights.all[index].columns, by.type);
  return v;
}

static unsigned norm(writer *w, unsigned x, size_t index) {
  const operand by = weight(w, index);
  const unsigned v = value(w);
  ADD("nabla.rms_norm %%t%u, %s eps = %.17e : " ROWS ", %s\n", x, by.value,
      w->c.rms_norm_eps, w->t, w->c.hidden_size, by.type);
  return v;
}

/* "add" or "mul" of two of rows of so many columns. */
static unsigned both(writer *w, const char *op, unsigned a, unsigned b,
                     uint64_t columns) {
  const unsigned v = value(w);
  ADD("nabla.%s %%t%u, %%t%u : " ROWS ", " ROWS "\n", op, a, b, w->t, columns,
      w->t, columns);
  return v;
}

/* ---- attention ----------------------------------------------------------- */

/* Rows of tokens as [heads, tokens, head_size], turned by position or not. */
static unsigned heads(writer *w, unsigned x, uint64_t count, int is_turned) {
  const uint64_t d = w->c.head_dim;
  unsigned v = value(w);
  if (w->is_open) {
    ADD("nabla.reshape %%t%u%s : " ROWS " -> " BY_TOKEN "\n", x, w->sizes, w->t,
        count * d, w->t, count, d);
    x = v;
    v = value(w);
    ADD("nabla.transpose %%t%u permutation = [1, 0, 2] : " BY_TOKEN "\n", x,
        w->t, count, d);
  } else {
    ADD("nabla.reshape %%t%u : " ROWS " -> " HEADS "\n", x, w->t, count * d,
        count, w->t, d);
  }
  if (!is_turned) return v;
  x = v;
  v = value(w);
  ADD("nabla.rope halves %%t%u, %%positions dim = 1 theta = %.17e : " HEADS
      ", tensor<%sxi64>\n",
      x, w->c.rope_theta, count, w->t, d, w->t);
  return v;
}

static unsigned tokens(writer *w, unsigned x) {
  const uint64_t count = w->c.num_attention_heads, d = w->c.head_dim;
  if (w->is_open) {
    const unsigned turned = value(w);
    ADD("nabla.transpose %%t%u permutation = [1, 0, 2] : " HEADS "\n", x, count,
        w->t, d);
    const unsigned v = value(w);
    ADD("nabla.reshape %%t%u%s : " BY_TOKEN " -> " ROWS "\n", turned, w->sizes,
        w->t, count, d, w->t, count * d);
    return v;
  }
  const unsigned v = value(w);
  ADD("nabla.reshape %%t%u : " HEADS " -> " ROWS "\n", x, count, w->t, d, w->t,
      count * d);
  return v;
}

/* Puts rows into a cache at %position; it is called %k3 or %v3, and %k3n then.
 */
static void put(writer *w, char which, uint64_t layer, unsigned rows) {
  const uint64_t count = w->c.num_key_value_heads, d = w->c.head_dim;
  const char *element = w->cache + strlen(w->cache) - 1; /* '>' */
  while (element[-1] != 'x') element--;
  if (w->shape.cache != NABLA_DTYPE_F32) {
    const unsigned narrow = value(w);
    ADD("nabla.convert %%t%u : " HEADS " -> tensor<%" PRIu64 "x%sx%" PRIu64
        "x%s\n",
        rows, count, w->t, d, count, w->t, d, element);
    rows = narrow;
  }
  ADD("  %%%c%" PRIu64 "n = nabla.dynamic_update_slice %%%c%" PRIu64
      ", %%t%u at(%%zero, %%position, %%zero : tensor<i64>, tensor<i64>, "
      "tensor<i64>) : %s, tensor<%" PRIu64 "x%sx%" PRIu64 "x%s\n",
      which, layer, which, layer, rows, w->cache, count, w->t, d, element);
}

static unsigned attention(writer *w, unsigned h, uint64_t layer) {
  const uint64_t kv = w->c.num_key_value_heads, q = w->c.num_attention_heads;
#define PROJECT(id, count, is_turned)                                         \
  heads(w, linear(w, h, nabla_decoder_layer(layer, NABLA_LAYER_##id)), count, \
        is_turned)
  const unsigned query = PROJECT(Q, q, 1);
  put(w, 'k', layer, PROJECT(K, kv, 1));
  put(w, 'v', layer, PROJECT(V, kv, 0));
#undef PROJECT
  const unsigned v = value(w);
  ADD("nabla.attention %%t%u, %%k%" PRIu64 "n, %%v%" PRIu64
      "n keys(%%keys : tensor<i64>)%s : " HEADS ", %s, %s\n",
      query, layer, layer, w->is_open ? " causal" : "", q, w->t, w->c.head_dim,
      w->cache, w->cache);
  return linear(w, tokens(w, v), nabla_decoder_layer(layer, NABLA_LAYER_O));
}

/* ---- functions ----------------------------------------------------------- */

static unsigned layer(writer *w, unsigned x, uint64_t number) {
  const uint64_t d = w->c.hidden_size, f = w->c.intermediate_size;
  unsigned h = norm(w, x, nabla_decoder_layer(number, NABLA_LAYER_NORM_1));
  x = both(w, "add", x, attention(w, h, number), d);
  h = norm(w, x, nabla_decoder_layer(number, NABLA_LAYER_NORM_2));
  const unsigned gate =
      linear(w, h, nabla_decoder_layer(number, NABLA_LAYER_GATE));
  const unsigned opened = value(w);
  ADD("nabla.silu %%t%u : " ROWS "\n", gate, w->t, f);
  const unsigned up = linear(w, h, nabla_decoder_layer(number, NABLA_LAYER_UP));
  const unsigned y = both(w, "mul", opened, up, f);
  return both(w, "add", x,
              linear(w, y, nabla_decoder_layer(number, NABLA_LAYER_DOWN)), d);
}

static unsigned embed(writer *w) {
  const nabla_decoder_weight *table = &w->weights.all[0];
  const uint64_t d = w->c.hidden_size;
  unsigned v = value(w);
  ADD("nabla.gather %%w0, %%tokens offset_dims = [1] collapsed_dims = [0] "
      "index_map = [0] vector_dim = 1 sizes = [1, %" PRIu64
      "] : !w0, tensor<%sxi64>\n",
      d, w->t);
  if (!table->is_widened) return v;
  const char *element = strrchr(table->type, 'x') + 1;
  const unsigned narrow = v;
  v = value(w);
  ADD("nabla.convert %%t%u : tensor<%sx%" PRIu64 "x%s -> " ROWS "\n", narrow,
      w->t, d, element, w->t, d);
  return v;
}

/* Positions, and the number of keys. */
static void begin_body(writer *w) {
  ADD("  %%zero = nabla.constant dense<0> : tensor<i64>\n");
  if (w->is_open) {
    ADD("  %%c0 = arith.constant 0 : index\n");
    ADD("  %%n = tensor.dim %%tokens, %%c0 : tensor<?xi64>\n");
    ADD("  %%count = arith.index_cast %%n : index to i64\n");
    ADD("  %%step = tensor.from_elements %%count : tensor<i64>\n");
    ADD("  %%steps = nabla.iota dim = 0 sizes(%%n) -> tensor<?xi64>\n");
    ADD("  %%starts = nabla.broadcast_in_dim %%position dims = [] sizes(%%n) : "
        "tensor<i64> -> tensor<?xi64>\n");
    ADD("  %%positions = nabla.add %%steps, %%starts : tensor<?xi64>, "
        "tensor<?xi64>\n");
  } else {
    ADD("  %%step = nabla.constant dense<1> : tensor<i64>\n");
    ADD("  %%positions = nabla.reshape %%position : tensor<i64> -> "
        "tensor<1xi64>\n");
  }
  ADD("  %%keys = nabla.add %%position, %%step : tensor<i64>, tensor<i64>\n");
}

static int gives_all(const writer *w) {
  return w->is_open && w->logits == NABLA_LOGITS_ALL;
}

/* The head, after the last token alone unless all are asked for. */
static unsigned end_body(writer *w, unsigned x) {
  const uint64_t d = w->c.hidden_size;
  if (w->is_open && !gives_all(w)) {
    ADD("  %%c1 = arith.constant 1 : index\n");
    ADD("  %%last = arith.subi %%n, %%c1 : index\n");
    const unsigned v = value(w);
    ADD("nabla.dynamic_slice %%t%u at(%%last, %%c0 : index, index) : " ROWS
        " -> " ROWS "\n",
        x, w->t, d, "1", d);
    x = v;
    w->t = "1";
  }
  x = norm(w, x, nabla_decoder_norm(w->c.num_hidden_layers));
  return linear(
      w, x,
      nabla_decoder_head(w->c.num_hidden_layers, w->c.tie_word_embeddings));
}

/* The arguments, and the types of the results. */
static void begin_function(writer *w, const char *name) {
  const uint64_t layers = w->c.num_hidden_layers;
  ADD("func.func @%s(%%tokens: tensor<%sxi64> {nabla.name = \"%s\"},\n"
      "    %%position: tensor<i64> {nabla.name = \"position\"}",
      name, w->t, w->is_open ? "tokens" : "token");
  for (uint64_t i = 0; i < layers; i++)
    for (const char *which = "kv"; *which; which++)
      ADD(",\n    %%%c%" PRIu64 ": %s {nabla.name = \"cache.%" PRIu64
          ".%c\", nabla.state = \"cache.%" PRIu64 ".%c\"}",
          *which, i, w->cache, i, *which, i, *which);
  for (size_t i = 0; i < w->weights.count; i++)
    ADD(",\n    %%w%zu: !w%zu {nabla.name = \"%s\"}", i, i,
        w->weights.all[i].name);
  ADD(")\n    -> (" ROWS, gives_all(w) ? "?" : "1", w->c.vocab_size);
  for (uint64_t i = 0; i < layers; i++)
    for (const char *which = "kv"; *which; which++)
      ADD(",\n    %s {nabla.state = \"cache.%" PRIu64 ".%c\"}", w->cache, i,
          *which);
  ADD(") {\n");
}

static void function(writer *w, const char *name, int is_open) {
  const uint64_t layers = w->c.num_hidden_layers;
  w->is_open = is_open;
  w->t = is_open ? "?" : "1";
  w->sizes = is_open ? " sizes(%n)" : "";
  w->next = 0;
  begin_function(w, name);
  begin_body(w);
  unsigned x = embed(w);
  for (uint64_t i = 0; i < layers; i++) x = layer(w, x, i);
  x = end_body(w, x);
  ADD("  return %%t%u", x);
  for (uint64_t i = 0; i < layers; i++)
    ADD(", %%k%" PRIu64 "n, %%v%" PRIu64 "n", i, i);
  ADD(" : " ROWS, gives_all(w) ? "?" : "1", w->c.vocab_size);
  for (uint64_t i = 0; i < 2 * layers; i++) ADD(", %s", w->cache);
  ADD("\n}\n");
}

static void write(writer *w) {
  ADD("// A Llama decoder; nabla/decoder.h describes its functions.\n");
  for (size_t i = 0; i < w->weights.count; i++)
    ADD("!w%zu = %s\n", i, w->weights.all[i].type);
  function(w, "decode", 0);
  function(w, "prefill", 1);
}

/* ---- the call ------------------------------------------------------------ */

static nabla_status set_shape(writer *w, const nabla_decoder_options *options,
                              nabla_diag *diag) {
  const nabla_decoder_config *c = &w->c;
  const uint64_t context =
      options->context ? options->context : c->max_position_embeddings;
  const nabla_dtype cache = options->cache ? options->cache : NABLA_DTYPE_F32;
  const char *element = cache == NABLA_DTYPE_F32    ? "f32"
                        : cache == NABLA_DTYPE_F16  ? "f16"
                        : cache == NABLA_DTYPE_BF16 ? "bf16"
                                                    : NULL;
  if (!element)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a cache holds f32, f16 or bf16");
  if (context > NABLA_DECODER_MAX_CONTEXT)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a context of %" PRIu64
                      " positions, at most %u are "
                      "written",
                      context, NABLA_DECODER_MAX_CONTEXT);
  uint64_t bytes = 2 * (uint64_t)nabla_dtype_bits(cache) / 8;
  if (!nabla_mul_u64(bytes, c->num_hidden_layers, &bytes) ||
      !nabla_mul_u64(bytes, c->num_key_value_heads * c->head_dim, &bytes) ||
      !nabla_mul_u64(bytes, context, &bytes))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the cache is beyond 64 bits");
  w->shape = (nabla_decoder_shape){.hidden = c->hidden_size,
                                   .inner = c->intermediate_size,
                                   .layers = c->num_hidden_layers,
                                   .heads = c->num_attention_heads,
                                   .kv_heads = c->num_key_value_heads,
                                   .head_size = c->head_dim,
                                   .vocabulary = c->vocab_size,
                                   .context = context,
                                   .cache_bytes = bytes,
                                   .cache = cache,
                                   .is_tied = c->tie_word_embeddings};
  (void)snprintf(w->cache, sizeof w->cache,
                 "tensor<%" PRIu64 "x%" PRIu64 "x%" PRIu64 "x%s>",
                 c->num_key_value_heads, context, c->head_dim, element);
  return NABLA_OK;
}

/* The folder of the weights: the checkpoint's, or that of its file. */
static nabla_status load_config(nabla_model *model, const char *config,
                                const nabla_environment *environment,
                                nabla_decoder_config *out, nabla_diag *diag) {
  char path[NABLA_PATH_SIZE], folder[NABLA_PATH_SIZE];
  if (config) return nabla_decoder_config_load(config, environment, out, diag);
  const char *shard = nabla_tensor_file_borrow_path(
      nabla_checkpoint_borrow_shard(nabla_model_borrow_checkpoint(model), 0));
  const char *slash = strrchr(shard, '/');
  const size_t length = slash ? (size_t)(slash - shard) : 0;
  if (length >= sizeof folder)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "its path is too long");
  memcpy(folder, shard, length);
  memcpy(folder + length, "", 1);
  if (!nabla_place_join(path, slash ? (length ? folder : "/") : ".",
                        "config.json"))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "its path is too long");
  return nabla_decoder_config_load(path, environment, out, diag);
}

static nabla_status write_with(writer *w, nabla_model *model,
                               const nabla_decoder_options *options,
                               const nabla_environment *environment,
                               nabla_diag *diag) {
  NABLA_TRY(load_config(model, options->config, environment, &w->c, diag));
  NABLA_TRY(set_shape(w, options, diag));
  NABLA_TRY(nabla_decoder_weights_find(
      model, &w->c, options, environment ? environment->allocator : NULL,
      &w->weights, diag));
  write(w);
  nabla_decoder_weights_release(&w->weights);
  return nabla_model_text_finish(&w->text);
}

nabla_status nabla_decoder_write(nabla_model *model,
                                 const nabla_decoder_options *options,
                                 const nabla_environment *environment,
                                 const nabla_sink *sink,
                                 nabla_decoder_shape *out_shape,
                                 nabla_diag *diag) {
  static const nabla_decoder_options defaults = {.struct_size =
                                                     sizeof defaults};
  NABLA_REQUIRE(model, diag);
  NABLA_REQUIRE(sink, diag);
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "nabla_decoder_options", diag);
  if (options->weight_count) NABLA_REQUIRE(options->weights, diag);
  if (options->logits > NABLA_LOGITS_ALL)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "logits are those after the last token, or all");
  writer w = {.text = {.sink = sink, .diag = diag}, .logits = options->logits};
  NABLA_TRY(write_with(&w, model, options, environment, diag));
  if (out_shape) *out_shape = w.shape;
  return NABLA_OK;
}
