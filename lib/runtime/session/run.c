/* Runs functions of an executable: checks the inputs, passes them to the code
 * as MLIR's descriptors, and hands over or copies the results. */
#include "lib/runtime/session/run.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/program/components.h"
#include "lib/runtime/program/type_to_text.h"
#include "lib/runtime/session/run_spans.h"
#include "lib/runtime/session/strided.h"

/* An array as an argument or result of compiled code (nabla/services.h). */
typedef struct descriptor {
  void *allocated, *aligned;
  int64_t offset;
  int64_t numbers[]; /* `rank` sizes, then `rank` strides */
} descriptor;

_Static_assert(sizeof(void *) == sizeof(int64_t),
               "code is for 64-bit machines");

#define WORD sizeof(int64_t)

/* The state of one run. Its pointers, and then its descriptors, lie in one
 * block of words that the caller of nabla_run_function has allocated. */
typedef struct frame {
  const nabla_signature *function;
  const nabla_dense *inputs;
  size_t input_count;
  nabla_dense *outputs;
  void **arguments, **results; /* passed to the entry point               */
  void **staged;               /* per result: block to give or copy       */
  nabla_result_block *blocks;  /* per result: where it may be computed    */
  void *const *states;         /* of the session, by port; NULL: none     */
  nabla_run_spans read, given; /* the inputs', and the outputs' memory    */
  int64_t *free;               /* room for the next descriptor            */
  nabla_diag *diag;
} frame;

/* The data pointer in descriptors of arrays without elements. */
static const alignas(NABLA_SERVICES_ALIGNMENT) uint8_t nothing[1];

/* ---- descriptors -------------------------------------------------------- */

static size_t words_of(uint32_t rank) {
  return sizeof(descriptor) / WORD + 2 * (size_t)rank;
}

static descriptor *add_descriptor(frame *f, uint32_t rank) {
  descriptor *out = (descriptor *)(void *)f->free;
  f->free += words_of(rank);
  return out;
}

/* Describes a row-major array, whose size has been checked. */
static descriptor *describe(frame *f, const void *data, uint32_t rank,
                            const int64_t *shape) {
  descriptor *out = add_descriptor(f, rank);
  out->allocated = out->aligned = (void *)(uintptr_t)(data ? data : nothing);
  uint64_t stride = 1; /* wraps only if there are no elements */
  for (uint32_t i = rank; i > 0; i--) {
    out->numbers[i - 1] = shape[i - 1];
    out->numbers[rank + i - 1] = (int64_t)stride;
    stride *= (uint64_t)shape[i - 1];
  }
  return out;
}

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
    words += count * (1 + words_of(port->component_count ? 1 : port->rank));
    *out_arguments += count;
  }
  words += (function->argument_count + function->result_count) *
           (sizeof(nabla_run_span) / WORD);
  for (size_t i = 0; i < function->result_count; i++)
    words += 2 + sizeof(nabla_result_block) / WORD +
             words_of(function->results[i].rank);
  return words;
}

size_t nabla_run_frame_words(const nabla_signature *function) {
  size_t arguments;
  return frame_words(function, &arguments);
}

/* ---- inputs ------------------------------------------------------------- */

/* Computes the size in bytes of an array. Returns 0 if a size is negative, or
 * if the bytes or a stride overflow. */
static int count_bytes(nabla_dtype dtype, uint32_t rank, const int64_t *shape,
                       uint64_t *out) {
  uint64_t bytes = nabla_element_size(dtype);
  for (uint32_t i = rank; i > 0; i--)
    if (shape[i - 1] < 0 ||
        !nabla_mul_u64(bytes, (uint64_t)shape[i - 1], &bytes) ||
        bytes > INT64_MAX)
      return 0;
  *out = bytes;
  return 1;
}

/* Whether an array has the dtype, rank and static sizes of the port. */
static int matches(const nabla_port *port, const nabla_dense *array) {
  if (array->dtype != port->dtype || array->rank != port->rank) return 0;
  for (uint32_t i = 0; i < port->rank; i++)
    if (array->shape[i] < 0 ||
        (port->shape[i] != NABLA_DYNAMIC && port->shape[i] != array->shape[i]))
      return 0;
  return 1;
}

static nabla_text_80 describe_given(const nabla_dense *array) {
  const uint32_t rank =
      array->rank < NABLA_ARRAY_MAX_RANK ? array->rank : NABLA_ARRAY_MAX_RANK;
  return nabla_describe_array(array->dtype, rank, array->shape);
}

