/* Regions of tensors with a first index, a count and a step in each dimension;
 * see region.h. */
#include "transforms/lower/region.h"

#include <inttypes.h>
#include <mlir-c/BuiltinTypes.h>

#include "lib/kernels/builder/k.h"
#include "transforms/copies/box.h"

nabla_ssa nabla_emit_index_op(nabla_template *t, const char *operation,
                              nabla_ssa a, nabla_ssa b) {
  return k_op(&t->emit, "arith.%s %%v%u, %%v%u : index", operation, a, b);
}

nabla_ssa nabla_emit_index_ceildiv(nabla_template *t, nabla_ssa a, int64_t b) {
  if (b == 1) return a;
  return nabla_emit_index_op(t, "ceildivsi", a, nabla_emit_index(t, b));
}

void nabla_template_require_at_most(nabla_template *t, nabla_ssa a,
                                    nabla_ssa b) {
  nabla_template_require(t, nabla_emit_index_op(t, "minsi", a, b), a);
}

nabla_ssa nabla_emit_extract(nabla_template *t, const nabla_ssa_tensor *tensor,
                             const nabla_ssa *at) {
  nabla_ssa element = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract %%v%u[", element,
                 tensor->value);
  for (intptr_t i = 0; i < tensor->rank; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "", at[i]);
  nabla_text_add(&t->text, "] : %s\n", nabla_ssa_tensor_type(tensor).data);
  return element;
}

nabla_ssa nabla_template_place(nabla_template *t, intptr_t index) {
  if (mlirTypeIsAIndex(mlirValueGetType(t->operands[index])))
    return (nabla_ssa)index + 1;
  nabla_ssa_tensor scalar = nabla_template_operand(t, index);
  nabla_ssa value = k_op(&t->emit, "tensor.extract %%v%u[] : %s", scalar.value,
                         nabla_ssa_tensor_type(&scalar).data);
  return k_op(&t->emit, "arith.index_cast %%v%u : %s to index", value,
              scalar.element->name);
}

nabla_ssa nabla_emit_clamp(nabla_template *t, nabla_ssa place, nabla_ssa size,
                           nabla_ssa count) {
  nabla_ssa last = nabla_emit_index_op(t, "subi", size, count);
  place = nabla_emit_index_op(t, "minsi", place, last);
  return nabla_emit_index_op(t, "maxsi", place, nabla_emit_index(t, 0));
}

nabla_ssa_tensor nabla_ssa_tensor_spread(nabla_template *t,
                                         const nabla_ssa_tensor *value,
                                         nabla_ssa_tensor *shape) {
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, value->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, value, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g, g.operands[0].element);
}

/* "[%v1, %v2]" */
static void add_values(nabla_template *t, intptr_t rank,
                       const nabla_ssa *values) {
  nabla_text_add(&t->text, "[");
  for (intptr_t i = 0; i < rank; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "", values[i]);
  nabla_text_add(&t->text, "]");
}

static void add_box(nabla_template *t, intptr_t rank, const nabla_region *box) {
  add_values(t, rank, box->first);
  add_values(t, rank, box->count);
  nabla_text_add(&t->text, "[");
  for (intptr_t i = 0; i < rank; i++)
    nabla_text_add(&t->text, "%s%" PRId64, i ? ", " : "", box->step[i]);
  nabla_text_add(&t->text, "]");
}

/* Replaces the elements of `part`, the region, by those of `from`. */
static nabla_ssa_tensor fill_box(nabla_template *t,
                                 const nabla_ssa_tensor *part,
                                 const nabla_ssa_tensor *from,
                                 const intptr_t *map,
                                 const nabla_ssa *from_first) {
  nabla_ssa at[NABLA_MAX_RANK];
  nabla_generic g = {.loops = part->rank};
  if (!from_first) nabla_generic_add(&g, from, map);
  nabla_generic_add(&g, part, NULL);
  nabla_generic_begin(t, &g);
  if (!from_first) return nabla_generic_end(t, &g, g.operands[0].element);
  for (intptr_t i = 0; i < from->rank; i++)
    at[i] = nabla_emit_index_op(t, "addi", from_first[i],
                                nabla_generic_index(t, map ? map[i] : i));
  return nabla_generic_end(t, &g, nabla_emit_extract(t, from, at));
}

