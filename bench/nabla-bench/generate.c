/* The verb generate: a whole language model, in turns with a plain read of its
 * weights, one of its products, and llama.cpp. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/nabla-bench/contest.h"
#include "bench/nabla-bench/generate_files.h"
#include "bench/nabla-bench/generate_model.h"
#include "bench/nabla-bench/kernel.h"
#include "bench/nabla-bench/limit.h"
#include "bench/nabla-bench/peer.h"

#define USUAL_TURNS   5
#define USUAL_CONTEXT 512
#define USUAL_PROMPT  256
#define PEER_NAME     "llama.cpp"
#define PATH_SIZE     (4096 + 64)

/* Contestants, in the order of their turns. */
enum { READ, GENERATE, PEER_GENERATE, PRODUCT, PROMPT, PEER_PROMPT, ROWS };

typedef struct runner {
  const bench_settings *settings;
  uint32_t turns;
  char path[PATH_SIZE]; /* of the model */
  bench_model model;
  bench_weights bytes; /* as many as a token reads */
  bench_limit read;
  bench_kernel *kernel; /* of the widest product of a layer */
  double product_share; /* of the products of a prompt */
  const char *format;   /* of the peer's weights */
  bench_peer *peer;
  char skipped[256]; /* why there is no peer */
  double logits_off; /* of the peer's, relative RMSE; NaN: not compared */
  int same_token;
  contestant rows[ROWS];
} runner;

/* ---- contestants ---- */

static contestant *name_row(runner *r, int at, const char *name, void *self,
                            nabla_status (*run)(void *, uint64_t, uint32_t,
                                                double *, nabla_diag *)) {
  contestant *c = &r->rows[at];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->self = self;
  c->run = run;
  return c;
}

static nabla_status run_peer_generate(void *self, uint64_t first,
                                      uint32_t count, double *out,
                                      nabla_diag *diag) {
  char request[32];
  (void)first;
  snprintf(request, sizeof request, "generate %u\n", BENCH_GENERATED);
  for (uint32_t i = 0; i < count; i++)
    NABLA_TRY(bench_peer_ask(self, request, &out[i], diag));
  return NABLA_OK;
}

static nabla_status run_peer_prompt(void *self, uint64_t first, uint32_t count,
                                    double *out, nabla_diag *diag) {
  (void)first;
  for (uint32_t i = 0; i < count; i++)
    NABLA_TRY(bench_peer_ask(self, "prompt\n", &out[i], diag));
  return NABLA_OK;
}

static nabla_status add_read(runner *r, nabla_diag *diag) {
  const bench_model *m = &r->model;
  const uint64_t bytes = m->token_bytes + m->shape.cache_bytes;
  r->bytes.area_count = r->bytes.copies = 1;
  r->bytes.areas[0].bytes = r->bytes.bytes = bytes;
  r->bytes.areas[0].base = bench_pages(bytes);
  if (!r->bytes.areas[0].base)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  memset(r->bytes.areas[0].base, 1, bytes); /* else all pages are one */
  r->read = (bench_limit){.weights = &r->bytes,
                          .pool = m->environment.pool,
                          .threads = r->settings->problem.threads};
  name_row(r, READ, "read", &r->read, bench_limit_read);
  return NABLA_OK;
}

static nabla_status add_product(runner *r, nabla_diag *diag) {
  const bench_model *m = &r->model;
  bench_problem p = r->settings->problem;
  char name[64];
  p.n = m->shape.inner;
  p.k = m->shape.hidden;
  p.m = m->prompt;
  snprintf(name, sizeof name, "gemm %llu x %llu", (unsigned long long)p.n,
           (unsigned long long)p.k);
  NABLA_TRY(bench_kernel_open(&p, 1, &r->kernel, diag));
  contestant *c = name_row(r, PRODUCT, name, r->kernel, bench_kernel_run);
  if (bench_kernel_objection(r->kernel)) {
    c->failed = 1;
    snprintf(c->why, sizeof c->why, "%s", bench_kernel_objection(r->kernel));
  }
  r->product_share =
      2.0 * (double)p.n * (double)p.k * (double)p.m / (double)m->prompt_flops;
  return NABLA_OK;
}

/* ---- the peer ---- */

