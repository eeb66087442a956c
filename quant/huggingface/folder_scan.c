/* Lists what lies in a model's folder beside the model, and says what becomes
 * of each file. Folders are listed one after the other, never recursively. */
#include <fnmatch.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/sort.h"
#include "quant/formats/tensor_file.h"
#include "quant/huggingface/folder.h"

_Static_assert(NABLA_FOLDER_MAX_DEPTH <= NABLA_OUTPUT_MAX_DEPTH,
               "what is copied can be written");
_Static_assert(NABLA_FOLDER_MAX_CONFIG == NABLA_HF_CONFIG_MAX, "one limit");

enum { LEAVE_FILE = 1, LEAVE_FOLDER = 2, LEAVE_ANY = 3 };

static const struct {
  int kind;
  const char *pattern, *why;
} leaves[] = {
#define LEAVE(kind, name, why) {LEAVE_##kind, name, why},
#include "quant/huggingface/folder_files.def"
#undef LEAVE
};

/* A folder that is still to be listed. */
typedef struct pending {
  size_t path; /* in `texts`; "" for the model's folder itself */
  uint32_t depth;
} pending;

typedef struct scan {
  nabla_folder *folder;
  const char *root; /* the model's folder        */
  nabla_buffer todo;
  pending in;               /* what is being listed      */
  char at[NABLA_PATH_SIZE]; /* its path                  */
  nabla_status status;
  nabla_diag *diag;
} scan;

static const char *reason_of(const char *name, int is_folder) {
  const int kind = is_folder ? LEAVE_FOLDER : LEAVE_FILE;
  for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
    if ((leaves[i].kind & kind) && !fnmatch(leaves[i].pattern, name, 0))
      return leaves[i].why;
  return !is_folder && nabla_tensor_file_named(name) ? "weights in another file"
                                                     : NULL;
}

/* Shards and index are written anew. */
static int is_of_model(const scan *s, const char *name) {
  const nabla_checkpoint *checkpoint = s->folder->checkpoint;
  if (s->in.depth) return 0;
  if (nabla_checkpoint_has_index(checkpoint) && !strcmp(name, NABLA_INDEX_NAME))
    return 1;
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++)
    if (!strcmp(name, nabla_checkpoint_shard_name(checkpoint, i))) return 1;
  return 0;
}

static nabla_status refuse(const scan *s, const char *what, unsigned limit) {
  nabla_status status =
      nabla_fail(s->diag, NABLA_TOO_LARGE, "%s (at most %u)", what, limit);
  nabla_diag_set_file(s->diag, s->at);
  nabla_diag_set_next(s->diag,
                      "move them away, or name the model's index or file to "
                      "write weights alone");
  return status;
}

/* Appends "FOLDER/NAME" to the texts. */
static nabla_status add_path(scan *s, const char *name, size_t *out) {
  nabla_buffer *texts = &s->folder->texts;
  char path[NABLA_FOLDER_MAX_PATH + 1];
  const char *in = (const char *)texts->data + s->in.path;
  const size_t head = strlen(in), tail = strlen(name);
  if (head + tail + 1 > NABLA_FOLDER_MAX_PATH)
    return refuse(s, "the path of a file in the folder is too long",
                  NABLA_FOLDER_MAX_PATH);
  memcpy(path, in, head); /* `texts` may move */
  if (head) path[head] = '/';
  memcpy(path + head + (head > 0), name, tail + 1);
  *out = texts->size;
  return nabla_buffer_append(texts, path, strlen(path) + 1, s->diag);
}

static nabla_status add_row(scan *s, const char *name,
                            const nabla_folder_row *row) {
  nabla_folder_row own = *row;
  if (nabla_folder_count(s->folder) == NABLA_FOLDER_MAX_FILES)
    return refuse(s, "the folder holds too many files beside the model",
                  NABLA_FOLDER_MAX_FILES);
  NABLA_TRY(add_path(s, name, &own.path));
  return nabla_buffer_append(&s->folder->rows, &own, sizeof own, s->diag);
}

