/* safetensors files: a bounded reader and a streaming, atomic writer. */
#ifndef NABLA_SAFETENSORS_H
#define NABLA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/dtype.h"
#include "nabla/os.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of the reader, each refused with NABLA_TOO_LARGE. The first is the
 * format's own (safetensors/src/tensor.rs, MAX_HEADER_SIZE). */
#define NABLA_SAFETENSORS_MAX_HEADER   100000000u
#define NABLA_SAFETENSORS_MAX_NAME     4096u
#define NABLA_SAFETENSORS_MAX_RANK     32u
#define NABLA_SAFETENSORS_MAX_METADATA (16u << 20)

typedef struct nabla_safetensors nabla_safetensors;

/* One tensor of a file. Pointers live as long as the handle. */
typedef struct nabla_entry {
  const char *name; /* NUL-terminated UTF-8 without U+0000 */
  size_t name_length;
  nabla_dtype dtype;
  uint32_t rank;         /* 0 for a scalar */
  const uint64_t *shape; /* `rank` dimensions, each >= 0 */
  uint64_t elements;     /* product of the shape; 1 for rank 0 */
  uint64_t offset;       /* absolute byte offset of the data in the file */
  uint64_t bytes;        /* size of the data */
} nabla_entry;

/* Opens a file and checks all of it that can be checked without reading data:
 * header length, JSON, fields, dtypes, shapes times bits against the offsets,
 * offsets contiguous from 0 without holes or overlap, the last one at the end
 * of the file, no duplicate names. The header is read through a window: memory
 * is proportional to the tensors kept, never to white space or skipped text.
 *
 * @param allocator, os  NULL for the defaults
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  not a regular file
 *         NABLA_CORRUPT           with the byte offset in the file
 *         NABLA_TOO_LARGE         a limit above, or an overflowing product
 *         NABLA_UNSUPPORTED       a dtype this build does not know
 *         NABLA_NO_MEMORY, NABLA_IO
 * Reading calls on one handle are thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_open(
    const char *path, const nabla_allocator *allocator, const nabla_os *os,
    nabla_safetensors **out, nabla_diag *diag);

NABLA_API void nabla_safetensors_close(nabla_safetensors *file);

/* Tensors in order of their data in the file (ties, i.e. empty tensors, in
 * header order). */
NABLA_API size_t nabla_safetensors_count(const nabla_safetensors *file);
NABLA_API nabla_entry nabla_safetensors_entry(const nabla_safetensors *file,
                                              size_t index);

/* Finds a tensor by name. @return its index, or SIZE_MAX */
NABLA_API size_t nabla_safetensors_find(const nabla_safetensors *file,
                                        const char *name, size_t length);

/* The string pairs of __metadata__, in file order. */
NABLA_API size_t
nabla_safetensors_metadata_count(const nabla_safetensors *file);
NABLA_API void nabla_safetensors_metadata(const nabla_safetensors *file,
                                          size_t index, const char **out_key,
                                          const char **out_value);

NABLA_API const char *nabla_safetensors_borrow_path(
    const nabla_safetensors *file);
NABLA_API uint64_t nabla_safetensors_file_size(const nabla_safetensors *file);

/* Device and inode of the open file, to recognise it under another name. */
NABLA_API nabla_os_info nabla_safetensors_info(const nabla_safetensors *file);

/* Reads `size` bytes at byte `at` of tensor `index`; the range must lie inside
 * the tensor (NABLA_INVALID_ARGUMENT). @return also NABLA_IO, NABLA_CORRUPT
 * (file shrank). Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_safetensors_read(const nabla_safetensors *file, size_t index, uint64_t at,
                       void *out, size_t size, nabla_diag *diag);

/* NABLA_CORRUPT when the file has changed since it was opened. */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_check_unchanged(
    const nabla_safetensors *file, nabla_diag *diag);

/* The writer: declare every tensor, begin (writes the header), write ranges
 * in any order from any thread, commit. Nothing stands under the final name
 * before commit. */
typedef struct nabla_safetensors_writer nabla_safetensors_writer;

NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_writer_create(
    const nabla_allocator *allocator, const nabla_os *os,
    nabla_safetensors_writer **out, nabla_diag *diag);

/* Declares a tensor; copies name and shape. Ids count from 0 in call order.
 * @return NABLA_INVALID_ARGUMENT  empty name, or "__metadata__"
 *         NABLA_TOO_LARGE         name or rank above the reader's limits, or
 *                                 shape times bits overflows or is no whole
 *                                 number of bytes
 *         NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_writer_add(
    nabla_safetensors_writer *writer, const char *name, size_t name_length,
    nabla_dtype dtype, const uint64_t *shape, uint32_t rank, size_t *out_id,
    nabla_diag *diag);

/* Adds a pair to __metadata__ (a repeated key replaces the earlier one). */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_writer_add_metadata(
    nabla_safetensors_writer *writer, const char *key, const char *value,
    nabla_diag *diag);

/* Fixes the layout and starts the file: tensors by descending dtype (order of
 * NABLA_DTYPE_LIST) then name, metadata first in the header with keys sorted,
 * the header padded with spaces so that data starts at a multiple of 64.
 * @param force  replace an existing file
 * @return NABLA_INVALID_ARGUMENT  two tensors share a name
 *         NABLA_TOO_LARGE         the header would pass the format's limit
 *         NABLA_EXISTS, NABLA_IO, NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_safetensors_writer_begin(nabla_safetensors_writer *writer,
                               const char *path, int force, nabla_diag *diag);

/* Size that the whole file has; valid after begin. */
NABLA_API uint64_t
nabla_safetensors_writer_file_size(const nabla_safetensors_writer *writer);

/* Writes a range of tensor `id`, inside its bytes. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_writer_write(
    nabla_safetensors_writer *writer, size_t id, uint64_t at, const void *data,
    size_t size, nabla_diag *diag);

/* Refuses (NABLA_INVALID_ARGUMENT) unless as many bytes were written as were
 * declared; then syncs, renames, syncs the folder. */
NABLA_API NABLA_MUST_USE nabla_status nabla_safetensors_writer_commit(
    nabla_safetensors_writer *writer, nabla_diag *diag);

/* Frees, removing what was not committed. NULL is allowed. */
NABLA_API void nabla_safetensors_writer_destroy(
    nabla_safetensors_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
