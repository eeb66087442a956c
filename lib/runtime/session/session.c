/* Sessions: states, and the memory in which functions run one after another.
 * States are found by port here, so that a run does not look names up. */
#include "nabla/session.h"

#include <string.h>

#include "lib/base/edit_distance.h"
#include "lib/base/require.h"
#include "lib/runtime/session/pieces.h"
#include "lib/runtime/session/session_internal.h"

/* ---- making ------------------------------------------------------------- */

/* The state of this name among those that were found, or NULL. */
static nabla_session_state_slot *find(const nabla_session *session,
                                      const char *name) {
  for (size_t i = 0; i < session->state_count; i++)
    if (!strcmp(session->states[i].port->state_name, name))
      return &session->states[i];
  return NULL;
}

static int same_type(const nabla_port *a, const nabla_port *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return 0;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return 0;
  return 1;
}

/* Bytes of a state: the manifest's reader has checked that they exist. */
static uint64_t bytes_of(const nabla_port *port) {
  uint64_t bytes = nabla_element_size(port->dtype);
  for (uint32_t i = 0; i < port->rank; i++) bytes *= (uint64_t)port->shape[i];
  return bytes;
}

static nabla_status add_state(nabla_session *session, const nabla_port *port,
                              nabla_diag *diag) {
  const uint64_t bytes = bytes_of(port);
  void *data =
      nabla_allocations_allocate(&session->blocks, session->allocator, bytes);
  if (!data)
    return nabla_fail(diag, NABLA_NO_MEMORY,
                      "cannot allocate %llu bytes for the state '%.60s'",
                      (unsigned long long)bytes, port->state_name);
  memset(data, 0, (size_t)bytes);
  session->states[session->state_count++] =
      (nabla_session_state_slot){port, data, bytes};
  return NABLA_OK;
}

/* Finds or makes the state that a port is: the rank's piece of it. */
static nabla_status take_port(nabla_session *session, size_t number,
                              nabla_diag *diag) {
  const nabla_manifest *manifest = &session->executable->manifest;
  const nabla_argument_cut *cut = nabla_manifest_cut(manifest, number);
  const nabla_port *port = cut ? &cut->local : &manifest->ports[number];
  if (!*port->state_name) return NABLA_OK;
  nabla_session_state_slot *slot = find(session, port->state_name);
  if (slot && !same_type(slot->port, port))
    return nabla_fail(diag, NABLA_CORRUPT,
                      "two functions have the state '%.60s' of different types",
                      port->state_name);
  if (!slot) {
    NABLA_TRY(add_state(session, port, diag));
    slot = &session->states[session->state_count - 1];
  }
  session->by_port[number] = slot->data;
  return NABLA_OK;
}

static size_t count_state_ports(const nabla_manifest *manifest) {
  size_t count = 0;
  for (size_t i = 0; i < manifest->port_count; i++)
    count += *manifest->ports[i].state_name != 0;
  return count;
}

/* The frame is as large as any function needs it. */
static nabla_status make_frame(nabla_session *session, nabla_diag *diag) {
  const nabla_manifest *manifest = &session->executable->manifest;
  for (size_t i = 0; i < manifest->function_count; i++) {
    const size_t words = nabla_run_frame_words(&manifest->functions[i]);
    if (words > session->frame_words) session->frame_words = words;
  }
  return nabla_alloc(session->allocator, session->frame_words, sizeof(int64_t),
                     &session->frame, diag);
}

static nabla_status make_pool(nabla_session *session,
                              const nabla_session_options *options,
                              nabla_diag *diag) {
  if (!options) return NABLA_OK;
  if (options->pool) session->pool = options->pool;
  if (!options->threads) return NABLA_OK;
  NABLA_TRY(nabla_pool_create(options->threads, session->allocator,
                              &session->own_pool, diag));
  session->pool = session->own_pool;
  return NABLA_OK;
}

static nabla_status fill(nabla_session *session,
                         const nabla_session_options *options,
                         nabla_diag *diag) {
  const nabla_manifest *manifest = &session->executable->manifest;
  void *states = NULL, *by_port = NULL;
  session->state_room = count_state_ports(manifest);
  NABLA_TRY(nabla_alloc(session->allocator, session->state_room,
                        sizeof *session->states, &states, diag));
  session->states = states;
  NABLA_TRY(nabla_alloc(session->allocator, manifest->port_count,
                        sizeof *session->by_port, &by_port, diag));
  session->by_port = by_port;
  NABLA_TRY(make_frame(session, diag));
  NABLA_TRY(make_pool(session, options, diag));
  for (size_t i = 0; i < manifest->port_count; i++)
    NABLA_TRY(take_port(session, i, diag));
  return nabla_session_take_pieces(session, diag);
}

