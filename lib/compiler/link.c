/* See link.h. No shell: names and options are arguments of posix_spawn. */
#include "lib/compiler/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file.h"

extern char **environ;

#define PATH_ROOM  4096
#define PRINTED    4096 /* bytes of what a linker prints that are shown */
#define MOST_WORDS 16

/* The folder, and what lies in it. */
typedef struct work {
  int is_foreign; /* for another machine: cc would not do */
  char folder[PATH_ROOM];
  char object[PATH_ROOM + 16], library[PATH_ROOM + 16], log[PATH_ROOM + 16];
  sigset_t signals; /* as they were blocked before */
  void (*say)(const void *self, const char *text);
  const void *say_self;
} work;

/* OBJECT and LIBRARY stand for the files. Symbols are bound when the library
 * is loaded, and to its own first. */
#define OBJECT  "\1"
#define LIBRARY "\2"
static const struct {
  const char *words[MOST_WORDS];
} linkers[] = {
    {{"ld.lld-22", "-shared", "-Bsymbolic", "--build-id=none", "-z", "now",
      "-z", "noexecstack", "-o", LIBRARY, OBJECT}},
    {{"cc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,--build-id=none",
      "-Wl,-z,now", "-Wl,-z,noexecstack", "-o", LIBRARY, OBJECT}},
};

static nabla_status fail_errno(const char *what, const char *path, int error,
                               nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot %s: %s", what, strerror(error));
  nabla_diag_set_file(diag, path);
  return status;
}

/* ---- files -------------------------------------------------------------- */

static nabla_status make_folder(work *w, nabla_diag *diag) {
  const char *parent = getenv("TMPDIR");
  if (!parent || *parent != '/') parent = "/tmp";
  const int length =
      snprintf(w->folder, sizeof w->folder, "%s/nabla-link-XXXXXX", parent);
  if (length < 0 || (size_t)length >= sizeof w->folder) {
    w->folder[0] = 0;
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "TMPDIR is too long");
  }
  if (!mkdtemp(w->folder)) {
    const nabla_status status =
        fail_errno("make a temporary folder", parent, errno, diag);
    nabla_diag_set_next(diag, "set TMPDIR to a folder that can be written");
    w->folder[0] = 0;
    return status;
  }
  (void)snprintf(w->object, sizeof w->object, "%s/program.o", w->folder);
  (void)snprintf(w->library, sizeof w->library, "%s/program.so", w->folder);
  (void)snprintf(w->log, sizeof w->log, "%s/log", w->folder);
  return NABLA_OK;
}

static void remove_folder(const work *w) {
  if (!*w->folder) return;
  (void)unlink(w->object);
  (void)unlink(w->library);
  (void)unlink(w->log);
  (void)rmdir(w->folder);
}

static nabla_status write_object(const work *w, const uint8_t *data,
                                 size_t size, nabla_diag *diag) {
  const int fd = open(w->object, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return fail_errno("write", w->object, errno, diag);
  int error = 0;
  while (size && !error) {
    const ssize_t put = write(fd, data, size);
    if (put < 0 && errno != EINTR) error = errno;
    if (put <= 0) continue;
    data += put;
    size -= (size_t)put;
  }
  if (close(fd) && !error) error = errno;
  return error ? fail_errno("write", w->object, error, diag) : NABLA_OK;
}

static nabla_status read_library(const work *w, nabla_buffer *out,
                                 nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(NULL, NULL, w->library, &file, diag));
  const size_t before = out->size, size = (size_t)nabla_file_size(file);
  nabla_status status = nabla_buffer_append(out, NULL, size, diag);
  if (!status)
    status = nabla_file_read(file, 0, out->data + before, size, diag);
  nabla_file_close(file);
  return status;
}

/* ---- the linker --------------------------------------------------------- */

