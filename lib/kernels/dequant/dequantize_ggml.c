/* Dequantizing elements of GGUF blocks; see dequantize_ggml.h. */
#include "lib/kernels/dequant/dequantize_ggml.h"

#include "lib/kernels/builder/k.h"

/* The position of an element: the first byte of its block, and its index in
 * it. */
typedef struct place {
  nabla_ssa base, element; /* i64 */
} place;

static const nabla_ggml_layout *layout_of(const nabla_emitter *e) {
  return e->spec->w.ggml->layout;
}

static nabla_ssa remainder_of(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  return k_op(e, "arith.remui %%v%u, %%v%u : i64", a, k_i64(e, b));
}

static place place_of(nabla_emitter *e, nabla_ssa flat) {
  const nabla_ggml *format = e->spec->w.ggml;
  nabla_ssa block = k_divide(e, flat, format->elements);
  return (place){.base = k_multiply(e, block, format->bytes),
                 .element = remainder_of(e, flat, format->elements)};
}

/* The byte `at` + `more` of the block as i32. */
static nabla_ssa byte_at(nabla_emitter *e, const place *p, nabla_ssa at,
                         uint32_t more, const char *extend) {
  nabla_ssa byte = k_add(e, p->base, at);
  byte = k_add_constant(e, byte, more);
  byte = k_load(e, "i8", e->codes, byte, 1);
  return k_op(e, "arith.%s %%v%u : i8 to i32", extend, byte);
}

static nabla_ssa as_f32(nabla_emitter *e, nabla_shape shape, nabla_ssa number) {
  return k_op(e, "arith.sitofp %%v%u : %s to %s", number, nabla_type_i32[shape],
              nabla_type_f32[shape]);
}

/* The f16 at `byte` of the blocks, as f32. */
static nabla_ssa half_at(nabla_emitter *e, nabla_ssa byte) {
  nabla_ssa half = k_load(e, "i16", e->codes, byte, 1);
  return k_widen(e, NABLA_SCALAR, NABLA_DTYPE_F16, half);
}

/* For 0 and 1 a subnormal. */
nabla_ssa nabla_emit_ggml_e8m0(nabla_emitter *e, nabla_ssa byte) {
  const nabla_shape one = NABLA_SCALAR;
  nabla_ssa raw = k_load(e, "i8", e->codes, byte, 1);
  nabla_ssa exponent = k_op(e, "arith.extui %%v%u : i8 to i32", raw);
  nabla_ssa large = k_i32_with(e, one, "subi", exponent, 1);
  large = k_i32_with(e, one, "shli", large, 23);
  nabla_ssa small = k_i32_with(e, one, "minui", exponent, 1);
  small = k_i32_binary(e, one, "shli", k_i32(e, one, nabla_ggml_e8m0_bits(0)),
                       small);
  nabla_ssa is_small =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i32", exponent, k_i32(e, one, 2));
  nabla_ssa bits =
      k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i32", is_small, small, large);
  return k_op(e, "arith.bitcast %%v%u : i32 to f32", bits);
}

nabla_ssa nabla_emit_ggml_table(nabla_emitter *e) {
  const nabla_ggml_layout *l = layout_of(e);
  float table[NABLA_GGML_TABLE_VALUES];
  for (unsigned i = 0; i < NABLA_GGML_TABLE_VALUES; i++)
    table[i] = (float)(l->table ? l->table[i] : (int)i - l->bias);
  return k_f32_lanes(e, table);
}

/* ---- factors and minima ---- */

/* What the factor and the minimum (0: none) of a part are multiplied with, of
 * 6 bits: quant/codec/ggml_decode.c, packed6. */
static void packed6(nabla_emitter *e, const place *p, nabla_ssa out[2]) {
  const nabla_shape one = NABLA_SCALAR;
  uint32_t at = layout_of(e)->sub_at;
  nabla_ssa part = k_divide(e, p->element, NABLA_GGML_PACKED6_PART);
  nabla_ssa low = remainder_of(e, part, 4);
  nabla_ssa both = byte_at(e, p, part, at + 4, "extui");
  nabla_ssa is_low =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", part, k_i64(e, 4));
  for (uint32_t i = 0; i < 2; i++) {
    nabla_ssa byte = byte_at(e, p, low, at + 4 * i, "extui");
    nabla_ssa plain = k_i32_with(e, one, "andi", byte, 63);
    nabla_ssa upper = k_i32_with(e, one, "shrui", byte, 6);
    upper = k_i32_with(e, one, "shli", upper, 4);
    nabla_ssa lower = i ? k_i32_with(e, one, "shrui", both, 4)
                        : k_i32_with(e, one, "andi", both, 15);
    lower = k_i32_binary(e, one, "ori", lower, upper);
    lower =
        k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i32", is_low, plain, lower);
    out[i] = as_f32(e, one, lower);
  }
}

