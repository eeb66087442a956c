/* Cotangents through nabla.scan. The loop runs again so that it also stacks its
 * carries, as each step finds them; then a scan in the other direction runs
 * each step's operations again from these and from the slices of the inputs,
 * and goes back through them. Cotangents of values from outside of the loop are
 * summed in carries, in the type that f16 and bf16 are computed in. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/autodiff/reverse.h"
#include "transforms/ir/build_control.h"
#include "transforms/ir/components.h"

enum { MOST = NABLA_BUILD_MAX_CARRIES };

typedef struct loop {
  nabla_reverse *r;
  MlirOperation op, forward; /* forward: the loop that stacks its carries */
  nabla_scan_parts scan;
  MlirBlock body;
  MlirOperation end;
  const MlirValue *cotangents;
  nabla_value_list captured;
  intptr_t saved[MOST]; /* carries that are stacked */
  intptr_t parts[MOST]; /* of each: 1, or the components of a packed array */
  intptr_t saved_count, part_count;
  /* Of the scan in reverse: carries, then sums; inputs: saved carries, the
   * inputs of the loop, cotangents of stacked outputs. */
  MlirValue carries[MOST], inputs[MOST], sizes[MOST];
  intptr_t carry_count, input_count, size_count;
  intptr_t carry_of[MOST];  /* position of a carry's cotangent; -1: none */
  intptr_t output_of[MOST]; /* input of an output's cotangent; -1: none */
  intptr_t pulled[MOST];    /* inputs of the loop that have cotangents */
  intptr_t pulled_count;
  bool failed;
} loop;

static MlirValue argument(const loop *l, intptr_t index) {
  return mlirBlockGetArgument(l->body, index);
}

static MlirValue yielded(const loop *l, intptr_t index) {
  return mlirOperationGetOperand(l->end, index);
}

static bool varies(const loop *l, MlirValue value) {
  return nabla_value_map_has(l->r->varied, value);
}

/* ---- the loop that saves its carries ---- */

/* Whether an operation of the body uses a carry, not only its yield. */
static bool is_used(const loop *l, MlirValue value) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    if (!mlirOperationEqual(mlirOpOperandGetOwner(use), l->end)) return true;
  return false;
}

/* A carry that no step changes. */
static bool is_constant(const loop *l, intptr_t carry) {
  return mlirValueEqual(argument(l, carry), yielded(l, carry)) &&
         !varies(l, argument(l, carry));
}

static bool is_array(MlirType type) {
  return mlirTypeIsARankedTensor(type) || nablaTypeIsAImplicit(type);
}

/* A number is stacked as an array of rank 0: those are its types. */
static bool is_number(MlirType type) {
  static const unsigned widths[] = {1, 8, 32, 64};
  if (mlirTypeIsAIndex(type) || mlirTypeIsAFloat(type)) return true;
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    if (mlirTypeIsAInteger(type) && mlirIntegerTypeGetWidth(type) == widths[i])
      return true;
  return false;
}

static bool add_saved(loop *l, intptr_t carry) {
  MlirType leaves[NABLA_MAX_LEAVES];
  MlirType type = mlirValueGetType(argument(l, carry));
  const bool fits = is_array(type) ? nabla_array_rank(type) < NABLA_MAX_RANK
                                   : is_number(type);
  intptr_t parts = 1;
  if (nablaTypeIsAImplicit(type))
    parts = (intptr_t)nabla_implicit_leaves(type, leaves);
  if (!fits || l->part_count + parts > MOST) {
    nabla_error_at(l->op,
                   "has no derivative: carry #%d would be stacked, which is %s",
                   (int)carry,
                   fits ? "one of too many"
                        : "neither a number nor an array of a dimension less "
                          "than the most");
    return false;
  }
  l->parts[l->saved_count] = parts;
  l->saved[l->saved_count++] = carry;
  l->part_count += parts;
  return true;
}

static bool find_saved(loop *l) {
  for (intptr_t i = 0; i < l->scan.carries; i++)
    if (is_used(l, argument(l, i)) && !is_constant(l, i) && !add_saved(l, i))
      return false;
  return true;
}

