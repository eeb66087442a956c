/* Internal to quant/: writes a checkpoint in which some tensors are encoded or
 * decoded and the others copied, tile by tile. Some of the functions are
 * defined in quantize.c. */
#ifndef NABLA_QUANT_WRITE_WRITE_H
#define NABLA_QUANT_WRITE_WRITE_H

#include <pthread.h>

#include "nabla/quantize.h"
#include "quant/formats/packed.h"
#include "quant/plan/plan.h"
#include "quant/tiles/tensor_reader.h"
#include "quant/write/output_checkpoint.h"
#include "quant/write/spill.h"

/* The task: exactly one of `plan` and `dequantize` is set. */
typedef struct nabla_write_task {
  const nabla_checkpoint *checkpoint;
  const nabla_environment *environment;
  const nabla_plan *plan;
  const nabla_dequantize_options *dequantize;
  nabla_dtype dtype; /* dequantize: for tensors whose files do not record theirs
                      */
  nabla_isa isa;
  nabla_layout layout;                 /* of encoded tensors, and its label */
  uint64_t bytes_out;                  /* tensor data, to check free space */
  uint64_t bytes_total, tensors_total; /* of input, for progress */
  /* quant/write/parts.h. `parts` 0: the output is whole, or joined of the files
   * `joined` */
  uint32_t parts, joined_count;
  uint64_t part_first, part_end; /* bytes of the source */
  const char *part_label;        /* in the metadata of a part; else NULL */
  nabla_tensor_file *const *joined;
} nabla_write_task;

NABLA_MUST_USE nabla_status nabla_write_checkpoint(
    const nabla_write_task *task, const nabla_write_options *where,
    nabla_write_summary *out, nabla_diag *diag);

typedef enum nabla_item_kind {
  NABLA_ITEM_COPY,   /* one entry of a file, unchanged */
  NABLA_ITEM_ENCODE, /* one logical tensor, to codes   */
  NABLA_ITEM_DECODE, /* one logical tensor, to floats  */
} nabla_item_kind;

/* One tensor to copy, encode or decode. Kept small: a file may have two million
 * of them. */
typedef struct nabla_item {
  uint32_t kind;
  uint32_t shard; /* COPY                                     */
  uint64_t index; /* entry of the shard, or logical tensor    */
  size_t id;      /* the writer's id of the first component   */
  union {
    uint64_t spill;  /* ENCODE with dynamic8: index of its first f32 scale   */
    uint64_t packed; /* COPY of codes: 1 + index of their tensor; else 0     */
  };
  _Atomic uint32_t *row_absmax; /* f32 bits; NULL: no row is cut */
} nabla_item;

/* An encoded tile: codes and scales of the values [first, first + count) of an
 * item. */
typedef struct nabla_packed_tile {
  const nabla_item *item; /* NULL: none */
  uint64_t number;        /* of the tile */
  uint64_t first, count;
  nabla_packed packed;
} nabla_packed_tile;

/* The work for one output file. */
typedef struct nabla_file_job {
  const nabla_write_task *task;
  nabla_safetensors_writer *writer;
  nabla_item *items;
  size_t count, room;
  uint64_t *first_tile; /* count + 1 */
  nabla_scratch *scratches;
  nabla_packed_tile *waiting; /* each worker's unwritten tile: write_put.c  */
  pthread_mutex_t *turn;      /* held by the worker that writes             */
  uint32_t workers;
  uint64_t tile;      /* elements */
  nabla_spill *spill; /* holds `spilled` f32 scales, or NULL */
  uint64_t spilled;
  uint64_t bytes_before, tensors_before; /* done for earlier files */
} nabla_file_job;

nabla_tiling nabla_item_tiling(const nabla_file_job *job,
                               const nabla_item *item);

/* Returns the dtype to which a packed tensor decodes. */
nabla_dtype nabla_write_dtype(const nabla_write_task *task,
                              const nabla_tensor *tensor);

/* Returns the packed format of an item: of the output for ENCODE, of the input
 * for DECODE. */
nabla_format nabla_item_format(const nabla_file_job *job,
                               const nabla_item *item);

/* Writes the dynamic8 scales; called after all tiles are done. */
NABLA_MUST_USE nabla_status nabla_file_job_nest(nabla_file_job *job,
                                                nabla_diag *diag);

/* Runs all tiles of the job. */
NABLA_MUST_USE nabla_status nabla_file_job_run(nabla_file_job *job,
                                               nabla_diag *diag);

#endif
