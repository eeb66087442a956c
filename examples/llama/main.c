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
        "The prompt as token ids, without a tokenizer; ids are printed, too."),
    ROW("--count", "-n", "N", count, NUMBER, "Tokens to generate (256)."),
    ROW("--encoding", "", "NAME[:BLOCK][:f16][:search]", encoding, TEXT,
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
        "Print the perplexity of a text (of ids with --ids ''), generate "
        "nothing."),
    ROW("--save", "", "FILE.so", save, TEXT,
        "Write the program, which runs without a compiler."),
    ROW("--text", "", "FILE.mlir", text, TEXT,
        "Write the program's text, for nabla-opt and nabla-compile."),
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

typedef struct prompt {
  int64_t *ids;
  size_t count;
} prompt;

/* "1,2,3"; blanks and line ends separate ids, too. */
static nabla_status read_ids(const char *text, prompt *out, nabla_diag *diag) {
  out->ids = malloc((strlen(text) / 2 + 2) * sizeof *out->ids);
  if (!out->ids) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  while (*(text += strspn(text, ", \n")) != '\0') {
    char *end;
    out->ids[out->count++] = strtoll(text, &end, 10);
    if (end == text)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%.20s' is no token id",
                        text);
    text = end;
  }
  return NABLA_OK;
}

static nabla_status read_text(const nabla_tokenizer *tokenizer,
                              const char *text, prompt *out, nabla_diag *diag) {
  nabla_token_list list;
  NABLA_TRY(nabla_tokenizer_encode(tokenizer, text, strlen(text),
                                   NABLA_ENCODE_ADD_SPECIAL, &list, diag));
  out->ids = malloc((list.count + 1) * sizeof *out->ids);
  for (size_t i = 0; out->ids && i < list.count; i++) out->ids[i] = list.ids[i];
  out->count = list.count;
  nabla_token_list_release(tokenizer, &list);
  return out->ids ? NABLA_OK
                  : nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
}

/* That of --tokenizer, or the one in the model's folder; it must be of this
 * model. */
static nabla_status open_tokenizer(const settings *s, const engine *e,
                                   nabla_tokenizer **out, nabla_diag *diag) {
  char folder[4096];
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(nabla_model_borrow_checkpoint(e->model), 0);
  (void)snprintf(folder, sizeof folder, "./%s",
                 nabla_tensor_file_borrow_path(file));
  *strrchr(folder, '/') = '\0';
  const char *path = s->tokenizer                     ? s->tokenizer
                     : folder[2] == '/' || !folder[1] ? folder + 2
                                                      : folder;
  NABLA_TRY(nabla_tokenizer_open(*path ? path : "/", NULL, out, diag));
  const nabla_status status =
      nabla_decoder_check_tokenizer(e->executable, *out, diag);
  if (status) nabla_diag_set_file(diag, path);
  if (status)
    nabla_diag_set_next(diag, "name the one of this model: --tokenizer PATH");
  return status;
}

static nabla_status read_file(const char *path, char **out, nabla_diag *diag) {
  enum { MOST = 1 << 26 };
  FILE *file = fopen(path, "rb");
  nabla_status status = NABLA_OK;
  char *bytes = malloc(MOST + 1);
  if (!file) {
    status = nabla_fail(diag, NABLA_IO, "cannot be opened");
  } else if (!bytes) {
    status = nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  } else {
    bytes[fread(bytes, 1, MOST, file)] = '\0';
    if (ferror(file))
      status = nabla_fail(diag, NABLA_IO, "cannot be read");
    else if (!feof(file) && fgetc(file) != EOF)
      status = nabla_fail(diag, NABLA_TOO_LARGE,
                          "has more than %d bytes; give a part of it", MOST);
  }
  if (file) (void)fclose(file);
  if (status) nabla_diag_set_file(diag, path);
  if (status)
    free(bytes);
  else
    *out = bytes;
  return status;
}

/* ---- what is asked for --------------------------------------------------- */

typedef struct speed {
  size_t prompt, generated;
  double prompt_ms, generated_ms;
} speed;

/* Prints a token as soon as it is made: characters that are whole. */
typedef struct printer {
  const nabla_tokenizer *tokenizer; /* NULL: ids are printed */
  nabla_token_stream stream;
  char *text;
  size_t capacity;
} printer;

static nabla_status print_token(printer *p, int64_t id, nabla_diag *diag) {
  size_t size;
  if (!p->tokenizer) {
    printf("%" PRId64 " ", id);
    return fflush(stdout) ? nabla_fail(diag, NABLA_IO, "cannot print")
                          : NABLA_OK;
  }
  if ((uint64_t)id >= nabla_tokenizer_size(p->tokenizer)) return NABLA_OK;
  NABLA_TRY(nabla_tokenizer_stream_next(p->tokenizer, &p->stream, (uint32_t)id,
                                        NABLA_DECODE_SKIP_SPECIAL, p->text,
                                        p->capacity, &size, diag));
  (void)fwrite(p->text, 1, size, stdout);
  return fflush(stdout) ? nabla_fail(diag, NABLA_IO, "cannot print") : NABLA_OK;
}

