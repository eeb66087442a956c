/* Names of files: suffixes, outputs that must not replace inputs. */
#include <string.h>
#include <sys/stat.h>

#include "tools/common/stream.h"
#include "tools/common/tool.h"

int tool_has_suffix(const char *path, const char *suffix) {
  const size_t length = strlen(path), size = strlen(suffix);
  return length > size && !strcmp(path + length - size, suffix) &&
         path[length - size - 1] != '/';
}

int tool_same_file(const char *a, const char *b) {
  struct stat x, y;
  if (tool_is_stream(a) || tool_is_stream(b))
    return 0; /* nothing is replaced */
  if (!strcmp(a, b)) return 1;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

nabla_status tool_check_output(const char *output, nabla_diag *diag) {
  if (strcmp(output, "-")) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'-' is no file for a result");
  nabla_diag_set_next(diag, "name a file; ./- if you mean it");
  return status;
}

nabla_status tool_fail_input(const char *output, nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "is an input; it would be replaced");
  nabla_diag_set_file(diag, output);
  nabla_diag_set_next(diag, "name another output");
  return status;
}
