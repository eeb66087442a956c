/* The file of a saved function: a container that is free of MLIR. All numbers
 * are little-endian.
 *
 *   0   8  "NablaFun"
 *   8   4  version of the container
 *  12   4  0
 *  16   8  bytes of the body
 *  24  16  XXH3-128 of the 24 bytes before it, then the body
 *  40      body: the members of nabla_function_file in order; a list is its
 *          count (4) and its entries, a text its length (4), bytes and a NUL,
 *          bytes are their count (8) and themselves
 *
 * Magic, version, size and hash are checked before the body is read. */
#ifndef NABLA_ARRAY_FUNCTION_FILE_H
#define NABLA_ARRAY_FUNCTION_FILE_H

#include <stdbool.h>

#include "lib/base/memory.h"
#include "nabla/executable.h"
#include "nabla/function.h"

#define NABLA_FUNCTION_FILE_VERSION 1
#define NABLA_FUNCTION_FILE_HEADER  ((size_t)40)
/* More entries of a list, and a longer text, are refused. */
#define NABLA_FUNCTION_FILE_MAX_LIST ((uint32_t)1 << 20)
#define NABLA_FUNCTION_FILE_MAX_TEXT ((uint32_t)1 << 16)

typedef struct nabla_file_bytes {
  const uint8_t *data;
  uint64_t size;
} nabla_file_bytes;

/* A result: nabla_traced_result of function.h. */
typedef struct nabla_file_result {
  uint32_t dtype;     /* of a dense result, else 0      */
  const char *packed; /* its type as text; "" for dense */
  uint32_t rank;
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  uint32_t leaf[NABLA_ARRAY_MAX_RANK], dim[NABLA_ARRAY_MAX_RANK];
  uint32_t donor, is_open;
} nabla_file_result;

/* A signature. */
typedef struct nabla_file_signature {
  const char *text; /* "x: tensor<3xf32>, ..." for messages */
  nabla_file_bytes key, bytecode;
  uint32_t policy, argument_count;
  uint32_t capture_count, result_count;
  nabla_dense *captures;
  nabla_file_result *results;
} nabla_file_signature;

/* A function. Texts and bytes of one that was read lie in the file's bytes. */
typedef struct nabla_function_file {
  const nabla_allocator *allocator; /* of the lists */
  const char *name;
  uint32_t operation_count; /* names of all operations in the programs */
  uint32_t dim_count, state_count, donated_count, signature_count;
  const char **operations;
  nabla_function_dim *dims;
  nabla_function_replacement *states, *donated;
  nabla_file_signature *signatures;
} nabla_function_file;

/* Reads a file whose `size` bytes are `data`. nabla_function_file_deinit also
 * after a failure.
 * @return NABLA_OK
 *         NABLA_CORRUPT      with the offset of the byte that is wrong
 *         NABLA_UNSUPPORTED  another version
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_function_file_read(
    nabla_function_file *file, const nabla_allocator *allocator,
    const uint8_t *data, size_t size, nabla_diag *diag);
void nabla_function_file_deinit(nabla_function_file *file);

/* Appends the file to `out`, which is empty. */
NABLA_MUST_USE nabla_status nabla_function_file_write(
    const nabla_function_file *file, nabla_buffer *out, nabla_diag *diag);

#endif
