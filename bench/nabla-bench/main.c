/* nabla-bench: kernels, codecs, the compiler and the pool, beside what limits
 * them and what others have. */
#include <signal.h>
#include <string.h>

#include "bench/nabla-bench/bench.h"
#include "lib/base/edit_distance.h"
#include "lib/base/isa.h"
#include "nabla/encoding.h"
#include "tools/common/tool.h"
#include "tools/nabla-quant/cli.h"
#if NABLA_HAS_COMPILER
#include "bench/nabla-bench/peer.h"
#endif

/* Sizes beyond are refused: a mistake, and sums of them would overflow. */
#define MOST_SIZE  ((uint64_t)1 << 24)
#define MOST_TURNS 1001
#define MOST_MIB   65536

static const char variants[] = "best"
#define VARIANT(id, summary) "|" #id
#include "lib/kernels/variants.def"
#undef VARIANT
    ;

static const tool_option rows[BENCH_OPTION_COUNT] = {
#define OPTION(id, name, letter, argument, values, fallback, verbs, help) \
  {name, letter, argument, values, fallback, help verbs},
#include "bench/nabla-bench/options.def"
#undef OPTION
};

static const char *const option_verbs[BENCH_OPTION_COUNT] = {
#define OPTION(id, name, letter, argument, values, fallback, verbs, help) verbs,
#include "bench/nabla-bench/options.def"
#undef OPTION
};

static const struct {
  const char *name, *summary;
} verbs[] = {
#define VERB(id, summary) {#id, summary},
#include "bench/nabla-bench/verbs.def"
#undef VERB
};

/* ---- options ---- */

/* The row's number and its bounds. */
static nabla_status read_number(const char *argument, size_t index,
                                uint64_t most, uint64_t *out,
                                nabla_diag *diag) {
  return tool_number(rows[index].name, argument, 1, most, out, diag);
}

static nabla_status set_block(bench_settings *s, const char *argument,
                              nabla_diag *diag) {
  if (!strcmp(argument, "row")) {
    s->problem.block = BENCH_BLOCK_ROW;
    return NABLA_OK;
  }
  NABLA_TRY(tool_number("block", argument, NABLA_BLOCK_MIN, NABLA_BLOCK_MAX,
                        &s->problem.block, diag));
  if (s->problem.block & (s->problem.block - 1))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--block %s is no power of two", argument);
  return NABLA_OK;
}

static nabla_status set_size(bench_settings *s, size_t index,
                             const char *argument, nabla_diag *diag) {
  uint64_t value = 0;
  switch (index) {
    case BENCH_OPTION_n:
      return read_number(argument, index, MOST_SIZE, &s->problem.n, diag);
    case BENCH_OPTION_k:
      return read_number(argument, index, MOST_SIZE, &s->problem.k, diag);
    case BENCH_OPTION_m:
      return read_number(argument, index, MOST_SIZE, &s->problem.m, diag);
    case BENCH_OPTION_turns:
      return read_number(argument, index, MOST_TURNS, &s->turns, diag);
    case BENCH_OPTION_size:
      return read_number(argument, index, MOST_MIB, &s->size_mib, diag);
    default:
      NABLA_TRY(
          read_number(argument, index, NABLA_POOL_MAX_THREADS, &value, diag));
      s->problem.threads = (uint32_t)value;
      return NABLA_OK;
  }
}

