/* Inside lib/models: the tensors that a decoder is made of. */
#ifndef NABLA_MODELS_DECODER_WEIGHTS_H
#define NABLA_MODELS_DECODER_WEIGHTS_H

#include "lib/base/memory.h"
#include "lib/models/decoder_config.h"
#include "lib/models/model_text.h"
#include "nabla/decoder.h"

/* Those of a layer, in the order of decoder_weights.def. */
typedef enum nabla_layer_weight {
#define LAYER_WEIGHT(id, name, rows, columns) NABLA_LAYER_##id,
#include "lib/models/decoder_weights.def"
#undef LAYER_WEIGHT
  NABLA_LAYER_WEIGHTS
} nabla_layer_weight;

typedef struct nabla_decoder_weight {
  char name[64];
  char type[NABLA_MODEL_TYPE_SIZE];
  uint64_t rows, columns; /* rows 0: of rank 1 */
  int is_widened;         /* dense and not f32 */
} nabla_decoder_weight;

/* All of them: the embedding, those of each layer, the last norm, the head. */
typedef struct nabla_decoder_weights {
  const nabla_allocator *allocator;
  nabla_decoder_weight *all;
  size_t count, room;
} nabla_decoder_weights;

/* Where weight `id` of a layer is, the last norm, and the head. */
static inline size_t nabla_decoder_layer(uint64_t layer,
                                         nabla_layer_weight id) {
  return 1 + (size_t)layer * NABLA_LAYER_WEIGHTS + id;
}
static inline size_t nabla_decoder_norm(uint64_t layers) {
  return nabla_decoder_layer(layers, 0);
}
static inline size_t nabla_decoder_head(uint64_t layers, int is_tied) {
  return is_tied ? 0 : nabla_decoder_norm(layers) + 1;
}

/* Finds them in the model, or in the options, and checks shapes; every tensor
 * of the model must be one of them. */
NABLA_MUST_USE nabla_status nabla_decoder_weights_find(
    nabla_model *model, const nabla_decoder_config *config,
    const nabla_decoder_options *options, const nabla_allocator *allocator,
    nabla_decoder_weights *out, nabla_diag *diag);

void nabla_decoder_weights_release(nabla_decoder_weights *weights);

#endif
