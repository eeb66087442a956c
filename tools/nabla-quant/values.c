/* What each option sets, and which arguments are legal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/common/tool.h"
#include "tools/nabla-quant/cli.h"

/* Digits only; neither sign nor space. */
static int read_number(const char *text, uint64_t *out) {
  uint64_t value = 0;
  if (!*text) return 0;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return 0;
    if (__builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
      return 0;
  }
  *out = value;
  return 1;
}

static nabla_status set_block(const char *argument, uint64_t *out,
                              nabla_diag *diag) {
  uint64_t value;
  if (!strcasecmp(argument, "row")) return *out = NABLA_BLOCK_ROW, NABLA_OK;
  if (!strcasecmp(argument, "tensor"))
    return *out = NABLA_BLOCK_TENSOR, NABLA_OK;
  if (read_number(argument, &value) && value >= NABLA_BLOCK_MIN &&
      value <= NABLA_BLOCK_MAX && !(value & (value - 1)))
    return *out = value, NABLA_OK;
  char legal[120] = "";
  tool_list_values(cli_blocks, ", ", legal, sizeof legal);
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "block size '%s' is not a power of two from %d to %d",
                 argument, NABLA_BLOCK_MIN, NABLA_BLOCK_MAX);
  nabla_diag_set_next(diag, "legal are %s", legal);
  return status;
}

/* NULL for "none". */
static nabla_status set_encoding(const char *argument,
                                 const nabla_encoding **out, nabla_diag *diag) {
  size_t index, count;
  NABLA_TRY(tool_find_value("unknown encoding", cli_encodings, argument, &index,
                            diag));
  const nabla_encoding *rows = nabla_encodings(&count);
  *out = index < count ? &rows[index] : NULL;
  return NABLA_OK;
}

static nabla_status add_pattern(const char *option, const char *argument,
                                const char **patterns, size_t *count,
                                nabla_diag *diag) {
  if (*count == NABLA_MAX_PATTERNS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s is given more than %u times", option,
                      NABLA_MAX_PATTERNS);
  patterns[(*count)++] = argument;
  return NABLA_OK;
}

/* Finds the '=' between pattern and encoding: the last one that precedes the
 * name of an encoding, so that patterns may hold '='. */
static char *find_split(char *text) {
  for (size_t i = strlen(text); i-- > 0;) {
    if (text[i] != '=') continue;
    const char *name = text + i + 1, *value;
    size_t typed = strcspn(name, ":"), length;
    for (size_t k = 0; tool_value(cli_encodings, k, &value, &length); k++)
      if (length == typed && !strncasecmp(value, name, length)) return text + i;
  }
  return NULL;
}

/* What follows the encoding is no setting; perhaps ":block=N" was meant. */
static nabla_status fail_setting(const char *setting, nabla_diag *diag) {
  uint64_t ignored;
  const char *number = setting + (strncmp(setting, "block=", 6) ? 0 : 6);
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "unknown rule setting '%s'", setting);
  if (read_number(number, &ignored))
    nabla_diag_set_next(diag, "did you mean ':block=%s'?", number);
  else
    nabla_diag_set_next(diag,
                        "legal are :block=N, :scale=TYPE, :zero-point, "
                        ":blocks=HOW and :search");
  return status;
}

/* Sets what one option, or the setting of a rule, says: "scale" and its
 * argument. @return 0 in *known when there is no such setting */
static nabla_status set_setting(nabla_settings *settings, const char *name,
                                const char *argument, int *known,
                                nabla_diag *diag) {
  size_t index;
  *known = 1;
  if (!strcmp(name, "zero-point") && !argument) {
    settings->zero_point = 1;
  } else if (!strcmp(name, "search") && !argument) {
    settings->search = 1;
  } else if (!strcmp(name, "block") && argument) {
    return set_block(argument, &settings->block, diag);
  } else if (!strcmp(name, "scale") && argument) {
    NABLA_TRY(tool_find_value("unknown scale type", cli_scales, argument,
                              &index, diag));
    settings->has_scale = 1;
    settings->scale = (nabla_scale_type)index;
  } else if (!strcmp(name, "blocks") && argument) {
    NABLA_TRY(
        tool_find_value("unknown blocks", cli_runs, argument, &index, diag));
    settings->leading = index == 1;
  } else {
    *known = 0;
  }
  return NABLA_OK;
}

