/* The rows of verbs.def and options.def, and the lists of values. */
#include "tools/nabla-quant/cli.h"

/* In the order of the enums that they name (nabla/quantize.h, cli.h). */
const char cli_encodings[] =
#define ENCODING(id, ...) #id "|"
#include "quant/codec/encodings.def"
#undef ENCODING
    "none";
static const char presets[] = "" /* begins with | */
#define PRESET(id, ...) "|" #id
#include "tools/nabla-quant/presets.def"
#undef PRESET
    ;
const char cli_blocks[] = "16|32|64|128|256|512|1024|2048|4096|row|tensor";
/* e8m0 is not asked for: mx encodings have it */
const char cli_scales[] = "f32|f16|bf16|dynamic8";
const char cli_runs[] = "flat|leading";

const tool_verb cli_verbs[CLI_VERB_COUNT] = {
#define VERB(id, operands, min, max, summary, description) \
  {#id, operands, min, max, summary, description},
#include "tools/nabla-quant/verbs.def"
#undef VERB
};

static const tool_moved moved[] = {
#define VERB(...)
#define MOVED(id, next) {#id, next},
#include "tools/nabla-quant/verbs.def"
#undef VERB
};

enum {
  Q = 1u << CLI_VERB_quantize,
  P = 1u << CLI_VERB_plan,
  I = 1u << CLI_VERB_inspect,
  D = 1u << CLI_VERB_dequantize,
  V = 1u << CLI_VERB_verify,
  F = 1u << CLI_VERB_diff,
};

const tool_option cli_option_rows[CLI_OPTION_COUNT] = {
#define OPTION(...) TOOL_OPTION(__VA_ARGS__)
#include "tools/nabla-quant/options.def"
#undef OPTION
};

const tool cli_tool = {
    .name = "nabla-quant",
    .operands = "VERB [options] [files]",
    .summary = "Quantizes checkpoints in safetensors files, and looks at them.",
    .operand_help =
        "IN is a .safetensors file, an index.json, or a folder with one of "
        "these; OUT too.",
    .examples =
        "  nabla-quant plan model.safetensors\n"
        "  nabla-quant quantize model.safetensors -o model-nf4.safetensors\n"
        "  nabla-quant diff model.safetensors model-nf4.safetensors "
        "--tolerance 0.2\n",
    .verbs = cli_verbs,
    .verb_count = CLI_VERB_COUNT,
    .moved = moved,
    .moved_count = sizeof moved / sizeof *moved,
    .options = cli_option_rows,
    .option_count = CLI_OPTION_COUNT,
};
