/* What the files of the target share. */
#ifndef NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_INTERNAL_H
#define NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_INTERNAL_H

#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "quant/huggingface/folder.h"
#include "quant/write/output_checkpoint.h"

struct nabla_output_checkpoint {
  const nabla_allocator *allocator;
  const nabla_os *os;
  const nabla_checkpoint *checkpoint;
  char *path; /* of the file or the folder, without trailing slashes */
  size_t path_size;
  const char *index_name; /* NULL: no index; borrowed from the caller */
  int is_folder, force;
  uint32_t files;
  nabla_output_folder *folder;
  const nabla_folder *files_beside; /* to write as well, or NULL */
  nabla_buffer
      accepted;       /* paths in the old folder that may go, each with NUL */
  nabla_buffer names; /* for the index: u32 file, name, NUL */
  uint64_t total;     /* bytes of all noted tensors         */
};

/* Name of output file `file`. */
const char *nabla_output_checkpoint_file_name(
    const nabla_output_checkpoint *target, uint32_t file);

/* Permissions that all shards from `first` to before `end` have. */
unsigned nabla_output_checkpoint_permissions(
    const nabla_output_checkpoint *target, uint32_t first, uint32_t end);

/* "FOLDER/NAME", allocated. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_join(
    const nabla_output_checkpoint *target, const char *folder, const char *name,
    char **out, size_t *out_size, nabla_diag *diag);

/* What is at `path`, if anything; only that there is nothing may pass for
 * that, since what follows protects the input. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_look(
    const nabla_output_checkpoint *target, const char *path, nabla_os_info *out,
    int *out_exists, nabla_diag *diag);

NABLA_MUST_USE nabla_status
nabla_output_checkpoint_refuse_input(const char *path, nabla_diag *diag);

/* An existing folder is replaced only when nothing is lost but a model: an
 * empty one always, another with `force`, one with an input never. Fills
 * `accepted`. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_check_replaceable(
    nabla_output_checkpoint *target, const nabla_environment *environment,
    nabla_diag *diag);

/* For nabla_output_owner: what was accepted, and what this run writes. */
int nabla_output_checkpoint_owns(void *self, const char *path, int is_folder);

#endif
