/* See bytecode.h. */
#include "tools/nabla-opt/bytecode.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_MAX 60 /* of one CPU, to read bytecode */

/* ---- the process that reads ---- */

static void add_chunk(MlirStringRef chunk, void *stream) {
  (void)!fwrite(chunk.data, 1, chunk.length, stream);
}

static int print_text(MlirDialectRegistry registry, MlirStringRef bytecode,
                      FILE *to) {
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirContextSetAllowUnregisteredDialects(context, true);
  const MlirOperation op = mlirOperationCreateParse(
      context, bytecode, mlirStringRefCreateFromCString("bytecode"));
  if (mlirOperationIsNull(op)) return 1;
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
  mlirOperationPrintWithFlags(op, flags, add_chunk, to);
  return fflush(to) || ferror(to);
}

/* What is allocated goes with the process. */
static _Noreturn void read_here(MlirDialectRegistry registry,
                                MlirStringRef bytecode, int fd) {
  const struct rlimit none = {0, 0}, time = {SECONDS_MAX, SECONDS_MAX + 1};
  (void)setrlimit(RLIMIT_CORE, &none);
  (void)setrlimit(RLIMIT_CPU, &time);
  FILE *to = fdopen(fd, "w");
  _exit(to ? print_text(registry, bytecode, to) : 1);
}

/* ---- the process that waits ---- */

static nabla_status fail_errno(const char *what, int error, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_IO, "cannot %s to read bytecode: %s", what,
                    strerror(error));
}

static nabla_status read_all(int fd, nabla_buffer *out, nabla_diag *diag) {
  static char part[1 << 16];
  for (;;) {
    const ssize_t got = read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("use a pipe", errno, diag);
    if (got == 0) return nabla_buffer_append(out, NULL, 1, diag);
    NABLA_TRY(nabla_buffer_append(out, part, (size_t)got, diag));
  }
}

static nabla_status check_end(pid_t child, nabla_diag *diag) {
  int end = 0;
  pid_t ended;
  do ended = waitpid(child, &end, 0);
  while (ended < 0 && errno == EINTR);
  if (ended < 0) return fail_errno("wait", errno, diag);
  if (WIFEXITED(end) && !WEXITSTATUS(end)) return NABLA_OK;
  const nabla_status status =
      WIFSIGNALED(end)
          ? nabla_fail(diag, NABLA_CORRUPT,
                       "MLIR's reader of bytecode ended by signal %d: it is "
                       "damaged, or nests too deep",
                       WTERMSIG(end))
          : nabla_fail(diag, NABLA_CORRUPT, "the bytecode cannot be read");
  nabla_diag_set_next(diag, "make it anew from the program's text");
  return status;
}

nabla_status opt_bytecode_to_text(MlirDialectRegistry registry,
                                  MlirStringRef bytecode, nabla_buffer *out,
                                  nabla_diag *diag) {
  int ends[2];
  (void)signal(SIGCHLD, SIG_DFL); /* ignored, there is no status to wait for */
  if (pipe(ends)) return fail_errno("make a pipe", errno, diag);
  const pid_t child = fork();
  if (child == 0) {
    (void)close(ends[0]);
    read_here(registry, bytecode, ends[1]);
  }
  const int error = child < 0 ? errno : 0;
  (void)close(ends[1]);
  nabla_status status = error ? fail_errno("start a process", error, diag)
                              : read_all(ends[0], out, diag);
  (void)close(ends[0]);
  if (error) return status;
  if (status) (void)kill(child, SIGKILL);
  const nabla_status end = check_end(child, status ? NULL : diag);
  return status ? status : end;
}
