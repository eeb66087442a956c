/* What the files of nabla-quant share. The tool is thin: it parses, calls the
 * library and prints. */
#ifndef NABLA_TOOLS_CLI_H
#define NABLA_TOOLS_CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/json/json.h"
#include "lib/base/memory.h"
#include "nabla/checkpoint.h"
#include "nabla/environment.h"
#include "nabla/folder.h"
#include "nabla/quantize.h"
#include "tools/common/options.h"

/* ---- tables.c: verbs.def, options.def ---- */

typedef enum cli_verb_id {
#define VERB(id, operands, min, max, summary, description) CLI_VERB_##id,
#include "tools/nabla-quant/verbs.def"
#undef VERB
  CLI_VERB_COUNT
} cli_verb_id;

typedef enum cli_option_id {
#define OPTION(id, ...) CLI_OPTION_##id,
#include "tools/nabla-quant/options.def"
#undef OPTION
  CLI_OPTION_COUNT
} cli_option_id;

/* Lists of values (tools/common/options.h). */
extern const char cli_encodings[], cli_blocks[], cli_scales[], cli_runs[];

extern const tool_verb cli_verbs[CLI_VERB_COUNT];
extern const tool_option cli_option_rows[CLI_OPTION_COUNT];

/* The tool, but for `set` and `self`. */
extern const tool cli_tool;

/* ---- options.c, values.c ---- */

typedef enum cli_when { CLI_AUTO, CLI_ALWAYS, CLI_NEVER } cli_when;
typedef enum cli_progress_mode {
  CLI_PROGRESS_AUTO,
  CLI_PROGRESS_BAR,
  CLI_PROGRESS_JSON,
  CLI_PROGRESS_NONE
} cli_progress_mode;

/* Strings point into argv. */
typedef struct cli_options {
  cli_verb_id verb; /* CLI_VERB_COUNT: none given (help or version) */
  uint64_t given;   /* bit 1 << cli_option_id */
  const char *output, *tensor, *importance;
  nabla_quantize_options quantize; /* only, skip and rules point below */
  const char *only[NABLA_MAX_PATTERNS], *skip[NABLA_MAX_PATTERNS];
  nabla_quantize_rule rules[NABLA_MAX_PATTERNS];
  nabla_dtype dtype;
  size_t preset; /* row of presets.def */
  double tolerance;
  uint32_t threads;
  uint32_t part, parts; /* 0: the whole output */
  cli_progress_mode progress;
  cli_when color;
  char *const *operands;
  size_t operand_count;
} cli_options;

/* ---- presets.c ---- */

/* Sets what --preset says and no other option. */
void cli_preset_apply(cli_options *options);

/* Reads the command line. On NABLA_INVALID_ARGUMENT `line` and out->verb are
 * what was understood. */
NABLA_MUST_USE nabla_status cli_parse(int argc, char **argv, cli_options *out,
                                      tool_line *line, nabla_diag *diag);
int cli_given(const cli_options *options, cli_option_id id);

/* Sets what option `id` says in `self`, the cli_options. `argument` may be cut
 * in place (--rule). */
NABLA_MUST_USE nabla_status cli_set_option(void *self, size_t id,
                                           char *argument, nabla_diag *diag);

/* Sets which part of the output this process makes, unless --part has said it:
 * under mpirun its rank's.
 * @return NABLA_INVALID_ARGUMENT if the environment makes no sense */
NABLA_MUST_USE nabla_status cli_find_part(cli_options *options,
                                          nabla_diag *diag);

/* ---- the run ---- */

typedef struct cli_progress {
  cli_progress_mode mode; /* BAR, JSON or NONE */
  const char *verb;
  double started, shown; /* seconds, monotonic; shown < 0: never */
  int on_screen;
  nabla_progress last;
} cli_progress;

typedef struct cli {
  cli_options options;
  nabla_json_out json;
  int json_begun;
  cli_progress progress;
  nabla_pool *pool;
  nabla_environment environment;
  int colored_out, colored_error;
  int error_shown; /* the failure that a verb returns is already on screen */
  int written;     /* the output is complete and has its name              */
  int write_error; /* errno of the first write of JSON that failed, or 0   */
  /* Of a verb that worked: OK, DIFFERENT, and of verify UNSUPPORTED. */
  int exit;
} cli;

/* One per verb. With --json it leaves the writer inside the top-level object
 * (whose "schema" and "verb" it has begun with cli_json_begin) also when it
 * fails, or has not begun it. */
