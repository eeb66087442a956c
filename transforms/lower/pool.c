/* Lowering of pools. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/list.h"
#include "transforms/lower/window.h"

enum { SUM, MAX, MIN, AVG }; /* of Nabla_PoolKind */

typedef struct pool {
  int64_t kind, size[NABLA_MAX_RANK];
  nabla_windows w;
} pool;

static const char *largest_of(const nabla_element *element) {
  static const struct {
    const char *name, *largest;
  } rows[] = {{"f64", "0x7FF0000000000000"},
              {"i64", "9223372036854775807"},
              {"i32", "2147483647"},
              {"i8", "127"},
              {"ui8", "-1"},
              {"i1", "-1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, element->name)) return rows[i].largest;
  return "0x7F800000"; /* computed in f32 */
}

/* Returns the result of a window without elements, in the work type. */
static const char *initial_of(int64_t kind, const nabla_element *element) {
  if (kind == MAX) return element->least;
  if (kind == MIN) return largest_of(element);
  return element->is_float ? "0.0" : "0";
}

static const char *fold_of(int64_t kind, const nabla_element *element) {
  static const char *const names[3][3] = {{"addf", "addi", "addi"},
                                          {"maximumf", "maxsi", "maxui"},
                                          {"minimumf", "minsi", "minui"}};
  int column = element->is_float ? 0 : element->is_unsigned ? 2 : 1;
  return names[kind == AVG ? SUM : kind][column];
}

/* Reduces each window of `in`, which is padded already, in the work type. */
static nabla_ssa_tensor reduce_windows(nabla_template *t, const pool *p,
                                       nabla_ssa_tensor *in,
                                       nabla_ssa_tensor *shape) {
  const nabla_element *element = in->element;
  intptr_t rank = in->rank, map[NABLA_MAX_RANK], loop_of[NABLA_MAX_RANK];
  nabla_ssa at[NABLA_MAX_RANK];
  nabla_ssa_tensor sizes =
      nabla_ssa_tensor_static(element->name, rank, p->size);
  nabla_ssa_tensor window = nabla_ssa_tensor_empty(t, &sizes, element->name);
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, shape, element->work,
                                               initial_of(p->kind, element));
  nabla_generic g = {0};
  nabla_windows_loops(rank, rank, &g, loop_of);
  for (intptr_t i = 0; i < rank; i++) map[i] = rank - 1 + i;
  nabla_generic_add(&g, &window, map); /* gives the loops their bounds */
  nabla_generic_add(&g, &out, loop_of);
  nabla_generic_begin(t, &g);
  for (intptr_t i = 0; i < rank; i++)
    at[i] = nabla_windows_place(t, loop_of[i], p->w.stride[i], map[i],
                                p->w.dilation[i]);
  nabla_ssa value =
      nabla_element_load(t, element, nabla_emit_extract(t, in, at));
  nabla_ssa both[] = {g.operands[1].element, value};
  value = nabla_emit_two(t, fold_of(p->kind, element), both[0], both[1],
                         element->work);
  if (element->is_float && (p->kind == MAX || p->kind == MIN))
    value = nabla_emit_order_zeros(t, element, both, p->kind == MAX, value);
  return nabla_generic_end(t, &g, value);
}

/* Computes, in the body of the loops, how many indices of dimension `dim` of
 * the window are inside of the array, which has `size` of them. The window of
 * iteration i begins at i * stride - low. */
static nabla_ssa count_inside(nabla_template *t, const pool *p, intptr_t dim,
                              nabla_ssa size) {
  nabla_ssa zero = nabla_emit_index(t, 0), first;
  int64_t step = p->w.dilation[dim];
  first = nabla_emit_index_op(t, "muli", nabla_generic_index(t, dim),
                              nabla_emit_index(t, p->w.stride[dim]));
  first = nabla_emit_index_op(t, "subi", first,
                              nabla_emit_index(t, p->w.padding.low[dim]));
  nabla_ssa before = nabla_emit_index_op(t, "subi", zero, first);
  before = nabla_emit_index_ceildiv(t, before, step);
  before = nabla_emit_index_op(t, "maxsi", before, zero);
  nabla_ssa end = nabla_emit_index_op(t, "subi", size, first);
  end = nabla_emit_index_ceildiv(t, end, step);
  end = nabla_emit_index_op(t, "minsi", end, nabla_emit_index(t, p->size[dim]));
  nabla_ssa count = nabla_emit_index_op(t, "subi", end, before);
  return nabla_emit_index_op(t, "maxsi", count, zero);
}

/* Divides the sums by the number of elements of each window; `in` is the input
 * without padding. */
static nabla_ssa_tensor divide(nabla_template *t, const pool *p,
                               nabla_ssa_tensor *in, nabla_ssa_tensor *sums) {
  const char *work = sums->element->name;
  bool all = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(t->op, nabla_ref("count_padding")));
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, sums, work);
  for (intptr_t i = 0; i < in->rank; i++) nabla_ssa_tensor_size(t, in, i);
  nabla_generic g = {.loops = out.rank};
  nabla_generic_add(&g, sums, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa count = nabla_emit_index(t, 1);
  for (intptr_t i = 0; i < in->rank; i++)
    count = nabla_emit_index_op(t, "muli", count,
                                all ? nabla_emit_index(t, p->size[i])
                                    : count_inside(t, p, i, in->sizes[i]));
  count = k_op(&t->emit, "arith.index_cast %%v%u : index to i64", count);
  count = k_op(&t->emit, "arith.sitofp %%v%u : i64 to %s", count, work);
  nabla_ssa value = k_op(&t->emit, "arith.divf %%v%u, %%v%u : %s",
                         g.operands[0].element, count, work);
  return nabla_generic_end(t, &g, value);
}

bool nabla_lower_pool(nabla_template *t) {
  pool p = {.kind = nabla_op_integer(t->op, "kind", 0)};
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_op_integers(t->op, "window", p.size);
  nabla_op_integers(t->op, "low", p.w.padding.low);
  nabla_op_integers(t->op, "high", p.w.padding.high);
  nabla_windows_list(t, "strides", in.rank, 1, p.w.stride);
  nabla_windows_list(t, "dilation", in.rank, 1, p.w.dilation);
  nabla_ssa_tensor padded =
      nabla_windows_pad(t, &in, &p.w, initial_of(p.kind, in.element));
  for (intptr_t i = 0; i < in.rank; i++)
    if (nabla_is_dynamic(shape.dims[i]))
      shape.sizes[i] =
          nabla_windows_count(t, &padded, i, nabla_emit_index(t, p.size[i]),
                              p.w.stride[i], p.w.dilation[i]);
  nabla_ssa_tensor out = reduce_windows(t, &p, &padded, &shape);
  if (p.kind == AVG) out = divide(t, &p, &in, &out);
  return nabla_template_close(
      t, nabla_ssa_tensor_convert(t, &out, in.element).value);
}