static MlirValue convert(const nabla_builder *b, const char *name, MlirValue x,
                         MlirType type) {
  nabla_op_spec spec = {name, 1, &x, 1, &type, 0, NULL};
  return nabla_build_op(b, &spec);
}

/* Stores what is stacked of a carry. */
static void take_apart(const nabla_builder *b, MlirValue carry,
                       MlirValue *out) {
  MlirType type = mlirValueGetType(carry);
  if (nablaTypeIsAImplicit(type)) {
    (void)nabla_leaves_split(carry, b->before, out);
    return;
  }
  out[0] = carry;
  if (is_array(type)) return;
  if (mlirTypeIsAIndex(type)) {
    type = mlirIntegerTypeGet(mlirTypeGetContext(type), 64);
    out[0] = convert(b, "arith.index_cast", carry, type);
  }
  out[0] =
      convert(b, "tensor.from_elements", out[0],
              mlirRankedTensorTypeGet(0, NULL, type, mlirAttributeGetNull()));
}

/* The carry from what was stacked of it. */
static MlirValue put_together(const nabla_builder *b, MlirType type,
                              const MlirValue *parts) {
  if (nablaTypeIsAImplicit(type))
    return nabla_leaves_pack(b->before, type, parts);
  if (is_array(type)) return parts[0];
  MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(parts[0]));
  MlirValue number = convert(b, "tensor.extract", parts[0], element);
  return mlirTypeIsAIndex(type) ? convert(b, "arith.index_cast", number, type)
                                : number;
}

static void write_forward(const nabla_builder *b, const MlirValue *arguments,
                          MlirValue *results, void *data) {
  loop *l = data;
  nabla_value_map copies = {0};
  const intptr_t all = l->scan.carries + l->scan.outputs;
  for (intptr_t i = 0; i < l->scan.carries + l->scan.inputs; i++) {
    MlirValue value = arguments[i];
    if (!nablaTypeIsAImplicit(mlirValueGetType(argument(l, i))))
      value = nabla_build_dense(b, value);
    nabla_value_map_set(&copies, argument(l, i), value);
  }
  if (nabla_block_copy(l->body, b->before, &copies)) {
    for (intptr_t i = 0; i < all; i++)
      results[i] = nabla_copied(&copies, yielded(l, i));
    for (intptr_t i = 0, at = all; i < l->saved_count; at += l->parts[i++])
      take_apart(b, arguments[l->saved[i]], &results[at]);
  }
  nabla_value_map_deinit(&copies);
}

/* Sizes of the loop's outputs, then those of saved carries: they are those of
 * the initial values. */
static bool forward_sizes(loop *l, const nabla_builder *b) {
  const intptr_t first = l->scan.carries + l->scan.inputs + l->scan.lengths;
  l->size_count = 0;
  for (intptr_t i = 0; i < l->scan.sizes && i < MOST; i++)
    l->sizes[l->size_count++] = mlirOperationGetOperand(l->op, first + i);
  for (intptr_t i = 0; i < l->saved_count; i++) {
    MlirValue carry = mlirOperationGetOperand(l->op, l->saved[i]);
    if (!mlirTypeIsARankedTensor(mlirValueGetType(carry))) continue;
    const nabla_built_shape shape = nabla_build_shape_of(b, carry);
    for (intptr_t d = 0; d < shape.rank; d++) {
      if (!nabla_is_dynamic(shape.dims[d])) continue;
      if (l->size_count >= MOST) return false;
      l->sizes[l->size_count++] = shape.sizes[d];
    }
  }
  return true;
}

static MlirValue length_of(const loop *l) {
  return l->scan.lengths
             ? mlirOperationGetOperand(l->op, l->scan.carries + l->scan.inputs)
             : (MlirValue){NULL};
}

