/* The program of a language model: the text of a Llama decoder in the nabla
 * dialect, written from a checkpoint and its config.json. Compile the text
 * (nabla/compiler.h), or save it and open it without a compiler; then bind the
 * model (nabla_executable_bind_model), and feed tokens to a session
 * (nabla_decoder_run). Part of libnabla-runtime: no MLIR. */
#ifndef NABLA_DECODER_H
#define NABLA_DECODER_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/environment.h"
#include "nabla/model.h"
#include "nabla/session.h"
#include "nabla/sink.h"
#include "nabla/status.h"
#include "nabla/tokenizer.h"
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
 * program does not check that each token is below `vocabulary` and that
 * position + n is at most `context`: nabla_decoder_run does, before it runs.
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

/* The limits of a decoder that is compiled or saved. */
typedef struct nabla_decoder_limits {
  uint64_t vocabulary; /* token ids are below it                            */
  uint64_t context;    /* tokens that the caches of a session hold          */
  nabla_decoder_logits logits; /* rows that `prefill` returns               */
} nabla_decoder_limits;

/* Finds the limits of a program by its functions.
 * @return NABLA_OK
 *         NABLA_UNSUPPORTED  the program is none of nabla_decoder_write; the
 *                            message names the function that differs
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_decoder_find_limits(const nabla_executable *executable,
                          nabla_decoder_limits *out, nabla_diag *diag);

/* Checks that `tokenizer` can be of the model: it has no more tokens than the
 * program's vocabulary. Fewer are allowed: models have rows that stand for no
 * token.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  more tokens; the message has both numbers
 *         NABLA_UNSUPPORTED       as nabla_decoder_find_limits
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_check_tokenizer(
    const nabla_executable *executable, const nabla_tokenizer *tokenizer,
    nabla_diag *diag);

/* Feeds `count` tokens behind the first `position` tokens of the session's
 * caches, with `decode` for one token and `prefill` for more, after checking
 * that the tokens are of the vocabulary and fit into the caches.
 * @param ids          tokens, at least one
 * @param position     tokens that the caches hold: those that were fed before
 * @param logits       of the last token, or with NABLA_LOGITS_ALL of each: rows
 *                     of `vocabulary` values
 * @param logit_count  values that `logits` has room for
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no token; a token that the vocabulary lacks;
 *                                 more tokens than the caches have room for;
 *                                 `logits` is too small. The message has both
 *                                 numbers, and nothing was run
 *         or the status of nabla_decoder_find_limits or nabla_session_run
 * One thread at a time for a session; allocates what nabla_session_run does. */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_run(
    nabla_session *session, const int64_t *ids, size_t count, uint64_t position,
    float *logits, size_t logit_count, nabla_diag *diag);

/* Opens the tokenizer of a model and checks it as
 * nabla_decoder_check_tokenizer does.
 * @param path         as of nabla_tokenizer_open; NULL: the folder of the
 *                     model's first file
 * @param environment  as of nabla_tokenizer_open
 * @return NABLA_OK, or the status of nabla_tokenizer_open or
 *         nabla_decoder_check_tokenizer */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_open_tokenizer(
    const nabla_executable *executable, const nabla_model *model,
    const char *path, const nabla_environment *environment,
    nabla_tokenizer **out, nabla_diag *diag);

/* ---- the next token ------------------------------------------------------ */

/* How the next token is chosen. Zero in all members but struct_size takes the
 * likeliest one. */
typedef struct nabla_sampling {
  size_t struct_size; /* sizeof(nabla_sampling) */
  double temperature; /* logits are divided by it; 0: the likeliest token */
  /* Only the likeliest tokens are drawn from: as few as have at least this
   * probability together. 0 and 1: all. */
  double top_p;
} nabla_sampling;

/* Chooses a token from a row of logits, by soft-max. The same state gives the
 * same token on every machine with the same logits and libm.
 * @param logits  `count` values; -inf excludes a token
 * @param how     NULL: the likeliest token, the first of several
 * @param random  state of the random numbers, any value at first, which changes
 *                with each draw; may be NULL where nothing is drawn
 * @param order   room for `count` tokens, as `random`
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a logit that is not a number, or inf; all are
 *                                 -inf; a temperature or top_p out of range
 *         NABLA_TOO_LARGE         more than 2^32 - 1 logits
 * Thread-safe for distinct states, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_sample(
    const float *logits, size_t count, const nabla_sampling *how,
    uint64_t *random, uint32_t *order, int64_t *out, nabla_diag *diag);

/* The log of the sum of exp of a row of logits: logits[i] minus it is the log
 * of the probability of token i. -inf for none. Thread-safe. */
NABLA_API double nabla_decoder_log_sum(const float *logits, size_t count);

/* What a text costs. */
typedef struct nabla_decoder_loss {
  size_t tokens;     /* that were predicted                                  */
  double loss;       /* mean of -log p of each; exp of it is the perplexity  */
  double divergence; /* mean of KL(reference, session) in their places       */
} nabla_decoder_loss;

/* Feeds a text token by token and measures how well each next token was
 * predicted, and how far the distribution is from that of a reference, such as
 * the same model with dense weights. A text begins anew, with empty caches,
 * where its first token comes again (several texts, each with a token that
 * begins it) and where a cache is full; these tokens are not predicted.
 * @param reference  another session, of another executable or the same; NULL:
 *                   none, and the divergence is 0
 * @param out        zeros where no token is predicted
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  vocabularies of two sizes
 *         or the status of nabla_decoder_run
 * The caches of the sessions are overwritten. */
NABLA_API NABLA_MUST_USE nabla_status nabla_decoder_measure_loss(
    nabla_session *session, nabla_session *reference, const int64_t *ids,
    size_t count, nabla_decoder_loss *out, nabla_diag *diag);

/* ---- weights that are packed in memory ----------------------------------- */

/* The matrices of a model, packed in memory. */
typedef struct nabla_packed_model nabla_packed_model;

/* Packs every dense matrix of floats of `model` in memory, as nabla-quant does
 * in a file. Name the result's weights to nabla_decoder_write, so that the
 * program is for them, and to nabla_executable_bind_model.
 * @param how  "NAME[:BLOCK][:f16][:search]": an encoding with blocks of 64
 *             unless it has one of its own, scales in f32 or f16, from the
 *             absmax or searched; or a format of GGUF's blocks that can be
 *             encoded: "nf4", "nf4:32:f16:search", "q4_0"
 * @param environment  its allocator must outlive the result, its pool computes;
 *                     NULL: malloc, the calling thread
 * @param out  names of its weights are the model's, which outlives it
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  `how` is not understood, or a matrix does not
 *                                 have the form that it asks for
 *         NABLA_NOT_FINITE        a value is NaN or infinite
 *         NABLA_TOO_LARGE, NABLA_NO_MEMORY, or as nabla_model_find */
NABLA_API NABLA_MUST_USE nabla_status nabla_model_pack(
    nabla_model *model, const char *how, const nabla_environment *environment,
    nabla_packed_model **out, nabla_diag *diag);

/* The packed weights; NULL has none. They live as long as `packed`. */
NABLA_API const nabla_weight_desc *nabla_packed_model_weights(
    const nabla_packed_model *packed, size_t *out_count);

/* Frees the weights, which nothing may be bound to any more. NULL is allowed.
 */
NABLA_API void nabla_packed_model_close(nabla_packed_model *packed);

#ifdef __cplusplus
}
#endif

#endif
