/* The program of a language model: the text of a Llama decoder in the nabla
 * dialect, written from a checkpoint and its config.json. Compile the text
 * (nabla/compiler.h), or save it and open it without a compiler; then bind the
 * model (nabla_executable_bind_model). Part of libnabla-runtime: no MLIR. */
#ifndef NABLA_DECODER_H
#define NABLA_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/environment.h"
#include "nabla/model.h"
#include "nabla/sink.h"
#include "nabla/status.h"
#include "nabla/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits, each refused with NABLA_TOO_LARGE. */
#define NABLA_DECODER_MAX_LAYERS  512u
#define NABLA_DECODER_MAX_SIZE    (1u << 24) /* of a dimension               */
#define NABLA_DECODER_MAX_CONTEXT (1u << 24) /* positions of a cache */

/* The rows of logits that the function `prefill` returns. */
typedef enum nabla_decoder_logits {
  NABLA_LOGITS_LAST, /* [1, vocabulary]: those after the last token  */
  NABLA_LOGITS_ALL,  /* [tokens, vocabulary]: those after each token */
} nabla_decoder_logits;

/* Options of nabla_decoder_write. Members that are 0 or NULL select defaults.
 * Strings and arrays are borrowed for the call. */
typedef struct nabla_decoder_options {
  size_t struct_size; /* sizeof(nabla_decoder_options)                       */
  const char *config; /* path of config.json; NULL: beside the weights       */
  nabla_decoder_logits logits;
  uint64_t context; /* positions that the cache holds, more or fewer than
                       config.json's max_position_embeddings; 0: as many     */
  /* Element type of the cache: F32, F16 or BF16; 0 (BOOL): F32. */
  nabla_dtype cache;
  /* Weights that replace those of the same name in the model, such as weights
   * that the caller has packed in memory. Only name, rank, shape, dtype and
   * layout are read. */
  const nabla_weight_desc *weights;
  size_t weight_count;
} nabla_decoder_options;

/* The sizes of a decoder, from config.json and the options. */
typedef struct nabla_decoder_shape {
  uint64_t hidden, inner, layers, heads, kv_heads, head_size, vocabulary;
  uint64_t context;     /* positions of the cache                       */
  uint64_t cache_bytes; /* of all layers                                */
  nabla_dtype cache;    /* its element type                             */
  int is_tied;          /* the embedding is the head                    */
} nabla_decoder_shape;

/* Writes the program of `model` to `sink`. It has two functions, with the same
 * weights, named like their tensors:
 *
 *   decode(token: [1] i64, position: i64, weights)
 *       -> logits [1, vocabulary] f32
 *   prefill(tokens: [n] i64, position: i64, weights)
 *       -> logits [1 or n, vocabulary] f32
 *
 * The caches are states (nabla/session.h), which both functions share:
 * `cache.LAYER.k` and `cache.LAYER.v`, each [kv_heads, context, head_size].
 * `position` is the number of tokens that the caches already hold. Later
 * positions are not read, so that a run with position 0 begins a new text. The
 * caller must check that each token is below `vocabulary` and that position + n
 * is at most `context`: the program does not.
 *
 * Each weight has the type of its tensor in the model: f32, f16, bf16 or any
 * packing. All other arrays are f32. Refused, with an error that names them:
 * keys of config.json that change what a model computes and that this writer
 * does not support (rope_scaling, experts, a sliding window, biases), unknown
 * keys, and tensors that a Llama decoder does not have.
 *
 * @param environment  NULL or allocator and os, for config.json
 * @param out_shape    may be NULL
 * @return NABLA_OK
 *         NABLA_UNSUPPORTED       another architecture, a key, a tensor
 *         NABLA_CORRUPT           config.json is damaged; a tensor is missing
 *                                 or has another shape than config.json says
 *         NABLA_INVALID_ARGUMENT  an illegal option
 *         NABLA_TOO_LARGE         a limit above
 *         NABLA_IO                config.json cannot be read
 *         NABLA_NO_MEMORY, or the status that `sink` returned
 * Thread-safe for distinct sinks. */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_write(
    nabla_model *model, const nabla_decoder_options *options,
    const nabla_environment *environment, const nabla_sink *sink,
    nabla_decoder_shape *out_shape, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