static nabla_status check_input(const frame *f, const nabla_port *port,
                                const nabla_dense *array) {
  const size_t number = (size_t)(array - f->inputs);
  const size_t element = nabla_element_size(port->dtype);
  uint64_t bytes = 0;
  if (!matches(port, array)) {
    const nabla_text_80 takes = nabla_describe_port(port);
    const nabla_text_80 given = describe_given(array);
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') takes %s; %s was given", number,
                      port->name, takes.text, given.text);
  }
  if (!count_bytes(array->dtype, array->rank, array->shape, &bytes))
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') is too large to exist", number,
                      port->name);
  if (bytes && !array->data)
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') has no data", number, port->name);
  if (bytes && (uintptr_t)array->data % element != 0)
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') lies at an address that is no "
                      "multiple of %zu",
                      number, port->name, element);
  return NABLA_OK;
}

/* Describes a bound argument: one array, or its components. */
static size_t add_bound(frame *f, const nabla_port *port,
                        const nabla_binding *binding, size_t at) {
  if (!port->component_count) {
    f->arguments[at] =
        describe(f, binding->data[0], port->rank, binding->shape);
    return 1;
  }
  nabla_component_slots parts = {0};
  (void)!nabla_port_components(port, &parts, NULL); /* checked when loaded */
  for (uint32_t i = 0; i < parts.count; i++) {
    const int64_t count = (int64_t)parts.at[i].count;
    f->arguments[at + i] =
        describe(f, binding->data[i], parts.at[i].rank, &count);
  }
  return port->component_count;
}

/* Fills the arguments in order: with its state, from its binding if there is
 * one, else from the next input. */
static nabla_status add_arguments(frame *f,
                                  const nabla_executable *executable) {
  size_t at = 0, input = 0;
  for (size_t i = 0; i < f->function->argument_count; i++) {
    const nabla_port *port = &f->function->arguments[i];
    const nabla_binding *binding = nabla_executable_binding(executable, port);
    if (*port->state_name) {
      const size_t number = (size_t)(port - executable->manifest.ports);
      f->arguments[at++] =
          describe(f, f->states[number], port->rank, port->shape);
    } else if (binding->is_bound) {
      at += add_bound(f, port, binding, at);
    } else if (!*port->encoding_name) {
      const nabla_dense *array = &f->inputs[input++];
      NABLA_TRY(check_input(f, port, array));
      f->arguments[at++] = describe(f, array->data, array->rank, array->shape);
    }
  }
  return NABLA_OK;
}

/* ---- counts ------------------------------------------------------------- */

/* "x, bias": the names of the inputs, as many as fit. */
static void name_inputs(const nabla_executable *executable,
                        const nabla_signature *function, char *out,
                        size_t room) {
  size_t used = 0;
  out[0] = 0;
  for (size_t i = 0; i < function->argument_count && used < room; i++) {
    const nabla_port *port = &function->arguments[i];
    if (*port->encoding_name || *port->state_name ||
        nabla_executable_binding(executable, port)->is_bound)
      continue;
    const int length = snprintf(out + used, room - used, "%s%.30s",
                                used ? ", " : "", port->name);
    used += length > 0 ? (size_t)length : 0;
  }
}

static nabla_status fail_state(const frame *f, const nabla_port *port) {
  const nabla_status status =
      nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                 "'%.60s' has the state '%.60s', which lives in a session",
                 f->function->name, port->state_name);
  nabla_diag_set_next(f->diag,
                      "make a session (nabla_session_create) and run it there");
  return status;
}

static nabla_status check_counts(const nabla_executable *executable,
                                 const frame *f, size_t input_count,
                                 size_t output_count) {
  const nabla_signature *function = f->function;
  size_t wanted = 0;
  for (size_t i = 0; i < function->argument_count; i++) {
    const nabla_port *port = &function->arguments[i];
    if (*port->state_name) {
      if (!f->states) return fail_state(f, port);
      continue;
    }
    if (nabla_executable_binding(executable, port)->is_bound) continue;
    wanted += !*port->encoding_name;
    if (!port->component_count) continue;
    const nabla_text_80 takes = nabla_describe_port(port);
    const nabla_status status = nabla_fail(
        f->diag, NABLA_INVALID_ARGUMENT,
        "argument '%.60s' of '%.60s' is not bound", port->name, function->name);
    nabla_diag_set_next(f->diag, "bind a weight that is %s", takes.text);
    return status;
  }
  if (wanted != input_count) {
    char names[100];
    name_inputs(executable, function, names, sizeof names);
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "'%.60s' takes %zu inputs%s%s%s; %zu were given",
                      function->name, wanted, wanted ? " (" : "", names,
                      wanted ? ")" : "", input_count);
  }
  if (function->result_count != output_count)
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "'%.60s' gives %zu results; there is room for %zu",
                      function->name, function->result_count, output_count);
  return NABLA_OK;
}

/* ---- results ------------------------------------------------------------ */

