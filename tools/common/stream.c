/* Outputs that are written to directly; see stream.h. */
#include "tools/common/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_DIGITS 9

void tool_begin(void) {
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigemptyset(&ignore.sa_mask);
  (void)sigaction(SIGXFSZ, &ignore, NULL);
}

/* The descriptor that a path stands for, or -1. Such paths are links to files
 * where the descriptor is one: opened anew it would have another offset. */
static int descriptor_of(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  if (!strcmp(path, "/dev/stdout")) return STDOUT_FILENO;
  if (!strcmp(path, "/dev/stderr")) return STDERR_FILENO;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const size_t length = strlen(folders[i]);
    if (strncmp(path, folders[i], length) != 0) continue;
    const char *digits = path + length;
    const size_t count = strspn(digits, "0123456789");
    if (!count || digits[count] || count > MOST_DIGITS) return -1;
    int number = 0;
    for (size_t k = 0; k < count; k++) number = number * 10 + (digits[k] - '0');
    return number;
  }
  return -1;
}

static int is_direct(const struct stat *info) {
  return S_ISCHR(info->st_mode) || S_ISFIFO(info->st_mode);
}

int tool_is_stream(const char *path) {
  struct stat info;
  return descriptor_of(path) >= 0 || (!stat(path, &info) && is_direct(&info));
}

static nabla_status fail_errno(const char *path, const char *what, int error,
                               nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot %s: %s", what, strerror(error));
  nabla_diag_set_file(diag, path);
  return status;
}

static nabla_status open_stream(const char *path, int *out, nabla_diag *diag) {
  struct stat info;
  *out = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (*out < 0) return fail_errno(path, "open", errno, diag);
  if (!fstat(*out, &info) && is_direct(&info)) return NABLA_OK;
  (void)close(*out);
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "it is no longer a device or a FIFO");
  nabla_diag_set_file(diag, path);
  return status;
}

/* 0, or an errno. */
static int write_part(int fd, const struct iovec *part) {
  const char *from = part->iov_base;
  size_t left = part->iov_len;
  while (left) {
    const ssize_t put = write(fd, from, left);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put ? errno : EIO;
    from += put;
    left -= (size_t)put;
  }
  return 0;
}

nabla_status tool_stream_write(const char *path, const struct iovec *parts,
                               int count, nabla_diag *diag) {
  const int given = descriptor_of(path);
  int fd = given, error = 0;
  if (given < 0) NABLA_TRY(open_stream(path, &fd, diag));
  if (given == STDOUT_FILENO && fflush(stdout)) error = errno;
  for (int i = 0; i < count && !error; i++) error = write_part(fd, &parts[i]);
  if (given < 0 && close(fd) && !error) error = errno;
  return error ? fail_errno(path, "write", error, diag) : NABLA_OK;
}
