/* The rows of verbs.def, options.def and exits.def, and the sets of values. */
#include "tools/nabla-quant/cli.h"

const cli_verb cli_verbs[CLI_VERB_COUNT] = {
#define VERB(id, operands, min, max, summary, description) \
  {#id, operands, min, max, summary, description},
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
  ALL = (1u << CLI_VERB_COUNT) - 1,
};

const cli_option cli_option_rows[CLI_OPTION_COUNT] = {
#define OPTION(id, name, letter, argument, values, verbs, fallback, help) \
  {name, letter, argument, CLI_##values, verbs, fallback, help},
#include "tools/nabla-quant/options.def"
#undef OPTION
};

static const cli_exit exits[] = {
#define EXIT(id, code, meaning) {code, meaning},
#define STATUS(status, id)
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
};

cli_exit cli_exit_row(size_t index) {
  return index < sizeof exits / sizeof *exits ? exits[index]
                                              : (cli_exit){0, NULL};
}

int cli_exit_of_status(nabla_status status) {
  /* a status without a row does not compile: no default, -Wswitch */
  switch (status) {
#define EXIT(id, code, meaning)
#define STATUS(status, id) \
  case NABLA_##status:     \
    return CLI_EXIT_##id;
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
  }
  return CLI_EXIT_UNSUPPORTED;
}

/* In the order of the enums that they name (nabla/quantize.h, cli.h). */
static const char *const layouts[] = {"auto", "bitsandbytes", "nabla"};
static const char *const policies[] = {"refuse", "keep"};
static const char *const dtypes[] = {"f32", "f16", "bf16"};
static const char *const modes[] = {"auto", "bar", "json", "none"};
static const char *const whens[] = {"auto", "always", "never"};
static const char *const blocks[] = {"16",   "32",  "64",    "128",
                                     "256",  "512", "1024",  "2048",
                                     "4096", "row", "tensor"};
static const char *const presets[] = {
#define PRESET(id, ...) #id,
#include "tools/nabla-quant/presets.def"
#undef PRESET
};
static const char *const runs[] = {"flat", "leading"};

#define PICK(array) \
  return index < sizeof array / sizeof *array ? array[index] : NULL

const char *cli_value(cli_values values, size_t index) {
  size_t count;
  const nabla_encoding *rows;
  switch (values) {
    case CLI_ENCODING:
      rows = nabla_encodings(&count);
      if (index < count) return rows[index].name;
      return index == count ? "none" : NULL;
    case CLI_PRESET:
      PICK(presets);
    case CLI_ISA:
      return index <= NABLA_ISA_AVX512 ? nabla_isa_name((nabla_isa)index)
                                       : NULL;
    case CLI_BLOCK:
      PICK(blocks);
    case CLI_BLOCKS:
      PICK(runs);
    case CLI_SCALE: /* e8m0 is not asked for: mx encodings have it */
      return index < NABLA_SCALE_E8M0
                 ? nabla_scale_info_of((nabla_scale_type)index)->option
                 : NULL;
    case CLI_LAYOUT:
      PICK(layouts);
    case CLI_NONFINITE:
      PICK(policies);
    case CLI_DTYPE:
      PICK(dtypes);
    case CLI_PROGRESS:
      PICK(modes);
    case CLI_COLOR:
      PICK(whens);
    case CLI_NONE:
    case CLI_PATH:
    case CLI_TEXT:
      break;
  }
  return NULL;
}
