/* The program that is run: compiled here, or a saved one that is opened. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nabla-run/run.h"

/* By its name or by its first bytes: both, so that a damaged one is called
 * damaged. Errors are those of whoever reads it then. A pipe is left alone:
 * what is read of it here would be lost. */
int run_is_saved(const char *path) {
  char start[4];
  struct stat info;
  if (!strcmp(path, "-")) return 0;
  if (tool_has_suffix(path, ".so")) return 1;
  if (stat(path, &info) || !S_ISREG(info.st_mode)) return 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, start, sizeof start);
  close(fd);
  return got == (ssize_t)sizeof start && !memcmp(start, "\177ELF", 4);
}

/* What was decided when it was saved. */
static nabla_status check_options(const run_settings *s, nabla_diag *diag) {
  tool_compile compile = s->compile;
  compile.options.profile = NULL; /* asks for what the program measures */
  const nabla_compile_option *given = tool_given_compile_option(&compile);
  const char *flag = given ? given->flag : s->cache ? "cache" : NULL;
  if (!flag) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "--%s is for programs that are compiled; a saved one is as "
                 "it is",
                 flag);
  nabla_diag_set_next(diag, "give it to nabla-compile, or leave it out");
  return status;
}

static nabla_status open_saved(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  NABLA_TRY(check_options(s, diag));
  const double start = run_milliseconds();
  NABLA_TRY(
      nabla_executable_open(s->program, &r->environment, &r->executable, diag));
  r->open_ms = run_milliseconds() - start;
  return NABLA_OK;
}

#if NABLA_RUN_COMPILES
static nabla_status compile(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  nabla_compiler_options options = {.struct_size = sizeof options,
                                    .cache = s->cache,
                                    .diagnostic = tool_diagnostic};
  char *text;
  size_t size;
  NABLA_TRY(tool_read(s->program, &text, &size, diag));
  nabla_status status =
      nabla_compiler_create(&options, &r->environment, &r->compiler, diag);
  if (!status) {
    status =
        nabla_compile_text(r->compiler, text, size,
                           strcmp(s->program, "-") ? s->program : "<stdin>",
                           &s->compile.options, &r->executable, diag);
    r->program_failed = status == NABLA_CORRUPT;
    r->compiled = nabla_compiler_last_report(r->compiler);
  }
  free(text);
  return status;
}

void run_release_program(run *r) {
  nabla_executable_close(r->executable);
  nabla_compiler_destroy(r->compiler);
}
#else
static nabla_status compile(run *r, nabla_diag *diag) {
  const nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "this nabla-run was built without the compiler and runs saved programs");
  nabla_diag_set_file(diag, r->settings->program);
  nabla_diag_set_next(diag,
                      "save it where there is one: nabla-compile PROGRAM.mlir "
                      "-o PROGRAM.so");
  return status;
}

void run_release_program(run *r) { nabla_executable_close(r->executable); }
#endif

nabla_status run_open_program(run *r, nabla_diag *diag) {
  r->is_saved = run_is_saved(r->settings->program);
  return r->is_saved ? open_saved(r, diag) : compile(r, diag);
}