static nabla_status fail_output(const frame *f, size_t number,
                                nabla_text_80 gives) {
  const nabla_text_80 given = describe_given(&f->outputs[number]);
  return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                    "result %zu is %s; its array is %s", number, gives.text,
                    given.text);
}

/* Sorts the memory of inputs and of outputs by address. Bound weights are apart
 * from outputs, as the caller has promised. */
static void sort_spans(frame *f) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < f->input_count; i++)
    if (count_bytes(f->inputs[i].dtype, f->inputs[i].rank, f->inputs[i].shape,
                    &bytes))
      nabla_run_spans_add(&f->read, f->inputs[i].data, bytes, i);
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_dense *output = &f->outputs[i];
    if (!output->data) continue;
    if (!count_bytes(output->dtype, output->rank, output->shape, &bytes))
      bytes = INT64_MAX; /* overlaps all behind it, and is refused later */
    nabla_run_spans_add(&f->given, output->data, bytes, i);
  }
  nabla_run_spans_sort(&f->read);
  nabla_run_spans_sort(&f->given);
}

/* The caller's arrays in which results may be computed: those that are apart
 * from all that the run reads, and from other outputs. Others are copied to
 * when all has been computed. */
static void add_result_blocks(frame *f) {
  for (size_t i = 0; i < f->given.count; i++) {
    const nabla_run_span *span = &f->given.at[i];
    void *data = f->outputs[span->number].data;
    const uint64_t bytes = span->end - span->begin;
    if (span->begin % NABLA_SERVICES_ALIGNMENT == 0 && bytes < INT64_MAX &&
        !nabla_run_spans_overlap_other(&f->given, i) &&
        !nabla_run_spans_overlap(&f->read, data, bytes))
      f->blocks[span->number] = (nabla_result_block){data, bytes};
  }
}

/* Checks the caller's result arrays as far as their types are known before the
 * run, and adds descriptors for the results. */
static nabla_status add_results(frame *f) {
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_port *port = &f->function->results[i];
    if (f->outputs[i].data && !matches(port, &f->outputs[i]))
      return fail_output(f, i, nabla_describe_port(port));
    f->results[i] = add_descriptor(f, port->rank);
  }
  int is_given = 0;
  for (size_t i = 0; i < f->function->result_count; i++)
    is_given |= f->outputs[i].data != NULL;
  if (!is_given) return NABLA_OK;
  sort_spans(f);
  add_result_blocks(f);
  return NABLA_OK;
}

static nabla_strided_array result_at(const frame *f, size_t number) {
  const nabla_port *port = &f->function->results[number];
  const descriptor *from = f->results[number];
  const size_t element = nabla_element_size(port->dtype);
  return (nabla_strided_array){
      .data = (const void *)((uintptr_t)from->aligned +
                             (uintptr_t)from->offset * element),
      .element = element,
      .rank = port->rank,
      .sizes = from->numbers,
      .strides = from->numbers + port->rank};
}

/* 1 when the result fills a block that the caller can own. It is copied instead
 * if it is an argument, a constant of the code, a part of a block, or in the
 * same block as an earlier result. */
static int can_hand_over(const frame *f, const nabla_run_context *context,
                         size_t number, const nabla_strided_array *result) {
  const descriptor *from = f->results[number];
  for (size_t i = 0; i < number; i++)
    if (f->staged[i] == from->allocated) return 0;
  return result->data == from->allocated && nabla_strided_is_dense(result) &&
         nabla_allocations_hold(&context->arena->live, from->allocated);
}

/* Whether a result lies in the memory of an input. An output may be in the same
 * memory, so such a result is copied before outputs are written. */
static int lies_in_input(const frame *f, const void *data) {
  return nabla_run_spans_overlap(&f->read, data, 1);
}

/* Does every step for a result that can fail, before outputs are written. */
static nabla_status stage_result(frame *f, nabla_run_context *context,
                                 size_t number) {
  const nabla_port *port = &f->function->results[number];
  const nabla_strided_array result = result_at(f, number);
  const nabla_dense *output = &f->outputs[number];
  uint64_t bytes = 0;
  if (!count_bytes(port->dtype, port->rank, result.sizes, &bytes))
    return nabla_fail(f->diag, NABLA_CORRUPT,
                      "the code gave result %zu an impossible size", number);
  if (output->data) {
    if (port->rank &&
        memcmp(output->shape, result.sizes, port->rank * sizeof *output->shape))
      return fail_output(
          f, number,
          nabla_describe_array(port->dtype, port->rank, result.sizes));
    if (!lies_in_input(f, result.data)) return NABLA_OK;
  } else if (can_hand_over(f, context, number, &result)) {
    f->staged[number] = ((descriptor *)f->results[number])->allocated;
    return NABLA_OK;
  }
  void *copy =
      nabla_run_arena_allocate(context->arena, context->allocator, bytes);
  if (!copy)
    return nabla_fail(f->diag, NABLA_NO_MEMORY,
                      "cannot allocate %" PRIu64 " bytes for result %zu", bytes,
                      number);
  nabla_strided_copy(&result, copy);
  f->staged[number] = copy;
  return NABLA_OK;
}

