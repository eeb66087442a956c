/* What the files of the example `llama` share. It uses installed headers only.
 */
#ifndef NABLA_EXAMPLES_LLAMA_H
#define NABLA_EXAMPLES_LLAMA_H

#include "nabla/decoder.h"
#include "nabla/executable.h"
#include "nabla/pool.h"
#include "nabla/session.h"
#include "nabla/tokenizer.h"

typedef struct settings {
  const char *model, *prompt, *ids, *encoding, *numerics, *save, *text,
      *program, *tokenizer, *perplexity, *cache, *mesh;
  uint64_t count, threads, context, seed, stats;
  double temperature, top_p;
} settings;

typedef struct rank rank; /* of this process: a session, a thread */

/* A model that is ready to run, with its cache. */
typedef struct engine {
  nabla_environment environment;
  nabla_model *model;
  nabla_packed_model *packed; /* with --encoding */
  nabla_executable *executable;
  nabla_decoder_limits limits;
  nabla_comm *comm; /* with --mesh */
  rank *ranks;
  uint32_t rank_count, first_rank;
  nabla_session *session; /* of the first rank; has the cache */
  float *logits;          /* of the last token fed */
  const int64_t *ids;     /* that are fed */
  size_t count;
  uint32_t *order;   /* room for nabla_decoder_sample */
  uint64_t position; /* tokens in the cache; what lies behind is not read */
  uint64_t cache_bytes, weight_bytes;
  double program_ms;
} engine;

nabla_status engine_open(engine *e, const settings *s, nabla_diag *diag);
void engine_close(engine *e);

/* The communicator of a mesh such as "model=2" (NULL: none), before the program
 * is made; a session for each rank, behind it. */
nabla_status ranks_connect(engine *e, const char *mesh, nabla_diag *diag);
nabla_status ranks_open(engine *e, nabla_diag *diag);
void ranks_close(engine *e);

/* Runs the model over `count` tokens behind those of the cache; e->logits are
 * those after the last one. Errors are those of nabla_decoder_run. */
nabla_status engine_feed(engine *e, const int64_t *ids, size_t count,
                         nabla_diag *diag);

typedef struct speed {
  size_t prompt, generated;
  double prompt_ms, generated_ms;
} speed;

/* What --stats prints. */
void print_stats(const engine *e, const speed *v);
double now_ms(void);

#endif
