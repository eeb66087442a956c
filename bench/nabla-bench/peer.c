/* Conversation with a peer; see peer.h. Between its turns a peer is stopped:
 * threads of its own that spin would slow down whoever is next. */
#include "bench/nabla-bench/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/nabla-bench/contest.h"
#include "lib/base/edit_distance.h"
#include "tools/nabla-quant/cli.h"

#define PATIENCE_MS 600000 /* a prompt of thousands of tokens takes minutes */
#define LINE_LIMIT  ((size_t)1 << 16)

struct bench_peer {
  pid_t pid;
  int to, from;
  char name[64], version[512];
  double bytes;
  size_t used,
      taken; /* of `line`: what was read, and what of it has been used */
  char line[LINE_LIMIT];
};

static const char *const names[] = {
#define PEER(name, about) name,
#define MATCH(encoding, verbs, peer, format, bits)
#include "bench/nabla-bench/peers.def"
#undef PEER
#undef MATCH
};
enum { PEERS = sizeof names / sizeof *names };

/* ---- lists ---- */

int bench_peer_is_wanted(const char *list, const char *name) {
  const size_t length = strlen(name);
  if (!strcmp(list, "all")) return 1;
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !strncmp(at, name, length)) return 1;
  return 0;
}

nabla_status bench_peer_check_list(const char *list, nabla_diag *diag) {
  char word[32];
  if (!strcmp(list, "all") || !strcmp(list, "none")) return NABLA_OK;
  for (const char *at = list;; at++) {
    const size_t length = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), at);
    int known = 0;
    nabla_nearest near = nabla_nearest_begin(word, strlen(word));
    for (size_t i = 0; i < PEERS; i++) {
      known |= !strcmp(names[i], word);
      nabla_nearest_offer(&near, names[i], strlen(names[i]));
    }
    if (!known) {
      nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                       "--peers: unknown peer '%s'", word);
      if (near.best)
        nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
      else
        nabla_diag_set_next(diag,
                            "legal are all, none, llama.cpp, bitsandbytes, "
                            "onnxruntime, openblas, torch");
      return status;
    }
    at += length;
    if (!*at) return NABLA_OK;
  }
}

/* ---- the program ---- */

int bench_peer_folder(char *out, size_t size) {
  const char *own = getenv("NABLA_PEERS"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  int length;
  if (own && *own)
    length = snprintf(out, size, "%s", own);
  else if (cache && *cache)
    length = snprintf(out, size, "%s/nabla-peers", cache);
  else
    length = snprintf(out, size, "%s/.cache/nabla-peers", home ? home : "");
  return length > 0 && (size_t)length < size;
}

static int find_program(const char *name, char *out, size_t size) {
  char folder[4096];
  if (!bench_peer_folder(folder, sizeof folder)) return 0;
  const int length = snprintf(out, size, "%s/bin/nabla-peer-%s", folder, name);
  return length > 0 && (size_t)length < size && !access(out, X_OK);
}

/* In the child: the other ends of the pipes become its streams. */
_Noreturn static void become(const char *path, char *const *arguments, int in,
                             int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* it may be stopped when we die */
  signal(SIGPIPE, SIG_DFL);
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0) {
    /* the user's own folder of peers */
    /* NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): on purpose */
    execv(path, arguments);
  }
  _exit(127);
}

static nabla_status start(bench_peer *self, const char *path,
                          char *const *arguments, nabla_diag *diag) {
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  if (pipe(in) || pipe(out)) {
    nabla_status status =
        nabla_fail(diag, NABLA_IO, "no pipe: %s", strerror(errno));
    if (in[0] >= 0) close(in[0]), close(in[1]);
    return status;
  }
  self->pid = fork();
  if (self->pid == 0) {
    close(in[1]), close(out[0]);
    become(path, arguments, in[0], out[1]);
  }
  close(in[0]), close(out[1]);
  self->to = in[1], self->from = out[0];
  if (self->pid < 0)
    return nabla_fail(diag, NABLA_IO, "no process: %s", strerror(errno));
  return NABLA_OK;
}