static nabla_status generate(engine *e, const settings *s, printer *p,
                             const prompt *from, speed *out, nabla_diag *diag) {
  uint32_t *order = malloc(e->limits.vocabulary * sizeof *order);
  uint64_t random = s->seed;
  const nabla_token_roles roles =
      p->tokenizer ? nabla_tokenizer_roles(p->tokenizer)
                   : (nabla_token_roles){.eos = NABLA_TOKEN_NONE};
  if (!order) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < from->count && !status; i++)
    status = print_token(p, from->ids[i], diag);
  double start = now_ms();
  if (!status) status = engine_feed(e, from->ids, from->count, diag);
  out->prompt = from->count;
  out->prompt_ms = now_ms() - start;
  start = now_ms();
  for (uint64_t i = 0; i < s->count && !status && !is_stopped; i++) {
    const int64_t id =
        sample(s, e->logits, e->limits.vocabulary, &random, order);
    if (id == (int64_t)roles.eos) break;
    status = print_token(p, id, diag);
    if (i + 1 == s->count || e->position == e->limits.context || status) break;
    status = engine_feed(e, &id, 1, diag);
    out->generated++;
  }
  out->generated_ms = now_ms() - start;
  printf("\n");
  (void)fflush(stdout); /* before what --stats prints to stderr */
  free(order);
  return status;
}

/* log of the sum of exp. */
static double normalizer(const float *logits, uint64_t count) {
  double most = (double)logits[0], sum = 0;
  for (uint64_t i = 1; i < count; i++)
    if ((double)logits[i] > most) most = (double)logits[i];
  for (uint64_t i = 0; i < count; i++) sum += exp((double)logits[i] - most);
  return most + log(sum);
}

/* What the distribution of `e` loses beside that of `dense`. */
static double divergence(const engine *dense, const engine *e) {
  const double p = normalizer(dense->logits, e->limits.vocabulary),
               q = normalizer(e->logits, e->limits.vocabulary);
  double sum = 0;
  for (uint64_t i = 0; i < e->limits.vocabulary; i++)
    sum += exp((double)dense->logits[i] - p) *
           (((double)dense->logits[i] - p) - ((double)e->logits[i] - q));
  return sum;
}

/* exp of the mean of -log p of each token, given those before it. A text begins
 * anew with the first token, where that comes again, and where the cache is
 * full. With weights that were packed here, the mean of KL(dense, packed), too.
 */
static nabla_status measure(engine *e, engine *dense, const prompt *from,
                            nabla_diag *diag) {
  const int64_t *ids = from->ids;
  double loss = 0, lost = 0;
  size_t counted = 0;
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i + 1 < from->count && !is_stopped; i++) {
    if (e->position == e->limits.context || ids[i] == ids[0]) {
      engine_reset(e);
      engine_reset(dense);
    }
    status = engine_feed(e, ids + i, 1, diag);
    if (!status && dense->executable)
      status = engine_feed(dense, ids + i, 1, diag);
    if (status) return status;
    if (ids[i + 1] == ids[0] || ids[i + 1] < 0 ||
        (uint64_t)ids[i + 1] >= e->limits.vocabulary)
      continue;
    loss += normalizer(e->logits, e->limits.vocabulary) -
            (double)e->logits[ids[i + 1]];
    if (dense->executable) lost += divergence(dense, e);
    counted++;
  }
  const double count = counted ? (double)counted : 1;
  printf("perplexity %.4f over %zu tokens", exp(loss / count), counted);
  if (dense->executable)
    printf(", KL divergence from dense %.6f", lost / count);
  printf("\n");
  return NABLA_OK;
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

static nabla_status run(engine *e, const settings *s, printer *p, prompt *from,
                        nabla_diag *diag) {
  char *file = NULL;
  speed v = {0};
  nabla_tokenizer *tokenizer = NULL;
  engine dense = {0};
  settings unpacked = *s;
  unpacked.encoding = unpacked.save = unpacked.text = NULL;
  nabla_status status = engine_open(e, s, diag);
  if (!status && s->perplexity && e->packed_count && !s->program)
    status = engine_open(&dense, &unpacked, diag);
  if (!status && s->perplexity) status = read_file(s->perplexity, &file, diag);
  const char *text = file ? file : s->prompt ? s->prompt : "";
  if (!status && !s->ids) status = open_tokenizer(s, e, &tokenizer, diag);
  p->tokenizer = tokenizer;
  if (!status && tokenizer) {
    p->capacity = nabla_tokenizer_stream_capacity(tokenizer);
    p->text = malloc(p->capacity + 1);
    if (!p->text) status = nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  }
  if (!status)
    status = tokenizer ? read_text(tokenizer, text, from, diag)
                       : read_ids(file ? file : s->ids, from, diag);
  if (!status && !from->count)
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "there is no token to begin with");
  (void)signal(SIGINT, stop);
  if (!status)
    status = s->perplexity ? measure(e, &dense, from, diag)
                           : generate(e, s, p, from, &v, diag);
  if (!status && s->stats && !s->perplexity) print_stats(e, &v);
  free(file);
  nabla_tokenizer_close(tokenizer);
  engine_close(&dense);
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
  printer p = {0};
  prompt from = {0};
  const nabla_status status = run(&e, &s, &p, &from, &diag);
  engine_close(&e);
  free(p.text);
  free(from.ids);
  if (!status) return 0;
  char line[1200];
  nabla_diag_format(&diag, line, sizeof line);
  fprintf(stderr, "llama: %s\n", line);
  return 1;
}