nabla_ssa_tensor nabla_region_write(nabla_template *t,
                                    const nabla_ssa_tensor *to,
                                    const nabla_region *box,
                                    const nabla_ssa_tensor *from,
                                    const intptr_t *map,
                                    const nabla_ssa *from_first) {
  nabla_ssa_tensor part = *to, out = *to;
  for (intptr_t i = 0; i < part.rank; i++) {
    part.dims[i] = mlirShapedTypeGetDynamicSize();
    part.sizes[i] = box->count[i];
  }
  part.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract_slice %%v%u", part.value,
                 to->value);
  add_box(t, to->rank, box);
  nabla_text_add(&t->text, " : %s to ", nabla_ssa_tensor_type(to).data);
  nabla_text_add(&t->text, "%s\n", nabla_ssa_tensor_type(&part).data);
  part = fill_box(t, &part, from, map, from_first);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.insert_slice %%v%u into %%v%u",
                 out.value, part.value, to->value);
  add_box(t, to->rank, box);
  nabla_text_add(&t->text, " : %s into ", nabla_ssa_tensor_type(&part).data);
  nabla_text_add(&t->text, "%s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

/* ---- copies of large boxes ---- */

bool nabla_region_is_large(const nabla_ssa_tensor *tensor) {
  int64_t all = nabla_box_element_bytes(tensor->element->name);
  bool is_known = true;
  if (all == 0 || tensor->rank == 0) return false;
  for (intptr_t i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] == 0) return false;
    if (nabla_is_dynamic(tensor->dims[i]))
      is_known = false;
    else if (__builtin_mul_overflow(all, tensor->dims[i], &all))
      return false;
  }
  return !is_known || all >= NABLA_BOX_FEWEST;
}

/* "[1, %v2]": sizes of `tensor`; those of dimensions that `map` leaves out are
 * 1. */
static void add_sizes(nabla_template *t, intptr_t rank,
                      nabla_ssa_tensor *tensor, const intptr_t *map) {
  const char *comma = "";
  nabla_text_add(&t->text, "[");
  for (intptr_t d = 0; d < rank; d++, comma = ", ") {
    intptr_t of = -1;
    for (intptr_t i = 0; i < tensor->rank; i++)
      if ((map ? map[i] : i) == d) of = i;
    if (of >= 0 && nabla_is_dynamic(tensor->dims[of]))
      nabla_text_add(&t->text, "%s%%v%u", comma, tensor->sizes[of]);
    else
      nabla_text_add(&t->text, "%s%" PRId64, comma,
                     of < 0 ? 1 : tensor->dims[of]);
  }
  nabla_text_add(&t->text, "]");
}

static void add_steps(nabla_template *t, intptr_t rank, const int64_t *step) {
  nabla_text_add(&t->text, " [");
  for (intptr_t i = 0; i < rank; i++)
    nabla_text_add(&t->text, "%s%" PRId64, i ? ", " : "", step[i]);
  nabla_text_add(&t->text, "]");
}

nabla_ssa nabla_region_view(nabla_template *t, const nabla_ssa_tensor *in,
                            const nabla_ssa *first, const int64_t *step,
                            nabla_ssa_tensor *shape) {
  nabla_ssa_tensor out = *shape;
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract_slice %%v%u", out.value,
                 in->value);
  add_values(t, in->rank, first);
  add_sizes(t, in->rank, shape, NULL);
  add_steps(t, in->rank, step);
  nabla_text_add(&t->text, " : %s to ", nabla_ssa_tensor_type(in).data);
  nabla_text_add(&t->text, "%s\n", nabla_ssa_tensor_type(&out).data);
  return out.value;
}

/* Whether dimensions of size 1 that `from` has, or may have once sizes are
 * known, can be taken for those that it lacks: upstream's canonicalize takes
 * the first ones. */
static bool is_ambiguous(const nabla_ssa_tensor *to,
                         const nabla_ssa_tensor *from) {
  if (from->rank == to->rank) return false;
  for (intptr_t i = 0; i < from->rank; i++)
    if (from->dims[i] == 1 || nabla_is_dynamic(from->dims[i])) return true;
  return false;
}

