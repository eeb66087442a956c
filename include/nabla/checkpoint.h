/* A checkpoint: one file of tensors (nabla/tensor_file.h), or several with an
 * index, seen as logical tensors, dense or packed. */
#ifndef NABLA_CHECKPOINT_H
#define NABLA_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/dynamic8.h"
#include "nabla/encoding.h"
#include "nabla/environment.h"
#include "nabla/status.h"
#include "nabla/tensor_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits, each refused with NABLA_TOO_LARGE. Every shard of an open checkpoint
 * holds a file descriptor: for many shards a program raises RLIMIT_NOFILE
 * before it opens one, as nabla-quant does; else NABLA_IO (EMFILE). */
#define NABLA_CHECKPOINT_MAX_SHARDS 4096u
#define NABLA_CHECKPOINT_MAX_INDEX  100000000u /* bytes of index.json */
#define NABLA_CHECKPOINT_MAX_STATE  65536u /* bytes of a packed description */

#define NABLA_INDEX_NAME "model.safetensors.index.json"

/* How a tensor is stored (docs/FORMAT.md). */
typedef enum nabla_layout {
  NABLA_LAYOUT_DENSE,
  NABLA_LAYOUT_BITSANDBYTES,
  NABLA_LAYOUT_NABLA,
} nabla_layout;

/* "dense", "bitsandbytes" or "nabla". */
NABLA_API const char *nabla_layout_name(nabla_layout layout);

typedef struct nabla_checkpoint nabla_checkpoint;

/* Where a component lies. */
typedef struct nabla_part {
  uint32_t shard;
  size_t entry;
} nabla_part;

/* What dynamic8 scales need besides their codes. */
typedef struct nabla_nested {
  nabla_dynamic8 how;
  nabla_part absmax; /* F32, one per how.block scales */
} nabla_nested;

/* A logical tensor. Pointers live as long as the checkpoint. */
typedef struct nabla_tensor {
  const char *name;
  size_t name_length;
  nabla_dtype dtype; /* of the values: what it decodes to when packed */
  uint32_t rank;
  const uint64_t *shape;
  uint64_t elements;
  nabla_layout layout;
  nabla_format format;    /* encoding NULL when dense                       */
  nabla_part data;        /* values, or codes                               */
  nabla_part scales;      /* packed only                                    */
  nabla_part zero_points; /* with format.zero_point                         */
  const nabla_nested *nested; /* with dynamic8 scales, else NULL             */
  uint64_t stored_bytes;   /* of all components                              */
  const char *unsupported; /* NULL, or why this build cannot decode it     */
} nabla_tensor;

/* Opens `path`: a .safetensors file, an index (.json), or a folder that holds
 * model.safetensors.index.json, or model.safetensors, or exactly one file of
 * tensors. An index is checked against its shards in both
 * directions. Companion tensors are grouped with their weight and checked:
 * sizes, dtypes, descriptions.
 * @return as nabla_tensor_file_open; index and companion errors are
 *         NABLA_CORRUPT and name file and tensor; a packed format or a version
 *         that this build cannot decode sets `unsupported` on its tensor */
NABLA_API NABLA_MUST_USE nabla_status
nabla_checkpoint_open(const char *path, const nabla_environment *environment,
                      nabla_checkpoint **out, nabla_diag *diag);

NABLA_API void nabla_checkpoint_close(nabla_checkpoint *checkpoint);

NABLA_API const char *nabla_checkpoint_borrow_path(
    const nabla_checkpoint *checkpoint);

/* 1 when it was opened through an index. */
NABLA_API int nabla_checkpoint_has_index(const nabla_checkpoint *checkpoint);

/* metadata.total_size of the index.
 * @return 1 when the index has one, stored in *out */
NABLA_API int nabla_checkpoint_index_total(const nabla_checkpoint *checkpoint,
                                           uint64_t *out);

NABLA_API uint32_t
nabla_checkpoint_shard_count(const nabla_checkpoint *checkpoint);
NABLA_API const nabla_tensor_file *nabla_checkpoint_borrow_shard(
    const nabla_checkpoint *checkpoint, uint32_t shard);

/* Name of a shard's file without its folder. */
NABLA_API const char *nabla_checkpoint_shard_name(
    const nabla_checkpoint *checkpoint, uint32_t shard);

/* Logical tensors, in order of shard and offset. */
NABLA_API size_t nabla_checkpoint_count(const nabla_checkpoint *checkpoint);
NABLA_API nabla_tensor
nabla_checkpoint_tensor(const nabla_checkpoint *checkpoint, size_t index);

/* @return the index of a logical tensor, or SIZE_MAX */
NABLA_API size_t nabla_checkpoint_find(const nabla_checkpoint *checkpoint,
                                       const char *name, size_t length);

#ifdef __cplusplus
}
#endif

#endif
