/* See decode.h. */
#include "transforms/lower/decode.h"

#include <inttypes.h>
#include <mlir-c/BuiltinTypes.h>

#include "lib/kernels/builder/k.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/kernel.h"

typedef nabla_decoding_level level;

/* The values of codes with scale 1, as a constant; bits, since some are NaN. */
static void add_table(nabla_template *t, level *d) {
  const nabla_recipe *recipe = nabla_recipe_find(d->format.encoding);
  int64_t count = (int64_t)1 << d->format.encoding->bits;
  d->table = nabla_ssa_tensor_static("f32", 1, &count);
  d->table.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant dense<[", d->table.value);
  for (int i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s0x%08" PRIX32, i ? ", " : "",
                   nabla_bits_of_f32(recipe->value((uint8_t)i)));
  nabla_text_add(&t->text, "]> : %s\n", nabla_ssa_tensor_type(&d->table).data);
}

/* Element `at` (i64) of a tensor of rank 1. */
static nabla_ssa extract(nabla_template *t, const nabla_ssa_tensor *from,
                         nabla_ssa at) {
  nabla_ssa index = k_op(&t->emit, "arith.index_cast %%v%u : i64 to index", at);
  return k_op(&t->emit, "tensor.extract %%v%u[%%v%u] : %s", from->value, index,
              nabla_ssa_tensor_type(from).data);
}

/* The code of element `at`, of 8 bits or less, as an i64. A place in a byte is
 * counted from its highest or its lowest bits, as the row says. */
static nabla_ssa narrow_code(nabla_template *t, const level *d, nabla_ssa at) {
  nabla_emitter *e = &t->emit;
  const nabla_encoding *row = d->format.encoding;
  uint64_t per_byte = 8 / row->bits;
  nabla_ssa byte = extract(t, &d->codes, k_divide(e, at, per_byte));
  nabla_ssa last = k_i64(e, per_byte - 1);
  nabla_ssa place = k_op(e, "arith.andi %%v%u, %%v%u : i64", at, last);
  if (row->high_first)
    place = k_op(e, "arith.xori %%v%u, %%v%u : i64", place, last);
  nabla_ssa shift = k_multiply(e, place, row->bits);
  byte = k_op(e, "arith.extui %%v%u : i8 to i64", byte);
  nabla_ssa code = k_op(e, "arith.shrui %%v%u, %%v%u : i64", byte, shift);
  nabla_ssa mask = k_i64(e, ((uint64_t)1 << row->bits) - 1);
  return k_op(e, "arith.andi %%v%u, %%v%u : i64", code, mask);
}

/* 2^(e - 127) of a byte: an exponent field, but for the subnormal of 0 and the
 * NaN of 255. */
static nabla_ssa e8m0_value(nabla_template *t, nabla_ssa byte) {
  nabla_emitter *e = &t->emit;
  nabla_ssa wide = k_op(e, "arith.extui %%v%u : i8 to i32", byte);
  nabla_ssa by = k_i32(e, NABLA_SCALAR, 23);
  nabla_ssa bits = k_op(e, "arith.shli %%v%u, %%v%u : i32", wide, by);
  static const struct {
    uint32_t byte, bits;
  } apart[] = {{0, NABLA_F32_NORMAL / 2}, {255, 0x7fc00000}};
  for (int i = 0; i < 2; i++) {
    nabla_ssa is = k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i32", wide,
                        k_i32(e, NABLA_SCALAR, apart[i].byte));
    bits = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i32", is,
                k_i32(e, NABLA_SCALAR, apart[i].bits), bits);
  }
  return k_op(e, "arith.bitcast %%v%u : i32 to f32", bits);
}

static nabla_ssa times(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  return k_op(&t->emit, "arith.mulf %%v%u, %%v%u : f32", a, b);
}

static nabla_ssa value_of(nabla_template *t, const level *d, nabla_ssa at);

