/* What a run takes: the inputs are checked, and described for the code with the
 * states and with what is bound. */
#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>

#include "lib/base/checked.h"
#include "lib/runtime/program/components.h"
#include "lib/runtime/program/guarded.h"
#include "lib/runtime/session/pieces.h"
#include "lib/runtime/session/run_frame.h"

/* The data pointer in descriptors of arrays without elements. */
static const alignas(NABLA_SERVICES_ALIGNMENT) uint8_t nothing[1];

/* ---- types -------------------------------------------------------------- */

int nabla_run_count_bytes(nabla_dtype dtype, uint32_t rank,
                          const int64_t *shape, uint64_t *out) {
  uint64_t bytes = nabla_element_size(dtype);
  for (uint32_t i = rank; i > 0; i--)
    if (shape[i - 1] < 0 ||
        !nabla_mul_u64(bytes, (uint64_t)shape[i - 1], &bytes) ||
        bytes > INT64_MAX)
      return 0;
  *out = bytes;
  return 1;
}

int nabla_run_matches(const nabla_port *port, const nabla_dense *array) {
  if (array->dtype != port->dtype || array->rank != port->rank) return 0;
  for (uint32_t i = 0; i < port->rank; i++)
    if (array->shape[i] < 0 ||
        (port->shape[i] != NABLA_DYNAMIC && port->shape[i] != array->shape[i]))
      return 0;
  return 1;
}

nabla_text_80 nabla_run_describe(const nabla_dense *array) {
  const uint32_t rank =
      array->rank < NABLA_ARRAY_MAX_RANK ? array->rank : NABLA_ARRAY_MAX_RANK;
  return nabla_describe_array(array->dtype, rank, array->shape);
}

/* ---- what the caller gives ---------------------------------------------- */

static const nabla_dense *input_at(const nabla_run_frame *f, size_t number) {
  const nabla_session_arrays *call = f->arrays->call;
  return call ? &call->inputs[number].dense : &f->arrays->inputs[number];
}

/* The weight that is input `number`, or NULL. */
static const nabla_weight_desc *weight_at(const nabla_run_frame *f,
                                          size_t number) {
  const nabla_session_arrays *call = f->arrays->call;
  return call ? call->inputs[number].weight : NULL;
}

/* Whether an input is needed for an argument. */
static int takes_input(const nabla_executable *executable,
                       const nabla_port *port) {
  return !*port->state_name &&
         (!*port->encoding_name || port->component_count) &&
         !nabla_executable_binding(executable, port)->is_bound;
}

/* Whether an input is given as the piece of this rank. */
static int is_piece(const nabla_run_frame *f, size_t number) {
  const nabla_session_arrays *call = f->arrays->call;
  return call && call->inputs[number].is_piece;
}

/* ---- dense inputs ------------------------------------------------------- */

/* Describes a row-major array, whose size has been checked. */
static nabla_run_descriptor *describe(nabla_run_frame *f, const void *data,
                                      uint32_t rank, const int64_t *shape) {
  nabla_run_descriptor *out = nabla_run_descriptor_add(f, rank);
  out->allocated = out->aligned = (void *)(uintptr_t)(data ? data : nothing);
  uint64_t stride = 1; /* wraps only if there are no elements */
  for (uint32_t i = rank; i > 0; i--) {
    out->numbers[i - 1] = shape[i - 1];
    out->numbers[rank + i - 1] = (int64_t)stride;
    stride *= (uint64_t)shape[i - 1];
  }
  return out;
}

static nabla_status check_dense(const nabla_run_frame *f,
                                const nabla_port *port, size_t number) {
  const nabla_dense *array = input_at(f, number);
  const size_t element = nabla_element_size(port->dtype);
  uint64_t bytes = 0;
  if (!nabla_run_matches(port, array)) {
    const nabla_text_80 takes = nabla_describe_port(port);
    const nabla_text_80 given = nabla_run_describe(array);
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') takes %s; %s was given", number,
                      port->name, takes.text, given.text);
  }
  if (!nabla_run_count_bytes(array->dtype, array->rank, array->shape, &bytes))
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

/* ---- arguments ---------------------------------------------------------- */

/* Describes a bound argument: one array, or its components. */
static size_t add_bound(nabla_run_frame *f, const nabla_port *port,
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

/* The shape of a piece of an array: sizes that are known when the program runs
 * have to be divided evenly. */
static nabla_status shape_piece(const nabla_run_frame *f,
                                const nabla_port *port,
                                const nabla_argument_cut *cut,
                                const nabla_dense *array, size_t number,
                                int64_t *out) {
  uint32_t pieces[NABLA_ARRAY_MAX_RANK];
  for (uint32_t i = 0; i < port->rank; i++) pieces[i] = 1;
  for (uint32_t i = 0; i < cut->count; i++)
    pieces[cut->at[i].dim] *= cut->at[i].size;
  for (uint32_t i = 0; i < port->rank; i++) {
    out[i] = cut->local.shape[i];
    if (out[i] != NABLA_DYNAMIC) continue;
    if (array->shape[i] % pieces[i])
      return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                        "input %zu ('%.40s') has %lld elements along dimension "
                        "%u, which %u ranks do not divide evenly",
                        number, port->name, (long long)array->shape[i], i,
                        pieces[i]);
    out[i] = array->shape[i] / pieces[i];
  }
  return NABLA_OK;
}

