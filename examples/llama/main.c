/* A language model in C: opens a Llama with dense or packed weights, compiles
 * its program (or runs a saved one) and generates text.
 *
 *   llama MODEL [-p PROMPT] [-n TOKENS] [--encoding nf4] [--stats]
 *
 *   cc *.c $(pkg-config --cflags --libs nabla) -lm -DLLAMA_COMPILES=1 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static volatile sig_atomic_t is_stopped;

/* Ends the generation; the next one ends the process. */
static void stop(int number) {
  is_stopped = 1;
  (void)signal(number, SIG_DFL);
}

/* ---- options ------------------------------------------------------------- */

typedef struct option {
  const char *name, *letter, *argument, *help;
  size_t member;
  enum { TEXT, NUMBER, REAL, FLAG } kind;
} option;

#define ROW(name, letter, argument, member, kind, help) \
  {name, letter, argument, help, offsetof(settings, member), kind}
static const option options[] = {
    ROW("--prompt", "-p", "TEXT", prompt, TEXT, "Text to go on with."),
    ROW("--ids", "", "ID,ID,...", ids, TEXT,
        "The prompt as token ids; ids are printed, too."),
    ROW("--count", "-n", "N", count, NUMBER, "Tokens to generate (256)."),
    ROW("--encoding", "", "NAME[:BLOCK[:f16]]", encoding, TEXT,
        "Pack the weights in memory: nf4, nf4:32:f16, int8, q4_0, ... (none)."),
    ROW("--temperature", "", "T", temperature, REAL,
        "0 takes the likeliest token (0)."),
    ROW("--top-p", "", "P", top_p, REAL,
        "Draw from the likeliest tokens of this weight (0.9)."),
    ROW("--seed", "", "N", seed, NUMBER, "Of what is drawn (1)."),
    ROW("--threads", "-j", "N", threads, NUMBER, "Threads (all CPUs)."),
    ROW("--context", "", "N", context, NUMBER,
        "Tokens that the cache holds (what config.json says, at most 4096)."),
    ROW("--numerics", "", "f32|bf16|int8", numerics, TEXT,
        "Numerics of products (f32)."),
    ROW("--tokenizer", "", "PATH", tokenizer, TEXT,
        "File of the tokenizer (the one beside the model)."),
    ROW("--perplexity", "", "FILE", perplexity, TEXT,
        "Print the perplexity of a text, or of ids, and generate nothing."),
    ROW("--save", "", "FILE.so", save, TEXT,
        "Write the program, which runs without a compiler."),
    ROW("--program", "", "FILE.so", program, TEXT, "Run a saved program."),
    ROW("--cache", "", "FOLDER", cache, TEXT,
        "Folder of compiled objects ($NABLA_CACHE); '' for none."),
    ROW("--stats", "", NULL, stats, FLAG,
        "Print speed and memory to standard error."),
};
#define OPTIONS (sizeof options / sizeof *options)

static void print_usage(FILE *to) {
  fprintf(to, "usage: llama MODEL [OPTION...]\n");
  for (size_t i = 0; i < OPTIONS; i++)
    fprintf(to, "  %-2s %s %s\n      %s\n", options[i].letter, options[i].name,
            options[i].argument ? options[i].argument : "", options[i].help);
}

static int set(settings *s, const option *o, const char *text) {
  char *member = (char *)s + o->member, *end = NULL;
  errno = 0;
  if (o->kind == TEXT) {
    memcpy(member, &text, sizeof text);
    return 1;
  }
  if (o->kind == REAL) {
    const double value = strtod(text, &end);
    memcpy(member, &value, sizeof value);
    return !errno && end != text && !*end && value >= 0 && value < 1e6;
  }
  const uint64_t value = strtoull(text, &end, 10);
  memcpy(member, &value, sizeof value);
  return !errno && *text >= '0' && *text <= '9' && !*end && value < 1u << 31;
}

static int parse(int argc, char **argv, settings *s) {
  for (int i = 1; i < argc; i++) {
    const option *o = NULL;
    for (size_t j = 0; j < OPTIONS && !o; j++)
      if (!strcmp(argv[i], options[j].name) ||
          (*options[j].letter && !strcmp(argv[i], options[j].letter)))
        o = &options[j];
    if (!o && *argv[i] != '-' && !s->model) {
      s->model = argv[i];
    } else if (o && o->kind == FLAG) {
      s->stats = 1;
    } else if (!o || i + 1 == argc || !set(s, o, argv[i + 1])) {
      fprintf(stderr, "llama: '%s' %s; llama --help\n", argv[i],
              !o              ? "is no option"
              : i + 1 == argc ? "needs an argument"
                              : "has an argument that it cannot take");
      return 0;
    } else {
      i++;
    }
  }
  if (!s->model) print_usage(stderr);
  return s->model != NULL;
}

/* ---- prompts ------------------------------------------------------------- */

/* "1,2,3"; blanks and line ends separate ids, too. */
static nabla_status read_ids(const char *text, int64_t **out, size_t *out_count,
                             nabla_diag *diag) {
  int64_t *ids = malloc((strlen(text) / 2 + 2) * sizeof *ids);
  if (!ids) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  *out = ids;
  while (*(text += strspn(text, ", \n")) != '\0') {
    char *end;
    ids[(*out_count)++] = strtoll(text, &end, 10);
    if (end == text)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%.20s' is no token id",
                        text);
    text = end;
  }
  return NABLA_OK;
}

