/* Four sessions of two executables, each on a thread of its own: every session
 * has its own state, and closes, as executables do, while others run. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/runtime/program/code.h"
#include "nabla/session.h"

enum { SESSIONS = 4, RUNS = 400, COUNT = 64 };

typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, size, stride;
} buffer;

/* total += x */
static void kernel(const uint64_t *arguments, uint64_t begin, uint64_t end) {
  const float *x = (const float *)(uintptr_t)arguments[0];
  float *total = (float *)(uintptr_t)arguments[1];
  for (uint64_t i = begin; i < end; i++) total[i] += x[i];
}

static void entry(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  const buffer *x = arguments[0], *total = arguments[1];
  buffer *y = results[0];
  float *data = services->allocate(services, COUNT * sizeof *data);
  if (!data) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  const uint64_t words[] = {(uint64_t)(uintptr_t)x->aligned,
                            (uint64_t)(uintptr_t)total->aligned};
  services->parallel(services, kernel, words, COUNT, 4);
  memcpy(data, total->aligned, COUNT * sizeof *data);
  *y = (buffer){data, data, 0, COUNT, 1};
}

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  return strcmp(symbol, "nabla_entry_f") ? NULL : entry;
}

#define PORT(name, rest) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[64]" rest "}"

static const char manifest[] =
    "{\"abi\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[" PORT(
        "x",
        "") "," PORT("t",
                     ",\"state\":\"total\"") "],\"results\":[" PORT("",
                                                                    "") "]}]}";

typedef struct runner {
  nabla_session *session;
  float step;
  int runs, wrong;
} runner;

static void *run_often(void *self) {
  runner *r = self;
  float in[COUNT], out[COUNT] = {0};
  for (int i = 0; i < COUNT; i++) in[i] = r->step;
  const nabla_dense x = {in, NABLA_DTYPE_F32, 1, {COUNT}};
  nabla_dense y = {out, NABLA_DTYPE_F32, 1, {COUNT}};
  for (int i = 1; i <= r->runs; i++) {
    r->wrong +=
        nabla_session_run(r->session, "f", &x, 1, &y, 1, NULL) != NABLA_OK;
    r->wrong += out[0] != r->step * (float)i;
    r->wrong += out[COUNT - 1] != r->step * (float)i;
  }
  nabla_session_close(r->session);
  return NULL;
}

static int stress(uint32_t threads) {
  nabla_environment environment = {0};
  nabla_executable *executables[2] = {NULL, NULL};
  const nabla_code code = {NULL, manifest, look_up, NULL, 0};
  const nabla_session_options own = {.struct_size = sizeof own, .threads = 2};
  pthread_t ids[SESSIONS];
  runner runners[SESSIONS];
  int wrong = 0;
  if (threads && nabla_pool_create(threads, NULL, &environment.pool, NULL))
    return 1;
  for (int i = 0; i < 2; i++)
    if (nabla_executable_create(&code, &environment, &executables[i], NULL))
      return 1;
  for (int i = 0; i < SESSIONS; i++) {
    /* the first ends long before the others */
    runners[i] = (runner){.step = (float)(i + 1), .runs = i ? RUNS : RUNS / 8};
    if (nabla_session_create(executables[i % 2], i == 3 ? &own : NULL,
                             &runners[i].session, NULL) ||
        pthread_create(&ids[i], NULL, run_often, &runners[i]))
      return 1;
  }
  for (int i = 0; i < 2; i++) nabla_executable_close(executables[i]);
  for (int i = 0; i < SESSIONS; i++) {
    pthread_join(ids[i], NULL);
    wrong += runners[i].wrong;
  }
  nabla_pool_destroy(environment.pool);
  if (wrong) printf("%u threads: %d wrong\n", threads, wrong);
  return wrong != 0;
}

int main(void) {
  static const uint32_t threads[] = {0, 3};
  int wrong = 0;
  for (size_t i = 0; i < 2 && !wrong; i++) wrong = stress(threads[i]);
  return wrong;
}
