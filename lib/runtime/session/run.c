/* Runs functions of an executable: checks the inputs, passes them to the code
 * as MLIR's descriptors, and hands over or copies the results. */
#include "lib/runtime/session/run.h"

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/collectives/collective.h"
#include "lib/runtime/program/guarded.h"
#include "lib/runtime/session/run_frame.h"

/* ---- the frame ---------------------------------------------------------- */

static size_t component_count(const nabla_port *port) {
  return *port->encoding_name ? port->component_count : 1;
}

/* Words for the pointers and descriptors of a run. */
static size_t frame_words(const nabla_signature *function,
                          size_t *out_arguments) {
  size_t words = 1; /* at least 1, so that the block exists */
  *out_arguments = 0;
  for (size_t i = 0; i < function->argument_count; i++) {
    const nabla_port *port = &function->arguments[i];
    const size_t count = component_count(port);
    const uint32_t rank = port->component_count ? 1 : port->rank;
    words += count * (1 + nabla_run_descriptor_words(rank) +
                      sizeof(nabla_run_span) / NABLA_RUN_WORD);
    *out_arguments += count;
  }
  for (size_t i = 0; i < function->result_count; i++)
    words += 2 +
             (sizeof(nabla_result_block) + sizeof(nabla_run_span) +
              sizeof(nabla_dense)) /
                 NABLA_RUN_WORD +
             nabla_run_descriptor_words(function->results[i].rank);
  return words;
}

size_t nabla_run_frame_words(const nabla_signature *function) {
  size_t arguments;
  return frame_words(function, &arguments);
}

/* Divides the words of a frame among what lies there. */
static void lay_out(nabla_run_frame *f, void *words) {
  const size_t results = f->function->result_count;
  size_t arguments = 0;
  memset(words, 0, frame_words(f->function, &arguments) * NABLA_RUN_WORD);
  f->arguments = words;
  f->results = f->arguments + arguments;
  f->staged = f->results + results;
  f->blocks = (nabla_result_block *)(void *)(f->staged + results);
  f->read.at = (nabla_run_span *)(void *)(f->blocks + results);
  f->given.at = f->read.at + arguments;
  f->expanded = (nabla_dense *)(void *)(f->given.at + results);
  f->free = (int64_t *)(void *)(f->expanded + results);
}

/* ---- the run ------------------------------------------------------------ */

/* NABLA_IO when an argument lies in the file of a model that is spent. */
static nabla_status check_guarded(const nabla_run_frame *f) {
  if (!nabla_guarded_is_any_spent()) return NABLA_OK;
  for (void **at = f->arguments; at < f->results; at++)
    if (*at)
      NABLA_TRY(nabla_guarded_check(
          ((const nabla_run_descriptor *)*at)->aligned, f->diag));
  return NABLA_OK;
}

/* Exchanges that a run started and did not wait for, since it failed, use its
 * arrays. */
static void leave_ranks(nabla_run_context *context) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = nabla_run_context_status(context, &diag);
  nabla_comm_leave(context->rank.comm, context->rank.rank,
                   status ? diag.what : NULL);
}

static nabla_status call(nabla_run_frame *f, const nabla_executable *executable,
                         const nabla_run_room *room,
                         nabla_entry_function entry) {
  const nabla_session_arrays *arrays = f->arrays->call;
  nabla_run_context context;
  nabla_run_context_begin(&context, &executable->environment, room->arena);
  context.pool = room->pool;
  context.results = f->blocks;
  context.result_count = f->function->result_count;
  if (arrays)
    context.result_allocator =
        arrays->allocator ? arrays->allocator : nabla_allocator_default();
  context.calls = executable->calls;
  context.rank = room->rank;
  nabla_run_context_profile(&context, executable->profiler);
  if (executable->profiler) nabla_run_context_trace(&context, room->trace);
  const double start = executable->profiler ? nabla_profiler_now() : 0;
  entry(&context.services, f->arguments, f->results);
  if (context.rank.comm) leave_ranks(&context);
  if (executable->profiler)
    nabla_profiler_add_run(executable->profiler, nabla_profiler_now() - start);
  nabla_status status = nabla_run_context_status(&context, f->diag);
  if (!status) status = check_guarded(f);
  if (!status) status = nabla_run_stage(f, &context);
  if (!status) nabla_run_deliver(f, &context);
  nabla_run_context_end(&context);
  return status;
}