static nabla_status add_folder(scan *s, const char *name) {
  pending next = {.depth = s->in.depth + 1};
  if (next.depth > NABLA_FOLDER_MAX_DEPTH)
    return refuse(s, "its folders are nested too deep", NABLA_FOLDER_MAX_DEPTH);
  if (s->todo.size / sizeof next == NABLA_FOLDER_MAX_FILES)
    return refuse(s, "it holds too many folders", NABLA_FOLDER_MAX_FILES);
  NABLA_TRY(add_path(s, name, &next.path));
  return nabla_buffer_append(&s->todo, &next, sizeof next, s->diag);
}

/* What stands behind a link, and why it is not followed. It is located, not
 * opened, and one descriptor answers both questions. */
static const char *follow(scan *s, const char *path, int is_parsed,
                          nabla_folder_row *row, int *out_error) {
  const nabla_folder *folder = s->folder;
  const nabla_os *os = folder->os;
  char target[NABLA_PATH_SIZE];
  int fd, lost = -ENOENT;
  NABLA_OS_RETRY(fd, os->open(os->self, path, NABLA_OS_LOCATE));
  *out_error = fd;
  if (fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR) {
    *out_error = 0;
    row->info = (nabla_os_info){.is_link = 1};
    return "a link that leads nowhere";
  }
  if (fd < 0) return NULL;
  NABLA_OS_RETRY(*out_error, os->info(os->self, fd, &row->info));
  if (*out_error >= 0)
    NABLA_OS_RETRY(lost, os->path_of(os->self, fd, target, sizeof target));
  os->close(os->self, fd);
  if (*out_error >= 0 && lost < 0 && !nabla_folder_is_unknown(lost))
    *out_error = lost;
  if (*out_error < 0) return NULL;
  if (row->info.is_folder) return "a link to a folder";
  if (lost >= 0) {
    row->target = s->folder->texts.size;
    s->status = nabla_buffer_append(&s->folder->texts, target,
                                    strlen(target) + 1, s->diag);
    if (s->status) row->target = 0;
  }
  if (is_parsed || (lost >= 0 && nabla_folder_holds(folder, target)))
    return NULL;
  return lost < 0 ? "a link to a place that is not known"
                  : "a link that leads out of the folder";
}

static nabla_status take(scan *s, const char *name) {
  const nabla_folder *folder = s->folder;
  const nabla_os *os = folder->os;
  nabla_folder_row row = {.action = NABLA_FOLDER_LEAVE};
  char path[NABLA_PATH_SIZE];
  int error = -ENAMETOOLONG;
  const int is_model = is_of_model(s, name);
  if (nabla_place_join(path, s->at, name))
    NABLA_OS_RETRY(error, os->path_info(os->self, path, 0, &row.info));
  if (error == -ENOENT) return NABLA_OK; /* removed since it was listed */
  if (is_model && (error < 0 || !row.info.is_link)) return NABLA_OK;
  if (!is_model && error >= 0) row.reason = reason_of(name, row.info.is_folder);
  row.is_hidden = row.reason && *name == '.';
  if (error >= 0 && !row.reason && row.info.is_link)
    row.reason =
        follow(s, path, is_model || (!s->in.depth && nabla_folder_parses(name)),
               &row, &error);
  if (s->status) return s->status;
  if (error < 0)
    return nabla_os_fail(os, NULL, path, "look at it", error, s->diag);
  if (is_model) {
    row.action = NABLA_FOLDER_READ;
    return row.reason ? NABLA_OK : add_row(s, name, &row);
  }
  if (!row.reason && row.info.is_folder) {
    if (!folder->has_output || !nabla_os_same(&row.info, &folder->output))
      return add_folder(s, name);
    row.reason = "the output itself";
  }
  if (!row.reason && !row.info.is_file) row.reason = "a pipe, socket or device";
  if (!row.reason) row.action = NABLA_FOLDER_COPY;
  return add_row(s, name, &row);
}

