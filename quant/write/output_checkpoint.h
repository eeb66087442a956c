/* The destination of a written checkpoint: one file, or a folder of shards with
 * an index. It is complete under its final name, or not there at all. */
#ifndef NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_H
#define NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_H

#include "nabla/quantize.h"
#include "nabla/safetensors.h"

typedef struct nabla_output_checkpoint nabla_output_checkpoint;

/* Decides by the path whether the output is a file or a folder, refuses an
 * output that is an input, and starts the folder. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_create(
    const nabla_checkpoint *checkpoint, const nabla_write_options *where,
    const nabla_environment *environment, nabla_output_checkpoint **out,
    nabla_diag *diag);
void nabla_output_checkpoint_destroy(nabla_output_checkpoint *target);

/* 1 if an output of that path is a file, 0 if it is a folder. */
int nabla_output_checkpoint_is_file(const char *path);

/* Gives an output that is a file another path. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_rename(
    nabla_output_checkpoint *target, const char *path, nabla_diag *diag);

/* Returns the number of files to write; file `i` takes the input shards
 * [*first, *end). */
uint32_t nabla_output_checkpoint_files(const nabla_output_checkpoint *target);
void nabla_output_checkpoint_shards(const nabla_output_checkpoint *target,
                                    uint32_t file, uint32_t *first,
                                    uint32_t *end);

/* Starts output file `file`; returns the path at which it is made. */
NABLA_MUST_USE nabla_status
nabla_output_checkpoint_begin(const nabla_output_checkpoint *target,
                              uint32_t file, nabla_safetensors_writer *writer,
                              char **out, size_t *out_size, nabla_diag *diag);

/* Adds a tensor of `file` to the index. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_note(
    nabla_output_checkpoint *target, uint32_t file, const char *name,
    size_t length, uint64_t bytes, nabla_diag *diag);

/* Fails with NABLA_IO if less than `needed` bytes plus those of the other files
 * are free; the message has both numbers. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_check_space(
    const nabla_output_checkpoint *target, uint64_t needed, nabla_diag *diag);

/* Writes the files beside the weights, if any were given. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_write_files(
    const nabla_output_checkpoint *target, const nabla_environment *environment,
    const nabla_progress *progress, nabla_write_summary *summary,
    nabla_diag *diag);

/* Writes the index if there is one, and gives a folder its final name. */
NABLA_MUST_USE nabla_status nabla_output_checkpoint_commit(
    nabla_output_checkpoint *target, nabla_diag *diag);

#endif