/* A rank with its place in the mesh of a program. */
static nabla_call_rank rank_of(const nabla_manifest *manifest, nabla_comm *comm,
                               uint32_t rank) {
  nabla_call_rank out = {.comm = comm, .rank = rank, .place = rank};
  if (!manifest->has_devices) return out;
  out.ranks = manifest->devices;
  for (uint32_t i = 0; i < manifest->ranks; i++)
    if (manifest->devices[i] == rank) out.place = i;
  return out;
}

/* A program for several ranks runs as one of a communicator of as many. */
static nabla_status take_rank(nabla_session *session,
                              const nabla_session_options *options,
                              nabla_diag *diag) {
  const uint32_t wanted = session->executable->manifest.ranks;
  nabla_comm *comm = options ? options->comm : NULL;
  const uint32_t ranks = comm ? nabla_comm_size(comm) : 1;
  if (wanted > 1 && !comm) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "the program is for %u ranks, the session has no "
                   "communicator",
                   wanted);
    nabla_diag_set_next(diag,
                        "make one for %u ranks (nabla_comm_threads), and "
                        "a session for each rank, as nabla-run --ranks %u and "
                        "Program.run of Python do",
                        wanted, wanted);
    return status;
  }
  if (ranks != (wanted ? wanted : 1))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the program is for %u ranks, the communicator has %u",
                      wanted ? wanted : 1, ranks);
  if (options && options->rank >= ranks)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rank %u of a communicator with %u", options->rank,
                      ranks);
  session->rank = rank_of(&session->executable->manifest, comm,
                          options && comm ? options->rank : 0);
  session->check = options ? options->check : NABLA_CHECK_NEVER;
  if (session->check > NABLA_CHECK_NEVER)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the session options have no check %d",
                      (int)session->check);
  return NABLA_OK;
}

nabla_status nabla_session_create(nabla_executable *executable,
                                  const nabla_session_options *options,
                                  nabla_session **out, nabla_diag *diag) {
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(out, diag);
  if (options) NABLA_REQUIRE_SIZE(options, "session options", diag);
  if (options && options->pool && options->threads)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "session options have a pool and a number of threads: "
                      "give one of them");
  void *block = NULL;
  const nabla_allocator *allocator = executable->environment.allocator;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_session), &block, diag));
  nabla_session *session = block;
  session->executable = executable;
  session->allocator = allocator;
  atomic_init(&session->is_busy, 0);
  nabla_executable_retain(executable);
  session->pool = executable->environment.pool;
  nabla_status status = take_rank(session, options, diag);
  if (!status) status = fill(session, options, diag);
  if (status) {
    nabla_session_close(session);
    return status;
  }
  session->is_sealing = 1;
  atomic_fetch_add(&executable->seals, 1);
  *out = session;
  return NABLA_OK;
}

void nabla_session_close(nabla_session *session) {
  if (!session) return;
  const nabla_allocator *allocator = session->allocator;
  nabla_executable *executable = session->executable;
  nabla_run_arena_clear(&session->arena, allocator);
  nabla_memory_trace_deinit(&session->trace, allocator);
  nabla_pool_destroy(session->own_pool);
  nabla_allocations_clear(&session->blocks, allocator);
  nabla_free(allocator, session->pieces, executable->manifest.port_count,
             sizeof *session->pieces);
  nabla_free(allocator, session->frame, session->frame_words, sizeof(int64_t));
  nabla_free(allocator, session->by_port, executable->manifest.port_count,
             sizeof *session->by_port);
  nabla_free(allocator, session->states, session->state_room,
             sizeof *session->states);
  if (session->is_sealing && !session->has_begun)
    atomic_fetch_sub(&executable->seals, 1);
  nabla_free(allocator, session, 1, sizeof *session);
  nabla_executable_close(executable);
}

/* ---- one user at a time ------------------------------------------------- */

