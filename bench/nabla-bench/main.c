/* nabla-bench: kernels, codecs, the compiler and the pool, beside what limits
 * them and what others have. */
#include <signal.h>
#include <string.h>

#include "bench/nabla-bench/bench.h"
#include "lib/base/isa.h"
#include "nabla/encoding.h"
#include "tools/common/tool.h"
#if NABLA_HAS_COMPILER
#include "bench/nabla-bench/peer.h"
#endif

/* Sizes beyond are refused: a mistake, and sums of them would overflow. */
#define MOST_SIZE    ((uint64_t)1 << 24)
#define MOST_TURNS   1001
#define MOST_MIB     65536
#define MOST_CONTEXT ((uint64_t)1 << 20)

/* ---- options ---- */

/* The row's number and its bounds. */
static nabla_status read_number(const char *argument, size_t index,
                                uint64_t most, uint64_t *out,
                                nabla_diag *diag) {
  return tool_number(bench_tool.options[index].name, argument, 1, most, out,
                     diag);
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
    case BENCH_OPTION_context:
      return read_number(argument, index, MOST_CONTEXT, &s->context, diag);
    case BENCH_OPTION_prompt:
      return read_number(argument, index, MOST_CONTEXT, &s->prompt, diag);
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
    case BENCH_OPTION_model:
      s->model = argument;
      return NABLA_OK;
    case BENCH_OPTION_mesh:
      s->mesh = argument;
      return NABLA_OK;
    case BENCH_OPTION_machine:
      s->machine = argument;
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
    case BENCH_OPTION_context:
    case BENCH_OPTION_prompt:
    case BENCH_OPTION_threads:
      return set_size(s, index, argument, diag);
    default:
      return set_text(s, index, argument, diag);
  }
}

/* ---- the command line as a whole ---- */

static nabla_status check_options(const bench_settings *s, nabla_diag *diag) {
  if (s->rows && !strcmp(s->rows, "chart") && !s->svg)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--rows chart needs --svg FILE");
  if (s->assembly && s->json)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--assembly is no JSON: leave one of the two out");
  return NABLA_OK;
}

static nabla_status check_line(bench_settings *s, nabla_diag *diag) {
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
    case BENCH_VERB_collectives:
      return bench_run_collectives(s, diag);
    case BENCH_VERB_ops:
      return bench_run_ops(s, diag);
    case BENCH_VERB_arrays:
      return bench_run_arrays(s, diag);
    case BENCH_VERB_generate:
      return bench_run_generate(s, diag);
    case BENCH_VERB_report:
      return bench_run_report(s, diag);
#endif
    default:
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "this verb needs the compiler, which this build has "
                        "not");
  }
}

/* Reports a failure, as JSON too. @return the exit code */
static int fail(const tool *t, const bench_settings *s,
                const nabla_diag *diag) {
  nabla_json_out out;
  if (s->json && !s->printed) {
    bench_json_begin(&out, s->verb);
    bench_json_error(&out, diag);
    (void)!bench_json_end(&out, NULL);
  }
  return tool_finish(t, tool_exit_of_status(diag->code));
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
  tool t = bench_tool;
  t.set = set;
  t.self = &s;
  signal(SIGPIPE, SIG_IGN); /* a peer may end when it likes */
  nabla_status status = tool_parse(&t, argc, argv, &line, &diag);
  if (!status && line.about) return tool_finish_about(&t, &line);
  s.verb = (bench_verb)line.verb;
  s.given = line.given;
  s.json = line.json;
  if (!status) status = check_line(&s, &diag);
  if (!status) status = use_environment(&s.problem, &diag);
  if (status) {
    (void)tool_fail_line(&t, &line, &diag);
    return fail(&t, &s, &diag);
  }
  if (run(&s, &diag)) {
    tool_error(&t, &diag);
    return fail(&t, &s, &diag);
  }
  return tool_finish(&t, TOOL_EXIT_OK);
}
