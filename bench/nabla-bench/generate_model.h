/* A whole model for the verb generate: opened, packed, compiled, in a session
 * that keeps its caches. */
#ifndef NABLA_BENCH_GENERATE_MODEL_H
#define NABLA_BENCH_GENERATE_MODEL_H

#include "bench/nabla-bench/bench.h"
#include "nabla/decoder.h"
#include "nabla/session.h"

/* How many tokens a run of `generate` makes. */
#define BENCH_GENERATED 32u

typedef struct bench_model {
  const bench_settings *settings;
  uint64_t prompt; /* tokens */
  nabla_environment environment;
  nabla_model *model;
  nabla_decoder_shape shape;
  char format[80]; /* "nf4/32:f16" */
  nabla_weight_desc *packed;
  size_t packed_count;
  uint8_t *arena; /* of all that was packed, in huge pages */
  uint64_t arena_bytes;
  nabla_executable *executable;
  nabla_session *session;
  float *logits; /* of the last token */
  uint64_t weight_bytes;
  uint64_t token_bytes;  /* of those that every token reads: not of the rows of
                            an embedding                                   */
  uint64_t prompt_flops; /* of all products with weights of a prompt       */
  double compile_ms;
  int from_cache; /* the program was compiled before */
  int is_filled;  /* the caches hold the text that generations go on with */
} bench_model;

/* Opens the Llama at `path`, packs its matrices as the settings say (dense: not
 * at all) and compiles its program. The caches are of f16.
 * @return NABLA_OK, or a status of what failed; bench_model_close in each case
 */
NABLA_MUST_USE nabla_status bench_model_open(const bench_settings *settings,
                                             const char *path, bench_model *out,
                                             nabla_diag *diag);
void bench_model_close(bench_model *self);

/* Runs the model over `count` tokens at `position`. */
NABLA_MUST_USE nabla_status bench_model_feed(bench_model *self,
                                             const int64_t *tokens,
                                             uint64_t count, uint64_t position,
                                             nabla_diag *diag);

/* Generates the last BENCH_GENERATED tokens of a text, greedily; reads a
 * prompt. See contest.h. */
nabla_status bench_model_generate(void *self, uint64_t first, uint32_t count,
                                  double *out, nabla_diag *diag);
nabla_status bench_model_prompt(void *self, uint64_t first, uint32_t count,
                                double *out, nabla_diag *diag);

#endif
