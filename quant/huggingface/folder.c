/* A model's folder as a value: made, asked, freed. */
#include "quant/huggingface/folder.h"

#include <string.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/require.h"

static nabla_status start(nabla_folder *folder, const char *output,
                          nabla_diag *diag) {
  const nabla_os *os = folder->os;
  const char *path = nabla_checkpoint_borrow_path(folder->checkpoint);
  nabla_os_info info;
  int error;
  NABLA_OS_RETRY(error, os->path_info(os->self, path, 1, &info));
  if (error < 0)
    return nabla_os_fail(os, NULL, path, "look at it", error, diag);
  if (!info.is_folder) return NABLA_OK;
  if (output) {
    NABLA_OS_RETRY(error, os->path_info(os->self, output, 1, &folder->output));
    folder->has_output = error >= 0; /* what is not there is not inside */
  }
  NABLA_TRY(nabla_folder_scan(folder, diag));
  return nabla_folder_decide(folder, diag);
}

nabla_status nabla_folder_create(const nabla_checkpoint *checkpoint,
                                 const nabla_plan *plan, const char *output,
                                 const nabla_environment *environment,
                                 nabla_folder **out, nabla_diag *diag) {
  NABLA_REQUIRE(checkpoint, diag);
  NABLA_REQUIRE(out, diag);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_folder), &block, diag));
  nabla_folder *folder = block;
  folder->allocator = allocator;
  folder->os =
      environment && environment->os ? environment->os : nabla_os_default();
  folder->checkpoint = checkpoint;
  folder->plan = plan;
  nabla_buffer_init(&folder->rows, allocator, "list of other files",
                    NABLA_FOLDER_MAX_FILES * sizeof(nabla_folder_row));
  nabla_buffer_init(&folder->texts, allocator, "names of other files",
                    (size_t)NABLA_FOLDER_MAX_FILES *
                        (2 * NABLA_FOLDER_MAX_PATH + NABLA_PATH_SIZE));
  nabla_buffer_init(&folder->config, allocator, NABLA_HF_CONFIG_NAME,
                    NABLA_HF_CONFIG_MAX);
  nabla_buffer_init(&folder->new_config, allocator,
                    "the new " NABLA_HF_CONFIG_NAME, NABLA_HF_CONFIG_MAX);
  nabla_buffer_init(&folder->skip, allocator, "list of modules", SIZE_MAX / 2);
  nabla_status status = start(folder, output, diag);
  folder->plan = NULL;
  if (status)
    nabla_folder_destroy(folder);
  else
    *out = folder;
  return status;
}

void nabla_folder_destroy(nabla_folder *folder) {
  if (!folder) return;
  nabla_buffer_deinit(&folder->rows);
  nabla_buffer_deinit(&folder->texts);
  nabla_buffer_deinit(&folder->config);
  nabla_buffer_deinit(&folder->new_config);
  nabla_buffer_deinit(&folder->skip);
  nabla_free(folder->allocator, folder, 1, sizeof *folder);
}

const nabla_folder_row *nabla_folder_row_at(const nabla_folder *folder,
                                            size_t index) {
  return (const nabla_folder_row *)(const void *)folder->rows.data + index;
}

const char *nabla_folder_path_at(const nabla_folder *folder, size_t index) {
  return (const char *)folder->texts.data +
         nabla_folder_row_at(folder, index)->path;
}

size_t nabla_folder_count(const nabla_folder *folder) {
  return folder->rows.size / sizeof(nabla_folder_row);
}

nabla_folder_file nabla_folder_get(const nabla_folder *folder, size_t index) {
  const nabla_folder_row *row = nabla_folder_row_at(folder, index);
  return (nabla_folder_file){
      .path = nabla_folder_path_at(folder, index),
      .bytes = row->info.is_file ? row->info.size : 0,
      .is_folder = row->info.is_folder,
      .is_hidden = row->is_hidden,
      .action = row->action,
      .reason = row->reason,
      .target =
          row->target ? (const char *)folder->texts.data + row->target : NULL,
  };
}

nabla_folder_totals nabla_folder_get_totals(const nabla_folder *folder) {
  return folder->totals;
}

nabla_config_change nabla_folder_get_config(const nabla_folder *folder) {
  return folder->change;
}

const char *nabla_folder_skip(const nabla_folder *folder, size_t index,
                              size_t *out_length) {
  const nabla_module *module =
      (const nabla_module *)(const void *)folder->skip.data + index;
  *out_length = module->length;
  return module->name;
}

int nabla_folder_writes(const nabla_folder *folder, const char *path,
                        int is_folder) {
  const size_t size = strlen(path);
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const char *own = nabla_folder_path_at(folder, i);
    if (!nabla_folder_copies(nabla_folder_row_at(folder, i)) ||
        strncmp(own, path, size) != 0)
      continue;
    if (own[size] == (is_folder ? '/' : '\0')) return 1;
  }
  return 0;
}

nabla_status nabla_folder_check(const nabla_folder *folder, nabla_diag *diag) {
  if (folder->change.action != NABLA_CONFIG_REFUSE) return NABLA_OK;
  char path[NABLA_PATH_SIZE];
  nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED, "%s", folder->change.reason);
  if (nabla_place_join(path, nabla_checkpoint_borrow_path(folder->checkpoint),
                       NABLA_HF_CONFIG_NAME))
    nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag,
                      "start from the model as it was before, or name its "
                      "index or file, not the folder, to write weights alone");
  return status;
}
