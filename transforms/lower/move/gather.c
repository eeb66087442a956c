/* Lowerings of gather, dense and of packed arrays. */
#include "dialect/gather.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "transforms/ir/components.h"
#include "transforms/lower/decode.h"
#include "transforms/lower/list.h"
#include "transforms/lower/move/rows.h"
#include "transforms/lower/region.h"
#include "transforms/lower/runs.h"

typedef struct gather {
  nabla_gather_numbers dims;
  nabla_ssa_tensor array, indices, shape;
  int64_t sizes[NABLA_MAX_RANK];
  nabla_ssa last[NABLA_MAX_RANK];       /* where a box may begin at most    */
  nabla_ssa components[NABLA_MAX_RANK]; /* 0, 1, ... of a place, as indices */
} gather;

/* Sizes that the op's attributes assume, checked where they are not known. */
static void check_sizes(nabla_template *t, gather *g) {
  const nabla_gather_numbers *dims = &g->dims;
  for (intptr_t d = 0; d < dims->rank; d++) {
    if (dims->batch_of[d] >= 0)
      nabla_tensors_agree(t, &g->array, d, &g->indices, dims->batch_of[d]);
    else if (nabla_is_dynamic(g->array.dims[d]) && g->sizes[d] >= 0)
      nabla_template_require_at_most(t, nabla_emit_index(t, g->sizes[d]),
                                     nabla_ssa_tensor_size(t, &g->array, d));
  }
  if (dims->vector_dim < dims->index_rank &&
      nabla_is_dynamic(g->indices.dims[dims->vector_dim]))
    nabla_template_require(
        t, nabla_ssa_tensor_size(t, &g->indices, dims->vector_dim),
        nabla_emit_index(t, dims->components));
}

/* What the body needs, outside of it. */
static void prepare(nabla_template *t, gather *g) {
  const nabla_gather_numbers *dims = &g->dims;
  check_sizes(t, g);
  for (intptr_t i = 0; i < dims->index_rank; i++)
    if (dims->result_of[i] >= 0)
      g->shape.sizes[dims->result_of[i]] =
          nabla_ssa_tensor_size(t, &g->indices, i);
  for (intptr_t d = 0; d < dims->rank; d++) {
    if (dims->offset_of[d] >= 0 && g->sizes[d] < 0)
      g->shape.sizes[dims->offset_of[d]] =
          nabla_ssa_tensor_size(t, &g->array, d);
    if (dims->start_of[d] < 0) continue;
    nabla_ssa size = nabla_ssa_tensor_size(t, &g->array, d), zero;
    zero = nabla_emit_index(t, 0);
    g->last[d] = g->sizes[d] < 0
                     ? zero
                     : nabla_emit_index_op(t, "subi", size,
                                           nabla_emit_index(t, g->sizes[d]));
  }
  for (intptr_t i = 0; i < dims->components; i++)
    g->components[i] = nabla_emit_index(t, i);
}

/* The component of the place that dimension `d` of the array begins at. */
static nabla_ssa start(nabla_template *t, const gather *g, intptr_t d,
                       const nabla_ssa *loops) {
  nabla_ssa at[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < g->dims.index_rank; i++)
    at[i] = i == g->dims.vector_dim ? g->components[g->dims.start_of[d]]
                                    : loops[g->dims.result_of[i]];
  nabla_ssa value = nabla_emit_extract(t, &g->indices, at);
  value = k_op(&t->emit, "arith.index_cast %%v%u : %s to index", value,
               g->indices.element->name);
  value = nabla_emit_index_op(t, "minsi", value, g->last[d]);
  return nabla_emit_index_op(t, "maxsi", value, nabla_emit_index(t, 0));
}

/* In the body: the index into each dimension of the array, of the element of
 * the result that the first `outer` loops are at; the others are at 0. */
static void find_element(nabla_template *t, const gather *g, intptr_t outer,
                         nabla_ssa *at) {
  const nabla_gather_numbers *dims = &g->dims;
  nabla_ssa loops[NABLA_MAX_RANK];
  for (intptr_t i = 0; i < dims->result_rank; i++)
    loops[i] = i < outer ? nabla_generic_index(t, i) : nabla_emit_index(t, 0);
  for (intptr_t d = 0; d < dims->rank; d++) {
    at[d] = dims->start_of[d] >= 0 ? start(t, g, d, loops) : 0;
    if (dims->batch_of[d] >= 0)
      at[d] = loops[dims->result_of[dims->batch_of[d]]];
    if (dims->offset_of[d] >= 0)
      at[d] = at[d] ? nabla_emit_index_op(t, "addi", at[d],
                                          loops[dims->offset_of[d]])
                    : loops[dims->offset_of[d]];
    if (!at[d]) at[d] = nabla_emit_index(t, 0);
  }
}

/* The op's attributes, with operand `indices` of the function. */
static void read(nabla_template *t, gather *g, intptr_t indices) {
  *g = (gather){.indices = nabla_template_operand(t, indices),
                .shape = nabla_template_result(t)};
  nabla_op_integers(t->op, "sizes", g->sizes);
  MlirAttribute none = {NULL};
  (void)nabla_gather_read(t->op, none,
                          nabla_array_rank(nabla_operand_type(t->op, 0)),
                          g->indices.rank, &g->dims); /* it is verified */
}

static bool lower_rows(nabla_template *t, const nabla_row_copy *rows) {
  gather g;
  nabla_template_open(t);
  read(t, &g, 1);
  g.array = nabla_template_operand(t, 0);
  check_sizes(t, &g);
  return nabla_template_close(t, nabla_row_copy_call(t, rows));
}