static const char *find_format(const char *encoding) {
  static const struct {
    const char *encoding, *verbs, *peer, *format;
  } matches[] = {
#define PEER(name, about)
#define MATCH(encoding, verbs, peer, format, bits) \
  {encoding, verbs, peer, format},
#include "bench/nabla-bench/peers.def"
#undef PEER
#undef MATCH
  };
  for (size_t i = 0; i < sizeof matches / sizeof *matches; i++)
    if (!strcmp(matches[i].encoding, encoding) &&
        strstr(matches[i].verbs, "generate"))
      return matches[i].format;
  return NULL;
}

static nabla_status open_peer(runner *r, nabla_diag *diag) {
  char path[PATH_SIZE], numbers[3][24];
  const uint64_t values[3] = {r->settings->problem.threads,
                              r->model.shape.context, r->model.prompt};
  if (!r->format)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "it has no format like %s",
                      r->settings->problem.encoding);
  NABLA_TRY(bench_files_gguf(r->model.model, r->path, r->format, path,
                             sizeof path, diag));
  for (int i = 0; i < 3; i++)
    snprintf(numbers[i], sizeof numbers[i], "%llu",
             (unsigned long long)values[i]);
  const char *const arguments[4] = {path, numbers[0], numbers[1], numbers[2]};
  return bench_peer_open_program(PEER_NAME, "llama-generate", arguments,
                                 &r->peer, diag);
}

/* Root mean square of the difference, of that of ours. */
static double compare(const float *ours, const float *theirs, uint64_t count,
                      int *same_token) {
  double square = 0, off = 0;
  uint64_t a = 0, b = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double x = (double)ours[i], y = (double)theirs[i];
    square += x * x;
    off += (x - y) * (x - y);
    if (ours[i] > ours[a]) a = i;
    if (theirs[i] > theirs[b]) b = i;
  }
  *same_token = a == b;
  return sqrt(off / square);
}

/* After the same prompt. */
static nabla_status compare_logits(runner *r, const char *path,
                                   nabla_diag *diag) {
  char request[PATH_SIZE + 16];
  double one;
  const size_t words = (size_t)r->model.shape.vocabulary;
  snprintf(request, sizeof request, "logits %s\n", path);
  NABLA_TRY(bench_peer_ask(r->peer, request, &one, diag));
  NABLA_TRY(bench_model_prompt(&r->model, 0, 1, &one, diag));
  float *theirs = malloc(words * sizeof *theirs);
  FILE *file = fopen(path, "rb");
  const size_t got =
      file && theirs ? fread(theirs, sizeof *theirs, words, file) : 0;
  if (file) (void)fclose(file);
  if (got == words)
    r->logits_off = compare(r->model.logits, theirs, words, &r->same_token);
  free(theirs);
  return got == words ? NABLA_OK
                      : nabla_fail(diag, NABLA_IO, "its logits cannot be read");
}

static nabla_status compare_in_file(runner *r, nabla_diag *diag) {
  const char *parent = getenv("TMPDIR");
  char path[PATH_SIZE];
  const int length = snprintf(path, sizeof path, "%s/nabla-bench-XXXXXX",
                              parent && *parent ? parent : P_tmpdir);
  const int file =
      length > 0 && (size_t)length < sizeof path ? mkstemp(path) : -1;
  if (file < 0)
    return nabla_fail(diag, NABLA_IO, "no temporary file: %s", strerror(errno));
  (void)close(file);
  const nabla_status status = compare_logits(r, path, diag);
  (void)unlink(path);
  return status;
}

/* A peer that is not there, or fails, is named, and stops nothing. */
static void add_peer(runner *r) {
  nabla_diag diag = NABLA_DIAG_INIT;
  r->logits_off = NAN;
  r->format = find_format(r->settings->problem.encoding);
  if (!bench_peer_is_wanted(r->settings->peers, PEER_NAME))
    snprintf(r->skipped, sizeof r->skipped, "not wanted");
  else if (open_peer(r, &diag) || compare_in_file(r, &diag))
    snprintf(r->skipped, sizeof r->skipped, "%s", diag.what);
  name_row(r, PEER_GENERATE, PEER_NAME, r->peer, run_peer_generate);
  name_row(r, PEER_PROMPT, PEER_NAME, r->peer, run_peer_prompt);
  if (!*r->skipped) return;
  r->rows[PEER_GENERATE].failed = r->rows[PEER_PROMPT].failed = 1;
}

/* ---- what is printed ---- */