/* The factor of the block. */
static nabla_ssa block_factor(nabla_emitter *e, const place *p) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa d = k_add_constant(e, p->base, l->d);
  return l->is_e8m0 ? nabla_emit_ggml_e8m0(e, d) : half_at(e, d);
}

/* That of 16 elements, a byte. */
static nabla_ssa byte_factor(nabla_emitter *e, const place *p) {
  nabla_ssa part = k_divide(e, p->element, NABLA_GGML_BYTES_PART);
  return as_f32(e, NABLA_SCALAR,
                byte_at(e, p, part, layout_of(e)->sub_at, "extsi"));
}

/* The factor of the part that the element is in, and what is added: 0 for
 * none. */
static void factors(nabla_emitter *e, const place *p, nabla_ssa out[2]) {
  const nabla_ggml_layout *l = layout_of(e);
  const nabla_shape one = NABLA_SCALAR;
  nabla_ssa by[2];
  out[0] = block_factor(e, p);
  out[1] = 0;
  if (l->min >= 0)
    out[1] = half_at(e, k_add_constant(e, p->base, (uint32_t)l->min));
  if (l->sub == NABLA_GGML_SUB_BYTES) {
    out[0] = k_binary(e, one, "mulf", out[0], byte_factor(e, p));
  } else if (l->sub == NABLA_GGML_SUB_PACKED6) {
    packed6(e, p, by);
    for (int i = 0; i < 2; i++)
      out[i] = k_binary(e, one, "mulf", out[i], by[i]);
    out[1] = k_op(e, "arith.negf %%v%u : f32", out[1]);
  }
}

void nabla_emit_ggml_factors(nabla_emitter *e, nabla_ssa flat,
                             nabla_ssa out[2]) {
  place p = place_of(e, flat);
  factors(e, &p, out);
}

nabla_ssa nabla_emit_ggml_block_factor(nabla_emitter *e, nabla_ssa flat) {
  place p = place_of(e, flat);
  return block_factor(e, &p);
}

/* Values that are not scaled have the factor of their 16, where there is one,
 * all others as well. */
static void factors_of(nabla_emitter *e, const nabla_window *window,
                       const place *p, nabla_ssa out[2]) {
  out[0] = out[1] = 0;
  if (!window->is_unscaled)
    factors(e, p, out);
  else if (layout_of(e)->sub == NABLA_GGML_SUB_BYTES)
    out[0] = byte_factor(e, p);
}

/* ---- codes ---- */

/* Where the lower bits of the code of an element are: a byte of the block, and
 * (i32) a shift. */
static nabla_ssa code_place(nabla_emitter *e, const place *p,
                            nabla_ssa *shift) {
  uint32_t run_size = layout_of(e)->run;
  nabla_ssa run = k_divide(e, p->element, run_size);
  nabla_ssa group = k_divide(e, run, 2);
  *shift = k_multiply(e, remainder_of(e, run, 2), 4);
  *shift = k_op(e, "arith.trunci %%v%u : i64 to i32", *shift);
  return k_add(e, k_multiply(e, group, run_size),
               remainder_of(e, p->element, run_size));
}

/* The same for the upper bits. */
static nabla_ssa high_place(nabla_emitter *e, const place *p,
                            nabla_ssa *shift) {
  const nabla_ggml_layout *l = layout_of(e);
  uint64_t per_byte = 8 / l->bits;
  nabla_ssa run = k_divide(e, p->element, l->part);
  nabla_ssa group = k_divide(e, run, per_byte);
  *shift = k_multiply(e, remainder_of(e, run, per_byte), l->bits);
  *shift = k_op(e, "arith.trunci %%v%u : i64 to i32", *shift);
  return k_add(e, k_multiply(e, group, l->part),
               remainder_of(e, p->element, l->part));
}

/* Bits of codes, shifted to the low end and masked. */
static nabla_ssa cut_bits(nabla_emitter *e, nabla_shape shape, nabla_ssa raw,
                          nabla_ssa shift, uint32_t bits) {
  raw = k_i32_binary(e, shape, "shrui", raw, shift);
  return k_i32_with(e, shape, "andi", raw, (1u << bits) - 1);
}

/* 16 consecutive bytes of the block as i32. */
static nabla_ssa bytes_at(nabla_emitter *e, const place *p, nabla_ssa at,
                          uint32_t more, const char *extend) {
  nabla_ssa byte = k_add(e, p->base, at);
  byte = k_add_constant(e, byte, more);
  nabla_ssa raw = k_load(e, "vector<16xi8>", e->codes, byte, 1);
  return k_op(e, "arith.%s %%v%u : vector<16xi8> to vector<16xi32>", extend,
              raw);
}