/* Room for a piece whose size is known when the program runs; it grows. */
static nabla_status make_room(const nabla_run_frame *f, nabla_binding *piece,
                              const nabla_port *port, const int64_t *shape) {
  uint64_t had = 0, bytes = 0;
  (void)nabla_run_count_bytes(port->dtype, port->rank, piece->shape, &had);
  (void)nabla_run_count_bytes(port->dtype, port->rank, shape, &bytes);
  if (piece->data[0] && bytes <= had) return NABLA_OK;
  piece->data[0] =
      nabla_allocations_allocate(f->room->blocks, f->room->allocator, bytes);
  if (!piece->data[0])
    return nabla_fail(f->diag, NABLA_NO_MEMORY,
                      "cannot allocate %llu bytes for a piece of '%.60s'",
                      (unsigned long long)bytes, port->name);
  for (uint32_t i = 0; i < port->rank; i++) piece->shape[i] = shape[i];
  return NABLA_OK;
}

static int has_unknown(const nabla_port *port) {
  for (uint32_t i = 0; i < port->rank; i++)
    if (port->shape[i] == NABLA_DYNAMIC) return 1;
  return 0;
}

/* Describes an input, which is read where it lies. */
static nabla_status add_in_place(nabla_run_frame *f, const nabla_port *port,
                                 size_t number, size_t *at) {
  const nabla_dense *array = input_at(f, number);
  uint64_t bytes = 0;
  NABLA_TRY(check_dense(f, port, number));
  (void)nabla_run_count_bytes(array->dtype, array->rank, array->shape, &bytes);
  nabla_run_spans_add(&f->read, array->data, bytes, number);
  f->arguments[(*at)++] = describe(f, array->data, array->rank, array->shape);
  return NABLA_OK;
}

/* Describes the input that is a weight, checked as a binding is; or the piece
 * of this rank. */
static nabla_status add_weight(nabla_run_frame *f, const nabla_port *port,
                               const nabla_argument_cut *cut, size_t number,
                               size_t *at) {
  const nabla_weight_desc *weight = weight_at(f, number);
  nabla_binding whole, piece;
  NABLA_TRY(nabla_executable_check_fit(port, weight, f->diag));
  nabla_executable_take(&whole, weight);
  for (uint32_t i = 0; i < weight->component_count; i++)
    nabla_run_spans_add(&f->read, weight->components[i].data,
                        weight->components[i].bytes, number);
  if (cut)
    NABLA_TRY(
        nabla_piece_of_weight(f->room, port, cut, &whole, &piece, f->diag));
  *at += add_bound(f, cut ? &cut->local : port, cut ? &piece : &whole, *at);
  return NABLA_OK;
}

static nabla_status refuse_dense(const nabla_run_frame *f,
                                 const nabla_port *port, size_t number) {
  const nabla_text_80 takes = nabla_describe_port(port);
  return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                    "input %zu ('%.40s') takes %s; a dense array was given",
                    number, port->name, takes.text);
}

/* Copies this rank's piece of an input, and describes it. One of unknown size
 * that lies in a row is used in place. */
static nabla_status add_input_piece(nabla_run_frame *f, const nabla_port *port,
                                    const nabla_argument_cut *cut,
                                    size_t number, size_t *at) {
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  if (weight_at(f, number)) return add_weight(f, port, cut, number, at);
  if (port->component_count) return refuse_dense(f, port, number);
  if (is_piece(f, number)) return add_in_place(f, &cut->local, number, at);
  NABLA_TRY(check_dense(f, port, number));
  const nabla_dense *array = input_at(f, number);
  NABLA_TRY(shape_piece(f, port, cut, array, number, shape));
  const int grows = has_unknown(&cut->local);
  const void *data =
      grows ? nabla_piece_in_place(cut, f->place, array, shape) : NULL;
  if (data) {
    uint64_t bytes = 0;
    (void)nabla_run_count_bytes(array->dtype, array->rank, array->shape,
                                &bytes);
    nabla_run_spans_add(&f->read, array->data, bytes, number);
  } else {
    nabla_binding *piece = &f->pieces[cut->port];
    if (grows) NABLA_TRY(make_room(f, piece, port, shape));
    nabla_piece_copy(cut, f->place, array, shape,
                     (void *)(uintptr_t)piece->data[0]);
    data = piece->data[0];
  }
  NABLA_TRY(nabla_guarded_check(array->data, f->diag));
  f->arguments[(*at)++] = describe(f, data, cut->local.rank, shape);
  return NABLA_OK;
}

