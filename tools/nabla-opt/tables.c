/* The rows of options.def, and nabla-opt as a tool. */
#include "tools/nabla-opt/tables.h"

const tool_option opt_option_rows[OPT_OPTION_COUNT] = {
#define OPTION(...) TOOL_OPTION(__VA_ARGS__)
#include "tools/nabla-opt/options.def"
#undef OPTION
};

const tool opt_tool = {
    .name = "nabla-opt",
    .operands = "PROGRAM.mlir [options]",
    .summary = "Runs passes over a program in the nabla dialect.",
    .failed = "A pass failed, or the program is not valid.",
    .options = opt_option_rows,
    .option_count = OPT_OPTION_COUNT,
};
