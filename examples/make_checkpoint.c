/* Writes a checkpoint with made-up weights that have the statistics of real
 * ones, for demonstrations and tests; an example of the safetensors writer.
 * The bytes depend on the arguments alone: every value comes from a counter.
 *
 *   cc make_checkpoint.c $(pkg-config --cflags --libs nabla-quant) */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nabla/dtype.h"
#include "nabla/safetensors.h"

#define MAX_TENSORS 4096
#define MAX_SHARDS  64
#define CHUNK       65536 /* values made at a time */

/* What a tensor's values look like. */
typedef enum value_kind {
  KIND_WEIGHT, /* rows of different scale, a few loud columns, heavy tails */
  KIND_EMBEDDING,
  KIND_NORM, /* near 1 */
  KIND_BIAS, /* near 0 */
} value_kind;

typedef struct tensor {
  char name[96];
  nabla_dtype dtype;
  value_kind kind;
  uint32_t rank;
  uint64_t shape[3];
  double std;
  uint32_t shard;
  size_t id; /* in its shard's writer */
} tensor;

typedef struct options {
  const char *out;
  uint64_t megabytes, seed, shards;
  int single_tensor, llama;
  nabla_dtype dtype;
} options;

typedef struct model {
  options options;
  tensor tensors[MAX_TENSORS];
  size_t count;
  uint64_t hidden, inner, layers, vocabulary;
  uint64_t shard_bytes[MAX_SHARDS];
} model;

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, OOPSLA 2014), used as a hash of a counter. */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Nearly N(0,1), without libm, so that every machine gives the same bits: the
 * number of ones among 64 random bits has mean 32 and variance 16; a triangle
 * of width 2 and variance 1/6 fills the gaps between the integers. */
static double normal(uint64_t key, uint64_t index) {
  uint64_t bits = mix(key ^ mix(index)), more = mix(bits);
  double fill = ((double)(more & 0xffffff) - (double)(more >> 40)) / 16777216.0;
  double sum = (double)__builtin_popcountll(bits) - 32.0 + fill;
  return sum * 0.24872; /* 1 / sqrt(16 + 1/6) */
}

/* exp(x) to second order: positive, and wide enough for scales near 1. */
static double near_one(double x) { return 1.0 + x + 0.5 * x * x; }

static uint64_t elements_of(const tensor *t) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < t->rank; d++) n *= t->shape[d];
  return n;
}

static uint64_t bytes_of(const tensor *t) {
  return elements_of(t) * nabla_dtype_bits(t->dtype) / 8;
}

/* Value `index` of a weight: its row's scale, its column's (one in 256 is an
 * outlier channel, 4 to 8 times as loud), and one value in 1024 far out. */
static double weight(uint64_t key, uint64_t index, uint64_t columns) {
  uint64_t row = mix(key + 1 + index / columns);
  uint64_t column = mix(key * 3 + index % columns);
  double scale = near_one(0.25 * normal(row, 0));
  if (column % 256 == 0) scale *= 4.0 + (double)(column >> 56) / 64.0;
  double x = normal(key, index);
  if (mix(key + 2 + index) % 1024 == 0) x *= 3.0;
  return x * scale;
}

static void make_values(const tensor *t, uint64_t key, uint64_t first,
                        size_t count, float *out) {
  uint64_t columns = t->shape[t->rank - 1];
  for (size_t i = 0; i < count; i++) {
    uint64_t index = first + i;
    double x = 0;
    switch (t->kind) {
      case KIND_WEIGHT:
        x = t->std * weight(key, index, columns);
        break;
      case KIND_EMBEDDING: /* frequent words have longer vectors */
        x = t->std * normal(key, index) *
            near_one(0.4 * normal(key + 1, index / columns));
        break;
      case KIND_NORM:
        x = 1.0 + 0.1 * normal(key, index);
        break;
      case KIND_BIAS:
        x = t->std * normal(key, index);
        break;
    }
    out[i] = (float)x;
  }
}

