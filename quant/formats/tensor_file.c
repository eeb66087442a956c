/* Opening a file of tensors in the format that its first bytes name, and what
 * is the same for all formats; see tensor_file.h. */
#include "quant/formats/tensor_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"

#define MAGIC_MAX 16u

#define TENSOR_FILE_FORMAT(id, suffix, magic) \
  extern const nabla_tensor_file_calls nabla_##id##_calls;
#include "quant/formats/formats.def"
#undef TENSOR_FILE_FORMAT

static const nabla_tensor_file_row rows[] = {
#define TENSOR_FILE_FORMAT(id, suffix, magic) \
  {#id, suffix, magic, &nabla_##id##_calls},
#include "quant/formats/formats.def"
#undef TENSOR_FILE_FORMAT
};

enum { ROWS = sizeof rows / sizeof *rows };

const nabla_tensor_file_row *nabla_tensor_file_named(const char *name) {
  const size_t size = strlen(name);
  for (size_t i = 0; i < ROWS; i++) {
    const size_t tail = strlen(rows[i].suffix);
    if (size > tail && !strcmp(name + size - tail, rows[i].suffix))
      return &rows[i];
  }
  return NULL;
}

void nabla_tensor_file_suffixes(char out[NABLA_TENSOR_FILE_SUFFIXES]) {
  size_t used = 0;
  *out = '\0';
  for (size_t i = 0; i < ROWS; i++) {
    const int wrote = snprintf(out + used, NABLA_TENSOR_FILE_SUFFIXES - used,
                               "%s%s", i ? ", " : "", rows[i].suffix);
    if (wrote < 0 || (size_t)wrote >= NABLA_TENSOR_FILE_SUFFIXES - used) return;
    used += (size_t)wrote;
  }
}

/* The row whose magic begins the file, else the one without. The file is read
 * only where a row has a magic. */
static nabla_status choose(const nabla_file *file,
                           const nabla_tensor_file_row **out,
                           nabla_diag *diag) {
  uint8_t head[MAGIC_MAX];
  size_t size = 0;
  const nabla_tensor_file_row *other = NULL;
  for (size_t i = 0; i < ROWS; i++) {
    if (!rows[i].magic) {
      other = &rows[i];
      continue;
    }
    if (!size) {
      const uint64_t all = nabla_file_size(file);
      size = all < sizeof head ? (size_t)all : sizeof head;
      NABLA_TRY(nabla_file_read(file, 0, head, size, diag));
    }
    const size_t length = strlen(rows[i].magic);
    if (length <= size && !memcmp(head, rows[i].magic, length)) {
      *out = &rows[i];
      return NABLA_OK;
    }
  }
  *out = other;
  return other ? NABLA_OK
               : nabla_fail(diag, NABLA_UNSUPPORTED,
                            "no format of tensor files fits its first bytes");
}

static nabla_status open_row(const nabla_tensor_file_row *row,
                             const nabla_allocator *allocator, nabla_file *file,
                             nabla_tensor_file **out, nabla_diag *diag) {
  void *block;
  const nabla_status status =
      nabla_alloc(allocator, 1, row->calls->size, &block, diag);
  if (status) {
    nabla_file_close(file);
    return status;
  }
  nabla_tensor_file *made = block;
  *made = (nabla_tensor_file){row, allocator, file};
  *out = made;
  return row->calls->open(made, diag);
}

nabla_status nabla_tensor_file_open(const char *path,
                                    const nabla_allocator *allocator,
                                    const nabla_os *os, nabla_tensor_file **out,
                                    nabla_diag *diag) {
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  nabla_file *file = NULL;
  nabla_tensor_file *made = NULL;
  const nabla_tensor_file_row *row = NULL;
  nabla_status status = nabla_file_open(os, allocator, path, &file, diag);
  if (!status) {
    status = choose(file, &row, diag);
    if (!status && row)
      status = open_row(row, allocator, file, &made, diag);
    else
      nabla_file_close(file);
  }
  if (!status) {
    *out = made;
    return NABLA_OK;
  }
  nabla_tensor_file_close(made);
  nabla_diag_set_file(diag, path);
  return status;
}

void nabla_tensor_file_close(nabla_tensor_file *file) {
  if (!file) return;
  const nabla_tensor_file_calls *calls = file->row->calls;
  calls->close(file);
  nabla_file_close(file->file);
  nabla_free(file->allocator, file, 1, calls->size);
}

const char *nabla_tensor_file_format(const nabla_tensor_file *file) {
  return file->row->name;
}

size_t nabla_tensor_file_count(const nabla_tensor_file *file) {
  return file->row->calls->count(file);
}

nabla_entry nabla_tensor_file_entry(const nabla_tensor_file *file,
                                    size_t index) {
  return file->row->calls->at(file, index);
}

size_t nabla_tensor_file_find(const nabla_tensor_file *file, const char *name,
                              size_t length) {
  return file->row->calls->find(file, name, length);
}

size_t nabla_tensor_file_metadata_count(const nabla_tensor_file *file) {
  return file->row->calls->metadata_count(file);
}

void nabla_tensor_file_metadata(const nabla_tensor_file *file, size_t index,
                                const char **out_key, const char **out_value) {
  file->row->calls->metadata(file, index, out_key, out_value);
}

const char *nabla_tensor_file_borrow_path(const nabla_tensor_file *file) {
  return nabla_file_borrow_path(file->file);
}

uint64_t nabla_tensor_file_size(const nabla_tensor_file *file) {
  return nabla_file_size(file->file);
}

nabla_os_info nabla_tensor_file_info(const nabla_tensor_file *file) {
  return *nabla_file_borrow_info(file->file);
}

static nabla_status read_entry(const nabla_tensor_file *file, size_t index,
                               const nabla_entry *entry, uint64_t at, void *out,
                               size_t size, nabla_diag *diag) {
  if (at > entry->bytes || size > entry->bytes - at)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%zu bytes at %" PRIu64 " lie outside its %" PRIu64, size,
                      at, entry->bytes);
  const nabla_tensor_file_calls *calls = file->row->calls;
  if (calls->read) return calls->read(file, index, at, out, size, diag);
  /* Inside the file, which the opening checked. */
  return nabla_file_read(file->file, entry->offset + at, out, size, diag);
}

nabla_status nabla_tensor_file_read(const nabla_tensor_file *file, size_t index,
                                    uint64_t at, void *out, size_t size,
                                    nabla_diag *diag) {
  NABLA_REQUIRE(file, diag);
  if (size) NABLA_REQUIRE(out, diag);
  if (index >= nabla_tensor_file_count(file))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "there is no tensor %zu",
                      index);
  const nabla_entry entry = nabla_tensor_file_entry(file, index);
  const nabla_status status =
      read_entry(file, index, &entry, at, out, size, diag);
  if (status) {
    nabla_diag_set_file(diag, nabla_file_borrow_path(file->file));
    nabla_diag_set_tensor(diag, entry.name, entry.name_length);
  }
  return status;
}

nabla_status nabla_tensor_file_check_unchanged(const nabla_tensor_file *file,
                                               nabla_diag *diag) {
  NABLA_REQUIRE(file, diag);
  return nabla_file_check_unchanged(file->file, diag);
}
