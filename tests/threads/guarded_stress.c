/* Guarded models whose files shrink while threads multiply by their weights:
 * each product is right, or has the status that says that the model is spent.
 * Whoever sees the zeros that take the place of a part is told so. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nabla/matmul.h"
#include "nabla/model.h"

enum { CALLERS = 3, ROUNDS = 30, WATCHES = 60, N = 96, K = 1024 };

typedef struct caller {
  const nabla_matmul_plan *plan;
  const float *want;
  int wrong;
} caller;

/* Multiplies until the model is spent. */
static void *multiply(void *self) {
  caller *c = self;
  float x[K], y[N];
  nabla_status status = NABLA_OK;
  void *room = aligned_alloc(64, 1 << 16);
  for (int i = 0; i < K; i++) x[i] = 1;
  if (!room || nabla_matmul_plan_workspace_size(c->plan, 1) > 1 << 16) {
    c->wrong = 1;
    free(room);
    return NULL;
  }
  while (!status && !c->wrong) {
    status = nabla_matmul_plan_run(c->plan, x, 1, y, room, NULL);
    c->wrong = status ? status != NABLA_IO : memcmp(y, c->want, sizeof y) != 0;
  }
  free(room);
  return NULL;
}

/* A file with the weight w, of ones. */
static int write_model(const char *path) {
  static float values[N * K];
  char json[256] = {0};
  const int length = snprintf(json, sizeof json,
                              "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
                              "\"data_offsets\":[0,%zu]}}",
                              N, K, sizeof values);
  const uint64_t size = 248;
  memset(json + length, ' ', (size_t)size - (size_t)length);
  for (int i = 0; i < N * K; i++) values[i] = 1;
  FILE *file = fopen(path, "wb");
  if (!file) return 0;
  const int good = fwrite(&size, 8, 1, file) == 1 &&
                   fwrite(json, size, 1, file) == 1 &&
                   fwrite(values, sizeof values, 1, file) == 1;
  return !fclose(file) && good;
}

static int stress(const char *path, nabla_pool *pool) {
  const nabla_model_options guarded = {.struct_size = sizeof guarded,
                                       .mode = NABLA_MODEL_GUARDED};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .environment.pool = pool};
  nabla_model *model = NULL;
  nabla_matmul_plan *plan = NULL;
  nabla_weight weight;
  pthread_t ids[CALLERS];
  caller callers[CALLERS];
  float want[N];
  int wrong = 0;
  for (int i = 0; i < N; i++) want[i] = K;
  if (!write_model(path) ||
      nabla_model_open_with(path, &guarded, NULL, &model, NULL) ||
      nabla_model_find(model, "w", &weight, NULL) ||
      nabla_matmul_plan_create(&weight.desc, &options, &plan, NULL))
    return 1;
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){.plan = plan, .want = want};
    if (pthread_create(&ids[i], NULL, multiply, &callers[i])) return 1;
  }
  wrong += truncate(path, 4096) != 0;
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(ids[i], NULL);
    wrong += callers[i].wrong;
  }
  nabla_matmul_plan_destroy(plan);
  nabla_model_close(model);
  return wrong;
}

/* ---- zeros, and that they are ------------------------------------------- */

typedef struct watch {
  nabla_model *model;
  const char *byte; /* of a page that is missing until somebody reads it */
  int pipe[2];
  atomic_int began;
  int wrong;
} watch;

/* Waits without a fault of its own, as the kernel reads the byte, until it can
 * be read: the model is spent then. */
static void *await_zeros(void *self) {
  watch *w = self;
  char byte = 1;
  nabla_weight weight;
  do atomic_store(&w->began, 1);
  while (write(w->pipe[1], w->byte, 1) != 1);
  w->wrong = nabla_model_find(w->model, "w", &weight, NULL) != NABLA_IO ||
             read(w->pipe[0], &byte, 1) != 1 || byte != 0;
  return NULL;
}

static int watch_zeros(const char *path) {
  const nabla_model_options guarded = {.struct_size = sizeof guarded,
                                       .mode = NABLA_MODEL_GUARDED};
  watch w = {.wrong = 1};
  nabla_weight weight;
  pthread_t id;
  if (!write_model(path) ||
      nabla_model_open_with(path, &guarded, NULL, &w.model, NULL) ||
      nabla_model_find(w.model, "w", &weight, NULL) || pipe(w.pipe))
    return 1;
  w.byte = (const char *)weight.desc.components[0].data + sizeof(float) * N * K;
  w.byte -= 4096; /* in a page that was never read */
  int wrong = truncate(path, 4096) != 0 ||
              pthread_create(&id, NULL, await_zeros, &w) != 0;
  if (!wrong) {
    while (!atomic_load(&w.began)) continue;
    wrong = *(const volatile char *)w.byte != 0;
    pthread_join(id, NULL);
    wrong |= w.wrong;
  }
  close(w.pipe[0]);
  close(w.pipe[1]);
  nabla_model_close(w.model);
  return wrong;
}

int main(void) {
  const char *folder = getenv("TMPDIR");
  char path[256];
  nabla_pool *pool = NULL;
  int wrong = 0;
  (void)snprintf(path, sizeof path, "%s/nabla-XXXXXX.safetensors",
                 folder ? folder : P_tmpdir);
  const int fd = mkstemps(path, sizeof ".safetensors" - 1);
  if (fd < 0 || close(fd) || nabla_pool_create(2, NULL, &pool, NULL)) return 1;
  for (int i = 0; i < ROUNDS && !wrong; i++)
    wrong = stress(path, i & 1 ? pool : NULL);
  for (int i = 0; i < WATCHES && !wrong; i++) wrong = watch_zeros(path);
  nabla_pool_destroy(pool);
  (void)unlink(path);
  if (wrong) printf("%d wrong\n", wrong);
  return wrong != 0;
}
