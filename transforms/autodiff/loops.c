/* Loops that reverse mode cannot go back through as they are become others: a
 * nabla.while with max_steps a nabla.scan of that many steps, each of which
 * hands its carries on once the condition is false; a nabla.scan with remat = N
 * a scan over chunks of N steps, of which only the carries that chunks begin
 * with are kept, and a scan of the steps that are left over. */
#include "transforms/autodiff/loops.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/build_control.h"
#include "transforms/ir/build_moves.h"

enum { MOST = NABLA_BUILD_MAX_CARRIES };

static bool too_many(MlirOperation op, intptr_t count) {
  if (count <= MOST) return false;
  nabla_error_at(op,
                 "has no derivative: it has %d carries, inputs and outputs, "
                 "more than %d",
                 (int)count, MOST);
  return true;
}

/* Copies a block whose arguments are `arguments`, and gives `count` operands of
 * its terminator from `first` on. False if out of memory. */
static bool copy_block(const nabla_builder *b, MlirBlock block,
                       const MlirValue *arguments, intptr_t first,
                       intptr_t count, MlirValue *out) {
  nabla_value_map copies = {0};
  MlirOperation end = nabla_block_end(block);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
    MlirValue old = mlirBlockGetArgument(block, i), value = arguments[i];
    if (!nablaTypeIsAImplicit(mlirValueGetType(old)))
      value = nabla_build_dense(b, value);
    nabla_value_map_set(&copies, old, value);
  }
  const bool good = nabla_block_copy(block, b->before, &copies);
  for (intptr_t i = 0; i < count; i++)
    out[i] =
        good ? nabla_copied(&copies, mlirOperationGetOperand(end, first + i))
             : (MlirValue){NULL};
  nabla_value_map_deinit(&copies);
  return good;
}

/* ---- while ---- */

/* A step: the carries, and what the condition hands on. */
typedef struct step {
  MlirOperation op;
  intptr_t count;
  const MlirValue *carries, *passed;
} step;

static void write_taken(const nabla_builder *b, const MlirValue *arguments,
                        MlirValue *results, void *data) {
  const step *s = data;
  (void)arguments;
  (void)copy_block(b, nabla_region_block(s->op, 1), s->passed, 0, s->count,
                   results);
}

static void write_done(const nabla_builder *b, const MlirValue *arguments,
                       MlirValue *results, void *data) {
  const step *s = data;
  (void)b, (void)arguments;
  for (intptr_t i = 0; i < s->count; i++) results[i] = s->carries[i];
}

static void write_step(const nabla_builder *b, const MlirValue *arguments,
                       MlirValue *results, void *data) {
  MlirOperation op = *(MlirOperation *)data;
  MlirValue handed[MOST + 1];
  step s = {op, mlirOperationGetNumOperands(op), arguments, handed + 1};
  if (!copy_block(b, nabla_region_block(op, 0), arguments, 0, s.count + 1,
                  handed))
    return;
  const nabla_built_region branches[2] = {{write_taken, &s, s.count},
                                          {write_done, &s, s.count}};
  MlirOperation made = nabla_build_cond(b, handed[0], 2, branches);
  for (intptr_t i = 0; i < s.count; i++)
    results[i] = nabla_build_result(made, i);
}

/* The steps as a scan, then the condition once more: it hands on the results.
 */
static bool bound(MlirOperation op) {
  MlirValue values[MOST];
  const nabla_builder b = {op};
  const intptr_t count = mlirOperationGetNumOperands(op);
  const int64_t most = nabla_op_integer(op, "max_steps", -1);
  if (too_many(op, count + 1)) return false;
  for (intptr_t i = 0; i < count; i++)
    values[i] = mlirOperationGetOperand(op, i);
  const nabla_built_scan how = {.carry_count = count,
                                .carries = values,
                                .length = nabla_build_index(&b, most)};
  const nabla_built_region body = {write_step, &op, count};
  MlirOperation made = nabla_build_scan(&b, &how, &body);
  if (mlirOperationIsNull(made)) return false;
  nabla_loop_attributes_keep(op, made);
  for (intptr_t i = 0; i < count; i++)
    values[i] = mlirOperationGetResult(made, i);
  if (!copy_block(&b, nabla_region_block(op, 0), values, 1, count, values))
    return false;
  nabla_op_replace(op, values);
  return nabla_op_integer(made, "remat", 0) ? nabla_loop_prepare(made) : true;
}