static void copy_staged(const nabla_port *port, const nabla_dense *output,
                        const void *staged) {
  uint64_t bytes = 0;
  (void)count_bytes(port->dtype, port->rank, output->shape, &bytes);
  if (bytes) memcpy(output->data, staged, bytes);
}

/* Gives the caller the results. Nothing here can fail. */
static void deliver(frame *f, nabla_run_context *context) {
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_port *port = &f->function->results[i];
    const nabla_strided_array result = result_at(f, i);
    nabla_dense *output = &f->outputs[i];
    if (output->data) {
      if (f->staged[i])
        copy_staged(port, output, f->staged[i]);
      else if (result.data != output->data || !nabla_strided_is_dense(&result))
        nabla_strided_copy(&result, output->data);
      continue;
    }
    nabla_run_arena_take(context->arena, f->staged[i]);
    *output = (nabla_dense){
        .data = f->staged[i], .dtype = port->dtype, .rank = port->rank};
    for (uint32_t d = 0; d < port->rank; d++)
      output->shape[d] = result.sizes[d];
  }
}

/* ---- the run ------------------------------------------------------------ */

static nabla_status call(frame *f, const nabla_executable *executable,
                         const nabla_run_room *room,
                         nabla_entry_function entry) {
  nabla_run_context context;
  nabla_run_context_begin(&context, &executable->environment, room->arena);
  context.pool = room->pool;
  context.results = f->blocks;
  context.result_count = f->function->result_count;
  context.calls = executable->calls;
  nabla_run_context_profile(&context, executable->profiler);
  const double start = executable->profiler ? nabla_profiler_now() : 0;
  entry(&context.services, f->arguments, f->results);
  if (executable->profiler)
    nabla_profiler_add_run(executable->profiler, nabla_profiler_now() - start);
  nabla_status status = nabla_run_context_status(&context, f->diag);
  for (size_t i = 0; i < f->function->result_count && !status; i++)
    status = stage_result(f, &context, i);
  if (!status) deliver(f, &context);
  nabla_run_context_end(&context);
  return status;
}

nabla_status nabla_run_function(const nabla_executable *executable,
                                size_t index, const nabla_run_room *room,
                                const nabla_dense *inputs, size_t input_count,
                                nabla_dense *outputs, size_t output_count,
                                nabla_diag *diag) {
  size_t arguments = 0;
  frame f = {.function = &executable->manifest.functions[index],
             .inputs = inputs,
             .input_count = input_count,
             .outputs = outputs,
             .states = room->states,
             .diag = diag};
  NABLA_TRY(check_counts(executable, &f, input_count, output_count));
  memset(room->frame, 0, frame_words(f.function, &arguments) * WORD);
  f.arguments = room->frame;
  f.results = f.arguments + arguments;
  f.staged = f.results + output_count;
  f.blocks = (nabla_result_block *)(void *)(f.staged + output_count);
  f.read.at = (nabla_run_span *)(void *)(f.blocks + output_count);
  f.given.at = f.read.at + input_count;
  f.free = (int64_t *)(void *)(f.given.at + output_count);
  NABLA_TRY(add_arguments(&f, executable));
  NABLA_TRY(add_results(&f));
  *room->began = 1;
  return call(&f, executable, room, executable->entries[index]);
}

/* Runs with the memory that the last run left, if no other run has it. */
static nabla_status run_idle(nabla_executable *executable, size_t index,
                             nabla_run_room *room, const nabla_dense *inputs,
                             size_t input_count, nabla_dense *outputs,
                             size_t output_count, nabla_diag *diag) {
  const nabla_allocator *allocator = executable->environment.allocator;
  room->arena = atomic_exchange(&executable->idle, NULL);
  void *made = room->arena;
  if (!made)
    NABLA_TRY(nabla_alloc(allocator, 1, sizeof *room->arena, &made, diag));
  room->arena = made;
  const nabla_status status =
      nabla_run_function(executable, index, room, inputs, input_count, outputs,
                         output_count, diag);
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
  const nabla_allocator *allocator = executable->environment.allocator;
  const size_t words =
      nabla_run_frame_words(&executable->manifest.functions[index]);
  int began = 0;
  nabla_run_room room = {.pool = executable->environment.pool, .began = &began};
  NABLA_TRY(nabla_alloc(allocator, words, WORD, &room.frame, diag));
  const nabla_status status =
      run_idle(executable, index, &room, inputs, input_count, outputs,
               output_count, diag);
  nabla_free(allocator, room.frame, words, WORD);
  return status;
}
