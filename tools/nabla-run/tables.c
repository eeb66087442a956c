/* The rows of options.def, and nabla-run as a tool. */
#include "tools/nabla-run/tables.h"

const tool_option run_option_rows[RUN_OPTION_COUNT] = {
#define OPTION(...) TOOL_OPTION(__VA_ARGS__)
#include "tools/nabla-run/options.def"
#undef OPTION
};

const tool run_tool = {
    .name = "nabla-run",
    .operands = "PROGRAM [options]",
    .summary =
        "Compiles a program in the nabla dialect, or opens a saved one "
        "(nabla-compile -o PROGRAM.so), and runs one of its functions. '-' "
        "is "
        "a program to compile on standard input.",
    .examples =
        "  nabla-run linear.mlir --entry linear --input x=x.npy \\\n"
        "      --bind w=model-nf4.safetensors:layers.0.w1.weight "
        "--output y.npy\n"
        "  nabla-run linear.so -i x=random:4x192 --time\n",
    .failed =
        "The program does not parse, verify or compile, diagnostics say "
        "where; or a result is not what --expect says.",
    .options = run_option_rows,
    .option_count = RUN_OPTION_COUNT,
};
