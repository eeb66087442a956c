/* What a run gives: results are computed in the caller's memory where that is
 * possible, else handed over, else copied. */
#include <inttypes.h>

#include "lib/runtime/program/components.h"
#include "lib/runtime/session/run_frame.h"
#include "lib/runtime/session/strided.h"

/* ---- the caller's outputs ----------------------------------------------- */

static nabla_status fail_count(const nabla_run_frame *f, size_t gives,
                               size_t room) {
  return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                    "'%.60s' gives %zu results; there is room for %zu",
                    f->function->name, gives, room);
}

static nabla_status fail_packed(const nabla_run_frame *f, size_t number,
                                const nabla_port *port, const char *what) {
  const nabla_text_80 gives = nabla_describe_port(port);
  return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT, "result %zu is %s; %s",
                    number, gives.text, what);
}

/* The caller's components of a packed result; without any, they are allocated.
 */
static nabla_status expand_packed(nabla_run_frame *f, size_t number,
                                  const nabla_port *result, nabla_dense *out) {
  const nabla_weight_desc *weight = f->arrays->call->outputs[number].weight;
  const nabla_port *packed = result->packed;
  if (!weight)
    return fail_packed(f, number, packed,
                       "give its output a weight, not a dense array");
  if (!weight->component_count) return NABLA_OK;
  nabla_diag why = NABLA_DIAG_INIT;
  if (!nabla_executable_fits(packed, weight)) {
    const nabla_text_80 gives = nabla_describe_port(packed);
    const nabla_text_80 has = nabla_describe_weight(weight);
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "result %zu is %s; its array is %s", number, gives.text,
                      has.text);
  }
  if (nabla_weight_check(weight, &why))
    return fail_packed(f, number, packed, why.what);
  for (uint32_t i = 0; i < packed->component_count; i++) {
    const nabla_port *part = &result[i];
    out[i] =
        (nabla_dense){.data = (void *)(uintptr_t)weight->components[i].data,
                      .dtype = part->dtype,
                      .rank = part->rank};
    memcpy(out[i].shape, part->shape, part->rank * sizeof *part->shape);
  }
  return NABLA_OK;
}

/* Makes one array per result of the outputs of nabla_session_call. */
static nabla_status expand(nabla_run_frame *f) {
  const nabla_session_arrays *call = f->arrays->call;
  const nabla_signature *function = f->function;
  size_t wanted = 0;
  for (size_t at = 0; at < function->result_count;
       at += nabla_port_results(&function->results[at]))
    wanted++;
  if (wanted != call->output_count)
    return fail_count(f, wanted, call->output_count);
  f->outputs = f->expanded;
  for (size_t i = 0, at = 0; i < wanted; i++) {
    const nabla_port *result = &function->results[at];
    if (result->packed)
      NABLA_TRY(expand_packed(f, i, result, &f->outputs[at]));
    else if (call->outputs[i].weight)
      return fail_packed(f, i, result, "give its output no weight");
    else
      f->outputs[at] = call->outputs[i].dense;
    at += nabla_port_results(result);
  }
  return NABLA_OK;
}

nabla_status nabla_run_check_outputs(nabla_run_frame *f) {
  if (f->arrays->call) return expand(f);
  if (f->function->result_count != f->arrays->output_count)
    return fail_count(f, f->function->result_count, f->arrays->output_count);
  f->outputs = f->arrays->outputs;
  return NABLA_OK;
}

/* Says in a caller's description where the components of a packed result are.
 */
static void collapse_packed(const nabla_port *packed, const nabla_dense *parts,
                            nabla_weight_desc *out) {
  nabla_component_slots slots = {0};
  (void)!nabla_port_components(packed, &slots, NULL); /* checked when loaded */
  *out = (nabla_weight_desc){.name = out->name,
                             .rank = packed->rank,
                             .dtype = packed->dtype,
                             .layout = packed->layout,
                             .component_count = slots.count};
  for (uint32_t i = 0; i < packed->rank; i++)
    out->shape[i] = (uint64_t)packed->shape[i];
  for (uint32_t i = 0; i < slots.count; i++)
    out->components[i] = (nabla_weight_component){.name = slots.at[i].name,
                                                  .dtype = slots.at[i].dtype,
                                                  .data = parts[i].data,
                                                  .bytes = slots.at[i].bytes};
}

