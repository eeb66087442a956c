/* The rows of options.def, and nabla-compile as a tool. */
#include "tools/nabla-compile/tables.h"

const tool_option compile_option_rows[COMPILE_OPTION_COUNT] = {
#define OPTION(...) TOOL_OPTION(__VA_ARGS__)
#include "tools/nabla-compile/options.def"
#undef OPTION
};

const tool compile_tool = {
    .name = "nabla-compile",
    .operands = "PROGRAM.mlir [options]",
    .summary =
        "Compiles a program in the nabla dialect. '-' is standard input.",
    .examples =
        "  nabla-compile linear.mlir -o linear.o\n"
        "  nabla-compile linear.mlir -o linear.so --target x86-64-v4\n"
        "  nabla-compile linear.mlir -o linear.o --header linear.h\n"
        "  nabla-compile linear.mlir --emit asm --target x86-64-v3\n",
    .failed =
        "The program does not parse, verify or compile; diagnostics "
        "say where.",
    .options = compile_option_rows,
    .option_count = COMPILE_OPTION_COUNT,
};
