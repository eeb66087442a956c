/* A plan as a table, as totals by kind, and as JSON; the result of writing. */
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/nabla-quant/cli.h"

#define MAX_GROUPS 64 /* kinds of decisions shown; the rest share the last */

/* Errors that were measured; a plan has few formats. */
typedef struct known_errors {
  struct {
    nabla_format format;
    int search;
    double error;
  } rows[64];
  size_t count;
} known_errors;

/* Sets the expected error of a row: NaN of one that is kept or that cannot be
 * measured. Fails only where there is no memory to measure it. */
static nabla_status error_of(known_errors *known, const nabla_plan_row *row,
                             double *out, nabla_diag *diag) {
  nabla_format format = row->format;
  double error = NAN;
  *out = NAN;
  if (!row->quantized) return NABLA_OK;
  if (format.granularity != NABLA_PER_BLOCK) { /* of about that length */
    uint64_t size = NABLA_BLOCK_MIN;
    while (size < format.block && size < 65536) size *= 2;
    format.block = size;
  }
  format.segment = 0;
  for (size_t i = 0; i < known->count; i++) {
    const nabla_format *f = &known->rows[i].format;
    if (f->encoding == format.encoding && f->block == format.block &&
        f->granularity == format.granularity && f->scale == format.scale &&
        f->zero_point == format.zero_point &&
        known->rows[i].search == row->search) {
      *out = known->rows[i].error;
      return NABLA_OK;
    }
  }
  const nabla_status status =
      nabla_format_expected_error(&format, row->search, NULL, &error, diag);
  if (status) return status == NABLA_NO_MEMORY ? status : NABLA_OK;
  if (known->count < sizeof known->rows / sizeof *known->rows) {
    known->rows[known->count].format = format;
    known->rows[known->count].search = row->search;
    known->rows[known->count++].error = error;
  }
  *out = error;
  return NABLA_OK;
}

static void add_row(cli_table *table, const nabla_tensor *tensor,
                    const nabla_plan_row *row, double error) {
  char shape[CLI_SHAPE_TEXT], format[64];
  char in[CLI_SIZE_TEXT], out[CLI_SIZE_TEXT];
  nabla_format none = {0};
  cli_shape_text(tensor, shape);
  cli_format_text(row->quantized ? &row->format : &none, format);
  cli_size_text(row->bytes_in, in);
  cli_size_text(row->bytes_out, out);
  cli_table_name(table, tensor->name, tensor->name_length);
  cli_table_text(table, nabla_dtype_name(tensor->dtype));
  cli_table_text(table, shape);
  cli_table_text(table, format);
  cli_table_text(table, in);
  cli_table_text(table, out);
  cli_table_real(table, 'f', 3, row->bits_per_weight);
  if (isfinite(error))
    cli_table_real(table, 'f', 4, error);
  else
    cli_table_text(table, "");
  cli_table_text(table, row->reason);
}

nabla_status cli_plan_print(cli *c, const nabla_checkpoint *checkpoint,
                            const nabla_plan *plan, nabla_diag *diag) {
  static const char *const heads[] = {"tensor",       "dtype",     "shape",
                                      "encoding",     ">bytes in", ">bytes out",
                                      ">bits/weight", ">error",    "reason"};
  known_errors known = {.count = 0};
  nabla_status status = NABLA_OK;
  cli_table table;
  cli_table_init(&table, heads, 9, diag);
  for (size_t i = 0; i < nabla_plan_count(plan) && !status; i++) {
    const nabla_plan_row row = nabla_plan_get(plan, i);
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, row.tensor);
    double error;
    status = error_of(&known, &row, &error, diag);
    add_row(&table, &tensor, &row, error);
  }
  if (!status) return cli_table_print(&table, c->colored_out);
  cli_table_drop(&table);
  return status;
}

/* Rows with the same decision for the same reason. */
typedef struct group {
  char format[64], reason[sizeof((nabla_plan_row *)0)->reason];
  uint64_t tensors, bytes_in, bytes_out;
  double bits, weights; /* of the output; bits / weights is shown */
} group;