/* Reads a line; its end becomes a NUL. The answers to two requests may come
 * together. */
static nabla_status read_line(bench_peer *self, char **out, nabla_diag *diag) {
  memmove(self->line, self->line + self->taken, self->used - self->taken);
  self->used -= self->taken, self->taken = 0;
  for (;;) {
    char *end = memchr(self->line, '\n', self->used);
    if (end) {
      *end = '\0';
      self->taken = (size_t)(end - self->line) + 1;
      return *out = self->line, NABLA_OK;
    }
    if (self->used == sizeof self->line)
      return nabla_fail(diag, NABLA_IO, "its answer is too long");
    struct pollfd wait = {.fd = self->from, .events = POLLIN};
    const int ready = poll(&wait, 1, PATIENCE_MS);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return nabla_fail(diag, NABLA_IO, "it does not answer");
    const ssize_t got = read(self->from, self->line + self->used,
                             sizeof self->line - self->used);
    if (got <= 0)
      return nabla_fail(diag, NABLA_IO, "its process ended without an answer");
    self->used += (size_t)got;
  }
}

/* "ready BYTES VERSION" or "no REASON" */
static nabla_status read_ready(bench_peer *self, nabla_diag *diag) {
  char *line, *end;
  NABLA_TRY(read_line(self, &line, diag));
  if (!strncmp(line, "no ", 3))
    return nabla_fail(diag, NABLA_UNSUPPORTED, "%.200s", line + 3);
  if (strncmp(line, "ready ", 6) != 0)
    return nabla_fail(diag, NABLA_IO, "it says '%.100s'", line);
  self->bytes = strtod(line + 6, &end);
  snprintf(self->version, sizeof self->version, "%s", *end ? end + 1 : end);
  return NABLA_OK;
}

/* The peer before its program is started; the program's `path`. */
static nabla_status create_for(const char *name, const char *program,
                               char *path, size_t size, bench_peer **out,
                               nabla_diag *diag) {
  if (!find_program(program, path, size))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "not installed; scripts/peers %s does that", name);
  *out = calloc(1, sizeof **out);
  if (!*out) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  (*out)->to = (*out)->from = -1;
  return NABLA_OK;
}

static nabla_status create(const char *name, char *path, size_t size,
                           bench_peer **out, nabla_diag *diag) {
  return create_for(name, name, path, size, out, diag);
}

nabla_status bench_peer_open(const char *name, const char *format,
                             const bench_problem *p, uint32_t copies,
                             bench_peer **out, nabla_diag *diag) {
  char path[4096], numbers[5][24];
  bench_peer *self;
  NABLA_TRY(create(name, path, sizeof path, &self, diag));
  const uint64_t values[5] = {p->n, p->k, p->m, p->threads, copies};
  for (int i = 0; i < 5; i++)
    snprintf(numbers[i], sizeof numbers[i], "%llu",
             (unsigned long long)values[i]);
  /* those that allocate by themselves get huge pages too: else they wait for
   * the translation of addresses, several times longer than for the weights */
  (void)setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
  snprintf(self->name, sizeof self->name, "%s %s", name, format);
  char form[32];
  snprintf(form, sizeof form, "%s", format);
  char *arguments[] = {path,       form,       numbers[0], numbers[1],
                       numbers[2], numbers[3], numbers[4], NULL};
  nabla_status status = start(self, path, arguments, diag);
  if (!status) status = read_ready(self, diag);
  if (!status) kill(self->pid, SIGSTOP);
  if (status)
    bench_peer_close(self);
  else
    *out = self;
  return status;
}

nabla_status bench_peer_open_ops(const char *name, bench_peer **out,
                                 nabla_diag *diag) {
  char path[4096], word[] = "ops";
  bench_peer *self;
  NABLA_TRY(create(name, path, sizeof path, &self, diag));
  /* A library that allocates its results takes memory that it has freed
   * before, in huge pages: page faults of new memory would cost more than the
   * operation. */
  (void)setenv("GLIBC_TUNABLES",
               "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
               "glibc.malloc.trim_threshold=8589934592",
               0);
  snprintf(self->name, sizeof self->name, "%s", name);
  char *arguments[] = {path, word, NULL};
  const nabla_status status = start(self, path, arguments, diag);
  if (status)
    bench_peer_close(self);
  else
    *out = self;
  return status;
}

