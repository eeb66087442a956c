/* Epilogues of convolutions: operations of elements, each of which is the only
 * user of the value before it. Their other operand is a number, a value for
 * each feature, or an array of the result's shape. See conv.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "lib/kernels/conv/conv_parts.h"
#include "transforms/cluster/body.h"
#include "transforms/cluster/conv.h"

/* ---- which operations ---------------------------------------------------- */

/* The value of a splat. */
static bool read_number(MlirOperation made, double *out) {
  MlirAttribute value =
      mlirOperationGetAttributeByName(made, nabla_ref("value"));
  if (mlirAttributeIsNull(value)) return false;
  if (mlirAttributeIsADenseElements(value) &&
      mlirDenseElementsAttrIsSplat(value))
    value = mlirDenseElementsAttrGetSplatValue(value);
  if (!mlirAttributeIsAFloat(value)) return false;
  *out = mlirFloatAttrGetValueDouble(value);
  return true;
}

/* The size of the batch that a broadcast or a full array is given. */
static bool read_size(MlirOperation made, intptr_t first, nabla_conv_step *s) {
  const intptr_t count = mlirOperationGetNumOperands(made) - first;
  s->has_size = count == 1;
  if (s->has_size) s->size = mlirOperationGetOperand(made, first);
  return count <= 1;
}

/* A broadcast of f32 along all dimensions, or along all but the features. */
static bool read_broadcast(MlirOperation made, nabla_conv_step *s) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_dtype dtype;
  const MlirType from = nabla_operand_type(made, 0);
  const intptr_t count = nabla_op_integers(made, "dims", dims);
  if (!mlirTypeIsARankedTensor(from) || !nabla_cluster_dtype(from, &dtype) ||
      dtype != NABLA_DTYPE_F32)
    return false;
  s->kind = NABLA_CONV_SCALAR;
  for (intptr_t i = 0; i < count; i++) {
    const int64_t size = mlirShapedTypeGetDimSize(from, i);
    if (size == 1) continue;
    if (nabla_is_dynamic(size) || dims[i] != 1) return false;
    s->kind = NABLA_CONV_FEATURES;
  }
  s->value = mlirOperationGetOperand(made, 0);
  return read_size(made, 1, s);
}

static bool read_operand(MlirValue value, nabla_conv_step *s) {
  MlirOperation made = nabla_defining_op(value);
  s->given = value;
  if (!mlirOperationIsNull(made)) {
    const bool is_full = nabla_is(made, "nabla.full");
    if (nabla_is(made, "nabla.broadcast_in_dim"))
      return read_broadcast(made, s);
    if (nabla_is(made, "nabla.iota")) return false;
    if (is_full || nabla_is(made, "nabla.constant")) {
      s->kind = NABLA_CONV_NUMBER;
      if (read_number(made, &s->number))
        return !is_full || read_size(made, 0, s);
      if (is_full) return false;
    }
  }
  s->kind = NABLA_CONV_ARRAY;
  s->value = value;
  return true;
}

/* The step that is the only user of `value`. */
static bool read_step(MlirValue value, MlirBlock block, nabla_conv_step *s) {
  const MlirType type = mlirValueGetType(value);
  if (nabla_use_count(value) != 1) return false;
  *s = (nabla_conv_step){
      .op = mlirOpOperandGetOwner(mlirValueGetFirstUse(value))};
  s->element = nabla_cluster_element_named(nabla_name(s->op));
  if (!s->element || !(s->element->types & NABLA_CLUSTER_F32) ||
      s->element->operands > 2 ||
      mlirOperationGetNumOperands(s->op) != s->element->operands ||
      !mlirBlockEqual(mlirOperationGetBlock(s->op), block) ||
      !mlirTypeEqual(nabla_result_type(s->op, 0), type))
    return false;
  s->attribute = nabla_op_integer(s->op, "approximate", 0);
  if (s->element->operands == 1) return true;
  s->is_second = mlirValueEqual(mlirOperationGetOperand(s->op, 1), value);
  MlirValue other = mlirOperationGetOperand(s->op, s->is_second ? 0 : 1);
  return mlirTypeEqual(mlirValueGetType(other), type) && read_operand(other, s);
}

static bool is_read(const nabla_conv_step *s) {
  return s->kind == NABLA_CONV_SCALAR || s->kind == NABLA_CONV_FEATURES ||
         s->kind == NABLA_CONV_ARRAY;
}

void nabla_conv_find_epilogue(nabla_conv *c) {
  int64_t out_of[NABLA_MAX_RANK];
  const MlirBlock block = mlirOperationGetBlock(c->op);
  MlirValue value = mlirOperationGetResult(c->op, 0);
  const MlirType type = mlirValueGetType(value);
  nabla_dtype dtype;
  c->last = c->op;
  if (!nabla_cluster_dtype(type, &dtype) || dtype != NABLA_DTYPE_F32) return;
  const intptr_t listed = nabla_op_integers(c->op, "output_dims", out_of);
  for (intptr_t i = 0; i < listed; i++)
    if (out_of[i] != i) return;
  while (c->step_count < NABLA_CONV_STEPS &&
         c->spec.operand_count < NABLA_CONV_OPERANDS) {
    nabla_conv_step *s = &c->steps[c->step_count];
    if (!read_step(value, block, s)) break;
    if (s->kind == NABLA_CONV_ARRAY)
      c->spec.arrays |= (uint32_t)1 << c->spec.operand_count;
    if (is_read(s)) s->operand = c->spec.operand_count++;
    c->step_count++;
    c->last = s->op;
    value = mlirOperationGetResult(s->op, 0);
  }
  if (!c->step_count) return;
  c->spec.epilogue = nabla_conv_write_epilogue;
  c->spec.epilogue_self = c;
}

