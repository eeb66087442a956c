/* Inside quant/: what the files that process tiles share. */
#ifndef NABLA_QUANT_WRITE_WRITE_INTERNAL_H
#define NABLA_QUANT_WRITE_WRITE_INTERNAL_H

#include "quant/tiles/parallel_tiles.h"
#include "quant/write/write.h"

/* Fails when the output, and the scales that wait on the disk meanwhile, do not
 * fit into what is free. */
NABLA_MUST_USE nabla_status nabla_write_check_space(
    const nabla_write_task *task, const nabla_output_checkpoint *target,
    nabla_diag *diag);

/* Lists what becomes of every file tensor of output file `file`, and declares
 * it to the writer. */
NABLA_MUST_USE nabla_status nabla_file_job_list(nabla_file_job *job,
                                                nabla_output_checkpoint *target,
                                                uint32_t file,
                                                nabla_diag *diag);

/* Writes the components of a tile. */
NABLA_MUST_USE nabla_status nabla_tile_put(const nabla_file_job *job,
                                           const nabla_packed_tile *tile,
                                           nabla_diag *diag);

/* The buffers that `worker` may encode into. */
nabla_encoded *nabla_tile_buffers(const nabla_file_job *job, uint32_t worker);

/* Writes a tile in these buffers, now or later. */
NABLA_MUST_USE nabla_status nabla_tile_put_soon(nabla_file_job *job,
                                                uint32_t worker,
                                                const nabla_packed_tile *tile,
                                                nabla_diag *diag);

/* nabla_run.finish: writes what waits. */
NABLA_MUST_USE nabla_status nabla_tile_put_rest(nabla_run *run, uint32_t worker,
                                                uint64_t *out_tile,
                                                nabla_diag *diag);

/* Tile `number`, the values [first, first + count) of an ENCODE item. */
NABLA_MUST_USE nabla_status nabla_tile_encode(nabla_run *run,
                                              const nabla_packed_tile *tile,
                                              uint32_t worker,
                                              nabla_diag *diag);

/* The same of a DECODE item. */
NABLA_MUST_USE nabla_status nabla_tile_decode(nabla_run *run,
                                              const nabla_item *item,
                                              uint64_t first, uint64_t count,
                                              nabla_scratch *scratch,
                                              nabla_diag *diag);

/* Says which value cannot be encoded, by tensor, index and byte. */
NABLA_MUST_USE nabla_status nabla_value_refuse(const nabla_values *values,
                                               const nabla_format *format,
                                               nabla_status status,
                                               uint64_t index, float value,
                                               nabla_diag *diag);

/* Fills item->row_absmax of an item whose rows are cut. */
NABLA_MUST_USE nabla_status nabla_item_scan(nabla_file_job *job,
                                            nabla_item *item, nabla_diag *diag);

/* The name of what an item reads. */
const char *nabla_item_name(const nabla_file_job *job, const nabla_item *item);

#endif