/* The settings of a rule, separated by ':'; cut in place. */
static nabla_status set_settings(char *text, nabla_settings *out,
                                 nabla_diag *diag) {
  while (text) {
    int known;
    char *next = strchr(text, ':');
    if (next) *next++ = '\0';
    char *argument = strchr(text, '=');
    if (argument) *argument = '\0';
    NABLA_TRY(
        set_setting(out, text, argument ? argument + 1 : NULL, &known, diag));
    if (argument) *argument = '=';
    if (!known) return fail_setting(text, diag);
    text = next;
  }
  return NABLA_OK;
}

/* What stands behind "=ENCODING," with its comma, or NULL. */
static const char *find_comma(const char *text) {
  const char *value;
  size_t length;
  for (; (text = strchr(text, '=')) != NULL; text++)
    for (size_t k = 0; tool_value(cli_encodings, k, &value, &length); k++)
      if (!strncasecmp(text + 1, value, length) && text[1 + length] == ',')
        return text + 1 + length;
  return NULL;
}

static nabla_status fail_rule(char *argument, nabla_diag *diag) {
  const char *comma = find_comma(argument);
  if (comma) return fail_setting(comma + 1, diag);
  char *end = strstr(argument, ":block=");
  if (end) *end = '\0';
  char *equals = strrchr(argument, '=');
  const nabla_encoding *ignored;
  if (equals && equals[1]) return set_encoding(equals + 1, &ignored, diag);
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "rule '%s' does not say which encoding", argument);
  nabla_diag_set_next(diag, "write --rule 'REGEX=ENCODING[:SETTING...]'");
  return status;
}

static nabla_status add_rule(cli_options *options, char *argument,
                             nabla_diag *diag) {
  nabla_quantize_rule rule = {.pattern = argument};
  if (options->quantize.rule_count == NABLA_MAX_PATTERNS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--rule is given more than %u times", NABLA_MAX_PATTERNS);
  char *split = find_split(argument);
  if (!split) return fail_rule(argument, diag);
  *split = '\0';
  char *suffix = strchr(split + 1, ':');
  if (suffix) {
    *suffix++ = '\0';
    NABLA_TRY(set_settings(suffix, &rule.settings, diag));
  }
  NABLA_TRY(set_encoding(split + 1, &rule.encoding, diag));
  if (suffix && !rule.encoding) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "rule '%s' keeps tensors as they are: it has no settings", argument);
    nabla_diag_set_next(diag, "leave ':%s' out", suffix);
    return status;
  }
  options->rules[options->quantize.rule_count++] = rule;
  return NABLA_OK;
}

static nabla_status set_output(cli_options *options, const char *argument,
                               nabla_diag *diag) {
  nabla_status status = NABLA_OK;
  if (options->output) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT, "two outputs are named");
  } else if (!*argument) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the output is empty");
  } else if (!strcmp(argument, "-")) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "'-' (standard output) cannot be written: the output "
                        "needs random access");
    nabla_diag_set_next(diag, "name a file");
  }
  if (!status) options->output = argument;
  return status;
}

static nabla_status set_tolerance(const char *argument, double *out,
                                  nabla_diag *diag) {
  char *end;
  double value = strtod(argument, &end);
  if (end == argument || *end || !isfinite(value) || value < 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--tolerance '%s' is not a number >= 0", argument);
  *out = value;
  return NABLA_OK;
}

/* "2/3" */
static nabla_status set_part(cli_options *o, char *argument, nabla_diag *diag) {
  uint64_t part, parts;
  char *slash = strchr(argument, '/');
  if (slash) *slash = '\0';
  const int is_good = slash && read_number(argument, &part) &&
                      read_number(slash + 1, &parts) && part >= 1 &&
                      part <= parts && parts <= NABLA_MAX_OUTPUT_PARTS;
  if (slash) *slash = '/';
  if (!is_good)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "'%s' is no part I/N, with I from 1 to N and N up to %u",
                      argument, NABLA_MAX_OUTPUT_PARTS);
  o->part = (uint32_t)part;
  o->parts = (uint32_t)parts;
  return NABLA_OK;
}

