/* A file of named tensors, whatever its format: safetensors, and the other rows
 * of quant/formats/formats.def. */
#ifndef NABLA_TENSOR_FILE_H
#define NABLA_TENSOR_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/dtype.h"
#include "nabla/os.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nabla_tensor_file nabla_tensor_file;

/* Limits of every format, refused with NABLA_TOO_LARGE. */
#define NABLA_TENSOR_FILE_MAX_NAME 4096u
#define NABLA_TENSOR_FILE_MAX_RANK 32u

/* The offset of a tensor whose bytes are not in the file as they are (for
 * example compressed): nabla_tensor_file_read makes them. */
#define NABLA_OFFSET_NONE UINT64_MAX

/* One tensor of a file. Pointers live as long as the handle. */
typedef struct nabla_entry {
  const char *name; /* NUL-terminated UTF-8 without U+0000 */
  size_t name_length;
  nabla_dtype dtype;
  uint32_t rank;         /* 0 for a scalar */
  const uint64_t *shape; /* `rank` dimensions, each >= 0 */
  uint64_t elements;     /* product of the shape; 1 for rank 0 */
  uint64_t offset;       /* absolute byte offset of the data in the file, where
                            a program may map them; NABLA_OFFSET_NONE */
  uint64_t bytes;        /* size of the data */
} nabla_entry;

/* Opens a file in the format that its first bytes name, by default safetensors,
 * and checks all of it that can be checked without reading data. Of safetensors
 * files: header length, JSON, fields, dtypes, shapes times bits against the
 * offsets, offsets contiguous from 0 without holes or overlap, the last one at
 * the end of the file, no duplicate names. The header is read through a window:
 * memory is proportional to the tensors kept, never to white space or skipped
 * text.
 *
 * @param allocator, os  NULL for the defaults
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  not a regular file
 *         NABLA_CORRUPT           with the byte offset in the file
 *         NABLA_TOO_LARGE         a limit of the format (nabla/safetensors.h),
 *                                 or an overflowing product
 *         NABLA_UNSUPPORTED       a dtype this build does not know
 *         NABLA_NO_MEMORY, NABLA_IO
 * Reading calls on one handle are thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tensor_file_open(
    const char *path, const nabla_allocator *allocator, const nabla_os *os,
    nabla_tensor_file **out, nabla_diag *diag);

NABLA_API void nabla_tensor_file_close(nabla_tensor_file *file);

/* Name of the format, "safetensors" for one; static text. */
NABLA_API const char *nabla_tensor_file_format(const nabla_tensor_file *file);

/* Tensors in order of their data in the file (ties, i.e. empty tensors, in
 * header order). */
NABLA_API size_t nabla_tensor_file_count(const nabla_tensor_file *file);
NABLA_API nabla_entry nabla_tensor_file_entry(const nabla_tensor_file *file,
                                              size_t index);

/* Finds a tensor by name. @return its index, or SIZE_MAX */
NABLA_API size_t nabla_tensor_file_find(const nabla_tensor_file *file,
                                        const char *name, size_t length);

/* Pairs of text that describe the file (__metadata__ of safetensors), in file
 * order. */
NABLA_API size_t
nabla_tensor_file_metadata_count(const nabla_tensor_file *file);
NABLA_API void nabla_tensor_file_metadata(const nabla_tensor_file *file,
                                          size_t index, const char **out_key,
                                          const char **out_value);

NABLA_API const char *nabla_tensor_file_borrow_path(
    const nabla_tensor_file *file);
NABLA_API uint64_t nabla_tensor_file_size(const nabla_tensor_file *file);

/* Device and inode of the open file, to recognise it under another name. */
NABLA_API nabla_os_info nabla_tensor_file_info(const nabla_tensor_file *file);

/* Reads `size` bytes at byte `at` of tensor `index`; the range must lie inside
 * the tensor (NABLA_INVALID_ARGUMENT). @return also NABLA_IO, NABLA_CORRUPT
 * (file shrank). Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tensor_file_read(const nabla_tensor_file *file, size_t index, uint64_t at,
                       void *out, size_t size, nabla_diag *diag);

/* NABLA_CORRUPT when the file has changed since it was opened. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tensor_file_check_unchanged(
    const nabla_tensor_file *file, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
