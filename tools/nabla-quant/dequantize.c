/* nabla-quant dequantize: writes a checkpoint with every tensor dense. */
#include "tools/nabla-quant/cli.h"

static nabla_status run(cli *c, const nabla_checkpoint *checkpoint,
                        nabla_diag *diag) {
  nabla_write_summary summary = {0};
  nabla_write_options where = {c->options.output,
                               cli_given(&c->options, CLI_OPTION_force)};
  nabla_dequantize_options how = {cli_given(&c->options, CLI_OPTION_dtype),
                                  c->options.dtype, c->options.quantize.isa};
  NABLA_TRY(nabla_dequantize(checkpoint, &how, &where, &c->environment,
                             &summary, diag));
  cli_progress_clear(c);
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    cli_summary_json(c, &summary);
  } else if (!cli_given(&c->options, CLI_OPTION_quiet)) {
    printf("%llu of %llu tensors decoded\n",
           (unsigned long long)summary.changed,
           (unsigned long long)summary.tensors);
    cli_summary_line(c, &summary);
  }
  cli_note_leftovers(c, checkpoint);
  return NABLA_OK;
}

nabla_status cli_run_dequantize(cli *c, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  NABLA_TRY(cli_open(c, 0, &checkpoint, diag));
  nabla_status status = cli_start_pool(c, diag);
  if (!status) status = run(c, checkpoint, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}