nabla_status bench_peer_open_op(bench_peer *self, const char *op,
                                const char *type, uint32_t threads,
                                const uint32_t shape[4], nabla_diag *diag) {
  char request[128];
  const int length =
      snprintf(request, sizeof request, "open %s %s %u %u %u %u %u\n", op, type,
               threads, shape[0], shape[1], shape[2], shape[3]);
  kill(self->pid, SIGCONT);
  if (write(self->to, request, (size_t)length) != length)
    return nabla_fail(diag, NABLA_IO, "its process ended without an answer");
  const nabla_status status = read_ready(self, diag);
  kill(self->pid, SIGSTOP);
  return status;
}

nabla_status bench_peer_open_program(const char *name, const char *program,
                                     const char *const arguments[4],
                                     bench_peer **out, nabla_diag *diag) {
  char path[4096], copies[4][4096];
  char *all[6] = {path};
  bench_peer *self;
  NABLA_TRY(create_for(name, program, path, sizeof path, &self, diag));
  for (int i = 0; i < 4 && arguments[i]; i++) {
    snprintf(copies[i], sizeof copies[i], "%s", arguments[i]);
    all[i + 1] = copies[i];
  }
  (void)setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
  snprintf(self->name, sizeof self->name, "%s", name);
  nabla_status status = start(self, path, all, diag);
  if (!status) status = read_ready(self, diag);
  if (!status) kill(self->pid, SIGSTOP);
  if (status)
    bench_peer_close(self);
  else
    *out = self;
  return status;
}

void bench_peer_close(bench_peer *self) {
  if (!self) return;
  if (self->to >= 0) close(self->to);
  if (self->from >= 0) close(self->from);
  if (self->pid > 0) {
    kill(self->pid, SIGKILL);
    while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  free(self);
}

const char *bench_peer_version(const bench_peer *self) { return self->version; }

double bench_peer_bytes(const bench_peer *self) { return self->bytes; }

/* ---- a turn ---- */

static nabla_status read_times(bench_peer *self, uint32_t count, double *out,
                               nabla_diag *diag) {
  char *at, *end;
  NABLA_TRY(read_line(self, &at, diag));
  for (uint32_t i = 0; i < count; i++, at = end) {
    out[i] = strtod(at, &end) * 1e-9;
    if (end == at || !(out[i] > 0))
      return nabla_fail(diag, NABLA_IO, "its times cannot be read");
  }
  return NABLA_OK;
}

nabla_status bench_peer_ask(bench_peer *self, const char *request, double *out,
                            nabla_diag *diag) {
  const size_t length = strlen(request);
  kill(self->pid, SIGCONT);
  if (write(self->to, request, length) != (ssize_t)length)
    return nabla_fail(diag, NABLA_IO, "its process ended without an answer");
  NABLA_TRY(read_times(self, 1, out, diag));
  kill(self->pid, SIGSTOP);
  return NABLA_OK;
}

nabla_status bench_peer_run(void *context, uint64_t first, uint32_t count,
                            double *out, nabla_diag *diag) {
  bench_peer *self = context;
  char request[64];
  double warm;
  /* the first run wakes its threads */
  const int length =
      snprintf(request, sizeof request, "run %llu 1\nrun %llu %u\n",
               (unsigned long long)first, (unsigned long long)first + 1, count);
  kill(self->pid, SIGCONT);
  if (write(self->to, request, (size_t)length) != length)
    return nabla_fail(diag, NABLA_IO, "its process ended without an answer");
  NABLA_TRY(read_times(self, 1, &warm, diag));
  NABLA_TRY(read_times(self, count, out, diag));
  kill(self->pid, SIGSTOP);
  return NABLA_OK;
}