static void add_to_group(group *groups, size_t *count,
                         const nabla_plan_row *row) {
  group key = {0};
  nabla_format none = {0};
  cli_format_text(row->quantized ? &row->format : &none, key.format);
  memcpy(key.reason, row->reason, sizeof key.reason);
  size_t i = 0;
  while (i < *count && (strcmp(groups[i].format, key.format) ||
                        strcmp(groups[i].reason, key.reason)))
    i++;
  if (i == MAX_GROUPS) {
    i = MAX_GROUPS - 1;
    snprintf(groups[i].format, sizeof groups[i].format, "(several)");
    snprintf(groups[i].reason, sizeof groups[i].reason, "(other reasons)");
  } else if (i == *count) {
    groups[(*count)++] = key;
  }
  groups[i].tensors++;
  groups[i].bytes_in += row->bytes_in;
  groups[i].bytes_out += row->bytes_out;
  groups[i].bits += 8 * (double)row->bytes_out;
  if (row->bits_per_weight > 0)
    groups[i].weights += 8 * (double)row->bytes_out / row->bits_per_weight;
}

nabla_status cli_plan_print_groups(cli *c, const nabla_plan *plan,
                                   nabla_diag *diag) {
  static const char *const heads[] = {"encoding",   ">tensors",     ">bytes in",
                                      ">bytes out", ">bits/weight", "reason"};
  group groups[MAX_GROUPS];
  size_t count = 0;
  for (size_t i = 0; i < nabla_plan_count(plan); i++) {
    nabla_plan_row row = nabla_plan_get(plan, i);
    add_to_group(groups, &count, &row);
  }
  cli_table table;
  cli_table_init(&table, heads, 6, diag);
  for (size_t i = 0; i < count; i++) {
    char in[CLI_SIZE_TEXT], out[CLI_SIZE_TEXT];
    const group *g = &groups[i];
    cli_size_text(g->bytes_in, in);
    cli_size_text(g->bytes_out, out);
    cli_table_text(&table, g->format);
    cli_table_cell(&table, "%llu", (unsigned long long)g->tensors);
    cli_table_text(&table, in);
    cli_table_text(&table, out);
    cli_table_real(&table, 'f', 3, g->weights > 0 ? g->bits / g->weights : 0);
    cli_table_text(&table, g->reason);
  }
  return cli_table_print(&table, c->colored_out);
}

static double ratio_of(uint64_t in, uint64_t out) {
  return out ? (double)in / (double)out : 1;
}

void cli_plan_totals_line(const nabla_plan *plan) {
  nabla_plan_totals t = nabla_plan_get_totals(plan);
  char in[CLI_SIZE_TEXT], out[CLI_SIZE_TEXT];
  cli_size_text(t.bytes_in, in);
  cli_size_text(t.bytes_out, out);
  printf("\n%zu of %zu tensors quantized, %s -> %s (ratio %.2f); layout %s: ",
         t.quantized, t.tensors, in, out, ratio_of(t.bytes_in, t.bytes_out),
         nabla_layout_name(t.layout));
  cli_print_text(stdout, t.layout_reason);
  putchar('\n');
}

/* Who computes products with a packed weight where nothing is compiled. */
static void kernel_json(nabla_json_out *json, const nabla_tensor *tensor,
                        const nabla_plan_row *row) {
  const uint64_t k = cli_row_length(tensor);
  const int has = row->quantized && nabla_format_has_kernel(&row->format, k);
  char nearest[64];
  cli_json_text(json, "kernel", row->quantized ? has ? "ahead" : "c" : NULL);
  cli_json_text(
      json, "nearest_kernel",
      row->quantized && !has && cli_nearest_kernel(&row->format, k, nearest)
          ? nearest
          : NULL);
}

static void row_json(cli *c, const nabla_tensor *tensor,
                     const nabla_plan_row *row, double error) {
  nabla_json_out *json = &c->json;
  nabla_format none = {0};
  nabla_json_out_object(json);
  cli_json_name(json, "name", tensor->name, tensor->name_length);
  cli_json_shape(json, tensor);
  cli_json_text(json, "dtype", nabla_dtype_name(tensor->dtype));
  cli_json_text(json, "action", row->quantized ? "quantize" : "keep");
  cli_json_format(json, row->quantized ? &row->format : &none);
  cli_json_flag(json, "search", row->search);
  cli_json_flag(json, "importance", row->has_importance);
  cli_json_text(json, "reason", row->reason);
  cli_json_text(json, "rule",
                row->rule < c->options.quantize.rule_count
                    ? c->options.rules[row->rule].pattern
                    : NULL);
  cli_json_number(json, "bytes_in", row->bytes_in);
  cli_json_number(json, "bytes_out", row->bytes_out);
  cli_json_real(json, "bits_per_weight", row->bits_per_weight);
  cli_json_real(json, "expected_error", error);
  kernel_json(json, tensor, row);
  nabla_json_out_object_end(json);
}

