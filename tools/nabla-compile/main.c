/* nabla-compile: from a program in the nabla dialect to an object or a saved
 * program, or to any form on the way. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "nabla/compiler.h"
#include "tools/common/compile_options.h"
#include "tools/common/stream.h"
#include "tools/common/tool.h"
#include "tools/nabla-compile/tables.h"

/* Suffixes of outputs. */
static const struct {
  const char *suffix;
  nabla_emission emission;
} suffixes[] = {
    {".mlir", NABLA_EMIT_MLIR}, {".ll", NABLA_EMIT_LLVM},
    {".s", NABLA_EMIT_ASM},     {".o", NABLA_EMIT_OBJ},
    {".so", NABLA_EMIT_SO},
};

typedef struct settings {
  const char *output, *header;
  int has_emission; /* --emit was given */
  nabla_emission emission;
  tool_compile compile;
} settings;

static nabla_status set(void *self, size_t index, char *argument,
                        nabla_diag *diag) {
  settings *s = self;
  switch (index) {
    case COMPILE_OPTION_output:
      if (s->output || !*argument)
        return nabla_fail(
            diag, NABLA_INVALID_ARGUMENT,
            s->output ? "two outputs are named" : "the output is empty");
      s->output = argument;
      break;
    case COMPILE_OPTION_emit: /* in the order of nabla_emission */
      s->has_emission = 1;
      s->emission = !strcmp(argument, "mlir")   ? NABLA_EMIT_MLIR
                    : !strcmp(argument, "llvm") ? NABLA_EMIT_LLVM
                    : !strcmp(argument, "asm")  ? NABLA_EMIT_ASM
                    : !strcmp(argument, "so")   ? NABLA_EMIT_SO
                                                : NABLA_EMIT_OBJ;
      break;
    case COMPILE_OPTION_header:
      s->header = argument;
      break;
    default:
      return tool_set_compile_option(&s->compile, &compile_option_rows[index],
                                     argument, diag);
  }
  return NABLA_OK;
}

static void choose_by_suffix(settings *s) {
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (tool_has_suffix(s->output, suffixes[i].suffix))
      s->emission = suffixes[i].emission;
}

static nabla_status collect(void *self, const void *data, size_t size,
                            nabla_diag *diag) {
  return nabla_buffer_append(self, data, size, diag);
}

static nabla_status write_file(const char *path, const nabla_buffer *result,
                               nabla_diag *diag) {
  nabla_output_options options = {.force = 1};
  nabla_output *output;
  if (tool_is_stream(path)) {
    const struct iovec part = {result->data, result->size};
    return tool_stream_write(path, &part, 1, diag);
  }
  NABLA_TRY(nabla_output_create(path, &options, &output, diag));
  nabla_status status =
      nabla_output_write(output, 0, result->data, result->size, diag);
  if (!status) status = nabla_output_commit(output, diag);
  nabla_output_destroy(output);
  return status;
}

static int to_stdout(const settings *s) {
  return !s->output || !strcmp(s->output, "-");
}

/* What is not for people to read. */
static int is_binary(nabla_emission emission) {
  return emission == NABLA_EMIT_OBJ || emission == NABLA_EMIT_SO;
}

#define MOST_NAME 256

/* "linear" of "out/linear.h". */
static void read_prefix(const char *header, char out[MOST_NAME]) {
  const char *slash = strrchr(header, '/');
  (void)snprintf(out, MOST_NAME, "%s", slash ? slash + 1 : header);
  out[strcspn(out, ".")] = 0;
}

static nabla_status check_header(const settings *s, const tool_line *line,
                                 nabla_diag *diag) {
  if (!s->header) return NABLA_OK;
  NABLA_TRY(tool_check_output(s->header, diag));
  if (s->emission != NABLA_EMIT_OBJ || to_stdout(s)) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "--header goes with an object in a file");
    nabla_diag_set_next(diag, "add -o OUT.o");
    return status;
  }
  if (tool_same_file(s->header, line->operands[0]))
    return tool_fail_input(s->header, diag);
  if (tool_same_file(s->header, s->output))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the header and the object are one file");
  return NABLA_OK;
}