/* The scale of the block that element `at` is in. */
static nabla_ssa scale_of(nabla_template *t, const level *d, nabla_ssa block) {
  if (d->nested) return value_of(t, d + 1, block);
  nabla_ssa scale = extract(t, &d->scales, block);
  return d->format.scale == NABLA_SCALE_E8M0
             ? e8m0_value(t, scale)
             : nabla_element_load(t, d->scales.element, scale);
}

/* A code as an i32; those of 8 bits with a sign. */
static nabla_ssa integer_code(nabla_template *t, const level *d, nabla_ssa at) {
  if (d->format.encoding->bits == 8)
    return k_op(&t->emit, "arith.extsi %%v%u : i8 to i32",
                extract(t, &d->codes, at));
  return k_op(&t->emit, "arith.trunci %%v%u : i64 to i32",
              narrow_code(t, d, at));
}

/* (q - z) as f32: exact. */
static nabla_ssa shifted_code(nabla_template *t, const level *d, nabla_ssa at,
                              nabla_ssa block) {
  bool wide = d->format.encoding->bits == 8;
  nabla_ssa zero =
      k_op(&t->emit, "arith.%s %%v%u : i8 to i32", wide ? "extsi" : "extui",
           extract(t, &d->zero_points, block));
  nabla_ssa code = k_op(&t->emit, "arith.subi %%v%u, %%v%u : i32",
                        integer_code(t, d, at), zero);
  return k_op(&t->emit, "arith.sitofp %%v%u : i32 to f32", code);
}

static nabla_ssa packed_value(nabla_template *t, const level *d, nabla_ssa at) {
  nabla_ssa block = k_divide(&t->emit, at, d->format.block);
  nabla_ssa scale = scale_of(t, d, block);
  if (d->format.zero_point)
    return times(t, shifted_code(t, d, at, block), scale);
  if (!nabla_encoding_is_int8(d->format.encoding))
    return times(t, extract(t, &d->table, narrow_code(t, d, at)), scale);
  nabla_ssa code = k_op(&t->emit, "arith.sitofp %%v%u : i8 to f32",
                        extract(t, &d->codes, at));
  nabla_ssa value = times(t, code, scale);
  if (!nabla_format_is_llm_int8(&d->format)) return value;
  return times(t, value,
               k_f32(&t->emit, NABLA_SCALAR, (double)NABLA_INT8_STEP));
}

static nabla_ssa plus(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  return k_op(&t->emit, "arith.addf %%v%u, %%v%u : f32", a, b);
}

/* map[code] * absmax + offset, each rounded (FORMAT.md, B5). */
static nabla_ssa dynamic8_value(nabla_template *t, const level *d,
                                nabla_ssa at) {
  nabla_ssa scale = scale_of(t, d, k_divide(&t->emit, at, d->format.block));
  nabla_ssa code = k_op(&t->emit, "arith.extui %%v%u : i8 to i64",
                        extract(t, &d->codes, at));
  nabla_ssa offset =
      k_op(&t->emit, "tensor.extract %%v%u[] : %s", d->offset.value,
           nabla_ssa_tensor_type(&d->offset).data);
  return plus(t, times(t, extract(t, &d->table, code), scale), offset);
}

/* Element [row, column] of a factor, as f32. */
static nabla_ssa factor(nabla_template *t, const nabla_ssa_tensor *from,
                        nabla_ssa row, nabla_ssa column) {
  nabla_ssa value =
      k_op(&t->emit, "tensor.extract %%v%u[%%v%u, %%v%u] : %s", from->value,
           row, column, nabla_ssa_tensor_type(from).data);
  return nabla_element_load(t, from->element, value);
}

