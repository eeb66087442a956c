/* See divided.h. */
#include "lib/array/divided.h"

#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/packed.h"
#include "lib/array/ranks.h"
#include "lib/array/shards.h"
#include "lib/runtime/program/executable_internal.h"

/* A run; the arrays of rank i begin at i * count. */
typedef struct run {
  const nabla_allocator *allocator;
  const nabla_manifest *manifest;
  nabla_ranks *ranks;
  uint32_t held;
  size_t input_count, result_count;
  nabla_array *const *inputs, *const *results;
  const uint32_t *donors; /* of results, or NULL */
  nabla_session_input *in;
  nabla_session_output *out;
  nabla_session_arrays *arrays; /* of each rank */
  nabla_weight_desc *others;    /* packed results of ranks but the first */
  size_t *places; /* of results among those of the program, of which a packed
                     one is several: its components */
  void **copies;  /* of donated inputs, as `in`            */
  size_t bytes;   /* of all of these */
} run;

static void find_places(run *r) {
  const nabla_signature *main = &r->manifest->functions[0];
  size_t place = 0;
  for (size_t i = 0; i < r->result_count; i++) {
    r->places[i] = place;
    place += nabla_port_results(&main->results[place]);
  }
}

static nabla_status make(run *r, nabla_diag *diag) {
  void *memory;
  const size_t ins = r->held * r->input_count, outs = r->held * r->result_count;
  r->bytes = r->held * sizeof *r->arrays +
             ins * (sizeof *r->in + sizeof *r->copies) +
             outs * (sizeof *r->out + sizeof *r->others) +
             r->result_count * sizeof *r->places;
  NABLA_TRY(nabla_alloc(r->allocator, 1, r->bytes, &memory, diag));
  r->arrays = memory;
  r->in = (nabla_session_input *)(void *)(r->arrays + r->held);
  r->copies = (void **)(void *)(r->in + ins);
  r->out = (nabla_session_output *)(void *)(r->copies + ins);
  r->others = (nabla_weight_desc *)(void *)(r->out + outs);
  r->places = (size_t *)(void *)(r->others + outs);
  find_places(r);
  for (uint32_t i = 0; i < r->held; i++)
    r->arrays[i] =
        (nabla_session_arrays){.struct_size = sizeof *r->arrays,
                               .inputs = r->in + i * r->input_count,
                               .input_count = r->input_count,
                               .outputs = r->out + i * r->result_count,
                               .output_count = r->result_count,
                               .allocator = r->allocator};
  return NABLA_OK;
}

/* Of "main", the only function: arguments, of which none is bound, are inputs.
 * The cut of a result, or NULL. */
static const nabla_argument_cut *cut_of_result(const run *r, size_t index) {
  return nabla_manifest_cut(
      r->manifest, r->manifest->functions[0].argument_count + r->places[index]);
}

/* Whether a result takes over the pieces of an input, where they lie. */
static bool takes_over(const run *r, size_t result, size_t input) {
  const nabla_shards *shards = r->inputs[input]->shards;
  const nabla_argument_cut *cut = nabla_manifest_cut(r->manifest, input),
                           *to = cut_of_result(r, result);
  return r->donors && r->donors[result] == input && shards && cut && to &&
         nabla_shards_fit(shards, cut) && nabla_shards_fit(shards, to);
}

/* Whether sessions copy their pieces of an input that is given whole. */
static bool is_copied(const run *r, size_t index) {
  const nabla_argument_cut *cut = nabla_manifest_cut(r->manifest, index);
  if (!cut || r->in[index].is_piece) return false;
  for (uint32_t d = 0; d < cut->local.rank; d++)
    if (cut->local.shape[d] == NABLA_DYNAMIC) return false;
  return true;
}

/* A donated input, which ranks write to: a copy of each, unless a result takes
 * it over. */
static nabla_status copy_donated(run *r, size_t index, nabla_diag *diag) {
  if (!r->manifest->ports[index].is_donated || is_copied(r, index))
    return NABLA_OK;
  for (size_t k = 0; k < r->result_count; k++)
    if (takes_over(r, k, index)) return NABLA_OK;
  for (uint32_t i = 0; i < r->held; i++) {
    const size_t at = i * r->input_count + index;
    const size_t bytes = nabla_dtype_bytes(&r->in[at].dense);
    r->copies[at] = nabla_result_allocate(r->allocator, bytes);
    if (!r->copies[at])
      return nabla_fail(diag, NABLA_NO_MEMORY,
                        "no memory for a copy of the donated input %zu", index);
    if (bytes) memcpy(r->copies[at], r->in[at].dense.data, bytes);
    r->in[at].dense.data = r->copies[at];
  }
  return NABLA_OK;
}

