/* Decoding elements of the blocks of GGUF files; see dequantize_ggml.h. */
#include "lib/kernels/dequant/dequantize_ggml.h"

/* Where an element is: the first byte of its block, and its number in it. */
typedef struct place {
  nabla_ssa base, element; /* i64 */
} place;

static const nabla_ggml_layout *layout_of(const nabla_emitter *emitter) {
  return emitter->spec->ggml->layout;
}

static nabla_ssa remainder_of(nabla_emitter *emitter, nabla_ssa a, uint64_t b) {
  return nabla_emit(emitter, "arith.remui %%v%u, %%v%u : i64", a,
                    nabla_emit_i64(emitter, b));
}

static place place_of(nabla_emitter *emitter, nabla_ssa flat) {
  const nabla_ggml *format = emitter->spec->ggml;
  nabla_ssa block = nabla_emit_divide(emitter, flat, format->elements);
  return (place){.base = nabla_emit_multiply(emitter, block, format->bytes),
                 .element = remainder_of(emitter, flat, format->elements)};
}

/* The byte `at` + `more` of the block as i32. */
static nabla_ssa byte_at(nabla_emitter *emitter, const place *p, nabla_ssa at,
                         uint32_t more, const char *extend) {
  nabla_ssa byte = nabla_emit_add(emitter, p->base, at);
  byte = nabla_emit_add_constant(emitter, byte, more);
  byte = nabla_emit_load(emitter, "i8", emitter->codes, byte, 1);
  return nabla_emit(emitter, "arith.%s %%v%u : i8 to i32", extend, byte);
}

static nabla_ssa as_f32(nabla_emitter *emitter, nabla_shape shape,
                        nabla_ssa number) {
  return nabla_emit(emitter, "arith.sitofp %%v%u : %s to %s", number,
                    nabla_type_i32[shape], nabla_type_f32[shape]);
}

/* The f16 at `byte` of the blocks, as f32. */
static nabla_ssa half_at(nabla_emitter *emitter, nabla_ssa byte) {
  nabla_ssa half = nabla_emit_load(emitter, "i16", emitter->codes, byte, 1);
  return nabla_emit_widen(emitter, NABLA_SCALAR, NABLA_DTYPE_F16, half);
}

/* For 0 and 1 a subnormal. */
nabla_ssa nabla_emit_ggml_e8m0(nabla_emitter *emitter, nabla_ssa byte) {
  const nabla_shape one = NABLA_SCALAR;
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->codes, byte, 1);
  nabla_ssa exponent = nabla_emit(emitter, "arith.extui %%v%u : i8 to i32", raw);
  nabla_ssa large = nabla_emit_i32_with(emitter, one, "subi", exponent, 1);
  large = nabla_emit_i32_with(emitter, one, "shli", large, 23);
  nabla_ssa small = nabla_emit_i32_with(emitter, one, "minui", exponent, 1);
  small = nabla_emit_i32_binary(
      emitter, one, "shli",
      nabla_emit_i32(emitter, one, nabla_ggml_e8m0_bits(0)), small);
  nabla_ssa is_small = nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i32",
                                  exponent, nabla_emit_i32(emitter, one, 2));
  nabla_ssa bits = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i32",
                              is_small, small, large);
  return nabla_emit(emitter, "arith.bitcast %%v%u : i32 to f32", bits);
}

nabla_ssa nabla_emit_ggml_table(nabla_emitter *emitter) {
  const nabla_ggml_layout *l = layout_of(emitter);
  float table[NABLA_GGML_TABLE_VALUES];
  for (unsigned i = 0; i < NABLA_GGML_TABLE_VALUES; i++)
    table[i] = (float)(l->table ? l->table[i] : (int)i - l->bias);
  return nabla_emit_f32_lanes(emitter, table);
}

/* ---- factors and minima ---- */

/* What the factor and the minimum (0: none) of a part are multiplied with, of
 * 6 bits: quant/codec/ggml_decode.c, packed6. */