#define VERB(id, operands, min, max, summary, description) \
  NABLA_MUST_USE nabla_status cli_run_##id(cli *c, nabla_diag *diag);
#include "tools/nabla-quant/verbs.def"
#undef VERB

/* Starts the worker threads that --threads asks for. */
NABLA_MUST_USE nabla_status cli_start_pool(cli *c, nabla_diag *diag);
uint32_t cli_threads(const cli *c);

/* Opens operand `index`. */
NABLA_MUST_USE nabla_status cli_open(cli *c, size_t index,
                                     nabla_checkpoint **out, nabla_diag *diag);

/* Opens what --importance names; *out NULL without it. */
NABLA_MUST_USE nabla_status cli_open_importance(cli *c, nabla_checkpoint **out,
                                                nabla_diag *diag);

/* ---- progress.c ---- */

void cli_progress_begin(cli *c);
int cli_progress_report(void *self, const nabla_progress *progress);
/* Takes the bar off the screen, so that other text may follow. */
void cli_progress_clear(cli *c);
void cli_progress_end(cli *c, nabla_status status);

/* ---- json_stream.c ---- */

void cli_json_begin(cli *c);
void cli_json_text(nabla_json_out *out, const char *key, const char *value);
void cli_json_name(nabla_json_out *out, const char *key, const char *text,
                   size_t length);
void cli_json_number(nabla_json_out *out, const char *key, uint64_t value);
void cli_json_real(nabla_json_out *out, const char *key, double value);
void cli_json_flag(nabla_json_out *out, const char *key, int value);
void cli_json_none(nabla_json_out *out, const char *key);
void cli_json_shape(nabla_json_out *out, const nabla_tensor *tensor);
/* "encoding", "block", "scale", "zero_point" and "blocks" of a packed format;
 * nulls when encoding is NULL. */
void cli_json_format(nabla_json_out *out, const nabla_format *format);
/* Begins the document, with "help" of the verb, or of all. */
void cli_json_about(cli *c, const tool_line *line);
/* The members of an error object: status, file, tensor, offset, what, next. */
void cli_json_diag(nabla_json_out *out, const nabla_diag *diag);
/* Ends the document, with "error" when `status` is not NABLA_OK. */
NABLA_MUST_USE nabla_status cli_json_end(cli *c, nabla_status status,
                                         int exit_code, const nabla_diag *why,
                                         nabla_diag *diag);
/* A writer to a stdio stream. */
nabla_json_out cli_json_to(FILE *stream);

/* ---- print.c ---- */

#define CLI_SIZE_TEXT  24
#define CLI_SHAPE_TEXT 800

/* "512 B", "1.50 KiB", ... */
void cli_size_text(uint64_t bytes, char out[CLI_SIZE_TEXT]);
/* "[2, 3]"; "[]" for rank 0. */
void cli_shape_text(const nabla_tensor *tensor, char out[CLI_SHAPE_TEXT]);
/* "nf4/64", "int8/row", "int4/32:f16:zero-point", "keep". */
void cli_format_text(const nabla_format *format, char out[64]);
/* Notes and errors of one kind that are shown before the rest is counted;
 * --verbose shows all. */
#define CLI_MOST_SHOWN 10
/* What to do about a tensor that this version cannot decode. */
#define CLI_DECODE_ELSEWHERE \
  "dequantize it first with what packed it (such as bitsandbytes)"
/* "s" where English wants it. */
const char *cli_plural(uint64_t count);
/* Prints a name from a file, control bytes as \xNN. What may hold texts of a
 * file or of the user reaches a terminal only through these two, cli_note,
 * cli_error and the cells of tables, which all escape. */
void cli_print_name(FILE *out, const char *name, size_t length);
void cli_print_text(FILE *out, const char *text);
/* A note or warning on standard error; silent with -q. */
void cli_note(cli *c, const char *format, ...) NABLA_PRINTF(2, 3);
/* An error on standard error. */
void cli_error(cli *c, const nabla_diag *diag);

/* An escaped character of 4 bytes, and a NUL. */
#define CLI_ESCAPED 17
/* Escapes the first character of `name` into `out`.
 * @return the bytes that it has in `name` */
size_t cli_escape(const char *name, size_t length, char out[CLI_ESCAPED]);

/* ---- table.c ---- */

#define CLI_TABLE_MAX_COLUMNS 12