/* The upper bits of 16 codes: a bit each of two bytes, or of 16 bytes. */
static nabla_ssa high_lanes(nabla_emitter *e, const place *p) {
  const nabla_ggml_layout *l = layout_of(e);
  nabla_ssa shift, at = high_place(e, p, &shift);
  if (l->part != 1)
    return cut_bits(e, NABLA_VECTOR, bytes_at(e, p, at, l->high, "extui"),
                    k_broadcast(e, "i32", shift), l->bits);
  uint32_t lanes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa byte = k_add(e, p->base, at);
  byte = k_add_constant(e, byte, l->high);
  nabla_ssa raw = k_load(e, "i16", e->codes, byte, 1);
  raw = k_op(e, "arith.extui %%v%u : i16 to i32", raw);
  return cut_bits(e, NABLA_VECTOR, k_broadcast(e, "i32", raw),
                  k_i32_lanes(e, lanes), l->bits);
}

/* The values of codes, f32, from their lower and (0: none) upper bits. */
static nabla_ssa values_of(nabla_emitter *e, nabla_shape shape, nabla_ssa low,
                           nabla_ssa high) {
  const nabla_ggml_layout *l = layout_of(e);
  if (high) {
    high = k_i32_with(e, shape, "shli", high, 4);
    low = k_i32_binary(e, shape, "ori", low, high);
  }
  if (l->bias) low = k_i32_with(e, shape, "subi", low, (uint32_t)l->bias);
  return as_f32(e, shape, low);
}

/* Elements from one that begins a run of 16 in everything that a block has. */
static nabla_ssa whole_run(nabla_emitter *e, const place *p) {
  const nabla_ggml_layout *l = layout_of(e);
  if (!l->run)
    return as_f32(e, NABLA_VECTOR,
                  bytes_at(e, p, p->element, l->codes, "extsi"));
  nabla_ssa shift, at = code_place(e, p, &shift);
  nabla_ssa low =
      cut_bits(e, NABLA_VECTOR, bytes_at(e, p, at, l->codes, "extui"),
               k_broadcast(e, "i32", shift), 4);
  if (l->table) return nabla_emit_table_lookup(e, low);
  return values_of(e, NABLA_VECTOR, low, l->bits ? high_lanes(e, p) : 0);
}

/* One element's code, as f32. */
static nabla_ssa one_code(nabla_emitter *e, const place *p) {
  const nabla_ggml_layout *l = layout_of(e);
  const nabla_shape one = NABLA_SCALAR;
  if (!l->run)
    return as_f32(e, one, byte_at(e, p, p->element, l->codes, "extsi"));
  nabla_ssa shift, high = 0, at = code_place(e, p, &shift);
  nabla_ssa low =
      cut_bits(e, one, byte_at(e, p, at, l->codes, "extui"), shift, 4);
  if (l->table) {
    low = nabla_emit_table_lookup(e, k_broadcast(e, "i32", low));
    return k_op(e,
                "vector.extract %%v%u[0] : f32 from "
                "vector<16xf32>",
                low);
  }
  if (l->bits) {
    at = high_place(e, p, &shift);
    high =
        cut_bits(e, one, byte_at(e, p, at, l->high, "extui"), shift, l->bits);
  }
  return values_of(e, one, low, high);
}

/* Products of factors and codes are exact (at most 24 bits), so that a fused
 * multiplication rounds as often as one and an addition. */
static nabla_ssa scaled(nabla_emitter *e, nabla_shape shape,
                        const nabla_ssa by[2], nabla_ssa value) {
  if (!by[0]) return value;
  value = k_binary(e, shape, "mulf", value, by[0]);
  if (!by[1]) return value;
  return k_binary(e, shape, "addf", value, by[1]);
}

/* Elements at any place, one after the other; 0 beyond the window. */
static nabla_ssa one_by_one(nabla_emitter *e, const nabla_window *window) {
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0), by[2];
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa end = k_i64(e, window->width);
  nabla_loop lanes;
  k_loop_begin(e, &lanes, zero, end, 1, 1, &none);
  place p = place_of(e, k_add(e, window->flat, lanes.induction));
  nabla_ssa value = one_code(e, &p);
  factors_of(e, window, &p, by);
  value = scaled(e, NABLA_SCALAR, by, value);
  nabla_ssa all = k_op(e,
                       "llvm.insertelement %%v%u, %%v%u[%%v%u : i64] : "
                       "vector<16xf32>",
                       value, lanes.carried[0], lanes.induction);
  k_loop_end(e, &lanes, &all);
  return lanes.results[0];
}

nabla_ssa nabla_emit_dequantize_ggml(nabla_emitter *e,
                                     const nabla_window *window) {
  nabla_ssa value, by[2];
  if (window->width < NABLA_LANES || window->aligned % NABLA_LANES) {
    value = one_by_one(e, window);
  } else {
    place p = place_of(e, window->flat);
    factors_of(e, window, &p, by);
    for (int i = 0; i < 2; i++)
      if (by[i]) by[i] = k_broadcast(e, "f32", by[i]);
    value = scaled(e, NABLA_VECTOR, by, whole_run(e, &p));
  }
  return k_round(e, NABLA_VECTOR, e->spec->w_type, value);
}