static void packed6(nabla_emitter *emitter, const place *p, nabla_ssa out[2]) {
  const nabla_shape one = NABLA_SCALAR;
  uint32_t at = layout_of(emitter)->sub_at;
  nabla_ssa part =
      nabla_emit_divide(emitter, p->element, NABLA_GGML_PACKED6_PART);
  nabla_ssa low = remainder_of(emitter, part, 4);
  nabla_ssa both = byte_at(emitter, p, part, at + 4, "extui");
  nabla_ssa is_low = nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64",
                                part, nabla_emit_i64(emitter, 4));
  for (uint32_t i = 0; i < 2; i++) {
    nabla_ssa byte = byte_at(emitter, p, low, at + 4 * i, "extui");
    nabla_ssa plain = nabla_emit_i32_with(emitter, one, "andi", byte, 63);
    nabla_ssa upper = nabla_emit_i32_with(emitter, one, "shrui", byte, 6);
    upper = nabla_emit_i32_with(emitter, one, "shli", upper, 4);
    nabla_ssa lower = i ? nabla_emit_i32_with(emitter, one, "shrui", both, 4)
                        : nabla_emit_i32_with(emitter, one, "andi", both, 15);
    lower = nabla_emit_i32_binary(emitter, one, "ori", lower, upper);
    lower = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i32",
                       is_low, plain, lower);
    out[i] = as_f32(emitter, one, lower);
  }
}

/* The factor of the block. */
static nabla_ssa block_factor(nabla_emitter *emitter, const place *p) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa d = nabla_emit_add_constant(emitter, p->base, l->d);
  return l->is_e8m0 ? nabla_emit_ggml_e8m0(emitter, d) : half_at(emitter, d);
}

/* That of 16 elements, a byte. */
static nabla_ssa byte_factor(nabla_emitter *emitter, const place *p) {
  nabla_ssa part =
      nabla_emit_divide(emitter, p->element, NABLA_GGML_BYTES_PART);
  return as_f32(emitter, NABLA_SCALAR,
                byte_at(emitter, p, part, layout_of(emitter)->sub_at, "extsi"));
}

/* The factor of the part that the element is in, and what is added: 0 for
 * none. */
static void factors(nabla_emitter *emitter, const place *p, nabla_ssa out[2]) {
  const nabla_ggml_layout *l = layout_of(emitter);
  const nabla_shape one = NABLA_SCALAR;
  nabla_ssa by[2];
  out[0] = block_factor(emitter, p);
  out[1] = 0;
  if (l->min >= 0)
    out[1] = half_at(
        emitter, nabla_emit_add_constant(emitter, p->base, (uint32_t)l->min));
  if (l->sub == NABLA_GGML_SUB_BYTES) {
    out[0] = nabla_emit_binary(emitter, one, "mulf", out[0],
                               byte_factor(emitter, p));
  } else if (l->sub == NABLA_GGML_SUB_PACKED6) {
    packed6(emitter, p, by);
    for (int i = 0; i < 2; i++)
      out[i] = nabla_emit_binary(emitter, one, "mulf", out[i], by[i]);
    out[1] = nabla_emit(emitter, "arith.negf %%v%u : f32", out[1]);
  }
}

void nabla_emit_ggml_factors(nabla_emitter *emitter, nabla_ssa flat,
                             nabla_ssa out[2]) {
  place p = place_of(emitter, flat);
  factors(emitter, &p, out);
}

nabla_ssa nabla_emit_ggml_block_factor(nabla_emitter *emitter, nabla_ssa flat) {
  place p = place_of(emitter, flat);
  return block_factor(emitter, &p);
}

/* Values that are not scaled have the factor of their 16, where there is one,
 * all others as well. */
static void factors_of(nabla_emitter *emitter, const nabla_window *window,
                       const place *p, nabla_ssa out[2]) {
  out[0] = out[1] = 0;
  if (!window->is_unscaled)
    factors(emitter, p, out);
  else if (layout_of(emitter)->sub == NABLA_GGML_SUB_BYTES)
    out[0] = byte_factor(emitter, p);
}

/* ---- codes ---- */

/* Where the lower bits of the code of an element are: a byte of the block, and
 * (i32) a shift. */
