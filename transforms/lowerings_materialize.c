/* Lowering of materialize: every element decoded where it is asked for. The
 * values are those of nabla_decode, bit for bit. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>

#include "quant/codec.h"
#include "quant/int8.h"
#include "quant/kernel.h"
#include "transforms/components.h"
#include "transforms/lowerings_decode.h"
#include "transforms/lowerings_list.h"

typedef nabla_decoding decoding;

static bool fill(nabla_template *t, MlirType type, double value) {
  nabla_tensor shape = nabla_template_result(t);
  nabla_template_open(t);
  nabla_tensor out = nabla_tensor_empty(t, &shape, shape.element->name);
  nabla_ssa constant = ++t->emit.last, full = ++t->emit.last;
  nabla_type_text text = nabla_tensor_type(&out);
  nabla_text_add(&t->text, "  %%v%u = arith.constant ", constant);
  nabla_text_add_attribute(
      &t->text, mlirFloatAttrDoubleGet(nabla_context(t->op),
                                       nabla_array_element(type), value));
  nabla_text_add(&t->text,
                 "\n  %%v%u = linalg.fill ins(%%v%u : %s) outs(%%v%u : %s) -> "
                 "%s\n",
                 full, constant, shape.element->name, out.value, text.data,
                 text.data);
  return nabla_template_close(t, full);
}

/* The values of codes with scale 1, as a constant; bits, since some are NaN. */
static void add_table(nabla_template *t, decoding *d) {
  const nabla_recipe *recipe = nabla_recipe_find(d->format.encoding);
  int64_t count = (int64_t)1 << d->format.encoding->bits;
  d->table = nabla_tensor_static("f32", 1, &count);
  d->table.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant dense<[", d->table.value);
  for (int i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s0x%08" PRIX32, i ? ", " : "",
                   nabla_bits_of_f32(recipe->value((uint8_t)i)));
  nabla_text_add(&t->text, "]> : %s\n", nabla_tensor_type(&d->table).data);
}

/* Element `at` (i64) of a tensor of rank 1. */
static nabla_ssa extract(nabla_template *t, const nabla_tensor *from,
                         nabla_ssa at) {
  nabla_ssa index =
      nabla_emit(&t->emit, "arith.index_cast %%v%u : i64 to index", at);
  return nabla_emit(&t->emit, "tensor.extract %%v%u[%%v%u] : %s", from->value,
                    index, nabla_tensor_type(from).data);
}

nabla_ssa nabla_flat_index(nabla_template *t, const nabla_strided *view) {
  nabla_ssa at = nabla_emit_i64(&t->emit, (uint64_t)view->offset);
  for (intptr_t i = 0; i < view->rank; i++) {
    if (view->strides[i] == 0) continue;
    nabla_ssa loop =
        nabla_emit(&t->emit, "arith.index_cast %%v%u : index to i64",
                   nabla_generic_index(t, i));
    at = nabla_emit_add(
        &t->emit, at,
        nabla_emit_multiply(&t->emit, loop, (uint64_t)view->strides[i]));
  }
  return at;
}

/* The table's value for element `at`. A place in a byte is counted from its
 * highest or its lowest bits, as the row says. */
static nabla_ssa table_value(nabla_template *t, const decoding *d,
                             nabla_ssa at) {
  nabla_emitter *e = &t->emit;
  const nabla_encoding *row = d->format.encoding;
  uint64_t per_byte = 8 / row->bits;
  nabla_ssa byte = extract(t, &d->codes, nabla_emit_divide(e, at, per_byte));
  nabla_ssa last = nabla_emit_i64(e, per_byte - 1);
  nabla_ssa place = nabla_emit(e, "arith.andi %%v%u, %%v%u : i64", at, last);
  if (row->high_first)
    place = nabla_emit(e, "arith.xori %%v%u, %%v%u : i64", place, last);
  nabla_ssa shift = nabla_emit_multiply(e, place, row->bits);
  byte = nabla_emit(e, "arith.extui %%v%u : i8 to i64", byte);
  nabla_ssa code = nabla_emit(e, "arith.shrui %%v%u, %%v%u : i64", byte, shift);
  nabla_ssa mask = nabla_emit_i64(e, ((uint64_t)1 << row->bits) - 1);
  code = nabla_emit(e, "arith.andi %%v%u, %%v%u : i64", code, mask);
  return extract(t, &d->table, code);
}

/* 2^(e - 127) of a byte: an exponent field, but for the subnormal of 0 and the
 * NaN of 255. */
static nabla_ssa e8m0_value(nabla_template *t, nabla_ssa byte) {
  nabla_emitter *e = &t->emit;
  nabla_ssa wide = nabla_emit(e, "arith.extui %%v%u : i8 to i32", byte);
  nabla_ssa by = nabla_emit_i32(e, NABLA_SCALAR, 23);
  nabla_ssa bits = nabla_emit(e, "arith.shli %%v%u, %%v%u : i32", wide, by);
  static const struct {
    uint32_t byte, bits;
  } apart[] = {{0, NABLA_F32_NORMAL / 2}, {255, 0x7fc00000}};
  for (int i = 0; i < 2; i++) {
    nabla_ssa is = nabla_emit(e, "arith.cmpi eq, %%v%u, %%v%u : i32", wide,
                              nabla_emit_i32(e, NABLA_SCALAR, apart[i].byte));
    bits = nabla_emit(e, "arith.select %%v%u, %%v%u, %%v%u : i32", is,
                      nabla_emit_i32(e, NABLA_SCALAR, apart[i].bits), bits);
  }
  return nabla_emit(e, "arith.bitcast %%v%u : i32 to f32", bits);
}

static nabla_ssa times(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  return nabla_emit(&t->emit, "arith.mulf %%v%u, %%v%u : f32", a, b);
}

nabla_ssa nabla_decoding_value(nabla_template *t, const nabla_decoding *d,
                               nabla_ssa at) {
  nabla_ssa scale =
      extract(t, &d->scales, nabla_emit_divide(&t->emit, at, d->format.block));
  scale = d->format.scale == NABLA_SCALE_E8M0
              ? e8m0_value(t, scale)
              : nabla_element_load(t, d->scales.element, scale);
  if (!nabla_encoding_is_int8(d->format.encoding))
    return times(t, table_value(t, d, at), scale);
  nabla_ssa code = nabla_emit(&t->emit, "arith.sitofp %%v%u : i8 to f32",
                              extract(t, &d->codes, at));
  nabla_ssa value = times(t, code, scale);
  if (!nabla_format_is_llm_int8(&d->format)) return value;
  return times(t, value,
               nabla_emit_f32(&t->emit, NABLA_SCALAR, (double)NABLA_INT8_STEP));
}

static nabla_tensor component(MlirType type, uint32_t index, nabla_ssa value) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  nabla_tensor tensor = {.value = value,
                         .element = nabla_element_find(parts[index].element),
                         .rank = 1,
                         .dims = {parts[index].count}};
  return tensor;
}

