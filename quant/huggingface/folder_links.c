/* Where the files of a model's folder lie once links are resolved. What is
 * copied must not lead elsewhere: a model from a stranger may hold a link to
 * any file that its user may read. */
#include <string.h>

#include "lib/base/file/os_call.h"
#include "quant/huggingface/folder.h"

/* The cache of Hugging Face: ROOT/snapshots/REVISION/... holds links to
 * ROOT/blobs/HASH. */
#define SNAPSHOTS "/snapshots/"
#define BLOBS     "/blobs"

int nabla_folder_is_unknown(int error) {
  return error == -ENOENT || error == -EACCES || error == -EPERM ||
         error == -ENOSYS || error == -ENAMETOOLONG;
}

/* The last "/snapshots/" of the path, or NULL. */
static const char *find_snapshots(const char *path) {
  const char *found = NULL;
  for (const char *at = path; (at = strstr(at, SNAPSHOTS)); at++) found = at;
  return found;
}

nabla_status nabla_folder_find_root(nabla_folder *folder, const char *path,
                                    nabla_diag *diag) {
  const nabla_os *os = folder->os;
  int fd, error;
  NABLA_OS_RETRY(fd, os->open(os->self, path, NABLA_OS_LOCATE));
  if (fd < 0) return nabla_os_fail(os, NULL, path, "look at it", fd, diag);
  NABLA_OS_RETRY(error,
                 os->path_of(os->self, fd, folder->root, sizeof folder->root));
  os->close(os->self, fd);
  if (error < 0) folder->root[0] = '\0'; /* no link is followed */
  if (error < 0 && !nabla_folder_is_unknown(error))
    return nabla_os_fail(os, NULL, path, "find out where it lies", error, diag);
  if (error < 0) return NABLA_OK;
  const char *snapshots = find_snapshots(folder->root);
  const size_t size = snapshots ? (size_t)(snapshots - folder->root) : 0;
  if (!snapshots || size + sizeof BLOBS > sizeof folder->blobs) return NABLA_OK;
  memcpy(folder->blobs, folder->root, size);
  memcpy(folder->blobs + size, BLOBS, sizeof BLOBS);
  return NABLA_OK;
}

static int is_below(const char *path, const char *folder) {
  const size_t size = strlen(folder);
  if (!size || strncmp(path, folder, size) != 0) return 0;
  return folder[size - 1] == '/' || path[size] == '/';
}

int nabla_folder_holds(const nabla_folder *folder, const char *target) {
  return is_below(target, folder->root) || is_below(target, folder->blobs);
}

int nabla_folder_parses(const char *path) {
  return !strcmp(path, NABLA_HF_CONFIG_NAME);
}
