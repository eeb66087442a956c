/* The command line of nabla-quant. What each option sets: values.c. */
#include <string.h>

#include "nabla/status.h"
#include "tools/nabla-quant/cli.h"

int cli_given(const cli_options *options, cli_option_id id) {
  return (options->given >> id & 1u) != 0;
}

/* Refuses what no verb can read. */
static nabla_status check_operands(const cli_options *options,
                                   nabla_diag *diag) {
  for (size_t i = 0; i < options->operand_count; i++) {
    const char *operand = options->operands[i];
    if (!*operand)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "an operand is an empty text");
    if (!strcmp(operand, "-")) {
      nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     "'-' (standard input) cannot be read: checkpoints need "
                     "random access");
      nabla_diag_set_next(diag, "name a file");
      return status;
    }
  }
  if ((options->verb == CLI_VERB_quantize ||
       options->verb == CLI_VERB_dequantize) &&
      !options->output) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%s' needs an output",
                   cli_verbs[options->verb].name);
    nabla_diag_set_next(diag, "name it with -o OUT");
    return status;
  }
  return NABLA_OK;
}

static void set_defaults(cli_options *out) {
  *out = (cli_options){.verb = CLI_VERB_COUNT,
                       .quantize.struct_size = sizeof out->quantize};
  size_t count;
  out->quantize.encoding = nabla_encodings(&count);
}

nabla_status cli_parse(int argc, char **argv, cli_options *out, tool_line *line,
                       nabla_diag *diag) {
  tool t = cli_tool;
  t.set = cli_set_option;
  t.self = out;
  set_defaults(out);
  nabla_status status = tool_parse(&t, argc, argv, line, diag);
  out->verb = (cli_verb_id)line->verb;
  out->given = line->given;
  if (status || line->about) return status;
  out->operands = line->operands;
  out->operand_count = line->operand_count;
  cli_preset_apply(out);
  return check_operands(out, diag);
}