typedef struct cli_column {
  size_t width;        /* code points of the widest cell, and of the head */
  size_t longest;      /* bytes of the longest cell                       */
  size_t last, length; /* where the text of the last cell lies            */
  double value;        /* of the last cell, when it is a number           */
  int has_text, has_value;
} cli_column;

/* A table that is printed when its widths are known. Columns whose head
 * starts with '>' are right-aligned. */
typedef struct cli_table {
  const char *const *heads;
  size_t columns, next;
  cli_column column[CLI_TABLE_MAX_COLUMNS];
  nabla_buffer cells;
  nabla_status status;
  nabla_diag *diag;
} cli_table;

void cli_table_init(cli_table *table, const char *const *heads, size_t columns,
                    nabla_diag *diag);
/* Each adds the next cell. Texts are escaped, as cli_print_name does it. */
void cli_table_name(cli_table *table, const char *name, size_t length);
void cli_table_text(cli_table *table, const char *text);
void cli_table_cell(cli_table *table, const char *format, ...)
    NABLA_PRINTF(2, 3);
/* A number as %.DIGITSf or %.DIGITSg, by `conversion`. */
void cli_table_real(cli_table *table, char conversion, int digits,
                    double value);
void cli_table_drop(cli_table *table); /* frees without printing */
/* Prints and frees. @return the first failure of any cell */
NABLA_MUST_USE nabla_status cli_table_print(cli_table *table, int colored);

/* ---- plan_output.c: shared by plan and quantize ---- */

NABLA_MUST_USE nabla_status cli_plan_print(cli *c,
                                           const nabla_checkpoint *checkpoint,
                                           const nabla_plan *plan,
                                           nabla_diag *diag);
NABLA_MUST_USE nabla_status cli_plan_print_groups(cli *c,
                                                  const nabla_plan *plan,
                                                  nabla_diag *diag);
/* "tensors" and "totals"; free_bytes is null when it is not known. `folder`
 * may be NULL, here and below.
 * @return NABLA_OK, or NABLA_NO_MEMORY: "tensors" ends where the memory did */
NABLA_MUST_USE nabla_status cli_plan_json(cli *c,
                                          const nabla_checkpoint *checkpoint,
                                          const nabla_plan *plan,
                                          const nabla_folder *folder,
                                          nabla_diag *diag);
void cli_plan_totals_line(const nabla_plan *plan);

/* ---- plan_kernels.c ---- */

/* Elements of a row: of all dimensions but the first. */
uint64_t cli_row_length(const nabla_tensor *tensor);
/* The nearest format with a kernel made ahead of time, as text; 0: none. */
int cli_nearest_kernel(const nabla_format *format, uint64_t k, char out[64]);
/* How many of the packed tensors have such kernels, and which have not. */
void cli_plan_kernels_line(const nabla_checkpoint *checkpoint,
                           const nabla_plan *plan);

/* ---- plan_output.c again ---- */

/* "summary" or the last line of a writing verb. */
void cli_summary_json(cli *c, const nabla_write_summary *summary);
void cli_summary_line(cli *c, const nabla_write_summary *summary);

/* ---- print_folder.c: shared by plan, quantize and dequantize ---- */

/* The files beside the weights, when the output is a folder; else NULL. */
NABLA_MUST_USE nabla_status cli_folder_open(cli *c,
                                            const nabla_checkpoint *checkpoint,
                                            const nabla_plan *plan,
                                            nabla_folder **out,
                                            nabla_diag *diag);
NABLA_MUST_USE nabla_status cli_folder_print(cli *c, const nabla_folder *folder,
                                             nabla_diag *diag);
/* How many are copied (`done`: were) and what config.json says. */
void cli_folder_line(const nabla_folder *folder, int done);
/* Tells what is left out, and when transformers cannot load the result. */
void cli_folder_notes(cli *c, const nabla_folder *folder);
void cli_folder_json(cli *c, const nabla_folder *folder); /* "folder" */

/* ---- warn.c ---- */

/* Warns of what is probably not meant: nothing quantized, patterns without
 * effect, an output that exists or has less room than the plan needs. */
void cli_plan_warn(cli *c, const nabla_checkpoint *checkpoint,
                   const nabla_plan *plan, const nabla_folder *folder);
/* Says whether an output of that name is one file. */
int cli_is_file_name(const char *path);
/* Free bytes where `path` would be written; 0 when that is not known. */
int cli_free_space(const char *path, uint64_t *out);
/* Tells of files in an input folder that one written file lacks. */
void cli_note_leftovers(cli *c, const nabla_checkpoint *checkpoint);

#endif