static int take_name(void *context, const char *name) {
  scan *s = context;
  s->status = take(s, name);
  return s->status != NABLA_OK;
}

/* Lists one folder; what an interrupted listing has found is forgotten. */
static nabla_status list(scan *s) {
  nabla_folder *folder = s->folder;
  const size_t rows = folder->rows.size, texts = folder->texts.size;
  const size_t todo = s->todo.size;
  const char *path = (const char *)folder->texts.data + s->in.path;
  int error = 0;
  if (!*path)
    memcpy(s->at, s->root, strlen(s->root) + 1);
  else if (!nabla_place_join(s->at, s->root, path))
    error = -ENAMETOOLONG;
  while (!error) {
    folder->rows.size = rows;
    folder->texts.size = texts;
    s->todo.size = todo;
    error = folder->os->list(folder->os->self, s->at, take_name, s);
    if (error != -EINTR) break;
    error = 0;
  }
  if (s->status) return s->status;
  if (error < 0)
    return nabla_os_fail(folder->os, NULL, s->at, "list the folder", error,
                         s->diag);
  return NABLA_OK;
}

static nabla_status list_all(scan *s) {
  NABLA_TRY(nabla_buffer_append(&s->folder->texts, "", 1, s->diag));
  NABLA_TRY(nabla_buffer_append(&s->todo, &s->in, sizeof s->in, s->diag));
  for (size_t i = 0; i < s->todo.size / sizeof s->in; i++) {
    memcpy(&s->in, s->todo.data + i * sizeof s->in, sizeof s->in);
    NABLA_TRY(list(s));
  }
  return NABLA_OK;
}

static int by_path(const void *a, const void *b, const void *context) {
  const nabla_folder *folder = context;
  const char *texts = (const char *)folder->texts.data;
  return strcmp(texts + ((const nabla_folder_row *)a)->path,
                texts + ((const nabla_folder_row *)b)->path);
}

static nabla_status count(nabla_folder *folder, nabla_diag *diag) {
  nabla_folder_totals *totals = &folder->totals;
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const nabla_folder_row *row = nabla_folder_row_at(folder, i);
    totals->left_out += row->action == NABLA_FOLDER_LEAVE;
    if (!nabla_folder_copies(row)) continue;
    totals->copied++;
    if (!strcmp(nabla_folder_path_at(folder, i), NABLA_HF_CONFIG_NAME))
      folder->has_config = 1;
    if (!nabla_add_u64(totals->bytes, row->info.size, &totals->bytes))
      return nabla_fail(diag, NABLA_TOO_LARGE,
                        "the other files' size overflows");
  }
  return NABLA_OK;
}

nabla_status nabla_folder_scan(nabla_folder *folder, nabla_diag *diag) {
  char root[NABLA_PATH_SIZE];
  scan s = {.folder = folder, .root = root, .diag = diag};
  const char *path = nabla_checkpoint_borrow_path(folder->checkpoint);
  size_t size = strlen(path);
  while (size > 1 && path[size - 1] == '/') size--;
  if (size >= sizeof root)
    return nabla_os_fail(folder->os, NULL, path, "list the folder",
                         -ENAMETOOLONG, diag);
  memcpy(root, path, size);
  root[size] = '\0';
  NABLA_TRY(nabla_folder_find_root(folder, root, diag));
  nabla_buffer_init(&s.todo, folder->allocator, "list of folders",
                    (NABLA_FOLDER_MAX_FILES + 1) * sizeof(pending));
  nabla_status status = list_all(&s);
  nabla_buffer_deinit(&s.todo);
  if (!status)
    status = nabla_sort(folder->allocator, folder->rows.data,
                        nabla_folder_count(folder), sizeof(nabla_folder_row),
                        by_path, folder, diag);
  return status ? status : count(folder, diag);
}
