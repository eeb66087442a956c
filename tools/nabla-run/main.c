/* nabla-run: compiles a program in the nabla dialect, or opens a saved one, and
 * runs one of its functions on weights of checkpoints and arrays of .npy files.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/edit_distance.h"
#include "tools/common/stream.h"
#include "tools/nabla-quant/cli.h"
#include "tools/nabla-run/batch.h"
#include "tools/nabla-run/npy.h"
#include "tools/nabla-run/run.h"
#include "tools/nabla-run/tables.h"

#define TIMED_RUNS 7
#define MOST_RUNS  100000
#define MOST_STEPS 100000000

/* ---- options ---- */

/* Cuts "NAME=REST". */
static nabla_status add_pair(const char *option, char *argument,
                             run_pair *pairs, size_t *count, nabla_diag *diag) {
  char *equals = strchr(argument, '=');
  if (*count == RUN_MAX_PORTS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s is given more than %d times", option,
                      RUN_MAX_PORTS);
  if (!equals || equals == argument || !equals[1])
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s '%s' does not read NAME=FILE", option, argument);
  *equals = '\0';
  for (size_t i = 0; i < *count; i++)
    if (!strcmp(pairs[i].name, argument))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "--%s %s is given twice",
                        option, argument);
  pairs[(*count)++] = (run_pair){argument, equals + 1};
  return NABLA_OK;
}

static nabla_status add_file(const char *option, const char *argument,
                             const char **files, size_t *count,
                             nabla_diag *diag) {
  if (*count == RUN_MAX_PORTS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s is given more than %d times", option,
                      RUN_MAX_PORTS);
  files[(*count)++] = argument;
  return NABLA_OK;
}

static nabla_status set_tolerance(run_settings *s, const char *argument,
                                  nabla_diag *diag) {
  char *end;
  s->tolerance = strtod(argument, &end);
  if (end == argument || *end || !(s->tolerance >= 0))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--tolerance '%s' is no number from 0", argument);
  return NABLA_OK;
}

static nabla_status set(void *self, size_t index, char *argument,
                        nabla_diag *diag) {
  run_settings *s = self;
  switch (index) {
    case RUN_OPTION_entry:
      return s->entry = argument, NABLA_OK;
    case RUN_OPTION_bind:
      return add_pair("bind", argument, s->binds, &s->bind_count, diag);
    case RUN_OPTION_bind_all:
      return s->bind_all = argument, NABLA_OK;
    case RUN_OPTION_input:
      return add_pair("input", argument, s->inputs, &s->input_count, diag);
    case RUN_OPTION_output:
      return add_file("output", argument, s->outputs, &s->output_count, diag);
    case RUN_OPTION_expect:
      return add_file("expect", argument, s->expects, &s->expect_count, diag);
    case RUN_OPTION_tolerance:
      return set_tolerance(s, argument, diag);
    case RUN_OPTION_threads:
      return tool_number("threads", argument, 0, NABLA_POOL_MAX_THREADS,
                         &s->threads, diag);
    case RUN_OPTION_repeat:
      return tool_number("repeat", argument, 1, MOST_RUNS, &s->repeat, diag);
    case RUN_OPTION_steps:
      return tool_number("steps", argument, 1, MOST_STEPS, &s->steps, diag);
    case RUN_OPTION_ranks:
      return tool_number("ranks", argument, 1, NABLA_COMM_MAX_RANKS, &s->ranks,
                         diag);
    case RUN_OPTION_check:
      s->check = strcmp(argument, "never") ? strcmp(argument, "every")
                                                 ? NABLA_CHECK_START
                                                 : NABLA_CHECK_EVERY
                                           : NABLA_CHECK_NEVER;
      return NABLA_OK;
    case RUN_OPTION_state:
      return add_pair("state", argument, s->states, &s->state_count, diag);
    case RUN_OPTION_keep_state:
      return add_pair("keep-state", argument, s->kept_states,
                      &s->kept_state_count, diag);
    case RUN_OPTION_time:
      return s->time = 1, NABLA_OK;
    case RUN_OPTION_json:
      return s->json = 1, NABLA_OK;
    case RUN_OPTION_again:
      return s->again = 1, NABLA_OK;
    case RUN_OPTION_batch:
      return s->batch = 1, NABLA_OK;
    case RUN_OPTION_cache:
      return s->cache = argument, NABLA_OK;
    default:
      return tool_set_compile_option(&s->compile, &run_option_rows[index],
                                     argument, diag);
  }
}

/* ---- the run ---- */

static nabla_status choose_function(run *r, nabla_diag *diag) {
  const char *entry = r->settings->entry;
  size_t count = nabla_executable_function_count(r->executable);
  if (!entry && count == 1) {
    r->function = nabla_executable_function(r->executable, 0);
    return NABLA_OK;
  }
  if (!entry) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "the program has %zu functions", count);
    nabla_diag_set_next(diag, "name one: --entry FUNCTION");
    return status;
  }
  r->function = nabla_executable_find(r->executable, entry);
  if (r->function) return NABLA_OK;
  nabla_nearest near = nabla_nearest_begin(entry, strlen(entry));
  for (size_t i = 0; i < count; i++)
    nabla_nearest_offer(
        &near, nabla_executable_function(r->executable, i)->name,
        strlen(nabla_executable_function(r->executable, i)->name));
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the program has no public function '%s'", entry);
  if (near.best) nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  return status;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double run_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Runs as often as asked for; the results of the last run stay. */