static tensor *add(model *m, value_kind kind, double std, const char *name,
                   uint64_t layer) {
  if (m->count == MAX_TENSORS) return NULL;
  tensor *t = &m->tensors[m->count++];
  *t = (tensor){.kind = kind, .dtype = m->options.dtype, .rank = 1, .std = std};
  if (layer == UINT64_MAX) {
    snprintf(t->name, sizeof t->name, "%s", name);
  } else {
    snprintf(t->name, sizeof t->name, "model.layers.%" PRIu64 ".%s", layer,
             name);
  }
  if (kind == KIND_NORM) t->dtype = NABLA_DTYPE_F32;
  return t;
}

static int add_1(model *m, value_kind kind, const char *name, uint64_t layer,
                 uint64_t size) {
  tensor *t = add(m, kind, 0.01, name, layer);
  if (t) t->shape[0] = size;
  return t != NULL;
}

static int add_2(model *m, double std, const char *name, uint64_t layer,
                 uint64_t rows, uint64_t columns) {
  tensor *t = add(m, KIND_WEIGHT, std, name, layer);
  if (!t) return 0;
  t->rank = 2;
  t->shape[0] = rows;
  t->shape[1] = columns;
  return 1;
}

static int add_experts(model *m, double std, const char *name, uint64_t layer,
                       uint64_t rows, uint64_t columns) {
  if (!add_2(m, std, name, layer, rows, columns)) return 0;
  tensor *t = &m->tensors[m->count - 1];
  t->rank = 3;
  t->shape[2] = columns;
  t->shape[1] = rows;
  t->shape[0] = 8;
  return 1;
}

/* Layer 1 has a router and experts instead of one feed-forward block. */
static int add_feed_forward(model *m, uint64_t layer, double std) {
  uint64_t h = m->hidden, f = m->inner;
  if (layer != 1) {
    return add_2(m, std, "mlp.gate_proj.weight", layer, f, h) &&
           add_2(m, std, "mlp.up_proj.weight", layer, f, h) &&
           add_2(m, std / 2, "mlp.down_proj.weight", layer, h, f);
  }
  return add_2(m, std, "block_sparse_moe.gate.weight", layer, 8, h) &&
         add_experts(m, std, "block_sparse_moe.experts.gate_up_proj.weight",
                     layer, f / 4, h) &&
         add_experts(m, std / 2, "block_sparse_moe.experts.down_proj.weight",
                     layer, h, f / 8);
}

static int add_layer(model *m, uint64_t layer) {
  uint64_t h = m->hidden;
  double std = 0.02 * (1.0 + 0.5 * (double)layer / (double)m->layers);
  size_t first = m->count;
  int ok = add_1(m, KIND_NORM, "input_layernorm.weight", layer, h) &&
           add_2(m, std, "self_attn.q_proj.weight", layer, h, h) &&
           add_1(m, KIND_BIAS, "self_attn.q_proj.bias", layer, h) &&
           add_2(m, std, "self_attn.k_proj.weight", layer, h / 4, h) &&
           add_2(m, std, "self_attn.v_proj.weight", layer, h / 4, h) &&
           add_2(m, std / 2, "self_attn.o_proj.weight", layer, h, h) &&
           add_1(m, KIND_NORM, "post_attention_layernorm.weight", layer, h) &&
           add_feed_forward(m, layer, std);
  /* one layer was kept in f32, as mixed-precision checkpoints do */
  for (size_t i = first; ok && layer == 2 && i < m->count; i++) {
    m->tensors[i].dtype = NABLA_DTYPE_F32;
  }
  return ok;
}

static uint64_t total_bytes(const model *m) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < m->count; i++) bytes += bytes_of(&m->tensors[i]);
  return bytes;
}

static int add_embedding(model *m, const char *name) {
  if (!add_2(m, 0.03, name, UINT64_MAX, m->vocabulary, m->hidden)) return 0;
  m->tensors[m->count - 1].kind = KIND_EMBEDDING;
  return 1;
}

