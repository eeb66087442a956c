/* Recognizes files of other formats; see foreign.h. */
#include "quant/formats/foreign.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* Shared tensors (tied weights) become copies; checkpoints of training have the
 * weights one level down. */
#define FOREIGN_TORCH                                                        \
  "convert it with 'pip install torch safetensors' and python3 -c \"import " \
  "torch as t, safetensors.torch as s; d = t.load('@', 'cpu', "              \
  "weights_only=True); d = d.get('state_dict', d.get('model', d)); "         \
  "s.save_file({k: v.contiguous().clone() for k, v in d.items() if "         \
  "t.is_tensor(v)}, 'model.safetensors')\""

#define FOREIGN_ONNX                                                        \
  "convert it with 'pip install onnx safetensors' and python3 -c \"import " \
  "onnx, onnx.numpy_helper as h, safetensors.numpy as s; "                  \
  "s.save_file({t.name: "                                                   \
  "h.to_array(t).copy() for t in onnx.load('@').graph.initializer}, "       \
  "'model.safetensors')\""

static const nabla_foreign rows[] = {
#define FOREIGN(magic, name, what, next) {magic, name, what, next},
#include "quant/formats/foreign.def"
#undef FOREIGN
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Whether `size` bytes hold `text` somewhere. */
static int holds(const uint8_t *bytes, size_t size, const char *text) {
  const size_t length = strlen(text);
  for (size_t i = 0; i + length <= size; i++)
    if (!memcmp(bytes + i, text, length)) return 1;
  return 0;
}

/* '?' is any byte, '*' any bytes before the rest. */
static int begins(const uint8_t *head, size_t size, const char *magic) {
  size_t i = 0;
  for (; magic[i] && magic[i] != '*'; i++)
    if (i >= size || (magic[i] != '?' && head[i] != (uint8_t)magic[i]))
      return 0;
  return !magic[i] || holds(head + i, size - i, magic + i + 1);
}

const nabla_foreign *nabla_foreign_find(const uint8_t *head, size_t size) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].magic && begins(head, size, rows[i].magic)) return &rows[i];
  return NULL;
}

const nabla_foreign *nabla_foreign_named(const char *name) {
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].name && !fnmatch(rows[i].name, name, 0)) return &rows[i];
  return NULL;
}

/* What a shell or Python would read otherwise is not put into a command. */
static int is_plain(const char *path) {
  return strlen(path) < 100 && !strpbrk(path, "'\"\\$`\n");
}

void nabla_foreign_set_next(const nabla_foreign *foreign, const char *folder,
                            const char *name, nabla_diag *diag) {
  char path[256], text[sizeof diag->next];
  const int size = snprintf(path, sizeof path, "%s%s", folder, name);
  if (size < 0 || (size_t)size >= sizeof path || !is_plain(path))
    snprintf(path, sizeof path, "FILE");
  const char *mark = strchr(foreign->next, '@');
  if (mark)
    snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - foreign->next),
             foreign->next, path, mark + 1);
  nabla_diag_set_next(diag, "%s", mark ? text : foreign->next);
}

nabla_status nabla_foreign_refuse(const nabla_file *file, nabla_diag *diag) {
  uint8_t head[NABLA_FOREIGN_HEAD];
  const uint64_t all = nabla_file_size(file);
  const size_t size = all < sizeof head ? (size_t)all : sizeof head;
  NABLA_TRY(nabla_file_read(file, 0, head, size, diag));
  const nabla_foreign *foreign = nabla_foreign_find(head, size);
  if (!foreign) return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "this is %s, not a safetensors file", foreign->what);
  nabla_diag_set_offset(diag, 0);
  nabla_foreign_set_next(foreign, "", nabla_file_borrow_path(file), diag);
  return status;
}