/* ---- scan ---- */

typedef struct chunks {
  MlirOperation op;
  nabla_scan_parts scan;
  nabla_builder b;
  int64_t every;
  MlirValue sizes[MOST];
  /* of the steps: those in whole chunks come first */
  int64_t length, whole, chunk_count; /* or MLIR's number for a dynamic one */
  MlirValue length_value, whole_value, chunk_value, rest_value;
} chunks;

static intptr_t input_at(const chunks *c, intptr_t i) {
  return c->scan.carries + i;
}

static void write_body(const nabla_builder *b, const MlirValue *arguments,
                       MlirValue *results, void *data) {
  const chunks *c = data;
  (void)copy_block(b, nabla_region_block(c->op, 0), arguments, 0,
                   c->scan.carries + c->scan.outputs, results);
}

/* The loop over some of the steps. */
static MlirOperation run_steps(chunks *c, const nabla_builder *b,
                               const MlirValue *carries,
                               const MlirValue *inputs, MlirValue length) {
  const nabla_built_scan how = {
      .carry_count = c->scan.carries,
      .input_count = c->scan.inputs,
      .size_count = c->scan.sizes,
      .carries = carries,
      .inputs = inputs,
      .length = c->scan.inputs ? (MlirValue){NULL} : length,
      .sizes = c->sizes,
      .reverse = c->scan.reverse};
  const nabla_built_region body = {write_body, c,
                                   c->scan.carries + c->scan.outputs};
  return nabla_build_scan(b, &how, &body);
}

/* A stacked array of another length. */
static MlirType with_length(MlirType type, int64_t length) {
  int64_t dims[NABLA_MAX_RANK];
  const intptr_t rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < rank; i++) dims[i] = nabla_array_dim(type, i);
  dims[0] = length;
  return mlirRankedTensorTypeGet(rank, dims, nabla_array_element(type),
                                 mlirAttributeGetNull());
}

static void write_chunk(const nabla_builder *b, const MlirValue *arguments,
                        MlirValue *results, void *data) {
  chunks *c = data;
  MlirOperation inner = run_steps(c, b, arguments, arguments + c->scan.carries,
                                  nabla_build_index(b, c->every));
  if (mlirOperationIsNull(inner)) return;
  for (intptr_t i = 0; i < c->scan.carries + c->scan.outputs; i++) {
    results[i] = mlirOperationGetResult(inner, i);
    if (i >= c->scan.carries)
      results[i] = nabla_build_cast(
          b, results[i], with_length(mlirValueGetType(results[i]), c->every));
  }
}

/* Elements [start, start + count) of the first dimension: numbers, or where
 * the length is not known, values. */
static MlirValue part(const chunks *c, MlirValue x, bool rest) {
  const nabla_builder *b = &c->b;
  MlirValue starts[NABLA_MAX_RANK];
  if (!nabla_is_dynamic(c->length))
    return nabla_build_slice(b, x, 0, rest ? c->whole : 0,
                             rest ? c->length : c->whole);
  nabla_built_shape box = nabla_build_shape_of(b, x);
  for (intptr_t i = 0; i < box.rank; i++)
    starts[i] = i || !rest ? nabla_build_index(b, 0) : c->whole_value;
  box.dims[0] = mlirShapedTypeGetDynamicSize();
  box.sizes[0] = rest ? c->rest_value : c->whole_value;
  return nabla_build_box(b, x, starts, &box);
}

