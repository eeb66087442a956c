/* nabla-quant plan: what quantize would do. */
#include "tools/nabla-quant/cli.h"

static nabla_status show(cli *c, const nabla_checkpoint *checkpoint,
                         const nabla_plan *plan, const nabla_folder *folder,
                         nabla_diag *diag) {
  cli_progress_clear(c);
  cli_plan_warn(c, checkpoint, plan, folder);
  cli_folder_notes(c, folder);
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    return cli_plan_json(c, checkpoint, plan, folder, diag);
  }
  NABLA_TRY(cli_plan_print(c, checkpoint, plan, diag));
  cli_plan_totals_line(plan);
  cli_plan_kernels_line(checkpoint, plan);
  NABLA_TRY(cli_folder_print(c, folder, diag));
  cli_folder_line(folder, 0);
  return NABLA_OK;
}

nabla_status cli_run_plan(cli *c, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  nabla_folder *folder = NULL;
  NABLA_TRY(cli_open(c, 0, &checkpoint, diag));
  nabla_checkpoint *importance = NULL;
  nabla_status status = cli_open_importance(c, &importance, diag);
  /* only this policy reads data */
  if (!status && c->options.quantize.nonfinite == NABLA_NONFINITE_KEEP)
    status = cli_start_pool(c, diag);
  if (!status)
    status = nabla_plan_create(checkpoint, &c->options.quantize,
                               &c->environment, &plan, diag);
  if (!status) status = cli_folder_open(c, checkpoint, plan, &folder, diag);
  if (!status) status = show(c, checkpoint, plan, folder, diag);
  nabla_folder_destroy(folder);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(importance);
  nabla_checkpoint_close(checkpoint);
  return status;
}
