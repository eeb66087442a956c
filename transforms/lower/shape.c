/* Lowerings of transpose, reshape and broadcast_in_dim of dense arrays. */
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/list.h"

/* Makes a tensor of the shape of `shape` from all elements of `in`; `map` has
 * the loop of each dimension of `in`. */
static nabla_ssa_tensor copy(nabla_template *t, const nabla_ssa_tensor *in,
                             const intptr_t *map, nabla_ssa_tensor *shape) {
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, in, map);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g, g.operands[0].element);
}

bool nabla_lower_transpose(nabla_template *t) {
  int64_t order[NABLA_MAX_RANK];
  intptr_t map[NABLA_MAX_RANK];
  bool moves = false;
  nabla_op_integers(t->op, "permutation", order);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  for (intptr_t i = 0; i < in.rank; i++) {
    map[order[i]] = i;
    moves = moves || order[i] != i;
  }
  if (!moves) return nabla_template_close(t, in.value);
  for (intptr_t i = 0; i < in.rank; i++)
    if (nabla_is_dynamic(shape.dims[i]))
      shape.sizes[i] = nabla_ssa_tensor_size(t, &in, (intptr_t)order[i]);
  return nabla_template_close(t, copy(t, &in, map, &shape).value);
}

/* ---- reshape ---- */

static nabla_ssa multiply(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  return k_op(&t->emit, "arith.muli %%v%u, %%v%u : index", a, b);
}

/* Returns the number of elements of an existing array. If a dimension is 0, the
 * product is 0 even if it wraps in between. */
static nabla_ssa count_elements(nabla_template *t, nabla_ssa_tensor *tensor) {
  nabla_ssa all = nabla_emit_index(t, 1);
  for (intptr_t i = 0; i < tensor->rank; i++)
    all = multiply(t, all, nabla_ssa_tensor_size(t, tensor, i));
  return all;
}

/* Returns the number of elements of requested sizes: -1 if the product wraps.
 */
static nabla_ssa count_wanted(nabla_template *t, nabla_ssa_tensor *shape) {
  nabla_ssa all = nabla_emit_index(t, 1), zero = nabla_emit_index(t, 0);
  nabla_ssa wraps = k_op(&t->emit, "arith.constant false");
  for (intptr_t i = 0; i < shape->rank; i++) {
    nabla_ssa size = nabla_ssa_tensor_size(t, shape, i);
    nabla_ssa low = ++t->emit.last, high = ++t->emit.last;
    k_line(&t->emit, "%%v%u, %%v%u = arith.mului_extended %%v%u, %%v%u : index",
           low, high, all, size);
    nabla_ssa over =
        k_op(&t->emit, "arith.cmpi ne, %%v%u, %%v%u : index", high, zero);
    wraps = k_op(&t->emit, "arith.ori %%v%u, %%v%u : i1", wraps, over);
    all = low;
  }
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index", wraps,
              nabla_emit_index(t, -1), all);
}

/* Returns the product of the static dimensions; 0 also if it wraps, because
 * then only an array without elements fits. */
static int64_t static_elements(const nabla_ssa_tensor *shape) {
  int64_t all = 1;
  bool wraps = false, empty = false;
  for (intptr_t i = 0; i < shape->rank; i++) {
    if (nabla_is_dynamic(shape->dims[i])) continue;
    empty = empty || shape->dims[i] == 0;
    wraps = wraps || __builtin_mul_overflow(all, shape->dims[i], &all);
  }
  return wraps || empty ? 0 : all;
}

static intptr_t count_dynamic(const nabla_ssa_tensor *tensor) {
  intptr_t count = 0;
  for (intptr_t i = 0; i < tensor->rank; i++)
    count += nabla_is_dynamic(tensor->dims[i]);
  return count;
}

/* Computes the one dynamic size from the number of elements. */
static void infer_size(nabla_template *t, nabla_ssa total,
                       nabla_ssa_tensor *shape) {
  int64_t rest = static_elements(shape);
  nabla_ssa divisor = nabla_emit_index(t, rest);
  nabla_ssa size = divisor; /* 0 */
  if (rest != 0)
    size = k_op(&t->emit, "arith.divui %%v%u, %%v%u : index", total, divisor);
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i])) shape->sizes[i] = size;
}

/* Copies element by element: upstream's expand_shape with more than one dynamic
 * dimension in a group makes expand-strided-metadata fail. */
static nabla_ssa_tensor gather(nabla_template *t, const nabla_ssa_tensor *flat,
                               nabla_ssa_tensor *shape) {
  for (intptr_t i = 0; i < shape->rank; i++) nabla_ssa_tensor_size(t, shape, i);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, flat->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa at = nabla_emit_index(t, 0);
  for (intptr_t i = 0; i < shape->rank; i++) {
    at = multiply(t, at, shape->sizes[i]);
    at = k_op(&t->emit, "arith.addi %%v%u, %%v%u : index", at,
              nabla_generic_index(t, i));
  }
  nabla_ssa element = k_op(&t->emit, "tensor.extract %%v%u[%%v%u] : %s",
                           flat->value, at, nabla_ssa_tensor_type(flat).data);
  return nabla_generic_end(t, &g, element);
}

