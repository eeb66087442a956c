/* Writes a checkpoint: for each output file a list of items, the header, the
 * small components, the tiles, the commit. */
#include "quant/write/write.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/codec/codec.h"
#include "quant/write/parts.h"
#include "quant/write/write_internal.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const nabla_allocator *allocator_of(const nabla_write_task *task) {
  return task->environment ? task->environment->allocator : NULL;
}

/* Returns the highest version of the layout among the weights of the output. */
static uint32_t newest_version(const nabla_file_job *job) {
  const nabla_write_task *task = job->task;
  uint32_t newest = 1;
  for (size_t i = 0; i < nabla_checkpoint_count(task->checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(task->checkpoint, i);
    const nabla_format *format = tensor.layout == NABLA_LAYOUT_DENSE
                                     ? nabla_plan_format(task->plan, i)
                                     : &tensor.format;
    if (format->encoding && nabla_layout_version(format) > newest)
      newest = nabla_layout_version(format);
  }
  return newest;
}

/* Copies the metadata of the sources without labels of Nabla, then adds the
 * labels (F2). Hugging Face's loader requires a "format" in files with
 * metadata. */
static nabla_status add_metadata(nabla_file_job *job,
                                 const nabla_output_checkpoint *target,
                                 uint32_t file, nabla_diag *diag) {
  uint32_t first, end;
  int has_format = 0;
  nabla_output_checkpoint_shards(target, file, &first, &end);
  for (uint32_t shard = first; shard < end; shard++) {
    const nabla_tensor_file *source =
        nabla_checkpoint_borrow_shard(job->task->checkpoint, shard);
    for (size_t i = 0; i < nabla_tensor_file_metadata_count(source); i++) {
      const char *key, *value;
      nabla_tensor_file_metadata(source, i, &key, &value);
      has_format |= !strcmp(key, "format");
      if (!strncmp(key, NABLA_LABEL_PREFIX, strlen(NABLA_LABEL_PREFIX)))
        continue;
      NABLA_TRY(
          nabla_safetensors_writer_add_metadata(job->writer, key, value, diag));
    }
  }
  if (job->task->part_label)
    NABLA_TRY(nabla_safetensors_writer_add_metadata(
        job->writer, NABLA_LABEL_PART, job->task->part_label, diag));
  if (job->task->layout == NABLA_LAYOUT_DENSE) return NABLA_OK;
  if (!has_format)
    NABLA_TRY(nabla_safetensors_writer_add_metadata(job->writer, "format", "pt",
                                                    diag));
  NABLA_TRY(nabla_safetensors_writer_add_metadata(
      job->writer, NABLA_LABEL_LAYOUT, nabla_layout_name(job->task->layout),
      diag));
  if (job->task->layout != NABLA_LAYOUT_NABLA) return NABLA_OK;
  char version[16];
  snprintf(version, sizeof version, "%u", newest_version(job));
  return nabla_safetensors_writer_add_metadata(job->writer, NABLA_LABEL_VERSION,
                                               version, diag);
}

static nabla_status put_table(nabla_file_job *job, const nabla_format *format,
                              size_t id, nabla_diag *diag) {
  uint8_t bytes[NABLA_TABLE_VALUES * 4];
  float table[NABLA_TABLE_VALUES];
  nabla_encoding_table(format->encoding, table);
  for (int i = 0; i < NABLA_TABLE_VALUES; i++)
    nabla_store_le32(bytes + 4 * i, nabla_bits_of_f32(table[i]));
  return nabla_safetensors_writer_write(job->writer, id, 0, bytes, sizeof bytes,
                                        diag);
}

static nabla_status put_description(nabla_file_job *job,
                                    const nabla_tensor *tensor,
                                    const nabla_format *format, size_t id,
                                    nabla_diag *diag) {
  nabla_description_text text = {.size = 0};
  NABLA_TRY(nabla_description_write(tensor, format, job->task->layout, 0, &text,
                                    diag));
  return nabla_safetensors_writer_write(job->writer, id, 0, text.data,
                                        text.size, diag);
}

/* Writes all components of a weight but codes and scales. */
static nabla_status put_small(nabla_file_job *job, const nabla_item *item,
                              nabla_diag *diag) {
  const nabla_tensor tensor =
      nabla_checkpoint_tensor(job->task->checkpoint, item->index);
  const nabla_format format = nabla_item_format(job, item);
  nabla_components parts;
  NABLA_TRY(
      nabla_components_of(&tensor, &format, job->task->layout, &parts, diag));
  for (size_t c = 0; c < parts.count; c++) {
    const nabla_component_kind kind = parts.item[c].kind;
    const size_t id = item->id + c;
    nabla_status status = NABLA_OK;
    if (kind == NABLA_COMPONENT_TABLE)
      status = put_table(job, &format, id, diag);
    else if (kind == NABLA_COMPONENT_ROW_FORMAT)
      status = nabla_safetensors_writer_write(job->writer, id, 0, "", 1, diag);
    else if (kind == NABLA_COMPONENT_DESCRIPTION &&
             !nabla_description_is_late(&format, job->task->layout))
      status = put_description(job, &tensor, &format, id, diag);
    if (status) return status;
  }
  return NABLA_OK;
}

static nabla_status put_small_parts(nabla_file_job *job, nabla_diag *diag) {
  for (size_t i = 0; i < job->count; i++)
    if (job->items[i].kind == NABLA_ITEM_ENCODE)
      NABLA_TRY(put_small(job, &job->items[i], diag));
  return NABLA_OK;
}

static nabla_status begin(nabla_file_job *job,
                          const nabla_output_checkpoint *target, uint32_t file,
                          nabla_diag *diag) {
  char *path;
  size_t size;
  NABLA_TRY(nabla_output_checkpoint_begin(target, file, job->writer, &path,
                                          &size, diag));
  nabla_status status = NABLA_OK;
  const nabla_environment *environment = job->task->environment;
  if (job->spilled)
    status = nabla_spill_create(allocator_of(job->task),
                                environment ? environment->os : NULL, path,
                                job->spilled, &job->spill, diag);
  nabla_free(allocator_of(job->task), path, size, 1);
  return status;
}

static nabla_status check_sources(const nabla_file_job *job,
                                  const nabla_output_checkpoint *target,
                                  uint32_t file, nabla_diag *diag) {
  uint32_t first, end;
  nabla_output_checkpoint_shards(target, file, &first, &end);
  for (uint32_t shard = first; shard < end; shard++)
    NABLA_TRY(nabla_tensor_file_check_unchanged(
        nabla_checkpoint_borrow_shard(job->task->checkpoint, shard), diag));
  return NABLA_OK;
}

static nabla_status commit(nabla_file_job *job, nabla_write_summary *summary,
                           nabla_diag *diag) {
  const nabla_progress progress = {.phase = "sync",
                                   .bytes_done = job->bytes_before,
                                   .bytes_total = job->task->bytes_total,
                                   .tensors_done = job->tensors_before,
                                   .tensors_total = job->task->tensors_total};
  NABLA_TRY(nabla_run_report(job->task->environment, &progress, diag));
  const double start = now();
  NABLA_TRY(nabla_safetensors_writer_commit(job->writer, diag));
  summary->sync_seconds += now() - start;
  summary->bytes_out += nabla_safetensors_writer_file_size(job->writer);
  summary->files++;
  return NABLA_OK;
}

static nabla_status make_tensors(nabla_file_job *job, nabla_diag *diag) {
  NABLA_TRY(put_small_parts(job, diag));
  NABLA_TRY(nabla_file_job_run(job, diag));
  return nabla_file_job_nest(job, diag);
}

static nabla_status fill(nabla_file_job *job, nabla_output_checkpoint *target,
                         uint32_t file, nabla_write_summary *summary,
                         nabla_diag *diag) {
  NABLA_TRY(nabla_file_job_list(job, target, file, diag));
  NABLA_TRY(add_metadata(job, target, file, diag));
  if (job->task->joined) job->spilled = 0;
  NABLA_TRY(begin(job, target, file, diag));
  NABLA_TRY(job->task->joined ? nabla_part_copy(job, diag)
                              : make_tensors(job, diag));
  NABLA_TRY(check_sources(job, target, file, diag));
  return commit(job, summary, diag);
}

static size_t count_entries(const nabla_write_task *task,
                            const nabla_output_checkpoint *target,
                            uint32_t file) {
  uint32_t first, end;
  size_t count = 0;
  nabla_output_checkpoint_shards(target, file, &first, &end);
  for (uint32_t shard = first; shard < end; shard++)
    count += nabla_tensor_file_count(
        nabla_checkpoint_borrow_shard(task->checkpoint, shard));
  return count;
}

static void free_items(const nabla_file_job *job) {
  for (size_t i = 0; job->items && i < job->count; i++) {
    if (!job->items[i].row_absmax) continue;
    const nabla_tiling tiling = nabla_item_tiling(job, &job->items[i]);
    nabla_free(allocator_of(job->task), job->items[i].row_absmax,
               (size_t)(tiling.elements / tiling.row), sizeof(uint32_t));
  }
  nabla_free(allocator_of(job->task), job->items, job->room,
             sizeof(nabla_item));
  nabla_free(allocator_of(job->task), job->first_tile, job->room + 1,
             sizeof(uint64_t));
}

/* One output file, with scratches that all files share. */
static nabla_status write_file(nabla_file_job *job,
                               nabla_output_checkpoint *target, uint32_t file,
                               nabla_write_summary *summary, nabla_diag *diag) {
  const nabla_write_task *task = job->task;
  void *block;
  job->count = 0;
  job->room = count_entries(task, target, file);
  job->items = NULL;
  job->first_tile = NULL;
  job->writer = NULL;
  job->spill = NULL;
  job->spilled = 0;
  nabla_status status = nabla_alloc(allocator_of(task), job->room,
                                    sizeof(nabla_item), &block, diag);
  if (!status) {
    job->items = block;
    status = nabla_alloc(allocator_of(task), job->room + 1, sizeof(uint64_t),
                         &block, diag);
  }
  if (!status) {
    job->first_tile = block;
    status = nabla_safetensors_writer_create(
        allocator_of(task), task->environment ? task->environment->os : NULL,
        &job->writer, diag);
  }
  if (!status) status = fill(job, target, file, summary, diag);
  nabla_safetensors_writer_destroy(job->writer);
  nabla_spill_destroy(job->spill);
  free_items(job);
  return status;
}

nabla_status nabla_write_files(const nabla_write_task *task,
                               nabla_output_checkpoint *target,
                               nabla_write_summary *summary, nabla_diag *diag) {
  nabla_file_job job = {.task = task};
  pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
  void *waiting;
  job.turn = &turn;
  job.workers = nabla_run_workers(task->environment);
  job.tile = nabla_tile_for(job.workers);
  NABLA_TRY(nabla_alloc(allocator_of(task), job.workers,
                        sizeof(nabla_packed_tile), &waiting, diag));
  memset(waiting, 0, job.workers * sizeof(nabla_packed_tile));
  job.waiting = waiting;
  nabla_status status = nabla_scratches_create(allocator_of(task), job.workers,
                                               job.tile, &job.scratches, diag);
  for (uint32_t i = 0; i < nabla_output_checkpoint_files(target) && !status;
       i++)
    status = write_file(&job, target, i, summary, diag);
  /* Checks again that the sources have not changed: components may have been
   * read from shards that were checked earlier. */
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(task->checkpoint) &&
                       nabla_output_checkpoint_files(target) > 1 && !status;
       i++)
    status = nabla_tensor_file_check_unchanged(
        nabla_checkpoint_borrow_shard(task->checkpoint, i), diag);
  nabla_scratches_destroy(allocator_of(task), job.workers, job.scratches);
  nabla_free(allocator_of(task), waiting, job.workers,
             sizeof(nabla_packed_tile));
  pthread_mutex_destroy(&turn);
  return status;
}

