/* See link.h. No shell: names and options are arguments of posix_spawn. No file
 * has a name: object, library and log are files in memory, which the linker
 * opens below /proc/self/fd, so that whatever ends this process leaves none. */
#include "lib/compiler/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file/file.h"

extern char **environ;

#define PRINTED    4096 /* bytes of what a linker prints that are shown */
#define MOST_WORDS 16
#define NAME_SIZE  32
#define STACK      ((size_t)256 << 10) /* of the process that waits */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

enum { OBJECT, LIBRARY, LOG, FILES };

/* Files, and how the linker ended. */
typedef struct work {
  int is_foreign;               /* for another machine: cc would not do */
  int fds[FILES];               /* -1: not open */
  char names[FILES][NAME_SIZE]; /* as the linker sees them */
  sigset_t signals;             /* as they were blocked before */
  void (*say)(const void *self, const char *text);
  const void *say_self;
  /* of one start */
  char *const *words;
  int to_stdout; /* the linker writes the library to standard output */
  int error;     /* it was not started: an errno */
  int state;     /* as waitpid gives it */
} work;

/* OBJECT_NAME and LIBRARY_NAME stand for the files. Symbols are bound when the
 * library is loaded, and to its own first. lld replaces files by renaming, but
 * writes to standard output. */
#define OBJECT_NAME  "\1"
#define LIBRARY_NAME "\2"
static const struct {
  int to_stdout;
  const char *words[MOST_WORDS];
} linkers[] = {
    {1,
     {"ld.lld-22", "-shared", "-Bsymbolic", "--build-id=none", "-z", "now",
      "-z", "noexecstack", "-o", "-", OBJECT_NAME}},
    {0,
     {"cc", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,--build-id=none",
      "-Wl,-z,now", "-Wl,-z,noexecstack", "-o", LIBRARY_NAME, OBJECT_NAME}},
};

static nabla_status fail_errno(const char *what, const char *name, int error,
                               nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot %s: %s", what, strerror(error));
  nabla_diag_set_file(diag, name);
  return status;
}

/* ---- files -------------------------------------------------------------- */

/* A file in memory, not one of the standard streams, which the linker has of
 * its own. Systems that forbid programs in such files want to hear that this is
 * none; older ones do not know the flag. -1 with errno. */
static int make_file(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  (void)close(fd);
  errno = error;
  return higher;
}

static nabla_status make_files(work *w, nabla_diag *diag) {
  static const char *const names[FILES] = {"object", "library", "log"};
  for (int i = 0; i < FILES; i++) {
    w->fds[i] = make_file(names[i]);
    if (w->fds[i] < 0)
      return fail_errno("make a file in memory", names[i], errno, diag);
    (void)snprintf(w->names[i], NAME_SIZE, "/proc/self/fd/%d", w->fds[i]);
  }
  if (!access(w->names[OBJECT], R_OK)) return NABLA_OK;
  const nabla_status status =
      fail_errno("give the linker its files", "/proc/self/fd", errno, diag);
  nabla_diag_set_next(diag, "mount /proc, or write an object: -o PROGRAM.o");
  return status;
}

static void close_files(const work *w) {
  for (int i = 0; i < FILES; i++)
    if (w->fds[i] >= 0) (void)close(w->fds[i]);
}

static nabla_status write_object(const work *w, const uint8_t *data,
                                 size_t size, nabla_diag *diag) {
  while (size) {
    const ssize_t put = write(w->fds[OBJECT], data, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return fail_errno("write the object for the linker", "a file in memory",
                        put ? errno : EIO, diag);
    data += put;
    size -= (size_t)put;
  }
  return NABLA_OK;
}

/* Reads at most `size` bytes from the start; how many, or -1 with errno. */
static ssize_t read_start(int fd, void *out, size_t size) {
  size_t used = 0;
  while (used < size) {
    const ssize_t got = pread(fd, (char *)out + used, size - used, (off_t)used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (!got) break;
    used += (size_t)got;
  }
  return (ssize_t)used;
}

static nabla_status read_library(const work *w, nabla_buffer *out,
                                 nabla_diag *diag) {
  struct stat info;
  const size_t before = out->size;
  if (fstat(w->fds[LIBRARY], &info))
    return fail_errno("read", "the linked library", errno, diag);
  const size_t size = (size_t)info.st_size;
  if (!size)
    return nabla_fail(diag, NABLA_IO, "%s made no library", w->words[0]);
  NABLA_TRY(nabla_buffer_append(out, NULL, size, diag));
  const ssize_t got = read_start(w->fds[LIBRARY], out->data + before, size);
  if (got >= 0 && (size_t)got == size) return NABLA_OK;
  return fail_errno("read", "the linked library", got < 0 ? errno : EIO, diag);
}

/* ---- the linker --------------------------------------------------------- */

/* What it printed, as far as it is shown. */
static void read_log(const work *w, char out[PRINTED]) {
  const ssize_t got = read_start(w->fds[LOG], out, PRINTED - 1);
  out[got < 0 ? 0 : got] = 0;
}

/* Its standard streams, and the files under the numbers that they have here. */
static int add_files(const work *w, posix_spawn_file_actions_t *actions) {
  const int prints = w->to_stdout ? LIBRARY : LOG;
  int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO,
                                               "/dev/null", O_RDONLY, 0);
  if (!error)
    error = posix_spawn_file_actions_adddup2(actions, w->fds[prints],
                                             STDOUT_FILENO);
  if (!error)
    error =
        posix_spawn_file_actions_adddup2(actions, w->fds[LOG], STDERR_FILENO);
  for (int i = 0; i < FILES && !error; i++)
    error = posix_spawn_file_actions_adddup2(actions, w->fds[i], w->fds[i]);
  return error;
}

/* Signals are as they were for the caller, but that a linker must be able to
 * wait for programs of its own. */
static int set_signals(const work *w, posix_spawnattr_t *attributes) {
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGCHLD);
  int error = posix_spawnattr_setsigmask(attributes, &w->signals);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &usual);
  if (!error)
    error = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return error;
}