/* Columns of a row; 0 where there is none. */
typedef struct figures {
  double tokens; /* of a run */
  double of_limit, times;
} figures;

static double tokens_of(const runner *r, int row) {
  const double prompt = (double)r->model.prompt;
  if (row == READ) return 1;
  if (row == PRODUCT) return prompt * r->product_share;
  return row > PRODUCT ? prompt : BENCH_GENERATED;
}

/* How many times as fast as the row `b` the row `a` is. */
static double times_of(const runner *r, int a, int b) {
  return contest_ratio(&r->rows[b], &r->rows[a], r->turns) * tokens_of(r, a) /
         tokens_of(r, b);
}

static figures figures_of(const runner *r, int row) {
  const int is_prompt = row >= PRODUCT;
  figures f = {.tokens = tokens_of(r, row),
               .of_limit = times_of(r, row, is_prompt ? PRODUCT : READ)};
  if (row == PEER_GENERATE || row == PEER_PROMPT)
    f.times = times_of(r, is_prompt ? PROMPT : GENERATE, row);
  return f;
}

static void print_row(const runner *r, int row) {
  static const char *const what[ROWS] = {"generate", "generate", "generate",
                                         "prompt",   "prompt",   "prompt"};
  const contestant *c = &r->rows[row];
  const figures f = figures_of(r, row);
  if (c->failed) return;
  printf("%-9s %-18s %10.2f %10.2f %6.1f%%", what[row], c->name,
         f.tokens / c->median, f.tokens / c->fastest, c->spread * 100);
  if (f.of_limit > 0)
    printf(" %8.2f", f.of_limit);
  else
    printf(" %8s", "");
  if (f.times > 0) printf(" %8.2f", f.times);
  printf("\n");
}

static void print_text(const runner *r) {
  const bench_model *m = &r->model;
  const bench_problem *p = &r->settings->problem;
  printf("%s, %s numerics, isa %s, %u thread%s, %u turns; times are of %s\n",
         m->format, nabla_numerics_name(p->numerics), p->isa, p->threads,
         p->threads == 1 ? "" : "s", r->turns,
         p->threads == 1 ? "the thread's CPU" : "the clock");
  printf("weights %.1f MB, of which a token reads %.1f; caches %.1f MB (f16)\n",
         (double)m->weight_bytes * 1e-6, (double)m->token_bytes * 1e-6,
         (double)m->shape.cache_bytes * 1e-6);
  printf("text of %llu tokens, the last %u generated; prompt of %llu\n",
         (unsigned long long)m->shape.context, BENCH_GENERATED,
         (unsigned long long)m->prompt);
  printf("compiled in %.0f ms%s\n\n", m->compile_ms,
         m->from_cache ? ", from the cache" : "");
  printf("%-28s %10s %10s %7s %8s %8s\n", "tokens/s", "median", "fastest",
         "spread", "of limit", "faster");
  for (int i = 0; i < ROWS; i++) print_row(r, i);
  printf("\n");
  if (*r->skipped) {
    printf("skipped: " PEER_NAME ": %s\n", r->skipped);
    return;
  }
  printf(PEER_NAME ": %s, weights %.1f MB in %s\n", bench_peer_version(r->peer),
         bench_peer_bytes(r->peer) * 1e-6, r->format);
  printf("logits after the prompt: %.2g off, the likeliest token is %s\n",
         r->logits_off, r->same_token ? "the same" : "another one");
}

static void json_row(nabla_json_out *out, const runner *r, int row) {
  static const char *const roles[ROWS] = {"limit", "nabla", "peer",
                                          "limit", "nabla", "peer"};
  const contestant *c = &r->rows[row];
  const figures f = figures_of(r, row);
  if (c->failed) return;
  nabla_json_out_object(out);
  bench_json_text(out, "what", row >= PRODUCT ? "prompt" : "generate");
  bench_json_text(out, "name", c->name);
  bench_json_text(out, "role", roles[row]);
  bench_json_number(out, "tokens_per_s", f.tokens / c->median);
  bench_json_number(out, "fastest_tokens_per_s", f.tokens / c->fastest);
  bench_json_number(out, "spread", c->spread);
  bench_json_number(out, "of_limit", f.of_limit > 0 ? f.of_limit : NAN);
  bench_json_number(out, "nabla_times_as_fast", f.times > 0 ? f.times : NAN);
  nabla_json_out_object_end(out);
}