/* Gives the arrays of results to the outputs of nabla_session_call. */
static void collapse(const nabla_run_frame *f) {
  const nabla_session_arrays *call = f->arrays->call;
  for (size_t i = 0, at = 0; i < call->output_count; i++) {
    const nabla_port *result = &f->function->results[at];
    if (result->packed)
      collapse_packed(result->packed, &f->outputs[at], call->outputs[i].weight);
    else
      call->outputs[i].dense = f->outputs[at];
    at += nabla_port_results(result);
  }
}

/* ---- before the run ----------------------------------------------------- */

static nabla_status fail_output(const nabla_run_frame *f, size_t number,
                                nabla_text_80 gives) {
  const nabla_text_80 given = nabla_run_describe(&f->outputs[number]);
  return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                    "result %zu is %s; its array is %s", number, gives.text,
                    given.text);
}

/* Sorts the memory of inputs and of outputs by address. Bound weights are apart
 * from outputs, as the caller has promised. */
static void sort_spans(nabla_run_frame *f) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_dense *output = &f->outputs[i];
    if (!output->data) continue;
    if (!nabla_run_count_bytes(output->dtype, output->rank, output->shape,
                               &bytes))
      bytes = INT64_MAX; /* overlaps all behind it, and is refused later */
    nabla_run_spans_add(&f->given, output->data, bytes, i);
  }
  nabla_run_spans_sort(&f->read);
  nabla_run_spans_sort(&f->given);
}

/* The caller's arrays in which results may be computed: those that are apart
 * from all that the run reads, and from other outputs. Others are copied to
 * when all has been computed. */
static void add_result_blocks(nabla_run_frame *f) {
  for (size_t i = 0; i < f->given.count; i++) {
    const nabla_run_span *span = &f->given.at[i];
    void *data = f->outputs[span->number].data;
    const uint64_t bytes = span->end - span->begin;
    const int overlaps = nabla_run_spans_overlap(&f->read, data, bytes);
    f->has_overlap |= overlaps;
    if (span->begin % NABLA_SERVICES_ALIGNMENT == 0 && bytes < INT64_MAX &&
        !nabla_run_spans_overlap_other(&f->given, i) && !overlaps)
      f->blocks[span->number] = (nabla_result_block){data, bytes};
  }
}

nabla_status nabla_run_add_results(nabla_run_frame *f) {
  int is_given = 0;
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_port *port = &f->function->results[i];
    if (f->outputs[i].data && !nabla_run_matches(port, &f->outputs[i]))
      return fail_output(f, i, nabla_describe_port(port));
    f->results[i] = nabla_run_descriptor_add(f, port->rank);
    is_given |= f->outputs[i].data != NULL;
  }
  if (!is_given) return NABLA_OK;
  sort_spans(f);
  add_result_blocks(f);
  return NABLA_OK;
}

/* ---- after the run ------------------------------------------------------ */

static nabla_strided_array result_at(const nabla_run_frame *f, size_t number) {
  const nabla_port *port = &f->function->results[number];
  const nabla_run_descriptor *from = f->results[number];
  const size_t element = nabla_element_size(port->dtype);
  return (nabla_strided_array){
      .data = (const void *)((uintptr_t)from->aligned +
                             (uintptr_t)from->offset * element),
      .element = element,
      .rank = port->rank,
      .sizes = from->numbers,
      .strides = from->numbers + port->rank};
}

/* Finds the results that fill a block which the caller can own, and stages
 * them. A result is copied instead if it is an argument, a constant of the
 * code, a part of a block, or in the same block as an earlier result. The
 * results are sorted by address, and looked up for each block. */