static bool run_forward(loop *l) {
  MlirValue operands[MOST];
  const nabla_builder b = {l->op};
  const intptr_t all = l->scan.carries + l->scan.outputs;
  l->forward = l->op;
  if (!l->saved_count) return true;
  for (intptr_t i = 0; i < l->scan.carries + l->scan.inputs; i++)
    operands[i] = mlirOperationGetOperand(l->op, i);
  if (!forward_sizes(l, &b)) return false;
  const nabla_built_scan how = {.carry_count = l->scan.carries,
                                .input_count = l->scan.inputs,
                                .size_count = l->size_count,
                                .carries = operands,
                                .inputs = operands + l->scan.carries,
                                .length = length_of(l),
                                .sizes = l->sizes,
                                .reverse = l->scan.reverse};
  const nabla_built_region body = {write_forward, l, all + l->part_count};
  l->forward = nabla_build_scan(&b, &how, &body);
  if (mlirOperationIsNull(l->forward)) return false;
  for (intptr_t i = 0; i < all; i++)
    operands[i] = nabla_build_cast(&b, mlirOperationGetResult(l->forward, i),
                                   nabla_result_type(l->op, i));
  nabla_derived_replace(l->r->derived, l->op, operands);
  return true;
}

/* ---- the scan in reverse ---- */

/* Where the inputs of the loop are among the arguments of the scan in reverse:
 * behind the carries and what is stacked of carries. */
static intptr_t input_at(const loop *l, intptr_t i) {
  return l->carry_count + l->part_count + i;
}

static void copy_atoms(const loop *l, MlirValue from, MlirValue to) {
  if (l->r->varying)
    nabla_varying_set(l->r->varying, to, nabla_varying_at(l->r->varying, from));
}

/* What the copy of a step starts from. */
static void map_arguments(const loop *l, const nabla_builder *b,
                          const MlirValue *arguments, nabla_value_map *copies) {
  const MlirValue *parts = arguments + l->carry_count;
  for (intptr_t i = 0; i < l->saved_count; parts += l->parts[i++]) {
    MlirValue old = argument(l, l->saved[i]);
    for (intptr_t part = 0; part < l->parts[i]; part++)
      copy_atoms(l, old, parts[part]);
    nabla_value_map_set(copies, old,
                        put_together(b, mlirValueGetType(old), parts));
  }
  for (intptr_t i = 0; i < l->scan.carries; i++)
    if (is_constant(l, i))
      nabla_value_map_set(copies, argument(l, i),
                          mlirOperationGetOperand(l->op, i));
  for (intptr_t i = 0; i < l->scan.inputs; i++) {
    MlirValue old = argument(l, l->scan.carries + i);
    MlirValue slice = arguments[input_at(l, i)];
    copy_atoms(l, old, slice);
    if (!nablaTypeIsAImplicit(mlirValueGetType(old)))
      slice = nabla_build_dense(b, slice);
    nabla_value_map_set(copies, old, slice);
  }
  for (intptr_t i = 0; i < l->scan.carries + l->scan.inputs; i++)
    if (varies(l, argument(l, i)))
      nabla_varied_add(l->r->varied, nabla_copied(copies, argument(l, i)));
}

static MlirValue sum_or_zeros_like(nabla_reverse *r, MlirValue value,
                                   MlirValue like) {
  MlirValue sum = nabla_reverse_sum(r, value);
  if (!mlirValueIsNull(sum)) return sum;
  return nabla_build_zeros(&r->b, like,
                           nabla_array_element(mlirValueGetType(like)));
}

