/* llama.cpp as its users have it: a whole model, for `nabla-bench generate`.
 *
 *   nabla-peer-llama-generate --version
 *   nabla-peer-llama-generate MODEL.gguf THREADS CONTEXT PROMPT
 *
 * The second prints "ready BYTES VERSION", BYTES those of the weights, or
 * "no REASON". Token i of every text is that of peer_token below. Then it reads
 * lines and answers each with one:
 *
 *   generate COUNT   makes the last COUNT tokens of a text of CONTEXT, each the
 *                    likeliest one; nanoseconds of all
 *   prompt           reads PROMPT tokens; nanoseconds
 *   logits FILE      writes those after PROMPT tokens, f32, into a file; 1
 *
 * Times are of the calling thread's CPU with one thread, else of the clock. The
 * caches are of f16. PEER_VERSION is the version of what holds the source. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama.h"

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

enum { PIECE = 512 }; /* tokens of a text that are read at once */

static struct {
  struct llama_model *model;
  struct llama_context *generating, *reading;
  int32_t words, context, prompt, filled;
  uint32_t threads;
} self;

static double now(void) {
  struct timespec t;
  clock_gettime(self.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
                &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The same as in bench/nabla-bench/generate_model.c. */
static llama_token peer_token(uint64_t i) {
  return (llama_token)((i * 2654435761u >> 8) % (uint64_t)self.words);
}

static void say_nothing(enum ggml_log_level level, const char *text,
                        void *unused) {
  (void)level, (void)text, (void)unused;
}

static void describe(void) {
  printf("llama.cpp of llama-cpp-python %s,", STRING(PEER_VERSION));
  ggml_backend_reg_t reg = ggml_backend_cpu_reg();
  ggml_backend_get_features_t features =
      (ggml_backend_get_features_t)ggml_backend_reg_get_proc_address(
          reg, "ggml_backend_get_features");
  if (!features) return;
  for (struct ggml_backend_feature *f = features(reg); f->name; f++)
    if (!strcmp(f->value, "1")) printf(" %s", f->name);
}

static struct llama_context *open_context(int32_t size) {
  struct llama_context_params params = llama_context_default_params();
  struct ggml_threadpool_params threads =
      ggml_threadpool_params_default((int)self.threads);
  params.n_ctx = (uint32_t)size;
  params.n_threads = params.n_threads_batch = (int32_t)self.threads;
  params.no_perf = true;
  struct llama_context *context = llama_init_from_model(self.model, params);
  if (!context) return NULL;
  struct ggml_threadpool *pool = ggml_threadpool_new(&threads);
  if (pool) llama_attach_threadpool(context, pool, pool);
  return context;
}

/* Tokens from..to of the text; the logits after the last one. */
static float *feed(struct llama_context *context, int32_t from, int32_t to) {
  llama_token tokens[PIECE];
  while (from < to) {
    const int32_t count = to - from < PIECE ? to - from : PIECE;
    for (int32_t i = 0; i < count; i++)
      tokens[i] = peer_token((uint64_t)(from + i));
    if (llama_decode(context, llama_batch_get_one(tokens, count))) return NULL;
    from += count;
  }
  return llama_get_logits_ith(context, -1);
}

static llama_token likeliest(const float *logits) {
  llama_token best = 0;
  for (llama_token i = 1; i < self.words; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static double generate(int32_t count) {
  const int32_t begin = self.context - count;
  llama_memory_t memory = llama_get_memory(self.generating);
  if (self.filled != begin) {
    llama_memory_clear(memory, false);
    if (!feed(self.generating, 0, begin)) return -1;
    self.filled = begin;
  }
  const double start = now();
  llama_token token = peer_token((uint64_t)begin);
  for (int32_t i = 0; i < count; i++) {
    if (llama_decode(self.generating, llama_batch_get_one(&token, 1)))
      return -1;
    token = likeliest(llama_get_logits_ith(self.generating, -1));
  }
  const double end = now();
  return llama_memory_seq_rm(memory, 0, begin, -1) ? end - start : -1;
}

static double prompt(const char *path) {
  llama_memory_clear(llama_get_memory(self.reading), false);
  const double start = now();
  const float *logits = feed(self.reading, 0, self.prompt);
  const double end = now();
  if (!logits || !path) return logits ? end - start : -1;
  FILE *file = fopen(path, "wb");
  const size_t words = (size_t)self.words;
  const size_t written = file ? fwrite(logits, sizeof *logits, words, file) : 0;
  return file && !fclose(file) && written == words ? 1 : -1;
}

static int serve(void) {
  char line[4200], path[4096];
  int count;
  while (fgets(line, sizeof line, stdin)) {
    double answer = -1;
    if (sscanf(line, "generate %d", &count) == 1 && count > 0 &&
        count < self.context)
      answer = generate(count);
    else if (!strcmp(line, "prompt\n"))
      answer = prompt(NULL);
    else if (sscanf(line, "logits %4095[^\n]", path) == 1)
      answer = prompt(path);
    if (!(answer > 0)) return 1;
    printf("%.0f\n", answer);
    if (fflush(stdout)) return 1;
  }
  return 0;
}

static int refuse(const char *why) {
  printf("no %s\n", why);
  return 0;
}

int main(int argc, char **argv) {
  llama_log_set(say_nothing, NULL);
  if (argc == 2 && !strcmp(argv[1], "--version")) {
    describe();
    return puts("") < 0;
  }
  if (argc != 5) {
    (void)fprintf(stderr, "usage: %s MODEL.gguf THREADS CONTEXT PROMPT\n",
                  argv[0]);
    return 2;
  }
  self.threads = (uint32_t)strtoul(argv[2], NULL, 10);
  self.context = (int32_t)strtol(argv[3], NULL, 10);
  self.prompt = (int32_t)strtol(argv[4], NULL, 10);
  llama_backend_init();
  self.model =
      llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!self.model) return refuse("model: llama.cpp does not load it");
  self.words = llama_vocab_n_tokens(llama_model_get_vocab(self.model));
  self.generating = open_context(self.context);
  self.reading = open_context(self.prompt);
  if (!self.generating || !self.reading || self.words < 1)
    return refuse("context: llama.cpp does not make it");
  printf("ready %llu ", (unsigned long long)llama_model_size(self.model));
  describe();
  puts("");
  return fflush(stdout) ? 1 : serve();
}
