/* nabla-quant verify: checks checkpoints and tells what is wrong with them. */
#include "nabla/measure.h"
#include "tools/nabla-quant/cli.h"

/* One file in work. */
typedef struct check {
  cli *c;
  uint64_t problems, unsupported; /* the latter among the former */
} check;

/* Nothing is wrong with a checkpoint that another version could decode. */
static int is_only_unsupported(const check *in_work) {
  return in_work->problems && in_work->problems == in_work->unsupported;
}

static void report_problem(void *self, const nabla_diag *diag) {
  check *in_work = self;
  in_work->problems++;
  in_work->unsupported += diag->code == NABLA_UNSUPPORTED;
  cli *c = in_work->c;
  nabla_diag shown = *diag;
  if (diag->code == NABLA_UNSUPPORTED && *diag->tensor && !*diag->next)
    nabla_diag_set_next(&shown, CLI_DECODE_ELSEWHERE);
  if (in_work->problems <= CLI_MOST_SHOWN ||
      cli_given(&c->options, CLI_OPTION_verbose))
    cli_error(c, &shown);
  if (!cli_given(&c->options, CLI_OPTION_json)) return;
  nabla_json_out_object(&c->json);
  cli_json_diag(&c->json, &shown);
  nabla_json_out_object_end(&c->json);
}

/* Counts the problems of `path` that were not shown; also with -q. */
static void report_rest(const check *in_work, const char *path) {
  const int all = cli_given(&in_work->c->options, CLI_OPTION_verbose);
  const uint64_t shown = all ? NABLA_VERIFY_MAX_PROBLEMS : CLI_MOST_SHOWN;
  if (in_work->problems <= shown) return;
  uint64_t rest = in_work->problems - shown;
  nabla_diag diag = NABLA_DIAG_INIT;
  (void)!nabla_fail(&diag, NABLA_CORRUPT, "and %llu more problem%s",
                    (unsigned long long)rest, cli_plural(rest));
  nabla_diag_set_file(&diag, path);
  if (!all) nabla_diag_set_next(&diag, "-v shows all");
  cli_error(in_work->c, &diag);
}

/* Says whether a failure is about the checkpoint; others are about the
 * machine, the request, or the user's patience. */
static int is_verdict(nabla_status status) {
  return status == NABLA_CORRUPT || status == NABLA_TOO_LARGE ||
         status == NABLA_NOT_FINITE || status == NABLA_UNSUPPORTED;
}

static void end_json(cli *c, int ok, const nabla_verify_summary *summary) {
  nabla_json_out *json = &c->json;
  nabla_json_out_array_end(json);
  cli_json_flag(json, "ok", ok);
  cli_json_number(json, "shards", summary->files);
  cli_json_number(json, "tensors", summary->tensors);
  cli_json_number(json, "packed", summary->packed);
  cli_json_number(json, "bytes", summary->bytes);
  cli_json_text(json, "reader", *summary->reader ? summary->reader : NULL);
  nabla_json_out_object_end(json);
}

static void print_result(const check *in_work, const char *path, int ok,
                         const nabla_verify_summary *summary) {
  const cli *c = in_work->c;
  char size[CLI_SIZE_TEXT];
  if (cli_given(&c->options, CLI_OPTION_quiet)) return;
  cli_print_text(stdout, path);
  cli_size_text(summary->bytes, size);
  if (ok)
    printf(": ok, %llu tensor%s (%llu packed), %s in %u file%s\n",
           (unsigned long long)summary->tensors, cli_plural(summary->tensors),
           (unsigned long long)summary->packed, size, summary->files,
           cli_plural(summary->files));
  if (ok && *summary->reader) {
    cli_print_text(stdout, path);
    printf(": ");
    cli_print_text(stdout, summary->reader);
    putchar('\n');
  }
  if (!ok)
    printf(": %s, %llu problem%s\n",
           is_only_unsupported(in_work) ? "cannot be decoded by this version"
                                        : "FAILED",
           (unsigned long long)in_work->problems,
           cli_plural(in_work->problems));
}

static nabla_status verify_one(cli *c, const char *path, nabla_diag *diag) {
  int json = cli_given(&c->options, CLI_OPTION_json);
  nabla_verify_summary summary = {0};
  check in_work = {.c = c};
  if (json) {
    nabla_json_out_object(&c->json);
    cli_json_text(&c->json, "file", path);
    nabla_json_out_key(&c->json, "problems");
    nabla_json_out_array(&c->json);
  }
  nabla_status status = nabla_verify(path, &c->environment, report_problem,
                                     &in_work, &summary, diag);
  cli_progress_clear(c);
  int stopped = status == NABLA_CANCELLED || status == NABLA_NO_MEMORY;
  /* a failure that was not about one of the things to check */
  if (status && !stopped && !in_work.problems) report_problem(&in_work, diag);
  if (summary.problems > in_work.problems) { /* more than were reported */
    in_work.problems = summary.problems;
    in_work.unsupported = summary.unsupported;
  }
  report_rest(&in_work, path);
  if (json) end_json(c, !status, &summary);
  if (!json && !stopped) print_result(&in_work, path, !status, &summary);
  if (status && !is_verdict(status)) return status;
  if (!status || c->exit == TOOL_EXIT_DIFFERENT) return NABLA_OK;
  c->exit = is_only_unsupported(&in_work) ? TOOL_EXIT_UNSUPPORTED
                                          : TOOL_EXIT_DIFFERENT;
  return NABLA_OK;
}

nabla_status cli_run_verify(cli *c, nabla_diag *diag) {
  nabla_status first = NABLA_OK;
  NABLA_TRY(cli_start_pool(c, diag));
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    nabla_json_out_key(&c->json, "files");
    nabla_json_out_array(&c->json);
  }
  /* one file that cannot be read does not hide the state of the others */
  for (size_t i = 0; i < c->options.operand_count; i++) {
    nabla_diag why = NABLA_DIAG_INIT;
    nabla_status status = verify_one(c, c->options.operands[i], &why);
    if (!status) continue;
    c->error_shown = status != NABLA_CANCELLED && status != NABLA_NO_MEMORY;
    if (!first || !c->error_shown) first = status, *diag = why;
    if (!c->error_shown) break;
  }
  if (cli_given(&c->options, CLI_OPTION_json))
    nabla_json_out_array_end(&c->json);
  return first;
}
