/* nabla-run --batch: a process that is forked for each command line, so that
 * many runs load and link the compiler's libraries once. Each run has a process
 * of its own all the same: no failure is seen by the next one. */
#include "tools/nabla-run/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)1 << 20)

typedef struct batch {
  int (*command)(int argc, char **argv);
  char *tool;    /* argv[0] of each */
  int output[2]; /* files in memory: standard output and error of a run */
  char **argv;
  nabla_diag *diag;
} batch;

static nabla_status fail_system(const batch *b, const char *what) {
  return nabla_fail(b->diag, NABLA_IO, "cannot %s: %s", what, strerror(errno));
}

/* Cuts a line at its tabs. The words are in `b->argv`, which free() takes. */
static nabla_status cut(batch *b, char *line, int *out_count) {
  size_t count = 2; /* the tool, and the word behind the last tab */
  for (const char *at = line; (at = strchr(at, '\t')); at++) count++;
  b->argv = calloc(count + 1, sizeof *b->argv);
  if (!b->argv)
    return nabla_fail(b->diag, NABLA_NO_MEMORY, "no memory for a line");
  int used = 0;
  b->argv[used++] = b->tool;
  for (char *at = *line ? line : NULL; at && (size_t)used < count;) {
    char *end = strchr(at, '\t');
    if (end) *end++ = '\0';
    b->argv[used++] = at;
    at = end;
  }
  *out_count = used;
  return NABLA_OK;
}

/* In the process of the run: it reads nothing, and what it prints is kept. */
static _Noreturn void run_child(const batch *b, int count) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
      dup2(b->output[0], STDOUT_FILENO) < 0 ||
      dup2(b->output[1], STDERR_FILENO) < 0)
    _exit(TOOL_EXIT_IO);
  exit(b->command(count, b->argv));
}

static nabla_status copy_output(const batch *b, int file, off_t size) {
  char chunk[1 << 14];
  for (off_t at = 0; at < size;) {
    const ssize_t got = pread(file, chunk, sizeof chunk, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_system(b, "read the output of a run");
    if (fwrite(chunk, 1, (size_t)got, stdout) != (size_t)got)
      return fail_system(b, "write");
    at += got;
  }
  return NABLA_OK;
}

/* "EXIT BYTES BYTES", then as many of standard output and of standard error;
 * EXIT is below zero for a signal. */
static nabla_status report(const batch *b, int status) {
  off_t sizes[2];
  for (int i = 0; i < 2; i++) {
    sizes[i] = lseek(b->output[i], 0, SEEK_END);
    if (sizes[i] < 0) return fail_system(b, "measure the output of a run");
  }
  printf("%d %lld %lld\n",
         WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
         (long long)sizes[0], (long long)sizes[1]);
  for (int i = 0; i < 2; i++) {
    NABLA_TRY(copy_output(b, b->output[i], sizes[i]));
    if (ftruncate(b->output[i], 0) || lseek(b->output[i], 0, SEEK_SET) < 0)
      return fail_system(b, "empty the output of a run");
  }
  return fflush(stdout) ? fail_system(b, "write") : NABLA_OK;
}

static nabla_status run_line(batch *b, char *line) {
  int count = 0, status = 0;
  NABLA_TRY(cut(b, line, &count));
  const pid_t child = fork();
  if (!child) run_child(b, count);
  free(b->argv);
  if (child < 0) return fail_system(b, "start a process");
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail_system(b, "wait for a process");
  return report(b, status);
}

/* Reads a line, without its end, into LINE_MAX_BYTES + 1 bytes; *out_more is
 * false at the end of the input. The last line needs no end. */
static nabla_status read_line(const batch *b, char *line, bool *out_more) {
  size_t size = 0;
  int byte;
  while ((byte = getc(stdin)) != EOF && byte != '\n') {
    if (!byte)
      return nabla_fail(b->diag, NABLA_INVALID_ARGUMENT,
                        "a line has a byte 0, after %zu others: no argument "
                        "can hold it",
                        size);
    if (size == LINE_MAX_BYTES)
      return nabla_fail(b->diag, NABLA_TOO_LARGE,
                        "a line is longer than %zu bytes", LINE_MAX_BYTES);
    line[size++] = (char)byte;
  }
  line[size] = '\0';
  *out_more = byte != EOF || size;
  return ferror(stdin) ? fail_system(b, "read a line") : NABLA_OK;
}

static nabla_status run_lines(batch *b) {
  bool more = true;
  nabla_status status = NABLA_OK;
  char *line = malloc(LINE_MAX_BYTES + 1);
  if (!line)
    return nabla_fail(b->diag, NABLA_NO_MEMORY, "no memory for a line");
  /* what is read ahead would be read again by each process */
  setvbuf(stdin, NULL, _IONBF, 0);
  while (!status && more) {
    status = read_line(b, line, &more);
    if (!status && more) status = run_line(b, line);
  }
  free(line);
  return status;
}

nabla_status run_batch(char *name, int (*command)(int argc, char **argv),
                       nabla_diag *diag) {
  batch b = {.command = command, .tool = name, .diag = diag};
  b.output[0] = memfd_create("output", MFD_CLOEXEC);
  b.output[1] = memfd_create("errors", MFD_CLOEXEC);
  const nabla_status status =
      b.output[0] < 0 || b.output[1] < 0
          ? fail_system(&b, "make files for what is printed")
          : run_lines(&b);
  for (int i = 0; i < 2; i++)
    if (b.output[i] >= 0) close(b.output[i]);
  return status;
}
