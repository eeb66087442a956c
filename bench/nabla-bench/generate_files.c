/* Files of the verb generate; see generate_files.h. */
#include "bench/nabla-bench/generate_files.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/nabla-bench/peer.h"

static nabla_status fail_path(const char *path, const char *what,
                              nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "%s: %s", what, strerror(errno));
  nabla_diag_set_file(diag, path);
  return status;
}

/* Makes a folder and those above it. */
static nabla_status make_folders(char *path, nabla_diag *diag) {
  for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
    if (at) *at = '\0';
    const int failed = mkdir(path, 0777) && errno != EEXIST;
    if (at) *at = '/';
    if (failed) return fail_path(path, "cannot be made", diag);
    if (!at) return NABLA_OK;
  }
}

/* The path of a file or folder in the folder of models, which is made. */
static nabla_status place(const char *name, char *out, size_t size,
                          nabla_diag *diag) {
  char folder[4096], models[4096 + 16];
  if (!bench_peer_folder(folder, sizeof folder))
    return nabla_fail(diag, NABLA_IO, "the peers' folder has too long a path");
  snprintf(models, sizeof models, "%s/models", folder);
  NABLA_TRY(make_folders(models, diag));
  const int length = snprintf(out, size, "%s/%s", models, name);
  if (length > 0 && (size_t)length < size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "the peers' folder has too long a path");
}

/* ---- the synthetic model ---- */

static int find_beside(const char *name, char *out, size_t size) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return 0;
  self[length] = '\0';
  char *slash = strrchr(self, '/');
  if (!slash) return 0;
  *slash = '\0';
  const int made = snprintf(out, size, "%s/%s", self, name);
  return made > 0 && (size_t)made < size && !access(out, X_OK);
}

/* Runs make_checkpoint, whose output goes nowhere. */
static nabla_status make_checkpoint(const char *program, const char *folder,
                                    nabla_diag *diag) {
  int ended = 0;
  const pid_t child = fork();
  if (child < 0) return fail_path(program, "no process", diag);
  if (!child) {
    if (!freopen("/dev/null", "w", stdout)) _exit(127);
    (void)signal(SIGPIPE, SIG_DFL);
    execl(program, program, "--llama", "--out", folder, (char *)NULL);
    _exit(127);
  }
  while (waitpid(child, &ended, 0) < 0)
    if (errno != EINTR) return fail_path(program, "no process", diag);
  if (WIFEXITED(ended) && !WEXITSTATUS(ended)) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "make_checkpoint fails");
}

nabla_status bench_files_synthetic(char *out, size_t size, nabla_diag *diag) {
  char program[4096 + 32], fresh[4096 + 64];
  NABLA_TRY(place("llama-542m", out, size, diag));
  if (!access(out, R_OK)) return NABLA_OK;
  if (!find_beside("make_checkpoint", program, sizeof program)) {
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "no make_checkpoint beside nabla-bench, which writes the "
                   "synthetic model");
    nabla_diag_set_next(diag, "name a model: --model FOLDER");
    return status;
  }
  snprintf(fresh, sizeof fresh, "%.4096s.%ld", out, (long)getpid());
  (void)fprintf(stderr, "nabla-bench: writing %s, once\n", out);
  NABLA_TRY(make_checkpoint(program, fresh, diag));
  if (rename(fresh, out) && errno != EEXIST && errno != ENOTEMPTY)
    return fail_path(out, "cannot be made", diag);
  return NABLA_OK;
}

/* ---- GGUF ---- */

/* A number for a path and the state of the file there. */
static uint64_t identify(const char *path) {
  struct stat of = {0};
  char text[4096 + 64], *real = realpath(path, NULL);
  (void)stat(path, &of);
  snprintf(text, sizeof text, "%.4095s %lld %lld", real ? real : path,
           (long long)of.st_size, (long long)of.st_mtime);
  free(real);
  uint64_t hash = UINT64_C(14695981039346656037);
  for (const char *at = text; *at; at++)
    hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
  return hash;
}

nabla_status bench_files_gguf(nabla_model *model, const char *path,
                              const char *format, char *out, size_t size,
                              nabla_diag *diag) {
  char name[64];
  const char *weights = nabla_tensor_file_borrow_path(
      nabla_checkpoint_borrow_shard(nabla_model_borrow_checkpoint(model), 0));
  snprintf(name, sizeof name, "%016" PRIx64 "-%.16s.gguf", identify(weights),
           format);
  NABLA_TRY(place(name, out, size, diag));
  if (!access(out, R_OK)) return NABLA_OK;
  const char *const arguments[4] = {path, format, out, NULL};
  bench_peer *writer;
  NABLA_TRY(bench_peer_open_program("llama.cpp", "write-gguf", arguments,
                                    &writer, diag));
  bench_peer_close(writer);
  return NABLA_OK;
}