static nabla_status check_line(const settings *s, const tool_line *line,
                               nabla_diag *diag) {
  if (line->operand_count != 1)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      line->operand_count ? "more than one program is named"
                                          : "a program is missing");
  if (!to_stdout(s) && tool_same_file(s->output, line->operands[0]))
    return tool_fail_input(s->output, diag);
  NABLA_TRY(check_header(s, line, diag));
  if (to_stdout(s) && is_binary(s->emission) && isatty(STDOUT_FILENO)) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "an object is nothing for a terminal");
    nabla_diag_set_next(diag, "name a file with -o OUT, or --emit asm");
    return status;
  }
  return NABLA_OK;
}

/* What is made, before any of it is written. */
typedef struct made {
  nabla_buffer result, header;
} made;

static nabla_status emit(const settings *s, nabla_compiler *compiler,
                         const char *path, made *out, nabla_diag *diag) {
  char *text;
  size_t size;
  char prefix[MOST_NAME];
  NABLA_TRY(tool_read(path, &text, &size, diag));
  const char *name = strcmp(path, "-") ? path : "<stdin>";
  const nabla_sink sink = {collect, &out->result};
  nabla_status status;
  if (s->header) {
    read_prefix(s->header, prefix);
    const nabla_static_sinks sinks = {.struct_size = sizeof sinks,
                                      .object = sink,
                                      .header = {collect, &out->header},
                                      .prefix = prefix};
    status = nabla_emit_static(compiler, text, size, name, &s->compile.options,
                               &sinks, diag);
  } else {
    status = nabla_emit_text(compiler, text, size, name, &s->compile.options,
                             s->emission, &sink, diag);
  }
  free(text);
  return status;
}

static nabla_status write_made(const settings *s, const made *m,
                               nabla_diag *diag) {
  if (to_stdout(s)) return write_file("/dev/stdout", &m->result, diag);
  if (s->header) NABLA_TRY(write_file(s->header, &m->header, diag));
  return write_file(s->output, &m->result, diag);
}

/* `*out_failed`: it is the program that is wrong. */
static nabla_status run(const settings *s, const char *path, int *out_failed,
                        nabla_diag *diag) {
  nabla_compiler_options options = {.struct_size = sizeof options,
                                    .cache = "",
                                    .diagnostic = tool_diagnostic};
  nabla_compiler *compiler;
  made m;
  NABLA_TRY(nabla_compiler_create(&options, NULL, &compiler, diag));
  nabla_buffer_init(&m.result, NULL, "the result", (size_t)1 << 32);
  nabla_buffer_init(&m.header, NULL, "the header", (size_t)1 << 32);
  nabla_status status = emit(s, compiler, path, &m, diag);
  *out_failed = status == NABLA_CORRUPT;
  if (!status) status = write_made(s, &m, diag);
  nabla_buffer_deinit(&m.header);
  nabla_buffer_deinit(&m.result);
  nabla_compiler_destroy(compiler);
  return status;
}

int main(int argc, char **argv) {
  tool_begin();
  settings s = {.emission = NABLA_EMIT_OBJ,
                .compile.options.struct_size = sizeof s.compile.options};
  nabla_diag diag = NABLA_DIAG_INIT;
  tool_line line;
  int failed = 0;
  tool t = compile_tool;
  t.set = set;
  t.self = &s;
  nabla_status status = tool_parse(&t, argc, argv, &line, &diag);
  if (!status && line.about) return tool_finish_about(&t, &line);
  if (!s.has_emission && s.output) choose_by_suffix(&s);
  if (!status) status = check_line(&s, &line, &diag);
  if (status) return tool_fail_line(&t, &line, &diag);
  status = run(&s, line.operands[0], &failed, &diag);
  if (!status) return tool_finish(&t, TOOL_EXIT_OK);
  tool_error(&t, &diag);
  return failed ? TOOL_EXIT_FAILED : tool_exit_of_status(status);
}