/* The base, then the products of the factors added to it in order. */
static nabla_ssa lora_value(nabla_template *t, const level *d, nabla_ssa at) {
  nabla_emitter *e = &t->emit;
  nabla_ssa base = value_of(t, d + 1, at);
  nabla_ssa row = k_divide(e, at, d->columns);
  nabla_ssa column = k_op(e, "arith.subi %%v%u, %%v%u : i64", at,
                          k_multiply(e, row, d->columns));
  row = k_op(e, "arith.index_cast %%v%u : i64 to index", row);
  column = k_op(e, "arith.index_cast %%v%u : i64 to index", column);
  nabla_ssa zero = nabla_emit_index(t, 0), one = nabla_emit_index(t, 1);
  nabla_ssa rank = nabla_emit_index(t, d->a.dims[0]);
  nabla_ssa out = ++e->last, r = ++e->last, sum = ++e->last;
  k_line(e,
         "%%v%u = scf.for %%v%u = %%v%u to %%v%u step %%v%u "
         "iter_args(%%v%u = %%v%u) -> (f32) {",
         out, r, zero, rank, one, sum, base);
  nabla_ssa product =
      times(t, factor(t, &d->b, row, r), factor(t, &d->a, r, column));
  k_line(e, "scf.yield %%v%u : f32", plus(t, sum, product));
  k_line(e, "}");
  return out;
}

static nabla_ssa value_of(nabla_template *t, const level *d, nabla_ssa at) {
  if (d->kind == NABLA_KIND_LORA) return lora_value(t, d, at);
  if (d->kind == NABLA_KIND_DYNAMIC8) return dynamic8_value(t, d, at);
  if (d->kind == NABLA_KIND_GGML) return nabla_ggml_value(t, d, at);
  return packed_value(t, d, at);
}

nabla_ssa nabla_decoding_value(nabla_template *t, const nabla_decoding *d,
                               nabla_ssa at) {
  return value_of(t, d->levels, at);
}

/* A leaf as operand `*next` of the function. */
static nabla_ssa_tensor leaf(MlirType type, nabla_ssa *next) {
  nabla_ssa_tensor tensor = {
      .value = (*next)++,
      .element = nabla_element_find(mlirShapedTypeGetElementType(type)),
      .rank = mlirShapedTypeGetRank(type)};
  for (intptr_t i = 0; i < tensor.rank; i++)
    tensor.dims[i] = mlirShapedTypeGetDimSize(type, i);
  return tensor;
}

/* Fills `d` and the levels behind it, operands from `*next` on. */
static void begin(nabla_template *t, MlirType type, level *d, nabla_ssa *next) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_ssa_tensor leaves[NABLA_MAX_PARTS] = {{0}};
  uint32_t count = nabla_implicit_components(type, parts);
  *d = (level){.kind = nabla_implicit_encoding(type).kind,
               .format = nabla_implicit_format(type)};
  for (uint32_t i = 0; i < count; i++) {
    if (!nablaTypeIsAImplicit(parts[i].type)) {
      leaves[i] = leaf(parts[i].type, next);
      continue;
    }
    d->nested = true;
    begin(t, parts[i].type, d + 1, next);
  }
  d->codes = leaves[0];
  d->scales = leaves[1];
  if (d->kind == NABLA_KIND_LORA) {
    d->a = leaves[1];
    d->b = leaves[2];
    d->columns = d->a.dims[1] ? (uint64_t)d->a.dims[1] : 1;
  } else if (d->kind == NABLA_KIND_DYNAMIC8) {
    d->offset = leaves[2];
    d->table = leaves[3];
  } else if (d->kind == NABLA_KIND_GGML) {
    d->ggml = nabla_implicit_encoding(type).ggml;
    nabla_ggml_begin(t, d);
  } else {
    d->zero_points = leaves[2];
    if (!nabla_encoding_is_int8(d->format.encoding) && !d->format.zero_point)
      add_table(t, d);
  }
}

void nabla_decoding_begin(nabla_template *t, MlirType type, nabla_decoding *d) {
  nabla_ssa next = 1;
  d->type = type;
  begin(t, type, d->levels, &next);
}