void nabla_decoding_begin(nabla_template *t, MlirType type, nabla_decoding *d) {
  *d = (nabla_decoding){.type = type, .format = nabla_implicit_format(type)};
  d->codes = component(type, 0, 1);
  d->scales = component(type, 1, 2);
  if (!nabla_encoding_is_int8(d->format.encoding)) add_table(t, d);
}

static bool lower_packed(nabla_template *t, decoding *d) {
  nabla_template_open(t);
  nabla_decoding_begin(t, d->type, d);
  nabla_strided view = nabla_implicit_strided(d->type);
  nabla_tensor shape = nabla_template_result(t);
  nabla_tensor out = nabla_tensor_empty(t, &shape, shape.element->name);
  nabla_generic g = {.loops = shape.rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa value = nabla_decoding_value(t, d, nabla_flat_index(t, &view));
  value = nabla_element_store(t, shape.element, value);
  return nabla_template_close(t, nabla_generic_end(t, &g, value).value);
}

bool nabla_lower_materialize(nabla_template *t) {
  decoding d = {.type = nabla_operand_type(t->op, 0)};
  MlirValue packed = t->operands[0];
  nabla_encoding_info info = nabla_implicit_encoding(d.type);
  if (info.kind == NABLA_KIND_SPLAT) {
    t->operand_count = 0;
    return fill(t, d.type, info.value);
  }
  if (info.kind == NABLA_KIND_CUSTOM) return nabla_lower_custom(t, d.type);
  t->operand_count = nabla_components_find(packed, t->operands);
  if (t->operand_count == 2) return lower_packed(t, &d);
  nabla_error_at(t->op,
                 "has an operand whose components are not known here: "
                 "run --nabla-lower-implicit first");
  return false;
}