/* A decoder with layers of width `hidden`, as many as fit in the size. */
static int add_decoder(model *m, uint64_t hidden) {
  m->count = 0;
  m->hidden = hidden;
  m->inner = (hidden * 8 / 3 + 31) / 32 * 32; /* 512 gives 1376, as in LLaMA */
  m->vocabulary = hidden * 16 < 32000 ? hidden * 16 : 32000;
  m->layers = 32;
  if (!add_embedding(m, "model.embed_tokens.weight") ||
      !add_embedding(m, "lm_head.weight") ||
      !add_1(m, KIND_NORM, "model.norm.weight", UINT64_MAX, hidden) ||
      !add_2(m, 0.02, "model.adapter.weight", UINT64_MAX, m->inner,
             hidden - 1)) {
    return 0;
  }
  uint64_t limit = m->options.megabytes * 1000000u, layer = 0, before = 0;
  do {
    before = total_bytes(m);
    if (!add_layer(m, layer++)) return 0;
  } while (total_bytes(m) + (total_bytes(m) - before) / 2 < limit);
  m->layers = layer;
  return 1;
}

/* The widest decoder of at least six layers; the narrowest if none has. */
static int plan_decoder(model *m) {
  static const uint64_t widths[] = {4096, 2048, 1024, 512, 256, 128, 64};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    if (!add_decoder(m, widths[i])) return 0;
    if (m->layers >= 6) break;
  }
  return 1;
}

/* A Llama of 542 million parameters, without the tensors that such a model does
 * not have: what examples/llama is measured with. */
static int plan_llama(model *m) {
  enum { HIDDEN = 2048, INNER = 5728, LAYERS = 9, SHARED = 512, WORDS = 32000 };
  m->hidden = HIDDEN;
  m->vocabulary = WORDS;
  int ok = add_embedding(m, "model.embed_tokens.weight") &&
           add_embedding(m, "lm_head.weight") &&
           add_1(m, KIND_NORM, "model.norm.weight", UINT64_MAX, HIDDEN);
  for (uint64_t i = 0; i < LAYERS && ok; i++)
    ok = add_1(m, KIND_NORM, "input_layernorm.weight", i, HIDDEN) &&
         add_1(m, KIND_NORM, "post_attention_layernorm.weight", i, HIDDEN) &&
         add_2(m, .02, "self_attn.q_proj.weight", i, HIDDEN, HIDDEN) &&
         add_2(m, .02, "self_attn.k_proj.weight", i, SHARED, HIDDEN) &&
         add_2(m, .02, "self_attn.v_proj.weight", i, SHARED, HIDDEN) &&
         add_2(m, .01, "self_attn.o_proj.weight", i, HIDDEN, HIDDEN) &&
         add_2(m, .02, "mlp.gate_proj.weight", i, INNER, HIDDEN) &&
         add_2(m, .02, "mlp.up_proj.weight", i, INNER, HIDDEN) &&
         add_2(m, .01, "mlp.down_proj.weight", i, HIDDEN, INNER);
  return ok;
}

static int write_llama_config(const model *m) {
  char path[4096];
  snprintf(path, sizeof path, "%s/config.json", m->options.out);
  FILE *f = fopen(path, "w");
  if (!f) return 0;
  fputs(
      "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n"
      "  \"model_type\": \"llama\",\n  \"hidden_size\": 2048,\n"
      "  \"intermediate_size\": 5728,\n  \"num_hidden_layers\": 9,\n"
      "  \"num_attention_heads\": 32,\n  \"num_key_value_heads\": 8,\n"
      "  \"vocab_size\": 32000,\n  \"max_position_embeddings\": 4096,\n"
      "  \"rms_norm_eps\": 1e-05,\n  \"rope_theta\": 10000.0,\n"
      "  \"hidden_act\": \"silu\",\n  \"tie_word_embeddings\": false\n}\n",
      f);
  int failed = ferror(f);
  return fclose(f) == 0 && !failed;
}

