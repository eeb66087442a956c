/* Declarations that the files of the output checkpoint share. */
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
  const nabla_folder *files_beside; /* files to write beside the weights, or
                                     * NULL */
  nabla_buffer accepted; /* paths in the old folder that may be removed, each
                          * with NUL */
  nabla_buffer names;    /* for the index: u32 file, name, NUL */
  uint64_t total;        /* bytes of all noted tensors         */
};

/* Name of output file `file`. */
const char *nabla_output_checkpoint_file_name(
    const nabla_output_checkpoint *target, uint32_t file);

/* Returns the permissions that all shards from `first` to before `end` have. */
unsigned nabla_output_checkpoint_permissions(
    const nabla_output_checkpoint *target, uint32_t first, uint32_t end);

/* "FOLDER/NAME", allocated. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_join(
    const nabla_output_checkpoint *target, const char *folder, const char *name,
    char **out, size_t *out_size, nabla_diag *diag);

/* Describes the file or folder at `path`, if it exists. Any error but "does not
 * exist" fails, because the result protects the input. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_look(
    const nabla_output_checkpoint *target, const char *path, nabla_os_info *out,
    int *out_exists, nabla_diag *diag);

NABLA_MUST_USE nabla_status
nabla_output_checkpoint_refuse_input(const char *path, nabla_diag *diag);

/* Fills `accepted`, or refuses to replace an existing folder if more than a
 * model would be lost. An empty folder may always be replaced, another one only
 * with `force`, and one that contains an input never. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_check_replaceable(
    nabla_output_checkpoint *target, const nabla_environment *environment,
    nabla_diag *diag);

/* The function of nabla_output_owner: accepts the paths in `accepted` and those
 * that this run writes. */
int nabla_output_checkpoint_owns(void *self, const char *path, int is_folder);

#endif
