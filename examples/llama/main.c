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

typedef struct option {
  const char *name, *letter, *argument, *help;
  size_t member;
  enum { TEXT, NUMBER, REAL, FLAG } kind;
} option;

#define ROW(name, letter, argument, member, kind, help) \
  {name, letter, argument, help, offsetof(settings, member), kind}
static const option options[] = {
    ROW("--prompt", "-p", "TEXT", prompt, TEXT, "Text to go on with."),
    ROW("--ids", "", "ID,...", ids, TEXT, "Token ids instead of text."),
    ROW("--count", "-n", "N", count, NUMBER, "Tokens to generate (256)."),
    ROW("--encoding", "", "NAME[:BLOCK][:f16][:search]", encoding, TEXT,
        "Pack the weights in memory: nf4, nf4:32:f16, int8, q4_0, ... (none)."),
    ROW("--temperature", "", "T", temperature, REAL, "0: the likeliest (0)."),
    ROW("--top-p", "", "P", top_p, REAL, "Draw from the likeliest P (0.9)."),
    ROW("--seed", "", "N", seed, NUMBER, "Of what is drawn (1)."),
    ROW("--threads", "-j", "N", threads, NUMBER, "Threads (all CPUs)."),
    ROW("--context", "", "N", context, NUMBER,
        "Tokens that the cache holds (what config.json says)."),
    ROW("--numerics", "", "f32|bf16|int8", numerics, TEXT,
        "Of products (f32)."),
    ROW("--tokenizer", "", "PATH", tokenizer, TEXT, "Not the model's own one."),
    ROW("--perplexity", "", "FILE", perplexity, TEXT,
        "Print the perplexity of a text (of ids with --ids '') instead."),
    ROW("--save", "", "FILE.so", save, TEXT, "Write the compiled program."),
    ROW("--text", "", "FILE.mlir", text, TEXT, "Write the program's text."),
    ROW("--program", "", "FILE.so", program, TEXT, "Run a saved program."),
    ROW("--cache", "", "FOLDER", cache, TEXT,
        "Folder of compiled objects ($NABLA_CACHE); '' for none."),
    ROW("--mesh", "", "model=N", mesh, TEXT,
        "Divide the model among N threads, or the N processes of mpirun."),
    ROW("--stats", "", NULL, stats, FLAG, "Print speed and memory (stderr)."),
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

/* Tokens that are read, and text that is printed as soon as it is made:
 * characters that are whole. */
typedef struct text {
  nabla_tokenizer *tokenizer; /* NULL: ids are read and printed */
  nabla_token_stream stream;
  char *piece;  /* of stream_capacity bytes */
  int64_t *ids; /* the prompt */
  size_t count;
} text;

/* "1,2,3"; blanks and line ends separate ids, too. */
static nabla_status read_ids(text *t, const char *from, nabla_diag *diag) {
  t->ids = malloc((strlen(from) / 2 + 2) * sizeof *t->ids);
  if (!t->ids) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  while (*(from += strspn(from, ", \n")) != '\0') {
    char *end;
    t->ids[t->count++] = strtoll(from, &end, 10);
    if (end == from)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%.20s' is no token id",
                        from);
    from = end;
  }
  return NABLA_OK;
}

static nabla_status read_text(text *t, const char *from, nabla_diag *diag) {
  nabla_token_list list;
  t->piece = malloc(nabla_tokenizer_stream_capacity(t->tokenizer));
  NABLA_TRY(nabla_tokenizer_encode(t->tokenizer, from, strlen(from),
                                   NABLA_ENCODE_ADD_SPECIAL, &list, diag));
  t->ids = malloc((list.count + 1) * sizeof *t->ids);
  for (size_t i = 0; t->ids && i < list.count; i++) t->ids[i] = list.ids[i];
  t->count = list.count;
  nabla_token_list_release(t->tokenizer, &list);
  return t->ids && t->piece
             ? NABLA_OK
             : nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
}

static nabla_status read_file(const char *path, char **out, nabla_diag *diag) {
  enum { MOST = 1 << 26 };
  FILE *file = fopen(path, "rb");
  char *bytes = *out = calloc(MOST + 2, 1);
  const size_t size = file && bytes ? fread(bytes, 1, MOST + 1, file) : 0;
  nabla_status status = NABLA_OK;
  if (!file || !bytes || ferror(file))
    status = nabla_fail(diag, NABLA_IO, "cannot be read");
  else if (size > MOST)
    status = nabla_fail(diag, NABLA_TOO_LARGE,
                        "has more than %d bytes; give a part of it", MOST);
  if (file) (void)fclose(file);
  if (status) nabla_diag_set_file(diag, path);
  return status;
}

