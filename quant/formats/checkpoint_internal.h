/* What the files that build a checkpoint share. */
#ifndef NABLA_QUANT_FORMATS_CHECKPOINT_INTERNAL_H
#define NABLA_QUANT_FORMATS_CHECKPOINT_INTERNAL_H

#include "lib/base/memory.h"
#include "nabla/checkpoint.h"
#include "quant/formats/packed.h"

#define NABLA_NOT_PACKED UINT32_MAX

typedef struct nabla_checkpoint_part {
  nabla_tensor_file *file;
  char *name; /* without folder */
} nabla_checkpoint_part;

/* One logical tensor, small: a file may hold two million. */
typedef struct nabla_head {
  uint32_t shard, entry;
  uint32_t packed; /* index in `packed`, or NABLA_NOT_PACKED */
} nabla_head;

/* What a head needs in addition when it is packed. */
typedef struct nabla_packed_entry {
  nabla_part data, scales, zero_points;
  nabla_dtype dtype;
  nabla_layout layout;
  nabla_format format;
  uint32_t rank;
  uint32_t shape;  /* index of the first dimension in `shapes` */
  uint32_t nested; /* index in `nested`, with dynamic8 scales  */
  uint64_t elements;
  uint64_t stored_bytes;
  char unsupported[96];
} nabla_packed_entry;

/* Takes the problems of a checkpoint that is read on behind them. */
typedef struct nabla_problems {
  void (*note)(void *self, nabla_status status, const nabla_diag *diag);
  void *self;
} nabla_problems;

struct nabla_checkpoint {
  const nabla_allocator *allocator;
  const nabla_os *os;
  const nabla_problems *problems; /* NULL: the first one ends the opening */
  char *path;
  size_t path_size;
  int has_index, has_total;
  uint64_t total;
  nabla_checkpoint_part *shards; /* `shard_count` of them, sorted by name */
  uint32_t shard_count;
  nabla_buffer heads;  /* nabla_head, sorted by (shard, entry)   */
  nabla_buffer packed; /* nabla_packed_entry, sorted by data part      */
  nabla_buffer shapes; /* uint64_t                               */
  nabla_buffer nested; /* nabla_nested                           */
};

/* Opens what can be opened: shards, entries of the index and packed weights
 * with a problem are noted and left out. Fails where nothing is left to look
 * at, and when memory runs out. */
NABLA_MUST_USE nabla_status nabla_checkpoint_open_noting(
    const char *path, const nabla_environment *environment,
    const nabla_problems *problems, nabla_checkpoint **out, nabla_diag *diag);

/* Notes a problem. @return `status`, or NABLA_OK where reading goes on */
NABLA_MUST_USE nabla_status
nabla_checkpoint_note(const nabla_checkpoint *checkpoint, nabla_status status,
                      const nabla_diag *diag);

/* Copies `size` bytes and a NUL with the checkpoint's allocator. */
NABLA_MUST_USE nabla_status
nabla_checkpoint_copy_text(const nabla_checkpoint *checkpoint, const char *text,
                           size_t size, char **out, nabla_diag *diag);

/* Reads index `path` and opens its shards, which lie in `folder` (with a
 * trailing slash, or ""); checks both directions. */
NABLA_MUST_USE nabla_status
nabla_checkpoint_read_index(nabla_checkpoint *checkpoint, const char *path,
                            const char *folder, nabla_diag *diag);

/* Opens one more shard; `name` must be new. */
NABLA_MUST_USE nabla_status
nabla_checkpoint_add_shard(nabla_checkpoint *checkpoint, const char *folder,
                           const char *name, nabla_diag *diag);

/* Fills heads, packed and shapes from the open shards. */
NABLA_MUST_USE nabla_status nabla_checkpoint_group(nabla_checkpoint *checkpoint,
                                                   nabla_diag *diag);

/* Finds a file tensor by name, looking in `first` before the other shards.
 * @return 1 when found */
int nabla_checkpoint_find_entry(const nabla_checkpoint *checkpoint,
                                uint32_t first, const char *name, size_t length,
                                nabla_part *out);

/* Adds a tensor's name and file to a diag. Returns `status`. */
nabla_status nabla_checkpoint_blame(const nabla_checkpoint *checkpoint,
                                    const nabla_tensor *tensor,
                                    nabla_status status, nabla_diag *diag);

/* The logical tensor whose data is at a file tensor; SIZE_MAX for companions.
 */
size_t nabla_checkpoint_find_at(const nabla_checkpoint *checkpoint,
                                uint32_t shard, size_t entry);

/* Says whether a logical tensor is packed. */
int nabla_checkpoint_is_packed(const nabla_checkpoint *checkpoint,
                               size_t index);

#endif