static int plan(model *m) {
  if (m->options.llama) return plan_llama(m);
  if (!m->options.single_tensor) return plan_decoder(m);
  uint64_t columns = 4096, bits = nabla_dtype_bits(m->options.dtype);
  uint64_t rows = m->options.megabytes * 1000000u * 8 / bits / columns;
  return add_2(m, 0.02, "model.single.weight", UINT64_MAX, rows ? rows : 1,
               columns);
}

static void spread_over_shards(model *m) {
  uint64_t total = total_bytes(m), at = 0;
  for (size_t i = 0; i < m->count; i++) {
    uint64_t shard = at * m->options.shards / total;
    m->tensors[i].shard = (uint32_t)shard;
    at += bytes_of(&m->tensors[i]);
  }
}

static void shard_name(const model *m, uint32_t shard, char *out, size_t size) {
  if (m->options.shards == 1) {
    snprintf(out, size, "model.safetensors");
  } else {
    snprintf(out, size, "model-%05u-of-%05u.safetensors", shard + 1,
             (unsigned)m->options.shards);
  }
}

static nabla_status write_tensor(const model *m, nabla_safetensors_writer *to,
                                 size_t index, nabla_diag *diag) {
  static float values[CHUNK];
  static unsigned char bytes[CHUNK * sizeof(float)];
  const tensor *t = &m->tensors[index];
  uint64_t key = mix(m->options.seed * MAX_TENSORS + index);
  uint64_t elements = elements_of(t), width = nabla_dtype_bits(t->dtype) / 8;
  for (uint64_t at = 0; at < elements; at += CHUNK) {
    size_t count = elements - at < CHUNK ? (size_t)(elements - at) : CHUNK;
    make_values(t, key, at, count, values);
    (void)nabla_from_f32(t->dtype, values, count, bytes);
    NABLA_TRY(nabla_safetensors_writer_write(to, t->id, at * width, bytes,
                                             count * width, diag));
  }
  return NABLA_OK;
}

static nabla_status fill_shard(model *m, uint32_t shard, const char *path,
                               nabla_safetensors_writer *to, nabla_diag *diag) {
  NABLA_TRY(nabla_safetensors_writer_add_metadata(to, "format", "pt", diag));
  for (size_t i = 0; i < m->count; i++) {
    tensor *t = &m->tensors[i];
    if (t->shard != shard) continue;
    NABLA_TRY(nabla_safetensors_writer_add(to, t->name, strlen(t->name),
                                           t->dtype, t->shape, t->rank, &t->id,
                                           diag));
  }
  NABLA_TRY(nabla_safetensors_writer_begin(to, path, 1, diag));
  for (size_t i = 0; i < m->count; i++) {
    if (m->tensors[i].shard == shard) NABLA_TRY(write_tensor(m, to, i, diag));
  }
  return nabla_safetensors_writer_commit(to, diag);
}

static nabla_status write_shard(model *m, uint32_t shard, nabla_diag *diag) {
  char name[64], path[4096];
  shard_name(m, shard, name, sizeof name);
  snprintf(path, sizeof path, "%s/%s", m->options.out, name);
  nabla_safetensors_writer *to;
  NABLA_TRY(nabla_safetensors_writer_create(NULL, NULL, &to, diag));
  nabla_status status = fill_shard(m, shard, path, to, diag);
  nabla_safetensors_writer_destroy(to);
  return status;
}

/* The index says in which shard each tensor lies. */
static int write_index(const model *m) {
  char path[4096], name[64];
  snprintf(path, sizeof path, "%s/model.safetensors.index.json",
           m->options.out);
  FILE *f = fopen(path, "w");
  if (!f) return 0;
  fprintf(f, "{\n  \"metadata\": {\"total_size\": %" PRIu64 "},\n",
          total_bytes(m));
  fprintf(f, "  \"weight_map\": {");
  for (size_t i = 0; i < m->count; i++) {
    shard_name(m, m->tensors[i].shard, name, sizeof name);
    fprintf(f, "%s\n    \"%s\": \"%s\"", i ? "," : "", m->tensors[i].name,
            name);
  }
  fprintf(f, "\n  }\n}\n");
  int failed = ferror(f);
  return fclose(f) == 0 && !failed;
}

