/* Output files that appear whole or not at all. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "lib/base/checked.h"
#include "lib/base/file/file.h"
#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/memory.h"

/* Bytes per call, as in file.c: less than Linux moves in one call. */
#define PIECE ((size_t)1 << 30)

struct nabla_output {
  const nabla_allocator *allocator;
  int force;
  int is_early; /* see NABLA_OUTPUT_EARLY_FROM */
  int has_like; /* permissions of `like` at the end    */
  nabla_os_info like;
  _Atomic uint64_t written;
  nabla_place place;
};

/* Refuses a target that must not be replaced. Sets *out_exists if there is one
 * that may be replaced, and describes it in `info`. */
static nabla_status check_target(const nabla_output *output, nabla_os_info *out,
                                 int *out_exists, nabla_diag *diag) {
  const nabla_place *place = &output->place;
  nabla_os_info info;
  int result;
  *out_exists = 0;
  NABLA_OS_RETRY(result, place->os->info_at(place->os->self, place->folder_fd,
                                            place->name, &info));
  if (result == -ENOENT) return NABLA_OK;
  if (result < 0) return nabla_place_fail(place, "look at it", result, diag);
  if (info.is_link)
    return nabla_place_refuse(place, NABLA_INVALID_ARGUMENT,
                              "the output is a symbolic link",
                              "name the file that it leads to", diag);
  if (!info.is_file)
    return nabla_place_refuse(place, NABLA_INVALID_ARGUMENT,
                              info.is_folder
                                  ? "the output is an existing folder"
                                  : "the output is a pipe, socket or device",
                              "name a file", diag);
  if (!output->force)
    return nabla_place_refuse(
        place, NABLA_EXISTS, "the output exists",
        "choose another name, or allow replacing it (force)", diag);
  *out = info;
  *out_exists = 1;
  return NABLA_OK;
}

/* A new output has its final permissions from the start, so that the umask and
 * the folder's access control list apply as to any file. An output that gets
 * the permissions of another file is readable only by its owner until the
 * commit. */
static nabla_status start(nabla_output *output,
                          const nabla_output_options *options,
                          nabla_diag *diag) {
  nabla_os_info old;
  int exists;
  NABLA_TRY(check_target(output, &old, &exists, diag));
  output->has_like = exists || options->like;
  if (options->like) output->like = *options->like;
  if (exists) output->like = old; /* even if it is gone at the commit */
  nabla_place_remove_stale(&output->place);
  const unsigned own = options->permissions ? options->permissions : 0666;
  return nabla_place_make_temp(&output->place, 0, output->has_like ? 0600 : own,
                               diag);
}

nabla_status nabla_output_create(const char *path,
                                 const nabla_output_options *options,
                                 nabla_output **out, nabla_diag *diag) {
  static const nabla_output_options defaults = {0};
  if (!options) options = &defaults;
  const nabla_os *os = options->os ? options->os : nabla_os_default();
  void *block;
  NABLA_TRY(
      nabla_alloc(options->allocator, sizeof(nabla_output), 1, &block, diag));
  nabla_output *output = block;
  output->allocator = options->allocator;
  output->force = options->force;
  output->is_early =
      os->start_sync && options->expected >= NABLA_OUTPUT_EARLY_FROM;
  nabla_status status = nabla_place_open(&output->place, os, path, 0, diag);
  output->place.is_part = options->is_part;
  if (!status) status = start(output, options, diag);
  if (status)
    nabla_output_destroy(output);
  else
    *out = output;
  return status;
}

static nabla_status fail_write(const nabla_output *output, uint64_t at,
                               size_t size, int error, nabla_diag *diag) {
  char what[64];
  (void)snprintf(what, sizeof what, "write %zu bytes", size);
  nabla_status status = nabla_place_fail(&output->place, what, error, diag);
  nabla_diag_set_offset(diag, at);
  return status;
}

static void note_written(nabla_output *output, uint64_t size) {
  const nabla_os *os = output->place.os;
  if (!output->is_early) return;
  const uint64_t before = atomic_fetch_add(&output->written, size);
  if (before / NABLA_OUTPUT_EARLY_EVERY !=
      (before + size) / NABLA_OUTPUT_EARLY_EVERY)
    (void)os->start_sync(os->self, output->place.fd);
}

nabla_status nabla_output_write(nabla_output *output, uint64_t at,
                                const void *data, size_t size,
                                nabla_diag *diag) {
  const nabla_os *os = output->place.os;
  const uint8_t *from = data;
  uint64_t end;
  if (!nabla_add_u64(at, size, &end) || end > INT64_MAX)
    return fail_write(output, at, size, -EFBIG, diag);
  while (size > 0) {
    size_t piece = size < PIECE ? size : PIECE;
    int64_t put;
    NABLA_OS_RETRY(put,
                   os->pwrite(os->self, output->place.fd, from, piece, at));
    if (put <= 0)
      return fail_write(output, at, size, put ? (int)put : -EIO, diag);
    note_written(output, (uint64_t)put);
    from += put;
    at += (uint64_t)put; /* stays below `end` */
    size -= (size_t)put;
  }
  return NABLA_OK;
}

static nabla_status finish(nabla_output *output, nabla_diag *diag) {
  nabla_place *place = &output->place;
  nabla_os_info old;
  int result, exists = 0;
  if (output->force) NABLA_TRY(check_target(output, &old, &exists, diag));
  if (exists || output->has_like)
    NABLA_TRY(nabla_place_set_mode(place, exists ? &old : &output->like, diag));
  NABLA_OS_RETRY(result, place->os->sync(place->os->self, place->fd));
  if (result < 0)
    return nabla_place_fail(place, "bring it to the disk", result, diag);
  return nabla_place_rename(
      place, output->force ? NABLA_OS_REPLACE : NABLA_OS_NO_REPLACE, diag);
}

nabla_status nabla_output_commit(nabla_output *output, nabla_diag *diag) {
  nabla_status status = finish(output, diag);
  nabla_place_close(&output->place);
  return status;
}

void nabla_output_destroy(nabla_output *output) {
  if (!output) return;
  nabla_place_close(&output->place);
  nabla_free(output->allocator, output, sizeof *output, 1);
}
