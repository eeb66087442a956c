/* nabla-opt: mlir-opt with the nabla dialect, its passes and pipelines, and the
 * options of options.def. Unlike mlir-opt's, an output file appears whole or
 * not at all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/dialect.h"
#include "lib/base/file/file.h"
#include "lib/base/nesting.h"
#include "lib/base/thread.h"
#include "tools/common/stream.h"
#include "tools/common/tool.h"
#include "tools/nabla-opt/bytecode.h"
#include "tools/nabla-opt/tables.h"
#include "transforms/user_rules/user_rules.h"

#define OUTPUT_LIMIT (SIZE_MAX / 2)
#define TEXT_LIMIT   ((size_t)1 << 30) /* of what bytecode says */

typedef struct program {
  nablaOpt opt;
  int allows_bytecode;
  MlirStringRef text;
  nabla_buffer output;
  int failed; /* what MLIR says of it was said */
} program;

/* ---- options ---- */

static nabla_status set(void *self, size_t index, char *argument,
                        nabla_diag *diag) {
  program *p = self;
  if (index == OPT_OPTION_allow_bytecode)
    p->allows_bytecode = 1;
  else if (!nabla_rule_files_add(argument))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--rules takes the name of a file, at most %d times",
                      NABLA_RULE_FILES_MAX);
  return NABLA_OK;
}

/* Takes the tool's own options out of the arguments, and shows them in front of
 * MLIR's where help is asked for. @return an exit code, or -1 */
static int take_options(program *p, int *argc, char **argv) {
  tool t = opt_tool;
  t.set = set;
  t.self = p;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (tool_take(&t, argc, argv, &diag)) {
    tool_error(&t, &diag);
    return TOOL_EXIT_USAGE;
  }
  tool_line line = {0};
  for (int i = 1; i < *argc; i++) {
    if (!strcmp(argv[i], "--help")) line.about = TOOL_ABOUT_HELP;
    if (!strcmp(argv[i], "--json")) line.json = 1;
  }
  if (!line.about) return -1;
  if (line.json) return tool_finish_about(&t, &line);
  tool_print_options(&t, 0, stdout);
  (void)fputc('\n', stdout);
  (void)fflush(stdout);
  return -1;
}

/* ---- the program ---- */

static nabla_status check_text(char **text, size_t *size, const program *p,
                               nabla_diag *diag) {
  nabla_status status = NABLA_OK;
  if (p->allows_bytecode && nabla_is_bytecode(*text, *size)) {
    nabla_buffer out;
    nabla_buffer_init(&out, NULL, "the text of a program", TEXT_LIMIT);
    status = opt_bytecode_to_text(
        p->opt.registry, mlirStringRefCreate(*text, *size), &out, diag);
    free(*text);
    *text = (char *)out.data; /* malloc's: the default allocator */
    *size = out.size - !status;
  }
  if (!status) status = nabla_nesting_check(*text, *size, diag);
  if (status) nabla_diag_set_file(diag, p->opt.input);
  return status;
}

/* ---- the output ---- */

static void add_chunk(MlirStringRef chunk, void *self) {
  nabla_buffer *output = self;
  if (output->limit &&
      nabla_buffer_append(output, chunk.data, chunk.length, NULL))
    output->limit = 0; /* stop */
}

/* Links are followed, as mlir-opt does. */
static nabla_status write_file(const char *path, const nabla_buffer *text,
                               nabla_diag *diag) {
  const nabla_output_options options = {.force = 1};
  nabla_output *output = NULL;
  char *target = realpath(path, NULL);
  nabla_status status =
      nabla_output_create(target ? target : path, &options, &output, diag);
  free(target);
  if (!status)
    status = nabla_output_write(output, 0, text->data, text->size, diag);
  if (!status) status = nabla_output_commit(output, diag);
  nabla_output_destroy(output);
  return status;
}

/* A stream gets what was made before an error, a file does not. */
static nabla_status write_output(program *p, nabla_diag *diag) {
  const char *path = p->opt.output;
  const nabla_buffer *text = &p->output;
  tool_begin(); /* LLVM has handlers of its own by now */
  if (!text->limit)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for the output");
  if (!strcmp(path, "-")) path = "/dev/stdout";
  if (!tool_is_stream(path))
    return p->failed ? NABLA_OK : write_file(path, text, diag);
  const struct iovec part = {text->data, text->size};
  return tool_stream_write(path, &part, 1, diag);
}

/* ---- running ---- */

static void run_passes(void *self) {
  program *p = self;
  p->failed = !nablaOptRun(&p->opt, p->text, add_chunk, &p->output);
}

/* MLIR's own threads get the same stack. */
static nabla_status run_aside(program *p, nabla_diag *diag) {
  pthread_attr_t attributes;
  if (!pthread_attr_init(&attributes)) {
    (void)pthread_attr_setstacksize(&attributes, NABLA_STACK_BYTES);
    (void)pthread_setattr_default_np(&attributes);
    (void)pthread_attr_destroy(&attributes);
  }
  return nabla_stack_run(run_passes, p, diag);
}

static nabla_status run(program *p, nabla_diag *diag) {
  char *text = NULL;
  size_t size = 0;
  NABLA_TRY(tool_read(p->opt.input, &text, &size, diag));
  if (!strcmp(p->opt.input, "-")) p->opt.input = "<stdin>";
  nabla_status status = check_text(&text, &size, p, diag);
  if (!status) {
    p->text = mlirStringRefCreate(text, size);
    nabla_buffer_init(&p->output, NULL, "the output", OUTPUT_LIMIT);
    status = run_aside(p, diag);
    if (!status) status = write_output(p, diag);
    nabla_buffer_deinit(&p->output);
  }
  free(text);
  return status;
}

int main(int argc, char **argv) {
  program p = {.opt = {.title = "Nabla optimizer\n"}};
  tool_begin();
  int code = take_options(&p, &argc, argv);
  if (code >= 0) return code;
  p.opt.argc = argc;
  p.opt.argv = argv;
  p.opt.registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(p.opt.registry);
  code = nablaOptBegin(&p.opt);
  if (code < 0) {
    nabla_diag diag = NABLA_DIAG_INIT;
    const nabla_status status = run(&p, &diag);
    char message[sizeof diag + 64];
    if (status) {
      nabla_diag_format(&diag, message, sizeof message);
      fprintf(stderr, "nabla-opt: %s\n", message);
    }
    code = status || p.failed;
  }
  mlirDialectRegistryDestroy(p.opt.registry);
  return code;
}