static bool is_empty(const nabla_ssa_tensor *tensor) {
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (tensor->dims[i] == 0) return true;
  return false;
}

/* Reshapes with expand_shape and collapse_shape, unless a dimension is 0, since
 * then there are no elements to move: expand_shape divides by the static
 * dimensions of the result, and collapse_shape takes ?x0 for 0 but not for ?.
 */
static nabla_ssa_tensor rearrange(nabla_template *t, const nabla_ssa_tensor *in,
                                  nabla_ssa_tensor *shape) {
  if (is_empty(in) || is_empty(shape))
    return nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, in);
  return count_dynamic(shape) > 1 ? gather(t, &flat, shape)
                                  : nabla_ssa_tensor_unflatten(t, &flat, shape);
}

bool nabla_lower_reshape(nabla_template *t) {
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  bool infers = t->operand_count == 1;
  if (infers &&
      mlirTypeEqual(nabla_operand_type(t->op, 0), nabla_result_type(t->op, 0)))
    return nabla_template_close(t, in.value);
  if (count_dynamic(&shape) + count_dynamic(&in) > 0) {
    nabla_ssa total = count_elements(t, &in);
    if (infers)
      infer_size(t, total, &shape);
    else
      nabla_template_take_sizes(t, 1, &shape);
    nabla_template_require(t, total, count_wanted(t, &shape));
  }
  return nabla_template_close(t, rearrange(t, &in, &shape).value);
}

/* ---- broadcast_in_dim ---- */

/* Checks a dimension of unknown size, which is repeated if it is 1 and must
 * otherwise equal that of the result. Returns whether it is repeated, as i1. */
static nabla_ssa check_unknown(nabla_template *t, nabla_ssa from,
                               nabla_ssa to) {
  nabla_ssa one = nabla_emit_index(t, 1);
  nabla_ssa repeats =
      k_op(&t->emit, "arith.cmpi eq, %%v%u, %%v%u : index", from, one);
  nabla_ssa good = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index",
                        repeats, to, from);
  nabla_template_require(t, good, to);
  return repeats;
}

/* Maps indices of the result of a broadcast to indices of its operand. */
typedef struct broadcast {
  intptr_t map[NABLA_MAX_RANK];
  nabla_ssa repeats[NABLA_MAX_RANK]; /* known at run time; 0: see `map` */
  bool unknown;
} broadcast;

static void read_broadcast(nabla_template *t, nabla_ssa_tensor *in,
                           nabla_ssa_tensor *shape, broadcast *b) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_op_integers(t->op, "dims", dims);
  for (intptr_t i = 0; i < in->rank; i++) {
    intptr_t to = (intptr_t)dims[i];
    b->map[i] = to;
    if (in->dims[i] == 1) {
      b->map[i] = NABLA_AT(0);
    } else if (nabla_is_dynamic(in->dims[i]) && shape->dims[to] != 1) {
      b->repeats[i] = check_unknown(t, nabla_ssa_tensor_size(t, in, i),
                                    nabla_ssa_tensor_size(t, shape, to));
      b->unknown = true;
    } else {
      nabla_tensors_agree(t, in, i, shape, to);
    }
  }
}

static nabla_ssa_tensor repeat(nabla_template *t, const nabla_ssa_tensor *in,
                               const broadcast *b, nabla_ssa_tensor *shape) {
  nabla_ssa zero = nabla_emit_index(t, 0), at[NABLA_MAX_RANK];
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  for (intptr_t i = 0; i < in->rank; i++) {
    at[i] = b->map[i] < 0 ? zero : nabla_generic_index(t, b->map[i]);
    if (b->repeats[i])
      at[i] = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index",
                   b->repeats[i], zero, at[i]);
  }
  nabla_ssa element = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract %%v%u[", element,
                 in->value);
  for (intptr_t i = 0; i < in->rank; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "", at[i]);
  nabla_text_add(&t->text, "] : %s\n", nabla_ssa_tensor_type(in).data);
  return nabla_generic_end(t, &g, element);
}

bool nabla_lower_broadcast(nabla_template *t) {
  broadcast b = {0};
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_take_sizes(t, 1, &shape);
  read_broadcast(t, &in, &shape, &b);
  nabla_ssa_tensor out =
      b.unknown ? repeat(t, &in, &b, &shape) : copy(t, &in, b.map, &shape);
  return nabla_template_close(t, out.value);
}