/* Counts bytes and tensors for progress: every tensor of a file is copied,
 * encoded or decoded, except the companions of decoded ones. */
void nabla_write_count(nabla_write_task *task) {
  const nabla_checkpoint *checkpoint = task->checkpoint;
  uint64_t before = 0;
  task->bytes_total = task->tensors_total = 0;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(checkpoint); s++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(checkpoint, s);
    for (size_t i = 0; i < nabla_tensor_file_count(file); i++) {
      const uint64_t bytes = nabla_tensor_file_entry(file, i).bytes;
      const int has = nabla_part_has(task, before, bytes);
      before += bytes;
      if (!has) continue;
      task->tensors_total++;
      if (!nabla_add_u64(task->bytes_total, bytes, &task->bytes_total))
        task->bytes_total = 0; /* unknown */
    }
  }
  if (task->dequantize)
    task->tensors_total = nabla_checkpoint_count(checkpoint);
}

static nabla_status write_whole(const nabla_write_task *task,
                                const nabla_write_options *where,
                                nabla_write_summary *summary,
                                nabla_diag *diag) {
  nabla_output_checkpoint *target;
  NABLA_TRY(nabla_output_checkpoint_create(task->checkpoint, where,
                                           task->environment, &target, diag));
  nabla_status status = nabla_write_check_space(task, target, diag);
  const nabla_progress progress = {.phase = "copy",
                                   .bytes_total = task->bytes_total,
                                   .tensors_total = task->tensors_total};
  if (!status)
    status = nabla_output_checkpoint_write_files(target, task->environment,
                                                 &progress, summary, diag);
  if (!status) status = nabla_write_files(task, target, summary, diag);
  if (!status) status = nabla_output_checkpoint_commit(target, diag);
  nabla_output_checkpoint_destroy(target);
  return status;
}

nabla_status nabla_write_checkpoint(const nabla_write_task *wanted,
                                    const nabla_write_options *where,
                                    nabla_write_summary *out,
                                    nabla_diag *diag) {
  const double start = now();
  nabla_write_summary summary = {0};
  nabla_write_task task = *wanted;
  nabla_write_count(&task);
  nabla_status status = where->parts > 1
                            ? nabla_part_write(&task, where, &summary, diag)
                            : write_whole(&task, where, &summary, diag);
  if (status) return status;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(task.checkpoint); s++)
    summary.bytes_in += nabla_tensor_file_size(
        nabla_checkpoint_borrow_shard(task.checkpoint, s));
  summary.tensors = nabla_checkpoint_count(task.checkpoint);
  summary.seconds = now() - start;
  *out = summary;
  return NABLA_OK;
}