static void pull_step(loop *l, nabla_reverse *r, const nabla_value_map *copies,
                      const MlirValue *arguments, MlirValue *results) {
  const intptr_t carries = l->scan.carries;
  intptr_t count = 0;
  for (intptr_t i = 0; i < carries; i++)
    if (l->carry_of[i] >= 0)
      nabla_reverse_add_along(r, nabla_reverse_atoms(r, argument(l, i)),
                              nabla_copied(copies, yielded(l, i)),
                              arguments[l->carry_of[i]]);
  for (intptr_t i = 0; i < l->scan.outputs; i++)
    if (l->output_of[i] >= 0)
      nabla_reverse_add_along(r,
                              nabla_reverse_atoms(r, yielded(l, carries + i)),
                              nabla_copied(copies, yielded(l, carries + i)),
                              arguments[l->carry_count + l->output_of[i]]);
  if (!nabla_reverse_block(r, mlirOperationGetBlock(r->b.before))) return;
  for (intptr_t i = 0; i < carries; i++)
    if (l->carry_of[i] >= 0)
      results[count++] = sum_or_zeros_like(
          r, nabla_copied(copies, argument(l, i)), arguments[l->carry_of[i]]);
  for (size_t i = 0; i < l->captured.count; i++) {
    MlirValue sum = arguments[count];
    MlirValue term = nabla_reverse_sum(r, l->captured.values[i]);
    if (!mlirValueIsNull(term))
      sum = nabla_build_cast(
          &r->b,
          nabla_build_two(&r->b, "add", sum, nabla_diff_widen(&r->b, term)),
          mlirValueGetType(sum));
    results[count++] = sum;
  }
  for (intptr_t i = 0; i < l->pulled_count; i++)
    results[count++] = nabla_reverse_sum_or_zeros(
        r, nabla_copied(copies, argument(l, carries + l->pulled[i])));
}

static void write_reverse(const nabla_builder *b, const MlirValue *arguments,
                          MlirValue *results, void *data) {
  loop *l = data;
  nabla_value_map copies = {0};
  nabla_reverse r = nabla_reverse_inner(l->r, b);
  MlirBlock here = mlirOperationGetBlock(b->before);
  map_arguments(l, b, arguments, &copies);
  if (nabla_block_copy(l->body, b->before, &copies) &&
      nabla_reverse_visit(&r, here)) {
    nabla_varied_mark(r.varied, here);
    pull_step(l, &r, &copies, arguments, results);
  }
  nabla_reverse_deinit(&r);
  nabla_value_map_deinit(&copies);
}

static MlirValue widened_zeros(const nabla_builder *b, MlirValue value) {
  return nabla_diff_widen(
      b, nabla_build_zeros(b, value,
                           nabla_array_element(mlirValueGetType(value))));
}

/* Cotangents that steps hand on, and sums. */
static void add_carries(loop *l) {
  const nabla_builder *b = &l->r->b;
  for (intptr_t i = 0; i < l->scan.carries; i++) {
    l->carry_of[i] = -1;
    if (!varies(l, argument(l, i))) continue;
    MlirValue last = mlirOperationGetResult(l->forward, i);
    MlirValue first = l->cotangents[i];
    if (mlirValueIsNull(first))
      first = nabla_build_zeros(b, last,
                                nabla_array_element(mlirValueGetType(last)));
    l->carry_of[i] = l->carry_count;
    l->carries[l->carry_count++] = first;
  }
  for (size_t i = 0; i < l->captured.count; i++)
    l->carries[l->carry_count++] = widened_zeros(b, l->captured.values[i]);
}

static void add_inputs(loop *l) {
  const intptr_t all = l->scan.carries + l->scan.outputs;
  for (intptr_t i = 0; i < l->part_count; i++)
    l->inputs[l->input_count++] = mlirOperationGetResult(l->forward, all + i);
  for (intptr_t i = 0; i < l->scan.inputs; i++) {
    l->inputs[l->input_count++] =
        mlirOperationGetOperand(l->op, l->scan.carries + i);
    if (varies(l, argument(l, l->scan.carries + i)))
      l->pulled[l->pulled_count++] = i;
  }
  for (intptr_t i = 0; i < l->scan.outputs; i++) {
    MlirValue cotangent = l->cotangents[l->scan.carries + i];
    l->output_of[i] = -1;
    if (mlirValueIsNull(cotangent)) continue;
    l->output_of[i] = l->input_count;
    l->inputs[l->input_count++] = cotangent;
  }
}

