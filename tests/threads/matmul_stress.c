/* One plan run from several threads at once: whole, in cuts, and by a pool;
 * plans made and destroyed meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/matmul.h"

enum { CALLERS = 4, CALLS = 40, N = 137, K = 704, M = 3 };

static float weights[N * K], x[M * K], wanted[M * N];
static uint8_t blocks[N * K / 32 * 18]; /* of q4_0 */

static int run_cut(const nabla_matmul_plan *plan, void *room, float *y,
                   int cut) {
  int wrong = nabla_matmul_plan_prepare(plan, x, M, room, NULL) != NABLA_OK;
  wrong += nabla_matmul_plan_run_rows(plan, x, M, y, 0, (uint64_t)cut, room,
                                      NULL) != NABLA_OK;
  wrong += nabla_matmul_plan_run_rows(plan, x, M, y, (uint64_t)cut, N, room,
                                      NULL) != NABLA_OK;
  return wrong;
}

typedef struct caller {
  const nabla_matmul_plan *plan;
  const nabla_matmul_weight *weight;
  const nabla_matmul_options *options;
  int wrong;
} caller;

static void *call_often(void *self) {
  caller *c = self;
  float y[M * N];
  for (int i = 0; i < CALLS; i++) {
    nabla_matmul_plan *own = NULL;
    if (i % 8 == 0)
      c->wrong += nabla_matmul_plan_create_from(c->weight, c->options, &own,
                                                NULL) != NABLA_OK;
    const nabla_matmul_plan *plan = own ? own : c->plan;
    memset(y, 0, sizeof y);
    if (i & 1)
      c->wrong += run_cut(plan, NULL, y, i % N);
    else
      c->wrong += nabla_matmul_plan_run(plan, x, M, y, NULL, NULL) != NABLA_OK;
    c->wrong += memcmp(y, wanted, sizeof y) != 0;
    nabla_matmul_plan_destroy(own);
  }
  return NULL;
}

static int stress(const nabla_matmul_weight *weight, uint32_t threads) {
  nabla_matmul_options options = {.provider = NABLA_MATMUL_C};
  nabla_matmul_plan *plan = NULL;
  pthread_t ids[CALLERS];
  caller callers[CALLERS];
  int wrong = 0;
  if (threads &&
      nabla_pool_create(threads, NULL, &options.environment.pool, NULL))
    return 1;
  if (nabla_matmul_plan_create_from(weight, &options, &plan, NULL)) return 1;
  if (nabla_matmul_plan_run(plan, x, M, wanted, NULL, NULL)) return 1;
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){plan, weight, &options, 0};
    if (pthread_create(&ids[i], NULL, call_often, &callers[i])) return 1;
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(ids[i], NULL);
    wrong += callers[i].wrong;
  }
  nabla_matmul_plan_destroy(plan);
  nabla_pool_destroy(options.environment.pool);
  if (wrong) printf("%u threads: %d wrong\n", threads, wrong);
  return wrong != 0;
}

int main(void) {
  for (int i = 0; i < N * K; i++) weights[i] = (float)(i % 13) / 8 - 0.7f;
  for (int i = 0; i < M * K; i++) x[i] = (float)(i % 17) / 4 - 2;
  const nabla_ggml *ggml = nabla_ggml_find("q4_0");
  const nabla_matmul_weight dense = {.dtype = NABLA_DTYPE_F32,
                                     .n = N,
                                     .k = K,
                                     .codes = weights,
                                     .code_bytes = sizeof weights},
                            packed = {.ggml = ggml,
                                      .n = N,
                                      .k = K,
                                      .codes = blocks,
                                      .code_bytes = sizeof blocks};
  if (nabla_ggml_encode(ggml, NABLA_DTYPE_F32, weights, N * K / 32, blocks,
                        NULL, NULL))
    return 1;
  return stress(&dense, 0) || stress(&dense, 2) || stress(&packed, 0) ||
         stress(&packed, 2);
}
