/* Writes the components of encoded tiles. The kernel admits one writer of a
 * file at a time: a worker that finds another one writing encodes its next tile
 * and then writes both. */
#include "lib/base/bytes.h"
#include "quant/codec/codec.h"
#include "quant/write/write_internal.h"

/* Files are little-endian. */
static void swap_scales(nabla_scale_type type, void *scales, uint64_t count) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  const size_t width = nabla_scale_info_of(type)->bytes;
  uint8_t *at = scales;
  for (uint64_t i = 0; i < count; i++, at += width)
    for (size_t b = 0; b < width / 2; b++) {
      const uint8_t low = at[b];
      at[b] = at[width - 1 - b];
      at[width - 1 - b] = low;
    }
#else
  (void)type;
  (void)scales;
  (void)count;
#endif
}

/* Writes the scales of a tile. All pieces of a row share its scale, which the
 * first piece writes. */
static nabla_status put_scales(const nabla_file_job *job,
                               const nabla_packed_tile *tile,
                               const nabla_format *format, nabla_diag *diag) {
  const nabla_item *item = tile->item;
  const nabla_packed *packed = &tile->packed;
  const size_t width = nabla_scale_width(format);
  const uint64_t scale = nabla_scale_index(format, tile->first);
  const uint64_t count = nabla_scale_span(format, tile->first, tile->count);
  if (item->row_absmax && tile->first % format->block) return NABLA_OK;
  if (packed->zero_points)
    NABLA_TRY(nabla_safetensors_writer_write(job->writer, item->id + 2, scale,
                                             packed->zero_points, (size_t)count,
                                             diag));
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    return nabla_spill_write(job->spill, item->spill + scale, packed->scales,
                             (size_t)count, diag);
  swap_scales(format->scale, packed->scales, count);
  return nabla_safetensors_writer_write(job->writer, item->id + 1,
                                        scale * width, packed->scales,
                                        (size_t)count * width, diag);
}

nabla_status nabla_tile_put(const nabla_file_job *job,
                            const nabla_packed_tile *tile, nabla_diag *diag) {
  const nabla_format format = nabla_item_format(job, tile->item);
  NABLA_TRY(nabla_safetensors_writer_write(
      job->writer, tile->item->id, nabla_code_offset(&format, tile->first),
      tile->packed.codes, (size_t)nabla_code_bytes(&format, tile->count),
      diag));
  return put_scales(job, tile, &format, diag);
}

nabla_encoded *nabla_tile_buffers(const nabla_file_job *job, uint32_t worker) {
  nabla_encoded *both = job->scratches[worker].encoded;
  const nabla_packed_tile *waiting = &job->waiting[worker];
  return waiting->item && waiting->packed.codes == both[0].codes ? &both[1]
                                                                 : &both[0];
}

/* Writes the waiting tile. The caller holds job->turn. */
static nabla_status put_waiting(nabla_file_job *job, uint32_t worker,
                                nabla_diag *diag) {
  nabla_packed_tile *waiting = &job->waiting[worker];
  if (!waiting->item) return NABLA_OK;
  NABLA_TRY(nabla_tile_put(job, waiting, diag));
  waiting->item = NULL;
  return NABLA_OK;
}

nabla_status nabla_tile_put_soon(nabla_file_job *job, uint32_t worker,
                                 const nabla_packed_tile *tile,
                                 nabla_diag *diag) {
  if (pthread_mutex_trylock(job->turn)) {
    if (!job->waiting[worker].item) {
      job->waiting[worker] = *tile;
      return NABLA_OK;
    }
    pthread_mutex_lock(job->turn);
  }
  nabla_status status = put_waiting(job, worker, diag);
  if (!status) status = nabla_tile_put(job, tile, diag);
  pthread_mutex_unlock(job->turn);
  return status;
}

nabla_status nabla_tile_put_rest(nabla_run *run, uint32_t worker,
                                 uint64_t *out_tile, nabla_diag *diag) {
  nabla_file_job *job = run->self;
  *out_tile = job->waiting[worker].number;
  pthread_mutex_lock(job->turn);
  nabla_status status = put_waiting(job, worker, diag);
  pthread_mutex_unlock(job->turn);
  job->waiting[worker].item = NULL;
  return status;
}