void nabla_conv_erase(const nabla_conv *c) {
  for (int i = c->step_count; i-- > 0;) {
    const nabla_conv_step *s = &c->steps[i];
    nabla_op_erase(s->op);
    if (mlirValueIsNull(s->given)) continue;
    MlirOperation made = nabla_defining_op(s->given);
    if (s->kind != NABLA_CONV_ARRAY && !nabla_use_count(s->given))
      nabla_op_erase(made);
  }
  nabla_op_erase(c->op);
}

/* ---- the kernel's -------------------------------------------------------- */

static nabla_ssa other_of(nabla_cluster_body *b, const nabla_conv_step *s,
                          const nabla_conv_place *place) {
  nabla_emitter *e = b->e;
  if (s->kind == NABLA_CONV_NUMBER)
    return nabla_cluster_float(b, b->lane, s->number);
  const nabla_array_ref array = nabla_floats_at(place->operands[s->operand]);
  if (s->kind != NABLA_CONV_ARRAY)
    return k_broadcast(
        e, "f32",
        k_read(e, array,
               s->kind == NABLA_CONV_SCALAR ? k_i64(e, 0) : place->feature));
  if (!place->mask) return k_read_lanes(e, array, place->element, NABLA_LANES);
  return nabla_conv_load(
      e, k_address(e, array.base, k_multiply(e, place->element, 4)),
      place->mask, k_f32(e, NABLA_VECTOR, 0));
}

unsigned nabla_conv_write_epilogue(nabla_emitter *e, const void *self,
                                   const nabla_conv_place *place,
                                   unsigned value) {
  const nabla_conv *c = self;
  nabla_cluster_body b = {.e = e,
                          .shape = NABLA_VECTOR,
                          .lane = nabla_cluster_lane_of(NABLA_DTYPE_F32),
                          .lanes_of_vectors = NABLA_LANES};
  for (int i = 0; i < c->step_count; i++) {
    const nabla_conv_step *s = &c->steps[i];
    const nabla_cluster_node node = {.kind = NABLA_CLUSTER_ELEMENT,
                                     .dtype = NABLA_DTYPE_F32,
                                     .element = s->element,
                                     .attribute = s->attribute};
    nabla_ssa x[NABLA_CLUSTER_OPERANDS] = {value};
    if (s->element->operands == 2) {
      x[s->is_second] = value;
      x[!s->is_second] = other_of(&b, s, place);
    }
    value = s->element->emit(&b, &node, x);
  }
  return value;
}

/* ---- the call's ---------------------------------------------------------- */

static bool is_open(const nabla_conv *c) {
  return nabla_is_dynamic(mlirShapedTypeGetDimSize(c->result, 0));
}

static const char *name_of(const nabla_conv_step *s) {
  return nabla_op_find(s->op)->name + strlen("nabla.");
}

intptr_t nabla_conv_arguments(const nabla_conv *c, MlirValue *out) {
  intptr_t count = 0;
  for (int i = 0; i < c->step_count; i++)
    if (is_read(&c->steps[i])) out[count++] = c->steps[i].value;
  for (int i = 0; i < c->step_count; i++)
    if (c->steps[i].has_size) out[count++] = c->steps[i].size;
  return count;
}

void nabla_conv_add_arguments(const nabla_conv *c, nabla_text *text) {
  for (int i = 0; i < c->step_count; i++) {
    if (!is_read(&c->steps[i])) continue;
    nabla_text_add(text, ", %%o%d: ", c->steps[i].operand);
    nabla_text_add_type(text, mlirValueGetType(c->steps[i].value));
  }
  for (int i = 0; i < c->step_count; i++)
    if (c->steps[i].has_size) nabla_text_add(text, ", %%s%d: index", i);
}

/* Whether the size of the batch that a step has is compared. */
static bool is_checked(const nabla_conv *c, const nabla_conv_step *s) {
  return s->has_size || (is_open(c) && s->kind == NABLA_CONV_ARRAY);
}

void nabla_conv_add_globals(const nabla_conv *c, nabla_text *text) {
  for (int i = 0; i < c->step_count; i++) {
    const char *name = name_of(&c->steps[i]);
    bool is_new = is_checked(c, &c->steps[i]);
    for (int j = 0; j < i; j++)
      is_new = is_new && !(is_checked(c, &c->steps[j]) &&
                           !strcmp(name, name_of(&c->steps[j])));
    if (is_new)
      nabla_text_add(text,
                     "llvm.mlir.global internal constant @nabla_where_%s("
                     "\"nabla.%s\\00\") {addr_space = 0 : i32}\n",
                     name, name);
  }
}

void nabla_conv_add_checks(const nabla_conv *c, nabla_text *text) {
  for (int i = 0; i < c->step_count; i++) {
    const nabla_conv_step *s = &c->steps[i];
    if (!is_checked(c, s)) continue;
    if (!s->has_size) {
      nabla_text_add(text, "  %%s%d = tensor.dim %%o%d, %%zero : ", i,
                     s->operand);
      nabla_text_add_type(text, mlirValueGetType(s->value));
      nabla_text_add(text, "\n");
    }
    nabla_text_add(text,
                   "  %%k%d = arith.index_cast %%s%d : index to i64\n"
                   "  %%w%d = llvm.mlir.addressof @nabla_where_%s : "
                   "!llvm.ptr\n"
                   "  func.call @nabla_require_equal(%%n, %%k%d, %%w%d) : "
                   "(i64, i64, !llvm.ptr) -> ()\n",
                   i, i, i, name_of(s), i, i);
  }
}