/* The same with a dimension for the chunks. */
static MlirValue chunked(const chunks *c, MlirValue x) {
  x = part(c, x, false);
  if (mlirValueIsNull(x)) return x;
  const nabla_built_shape shape = nabla_build_shape_of(&c->b, x);
  nabla_built_shape split = {0};
  if (nabla_is_dynamic(c->length))
    nabla_build_shape_add_value(&split, c->chunk_value);
  else
    nabla_build_shape_add_size(&split, c->chunk_count);
  nabla_build_shape_add_size(&split, c->every);
  for (intptr_t i = 1; i < shape.rank; i++)
    nabla_build_shape_add(&split, &shape, i);
  return nabla_build_reshape(&c->b, x, &split);
}

static MlirValue joined(const chunks *c, MlirValue x) {
  if (mlirValueIsNull(x)) return x;
  const nabla_built_shape split = nabla_build_shape_of(&c->b, x);
  nabla_built_shape shape = {0};
  if (nabla_is_dynamic(c->length))
    nabla_build_shape_add_value(&shape, c->whole_value);
  else
    nabla_build_shape_add_size(&shape, c->whole);
  for (intptr_t i = 2; i < split.rank; i++)
    nabla_build_shape_add(&shape, &split, i);
  return nabla_build_reshape(&c->b, x, &shape);
}

static MlirOperation run_chunks(chunks *c, const MlirValue *carries) {
  MlirValue inputs[MOST];
  for (intptr_t i = 0; i < c->scan.inputs; i++) {
    inputs[i] = chunked(c, mlirOperationGetOperand(c->op, input_at(c, i)));
    if (mlirValueIsNull(inputs[i])) return (MlirOperation){NULL};
  }
  const nabla_built_scan how = {
      .carry_count = c->scan.carries,
      .input_count = c->scan.inputs,
      .size_count = c->scan.sizes,
      .carries = carries,
      .inputs = inputs,
      .length = c->scan.inputs ? (MlirValue){NULL} : c->chunk_value,
      .sizes = c->sizes,
      .reverse = c->scan.reverse};
  const nabla_built_region body = {write_chunk, c,
                                   c->scan.carries + c->scan.outputs};
  return nabla_build_scan(&c->b, &how, &body);
}

static MlirOperation run_rest(chunks *c, const MlirValue *carries) {
  MlirValue inputs[MOST];
  for (intptr_t i = 0; i < c->scan.inputs; i++) {
    inputs[i] = part(c, mlirOperationGetOperand(c->op, input_at(c, i)), true);
    if (mlirValueIsNull(inputs[i])) return (MlirOperation){NULL};
  }
  return run_steps(c, &c->b, carries, inputs, c->rest_value);
}

/* The results: carries of the last loop, stacked outputs of both. `rest` is
 * null where no step is left over. */
static bool give(const chunks *c, MlirOperation all, MlirOperation rest) {
  MlirValue values[MOST];
  MlirOperation last =
      mlirOperationIsNull(rest) || c->scan.reverse ? all : rest;
  for (intptr_t i = 0; i < c->scan.carries; i++)
    values[i] = mlirOperationGetResult(last, i);
  for (intptr_t i = c->scan.carries; i < c->scan.carries + c->scan.outputs;
       i++) {
    values[i] = joined(c, mlirOperationGetResult(all, i));
    if (!mlirOperationIsNull(rest))
      values[i] = nabla_build_concatenate(&c->b, values[i],
                                          mlirOperationGetResult(rest, i), 0);
    values[i] = nabla_build_cast(&c->b, values[i], nabla_result_type(c->op, i));
    if (mlirValueIsNull(values[i])) return false;
  }
  nabla_op_replace(c->op, values);
  return true;
}