static nabla_status set_text(bench_settings *s, size_t index,
                             const char *argument, nabla_diag *diag) {
  bench_problem *p = &s->problem;
  switch (index) {
    case BENCH_OPTION_encoding:
      s->encoding = p->encoding = argument;
      return NABLA_OK;
    case BENCH_OPTION_block:
      return set_block(s, argument, diag);
    case BENCH_OPTION_scale:
      p->scale = argument;
      return NABLA_OK;
    case BENCH_OPTION_numerics: /* one that is legal: see options.def */
      (void)nabla_numerics_find(argument, &p->numerics);
      return NABLA_OK;
    case BENCH_OPTION_isa:
      p->isa = argument;
      return NABLA_OK;
    case BENCH_OPTION_variant: /* one that is legal: see options.def */
      p->variant = strcmp(argument, "best") ? argument : NULL;
      return NABLA_OK;
    case BENCH_OPTION_layout:
      (void)nabla_weight_layout_find(argument, &p->layout);
      return NABLA_OK;
    case BENCH_OPTION_peers:
      s->peers = argument;
      return NABLA_OK;
    case BENCH_OPTION_ops:
      s->ops = argument;
      return NABLA_OK;
    case BENCH_OPTION_type:
      s->type = argument;
      return NABLA_OK;
    case BENCH_OPTION_rows:
      s->rows = argument;
      return NABLA_OK;
    default:
      s->svg = argument;
      return NABLA_OK;
  }
}

static nabla_status set(void *self, size_t index, char *argument,
                        nabla_diag *diag) {
  bench_settings *s = self;
  s->given |= UINT64_C(1) << index;
  switch (index) {
    case BENCH_OPTION_json:
      s->json = 1;
      return NABLA_OK;
    case BENCH_OPTION_assembly:
      s->assembly = 1;
      return NABLA_OK;
    case BENCH_OPTION_transposed:
      s->problem.transposed = 1;
      return NABLA_OK;
    case BENCH_OPTION_n:
    case BENCH_OPTION_k:
    case BENCH_OPTION_m:
    case BENCH_OPTION_turns:
    case BENCH_OPTION_size:
    case BENCH_OPTION_threads:
      return set_size(s, index, argument, diag);
    default:
      return set_text(s, index, argument, diag);
  }
}

/* ---- the command line as a whole ---- */

static nabla_status fail_verb(const char *typed, nabla_diag *diag) {
  nabla_nearest near = nabla_nearest_begin(typed, strlen(typed));
  for (size_t i = 0; i < BENCH_VERB_COUNT; i++)
    nabla_nearest_offer(&near, verbs[i].name, strlen(verbs[i].name));
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown verb '%s'", typed);
  if (near.best) nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  return status;
}

static nabla_status find_verb(bench_settings *s, const tool_line *line,
                              nabla_diag *diag) {
  s->verb = BENCH_VERB_COUNT;
  if (line->operand_count == 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a verb is missing");
  for (size_t i = 0; i < BENCH_VERB_COUNT; i++)
    if (!strcmp(verbs[i].name, line->operands[0])) s->verb = (bench_verb)i;
  if (s->verb == BENCH_VERB_COUNT) return fail_verb(line->operands[0], diag);
  if (line->operand_count > 1)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "'%s' is too much: there are no operands but the verb",
                      line->operands[1]);
  return NABLA_OK;
}

/* An option that the verb has not would do nothing. */
static nabla_status check_options(const bench_settings *s, nabla_diag *diag) {
  for (size_t i = 0; i < BENCH_OPTION_COUNT; i++) {
    if (!(s->given >> i & 1)) continue;
    const char *name = s->verb < BENCH_VERB_COUNT ? verbs[s->verb].name : "";
    const int all_but = strstr(option_verbs[i], "all but") != NULL;
    if (!strstr(option_verbs[i], name) == !all_but)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s has no option '--%s'",
                        name, rows[i].name);
  }
  if (s->rows && !strcmp(s->rows, "chart") && !s->svg)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--rows chart needs --svg FILE");
  if (s->assembly && s->json)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--assembly is no JSON: leave one of the two out");
  return NABLA_OK;
}

static nabla_status check_line(bench_settings *s, const tool_line *line,
                               nabla_diag *diag) {
  NABLA_TRY(find_verb(s, line, diag));
  NABLA_TRY(check_options(s, diag));
  if (s->verb == BENCH_VERB_gemv) s->problem.m = 1;
#if NABLA_HAS_COMPILER
  NABLA_TRY(bench_peer_check_list(s->peers, diag));
  NABLA_TRY(bench_ops_check_list(s->ops, diag));
#endif
  return NABLA_OK;
}

