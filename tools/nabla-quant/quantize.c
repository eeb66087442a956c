/* nabla-quant quantize: writes a checkpoint as planned. */
#include "tools/nabla-quant/cli.h"

static nabla_status show(cli *c, const nabla_checkpoint *checkpoint,
                         const nabla_plan *plan, const nabla_folder *folder,
                         const nabla_write_summary *summary, nabla_diag *diag) {
  cli_progress_clear(c);
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    NABLA_TRY(cli_plan_json(c, checkpoint, plan, folder, diag));
    cli_summary_json(c, summary);
    return NABLA_OK;
  }
  if (cli_given(&c->options, CLI_OPTION_quiet)) return NABLA_OK;
  if (cli_given(&c->options, CLI_OPTION_verbose)) {
    NABLA_TRY(cli_plan_print(c, checkpoint, plan, diag));
    NABLA_TRY(cli_folder_print(c, folder, diag));
    putchar('\n');
  }
  NABLA_TRY(cli_plan_print_groups(c, plan, diag));
  cli_plan_totals_line(plan);
  cli_folder_line(folder, 1);
  if (!summary->missing_parts) {
    cli_summary_line(c, summary);
    return NABLA_OK;
  }
  cli_print_text(stdout, c->options.output);
  printf(": part %u of %u is there, %u part%s missing\n", c->options.part,
         c->options.parts, summary->missing_parts,
         summary->missing_parts == 1 ? " is" : "s are");
  return NABLA_OK;
}

static nabla_status write(cli *c, const nabla_checkpoint *checkpoint,
                          const nabla_plan *plan, const nabla_folder *folder,
                          nabla_diag *diag) {
  nabla_write_summary summary = {0};
  const nabla_write_options where = {
      .struct_size = sizeof where,
      .path = c->options.output,
      .force = cli_given(&c->options, CLI_OPTION_force),
      .folder = folder,
      .part = c->options.part,
      .parts = c->options.parts};
  cli_plan_warn(c, checkpoint, plan, folder);
  NABLA_TRY(nabla_plan_write(plan, &where, &c->environment, &summary, diag));
  c->written = !summary.missing_parts;
  NABLA_TRY(show(c, checkpoint, plan, folder, &summary, diag));
  cli_note_leftovers(c, checkpoint);
  cli_folder_notes(c, folder);
  return NABLA_OK;
}

static nabla_status run(cli *c, const nabla_checkpoint *checkpoint,
                        nabla_diag *diag) {
  nabla_plan *plan = NULL;
  nabla_folder *folder = NULL;
  NABLA_TRY(nabla_plan_create(checkpoint, &c->options.quantize, &c->environment,
                              &plan, diag));
  nabla_status status = cli_folder_open(c, checkpoint, plan, &folder, diag);
  if (!status) status = write(c, checkpoint, plan, folder, diag);
  nabla_folder_destroy(folder);
  nabla_plan_destroy(plan);
  return status;
}

nabla_status cli_run_quantize(cli *c, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  NABLA_TRY(cli_find_part(&c->options, diag));
  NABLA_TRY(cli_open(c, 0, &checkpoint, diag));
  nabla_checkpoint *importance = NULL;
  nabla_status status = cli_open_importance(c, &importance, diag);
  if (!status) status = cli_start_pool(c, diag);
  if (!status) status = run(c, checkpoint, diag);
  nabla_checkpoint_close(importance);
  nabla_checkpoint_close(checkpoint);
  return status;
}