static void json_peer(nabla_json_out *out, const runner *r) {
  nabla_json_out_key(out, "peer");
  nabla_json_out_object(out);
  bench_json_text(out, "name", PEER_NAME);
  bench_json_text(out, "skipped", r->skipped);
  if (!*r->skipped) {
    bench_json_text(out, "version", bench_peer_version(r->peer));
    bench_json_text(out, "format", r->format);
    bench_json_number(out, "weight_bytes", bench_peer_bytes(r->peer));
    bench_json_number(out, "logits_rmse", r->logits_off);
    nabla_json_out_key(out, "same_token");
    nabla_json_out_bool(out, r->same_token);
  }
  nabla_json_out_object_end(out);
}

static nabla_status print_json(const runner *r, nabla_diag *diag) {
  const bench_model *m = &r->model;
  const bench_problem *p = &r->settings->problem;
  nabla_json_out out;
  bench_json_begin(&out, BENCH_VERB_generate);
  bench_json_text(&out, "format", m->format);
  bench_json_text(&out, "numerics", nabla_numerics_name(p->numerics));
  bench_json_text(&out, "isa", p->isa);
  bench_json_count(&out, "threads", p->threads);
  bench_json_count(&out, "turns", r->turns);
  bench_json_count(&out, "context", m->shape.context);
  bench_json_count(&out, "prompt", m->prompt);
  bench_json_count(&out, "generated", BENCH_GENERATED);
  bench_json_count(&out, "weight_bytes", m->weight_bytes);
  bench_json_count(&out, "token_bytes", m->token_bytes);
  bench_json_count(&out, "cache_bytes", m->shape.cache_bytes);
  bench_json_number(&out, "compile_ms", m->compile_ms);
  nabla_json_out_key(&out, "from_cache");
  nabla_json_out_bool(&out, m->from_cache);
  nabla_json_out_key(&out, "rows");
  nabla_json_out_array(&out);
  for (int i = 0; i < ROWS; i++) json_row(&out, r, i);
  nabla_json_out_array_end(&out);
  json_peer(&out, r);
  return bench_json_end(&out, diag);
}

/* ---- the verb ---- */

static nabla_status measure(runner *r, nabla_diag *diag) {
  if (r->settings->model)
    snprintf(r->path, sizeof r->path, "%s", r->settings->model);
  else
    NABLA_TRY(bench_files_synthetic(r->path, sizeof r->path, diag));
  NABLA_TRY(bench_model_open(r->settings, r->path, &r->model, diag));
  NABLA_TRY(add_read(r, diag));
  NABLA_TRY(add_product(r, diag));
  name_row(r, GENERATE, "nabla", &r->model, bench_model_generate)->fixed = 1;
  name_row(r, PROMPT, "nabla", &r->model, bench_model_prompt)->fixed = 1;
  add_peer(r);
  r->rows[PEER_GENERATE].fixed = r->rows[PEER_PROMPT].fixed = 1;
  NABLA_TRY(contest_run(r->rows, ROWS, r->turns, diag));
  for (int i = GENERATE; i <= PROMPT; i += PROMPT - GENERATE)
    if (r->rows[i].failed)
      return nabla_fail(diag, NABLA_IO, "the model does not run: %s",
                        r->rows[i].why);
  for (int i = PEER_GENERATE; i <= PEER_PROMPT; i++)
    if (i != PRODUCT && r->rows[i].failed && !*r->skipped)
      snprintf(r->skipped, sizeof r->skipped, "%s", r->rows[i].why);
  return NABLA_OK;
}

nabla_status bench_run_generate(const bench_settings *given, nabla_diag *diag) {
  bench_settings s = *given;
  if (!s.context) s.context = USUAL_CONTEXT;
  if (!s.prompt) s.prompt = USUAL_PROMPT;
  runner r = {.settings = &s,
              .turns = s.turns ? (uint32_t)s.turns : USUAL_TURNS};
  nabla_status status = measure(&r, diag);
  if (!status && s.json) status = print_json(&r, diag);
  if (!status && !s.json) print_text(&r);
  contest_deinit(r.rows, ROWS);
  bench_peer_close(r.peer);
  bench_kernel_close(r.kernel);
  bench_unmap(r.bytes.areas[0].base, r.bytes.bytes);
  bench_model_close(&r.model);
  return status;
}
