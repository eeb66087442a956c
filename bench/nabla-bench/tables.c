/* The rows of verbs.def and options.def, and nabla-bench as a tool. */
#include "bench/nabla-bench/bench.h"

static const char variants[] = "best"
#define VARIANT(id, summary) "|" #id
#include "lib/kernels/variants.def"
#undef VARIANT
    ;

enum {
#define VERB(id, ...) BIT_##id = 1u << BENCH_VERB_##id,
#include "bench/nabla-bench/verbs.def"
#undef VERB
  GEMV = BIT_gemv,
  GEMM = BIT_gemm,
  CODEC = BIT_codec,
  COMPILE = BIT_compile,
  POOL = BIT_pool,
  COLLECTIVES = BIT_collectives,
  OPS = BIT_ops,
  ARRAYS = BIT_arrays,
  GENERATE = BIT_generate,
  REPORT = BIT_report,
};

static const tool_option rows[BENCH_OPTION_COUNT] = {
#define OPTION(...) TOOL_OPTION(__VA_ARGS__)
#include "bench/nabla-bench/options.def"
#undef OPTION
};

static const tool_verb verbs[BENCH_VERB_COUNT] = {
#define VERB(id, summary, description) {#id, "", 0, 0, summary, description},
#include "bench/nabla-bench/verbs.def"
#undef VERB
};

const tool bench_tool = {
    .name = "nabla-bench",
    .operands = "VERB [options]",
    .summary =
        "Measures kernels in turns with what limits them and with other "
        "libraries; codecs; compiling; the pool; exchanges.",
    .examples =
        "  nabla-bench gemv --encoding nf4 --threads 2\n"
        "  nabla-bench gemm -m 512 --numerics bf16 --layout prepacked\n"
        "  nabla-bench report --svg docs/kernels.svg\n",
    .failed = "Not used.",
    .verbs = verbs,
    .verb_count = BENCH_VERB_COUNT,
    .options = rows,
    .option_count = BENCH_OPTION_COUNT,
};
