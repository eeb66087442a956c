/* Files: their names, outputs that must not replace inputs, reading them whole.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/memory.h"
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

/* ---- input ---- */

static nabla_status read_stream(FILE *stream, nabla_buffer *out,
                                nabla_diag *diag) {
  char part[65536];
  while (!feof(stream) && !ferror(stream)) {
    size_t got = fread(part, 1, sizeof part, stream);
    NABLA_TRY(nabla_buffer_append(out, part, got, diag));
  }
  if (ferror(stream))
    return nabla_fail(diag, NABLA_IO, "cannot read: %s", strerror(errno));
  return nabla_buffer_append(out, NULL, 1, diag);
}

nabla_status tool_read(const char *path, char **out, size_t *out_size,
                       nabla_diag *diag) {
  int standard = !strcmp(path, "-");
  FILE *stream = standard ? stdin : fopen(path, "rb");
  nabla_buffer text;
  if (!stream) {
    nabla_status status =
        nabla_fail(diag, NABLA_IO, "cannot open: %s", strerror(errno));
    nabla_diag_set_file(diag, path);
    return status;
  }
  nabla_buffer_init(&text, NULL, "a program", (size_t)1 << 30);
  nabla_status status = read_stream(stream, &text, diag);
  if (!standard) fclose(stream);
  if (status) {
    nabla_diag_set_file(diag, standard ? "<stdin>" : path);
    nabla_buffer_deinit(&text);
    return status;
  }
  *out = (char *)text.data; /* malloc's: the buffer has the default allocator */
  *out_size = text.size - 1;
  return NABLA_OK;
}
