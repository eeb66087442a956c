/* Ranks compare what they run before they exchange anything else. */
#include <string.h>

#include "lib/runtime/collectives/collective.h"
#include "lib/runtime/program/bound_key.h"
#include "lib/runtime/session/session_internal.h"

/* What is compared: the first that differs is named. */
enum { MESH, PROGRAM, WEIGHTS, FUNCTION, INPUTS, KEYS };
static const char *const names[KEYS] = {"meshes", "programs", "weights",
                                        "functions", "inputs"};

static uint64_t mesh_key(const nabla_manifest *manifest) {
  uint64_t key = nabla_key_mix(manifest->ranks, manifest->devices,
                               sizeof manifest->devices);
  for (size_t i = 0; i < manifest->cut_count; i++) {
    const nabla_argument_cut *cut = &manifest->cuts[i];
    const uint64_t port = cut->port;
    key = nabla_key_mix(key, &port, sizeof port);
    key = nabla_key_mix(key, cut->at, cut->count * sizeof *cut->at);
  }
  return key;
}

/* Pieces differ between ranks: their types count. */
static uint64_t mix_dense(uint64_t key, const nabla_dense *array,
                          int is_piece) {
  size_t bytes = is_piece ? 0 : nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  key = nabla_key_mix(key, &array->dtype, sizeof array->dtype);
  key = nabla_key_mix(key, array->shape, array->rank * sizeof *array->shape);
  return nabla_key_mix(key, array->data, bytes);
}

static uint64_t mix_weight(uint64_t key, const nabla_weight_desc *weight) {
  for (uint32_t i = 0; i < weight->component_count; i++)
    key = nabla_key_mix(key, weight->components[i].data,
                        (size_t)weight->components[i].bytes);
  return key;
}

/* Inputs have been checked. */
static uint64_t inputs_key(const nabla_run_arrays *arrays) {
  const nabla_session_arrays *call = arrays->call;
  uint64_t key = 0;
  if (!call) {
    for (size_t i = 0; i < arrays->input_count; i++)
      key = mix_dense(key, &arrays->inputs[i], 0);
    return key;
  }
  for (size_t i = 0; i < call->input_count; i++)
    key = call->inputs[i].weight ? mix_weight(key, call->inputs[i].weight)
                                 : mix_dense(key, &call->inputs[i].dense,
                                             call->inputs[i].is_piece);
  return key;
}

static nabla_status gather(const nabla_session *session, const uint64_t *own,
                           uint64_t *all, nabla_diag *diag) {
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_I64,
                        .rank = session->rank.rank,
                        .index = session->rank.rank,
                        .count = nabla_comm_size(session->rank.comm),
                        .in = own,
                        .out = all,
                        .outer = 1,
                        .rows = 1,
                        .inner = KEYS,
                        .is_check = 1};
  for (uint32_t i = 0; i < c.count; i++) c.members[i] = i;
  return nabla_comm_run(session->rank.comm, &c, diag);
}

static nabla_status refuse(int what, uint32_t rank, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "ranks have different %s: rank %u has not what rank 0 has",
                 names[what], rank);
  nabla_diag_set_next(diag, what == PROGRAM
                                ? "save the program once, with nabla-compile, "
                                  "and give all ranks the same file"
                                : "give all ranks the same");
  return status;
}

nabla_status nabla_session_compare_ranks(nabla_session *session,
                                         size_t function,
                                         const nabla_run_arrays *arrays,
                                         nabla_diag *diag) {
  const nabla_executable *executable = session->executable;
  uint64_t all[NABLA_COMM_MAX_RANKS][KEYS];
  if (!session->rank.comm || session->check == NABLA_CHECK_NEVER ||
      (session->check == NABLA_CHECK_START && session->is_checked))
    return NABLA_OK;
  const char *name = executable->manifest.functions[function].name;
  const uint64_t own[KEYS] = {[MESH] = mesh_key(&executable->manifest),
                              [PROGRAM] = executable->code.key,
                              [WEIGHTS] = executable->weights_key,
                              [FUNCTION] = nabla_key_mix(0, name, strlen(name)),
                              [INPUTS] = inputs_key(arrays)};
  NABLA_TRY(gather(session, own, all[0], diag));
  for (int what = 0; what < KEYS; what++)
    for (uint32_t r = 1; r < nabla_comm_size(session->rank.comm); r++)
      if (all[r][what] != all[0][what]) return refuse(what, r, diag);
  session->is_checked = 1;
  return NABLA_OK;
}
