/* One executable run from several threads at once, with and without a pool,
 * and one model asked for the same misaligned weights. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/runtime/program/code.h"

enum { CALLERS = 4, CALLS = 300, ROWS = 37, COLUMNS = 5 };

/* y = 2 x, as compiled code does it. */
typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, numbers[4];
} buffer;

static void kernel(const uint64_t *arguments, uint64_t begin, uint64_t end) {
  const float *x = (const float *)(uintptr_t)arguments[0];
  float *y = (float *)(uintptr_t)arguments[1];
  for (uint64_t i = begin; i < end; i++) y[i] = 2 * x[i];
}

static void entry(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  const buffer *x = arguments[0];
  buffer *y = results[0];
  const uint64_t count = (uint64_t)(x->numbers[0] * x->numbers[1]);
  float *data = services->allocate(services, count * sizeof *data);
  if (!data) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
    return;
  }
  *y = *x;
  y->allocated = y->aligned = data;
  const uint64_t words[] = {(uint64_t)(uintptr_t)x->aligned,
                            (uint64_t)(uintptr_t)data};
  services->parallel(services, kernel, words, count, 2);
}

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  return strcmp(symbol, "nabla_entry_f") ? NULL : entry;
}

#define PORT(name, shape) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[" shape "]}"

static const char manifest[] =
    "{\"abi\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[" PORT(
        "x", "null,5") "],\"results\":[" PORT("", "null,5") "]}]}";

typedef struct caller {
  nabla_executable *executable;
  nabla_model *model;
  float first;
  int wrong;
} caller;

static int run_once(const caller *c, int64_t rows, int copied) {
  float in[ROWS * COLUMNS], room[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) in[i] = c->first + (float)i;
  const nabla_dense x = {in, NABLA_DTYPE_F32, 2, {rows, COLUMNS}};
  nabla_dense y = {copied ? room : NULL, NABLA_DTYPE_F32, 2, {rows, COLUMNS}};
  if (nabla_executable_run(c->executable, "f", &x, 1, &y, 1, NULL)) return 0;
  const float *out = y.data;
  int good = 1;
  for (int i = 0; i < rows * COLUMNS; i++) good &= out[i] == 2 * in[i];
  if (!copied) nabla_dense_release(c->executable, &y);
  return good;
}

static void *call_often(void *self) {
  caller *c = self;
  const void *data = NULL;
  for (int i = 0; i < CALLS; i++) {
    c->wrong += !run_once(c, i % ROWS, i & 1);
    nabla_weight weight;
    c->wrong += nabla_model_find(c->model, "f", &weight, NULL) != NABLA_OK ||
                weight.copied_bytes != 16 ||
                (data && weight.desc.components[0].data != data);
    data = weight.desc.components[0].data;
  }
  return NULL;
}

static int stress(uint32_t threads, nabla_model *model) {
  nabla_environment environment = {0};
  nabla_executable *executable = NULL;
  const nabla_code code = {NULL, manifest, look_up, NULL, 0};
  pthread_t ids[CALLERS];
  caller callers[CALLERS];
  int wrong = 0;
  if (threads && nabla_pool_create(threads, NULL, &environment.pool, NULL))
    return 1;
  if (nabla_executable_create(&code, &environment, &executable, NULL)) return 1;
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){executable, model, (float)(1000 * i), 0};
    if (pthread_create(&ids[i], NULL, call_often, &callers[i])) return 1;
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(ids[i], NULL);
    wrong += callers[i].wrong;
  }
  nabla_executable_close(executable);
  nabla_pool_destroy(environment.pool);
  if (wrong) printf("%u threads: %d wrong\n", threads, wrong);
  return wrong != 0;
}

/* A file whose f lies at an odd address. Returns 0 when it cannot be made. */
static nabla_model *open_model(void) {
  static const char json[] =
      "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"f\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[1,17]}}";
  static const char spaces[] = "       ";
  const size_t pad = (8 - (sizeof json - 1) % 8) % 8;
  const uint64_t size = sizeof json - 1 + pad;
  const char data[17] = {0};
  const char *folder = getenv("TMPDIR");
  char path[256];
  nabla_model *model = NULL;
  (void)snprintf(path, sizeof path, "%s/nabla-XXXXXX.safetensors",
                 folder ? folder : P_tmpdir);
  const int fd = mkstemps(path, sizeof ".safetensors" - 1);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!file) return NULL;
  int good = fwrite(&size, 8, 1, file) == 1 &&
             fwrite(json, sizeof json - 1, 1, file) == 1 &&
             fwrite(spaces, 1, pad, file) == pad &&
             fwrite(data, sizeof data, 1, file) == 1;
  good = !fclose(file) && good && !nabla_model_open(path, NULL, &model, NULL);
  (void)unlink(path);
  return good ? model : NULL;
}

int main(void) {
  static const uint32_t threads[] = {0, 2, 7};
  int wrong = 0;
  for (size_t i = 0; i < 3 && !wrong; i++) {
    nabla_model *model = open_model();
    if (!model) return 1;
    wrong = stress(threads[i], model);
    nabla_model_close(model);
  }
  return wrong;
}
