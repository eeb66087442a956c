/* Publishes a part of an output, and joins the parts when all are there.
 *
 * A process writes its part, then looks for all. Whoever finds them all, and
 * holds the locks of all, joins them and removes them. The locks decide: a
 * process that is waiting sees that the parts are gone, or, where the joiner
 * was killed, gets the locks itself. */
#include "quant/write/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/memory.h"
#include "quant/formats/tensor_file.h"
#include "quant/write/write_internal.h"

/* Files of all parts that are there. */
typedef struct parts {
  const nabla_write_task *task;
  const nabla_write_options *where;
  const nabla_allocator *allocator;
  const nabla_os *os;
  char hash[NABLA_PART_HASH_TEXT];
  nabla_tensor_file *file[NABLA_MAX_OUTPUT_PARTS]; /* NULL: not there */
  uint32_t missing;
} parts;

static nabla_status path_of(const parts *p, uint32_t part,
                            char out[NABLA_PATH_SIZE], nabla_diag *diag) {
  const int size = snprintf(out, NABLA_PATH_SIZE, "%s.part-%u-of-%u",
                            p->where->path, part, p->where->parts);
  return size > 0 && size < NABLA_PATH_SIZE
             ? NABLA_OK
             : nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                          "the path of a part would be too long");
}

/* The label of a part: the hash of the run, and which part it is. */
typedef struct label {
  char text[NABLA_PART_HASH_TEXT + 16];
} label;

static label label_of(const parts *p, uint32_t part) {
  label out;
  (void)snprintf(out.text, sizeof out.text, "%s.%u", p->hash, part);
  return out;
}

static int has_label(const parts *p, uint32_t part,
                     const nabla_tensor_file *file) {
  const label wanted = label_of(p, part);
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    if (!strcmp(key, NABLA_LABEL_PART)) return !strcmp(value, wanted.text);
  }
  return 0;
}

/* Opens a part; *out NULL where there is none. One of another run, or another
 * part, is refused, but with `force`, which replaces it: it counts as none. */
static nabla_status open_part(const parts *p, uint32_t part,
                              nabla_tensor_file **out, nabla_diag *diag) {
  char path[NABLA_PATH_SIZE];
  nabla_os_info info;
  int error;
  *out = NULL;
  NABLA_TRY(path_of(p, part, path, diag));
  NABLA_OS_RETRY(error, p->os->path_info(p->os->self, path, 0, &info));
  if (error == -ENOENT) return NABLA_OK;
  nabla_diag why = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  nabla_status status =
      nabla_tensor_file_open(path, p->allocator, p->os, &file, &why);
  NABLA_OS_RETRY(error, p->os->path_info(p->os->self, path, 0, &info));
  if (status && error == -ENOENT) return NABLA_OK; /* removed meanwhile */
  if (!status && has_label(p, part, file)) {
    *out = file;
    return NABLA_OK;
  }
  nabla_tensor_file_close(file);
  if (p->where->force && status != NABLA_NO_MEMORY && status != NABLA_IO)
    return NABLA_OK;
  if (!status)
    return nabla_part_fail(path, NABLA_EXISTS,
                           "the part is of another run: of another source, "
                           "with other options, or another part",
                           diag);
  if (status == NABLA_CORRUPT) nabla_diag_set_next(&why, NABLA_PART_AGAIN);
  if (diag) *diag = why;
  return status;
}

static void close_parts(parts *p) {
  for (uint32_t i = 0; i < p->where->parts; i++) {
    nabla_tensor_file_close(p->file[i]);
    p->file[i] = NULL;
  }
}

static nabla_status open_parts(parts *p, nabla_diag *diag) {
  p->missing = 0;
  for (uint32_t i = 0; i < p->where->parts; i++) {
    NABLA_TRY(open_part(p, i + 1, &p->file[i], diag));
    p->missing += !p->file[i];
  }
  return NABLA_OK;
}

/* Locks all parts that are open. *out 0 if another process has one, or if one
 * is no longer at its path: it was joined. */
static nabla_status lock_parts(const parts *p, int *out, nabla_diag *diag) {
  *out = 1;
  for (uint32_t i = 0; i < p->where->parts && *out; i++) {
    if (!p->file[i]) continue;
    char path[NABLA_PATH_SIZE];
    nabla_os_info now, info = nabla_tensor_file_info(p->file[i]);
    NABLA_TRY(path_of(p, i + 1, path, diag));
    int error =
        nabla_place_lock(p->os, nabla_file_borrow_descriptor(p->file[i]->file));
    if (error < 0 && error != -EWOULDBLOCK)
      return nabla_os_fail(p->os, NULL, path, "lock it", error, diag);
    *out = !error;
    if (!*out) break;
    NABLA_OS_RETRY(error, p->os->path_info(p->os->self, path, 1, &now));
    *out = error >= 0 && nabla_os_same(&now, &info);
  }
  return NABLA_OK;
}