static nabla_status add_dense(nabla_run_frame *f, const nabla_port *port,
                              size_t number, size_t *at) {
  if (port->component_count) return refuse_dense(f, port, number);
  if (is_piece(f, number))
    return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                      "input %zu ('%.40s') is a piece, but all ranks have the "
                      "whole of this argument",
                      number, port->name);
  return add_in_place(f, port, number, at);
}

/* A donated input overlaps no other, since the code may write to it. Once all
 * inputs are in `read`, which is sorted here. */
static nabla_status check_donated(nabla_run_frame *f,
                                  const nabla_executable *executable) {
  size_t input = 0;
  nabla_run_spans_sort(&f->read);
  for (size_t i = 0; i < f->function->argument_count; i++) {
    const nabla_port *port = &f->function->arguments[i];
    if (!takes_input(executable, port)) continue;
    const size_t number = input++;
    if (!port->is_donated) continue;
    for (size_t at = 0; at < f->read.count; at++)
      if (f->read.at[at].number == number &&
          nabla_run_spans_overlap_other(&f->read, at))
        return nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                          "input %zu ('%.40s') is donated and overlaps another "
                          "input, which the run may overwrite",
                          number, port->name);
  }
  return NABLA_OK;
}

static int has_donated(const nabla_signature *function) {
  for (size_t i = 0; i < function->argument_count; i++)
    if (function->arguments[i].is_donated) return 1;
  return 0;
}

/* Fills the arguments in order: with its state, from its binding if there is
 * one, else from the next input. */
nabla_status nabla_run_add_arguments(nabla_run_frame *f,
                                     const nabla_executable *executable) {
  size_t at = 0, input = 0;
  for (size_t i = 0; i < f->function->argument_count; i++) {
    const nabla_port *port = &f->function->arguments[i];
    const nabla_binding *binding = nabla_executable_binding(executable, port);
    const size_t number = (size_t)(port - executable->manifest.ports);
    const nabla_argument_cut *cut =
        f->pieces ? nabla_manifest_cut(&executable->manifest, number) : NULL;
    const nabla_port *local = cut ? &cut->local : port;
    if (*port->state_name) {
      f->arguments[at++] =
          describe(f, f->states[number], local->rank, local->shape);
    } else if (binding->is_bound) {
      at += add_bound(f, local, cut ? &f->pieces[number] : binding, at);
    } else if (cut && takes_input(executable, port)) {
      NABLA_TRY(add_input_piece(f, port, cut, input, &at));
      input++;
    } else if (takes_input(executable, port)) {
      NABLA_TRY(weight_at(f, input) ? add_weight(f, port, NULL, input, &at)
                                    : add_dense(f, port, input, &at));
      input++;
    }
  }
  return has_donated(f->function) ? check_donated(f, executable) : NABLA_OK;
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
    if (!takes_input(executable, port)) continue;
    const int length = snprintf(out + used, room - used, "%s%.30s",
                                used ? ", " : "", port->name);
    used += length > 0 ? (size_t)length : 0;
  }
}

static nabla_status fail_state(const nabla_run_frame *f,
                               const nabla_port *port) {
  const nabla_status status =
      nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                 "'%.60s' has the state '%.60s', which lives in a session",
                 f->function->name, port->state_name);
  nabla_diag_set_next(f->diag,
                      "make a session (nabla_session_create) and run it there");
  return status;
}

static nabla_status fail_unbound(const nabla_run_frame *f,
                                 const nabla_port *port) {
  const nabla_text_80 takes = nabla_describe_port(port);
  const nabla_status status =
      nabla_fail(f->diag, NABLA_INVALID_ARGUMENT,
                 "argument '%.60s' of '%.60s' is not bound", port->name,
                 f->function->name);
  nabla_diag_set_next(f->diag, "bind a weight that is %s", takes.text);
  return status;
}

nabla_status nabla_run_check_inputs(const nabla_executable *executable,
                                    const nabla_run_frame *f) {
  const nabla_signature *function = f->function;
  const nabla_session_arrays *call = f->arrays->call;
  const size_t given = call ? call->input_count : f->arrays->input_count;
  size_t wanted = 0;
  for (size_t i = 0; i < function->argument_count; i++) {
    const nabla_port *port = &function->arguments[i];
    if (*port->state_name && !f->states) return fail_state(f, port);
    if (!takes_input(executable, port)) continue;
    wanted++;
    if (port->component_count && !call) return fail_unbound(f, port);
  }
  if (wanted == given) return NABLA_OK;
  char names[100];
  name_inputs(executable, function, names, sizeof names);
  const nabla_status status = nabla_fail(
      f->diag, NABLA_INVALID_ARGUMENT,
      "'%.60s' takes %zu inputs%s%s%s; %zu were given", function->name, wanted,
      wanted ? " (" : "", names, wanted ? ")" : "", given);
  if (given < wanted)
    nabla_diag_set_next(f->diag,
                        "give them all, or bind some to the program by name "
                        "before it runs: bind, bind_model");
  return status;
}