static nabla_status add_input(run *r, size_t index, nabla_diag *diag) {
  const nabla_array *array = r->inputs[index];
  const nabla_argument_cut *cut = nabla_manifest_cut(r->manifest, index);
  const bool fits =
      array->shards && cut && nabla_shards_fit(array->shards, cut);
  nabla_dense whole = array->dense;
  if (!fits) NABLA_TRY(nabla_array_whole(array, &whole, diag));
  for (uint32_t i = 0; i < r->held; i++) {
    nabla_session_input *in = &r->in[i * r->input_count + index];
    in->dense = fits ? nabla_shards_piece(array->shards, i) : whole;
    in->is_piece = fits;
    if (array->packed) in->weight = &array->packed->weight;
  }
  return copy_donated(r, index, diag);
}

static bool is_open(const nabla_dense *dense) {
  for (uint32_t d = 0; d < dense->rank; d++)
    if (dense->shape[d] < 0) return true;
  return false;
}

/* Ranks with the whole make their own; that of the first is the result. */
static nabla_status add_result(run *r, size_t index, nabla_diag *diag) {
  nabla_array *array = r->results[index];
  const nabla_argument_cut *cut = cut_of_result(r, index);
  const uint32_t donor = r->donors ? r->donors[index] : UINT32_MAX;
  if (donor != UINT32_MAX && takes_over(r, index, donor))
    nabla_shards_move(r->inputs[donor], array);
  else if (cut)
    NABLA_TRY(nabla_shards_make(array, cut, nabla_ranks_processes(r->ranks),
                                r->held, diag));
  else if (!array->packed && !array->dense.data && !is_open(&array->dense))
    NABLA_TRY(nabla_array_allocate(array, diag));
  for (uint32_t i = 0; i < r->held; i++) {
    nabla_session_output *out = &r->out[i * r->result_count + index];
    out->dense = array->dense;
    if (i) out->dense.data = NULL;
    if (array->packed)
      out->weight = i ? &r->others[(i - 1) * r->result_count + index]
                      : &array->packed->weight;
    if (cut) out->dense = nabla_shards_piece(array->shards, i);
  }
  return NABLA_OK;
}

/* A packed result is the first rank's; those of others are dropped. */
static void finish_packed(const run *r, nabla_array *array, bool is_first,
                          nabla_weight_desc *weight, nabla_status status) {
  if (is_first && !status) {
    nabla_packed_take(array);
    return;
  }
  for (uint32_t i = 0; i < weight->component_count; i++)
    nabla_result_free(r->allocator,
                      (void *)(uintptr_t)weight->components[i].data);
  weight->component_count = 0;
}

/* Takes open results, and frees what the run has allocated. */
static nabla_status finish(run *r, nabla_status status, nabla_diag *diag) {
  for (size_t k = 0; k < r->held * r->result_count; k++) {
    nabla_array *array = r->results[k % r->result_count];
    nabla_dense *dense = &r->out[k].dense;
    const bool is_first = k < r->result_count;
    if (array->packed) {
      finish_packed(r, array, is_first, r->out[k].weight, status);
      continue;
    }
    if (array->shards || !dense->data ||
        (is_first && dense->data == array->dense.data))
      continue;
    if (is_first && !status) status = nabla_array_copy(array, dense, diag);
    nabla_result_free(r->allocator, dense->data);
  }
  return status;
}

static nabla_status run_arrays(run *r, nabla_diag *diag) {
  NABLA_TRY(make(r, diag));
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < r->input_count && !status; i++)
    status = add_input(r, i, diag);
  for (size_t i = 0; i < r->result_count && !status; i++)
    status = add_result(r, i, diag);
  if (!status)
    status = finish(r, nabla_ranks_run(r->ranks, r->arrays, diag), diag);
  for (size_t i = 0; i < r->held * r->input_count; i++)
    if (r->copies[i]) nabla_result_free(r->allocator, r->copies[i]);
  nabla_free(r->allocator, r->arrays, 1, r->bytes);
  return status;
}

nabla_status nabla_divided_run(nabla_program *program, size_t input_count,
                               nabla_array *const *inputs, size_t result_count,
                               nabla_array *const *results,
                               const uint32_t *donors, nabla_diag *diag) {
  const nabla_executable *executable = nabla_program_executable(program);
  run r = {.allocator = executable->environment.allocator,
           .manifest = &executable->manifest,
           .input_count = input_count,
           .result_count = result_count,
           .inputs = inputs,
           .results = results,
           .donors = donors};
  NABLA_TRY(nabla_program_take_ranks(program, &r.ranks, diag));
  r.held = nabla_ranks_held(r.ranks);
  const nabla_status status = run_arrays(&r, diag);
  nabla_comm *comm = nabla_ranks_processes(r.ranks);
  if (status == NABLA_NO_MEMORY && comm) /* before the run: no other has it */
    nabla_comm_fail(comm, nabla_comm_rank(comm), "no memory for a run");
  nabla_program_give_ranks(program, r.ranks, status);
  return status;
}
