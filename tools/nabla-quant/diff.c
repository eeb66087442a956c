/* nabla-quant diff: how far the tensors of B are from those of A. */
#include <math.h>
#include <string.h>

#include "nabla/measure.h"
#include "tools/nabla-quant/cli.h"

typedef struct comparison {
  cli *c;
  cli_table table;
  uint64_t beyond;
  char stored[64]; /* the text of that cell, of the row before */
  const char *a_stored, *b_stored;
} comparison;

static int is_beyond(const cli *c, const nabla_difference *d) {
  return d->problem || d->not_finite || !(d->rel_rmse <= c->options.tolerance);
}

/* A figure that was not measured is null. */
static void figure_json(cli *c, const char *key, double value, int measured) {
  if (measured)
    cli_json_real(&c->json, key, value);
  else
    cli_json_none(&c->json, key);
}

static void row_json(cli *c, const nabla_difference *d) {
  nabla_json_out *json = &c->json;
  int measured = !d->problem;
  nabla_json_out_object(json);
  cli_json_text(json, "name", d->name);
  cli_json_number(json, "elements", d->elements);
  cli_json_text(json, "a_stored", d->a_stored);
  cli_json_text(json, "b_stored", d->b_stored);
  cli_json_text(json, "problem", d->problem);
  figure_json(c, "max_abs", d->max_abs, measured);
  figure_json(c, "mean_abs", d->mean_abs, measured);
  figure_json(c, "mean_rel", d->mean_rel, measured);
  figure_json(c, "rel_rmse", d->rel_rmse, measured);
  figure_json(c, "cosine", d->cosine, measured);
  cli_json_number(json, "not_finite", d->not_finite);
  cli_json_flag(json, "within", !is_beyond(c, d));
  nabla_json_out_object_end(json);
}

static const char *or_dash(const char *text) { return text ? text : "-"; }

/* How both are stored: most rows say what the one before says. */
static const char *stored_text(comparison *all, const nabla_difference *d) {
  const char *a = or_dash(d->a_stored), *b = or_dash(d->b_stored);
  if (a != all->a_stored || b != all->b_stored)
    snprintf(all->stored, sizeof all->stored, "%s -> %s", a, b);
  all->a_stored = a, all->b_stored = b;
  return all->stored;
}

static int take_row(void *self, const nabla_difference *d) {
  comparison *all = self;
  all->beyond += (uint64_t)is_beyond(all->c, d);
  if (cli_given(&all->c->options, CLI_OPTION_json))
    return row_json(all->c, d), 0;
  if (cli_given(&all->c->options, CLI_OPTION_quiet)) return 0;
  cli_table *table = &all->table;
  cli_table_name(table, d->name, strlen(d->name));
  cli_table_text(table, stored_text(all, d));
  if (d->problem) {
    for (int i = 0; i < 5; i++) cli_table_text(table, "-");
    cli_table_text(table, d->problem);
    return 0;
  }
  cli_table_real(table, 'g', 4, d->max_abs);
  cli_table_real(table, 'g', 4, d->mean_abs);
  cli_table_real(table, 'g', 4, d->mean_rel);
  cli_table_real(table, 'g', 4, d->rel_rmse);
  cli_table_real(table, 'f', 6, d->cosine);
  if (d->not_finite)
    cli_table_cell(table, "%llu value%s not finite",
                   (unsigned long long)d->not_finite,
                   cli_plural(d->not_finite));
  else
    cli_table_text(table, is_beyond(all->c, d) ? "beyond" : "ok");
  return 0;
}

static int any_measured(const nabla_difference_summary *s) {
  return s->problems < s->tensors;
}

static void end_json(const comparison *all, const nabla_difference_summary *s) {
  nabla_json_out *json = &all->c->json;
  nabla_json_out_key(json, "summary");
  nabla_json_out_object(json);
  cli_json_number(json, "tensors", s->tensors);
  cli_json_number(json, "equal", s->equal);
  cli_json_number(json, "problems", s->problems);
  cli_json_number(json, "beyond", all->beyond);
  figure_json(all->c, "worst_rel_rmse", s->worst_rel_rmse, any_measured(s));
  cli_json_real(json, "tolerance", all->c->options.tolerance);
  cli_json_flag(json, "within", !all->beyond);
  nabla_json_out_object_end(json);
}

static nabla_status show(comparison *all, const nabla_difference_summary *s) {
  cli *c = all->c;
  cli_progress_clear(c);
  if (all->beyond) c->exit = TOOL_EXIT_DIFFERENT;
  if (cli_given(&c->options, CLI_OPTION_json))
    return end_json(all, s), NABLA_OK;
  if (cli_given(&c->options, CLI_OPTION_quiet)) return NABLA_OK;
  NABLA_TRY(cli_table_print(&all->table, c->colored_out));
  printf("\n%llu tensor%s, %llu equal", (unsigned long long)s->tensors,
         cli_plural(s->tensors), (unsigned long long)s->equal);
  if (s->problems)
    printf(", %llu that cannot be compared", (unsigned long long)s->problems);
  if (any_measured(s)) printf(", worst relative RMSE %.4g", s->worst_rel_rmse);
  fputs("; ", stdout);
  if (all->beyond)
    printf("%llu beyond tolerance %g\n", (unsigned long long)all->beyond,
           c->options.tolerance);
  else
    printf("all within tolerance %g\n", c->options.tolerance);
  return NABLA_OK;
}

static nabla_status compare(cli *c, const nabla_checkpoint *a,
                            const nabla_checkpoint *b, nabla_diag *diag) {
  static const char *const heads[] = {"tensor",    "stored",    ">max abs",
                                      ">mean abs", ">mean rel", ">rel RMSE",
                                      ">cosine",   "verdict"};
  nabla_difference_summary summary = {0};
  comparison all = {.c = c};
  int json = cli_given(&c->options, CLI_OPTION_json);
  cli_table_init(&all.table, heads, 8, diag);
  if (json) {
    cli_json_begin(c);
    nabla_json_out_key(&c->json, "tensors");
    nabla_json_out_array(&c->json);
  }
  nabla_status status =
      nabla_compare(a, b, &c->environment, take_row, &all, &summary, diag);
  if (json) nabla_json_out_array_end(&c->json);
  if (!status) return show(&all, &summary);
  cli_table_drop(&all.table);
  return status;
}

nabla_status cli_run_diff(cli *c, nabla_diag *diag) {
  nabla_checkpoint *a = NULL, *b = NULL;
  nabla_status status = cli_open(c, 0, &a, diag);
  if (!status) status = cli_open(c, 1, &b, diag);
  if (!status) status = cli_start_pool(c, diag);
  if (!status) status = compare(c, a, b, diag);
  nabla_checkpoint_close(a);
  nabla_checkpoint_close(b);
  return status;
}
