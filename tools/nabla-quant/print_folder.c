/* The files beside the weights: as a table, as one line, as notes, as JSON. */
#include <string.h>

#include "tools/nabla-quant/cli.h"

/* By nabla_config_action. */
static const struct {
  const char *name, *text; /* the text is followed by the reason */
} config_actions[] = {
    [NABLA_CONFIG_NONE] = {"none", NULL},
    [NABLA_CONFIG_KEEP] = {"keep", "stays as it is"},
    [NABLA_CONFIG_INSERT] = {"insert", "gets a quantization_config"},
    [NABLA_CONFIG_REPLACE] = {"replace", "gets another quantization_config"},
    [NABLA_CONFIG_REMOVE] = {"remove", "loses its quantization_config"},
    [NABLA_CONFIG_REFUSE] = {"refuse", "forbids it"},
};

/* By nabla_folder_action. */
static const char *const file_actions[] = {
    [NABLA_FOLDER_COPY] = "copy",
    [NABLA_FOLDER_EDIT] = "edit",
    [NABLA_FOLDER_LEAVE] = "leave",
    [NABLA_FOLDER_READ] = "read",
};

nabla_status cli_folder_open(cli *c, const nabla_checkpoint *checkpoint,
                             const nabla_plan *plan, nabla_folder **out,
                             nabla_diag *diag) {
  const char *output = c->options.output;
  *out = NULL;
  if (output && cli_is_file_name(output)) return NABLA_OK;
  return nabla_folder_create(checkpoint, plan, output, &c->environment, out,
                             diag);
}

/* Why it is left out, and where a link leads: a path may be longer than a cell
 * that is formatted. */
static void put_reason(cli_table *table, const nabla_folder_file *file) {
  char text[96 + 4096];
  const char *reason = file->reason ? file->reason : "";
  const int length = snprintf(text, sizeof text, "%s%s%s", reason,
                              file->reason && file->target ? ": " : "",
                              file->target ? file->target : "");
  cli_table_name(table, text, (size_t)length);
}

nabla_status cli_folder_print(cli *c, const nabla_folder *folder,
                              nabla_diag *diag) {
  static const char *const heads[] = {"other file", ">bytes", "action",
                                      "reason"};
  cli_table table;
  char bytes[CLI_SIZE_TEXT];
  if (!folder || !nabla_folder_count(folder)) return NABLA_OK;
  cli_table_init(&table, heads, 4, diag);
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const nabla_folder_file file = nabla_folder_get(folder, i);
    cli_size_text(file.bytes, bytes);
    cli_table_cell(&table, "%s%s", file.path, file.is_folder ? "/" : "");
    cli_table_text(&table, file.is_folder ? "" : bytes);
    cli_table_text(&table, file_actions[file.action]);
    put_reason(&table, &file);
  }
  putchar('\n');
  return cli_table_print(&table, c->colored_out);
}

void cli_folder_line(const nabla_folder *folder, int done) {
  if (!folder || !nabla_folder_count(folder)) return;
  const nabla_folder_totals totals = nabla_folder_get_totals(folder);
  const nabla_config_change change = nabla_folder_get_config(folder);
  char bytes[CLI_SIZE_TEXT];
  cli_size_text(totals.bytes, bytes);
  printf("%zu other file%s %s (%s), %zu left out", totals.copied,
         cli_plural(totals.copied), done ? "copied" : "to copy", bytes,
         totals.left_out);
  if (config_actions[change.action].text) {
    printf("; config.json %s: ", config_actions[change.action].text);
    cli_print_text(stdout, change.reason);
  }
  putchar('\n');
}

/* Names the first files that are left out and not hidden. */
static void note_left_out(cli *c, const nabla_folder *folder) {
  char names[3 * 96] = "";
  size_t used = 0, count = 0;
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const nabla_folder_file file = nabla_folder_get(folder, i);
    if (file.action != NABLA_FOLDER_LEAVE || file.is_hidden) continue;
    if (count++ < 3)
      used +=
          (size_t)snprintf(names + used, sizeof names - used, "%s%.48s (%.40s)",
                           count > 1 ? ", " : "", file.path, file.reason);
  }
  if (count)
    cli_note(c, "note: of '%s', %zu file%s %s left out: %s%s",
             c->options.operands[0], count, cli_plural(count),
             count == 1 ? "is" : "are", names, count > 3 ? ", ..." : "");
}

void cli_folder_notes(cli *c, const nabla_folder *folder) {
  if (!folder) return;
  const nabla_config_change change = nabla_folder_get_config(folder);
  note_left_out(c, folder);
  if (change.action == NABLA_CONFIG_REFUSE)
    cli_note(c, "warning: quantize will refuse: of config.json, %s",
             change.reason);
  else if (change.is_misread)
    cli_note(c,
             "note: transformers would take the codes of the result for "
             "weights, without an error: %s",
             change.reason);
  else if (change.action != NABLA_CONFIG_NONE && !change.is_loadable)
    cli_note(c, "note: transformers cannot load the result: %s", change.reason);
}

static void config_json(nabla_json_out *json, const nabla_folder *folder) {
  const nabla_config_change change = nabla_folder_get_config(folder);
  nabla_json_out_key(json, "config");
  nabla_json_out_object(json);
  cli_json_text(json, "action", config_actions[change.action].name);
  cli_json_text(json, "reason", change.reason);
  cli_json_flag(json, "loadable", change.is_loadable);
  cli_json_flag(json, "misread", change.is_misread);
  cli_json_text(json, "quant_type", change.quant_type);
  cli_json_text(json, "compute_dtype", change.compute_dtype);
  cli_json_flag(json, "double_quant", change.double_quant);
  nabla_json_out_key(json, "skip_modules");
  if (change.has_skip) {
    nabla_json_out_array(json);
    for (size_t i = 0; i < change.skip_count; i++) {
      size_t length;
      const char *name = nabla_folder_skip(folder, i, &length);
      nabla_json_out_string_n(json, name, length);
    }
    nabla_json_out_array_end(json);
  } else {
    nabla_json_out_null(json);
  }
  nabla_json_out_object_end(json);
}

void cli_folder_json(cli *c, const nabla_folder *folder) {
  nabla_json_out *json = &c->json;
  if (!folder || !nabla_folder_count(folder)) {
    cli_json_none(json, "folder");
    return;
  }
  const nabla_folder_totals totals = nabla_folder_get_totals(folder);
  nabla_json_out_key(json, "folder");
  nabla_json_out_object(json);
  nabla_json_out_key(json, "files");
  nabla_json_out_array(json);
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const nabla_folder_file file = nabla_folder_get(folder, i);
    nabla_json_out_object(json);
    cli_json_text(json, "path", file.path);
    cli_json_number(json, "bytes", file.bytes);
    cli_json_text(json, "action", file_actions[file.action]);
    cli_json_text(json, "reason", file.reason);
    cli_json_text(json, "target", file.target);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
  cli_json_number(json, "copied", totals.copied);
  cli_json_number(json, "copied_bytes", totals.bytes);
  cli_json_number(json, "left_out", totals.left_out);
  config_json(json, folder);
  nabla_json_out_object_end(json);
}