static nabla_ssa code_place(nabla_emitter *emitter, const place *p,
                            nabla_ssa *shift) {
  uint32_t run_size = layout_of(emitter)->run;
  nabla_ssa run = nabla_emit_divide(emitter, p->element, run_size);
  nabla_ssa group = nabla_emit_divide(emitter, run, 2);
  *shift = nabla_emit_multiply(emitter, remainder_of(emitter, run, 2), 4);
  *shift = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", *shift);
  return nabla_emit_add(emitter, nabla_emit_multiply(emitter, group, run_size),
                        remainder_of(emitter, p->element, run_size));
}

/* The same for the upper bits. */
static nabla_ssa high_place(nabla_emitter *emitter, const place *p,
                            nabla_ssa *shift) {
  const nabla_ggml_layout *l = layout_of(emitter);
  uint64_t per_byte = 8 / l->bits;
  nabla_ssa run = nabla_emit_divide(emitter, p->element, l->part);
  nabla_ssa group = nabla_emit_divide(emitter, run, per_byte);
  *shift = nabla_emit_multiply(emitter, remainder_of(emitter, run, per_byte),
                               l->bits);
  *shift = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", *shift);
  return nabla_emit_add(emitter, nabla_emit_multiply(emitter, group, l->part),
                        remainder_of(emitter, p->element, l->part));
}

/* Bits of codes brought to the bottom, and cut. */
static nabla_ssa cut_bits(nabla_emitter *emitter, nabla_shape shape,
                          nabla_ssa raw, nabla_ssa shift, uint32_t bits) {
  raw = nabla_emit_i32_binary(emitter, shape, "shrui", raw, shift);
  return nabla_emit_i32_with(emitter, shape, "andi", raw, (1u << bits) - 1);
}

/* 16 consecutive bytes of the block as i32. */
static nabla_ssa bytes_at(nabla_emitter *emitter, const place *p, nabla_ssa at,
                          uint32_t more, const char *extend) {
  nabla_ssa byte = nabla_emit_add(emitter, p->base, at);
  byte = nabla_emit_add_constant(emitter, byte, more);
  nabla_ssa raw =
      nabla_emit_load(emitter, "vector<16xi8>", emitter->codes, byte, 1);
  return nabla_emit(emitter, "arith.%s %%v%u : vector<16xi8> to vector<16xi32>",
                    extend, raw);
}

/* The upper bits of 16 codes: a bit each of two bytes, or of 16 bytes. */
static nabla_ssa high_lanes(nabla_emitter *emitter, const place *p) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa shift, at = high_place(emitter, p, &shift);
  if (l->part != 1)
    return cut_bits(emitter, NABLA_VECTOR,
                    bytes_at(emitter, p, at, l->high, "extui"),
                    nabla_emit_broadcast(emitter, "i32", shift), l->bits);
  uint32_t lanes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa byte = nabla_emit_add(emitter, p->base, at);
  byte = nabla_emit_add_constant(emitter, byte, l->high);
  nabla_ssa raw = nabla_emit_load(emitter, "i16", emitter->codes, byte, 1);
  raw = nabla_emit(emitter, "arith.extui %%v%u : i16 to i32", raw);
  return cut_bits(emitter, NABLA_VECTOR,
                  nabla_emit_broadcast(emitter, "i32", raw),
                  nabla_emit_i32_lanes(emitter, lanes), l->bits);
}

/* What codes stand for, f32, from their lower and (0: none) upper bits. */
static nabla_ssa values_of(nabla_emitter *emitter, nabla_shape shape,
                           nabla_ssa low, nabla_ssa high) {
  const nabla_ggml_layout *l = layout_of(emitter);
  if (high) {
    high = nabla_emit_i32_with(emitter, shape, "shli", high, 4);
    low = nabla_emit_i32_binary(emitter, shape, "ori", low, high);
  }
  if (l->bias)
    low = nabla_emit_i32_with(emitter, shape, "subi", low, (uint32_t)l->bias);
  return as_f32(emitter, shape, low);
}