/* Sizes of the cotangents of inputs. */
static bool reverse_sizes(loop *l) {
  l->size_count = 0;
  for (intptr_t i = 0; i < l->pulled_count; i++) {
    const nabla_built_shape shape =
        nabla_build_shape_of(&l->r->b, l->inputs[l->part_count + l->pulled[i]]);
    for (intptr_t d = 1; d < shape.rank; d++) {
      if (!nabla_is_dynamic(shape.dims[d])) continue;
      if (l->size_count >= MOST) return false;
      l->sizes[l->size_count++] = shape.sizes[d];
    }
  }
  return true;
}

/* The results of the scan in reverse are cotangents of what the loop takes. */
static void give(loop *l, MlirOperation made) {
  intptr_t at = 0;
  for (intptr_t i = 0; i < l->scan.carries; i++)
    if (l->carry_of[i] >= 0)
      nabla_reverse_add_along(l->r, nabla_reverse_atoms(l->r, argument(l, i)),
                              mlirOperationGetOperand(l->op, i),
                              mlirOperationGetResult(made, at++));
  for (size_t i = 0; i < l->captured.count; i++)
    nabla_reverse_add_along(l->r, 0, l->captured.values[i],
                            mlirOperationGetResult(made, at++));
  for (intptr_t i = 0; i < l->pulled_count; i++) {
    const intptr_t input = l->scan.carries + l->pulled[i];
    nabla_reverse_add_along(l->r, nabla_reverse_atoms(l->r, argument(l, input)),
                            mlirOperationGetOperand(l->op, input),
                            mlirOperationGetResult(made, at++));
  }
}

static bool run_reverse(loop *l) {
  add_carries(l);
  add_inputs(l);
  if (l->carry_count + l->pulled_count == 0) return true;
  if (!reverse_sizes(l)) return false;
  const nabla_built_scan how = {
      .carry_count = l->carry_count,
      .input_count = l->input_count,
      .size_count = l->size_count,
      .carries = l->carries,
      .inputs = l->inputs,
      .length = l->input_count ? (MlirValue){NULL} : length_of(l),
      .sizes = l->sizes,
      .reverse = !l->scan.reverse};
  const nabla_built_region body = {write_reverse, l,
                                   l->carry_count + l->pulled_count};
  MlirOperation made = nabla_build_scan(&l->r->b, &how, &body);
  if (mlirOperationIsNull(made)) return false;
  give(l, made);
  return true;
}

/* ---- both ---- */

static bool check(const loop *l) {
  const intptr_t values = 2 * l->scan.carries + 2 * l->scan.inputs +
                          2 * l->scan.outputs + (intptr_t)l->captured.count;
  if (values > MOST) {
    nabla_error_at(l->op,
                   "has no derivative: carries, inputs, outputs and values "
                   "from outside would be %d, more than %d",
                   (int)values, MOST);
    return false;
  }
  if (nabla_has_effects(l->r->derived->module, l->op)) {
    nabla_error_at(
        l->op,
        "has effects, which its derivative would have twice: declare "
        "its custom calls pure, or move them outside");
    return false;
  }
  for (intptr_t i = 0; i < l->scan.outputs; i++) {
    MlirType type = nabla_result_type(l->op, l->scan.carries + i);
    if (!nablaTypeIsAImplicit(type)) continue;
    nabla_error_at(l->op,
                   "has no derivative: it stacks packed arrays; quantize the "
                   "stacked array behind it");
    return false;
  }
  return true;
}

bool nabla_reverse_scan(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents) {
  loop *l = calloc(1, sizeof *l);
  if (!l) return false;
  *l = (loop){.r = r,
              .op = op,
              .scan = nabla_scan_read(op),
              .body = nabla_region_block(op, 0),
              .end = nabla_block_end(nabla_region_block(op, 0)),
              .cotangents = cotangents};
  nabla_varied_captured(r->varied, op, &l->captured);
  const bool good = !l->captured.failed && check(l) && find_saved(l) &&
                    run_forward(l) && run_reverse(l);
  nabla_value_list_deinit(&l->captured);
  free(l);
  return good;
}