/* ---- joining ------------------------------------------------------------- */

/* Removes the parts that are open. What cannot be removed does no harm. */
static nabla_status remove_parts(const parts *p, nabla_diag *diag) {
  for (uint32_t i = 0; i < p->where->parts; i++) {
    char path[NABLA_PATH_SIZE];
    int error;
    if (!p->file[i]) continue;
    NABLA_TRY(path_of(p, i + 1, path, diag));
    NABLA_OS_RETRY(error, p->os->unlink(p->os->self, path));
    (void)error;
  }
  return NABLA_OK;
}

/* Makes the output, which is complete before the first part is removed. */
static nabla_status join(const parts *p, nabla_write_summary *summary,
                         nabla_diag *diag) {
  nabla_write_task task = *p->task;
  nabla_output_checkpoint *target;
  summary->files = 0; /* the part is none of the output */
  summary->bytes_out = 0;
  task.joined = p->file;
  task.joined_count = p->where->parts;
  NABLA_TRY(nabla_output_checkpoint_create(task.checkpoint, p->where,
                                           task.environment, &target, diag));
  nabla_status status = nabla_write_files(&task, target, summary, diag);
  nabla_output_checkpoint_destroy(target);
  return status ? status : remove_parts(p, diag);
}

/* One look at the parts. *out_done 0 if another process is at them. */
static nabla_status try_join(parts *p, nabla_write_summary *summary,
                             int *out_done, nabla_diag *diag) {
  NABLA_TRY(open_parts(p, diag));
  if (!p->file[p->where->part - 1]) { /* this part was joined */
    nabla_os_info info;
    int error;
    char path[NABLA_PATH_SIZE];
    NABLA_TRY(path_of(p, p->where->part, path, diag));
    NABLA_OS_RETRY(error,
                   p->os->path_info(p->os->self, p->where->path, 1, &info));
    if (error < 0)
      return nabla_part_fail(
          path, NABLA_IO, "the part was removed, and the output is not there",
          diag);
    p->missing = 0;
    summary->bytes_out = info.size;
    *out_done = 1;
    return NABLA_OK;
  }
  NABLA_TRY(lock_parts(p, out_done, diag));
  return *out_done && !p->missing ? join(p, summary, diag) : NABLA_OK;
}

static nabla_status wait_and_join(parts *p, nabla_write_summary *summary,
                                  nabla_diag *diag) {
  static const struct timespec pause = {.tv_nsec = 20000000};
  const nabla_progress progress = {.phase = "join"};
  nabla_status status = NABLA_OK;
  for (int done = 0; !done && !status;) {
    status = nabla_run_report(p->task->environment, &progress, diag);
    if (!status) status = try_join(p, summary, &done, diag);
    close_parts(p);
    if (!done && !status) (void)nanosleep(&pause, NULL);
  }
  return status;
}

/* ---- one part ------------------------------------------------------------ */

/* Writes this process's part, unless an earlier run has left it. */
static nabla_status publish(parts *p, nabla_write_summary *summary,
                            nabla_diag *diag) {
  nabla_write_task task = *p->task;
  nabla_output_checkpoint *target;
  nabla_status status = open_parts(p, diag); /* all: refused before any work */
  const int is_there = p->file[p->where->part - 1] != NULL;
  close_parts(p);
  if (status || is_there) return status;
  char path[NABLA_PATH_SIZE];
  NABLA_TRY(path_of(p, p->where->part, path, diag));
  const label named = label_of(p, p->where->part);
  task.part_label = named.text;
  nabla_part_choose(&task, p->where->part, p->where->parts);
  nabla_write_count(&task);
  NABLA_TRY(nabla_output_checkpoint_create(task.checkpoint, p->where,
                                           task.environment, &target, diag));
  status = nabla_output_checkpoint_rename(target, path, diag);
  if (!status) status = nabla_write_check_space(&task, target, diag);
  if (!status) status = nabla_write_files(&task, target, summary, diag);
  nabla_output_checkpoint_destroy(target);
  return status;
}

static nabla_status run(parts *p, nabla_write_summary *summary,
                        nabla_diag *diag) {
  NABLA_TRY(publish(p, summary, diag));
  return wait_and_join(p, summary, diag);
}

