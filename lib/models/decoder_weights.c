/* See decoder_weights.h. */
#include "lib/models/decoder_weights.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EMBEDDING "model.embed_tokens.weight"
#define LAST_NORM "model.norm.weight"
#define HEAD      "lm_head.weight"

typedef struct finder {
  nabla_model *model;
  const nabla_decoder_config *config;
  const nabla_decoder_options *options;
  nabla_decoder_weights *out;
  size_t of_model; /* tensors of the model that are used */
  nabla_diag *diag;
} finder;

/* That of the options, else of the model. */
static nabla_status find(finder *f, const char *name, nabla_weight_desc *out) {
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(f->model);
  f->of_model +=
      nabla_checkpoint_find(checkpoint, name, strlen(name)) != SIZE_MAX;
  for (size_t i = 0; i < f->options->weight_count; i++) {
    const nabla_weight_desc *weight = &f->options->weights[i];
    if (!weight->name || strcmp(weight->name, name) != 0) continue;
    *out = *weight;
    return NABLA_OK;
  }
  nabla_weight weight;
  const nabla_status status =
      nabla_model_find(f->model, name, &weight, f->diag);
  if (!status) *out = weight.desc;
  /* The caller asked for no tensor: the model lacks one. */
  return status == NABLA_INVALID_ARGUMENT ? NABLA_CORRUPT : status;
}

static nabla_status fail_shape(const finder *f,
                               const nabla_decoder_weight *want,
                               const nabla_weight_desc *got) {
  char shape[64] = "";
  for (uint32_t i = 0; i < got->rank && i < 3; i++) {
    const size_t used = strlen(shape);
    (void)snprintf(shape + used, sizeof shape - used, "%s%" PRIu64,
                   i ? "," : "", got->shape[i]);
  }
  char rows[24] = "";
  if (want->rows) (void)snprintf(rows, sizeof rows, "%" PRIu64 ",", want->rows);
  return nabla_fail(f->diag, NABLA_CORRUPT,
                    "its shape is [%s], config.json says [%s%" PRIu64 "]",
                    shape, rows, want->columns);
}

/* Fills in the next one, whose name and sizes are set. */
static nabla_status add(finder *f, uint64_t rows, uint64_t columns) {
  nabla_decoder_weight *weight = &f->out->all[f->out->count];
  nabla_weight_desc desc;
  nabla_status status = find(f, weight->name, &desc);
  weight->rows = rows;
  weight->columns = columns;
  if (!status) {
    const int fits = desc.rank == (rows ? 2u : 1u) &&
                     desc.shape[desc.rank - 1] == columns &&
                     (!rows || desc.shape[0] == rows);
    status = fits ? nabla_model_type(&desc, weight->type, f->diag)
                  : fail_shape(f, weight, &desc);
    weight->is_widened = desc.layout.kind == NABLA_STORAGE_DENSE &&
                         desc.dtype != NABLA_DTYPE_F32;
  }
  if (status) {
    nabla_diag_set_file(f->diag, nabla_checkpoint_borrow_path(
                                     nabla_model_borrow_checkpoint(f->model)));
    nabla_diag_set_tensor(f->diag, weight->name, strlen(weight->name));
    return status;
  }
  f->out->count++;
  return NABLA_OK;
}

static nabla_status add_named(finder *f, const char *name, uint64_t rows,
                              uint64_t columns) {
  (void)snprintf(f->out->all[f->out->count].name,
                 sizeof f->out->all[f->out->count].name, "%s", name);
  return add(f, rows, columns);
}

static nabla_status add_layer(finder *f, uint64_t layer) {
  const nabla_decoder_config *c = f->config;
  const struct {
    const char *name;
    uint64_t rows, columns;
  } rows[] = {
#define LAYER_WEIGHT(id, name, rows, columns) {name, rows, columns},
#include "lib/models/decoder_weights.def"
#undef LAYER_WEIGHT
  };
  for (size_t i = 0; i < NABLA_LAYER_WEIGHTS; i++) {
    nabla_decoder_weight *to = &f->out->all[f->out->count];
    const int length =
        snprintf(to->name, sizeof to->name,
                 "model.layers.%" PRIu64 ".%s.weight", layer, rows[i].name);
    assert(length > 0 && (size_t)length < sizeof to->name);
    (void)length;
    NABLA_TRY(add(f, rows[i].rows, rows[i].columns));
  }
  return NABLA_OK;
}

/* A tensor that no part of the program reads, and that changes nothing: the
 * head of a tied model, or the angles that old checkpoints hold. */
static int is_spare(const finder *f, const char *name, size_t length) {
  static const char angles[] = ".rotary_emb.inv_freq";
  const size_t end = sizeof angles - 1;
  return (f->config->tie_word_embeddings && length == sizeof HEAD - 1 &&
          !memcmp(name, HEAD, length)) ||
         (length > end && !memcmp(name + length - end, angles, end));
}

static int is_used(const nabla_decoder_weights *weights, const char *name,
                   size_t length) {
  for (size_t i = 0; i < weights->count; i++)
    if (strlen(weights->all[i].name) == length &&
        !memcmp(weights->all[i].name, name, length))
      return 1;
  return 0;
}

/* Tensors that the program would leave out are a part that it lacks. */
static nabla_status check_rest(const finder *f) {
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(f->model);
  const size_t count = nabla_checkpoint_count(checkpoint);
  if (count == f->of_model) return NABLA_OK;
  for (size_t i = 0; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    if (is_spare(f, tensor.name, tensor.name_length) ||
        is_used(f->out, tensor.name, tensor.name_length))
      continue;
    const nabla_status status =
        nabla_fail(f->diag, NABLA_UNSUPPORTED,
                   "a Llama decoder as config.json describes it has no such "
                   "tensor");
    nabla_diag_set_file(f->diag, nabla_checkpoint_borrow_path(checkpoint));
    nabla_diag_set_tensor(f->diag, tensor.name, tensor.name_length);
    nabla_diag_set_next(f->diag,
                        "nabla-quant inspect lists the tensors; config.json "
                        "and the model must belong together");
    return status;
  }
  return NABLA_OK;
}

static nabla_status find_all(finder *f) {
  const nabla_decoder_config *c = f->config;
  NABLA_TRY(add_named(f, EMBEDDING, c->vocab_size, c->hidden_size));
  for (uint64_t i = 0; i < c->num_hidden_layers; i++)
    NABLA_TRY(add_layer(f, i));
  NABLA_TRY(add_named(f, LAST_NORM, 0, c->hidden_size));
  if (!c->tie_word_embeddings)
    NABLA_TRY(add_named(f, HEAD, c->vocab_size, c->hidden_size));
  return check_rest(f);
}

nabla_status nabla_decoder_weights_find(nabla_model *model,
                                        const nabla_decoder_config *config,
                                        const nabla_decoder_options *options,
                                        const nabla_allocator *allocator,
                                        nabla_decoder_weights *out,
                                        nabla_diag *diag) {
  finder f = {.model = model,
              .config = config,
              .options = options,
              .out = out,
              .diag = diag};
  void *all;
  *out = (nabla_decoder_weights){
      .allocator = allocator,
      .room = nabla_decoder_norm(config->num_hidden_layers) + 2};
  NABLA_TRY(nabla_alloc(allocator, out->room, sizeof *out->all, &all, diag));
  out->all = all;
  const nabla_status status = find_all(&f);
  if (status) nabla_decoder_weights_release(out);
  return status;
}

void nabla_decoder_weights_release(nabla_decoder_weights *weights) {
  nabla_free(weights->allocator, weights->all, weights->room,
             sizeof *weights->all);
  weights->all = NULL;
}