static nabla_status run(bench_settings *s, nabla_diag *diag) {
  switch (s->verb) {
    case BENCH_VERB_codec:
      return bench_run_codec(s, diag);
    case BENCH_VERB_pool:
      return bench_run_pool(s, diag);
#if NABLA_HAS_COMPILER
    case BENCH_VERB_gemv:
    case BENCH_VERB_gemm:
      return bench_run_product(s, diag);
    case BENCH_VERB_compile:
      return bench_run_compile(s, diag);
    case BENCH_VERB_ops:
      return bench_run_ops(s, diag);
    case BENCH_VERB_report:
      return bench_run_report(s, diag);
#endif
    default:
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "this verb needs the compiler, which this build has "
                        "not");
  }
}

static int fail(const tool *t, const bench_settings *s, const nabla_diag *diag,
                int usage) {
  nabla_json_out out;
  tool_error(t, diag);
  if (usage) {
    tool_print_usage(t, stderr);
    fprintf(stderr, "See '%s --help'.\n", t->name);
  }
  if (s->json && !s->printed) {
    bench_json_begin(&out, s->verb);
    bench_json_error(&out, diag);
    (void)!bench_json_end(&out, NULL);
  }
  return tool_finish(t, tool_exit_of_status(diag->code));
}

static void print_summary(char *out, size_t size) {
  size_t used = (size_t)snprintf(
      out, size,
      "Measures kernels in turns with what limits them and with other "
      "libraries; codecs; compiling; the pool.");
  for (size_t i = 0; i < BENCH_VERB_COUNT && used < size; i++)
    used += (size_t)snprintf(out + used, size - used, " %s: %s", verbs[i].name,
                             verbs[i].summary);
}

/* The best that there is, is what NABLA_ISA names. */
static nabla_status use_environment(bench_problem *problem, nabla_diag *diag) {
  nabla_isa isa;
  NABLA_TRY(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, diag));
  if (isa != NABLA_ISA_BEST && !strcmp(problem->isa, "best"))
    problem->isa = isa == NABLA_ISA_SCALAR ? "portable" : nabla_isa_name(isa);
  return NABLA_OK;
}

int main(int argc, char **argv) {
  bench_settings s = {.verb = BENCH_VERB_COUNT,
                      .problem = {.encoding = "nf4",
                                  .scale = "f32",
                                  .n = 4096,
                                  .k = 4096,
                                  .m = 32,
                                  .threads = 1,
                                  .isa = "best"},
                      .peers = "all",
                      .ops = "all",
                      .type = "f32"};
  nabla_diag diag = NABLA_DIAG_INIT;
  tool_line line;
  char summary[1024];
  const tool t = {
      .name = "nabla-bench",
      .operands = "gemv|gemm|codec|compile|pool|ops|report",
      .summary = summary,
      .examples =
          "  nabla-bench gemv --encoding nf4 --threads 2\n"
          "  nabla-bench gemm -m 512 --numerics bf16 --layout prepacked\n"
          "  nabla-bench report --svg docs/kernels.svg\n",
      .failed = "Not used.",
      .options = rows,
      .option_count = BENCH_OPTION_COUNT,
      .set = set,
      .self = &s,
  };
  print_summary(summary, sizeof summary);
  signal(SIGPIPE, SIG_IGN); /* a peer may end when it likes */
  nabla_status status = tool_parse(&t, argc, argv, &line, &diag);
  if (!status && line.done) return tool_finish(&t, TOOL_EXIT_OK);
  if (!status) status = check_line(&s, &line, &diag);
  if (!status) status = use_environment(&s.problem, &diag);
  if (status) return fail(&t, &s, &diag, 1);
  if (run(&s, &diag)) return fail(&t, &s, &diag, 0);
  return tool_finish(&t, TOOL_EXIT_OK);
}