nabla_status nabla_session_enter(nabla_session *session, nabla_diag *diag) {
  if (!atomic_exchange(&session->is_busy, 1)) return NABLA_OK;
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "the session is in use by a run");
  nabla_diag_set_next(diag, "make a session for each thread");
  return status;
}

void nabla_session_leave(nabla_session *session) {
  atomic_store(&session->is_busy, 0);
}

nabla_status nabla_session_seek(const nabla_session *session, const char *name,
                                nabla_session_state_slot **out,
                                nabla_diag *diag) {
  *out = find(session, name);
  if (*out) return NABLA_OK;
  nabla_nearest nearest = nabla_nearest_begin(name, strlen(name));
  for (size_t i = 0; i < session->state_count; i++) {
    const char *other = session->states[i].port->state_name;
    nabla_nearest_offer(&nearest, other, strlen(other));
  }
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "there is no state '%.100s'", name);
  nabla_nearest_say(&nearest, diag,
                    session->state_count ? "name one of the program's"
                                         : "the program has none");
  return status;
}

/* ---- running ------------------------------------------------------------ */

static int has_states(const nabla_signature *function) {
  for (size_t i = 0; i < function->argument_count; i++)
    if (*function->arguments[i].state_name) return 1;
  return 0;
}

static nabla_status run(nabla_session *session, size_t index,
                        const nabla_run_arrays *arrays, nabla_diag *diag) {
  const nabla_executable *executable = session->executable;
  int began = 0;
  const nabla_run_room room = {.arena = &session->arena,
                               .pool = session->pool,
                               .states = session->by_port,
                               .trace = &session->trace,
                               .frame = session->frame,
                               .rank = session->rank,
                               .pieces = session->pieces,
                               .blocks = &session->blocks,
                               .allocator = session->allocator,
                               .compared = session,
                               .began = &began};
  const int writes = has_states(&executable->manifest.functions[index]);
  if (session->is_spent && writes) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "the session is spent: a run failed while it wrote states");
    nabla_diag_set_next(diag, "zero or copy all states, or make a new session");
    return status;
  }
  const nabla_status status =
      nabla_run_function(executable, index, &room, arrays, diag);
  if (began) session->has_begun = 1;
  if (status && began && writes) session->is_spent = 1;
  if (status && session->rank.comm)
    nabla_comm_fail(session->rank.comm, session->rank.rank,
                    diag ? diag->what : "its run failed");
  return status;
}

static nabla_status enter_and_run(nabla_session *session, const char *function,
                                  const nabla_run_arrays *arrays,
                                  nabla_diag *diag) {
  size_t index = 0;
  NABLA_TRY(nabla_executable_seek(session->executable, function, &index, diag));
  NABLA_TRY(nabla_session_enter(session, diag));
  const nabla_status status = run(session, index, arrays, diag);
  nabla_session_leave(session);
  return status;
}

nabla_status nabla_session_run(nabla_session *session, const char *function,
                               const nabla_dense *inputs, size_t input_count,
                               nabla_dense *outputs, size_t output_count,
                               nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(function, diag);
  if (input_count) NABLA_REQUIRE(inputs, diag);
  if (output_count) NABLA_REQUIRE(outputs, diag);
  const nabla_run_arrays arrays = {inputs, input_count, outputs, output_count,
                                   NULL};
  return enter_and_run(session, function, &arrays, diag);
}

nabla_status nabla_session_call(nabla_session *session, const char *function,
                                const nabla_session_arrays *arrays,
                                nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(arrays, diag);
  NABLA_REQUIRE_SIZE(arrays, "session arrays", diag);
  if (arrays->input_count) NABLA_REQUIRE(arrays->inputs, diag);
  if (arrays->output_count) NABLA_REQUIRE(arrays->outputs, diag);
  const nabla_run_arrays all = {.call = arrays};
  return enter_and_run(session, function, &all, diag);
}

/* ---- results of nabla_session_call -------------------------------------- */

void *nabla_result_allocate(const nabla_allocator *allocator, uint64_t bytes) {
  nabla_allocations blocks = {0};
  void *memory = nabla_allocations_allocate(&blocks, allocator, bytes);
  if (memory) nabla_allocations_take(&blocks, memory);
  return memory;
}

void nabla_result_free(const nabla_allocator *allocator, void *memory) {
  nabla_allocations_free(NULL, allocator, memory);
}
