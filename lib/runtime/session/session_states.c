/* The states of a session: given, read, zeroed and copied by name, and what the
 * session holds. */
#include <string.h>

#include "lib/base/require.h"
#include "lib/runtime/program/type_to_text.h"
#include "lib/runtime/session/pieces.h"
#include "lib/runtime/session/session_internal.h"

size_t nabla_session_state_count(const nabla_session *session) {
  return session->state_count;
}

const nabla_port *nabla_session_state(const nabla_session *session,
                                      size_t index) {
  return index < session->state_count ? session->states[index].port : NULL;
}

/* ---- one state ---------------------------------------------------------- */

/* The array has the dtype and shape of the state. */
static nabla_status check_array(const nabla_session_state_slot *slot,
                                const nabla_dense *array, nabla_diag *diag) {
  const nabla_port *port = slot->port;
  int good = array->dtype == port->dtype && array->rank == port->rank;
  for (uint32_t i = 0; good && i < port->rank; i++)
    good = array->shape[i] == port->shape[i];
  if (!good) {
    const nabla_text_80 has = nabla_describe_port(port);
    const nabla_text_80 given = nabla_describe_array(
        array->dtype,
        array->rank < NABLA_ARRAY_MAX_RANK ? array->rank : NABLA_ARRAY_MAX_RANK,
        array->shape);
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the state '%.60s' is %s; the array is %s",
                      port->state_name, has.text, given.text);
  }
  if (slot->bytes && !array->data)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the array for the state '%.60s' has no data",
                      port->state_name);
  return NABLA_OK;
}

static void copy(void *to, const void *from, uint64_t bytes) {
  if (bytes) memmove(to, from, (size_t)bytes);
}

static nabla_status set(nabla_session *session, const char *name,
                        const nabla_dense *value, nabla_diag *diag) {
  nabla_session_state_slot *slot;
  NABLA_TRY(nabla_session_seek(session, name, &slot, diag));
  NABLA_TRY(check_array(slot, value, diag));
  copy(slot->data, value->data, slot->bytes);
  return NABLA_OK;
}

nabla_status nabla_session_state_set(nabla_session *session, const char *name,
                                     const nabla_dense *value,
                                     nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(value, diag);
  NABLA_TRY(nabla_session_enter(session, diag));
  const nabla_status status = set(session, name, value, diag);
  nabla_session_leave(session);
  return status;
}

/* An array of the caller's, as nabla_dense_release frees it. */
static nabla_status allocate(const nabla_session *session,
                             const nabla_session_state_slot *slot,
                             nabla_dense *out, nabla_diag *diag) {
  const nabla_port *port = slot->port;
  nabla_allocations blocks = {0};
  void *data =
      nabla_allocations_allocate(&blocks, session->allocator, slot->bytes);
  if (!data)
    return nabla_fail(diag, NABLA_NO_MEMORY,
                      "cannot allocate %llu bytes for the state '%.60s'",
                      (unsigned long long)slot->bytes, port->state_name);
  nabla_allocations_take(&blocks, data);
  *out = (nabla_dense){.data = data, .dtype = port->dtype, .rank = port->rank};
  memcpy(out->shape, port->shape, port->rank * sizeof *out->shape);
  return NABLA_OK;
}

static nabla_status get(const nabla_session *session, const char *name,
                        nabla_dense *out, nabla_diag *diag) {
  nabla_session_state_slot *slot;
  NABLA_TRY(nabla_session_seek(session, name, &slot, diag));
  if (out->data)
    NABLA_TRY(check_array(slot, out, diag));
  else
    NABLA_TRY(allocate(session, slot, out, diag));
  copy(out->data, slot->data, slot->bytes);
  return NABLA_OK;
}

nabla_status nabla_session_state_get(nabla_session *session, const char *name,
                                     nabla_dense *out, nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(nabla_session_enter(session, diag));
  const nabla_status status = get(session, name, out, diag);
  nabla_session_leave(session);
  return status;
}

/* ---- one state, or all -------------------------------------------------- */