static nabla_status print_token(text *t, int64_t id, nabla_diag *diag) {
  size_t size = 0;
  if (!t->tokenizer) {
    printf("%" PRId64 " ", id);
  } else if ((uint64_t)id < nabla_tokenizer_size(t->tokenizer)) {
    NABLA_TRY(nabla_tokenizer_stream_next(
        t->tokenizer, &t->stream, (uint32_t)id, NABLA_DECODE_SKIP_SPECIAL,
        t->piece, nabla_tokenizer_stream_capacity(t->tokenizer), &size, diag));
    (void)fwrite(t->piece, 1, size, stdout);
  }
  return fflush(stdout) ? nabla_fail(diag, NABLA_IO, "cannot print") : NABLA_OK;
}

static nabla_status generate(engine *e, const settings *s, text *t,
                             nabla_diag *diag) {
  const nabla_sampling how = {sizeof how, s->temperature, s->top_p};
  const int64_t end = t->tokenizer
                          ? (int64_t)nabla_tokenizer_roles(t->tokenizer).eos
                          : (int64_t)NABLA_TOKEN_NONE;
  uint64_t random = s->seed;
  speed v = {.prompt = t->count};
  int64_t id;
  (void)signal(SIGINT, stop);
  for (size_t i = 0; i < t->count; i++)
    NABLA_TRY(print_token(t, t->ids[i], diag));
  const double start = now_ms();
  NABLA_TRY(engine_feed(e, t->ids, t->count, diag));
  v.prompt_ms = now_ms() - start;
  for (uint64_t i = 0; i < s->count && !is_stopped; i++) {
    NABLA_TRY(nabla_decoder_sample(e->logits, e->limits.vocabulary, &how,
                                   &random, e->order, &id, diag));
    if (id == end) break;
    NABLA_TRY(print_token(t, id, diag));
    if (i + 1 == s->count || e->position == e->limits.context) break;
    NABLA_TRY(engine_feed(e, &id, 1, diag));
    v.generated++;
  }
  v.generated_ms = now_ms() - start - v.prompt_ms;
  printf("\n");
  if (fflush(stdout)) return nabla_fail(diag, NABLA_IO, "cannot print");
  if (s->stats && !e->first_rank) print_stats(e, &v);
  return NABLA_OK;
}

/* With weights that were packed here, what that costs, too. */
static nabla_status measure(engine *e, engine *dense, const text *t,
                            nabla_diag *diag) {
  nabla_decoder_loss found;
  NABLA_TRY(nabla_decoder_measure_loss(e->session, dense->session, t->ids,
                                       t->count, &found, diag));
  printf("perplexity %.4f over %zu tokens", exp(found.loss), found.tokens);
  if (dense->session)
    printf(", KL divergence from dense %.6f", found.divergence);
  printf("\n");
  return NABLA_OK;
}

static nabla_status run(engine *e, engine *dense, const settings *s, text *t,
                        char **file, nabla_diag *diag) {
  settings unpacked = *s;
  unpacked.encoding = unpacked.save = unpacked.text = NULL;
  if (s->perplexity && s->mesh)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--perplexity is measured without --mesh");
  if (s->mesh && !s->program &&
      (strncmp(s->mesh, "model=", 6) != 0 || strchr(s->mesh, ',')))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--mesh reads model=N: the model is divided along one "
                      "axis");
  NABLA_TRY(engine_open(e, s, diag));
  if (s->perplexity && e->packed && !s->program)
    NABLA_TRY(engine_open(dense, &unpacked, diag));
  if (s->perplexity) NABLA_TRY(read_file(s->perplexity, file, diag));
  const char *from = *file ? *file : s->ids ? s->ids : s->prompt;
  if (!s->ids)
    NABLA_TRY(nabla_decoder_open_tokenizer(
        e->executable, e->model, s->tokenizer, NULL, &t->tokenizer, diag));
  NABLA_TRY(s->ids ? read_ids(t, from, diag) : read_text(t, from, diag));
  if (!t->count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is no token to begin with");
  return s->perplexity ? measure(e, dense, t, diag) : generate(e, s, t, diag);
}

int main(int argc, char **argv) {
  settings s = {.count = 256, .seed = 1, .top_p = .9, .prompt = ""};
  engine e = {0}, dense = {0};
  text t = {0};
  char *file = NULL, line[1200];
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc == 2 && !strcmp(argv[1], "--help")) {
    print_usage(stdout);
    return 0;
  }
  if (!parse(argc, argv, &s)) return 2;
  const nabla_status status = run(&e, &dense, &s, &t, &file, &diag);
  if (status) {
    nabla_diag_format(&diag, line, sizeof line);
    fprintf(stderr, "llama: %s\n", line);
    if (e.comm) nabla_comm_abort(e.comm, 1); /* others would wait for it */
  }
  nabla_tokenizer_close(t.tokenizer);
  engine_close(&dense);
  engine_close(&e);
  free(t.piece);
  free(t.ids);
  free(file);
  return status != NABLA_OK;
}