static nabla_status rows_json(cli *c, const nabla_checkpoint *checkpoint,
                              const nabla_plan *plan, nabla_diag *diag) {
  known_errors known = {.count = 0};
  nabla_status status = NABLA_OK;
  nabla_json_out_key(&c->json, "tensors");
  nabla_json_out_array(&c->json);
  for (size_t i = 0; i < nabla_plan_count(plan) && !status; i++) {
    const nabla_plan_row row = nabla_plan_get(plan, i);
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, row.tensor);
    double error;
    status = error_of(&known, &row, &error, diag);
    if (!status) row_json(c, &tensor, &row, error);
  }
  nabla_json_out_array_end(&c->json);
  return status;
}

nabla_status cli_plan_json(cli *c, const nabla_checkpoint *checkpoint,
                           const nabla_plan *plan, const nabla_folder *folder,
                           nabla_diag *diag) {
  nabla_json_out *json = &c->json;
  nabla_plan_totals t = nabla_plan_get_totals(plan);
  uint64_t available;
  NABLA_TRY(rows_json(c, checkpoint, plan, diag));
  nabla_json_out_key(json, "totals");
  nabla_json_out_object(json);
  cli_json_number(json, "tensors", t.tensors);
  cli_json_number(json, "quantized", t.quantized);
  cli_json_number(json, "bytes_in", t.bytes_in);
  cli_json_number(json, "bytes_out", t.bytes_out);
  cli_json_real(json, "ratio", ratio_of(t.bytes_in, t.bytes_out));
  cli_json_text(json, "layout", nabla_layout_name(t.layout));
  cli_json_text(json, "layout_reason", t.layout_reason);
  cli_json_number(
      json, "needed_bytes",
      t.bytes_out + (folder ? nabla_folder_get_totals(folder).bytes : 0));
  if (c->options.output && cli_free_space(c->options.output, &available))
    cli_json_number(json, "free_bytes", available);
  else
    cli_json_none(json, "free_bytes");
  nabla_json_out_object_end(json);
  cli_folder_json(c, folder);
  return NABLA_OK;
}

static uint64_t peak_rss(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
}

static double speed_of(const nabla_write_summary *s) {
  return s->seconds > 0 ? (double)s->bytes_in / s->seconds / 1e9 : 0;
}

void cli_summary_json(cli *c, const nabla_write_summary *s) {
  nabla_json_out *json = &c->json;
  nabla_json_out_key(json, "summary");
  nabla_json_out_object(json);
  cli_json_text(json, "output", c->options.output);
  cli_json_number(json, "files", s->files);
  if (c->options.parts)
    cli_json_number(json, "missing_parts", s->missing_parts);
  cli_json_number(json, "tensors", s->tensors);
  cli_json_number(json, "changed", s->changed);
  cli_json_number(json, "copied", s->copied);
  cli_json_number(json, "copied_bytes", s->copied_bytes);
  cli_json_real(json, "seconds", s->seconds);
  cli_json_real(json, "sync_seconds", s->sync_seconds);
  cli_json_number(json, "bytes_in", s->bytes_in);
  cli_json_number(json, "bytes_out", s->bytes_out);
  cli_json_real(json, "gb_per_s", speed_of(s));
  cli_json_number(json, "threads", cli_threads(c));
  cli_json_text(json, "isa",
                nabla_isa_name(nabla_isa_resolve(c->options.quantize.isa)));
  cli_json_number(json, "peak_rss_bytes", peak_rss());
  nabla_json_out_object_end(json);
}

void cli_summary_line(cli *c, const nabla_write_summary *s) {
  char in[CLI_SIZE_TEXT], out[CLI_SIZE_TEXT], rss[CLI_SIZE_TEXT];
  char beside[64] = "";
  if (s->copied)
    snprintf(beside, sizeof beside, " and %u other%s", s->copied,
             cli_plural(s->copied));
  cli_size_text(s->bytes_in, in);
  cli_size_text(s->bytes_out, out);
  cli_size_text(peak_rss(), rss);
  cli_print_text(stdout, c->options.output);
  printf(
      ": %u file%s%s, %s -> %s (ratio %.2f), %.2f s (%.2f s of it sync), "
      "%.2f GB/s, peak memory %s\n",
      s->files, cli_plural(s->files), beside, in, out,
      ratio_of(s->bytes_in, s->bytes_out), s->seconds, s->sync_seconds,
      speed_of(s), rss);
}
