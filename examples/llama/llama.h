/* What the files of the example `llama` share. It uses installed headers only.
 */
#ifndef NABLA_EXAMPLES_LLAMA_H
#define NABLA_EXAMPLES_LLAMA_H

#include <stdint.h>

#include "nabla/decoder.h"
#include "nabla/executable.h"
#include "nabla/pool.h"
#include "nabla/session.h"
#include "nabla/tokenizer.h"

typedef struct settings {
  const char *model, *prompt, *ids, *encoding, *numerics, *save, *text,
      *program;
  const char *tokenizer, *perplexity, *cache;
  uint64_t count, threads, context, seed;
  double temperature, top_p;
  int stats;
} settings;

/* A weight packed here, from the model's dense one. */
typedef struct packed_weight {
  void *blocks[NABLA_WEIGHT_MAX_COMPONENTS];
} packed_weight;

/* A model that is ready to run, with its cache. */
typedef struct engine {
  nabla_environment environment;
  nabla_model *model;
  nabla_weight_desc *packed; /* with --encoding; names are the model's */
  packed_weight *packed_data;
  size_t packed_count;
  nabla_executable *executable;
  nabla_decoder_limits limits;
  uint64_t cache_bytes, weight_bytes;
  nabla_session *session; /* has the cache */
  float *logits;          /* of the last token fed */
  uint64_t position;      /* tokens in the cache   */
  double compile_ms;
} engine;

nabla_status engine_open(engine *e, const settings *s, nabla_diag *diag);
void engine_close(engine *e);

/* Forgets all tokens. */
void engine_reset(engine *e);

/* Runs the model over `count` tokens behind those of the cache; e->logits are
 * those after the last one. Errors are those of nabla_decoder_run. */
nabla_status engine_feed(engine *e, const int64_t *ids, size_t count,
                         nabla_diag *diag);

/* Packs the matrices of the model: NAME[:BLOCK][:f16][:search]. */
nabla_status pack_weights(engine *e, const char *encoding, nabla_diag *diag);

/* The next token by --temperature, --top-p and --seed. `order` is an array of
 * `count` elements, which is overwritten. */
int64_t sample(const settings *s, const float *logits, uint64_t count,
               uint64_t *random, uint32_t *order);

/* Bytes of memory that this process holds, mapped files counted. */
uint64_t resident_bytes(void);

/* Bytes a second at which the threads read the weights; nothing can generate
 * faster than that allows. */
double read_limit(const engine *e);

double now_ms(void);

#endif
