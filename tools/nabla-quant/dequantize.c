/* nabla-quant dequantize: writes a checkpoint with every tensor dense. */
#include "tools/nabla-quant/cli.h"

static nabla_status write(cli *c, const nabla_checkpoint *checkpoint,
                          const nabla_folder *folder, nabla_diag *diag) {
  nabla_write_summary summary = {0};
  const nabla_write_options where = {
      .struct_size = sizeof where,
      .path = c->options.output,
      .force = cli_given(&c->options, CLI_OPTION_force),
      .folder = folder};
  nabla_dequantize_options how = {
      .struct_size = sizeof how,
      .has_dtype = cli_given(&c->options, CLI_OPTION_dtype),
      .dtype = c->options.dtype,
      .isa = c->options.quantize.isa};
  NABLA_TRY(nabla_dequantize(checkpoint, &how, &where, &c->environment,
                             &summary, diag));
  c->written = 1;
  cli_progress_clear(c);
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    cli_folder_json(c, folder);
    cli_summary_json(c, &summary);
  } else if (!cli_given(&c->options, CLI_OPTION_quiet)) {
    printf("%llu of %llu tensors decoded\n",
           (unsigned long long)summary.changed,
           (unsigned long long)summary.tensors);
    cli_folder_line(folder, 1);
    cli_summary_line(c, &summary);
  }
  cli_note_leftovers(c, checkpoint);
  cli_folder_notes(c, folder);
  return NABLA_OK;
}

static nabla_status run(cli *c, const nabla_checkpoint *checkpoint,
                        nabla_diag *diag) {
  nabla_folder *folder = NULL;
  NABLA_TRY(cli_folder_open(c, checkpoint, NULL, &folder, diag));
  nabla_status status = write(c, checkpoint, folder, diag);
  nabla_folder_destroy(folder);
  return status;
}

nabla_status cli_run_dequantize(cli *c, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  NABLA_TRY(cli_open(c, 0, &checkpoint, diag));
  nabla_status status = cli_start_pool(c, diag);
  if (!status) status = run(c, checkpoint, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}