static nabla_status check(const parts *p, nabla_diag *diag) {
  const nabla_write_options *where = p->where;
  if (where->part < 1 || where->part > where->parts ||
      where->parts > NABLA_MAX_OUTPUT_PARTS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "part %u of %u: parts count from 1, up to %u",
                      where->part, where->parts, NABLA_MAX_OUTPUT_PARTS);
  if (!nabla_output_checkpoint_is_file(where->path)) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "parts are joined to one file, and the output is a folder");
    nabla_diag_set_file(diag, where->path);
    nabla_diag_set_next(diag, "end its name in .safetensors");
    return status;
  }
  return NABLA_OK;
}

/* ---- what a joiner that was killed has left -------------------------------
 */

static nabla_status fail_exists(const parts *p, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_EXISTS, "the output exists");
  nabla_diag_set_file(diag, p->where->path);
  nabla_diag_set_next(diag,
                      "choose another name, or allow replacing it (force)");
  return status;
}

/* Opens the parts of this run that are there. *out: how many. */
static nabla_status open_left(parts *p, uint32_t *out, nabla_diag *diag) {
  *out = 0;
  for (uint32_t i = 0; i < p->where->parts; i++) {
    nabla_diag why = NABLA_DIAG_INIT;
    const nabla_status status = open_part(p, i + 1, &p->file[i], &why);
    if (status == NABLA_NO_MEMORY || status == NABLA_IO) {
      if (diag) *diag = why;
      return status;
    }
    *out += p->file[i] != NULL; /* one of another run is not looked at */
  }
  return NABLA_OK;
}

static uint64_t data_bytes(const nabla_tensor_file *file) {
  uint64_t sum = 0;
  for (size_t i = 0; i < nabla_tensor_file_count(file); i++)
    sum += nabla_tensor_file_entry(file, i).bytes;
  return sum;
}

/* Removes the parts that are open if the output has as many bytes as planned,
 * and all tensors of each. */
static nabla_status remove_left(const parts *p, nabla_write_summary *summary,
                                nabla_diag *diag) {
  nabla_tensor_file *output;
  NABLA_TRY(nabla_tensor_file_open(p->where->path, p->allocator, p->os, &output,
                                   diag));
  int is_in = data_bytes(output) == p->task->bytes_out;
  nabla_status status = NABLA_OK;
  for (uint32_t i = 0; i < p->where->parts && is_in && !status; i++)
    if (p->file[i])
      status = nabla_part_is_in(p->task, p->file[i], output, &is_in, diag);
  summary->bytes_out = nabla_tensor_file_size(output);
  nabla_tensor_file_close(output);
  if (status) return status;
  return is_in ? remove_parts(p, diag) : fail_exists(p, diag);
}

/* The output exists, and is not to be replaced: that is an error, unless parts
 * of this run are beside it. Then their joiner was killed after it had made the
 * output, and they are removed. */
static nabla_status clean(parts *p, nabla_write_summary *summary,
                          nabla_diag *diag) {
  static const struct timespec pause = {.tv_nsec = 20000000};
  const nabla_progress progress = {.phase = "join"};
  nabla_status status = NABLA_OK;
  for (int done = 0, seen = 0; !done && !status;) {
    uint32_t left;
    status = nabla_run_report(p->task->environment, &progress, diag);
    if (!status) status = open_left(p, &left, diag);
    if (!status && !left && !seen) status = fail_exists(p, diag);
    if (!status) status = lock_parts(p, &done, diag);
    if (!status && done && left) status = remove_left(p, summary, diag);
    close_parts(p);
    seen = 1;
    if (!done && !status) (void)nanosleep(&pause, NULL);
  }
  return status;
}

nabla_status nabla_part_write(const nabla_write_task *task,
                              const nabla_write_options *where,
                              nabla_write_summary *out, nabla_diag *diag) {
  const nabla_environment *environment = task->environment;
  void *block;
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(parts), &block, diag));
  parts *p = block;
  *p = (parts){.task = task,
               .where = where,
               .allocator = allocator,
               .os = environment && environment->os ? environment->os
                                                    : nabla_os_default()};
  nabla_status status = check(p, diag);
  if (!status)
    status = nabla_part_hash(task->plan, where->parts, p->hash, diag);
  if (!status) {
    nabla_os_info info;
    int error;
    NABLA_OS_RETRY(error, p->os->path_info(p->os->self, where->path, 0, &info));
    status =
        error < 0 || where->force ? run(p, out, diag) : clean(p, out, diag);
  }
  out->missing_parts = p->missing;
  nabla_free(allocator, p, 1, sizeof(parts));
  return status;
}