bool nabla_lower_gather(nabla_template *t) {
  gather g;
  nabla_row_copy rows;
  nabla_ssa at[NABLA_MAX_RANK];
  read(t, &g, 1);
  const bool is_rows = nabla_row_copy_begin(t, &g.dims, g.sizes, &rows);
  const bool done = is_rows && lower_rows(t, &rows);
  nabla_row_copy_deinit(&rows);
  if (is_rows) return done;
  nabla_template_open(t);
  read(t, &g, 1);
  g.array = nabla_template_operand(t, 0);
  prepare(t, &g);
  nabla_ssa_tensor out =
      nabla_ssa_tensor_empty(t, &g.shape, g.array.element->name);
  nabla_generic body = {.loops = out.rank};
  nabla_generic_add(&body, &out, NULL);
  nabla_generic_begin(t, &body);
  find_element(t, &g, out.rank, at);
  out = nabla_generic_end(t, &body, nabla_emit_extract(t, &g.array, at));
  return nabla_template_close(t, out.value);
}

/* The storage index of an element of a view. */
static nabla_ssa flatten(nabla_template *t, const nabla_strided *view,
                         const nabla_ssa *at) {
  nabla_ssa sum = k_i64(&t->emit, (uint64_t)view->offset);
  for (intptr_t i = 0; i < view->rank; i++) {
    if (view->strides[i] == 0) continue;
    nabla_ssa index =
        k_op(&t->emit, "arith.index_cast %%v%u : index to i64", at[i]);
    index = k_multiply(&t->emit, index, (uint64_t)view->strides[i]);
    sum = k_add(&t->emit, sum, index);
  }
  return sum;
}

/* How much of a box lies in one piece of the storage. */
static void find_runs(const gather *g, const nabla_strided *view,
                      nabla_runs *runs) {
  const nabla_gather_numbers *dims = &g->dims;
  runs->outer = dims->result_rank;
  runs->length = 1;
  runs->aligned = (uint64_t)view->offset;
  bool joins = true;
  for (intptr_t d = view->rank; d-- > 0;) {
    intptr_t at = dims->offset_of[d];
    joins = joins && at >= 0 && at == runs->outer - 1 &&
            nabla_runs_join(runs, g->shape.dims[at], view->strides[d]);
    if (joins) runs->outer--;
    if (!joins || dims->start_of[d] >= 0)
      runs->aligned =
          nabla_common_divisor(runs->aligned, (uint64_t)view->strides[d]);
  }
}

/* What the functions below share; its operands are leaves, then indices. */
typedef struct fused {
  gather g;
  nabla_strided view;
  MlirType type;
} fused;

static bool lower_runs(nabla_template *t, fused *f, nabla_runs *runs) {
  gather *g = &f->g;
  nabla_ssa at[NABLA_MAX_RANK];
  nabla_template_open(t);
  prepare(t, g);
  nabla_ssa_tensor shape = g->shape;
  shape.rank = runs->outer;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i64");
  nabla_generic body = {.loops = out.rank};
  nabla_generic_add(&body, &out, NULL);
  nabla_generic_begin(t, &body);
  find_element(t, g, runs->outer, at);
  out = nabla_generic_end(t, &body, flatten(t, &f->view, at));
  for (intptr_t i = 0; i < g->shape.rank; i++)
    (void)nabla_ssa_tensor_size(t, &g->shape, i);
  return nabla_template_close(t,
                              nabla_runs_end(t, runs, &out, &g->shape).value);
}

static bool lower_elements(nabla_template *t, fused *f) {
  gather *g = &f->g;
  nabla_decoding decoding;
  nabla_ssa at[NABLA_MAX_RANK];
  nabla_template_open(t);
  prepare(t, g);
  nabla_decoding_begin(t, f->type, &decoding);
  nabla_ssa_tensor out =
      nabla_ssa_tensor_empty(t, &g->shape, g->shape.element->name);
  nabla_generic body = {.loops = out.rank};
  nabla_generic_add(&body, &out, NULL);
  nabla_generic_begin(t, &body);
  find_element(t, g, out.rank, at);
  nabla_ssa value =
      nabla_decoding_value(t, &decoding, flatten(t, &f->view, at));
  value = nabla_element_store(t, out.element, value);
  return nabla_template_close(t, nabla_generic_end(t, &body, value).value);
}

bool nabla_lower_fused_gather(nabla_template *t) {
  MlirValue packed = t->operands[0], indices = t->operands[1];
  fused f = {.type = nabla_operand_type(t->op, 0)};
  nabla_runs runs = {0};
  f.view = nabla_implicit_strided(f.type);
  t->operand_count = nabla_leaves_find(packed, t->operands);
  if (t->operand_count < 0) {
    nabla_error_at(t->op,
                   "has an operand whose components are not known here: run "
                   "--nabla-lower-implicit first");
    return false;
  }
  t->operands[t->operand_count++] = indices;
  read(t, &f.g, t->operand_count - 1);
  f.g.array =
      (nabla_ssa_tensor){.element = f.g.shape.element, .rank = f.view.rank};
  for (intptr_t i = 0; i < f.view.rank; i++)
    f.g.array.dims[i] = f.view.shape[i];
  find_runs(&f.g, &f.view, &runs);
  bool done = nabla_runs_begin(t, &runs, f.type, &f.g.shape)
                  ? lower_runs(t, &f, &runs)
                  : lower_elements(t, &f);
  nabla_runs_deinit(&runs);
  return done;
}
