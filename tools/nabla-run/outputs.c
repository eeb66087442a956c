/* Outputs: none replaces an input of the run, or another output. */
#include <sys/stat.h>

#include "tools/nabla-run/run.h"

/* Is `path` a file of a model that weights were bound from? */
static int is_of_model(const char *path, const nabla_model *model) {
  struct stat info;
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(model);
  if (stat(path, &info)) return 0;
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++) {
    nabla_os_info shard =
        nabla_tensor_file_info(nabla_checkpoint_borrow_shard(checkpoint, i));
    if (shard.device == info.st_dev && shard.inode == info.st_ino) return 1;
  }
  return tool_same_file(path, nabla_checkpoint_borrow_path(checkpoint));
}

static int is_input(const run *r, const char *path) {
  const run_settings *s = r->settings;
  if (tool_same_file(path, s->program)) return 1;
  for (size_t i = 0; i < s->input_count; i++)
    if (tool_same_file(path, s->inputs[i].rest)) return 1;
  for (size_t i = 0; i < s->expect_count; i++)
    if (tool_same_file(path, s->expects[i])) return 1;
  for (size_t i = 0; i < r->model_count; i++)
    if (is_of_model(path, r->models[i].model)) return 1;
  return 0;
}

/* A file holds whole arrays: the session of rank 0 has but its pieces. */
static nabla_status check_whole(const run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  for (size_t i = 0; i < s->output_count || i < s->expect_count; i++)
    if (r->function->results[i].is_piece) {
      const nabla_status status = nabla_fail(
          diag, NABLA_UNSUPPORTED,
          "result %zu is the piece of one device, not the whole array", i);
      nabla_diag_set_next(diag,
                          "compile the program without --results divided");
      return status;
    }
  return NABLA_OK;
}

nabla_status run_check_outputs(const run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  NABLA_TRY(check_whole(r, diag));
  for (size_t i = 0; i < s->output_count; i++) {
    NABLA_TRY(tool_check_output(s->outputs[i], diag));
    if (is_input(r, s->outputs[i])) return tool_fail_input(s->outputs[i], diag);
    for (size_t k = 0; k < i; k++)
      if (tool_same_file(s->outputs[i], s->outputs[k])) {
        nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "is named by two --output");
        nabla_diag_set_file(diag, s->outputs[i]);
        nabla_diag_set_next(diag, "give each result its own file");
        return status;
      }
  }
  return NABLA_OK;
}
