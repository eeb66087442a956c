/* The program that compiles text, nabla-run-compiler: nabla-run with LLVM,
 * made of the same sources. nabla-run has the runtime alone, so that a saved
 * program starts in a few milliseconds, and becomes the other one for all other
 * programs. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/nabla-run/run.h"

#ifdef NABLA_RUN_COMPILER /* where it is installed, from nabla-run's folder */

#define BESIDE "nabla-run-compiler" /* where it is built */

nabla_status run_copy_words(run *r, int argc, char **argv, nabla_diag *diag) {
  r->words = calloc((size_t)argc + 1, sizeof *r->words);
  for (int i = 0; r->words && i < argc; i++) {
    r->words[i] = strdup(argv[i]);
    if (!r->words[i]) break;
  }
  if (r->words && (argc < 1 || r->words[argc - 1])) return NABLA_OK;
  return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for the command line");
}

/* The folder of this program, with a '/' behind, into PATH_MAX bytes. */
static nabla_status find_folder(char *out, size_t *out_length,
                                nabla_diag *diag) {
  const ssize_t length = readlink("/proc/self/exe", out, PATH_MAX);
  if (length < 0 || length >= PATH_MAX)
    return nabla_fail(diag, NABLA_IO,
                      "cannot find nabla-run's own folder in /proc: %s",
                      length < 0 ? strerror(errno) : "the path is too long");
  out[length] = '\0';
  const char *slash = strrchr(out, '/');
  *out_length = slash ? (size_t)(slash + 1 - out) : 0;
  return NABLA_OK;
}

/* Becomes the program at `place`, if it is there. */
static nabla_status become(const run *r, char *path, size_t folder,
                           const char *place, nabla_diag *diag) {
  if (folder + strlen(place) + 1 > PATH_MAX)
    return nabla_fail(diag, NABLA_IO, "a path is too long");
  memcpy(path + folder, place, strlen(place) + 1);
  (void)execv(path, r->words);
  if (errno == ENOENT) return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_IO, "cannot start the compiler: %s", strerror(errno));
  nabla_diag_set_file(diag, path);
  return status;
}

nabla_status run_hand_over(const run *r, nabla_diag *diag) {
  char path[PATH_MAX + 1];
  size_t folder = 0;
  NABLA_TRY(find_folder(path, &folder, diag));
  NABLA_TRY(become(r, path, folder, BESIDE, diag));
  NABLA_TRY(become(r, path, folder, NABLA_RUN_COMPILER, diag));
  const nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "the program that compiles text is not installed beside nabla-run");
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag,
                      "install it, or save the program where there is a "
                      "compiler: nabla-compile PROGRAM.mlir -o PROGRAM.so");
  return status;
}

#else /* this program compiles, or there is no compiler at all */

nabla_status run_copy_words(run *r, int argc, char **argv, nabla_diag *diag) {
  (void)r, (void)argc, (void)argv, (void)diag;
  return NABLA_OK;
}

nabla_status run_hand_over(const run *r, nabla_diag *diag) {
  (void)r, (void)diag;
  return NABLA_OK;
}

#endif