static int parse_number(const char *text, uint64_t least, uint64_t most,
                        uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-') return 0;
  if (value < least || value > most) return 0;
  *out = value;
  return 1;
}

static int parse_dtype(const char *text, nabla_dtype *out) {
  static const nabla_dtype known[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                      NABLA_DTYPE_BF16};
  static const char *const names[] = {"f32", "f16", "bf16"};
  for (size_t i = 0; i < 3; i++) {
    if (strcmp(text, names[i]) == 0) {
      *out = known[i];
      return 1;
    }
  }
  return 0;
}

static int parse_option(const char *name, const char *value, options *o) {
  if (strcmp(name, "--out") == 0) return (o->out = value) != NULL;
  if (strcmp(name, "--dtype") == 0) return parse_dtype(value, &o->dtype);
  if (strcmp(name, "--megabytes") == 0) {
    return parse_number(value, 1, 1000000, &o->megabytes);
  }
  if (strcmp(name, "--seed") == 0) {
    return parse_number(value, 0, UINT64_MAX, &o->seed);
  }
  if (strcmp(name, "--shards") == 0) {
    return parse_number(value, 1, MAX_SHARDS, &o->shards);
  }
  return 0;
}

static int parse(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--single-tensor") == 0) {
      o->single_tensor = 1;
    } else if (strcmp(argv[i], "--llama") == 0) {
      o->llama = 1;
    } else if (i + 1 == argc || !parse_option(argv[i], argv[i + 1], o)) {
      fprintf(stderr, "make_checkpoint: '%s' has no valid value\n", argv[i]);
      return 0;
    } else {
      i++;
    }
  }
  return o->out != NULL && (!o->single_tensor || o->shards == 1) &&
         !(o->single_tensor && o->llama);
}

static int run(model *m) {
  nabla_diag diag = NABLA_DIAG_INIT;
  for (uint32_t shard = 0; shard < m->options.shards; shard++) {
    if (write_shard(m, shard, &diag)) {
      char text[1024];
      nabla_diag_format(&diag, text, sizeof text);
      fprintf(stderr, "make_checkpoint: %s\n", text);
      return 1;
    }
  }
  if (m->options.shards > 1 && !write_index(m)) {
    fprintf(stderr, "make_checkpoint: cannot write the index: %s\n",
            strerror(errno));
    return 1;
  }
  if (m->options.llama && !write_llama_config(m)) {
    fprintf(stderr, "make_checkpoint: cannot write config.json: %s\n",
            strerror(errno));
    return 1;
  }
  printf("%s: %zu tensors, %" PRIu64 " bytes, %" PRIu64 " file(s)\n",
         m->options.out, m->count, total_bytes(m), m->options.shards);
  return 0;
}

static void print_usage(FILE *to) {
  fputs(
      "usage: make_checkpoint --out FOLDER [--megabytes N] [--seed S] "
      "[--shards K]\n"
      "         [--dtype bf16|f16|f32] [--single-tensor | --llama]\n"
      "one tensor lies in one shard\n",
      to);
}

int main(int argc, char **argv) {
  static model m;
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    print_usage(stdout);
    return 0;
  }
  m.options = (options){
      .megabytes = 100, .seed = 1, .shards = 1, .dtype = NABLA_DTYPE_BF16};
  if (!parse(argc, argv, &m.options)) {
    print_usage(stderr);
    return 2;
  }
  if (mkdir(m.options.out, 0777) && errno != EEXIST) {
    fprintf(stderr, "make_checkpoint: %s: %s\n", m.options.out,
            strerror(errno));
    return 1;
  }
  if (!plan(&m)) {
    fprintf(stderr, "make_checkpoint: more tensors than fit in its table\n");
    return 1;
  }
  spread_over_shards(&m);
  return run(&m);
}