/* The number of steps. */
static void find_length(chunks *c) {
  const nabla_builder *b = &c->b;
  c->length = mlirShapedTypeGetDynamicSize();
  for (intptr_t i = 0; i < c->scan.inputs && nabla_is_dynamic(c->length); i++)
    c->length = nabla_array_dim(nabla_operand_type(c->op, input_at(c, i)), 0);
  MlirValue given = c->scan.inputs
                        ? (MlirValue){NULL}
                        : mlirOperationGetOperand(c->op, input_at(c, 0));
  if (!c->scan.inputs && nabla_is(nabla_defining_op(given), "arith.constant"))
    c->length = nabla_op_integer(nabla_defining_op(given), "value", 0);
  if (!nabla_is_dynamic(c->length)) {
    c->chunk_count = c->length / c->every;
    c->whole = c->chunk_count * c->every;
    c->chunk_value = nabla_build_index(b, c->chunk_count);
    c->rest_value = nabla_build_index(b, c->length - c->whole);
    return;
  }
  c->length_value = given;
  if (c->scan.inputs)
    c->length_value =
        nabla_build_shape_of(b, mlirOperationGetOperand(c->op, input_at(c, 0)))
            .sizes[0];
  MlirValue every = nabla_build_index(b, c->every);
  c->chunk_value = nabla_build_arith(b, "divui", c->length_value, every);
  c->whole_value = nabla_build_arith(b, "muli", c->chunk_value, every);
  c->rest_value = nabla_build_arith(b, "subi", c->length_value, c->whole_value);
}

/* Fewer chunks than two keep no less. */
static bool pays(const chunks *c) {
  return c->every > 1 && (nabla_is_dynamic(c->length) || c->chunk_count > 1);
}

static bool divide(chunks *c) {
  MlirValue carries[MOST];
  MlirOperation all = {NULL}, rest = {NULL};
  const bool has_rest = nabla_is_dynamic(c->length) || c->whole < c->length;
  for (intptr_t i = 0; i < c->scan.carries; i++)
    carries[i] = mlirOperationGetOperand(c->op, i);
  for (int turn = 0; turn < 2; turn++) {
    const bool is_rest = turn == (c->scan.reverse ? 0 : 1);
    if (is_rest && !has_rest) continue;
    MlirOperation made =
        is_rest ? run_rest(c, carries) : run_chunks(c, carries);
    if (mlirOperationIsNull(made)) return false;
    *(is_rest ? &rest : &all) = made;
    for (intptr_t i = 0; i < c->scan.carries; i++)
      carries[i] = mlirOperationGetResult(made, i);
  }
  return give(c, all, rest);
}

/* Stacked outputs that are packed are refused with the scan itself. */
static bool stacks_packed(MlirOperation op, const nabla_scan_parts *scan) {
  for (intptr_t i = 0; i < scan->outputs; i++)
    if (nablaTypeIsAImplicit(nabla_result_type(op, scan->carries + i)))
      return true;
  return false;
}

static bool prepare_scan(MlirOperation op) {
  chunks c = {.op = op,
              .scan = nabla_scan_read(op),
              .b = {op},
              .every = nabla_op_integer(op, "remat", 1)};
  (void)mlirOperationRemoveAttributeByName(op, nabla_ref("remat"));
  if (stacks_packed(op, &c.scan)) return true;
  if (too_many(op, c.scan.carries + c.scan.inputs + c.scan.outputs) ||
      too_many(op, c.scan.sizes))
    return false;
  const intptr_t first = c.scan.carries + c.scan.inputs + c.scan.lengths;
  for (intptr_t i = 0; i < c.scan.sizes; i++)
    c.sizes[i] = mlirOperationGetOperand(op, first + i);
  find_length(&c);
  return !pays(&c) || divide(&c);
}

void nabla_loop_attributes_keep(MlirOperation from, MlirOperation to) {
  static const char *const keys[] = {"remat", "max_steps"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    MlirAttribute value =
        mlirOperationGetAttributeByName(from, nabla_ref(keys[i]));
    const bool fits = i == 0 || nabla_is(to, "nabla.while");
    if (!mlirAttributeIsNull(value) && fits)
      mlirOperationSetAttributeByName(to, nabla_ref(keys[i]), value);
  }
}

bool nabla_loop_prepare(MlirOperation op) {
  return nabla_is(op, "nabla.while") ? bound(op) : prepare_scan(op);
}

bool nabla_loop_wants(MlirOperation op) {
  if (nabla_is(op, "nabla.while"))
    return nabla_op_integer(op, "max_steps", -1) >= 0;
  return nabla_is(op, "nabla.scan") && nabla_op_integer(op, "remat", 0) > 0;
}
