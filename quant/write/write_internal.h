/* Inside quant/: declarations that the files for tiles share. */
#ifndef NABLA_QUANT_WRITE_WRITE_INTERNAL_H
#define NABLA_QUANT_WRITE_WRITE_INTERNAL_H

#include "quant/tiles/parallel_tiles.h"
#include "quant/write/write.h"

/* Fails if the output, and the scales that are on disk meanwhile, need more
 * than the free space. */
NABLA_MUST_USE nabla_status nabla_write_check_space(
    const nabla_write_task *task, const nabla_output_checkpoint *target,
    nabla_diag *diag);

/* Counts the bytes and tensors of the task, for progress. */
void nabla_write_count(nabla_write_task *task);

/* Writes all output files, and commits each of them. */
NABLA_MUST_USE nabla_status nabla_write_files(const nabla_write_task *task,
                                              nabla_output_checkpoint *target,
                                              nabla_write_summary *summary,
                                              nabla_diag *diag);

/* Lists the item of every tensor of output file `file`, and declares its
 * components to the writer. */
NABLA_MUST_USE nabla_status nabla_file_job_list(nabla_file_job *job,
                                                nabla_output_checkpoint *target,
                                                uint32_t file,
                                                nabla_diag *diag);

/* Writes the components of a tile. */
NABLA_MUST_USE nabla_status nabla_tile_put(const nabla_file_job *job,
                                           const nabla_packed_tile *tile,
                                           nabla_diag *diag);

/* Returns the buffers that `worker` may encode into. */
nabla_encoded *nabla_tile_buffers(const nabla_file_job *job, uint32_t worker);

/* Writes a tile in these buffers, at once or later. */
NABLA_MUST_USE nabla_status nabla_tile_put_soon(nabla_file_job *job,
                                                uint32_t worker,
                                                const nabla_packed_tile *tile,
                                                nabla_diag *diag);

/* nabla_run.finish: writes the tiles that wait. */
NABLA_MUST_USE nabla_status nabla_tile_put_rest(nabla_run *run, uint32_t worker,
                                                uint64_t *out_tile,
                                                nabla_diag *diag);

/* Encodes tile `number`, the values [first, first + count) of an ENCODE item.
 */
NABLA_MUST_USE nabla_status nabla_tile_encode(nabla_run *run,
                                              const nabla_packed_tile *tile,
                                              uint32_t worker,
                                              nabla_diag *diag);

/* Decodes the same range of a DECODE item. */
NABLA_MUST_USE nabla_status nabla_tile_decode(nabla_run *run,
                                              const nabla_item *item,
                                              uint64_t first, uint64_t count,
                                              nabla_scratch *scratch,
                                              nabla_diag *diag);

/* Reports the value that cannot be encoded, with tensor, index and byte. */
NABLA_MUST_USE nabla_status nabla_value_refuse(const nabla_values *values,
                                               const nabla_format *format,
                                               nabla_status status,
                                               uint64_t index, float value,
                                               nabla_diag *diag);

/* Fills item->row_absmax of an item whose rows are divided into tiles. */
NABLA_MUST_USE nabla_status nabla_item_scan(nabla_file_job *job,
                                            nabla_item *item, nabla_diag *diag);

/* Returns the name of the tensor that an item reads. */
const char *nabla_item_name(const nabla_file_job *job, const nabla_item *item);

#endif
