/* safetensors files: limits of the reader (nabla/tensor_file.h) and a
 * streaming, atomic writer. */
#ifndef NABLA_SAFETENSORS_H
#define NABLA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/dtype.h"
#include "nabla/os.h"
#include "nabla/status.h"
#include "nabla/tensor_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of the reader, each refused with NABLA_TOO_LARGE. The first is the
 * format's own (safetensors/src/tensor.rs, MAX_HEADER_SIZE). */
#define NABLA_SAFETENSORS_MAX_HEADER   100000000u
#define NABLA_SAFETENSORS_MAX_METADATA (16u << 20)

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
