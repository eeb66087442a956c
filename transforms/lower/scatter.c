/* Lowering of scatter: loops over the updates, one after the other. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/gather.h"
#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/list.h"
#include "transforms/lower/region.h"

typedef struct scatter {
  nabla_gather_numbers dims;
  int64_t kind;
  nabla_ssa_tensor array, indices, updates;
  nabla_ssa sizes[NABLA_MAX_RANK]; /* of the array */
  nabla_ssa loops[NABLA_MAX_RANK]; /* index into each dimension of updates */
  nabla_ssa carried[NABLA_MAX_RANK], results[NABLA_MAX_RANK];
} scatter;

enum { SET, ADD, MUL, MIN, MAX, KINDS }; /* of Nabla_ScatterKind */

/* The operation of a kind, for floats, signed and unsigned integers. */
static const char *const operations[KINDS][3] = {
    [ADD] = {"addf", "addi", "addi"},
    [MUL] = {"mulf", "muli", "muli"},
    [MIN] = {"minimumf", "minsi", "minui"},
    [MAX] = {"maximumf", "maxsi", "maxui"},
};

static void check_sizes(nabla_template *t, scatter *s) {
  const nabla_gather_numbers *dims = &s->dims;
  for (intptr_t d = 0; d < dims->rank; d++) {
    intptr_t to = dims->offset_of[d];
    if (dims->batch_of[d] >= 0)
      nabla_tensors_agree(t, &s->array, d, &s->indices, dims->batch_of[d]);
    if (to >= 0 && (nabla_is_dynamic(s->array.dims[d]) ||
                    nabla_is_dynamic(s->updates.dims[to])))
      nabla_template_require_at_most(t,
                                     nabla_ssa_tensor_size(t, &s->updates, to),
                                     nabla_ssa_tensor_size(t, &s->array, d));
  }
  for (intptr_t i = 0; i < dims->index_rank; i++)
    if (dims->result_of[i] >= 0)
      nabla_tensors_agree(t, &s->updates, dims->result_of[i], &s->indices, i);
  if (dims->vector_dim < dims->index_rank &&
      nabla_is_dynamic(s->indices.dims[dims->vector_dim]))
    nabla_template_require(
        t, nabla_ssa_tensor_size(t, &s->indices, dims->vector_dim),
        nabla_emit_index(t, dims->components));
}

/* A loop over each dimension of the updates, which carries the array. */
static nabla_ssa open_loops(nabla_template *t, scatter *s) {
  nabla_ssa zero = nabla_emit_index(t, 0), one = nabla_emit_index(t, 1);
  nabla_ssa ends[NABLA_MAX_RANK], now = s->array.value;
  for (intptr_t i = 0; i < s->updates.rank; i++)
    ends[i] = nabla_ssa_tensor_size(t, &s->updates, i);
  for (intptr_t i = 0; i < s->updates.rank; i++) {
    s->results[i] = ++t->emit.last;
    s->loops[i] = ++t->emit.last;
    s->carried[i] = ++t->emit.last;
    nabla_text_add(&t->text,
                   "  %%v%u = scf.for %%v%u = %%v%u to %%v%u step %%v%u "
                   "iter_args(%%v%u = %%v%u) -> (%s) {\n",
                   s->results[i], s->loops[i], zero, ends[i], one,
                   s->carried[i], now, nabla_ssa_tensor_type(&s->array).data);
    now = s->carried[i];
  }
  return now;
}

static nabla_ssa close_loops(nabla_template *t, const scatter *s,
                             nabla_ssa now) {
  for (intptr_t i = s->updates.rank; i-- > 0;) {
    k_line(&t->emit, "scf.yield %%v%u : %s\n  }", now,
           nabla_ssa_tensor_type(&s->array).data);
    now = s->results[i];
  }
  return now;
}

