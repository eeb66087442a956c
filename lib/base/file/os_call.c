/* Turns an operating system error into a diag with its next step. */
#include "lib/base/file/os_call.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const struct advice {
  int error;
  int about_space; /* the free bytes help to understand it */
  const char *next;
} advices[] = {
    {ENOSPC, 1, "free some space or write to another disk, then run again"},
    {EDQUOT, 1, "free some of your quota or write elsewhere, then run again"},
    {EFBIG, 1,
     "raise the file size limit (ulimit -f) or write to a "
     "filesystem that takes larger files"},
    {EACCES, 0, "check the permissions of the file and of its folder"},
    {EPERM, 0, "check the permissions of the file and of its folder"},
    {EROFS, 0, "choose a folder on a filesystem that is writable"},
    {ENOENT, 0, "check that the path is right and that its folder exists"},
    {ENOTDIR, 0, "check that the path is right and that its folder exists"},
    {ELOOP, 0, "check where the symbolic links of the path lead"},
    {ENAMETOOLONG, 0, "choose a shorter path"},
    {EMFILE, 0, "raise the limit of open files (ulimit -n)"},
    {ENFILE, 0, "close other programs: the system has no free file left"},
    {EIO, 0, "check the disk and the system log, then run again"},
};

static const struct advice *find(int error) {
  for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
    if (advices[i].error == error) return &advices[i];
  return NULL;
}

nabla_status nabla_os_fail(const nabla_os *os, const char *folder,
                           const char *path, const char *what, int error,
                           nabla_diag *diag) {
  const struct advice *advice = find(-error);
  const char *reason = strerrordesc_np(-error);
  if (!reason) reason = "unknown error";
  uint64_t bytes;
  nabla_status status;
  if (advice && advice->about_space && folder &&
      os->free_bytes(os->self, folder, &bytes) >= 0)
    status =
        nabla_fail(diag, NABLA_IO, "cannot %s: %s (%" PRIu64 " bytes are free)",
                   what, reason, bytes);
  else
    status = nabla_fail(diag, NABLA_IO, "cannot %s: %s (error %d)", what,
                        reason, -error);
  nabla_diag_set_file(diag, path);
  if (advice) nabla_diag_set_next(diag, "%s", advice->next);
  return status;
}