static nabla_status run_function(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  size_t repeat = s->repeat                       ? (size_t)s->repeat
                  : s->time || run_is_profiled(r) ? TIMED_RUNS
                                                  : 1;
  double *times = calloc(repeat, sizeof *times);
  if (!times) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for times");
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < repeat && !status; i++) {
    status = run_steps(r, diag);
    times[i] = r->run_ms;
  }
  qsort(times, repeat, sizeof *times, by_size);
  r->run_ms = times[repeat / 2];
  free(times);
  return status;
}

static nabla_status write_results(run *r, nabla_diag *diag) {
  if (r->rank) return NABLA_OK;
  for (size_t i = 0; i < r->settings->output_count; i++)
    NABLA_TRY(npy_write(r->settings->outputs[i], &r->results[i], 1,
                        &r->environment, diag));
  return run_keep_states(r, diag);
}

static nabla_status run_all(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  if (!run_is_saved(s->program)) NABLA_TRY(run_hand_over(r, diag));
  if (run_is_process()) NABLA_TRY(run_open_process(r, diag));
  if (s->again) r->environment.allocator = run_counting_allocator();
  NABLA_TRY(run_make_pool(r, diag));
  NABLA_TRY(run_open_program(r, diag));
  NABLA_TRY(run_check_ranks(r, diag));
  NABLA_TRY(choose_function(r, diag));
  size_t named =
      s->output_count > s->expect_count ? s->output_count : s->expect_count;
  if (named > r->function->result_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%zu outputs are named, function '%s' has %zu result%s",
                      named, r->function->name, r->function->result_count,
                      r->function->result_count == 1 ? "" : "s");
  NABLA_TRY(run_take_arguments(r, diag));
  if (!r->rank) NABLA_TRY(run_check_outputs(r, diag));
  NABLA_TRY(run_open_session(r, diag));
  if (run_is_profiled(r)) {
    NABLA_TRY(run_function(r, diag)); /* memory is there, pages are, too */
    NABLA_TRY(run_profile_begin(r, diag));
  }
  NABLA_TRY(run_function(r, diag));
  if (s->again) NABLA_TRY(run_again(r, diag));
  NABLA_TRY(write_results(r, diag));
  return r->rank ? NABLA_OK : run_compare(r, diag);
}

/* Of rank 0, and of a program without ranks. */
static int say_results(const run *r, nabla_status status, int exit_code,
                       const nabla_diag *diag) {
  if (!status && !r->settings->json) run_print_differences(r);
  if (r->settings->json) {
    if (run_print_json(r, status, exit_code, diag) && !exit_code)
      exit_code = TOOL_EXIT_IO;
  } else if (!status && (r->settings->time || run_is_profiled(r))) {
    if (r->settings->time) run_print_times(r);
    if (run_is_profiled(r)) run_print_profile(r);
  } else if (!status && !r->settings->output_count &&
             !r->settings->expect_count) {
    tool_say(r->tool,
             "it ran; -o FILE.npy keeps a result, --time says how long");
  }
  return exit_code;
}

static int finish(run *r, nabla_status status, const nabla_diag *diag) {
  int exit_code = tool_exit_of_status(status);
  if (status && r->program_failed) exit_code = TOOL_EXIT_FAILED;
  if (status == NABLA_CANCELLED) exit_code = RUN_EXIT_RANKS;
  if (!status && r->differs) exit_code = TOOL_EXIT_FAILED;
  if (status) tool_error(r->tool, diag);
  if (!r->rank) exit_code = say_results(r, status, exit_code, diag);
  if (status) run_abort_ranks(r, exit_code);
  run_release(r);
  return run_leave_guard(tool_finish(r->tool, exit_code));
}

/* One program is named, or --batch and nothing else. */
static nabla_status check_line(const run_settings *s, const tool_line *line,
                               int argc, nabla_diag *diag) {
  if (s->batch && argc == 2) return NABLA_OK;
  if (s->batch)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--batch goes with no other argument");
  if (line->operand_count == 1) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    line->operand_count ? "more than one program is named"
                                        : "a program is missing");
}

/* A command line; in a batch, each in a process of its own. */
static int command(int argc, char **argv) {
  static run_settings s;
  static run r;
  nabla_diag diag = NABLA_DIAG_INIT;
  tool_line line;
  s = (run_settings){.compile.options.struct_size = sizeof s.compile.options};
  static tool t;
  t = run_tool;
  t.set = set;
  t.self = &s;
  r.settings = &s, r.tool = &t;
  nabla_status status = run_copy_words(&r, argc, argv, &diag);
  if (!status) status = tool_parse(&t, argc, argv, &line, &diag);
  if (!status && line.about) return tool_finish_about(&t, &line);
  if (!status) status = check_line(&s, &line, argc, &diag);
  if (status) {
    int code = tool_fail_line(&t, &line, &diag);
    if (s.json && run_print_json(&r, status, code, &diag)) code = TOOL_EXIT_IO;
    return tool_finish(&t, code);
  }
  if (s.batch) {
    status = run_hand_over(&r, &diag);
    if (!status) status = run_batch(argv[0], command, &diag);
    if (status) tool_error(&t, &diag);
    return tool_finish(&t, tool_exit_of_status(status));
  }
  s.program = line.operands[0];
  status = run_all(&r, &diag);
  return finish(&r, status, &diag);
}

int main(int argc, char **argv) {
  tool_begin();
  return command(argc, argv);
}