/* Elements from one that begins a run of 16 in everything that a block has. */
static nabla_ssa whole_run(nabla_emitter *emitter, const place *p) {
  const nabla_ggml_layout *l = layout_of(emitter);
  if (!l->run)
    return as_f32(emitter, NABLA_VECTOR,
                  bytes_at(emitter, p, p->element, l->codes, "extsi"));
  nabla_ssa shift, at = code_place(emitter, p, &shift);
  nabla_ssa low = cut_bits(emitter, NABLA_VECTOR,
                           bytes_at(emitter, p, at, l->codes, "extui"),
                           nabla_emit_broadcast(emitter, "i32", shift), 4);
  if (l->table) return nabla_emit_lookup(emitter, low);
  return values_of(emitter, NABLA_VECTOR, low,
                   l->bits ? high_lanes(emitter, p) : 0);
}

/* One element's code, as f32. */
static nabla_ssa one_code(nabla_emitter *emitter, const place *p) {
  const nabla_ggml_layout *l = layout_of(emitter);
  const nabla_shape one = NABLA_SCALAR;
  if (!l->run)
    return as_f32(emitter, one,
                  byte_at(emitter, p, p->element, l->codes, "extsi"));
  nabla_ssa shift, high = 0, at = code_place(emitter, p, &shift);
  nabla_ssa low = cut_bits(
      emitter, one, byte_at(emitter, p, at, l->codes, "extui"), shift, 4);
  if (l->table) {
    low = nabla_emit_lookup(emitter, nabla_emit_broadcast(emitter, "i32", low));
    return nabla_emit(emitter,
                      "vector.extract %%v%u[0] : f32 from "
                      "vector<16xf32>",
                      low);
  }
  if (l->bits) {
    at = high_place(emitter, p, &shift);
    high = cut_bits(emitter, one, byte_at(emitter, p, at, l->high, "extui"),
                    shift, l->bits);
  }
  return values_of(emitter, one, low, high);
}

/* Products of factors and codes are exact (at most 24 bits), so that a fused
 * multiplication rounds as often as one and an addition. */
static nabla_ssa scaled(nabla_emitter *emitter, nabla_shape shape,
                        const nabla_ssa by[2], nabla_ssa value) {
  if (!by[0]) return value;
  value = nabla_emit_binary(emitter, shape, "mulf", value, by[0]);
  if (!by[1]) return value;
  return nabla_emit_binary(emitter, shape, "addf", value, by[1]);
}

/* Elements at any place, one after the other; 0 beyond the window. */
static nabla_ssa one_by_one(nabla_emitter *emitter,
                            const nabla_window *window) {
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0), by[2];
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa end = nabla_emit_i64(emitter, window->width);
  nabla_loop lanes;
  nabla_loop_begin(emitter, &lanes, zero, end, 1, 1, &none);
  place p =
      place_of(emitter, nabla_emit_add(emitter, window->flat, lanes.induction));
  nabla_ssa value = one_code(emitter, &p);
  factors_of(emitter, window, &p, by);
  value = scaled(emitter, NABLA_SCALAR, by, value);
  nabla_ssa all = nabla_emit(emitter,
                             "llvm.insertelement %%v%u, %%v%u[%%v%u : i64] : "
                             "vector<16xf32>",
                             value, lanes.carried[0], lanes.induction);
  nabla_loop_end(emitter, &lanes, &all);
  return lanes.results[0];
}

nabla_ssa nabla_emit_decode_ggml(nabla_emitter *emitter,
                                 const nabla_window *window) {
  nabla_ssa value, by[2];
  if (window->width < NABLA_LANES || window->aligned % NABLA_LANES) {
    value = one_by_one(emitter, window);
  } else {
    place p = place_of(emitter, window->flat);
    factors_of(emitter, window, &p, by);
    for (int i = 0; i < 2; i++)
      if (by[i]) by[i] = nabla_emit_broadcast(emitter, "f32", by[i]);
    value = scaled(emitter, NABLA_VECTOR, by, whole_run(emitter, &p));
  }
  return nabla_emit_round(emitter, NABLA_VECTOR, emitter->spec->w_type, value);
}