nabla_ssa_tensor nabla_region_insert(nabla_template *t,
                                     const nabla_ssa_tensor *to,
                                     const nabla_region *box,
                                     nabla_ssa_tensor *from,
                                     const intptr_t *map) {
  nabla_ssa_tensor out = *to;
  if (!nabla_region_is_large(from) || !nabla_region_is_large(to) ||
      is_ambiguous(to, from))
    return nabla_region_write(t, to, box, from, map, NULL);
  for (intptr_t i = 0; i < from->rank; i++)
    if (nabla_is_dynamic(from->dims[i]))
      (void)nabla_ssa_tensor_size(t, from, i);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.insert_slice %%v%u into %%v%u",
                 out.value, from->value, to->value);
  add_values(t, to->rank, box->first);
  add_sizes(t, to->rank, from, map);
  add_steps(t, to->rank, box->step);
  nabla_text_add(&t->text, " : %s into ", nabla_ssa_tensor_type(from).data);
  nabla_text_add(&t->text, "%s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

/* ---- pad ---- */

/* Returns the padded size of dimension `i`. */
static nabla_ssa padded_size(nabla_template *t, nabla_ssa_tensor *in,
                             const nabla_padding *p, intptr_t i) {
  nabla_ssa size = nabla_ssa_tensor_size(t, in, i),
            zero = nabla_emit_index(t, 0);
  nabla_ssa gaps = nabla_emit_index_op(t, "subi", size, nabla_emit_index(t, 1));
  gaps = nabla_emit_index_op(t, "maxsi", gaps, zero);
  gaps =
      nabla_emit_index_op(t, "muli", gaps, nabla_emit_index(t, p->interior[i]));
  size = nabla_emit_index_op(t, "addi", size, gaps);
  size = nabla_emit_index_op(t, "addi", size, nabla_emit_index(t, p->low[i]));
  return nabla_emit_index_op(t, "addi", size, nabla_emit_index(t, p->high[i]));
}

/* Computes the sizes that are not known at compile time; `shape` may have fewer
 * static sizes than the operand. */
static void find_sizes(nabla_template *t, nabla_ssa_tensor *in,
                       const nabla_padding *p, nabla_ssa_tensor *shape) {
  for (intptr_t i = 0; i < in->rank; i++) {
    if (!nabla_is_dynamic(shape->dims[i])) continue;
    shape->sizes[i] = padded_size(t, in, p, i);
    nabla_template_require_at_most(t, nabla_emit_index(t, 0), shape->sizes[i]);
  }
}

/* Finds the indices i of dimension `dim` for which low + i * (interior + 1) is
 * inside the result: the first of them, and their number. */
static void find_kept(nabla_template *t, nabla_ssa_tensor *in,
                      const nabla_padding *p, nabla_ssa_tensor *shape,
                      intptr_t dim, nabla_region *box, nabla_ssa *first) {
  int64_t step = p->interior[dim] + 1, low = p->low[dim];
  int64_t skip = low < 0 ? (-(low + 1)) / step + 1 : 0;
  nabla_ssa zero = nabla_emit_index(t, 0);
  first[dim] = nabla_emit_index(t, skip);
  nabla_ssa end =
      nabla_emit_index_op(t, "subi", nabla_ssa_tensor_size(t, shape, dim),
                          nabla_emit_index(t, low));
  end = nabla_emit_index_ceildiv(t, end, step);
  end = nabla_emit_index_op(t, "minsi", end, nabla_ssa_tensor_size(t, in, dim));
  nabla_ssa count = nabla_emit_index_op(t, "subi", end, first[dim]);
  box->count[dim] = nabla_emit_index_op(t, "maxsi", count, zero);
  box->first[dim] = nabla_emit_index(t, low + skip * step);
  box->step[dim] = step;
}

/* Whether nothing of the operand is taken away. */
static bool keeps_all(const nabla_ssa_tensor *in, const nabla_padding *p) {
  for (intptr_t i = 0; i < in->rank; i++)
    if (p->low[i] < 0 || p->high[i] < 0) return false;
  return true;
}

nabla_ssa_tensor nabla_ssa_tensor_pad(nabla_template *t, nabla_ssa_tensor *in,
                                      const nabla_ssa_tensor *value,
                                      const nabla_padding *padding,
                                      nabla_ssa_tensor *shape) {
  nabla_region box;
  nabla_ssa first[NABLA_MAX_RANK];
  find_sizes(t, in, padding, shape);
  nabla_ssa_tensor out = nabla_ssa_tensor_spread(t, value, shape);
  for (intptr_t i = 0; i < in->rank; i++)
    find_kept(t, in, padding, &out, i, &box, first);
  return keeps_all(in, padding)
             ? nabla_region_insert(t, &out, &box, in, NULL)
             : nabla_region_write(t, &out, &box, in, NULL, first);
}