static nabla_status read_file(const char *path, char **out, nabla_diag *diag) {
  FILE *file = fopen(path, "rb");
  size_t size = 0, got = 0;
  nabla_status status = NABLA_OK;
  while (file && !status) {
    char *bytes = realloc(*out, size + 65537);
    if (!bytes)
      status = nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
    else
      *out = bytes;
    if (status || !(got = fread(bytes + size, 1, 65536, file))) break;
    size += got;
  }
  if (!status && (!file || ferror(file)))
    status = nabla_fail(diag, NABLA_IO, "cannot be read");
  if (status) nabla_diag_set_file(diag, path);
  if (!status) (*out)[size] = '\0';
  if (file) (void)fclose(file);
  return status;
}

/* ---- what is asked for --------------------------------------------------- */

typedef struct speed {
  size_t prompt, generated;
  double prompt_ms, generated_ms;
} speed;

static nabla_status generate(engine *e, const settings *s, const int64_t *ids,
                             size_t count, speed *out, nabla_diag *diag) {
  uint32_t *order = malloc(e->vocabulary * sizeof *order);
  uint64_t random = s->seed;
  if (!order) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  double start = now_ms();
  nabla_status status = engine_feed(e, ids, count, diag);
  out->prompt = count;
  out->prompt_ms = now_ms() - start;
  start = now_ms();
  for (uint64_t i = 0; i < s->count && !status && !is_stopped; i++) {
    const int64_t id = sample(s, e->logits, e->vocabulary, &random, order);
    printf("%s%" PRId64, i ? " " : "", id);
    (void)fflush(stdout);
    if (i + 1 == s->count || (uint64_t)e->position == e->context) break;
    status = engine_feed(e, &id, 1, diag);
    out->generated++;
  }
  out->generated_ms = now_ms() - start;
  printf("\n");
  free(order);
  return status;
}

/* exp of the mean of -log p of each token, given those before it, in windows of
 * the cache's size. */
static nabla_status measure(engine *e, const int64_t *ids, size_t count,
                            nabla_diag *diag) {
  double loss = 0;
  size_t counted = 0;
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i + 1 < count && !status && !is_stopped; i++) {
    if ((uint64_t)e->position == e->context) engine_reset(e);
    status = engine_feed(e, ids + i, 1, diag);
    if (status) break;
    const float *logits = e->logits;
    double most = (double)logits[0], sum = 0;
    for (uint64_t j = 1; j < e->vocabulary; j++)
      if ((double)logits[j] > most) most = (double)logits[j];
    for (uint64_t j = 0; j < e->vocabulary; j++)
      sum += exp((double)logits[j] - most);
    if (ids[i + 1] >= 0 && (uint64_t)ids[i + 1] < e->vocabulary)
      loss += log(sum) - ((double)logits[ids[i + 1]] - most);
    counted++;
  }
  if (!status)
    printf("perplexity %.4f over %zu tokens\n",
           counted ? exp(loss / (double)counted) : 0.0, counted);
  return status;
}

static void print_stats(const engine *e, const speed *v) {
  const double limit = read_limit(e);
  const double bytes = (double)e->weight_bytes,
               rate = v->generated
                          ? (double)v->generated / v->generated_ms * 1e3
                          : 0;
  fprintf(stderr, "program    %.0f ms\n", e->compile_ms);
  fprintf(stderr, "prompt     %zu tokens, %.1f tokens/s\n", v->prompt,
          v->prompt_ms > 0 ? (double)v->prompt / v->prompt_ms * 1e3 : 0);
  fprintf(stderr, "generation %zu tokens, %.1f tokens/s\n", v->generated, rate);
  fprintf(stderr, "weights    %.1f MiB, cache %.1f MiB, resident %.1f MiB\n",
          bytes / 0x1p20, (double)e->cache_bytes / 0x1p20,
          (double)resident_bytes() / 0x1p20);
  fprintf(stderr, "read limit %.1f GB/s, %.2f of it\n", limit / 1e9,
          limit > 0 ? rate * bytes / limit : 0);
}

static nabla_status run(engine *e, settings *s, nabla_diag *diag) {
  char *file = NULL;
  int64_t *ids = NULL;
  size_t count = 0;
  speed v = {0};
  nabla_status status = engine_open(e, s, diag);
  if (!status && s->perplexity) status = read_file(s->perplexity, &file, diag);
  if (!status)
    status = read_ids(file ? file : s->ids ? s->ids : "1", &ids, &count, diag);
  (void)signal(SIGINT, stop);
  if (!status)
    status = s->perplexity ? measure(e, ids, count, diag)
                           : generate(e, s, ids, count, &v, diag);
  if (!status && s->stats && !s->perplexity) print_stats(e, &v);
  free(file);
  free(ids);
  return status;
}

int main(int argc, char **argv) {
  settings s = {.count = 256, .seed = 1, .top_p = .9};
  engine e = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc == 2 && !strcmp(argv[1], "--help")) {
    print_usage(stdout);
    return 0;
  }
  if (!parse(argc, argv, &s)) return 2;
  const nabla_status status = run(&e, &s, &diag);
  engine_close(&e);
  if (!status) return 0;
  char line[1200];
  nabla_diag_format(&diag, line, sizeof line);
  fprintf(stderr, "llama: %s\n", line);
  return 1;
}