/* Launchers tell their processes which of how many they are. */
nabla_status cli_find_part(cli_options *o, nabla_diag *diag) {
  static const char *const names[][2] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"}};
  for (size_t i = 0; i < 2 && !o->parts; i++) {
    uint64_t rank, ranks;
    const char *of_rank = getenv(names[i][0]), *of_ranks = getenv(names[i][1]);
    if (!of_rank || !of_ranks) continue;
    if (!read_number(of_rank, &rank) || !read_number(of_ranks, &ranks) ||
        rank >= ranks || ranks > NABLA_MAX_OUTPUT_PARTS) {
      const nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     "the environment has %s=%.20s and %s=%.20s", names[i][0],
                     of_rank, names[i][1], of_ranks);
      nabla_diag_set_next(diag, "correct it, or say --part 1/1");
      return status;
    }
    o->part = (uint32_t)rank + 1;
    o->parts = (uint32_t)ranks;
  }
  return NABLA_OK;
}

static nabla_status set_choice(cli_options *o, cli_option_id id,
                               const char *argument, nabla_diag *diag) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                       NABLA_DTYPE_BF16};
  size_t index;
  NABLA_TRY(tool_find_value("unknown value", cli_option_rows[id].values,
                            argument, &index, diag));
  if (id == CLI_OPTION_layout)
    o->quantize.layout = (nabla_layout_choice)index;
  else if (id == CLI_OPTION_preset)
    o->preset = index;
  else if (id == CLI_OPTION_nonfinite)
    o->quantize.nonfinite = (nabla_nonfinite_policy)index;
  else if (id == CLI_OPTION_isa)
    o->quantize.isa = (nabla_isa)index;
  else if (id == CLI_OPTION_dtype)
    o->dtype = dtypes[index];
  else if (id == CLI_OPTION_progress)
    o->progress = (cli_progress_mode)index;
  else if (id == CLI_OPTION_color)
    o->color = (cli_when)index;
  return NABLA_OK;
}

nabla_status cli_set_option(void *self, size_t id, char *argument,
                            nabla_diag *diag) {
  cli_options *o = self;
  uint64_t number = 0;
  int known;
  switch ((cli_option_id)id) {
    case CLI_OPTION_output:
      return set_output(o, argument, diag);
    case CLI_OPTION_encoding:
      return set_encoding(argument, &o->quantize.encoding, diag);
    case CLI_OPTION_block:
    case CLI_OPTION_scale:
    case CLI_OPTION_zero_point:
    case CLI_OPTION_blocks:
    case CLI_OPTION_search:
      return set_setting(&o->quantize.settings, cli_option_rows[id].name,
                         argument, &known, diag);
    case CLI_OPTION_importance:
      return o->importance = argument, NABLA_OK;
    case CLI_OPTION_only:
      return add_pattern("only", argument, o->only, &o->quantize.only_count,
                         diag);
    case CLI_OPTION_skip:
      return add_pattern("skip", argument, o->skip, &o->quantize.skip_count,
                         diag);
    case CLI_OPTION_rule:
      return add_rule(o, argument, diag);
    case CLI_OPTION_tensor:
      return o->tensor = argument, NABLA_OK;
    case CLI_OPTION_tolerance:
      return set_tolerance(argument, &o->tolerance, diag);
    case CLI_OPTION_part:
      return set_part(o, argument, diag);
    case CLI_OPTION_threads:
      NABLA_TRY(tool_number("threads", argument, 0, NABLA_POOL_MAX_THREADS,
                            &number, diag));
      return o->threads = (uint32_t)number, NABLA_OK;
    default:
      break;
  }
  if (!argument) return NABLA_OK; /* a switch: cli_given() tells */
  return set_choice(o, (cli_option_id)id, argument, diag);
}