static void stage_blocks(nabla_run_frame *f, const nabla_allocations *blocks) {
  nabla_run_spans *whole = &f->given; /* what was in it is not needed now */
  whole->count = 0;
  for (size_t i = 0; i < f->function->result_count; i++) {
    const nabla_run_descriptor *from = f->results[i];
    const nabla_strided_array result = result_at(f, i);
    if (!f->outputs[i].data && result.data == from->allocated &&
        nabla_strided_is_dense(&result))
      nabla_run_spans_add(whole, from->allocated, 1, i);
  }
  nabla_run_spans_sort(whole);
  void *memory = whole->count ? nabla_allocations_last(blocks) : NULL;
  for (; memory; memory = nabla_allocations_before(memory)) {
    const size_t at = nabla_run_spans_before(whole, (uintptr_t)memory);
    if (at < whole->count && whole->at[at].begin == (uintptr_t)memory)
      f->staged[whole->at[at].number] = memory;
  }
}

/* Whether a result lies in the memory of an input, and outputs do. An output
 * may be in the same memory, so such a result is copied before outputs are
 * written. */
static int lies_in_input(const nabla_run_frame *f, const void *data) {
  return f->has_overlap && nabla_run_spans_overlap(&f->read, data, 1);
}

/* Whether a result was computed in its output: also in a donated input that is
 * the output's memory. */
static int is_delivered(const nabla_dense *output,
                        const nabla_strided_array *result) {
  return result->data == output->data && nabla_strided_is_dense(result);
}

static nabla_status stage_result(nabla_run_frame *f, nabla_run_context *context,
                                 size_t number) {
  const nabla_port *port = &f->function->results[number];
  const nabla_strided_array result = result_at(f, number);
  const nabla_dense *output = &f->outputs[number];
  uint64_t bytes = 0;
  if (!nabla_run_count_bytes(port->dtype, port->rank, result.sizes, &bytes))
    return nabla_fail(f->diag, NABLA_CORRUPT,
                      "the code gave result %zu an impossible size", number);
  if (f->staged[number]) return NABLA_OK;
  if (output->data) {
    if (port->rank &&
        memcmp(output->shape, result.sizes, port->rank * sizeof *output->shape))
      return fail_output(
          f, number,
          nabla_describe_array(port->dtype, port->rank, result.sizes));
    if (is_delivered(output, &result) || !lies_in_input(f, result.data))
      return NABLA_OK;
  }
  void *copy = output->data ? nabla_run_arena_allocate(
                                  context->arena, context->allocator, bytes)
                            : nabla_run_context_allocate_result(context, bytes);
  if (!copy)
    return nabla_fail(f->diag, NABLA_NO_MEMORY,
                      "cannot allocate %" PRIu64 " bytes for result %zu", bytes,
                      number);
  nabla_strided_copy(&result, copy);
  f->staged[number] = copy;
  return NABLA_OK;
}

nabla_status nabla_run_stage(nabla_run_frame *f, nabla_run_context *context) {
  stage_blocks(f, nabla_run_context_result_blocks(context));
  for (size_t i = 0; i < f->function->result_count; i++)
    NABLA_TRY(stage_result(f, context, i));
  return NABLA_OK;
}

static void copy_staged(const nabla_port *port, const nabla_dense *output,
                        const void *staged) {
  uint64_t bytes = 0;
  (void)nabla_run_count_bytes(port->dtype, port->rank, output->shape, &bytes);
  if (bytes) memcpy(output->data, staged, bytes);
}

static void deliver_result(nabla_run_frame *f, nabla_run_context *context,
                           size_t number) {
  const nabla_port *port = &f->function->results[number];
  const nabla_strided_array result = result_at(f, number);
  nabla_dense *output = &f->outputs[number];
  if (!output->data) {
    nabla_run_context_take_result(context, f->staged[number]);
    *output = (nabla_dense){
        .data = f->staged[number], .dtype = port->dtype, .rank = port->rank};
    for (uint32_t d = 0; d < port->rank; d++)
      output->shape[d] = result.sizes[d];
  } else if (f->staged[number]) {
    copy_staged(port, output, f->staged[number]);
  } else if (!is_delivered(output, &result)) {
    nabla_strided_copy(&result, output->data);
  }
}

void nabla_run_deliver(nabla_run_frame *f, nabla_run_context *context) {
  for (size_t i = 0; i < f->function->result_count; i++)
    deliver_result(f, context, i);
  if (f->arrays->call) collapse(f);
}
