/* See llama_reference.h. */
#include "tests/support/llama_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
  float *norm_1, *norm_2, *q, *k, *v, *o, *gate, *up, *down;
} layer;

struct llama_reference {
  nabla_decoder_shape s;
  double theta, eps;
  float *embedding, *norm, *head;
  layer *layers;
  double *keys, *values; /* layer, position, kv heads x size */
  double *x, *h, *q, *y, *gate, *up, *scores, *logits;
  uint64_t position;
};

static void *zeros(uint64_t count) {
  void *block = calloc(count + 1, sizeof(double));
  if (!block) abort();
  return block;
}

static float *read(nabla_model *model, const char *name) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_weight weight;
  if (nabla_model_find(model, name, &weight, &diag)) {
    (void)fprintf(stderr, "%s: %s\n", name, diag.what);
    abort();
  }
  const uint64_t rows = weight.desc.shape[0];
  float *out = zeros(rows * (weight.desc.rank > 1 ? weight.desc.shape[1] : 1));
  if (nabla_weight_read(&weight.desc, 0, rows, out, &diag)) abort();
  return out;
}

static float *read_of(nabla_model *model, uint64_t number, const char *name) {
  char full[128];
  (void)snprintf(full, sizeof full, "model.layers.%llu.%s.weight",
                 (unsigned long long)number, name);
  return read(model, full);
}

llama_reference *llama_reference_create(nabla_model *model,
                                        const nabla_decoder_shape *shape,
                                        double theta, double eps) {
  llama_reference *r = calloc(1, sizeof *r);
  if (!r) abort();
  const nabla_decoder_shape *s = &r->s;
  r->s = *shape;
  r->theta = theta;
  r->eps = eps;
  r->embedding = read(model, "model.embed_tokens.weight");
  r->norm = read(model, "model.norm.weight");
  r->head = s->is_tied ? r->embedding : read(model, "lm_head.weight");
  r->layers = calloc(s->layers, sizeof *r->layers);
  if (!r->layers) abort();
  for (uint64_t i = 0; i < s->layers; i++) {
    r->layers[i] = (layer){read_of(model, i, "input_layernorm"),
                           read_of(model, i, "post_attention_layernorm"),
                           read_of(model, i, "self_attn.q_proj"),
                           read_of(model, i, "self_attn.k_proj"),
                           read_of(model, i, "self_attn.v_proj"),
                           read_of(model, i, "self_attn.o_proj"),
                           read_of(model, i, "mlp.gate_proj"),
                           read_of(model, i, "mlp.up_proj"),
                           read_of(model, i, "mlp.down_proj")};
  }
  const uint64_t cached = s->layers * s->context * s->kv_heads * s->head_size;
  r->keys = zeros(cached);
  r->values = zeros(cached);
  r->x = zeros(s->hidden);
  r->h = zeros(s->hidden);
  r->q = zeros(s->heads * s->head_size);
  r->y = zeros(s->heads * s->head_size);
  r->gate = zeros(s->inner);
  r->up = zeros(s->inner);
  r->scores = zeros(s->context);
  r->logits = zeros(s->vocabulary);
  return r;
}

void llama_reference_destroy(llama_reference *r) {
  if (!r) return;
  for (uint64_t i = 0; i < r->s.layers; i++) {
    layer *l = &r->layers[i];
    float *all[] = {l->norm_1, l->norm_2, l->q,  l->k,   l->v,
                    l->o,      l->gate,   l->up, l->down};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) free(all[j]);
  }
  if (r->head != r->embedding) free(r->head);
  void *rest[] = {r->embedding, r->norm,   r->layers, r->keys, r->values,
                  r->x,         r->h,      r->q,      r->y,    r->gate,
                  r->up,        r->scores, r->logits, r};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) free(rest[i]);
}

static void multiply(const float *w, const double *x, uint64_t rows,
                     uint64_t columns, double *out) {
  for (uint64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (uint64_t j = 0; j < columns; j++)
      sum += (double)w[i * columns + j] * x[j];
    out[i] = sum;
  }
}