/* 0, or an errno. */
static int spawn(const work *w, pid_t *out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = add_files(w, &actions);
    if (!error) error = set_signals(w, &attributes);
    if (!error)
      error = posix_spawnp(out, w->words[0], &actions, &attributes, w->words,
                           environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* The process between this one and the linker, in this one's memory: it waits
 * for the linker, which it can do whatever this process does with SIGCHLD, and
 * wherever its threads wait for children. */
static int start_and_wait(void *self) {
  work *w = self;
  pid_t child, got;
  (void)signal(SIGCHLD, SIG_DFL); /* of that process alone: no CLONE_SIGHAND */
  w->error = spawn(w, &child);
  if (w->error) return 0;
  do {
    got = waitpid(child, &w->state, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) w->error = errno;
  return 0;
}

/* Starts a linker and waits for its end: `error` and `state`. Its parent ends
 * with no signal (the low byte of the flags is 0) and is no child that wait()
 * finds without __WALL. This thread stands still meanwhile, as in posix_spawn:
 * the memory is shared, its stack is not. 0, or an errno. */
static int run_linker(work *w) {
  char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return errno;
  w->error = 0, w->state = 0;
  const pid_t between =
      clone(start_and_wait, stack + STACK, CLONE_VM | CLONE_VFORK, w);
  int error = between < 0 ? errno : 0;
  while (between >= 0 && waitpid(between, NULL, __WALL) < 0 && errno == EINTR)
    continue;
  (void)munmap(stack, STACK);
  return error ? error : w->error;
}

static nabla_status judge(const work *w, nabla_diag *diag) {
  const char *name = w->words[0];
  if (WIFEXITED(w->state) && !WEXITSTATUS(w->state)) return NABLA_OK;
  char printed[PRINTED];
  read_log(w, printed);
  if (w->say && *printed) w->say(w->say_self, printed);
  printed[strcspn(printed, "\n")] = 0;
  if (WIFSIGNALED(w->state))
    return nabla_fail(diag, NABLA_IO, "%s was ended by signal %d", name,
                      WTERMSIG(w->state));
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
static nabla_status run(work *w, nabla_buffer *out, nabla_diag *diag) {
  const size_t count = w->is_foreign ? 1 : sizeof linkers / sizeof *linkers;
  for (size_t i = 0; i < count; i++) {
    char *words[MOST_WORDS + 1] = {NULL};
    for (size_t k = 0; k < MOST_WORDS && linkers[i].words[k]; k++) {
      const char *word = linkers[i].words[k];
      if (!strcmp(word, OBJECT_NAME)) word = w->names[OBJECT];
      if (!strcmp(word, LIBRARY_NAME)) word = w->names[LIBRARY];
      words[k] = (char *)(uintptr_t)word; /* posix_spawn writes nothing */
    }
    w->words = words, w->to_stdout = linkers[i].to_stdout;
    const int error = run_linker(w);
    if (!error) {
      NABLA_TRY(judge(w, diag));
      return read_library(w, out, diag);
    }
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
  for (int i = 0; i < FILES; i++) w->fds[i] = -1;
  /* handlers of this process must not run in the one that waits */
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &w->signals);
  nabla_status status = make_files(w, diag);
  if (!status) status = write_object(w, object, size, diag);
  if (!status) status = run(w, out, diag);
  pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
  close_files(w);
  free(w);
  return status;
}