/* What it printed, as far as it is shown. */
static void read_log(const work *w, char out[PRINTED]) {
  size_t used = 0;
  const int fd = open(w->log, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && used + 1 < PRINTED) {
    const ssize_t got = read(fd, out + used, PRINTED - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += (size_t)got;
  }
  if (fd >= 0) (void)close(fd);
  out[used] = 0;
}

/* Its output goes to the log; signals are as they were for the caller. 0, or
 * an errno. */
static int spawn(const work *w, char *const *words, pid_t *out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                           O_RDONLY, 0);
  if (!error)
    error = posix_spawn_file_actions_addopen(
        &actions, STDOUT_FILENO, w->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!error)
    error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO,
                                             STDERR_FILENO);
  if (!error) error = posix_spawnattr_setsigmask(&attributes, &w->signals);
  if (!error)
    error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (!error)
    error = posix_spawnp(out, words[0], &actions, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static nabla_status wait_for(const work *w, const char *name, pid_t child,
                             nabla_diag *diag) {
  int state;
  pid_t got;
  do {
    got = waitpid(child, &state, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return fail_errno("wait for the linker", name, errno, diag);
  if (WIFEXITED(state) && !WEXITSTATUS(state)) return NABLA_OK;
  char printed[PRINTED];
  read_log(w, printed);
  if (w->say && *printed) w->say(w->say_self, printed);
  printed[strcspn(printed, "\n")] = 0;
  if (WIFSIGNALED(state))
    return nabla_fail(diag, NABLA_IO, "%s was ended by signal %d", name,
                      WTERMSIG(state));
  return nabla_fail(diag, NABLA_IO, "%s cannot link the program: %s", name,
                    *printed ? printed : "it does not say why");
}

static nabla_status fail_none(const work *w, nabla_diag *diag) {
  nabla_status status;
  if (w->is_foreign) {
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "a saved program for another machine needs the linker "
                        "ld.lld-22, which is not in PATH");
    nabla_diag_set_next(diag,
                        "install it, on Debian: apt-get install lld-22; "
                        "-o PROGRAM.o needs none");
    return status;
  }
  status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "a saved program needs a linker: neither ld.lld-22 nor cc is in PATH");
  nabla_diag_set_next(diag,
                      "install one, on Debian: apt-get install lld-22, or gcc; "
                      "-o PROGRAM.o needs none");
  return status;
}

/* Whether an ELF object is for another machine than the one that runs this. */
static int is_foreign(const void *object, size_t size) {
#if defined(__x86_64__)
  const unsigned char here = 62; /* EM_X86_64 */
#elif defined(__aarch64__)
  const unsigned char here = 183; /* EM_AARCH64 */
#else
  const unsigned char here = 0; /* unknown: any linker may try */
#endif
  return here && size > 18 && ((const unsigned char *)object)[18] != here;
}

/* Runs the first linker that is there. */
static nabla_status run(const work *w, nabla_diag *diag) {
  const size_t count = w->is_foreign ? 1 : sizeof linkers / sizeof *linkers;
  for (size_t i = 0; i < count; i++) {
    char *words[MOST_WORDS + 1] = {NULL};
    for (size_t k = 0; k < MOST_WORDS && linkers[i].words[k]; k++) {
      const char *word = linkers[i].words[k];
      if (!strcmp(word, OBJECT)) word = w->object;
      if (!strcmp(word, LIBRARY)) word = w->library;
      words[k] = (char *)(uintptr_t)word; /* posix_spawn writes nothing */
    }
    pid_t child;
    const int error = spawn(w, words, &child);
    if (!error) return wait_for(w, words[0], child, diag);
    if (error != ENOENT && error != EACCES && error != ENOTDIR)
      return fail_errno("start it", words[0], error, diag);
  }
  return fail_none(w, diag);
}

nabla_status nabla_link_library(const void *object, size_t size,
                                nabla_buffer *out,
                                void (*say)(const void *self, const char *text),
                                const void *say_self, nabla_diag *diag) {
  work *w = calloc(1, sizeof *w);
  if (!w) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a linker");
  w->say = say, w->say_self = say_self;
  w->is_foreign = is_foreign(object, size);
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &held, &w->signals);
  nabla_status status = make_folder(w, diag);
  if (!status) status = write_object(w, object, size, diag);
  if (!status) status = run(w, diag);
  if (!status) status = read_library(w, out, diag);
  remove_folder(w);
  pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
  free(w);
  return status;
}