static void normalize(const llama_reference *r, const double *x, const float *w,
                      double *out) {
  double sum = 0;
  for (uint64_t i = 0; i < r->s.hidden; i++) sum += x[i] * x[i];
  const double by = 1 / sqrt(sum / (double)r->s.hidden + r->eps);
  for (uint64_t i = 0; i < r->s.hidden; i++) out[i] = x[i] * by * (double)w[i];
}

static void turn(const llama_reference *r, double *x, uint64_t heads) {
  const uint64_t size = r->s.head_size, half = size / 2;
  for (uint64_t head = 0; head < heads; head++)
    for (uint64_t i = 0; i < half; i++) {
      const double angle =
          (double)r->position * pow(r->theta, -2 * (double)i / (double)size);
      double *a = x + head * size + i, *b = a + half;
      const double first = *a * cos(angle) - *b * sin(angle);
      *b = *a * sin(angle) + *b * cos(angle);
      *a = first;
    }
}

static void attend(llama_reference *r, const double *keys,
                   const double *values) {
  const nabla_decoder_shape *s = &r->s;
  const uint64_t size = s->head_size, row = s->kv_heads * size;
  for (uint64_t head = 0; head < s->heads; head++) {
    const uint64_t of = head / (s->heads / s->kv_heads) * size;
    double most = -INFINITY, sum = 0;
    for (uint64_t t = 0; t <= r->position; t++) {
      double score = 0;
      for (uint64_t i = 0; i < size; i++)
        score += r->q[head * size + i] * keys[t * row + of + i];
      r->scores[t] = score / sqrt((double)size);
      most = fmax(most, r->scores[t]);
    }
    for (uint64_t t = 0; t <= r->position; t++)
      sum += r->scores[t] = exp(r->scores[t] - most);
    for (uint64_t i = 0; i < size; i++) {
      double value = 0;
      for (uint64_t t = 0; t <= r->position; t++)
        value += r->scores[t] / sum * values[t * row + of + i];
      r->y[head * size + i] = value;
    }
  }
}

static void run_layer(llama_reference *r, uint64_t number) {
  const nabla_decoder_shape *s = &r->s;
  const layer *l = &r->layers[number];
  const uint64_t row = s->kv_heads * s->head_size,
                 all = s->heads * s->head_size;
  double *keys = r->keys + number * s->context * row,
         *values = r->values + number * s->context * row;
  normalize(r, r->x, l->norm_1, r->h);
  multiply(l->q, r->h, all, s->hidden, r->q);
  multiply(l->k, r->h, row, s->hidden, keys + r->position * row);
  multiply(l->v, r->h, row, s->hidden, values + r->position * row);
  turn(r, r->q, s->heads);
  turn(r, keys + r->position * row, s->kv_heads);
  attend(r, keys, values);
  multiply(l->o, r->y, s->hidden, all, r->h);
  for (uint64_t i = 0; i < s->hidden; i++) r->x[i] += r->h[i];
  normalize(r, r->x, l->norm_2, r->h);
  multiply(l->gate, r->h, s->inner, s->hidden, r->gate);
  multiply(l->up, r->h, s->inner, s->hidden, r->up);
  for (uint64_t i = 0; i < s->inner; i++)
    r->gate[i] *= r->up[i] / (1 + exp(-r->gate[i]));
  multiply(l->down, r->gate, s->hidden, s->inner, r->h);
  for (uint64_t i = 0; i < s->hidden; i++) r->x[i] += r->h[i];
}

const double *llama_reference_step(llama_reference *r, int64_t token) {
  if (r->position >= r->s.context) abort();
  for (uint64_t i = 0; i < r->s.hidden; i++)
    r->x[i] = (double)r->embedding[(uint64_t)token * r->s.hidden + i];
  for (uint64_t i = 0; i < r->s.layers; i++) run_layer(r, i);
  normalize(r, r->x, r->norm, r->h);
  multiply(r->head, r->h, r->s.vocabulary, r->s.hidden, r->logits);
  r->position++;
  return r->logits;
}