static nabla_status zero(nabla_session *session, const char *name,
                         nabla_diag *diag) {
  nabla_session_state_slot *one = NULL;
  if (name) NABLA_TRY(nabla_session_seek(session, name, &one, diag));
  for (size_t i = 0; i < session->state_count; i++) {
    nabla_session_state_slot *slot = &session->states[i];
    if (one && slot != one) continue;
    memset(slot->data, 0, (size_t)slot->bytes);
  }
  if (!name) session->is_spent = 0;
  return NABLA_OK;
}

nabla_status nabla_session_state_zero(nabla_session *session, const char *name,
                                      nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_TRY(nabla_session_enter(session, diag));
  const nabla_status status = zero(session, name, diag);
  nabla_session_leave(session);
  return status;
}

/* Finds the state of `from` for `slot` of another session. */
static nabla_status match(const nabla_session *from,
                          const nabla_session_state_slot *slot,
                          nabla_session_state_slot **out, nabla_diag *diag) {
  NABLA_TRY(nabla_session_seek(from, slot->port->state_name, out, diag));
  const nabla_port *port = (*out)->port;
  nabla_dense array = {
      .data = (*out)->data, .dtype = port->dtype, .rank = port->rank};
  memcpy(array.shape, port->shape, port->rank * sizeof *array.shape);
  return check_array(slot, &array, diag);
}

/* Copies after all has been checked. */
static nabla_status copy_states(nabla_session *to, const nabla_session *from,
                                const char *name, nabla_diag *diag) {
  nabla_session_state_slot *one = NULL, *source;
  if (from->is_spent)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the session to copy from is spent: a run failed while "
                      "it wrote states");
  if (name) NABLA_TRY(nabla_session_seek(to, name, &one, diag));
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < to->state_count; i++) {
      const nabla_session_state_slot *slot = &to->states[i];
      if (one && slot != one) continue;
      NABLA_TRY(match(from, slot, &source, diag));
      if (pass) copy(slot->data, source->data, slot->bytes);
    }
  }
  if (!name) to->is_spent = 0;
  return NABLA_OK;
}

nabla_status nabla_session_state_copy(nabla_session *to, nabla_session *from,
                                      const char *name, nabla_diag *diag) {
  NABLA_REQUIRE(to, diag);
  NABLA_REQUIRE(from, diag);
  if (to == from) return NABLA_OK;
  NABLA_TRY(nabla_session_enter(to, diag));
  nabla_status status = nabla_session_enter(from, diag);
  if (!status) {
    status = copy_states(to, from, name, diag);
    nabla_session_leave(from);
  }
  nabla_session_leave(to);
  return status;
}

/* ---- memory ------------------------------------------------------------- */

nabla_status nabla_session_memory(nabla_session *session,
                                  nabla_session_usage *out, nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(out, "session usage", diag);
  NABLA_TRY(nabla_session_enter(session, diag));
  const nabla_manifest *manifest = &session->executable->manifest;
  out->state_bytes = 0;
  for (size_t i = 0; i < session->state_count; i++)
    out->state_bytes += nabla_allocations_size(session->states[i].data);
  out->run_bytes = nabla_run_arena_size(&session->arena);
  out->piece_bytes = session->piece_bytes;
  out->other_bytes = sizeof *session +
                     session->state_room * sizeof *session->states +
                     manifest->port_count * sizeof *session->by_port +
                     session->frame_words * sizeof(int64_t) +
                     session->trace.capacity * sizeof *session->trace.held +
                     session->trace.peak_capacity * sizeof *session->trace.peak;
  nabla_status status =
      nabla_session_count_weights(session, &out->weight_bytes, diag);
  nabla_memory_trace_sort(&session->trace);
  out->peak_bytes = session->trace.peak_bytes;
  out->holder_count = session->trace.peak_count;
  out->holders = session->trace.peak;
  if (!status && session->trace.has_failed)
    status = nabla_fail(diag, NABLA_NO_MEMORY,
                        "there was no memory to find the peak of the session's "
                        "runs");
  nabla_session_leave(session);
  return status;
}