/* The same with a communicator of one rank, for programs on a mesh of one
 * device: their collectives exchange values with themselves. */
static nabla_status call_alone(nabla_run_frame *f,
                               const nabla_executable *executable,
                               const nabla_run_room *room,
                               nabla_entry_function entry) {
  nabla_run_room own = *room;
  own.rank = (nabla_call_rank){0};
  NABLA_TRY(nabla_comm_threads(1, &own.rank.comm, f->diag));
  const nabla_status status = call(f, executable, &own, entry);
  nabla_comm_destroy(own.rank.comm);
  return status;
}

nabla_status nabla_run_function(const nabla_executable *executable,
                                size_t index, const nabla_run_room *room,
                                const nabla_run_arrays *arrays,
                                nabla_diag *diag) {
  nabla_run_frame f = {.function = &executable->manifest.functions[index],
                       .arrays = arrays,
                       .states = room->states,
                       .pieces = room->pieces,
                       .room = room,
                       .place = room->rank.place,
                       .diag = diag};
  NABLA_TRY(nabla_run_check_inputs(executable, &f));
  lay_out(&f, room->frame);
  NABLA_TRY(nabla_run_check_outputs(&f));
  NABLA_TRY(nabla_run_add_arguments(&f, executable));
  NABLA_TRY(nabla_run_add_results(&f));
  NABLA_TRY(check_guarded(&f));
  if (room->compared)
    NABLA_TRY(nabla_session_compare_ranks(room->compared, index, arrays, diag));
  *room->began = 1;
  const int is_alone = executable->manifest.ranks == 1 && !room->rank.comm;
  return (is_alone ? call_alone : call)(&f, executable, room,
                                        executable->entries[index]);
}

/* Runs with the memory that the last run left, if no other run has it. */
static nabla_status run_idle(nabla_executable *executable, size_t index,
                             nabla_run_room *room,
                             const nabla_run_arrays *arrays, nabla_diag *diag) {
  const nabla_allocator *allocator = executable->environment.allocator;
  room->arena = atomic_exchange(&executable->idle, NULL);
  void *made = room->arena;
  if (!made)
    NABLA_TRY(nabla_alloc(allocator, 1, sizeof *room->arena, &made, diag));
  room->arena = made;
  const nabla_status status =
      nabla_run_function(executable, index, room, arrays, diag);
  nabla_run_arena_destroy(atomic_exchange(&executable->idle, made), allocator);
  return status;
}

nabla_status nabla_executable_run(nabla_executable *executable,
                                  const char *function,
                                  const nabla_dense *inputs, size_t input_count,
                                  nabla_dense *outputs, size_t output_count,
                                  nabla_diag *diag) {
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(function, diag);
  if (input_count) NABLA_REQUIRE(inputs, diag);
  if (output_count) NABLA_REQUIRE(outputs, diag);
  size_t index = 0;
  NABLA_TRY(nabla_executable_seek(executable, function, &index, diag));
  if (executable->manifest.ranks > 1) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the program is for %u ranks",
                   executable->manifest.ranks);
    nabla_diag_set_next(diag,
                        "run it in a session for each rank "
                        "(nabla_session_options.comm), as nabla-run --ranks "
                        "does");
    return status;
  }
  const nabla_allocator *allocator = executable->environment.allocator;
  const size_t words =
      nabla_run_frame_words(&executable->manifest.functions[index]);
  const nabla_run_arrays arrays = {inputs, input_count, outputs, output_count,
                                   NULL};
  int began = 0;
  nabla_run_room room = {.pool = executable->environment.pool, .began = &began};
  NABLA_TRY(nabla_alloc(allocator, words, NABLA_RUN_WORD, &room.frame, diag));
  const nabla_status status = run_idle(executable, index, &room, &arrays, diag);
  nabla_free(allocator, room.frame, words, NABLA_RUN_WORD);
  return status;
}
