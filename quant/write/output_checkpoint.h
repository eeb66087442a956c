/* Where a written checkpoint goes: one file, or a folder of shards with an
 * index; complete under its final name or not there at all. */
#ifndef NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_H
#define NABLA_QUANT_WRITE_OUTPUT_CHECKPOINT_H

#include "nabla/quantize.h"

typedef struct nabla_target nabla_target;

/* Decides the kind of output by its path, refuses an output that is an input,
 * and starts the folder if it is one. */
NABLA_MUST_USE nabla_status nabla_target_create(
    const nabla_checkpoint *checkpoint, const nabla_write_options *where,
    const nabla_environment *environment, nabla_target **out, nabla_diag *diag);
void nabla_target_destroy(nabla_target *target);

/* Files to write; file `i` takes the input shards [*first, *end). */
uint32_t nabla_target_files(const nabla_target *target);
void nabla_target_shards(const nabla_target *target, uint32_t file,
                         uint32_t *first, uint32_t *end);

/* Starts output file `file`; stores where it is being made. */
NABLA_MUST_USE nabla_status nabla_target_begin(const nabla_target *target,
                                               uint32_t file,
                                               nabla_safetensors_writer *writer,
                                               char **out, size_t *out_size,
                                               nabla_diag *diag);

/* Notes a tensor of `file` for the index. */
NABLA_MUST_USE nabla_status nabla_target_note(nabla_target *target,
                                              uint32_t file, const char *name,
                                              size_t length, uint64_t bytes,
                                              nabla_diag *diag);

/* Fails with NABLA_IO when fewer than `needed` bytes, and those of the other
 * files, are free; says both. */
NABLA_MUST_USE nabla_status nabla_target_check_space(const nabla_target *target,
                                                     uint64_t needed,
                                                     nabla_diag *diag);

/* Writes the files beside the weights, if any were given. */
NABLA_MUST_USE nabla_status nabla_target_write_files(
    const nabla_target *target, const nabla_environment *environment,
    const nabla_progress *progress, nabla_write_summary *summary,
    nabla_diag *diag);

/* Writes the index where one is due, and gives a folder its final name. */
NABLA_MUST_USE nabla_status nabla_target_commit(nabla_target *target,
                                                nabla_diag *diag);

#endif