/* Where the update goes, and whether that is inside of the array. */
static nabla_ssa find_place(nabla_template *t, const scatter *s,
                            nabla_ssa *at) {
  const nabla_gather_numbers *dims = &s->dims;
  nabla_ssa place[NABLA_MAX_RANK];
  nabla_ssa inside = k_op(&t->emit, "arith.constant true");
  for (intptr_t d = 0; d < dims->rank; d++) {
    at[d] = nabla_emit_index(t, 0);
    if (dims->batch_of[d] >= 0)
      at[d] = s->loops[dims->result_of[dims->batch_of[d]]];
    if (dims->start_of[d] >= 0) {
      for (intptr_t i = 0; i < dims->index_rank; i++)
        place[i] = i == dims->vector_dim
                       ? nabla_emit_index(t, dims->start_of[d])
                       : s->loops[dims->result_of[i]];
      at[d] = k_op(&t->emit, "arith.index_cast %%v%u : %s to index",
                   nabla_emit_extract(t, &s->indices, place),
                   s->indices.element->name);
    }
    if (dims->offset_of[d] >= 0)
      at[d] =
          nabla_emit_index_op(t, "addi", at[d], s->loops[dims->offset_of[d]]);
    /* a sum that wraps is negative, which is large: unsigned */
    nabla_ssa good = k_op(&t->emit, "arith.cmpi ult, %%v%u, %%v%u : index",
                          at[d], s->sizes[d]);
    inside = k_op(&t->emit, "arith.andi %%v%u, %%v%u : i1", inside, good);
  }
  return inside;
}

static nabla_ssa combine(nabla_template *t, const scatter *s, nabla_ssa now,
                         const nabla_ssa *at) {
  const nabla_element *element = s->array.element;
  nabla_ssa update = nabla_emit_extract(t, &s->updates, s->loops);
  if (s->kind == SET) return update;
  nabla_ssa_tensor array = s->array;
  array.value = now;
  nabla_ssa old =
      nabla_element_load(t, element, nabla_emit_extract(t, &array, at));
  update = nabla_element_load(t, element, update);
  int column = element->is_float ? 0 : element->is_unsigned ? 2 : 1;
  nabla_ssa both[] = {old, update};
  nabla_ssa value = nabla_emit_two(t, operations[s->kind][column], old, update,
                                   element->work);
  if (element->is_float && (s->kind == MAX || s->kind == MIN))
    value = nabla_emit_order_zeros(t, element, both, s->kind == MAX, value);
  return nabla_element_store(t, element, value);
}

static nabla_ssa apply(nabla_template *t, const scatter *s, nabla_ssa now) {
  nabla_ssa at[NABLA_MAX_RANK];
  nabla_type_text type = nabla_ssa_tensor_type(&s->array);
  nabla_ssa inside = find_place(t, s, at), next = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = scf.if %%v%u -> (%s) {\n", next, inside,
                 type.data);
  nabla_ssa value = combine(t, s, now, at), changed = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.insert %%v%u into %%v%u[", changed,
                 value, now);
  for (intptr_t d = 0; d < s->dims.rank; d++)
    nabla_text_add(&t->text, "%s%%v%u", d ? ", " : "", at[d]);
  nabla_text_add(&t->text, "] : %s\n", type.data);
  nabla_text_add(&t->text,
                 "  scf.yield %%v%u : %s\n  } else {\n  scf.yield %%v%u : %s\n"
                 "  }\n",
                 changed, type.data, now, type.data);
  return next;
}

bool nabla_lower_scatter(nabla_template *t) {
  scatter s = {.kind = nabla_op_integer(t->op, "kind", 0)};
  MlirAttribute none = {NULL};
  nabla_template_open(t);
  s.array = nabla_template_operand(t, 0);
  s.indices = nabla_template_operand(t, 1);
  s.updates = nabla_template_operand(t, 2);
  (void)nabla_gather_read(t->op, none, s.array.rank, s.indices.rank,
                          &s.dims); /* it is verified */
  check_sizes(t, &s);
  for (intptr_t d = 0; d < s.array.rank; d++)
    s.sizes[d] = nabla_ssa_tensor_size(t, &s.array, d);
  nabla_ssa now = open_loops(t, &s);
  return nabla_template_close(t, close_loops(t, &s, apply(t, &s, now)));
}
