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
 * Magic, version, size and hash are checked before the body is read.
 *
 * Version 3 has a note, bytes, before the signatures. A file without any is
 * written as version 1 or 2.
 *
 * Version 2 has captured packed arrays: the dtype of such a capture is
 * UINT32_MAX, and the members of nabla_file_packed follow. A file without any
 * is written as version 1. */
#ifndef NABLA_ARRAY_FUNCTION_FILE_H
#define NABLA_ARRAY_FUNCTION_FILE_H

#include <stdbool.h>

#include "lib/base/memory.h"
#include "nabla/executable.h"
#include "nabla/function.h"

#define NABLA_FUNCTION_FILE_VERSION 3 /* the newest; 1 and 2 are read too */
/* Stands in the file for the dtype of a captured packed array. */
#define NABLA_FUNCTION_FILE_PACKED UINT32_MAX
#define NABLA_FUNCTION_FILE_HEADER ((size_t)40)
/* More entries of a list, and a longer text, are refused. */
#define NABLA_FUNCTION_FILE_MAX_LIST ((uint32_t)1 << 20)
#define NABLA_FUNCTION_FILE_MAX_TEXT ((uint32_t)1 << 16)

typedef struct nabla_file_bytes {
  const uint8_t *data;
  uint64_t size;
} nabla_file_bytes;

/* A captured packed array: the weight that holds its values. That of a view
 * is the whole; the view is the type of the argument in the program. */
typedef struct nabla_file_packed {
  const char *encoding; /* its name, or that of a GGML row; NULL: dense */
  uint32_t kind, granularity, scale, zero_point, nested_block;
  uint64_t block, segment;
  uint32_t dtype, rank;
  uint64_t shape[NABLA_ARRAY_MAX_RANK];
  uint32_t component_count;
  nabla_file_bytes components[NABLA_WEIGHT_MAX_COMPONENTS];
} nabla_file_packed;

/* A captured array: one of the two. */
typedef struct nabla_file_capture {
  nabla_file_packed packed;
  nabla_dense dense;
} nabla_file_capture;

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
  nabla_file_capture *captures;
  nabla_file_result *results;
} nabla_file_signature;

/* A function. Texts and bytes of one that was read lie in the file's bytes. */
typedef struct nabla_function_file {
  const nabla_allocator *allocator; /* of the lists */
  uint32_t version; /* 3 with a note, 2 if a packed array was captured */
  const char *name;
  uint32_t operation_count; /* names of all operations in the programs */
  uint32_t dim_count, state_count, donated_count, signature_count;
  const char **operations;
  nabla_function_dim *dims;
  nabla_function_replacement *states, *donated;
  nabla_file_bytes note;
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
