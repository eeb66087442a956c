/* Dequantizing elements of packed storage; see dequantize.h. */
#include "lib/kernels/dequant/dequantize.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "quant/codec/codec.h"

/* 16 codes of 4 bits are this many bytes. */
#define CODE_BYTES (NABLA_LANES / 2)

nabla_dtype nabla_spec_scale_dtype(const nabla_fused_spec *spec) {
  return nabla_scale_info_of(spec->w.format.scale)->dtype;
}

int nabla_spec_is_integer(const nabla_encoding *encoding) {
  return encoding->has_zero_point;
}

int nabla_spec_is_float8(const nabla_encoding *encoding) {
  return encoding && encoding->bits == 8 && !nabla_spec_is_integer(encoding);
}

uint64_t nabla_common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int nabla_lines_share_scales(const nabla_fused_spec *spec, uint64_t lines,
                             uint64_t stride, uint64_t count) {
  if (!spec->w.format.encoding) return 0;
  uint64_t block = spec->w.format.block, first = spec->offset % block;
  if (lines > 1 && stride % block) return 0;
  return count <= block && first <= block - count;
}

nabla_ssa nabla_emit_code_byte(nabla_emitter *e, nabla_ssa flat) {
  const nabla_fused_spec *spec = e->spec;
  if (spec->w.ggml)
    return k_multiply(e, k_divide(e, flat, spec->w.ggml->elements),
                      spec->w.ggml->bytes);
  if (!spec->w.format.encoding)
    return k_multiply(e, flat, nabla_dtype_bits(spec->w_stored) / 8);
  return k_divide(e, flat, 8 / spec->w.format.encoding->bits);
}

/* Rows of any size: as long as K. */
static int has_open_rows(const nabla_fused_spec *spec) {
  return spec->any_size && spec->w.format.granularity == NABLA_PER_ROW;
}

nabla_ssa nabla_emit_block(nabla_emitter *e, nabla_ssa flat) {
  const nabla_fused_spec *spec = e->spec;
  if (spec->any_size && spec->w.format.granularity == NABLA_PER_TENSOR)
    return k_i64(e, 0);
  if (!has_open_rows(spec)) return k_divide(e, flat, spec->w.format.block);
  return k_op(e, "arith.divui %%v%u, %%v%u : i64", flat, e->k);
}

nabla_ssa nabla_emit_e8m0(nabla_emitter *e, nabla_shape shape,
                          nabla_ssa bytes) {
  const char *type = nabla_type_i32[shape];
  nabla_ssa bits = k_op(e, "arith.extui %%v%u : %s to %s", bytes,
                        shape ? "vector<16xi8>" : "i8", type);
  bits =
      k_op(e, "arith.shli %%v%u, %%v%u : %s", bits, k_i32(e, shape, 23), type);
  bits = k_op(e, "arith.maxui %%v%u, %%v%u : %s", bits,
              k_i32(e, shape, 0x00400000), type);
  nabla_ssa is_nan = k_op(e, "arith.cmpi eq, %%v%u, %%v%u : %s", bits,
                          k_i32(e, shape, 0x7f800000), type);
  bits = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : %s%s", is_nan,
              k_i32(e, shape, 0x7fc00000), bits, shape ? "vector<16xi1>, " : "",
              type);
  return k_op(e, "arith.bitcast %%v%u : %s to %s", bits, type,
              nabla_type_f32[shape]);
}

/* A power of two in a byte. */
static nabla_ssa power_of_two(nabla_emitter *e, nabla_ssa index) {
  nabla_ssa raw = k_load(e, "i8", e->scales, index, 1);
  return nabla_emit_e8m0(e, NABLA_SCALAR, raw);
}

/* map[code] * absmax + offset, two roundings (nabla/dynamic8.h). */
static nabla_ssa nested_scale(nabla_emitter *e, nabla_ssa index) {
  nabla_array_ref map = {e->nested_map, NABLA_DTYPE_F32};
  nabla_array_ref absmax = {e->nested_scales, NABLA_DTYPE_F32};
  nabla_array_ref offset = {e->nested_offset, NABLA_DTYPE_F32};
  nabla_ssa raw = k_load(e, "i8", e->scales, index, 1);
  nabla_ssa code = k_op(e, "arith.extui %%v%u : i8 to i64", raw);
  nabla_ssa block = k_divide(e, index, e->spec->w.nested_block);
  nabla_ssa product = k_binary(e, NABLA_SCALAR, "mulf", k_read(e, map, code),
                               k_read(e, absmax, block));
  return k_binary(e, NABLA_SCALAR, "addf", product,
                  k_read(e, offset, k_i64(e, 0)));
}

nabla_ssa nabla_emit_scale_at(nabla_emitter *e, nabla_ssa index) {
  nabla_array_ref scales = {e->scales, nabla_spec_scale_dtype(e->spec)};
  switch (e->spec->w.format.scale) {
    case NABLA_SCALE_E8M0:
      return power_of_two(e, index);
    case NABLA_SCALE_DYNAMIC8:
      return nested_scale(e, index);
    default:
      return k_read(e, scales, index);
  }
}

void nabla_emit_prefetch_scale(nabla_emitter *e, nabla_ssa flat) {
  uint64_t bytes = nabla_scale_info_of(e->spec->w.format.scale)->bytes;
  nabla_ssa index = nabla_emit_block(e, flat);
  k_prefetch(e, e->scales, k_multiply(e, index, bytes));
}

nabla_ssa nabla_emit_scale(nabla_emitter *e, nabla_ssa flat) {
  return nabla_emit_scale_at(e, nabla_emit_block(e, flat));
}

/* One byte of the codes as i32, zero- or sign-extended. */
static nabla_ssa code_byte(nabla_emitter *e, nabla_ssa byte,
                           const char *extend) {
  nabla_ssa raw = k_load(e, "i8", e->codes, byte, 1);
  return k_op(e, "arith.%s %%v%u : i8 to i32", extend, raw);
}

static int high_first(const nabla_emitter *e) {
  return e->spec->w.format.encoding->high_first;
}

/* Shifts code i of the 8 in a dword to the low bits of lanes i and 8 + i. With
 * the low nibble of a byte first that is nibble i from the lowest. Else, of a
 * dword in memory order, it is code i ^ 1; of one with its bytes swapped,
 * nibble i from the highest. */
static nabla_ssa shift_lanes(nabla_emitter *e, nabla_ssa words, int swapped) {
  uint32_t shifts[NABLA_LANES];
  uint32_t flip = high_first(e) ? 1 : 0;
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    shifts[i] = swapped ? 28 - i % 8 * 4 : (i % 8 ^ flip) * 4;
  nabla_ssa by = k_i32_lanes(e, shifts);
  return k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>", words, by);
}

/* Lanes 0-7 hold `low`, lanes 8-15 `high`. */
static nabla_ssa join_words(nabla_emitter *e, nabla_ssa low, nabla_ssa high) {
  nabla_ssa all_low = k_broadcast(e, "i32", low);
  nabla_ssa all_high = k_broadcast(e, "i32", high);
  nabla_ssa mask = k_mask(e, 8, 16);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xi32>",
              mask, all_high, all_low);
}

/* 16 codes of 4 bits from an even position: two dwords, little-endian, in
 * which the high nibble of a byte is the first. */
static nabla_ssa even_codes(nabla_emitter *e, nabla_ssa flat) {
  nabla_ssa byte = k_divide(e, flat, 2);
  nabla_ssa next = k_add_constant(e, byte, 4);
  nabla_ssa low = k_load(e, "i32", e->codes, byte, 1);
  nabla_ssa high = k_load(e, "i32", e->codes, next, 1);
  return shift_lanes(e, join_words(e, low, high), 0);
}

/* Eight bytes of codes, in an order in which they follow each other: from the
 * bottom with the low nibble first, else from the top. */
static nabla_ssa ordered_word(nabla_emitter *e, nabla_ssa byte) {
  nabla_ssa word = k_load(e, "i64", e->codes, byte, 1);
  if (!high_first(e)) return word;
  return k_op(e, "llvm.intr.bswap(%%v%u) : (i64) -> i64", word);
}

static nabla_ssa i64_constant(nabla_emitter *e, const char *operation,
                              nabla_ssa a, uint64_t value) {
  nabla_ssa b = k_i64(e, value);
  return k_op(e, "arith.%s %%v%u, %%v%u : i64", operation, a, b);
}

/* 16 codes of 4 bits from any position. With the bytes in order, from an odd
 * position the first half byte is shifted out, and the last comes from a ninth
 * byte. That byte is read as the last of a word that ends there, so nothing is
 * read beyond it; from an even position both words are the same. */
static nabla_ssa any_codes(nabla_emitter *e, nabla_ssa flat) {
  int top = high_first(e);
  nabla_ssa first = k_divide(e, flat, 2);
  nabla_ssa last = k_add_constant(e, flat, NABLA_LANES - 1);
  last = k_divide(e, last, 2);
  last = i64_constant(e, "subi", last, CODE_BYTES - 1);
  nabla_ssa even = ordered_word(e, first);
  nabla_ssa tail = ordered_word(e, last);
  tail = i64_constant(e, "shrui", tail, top ? 4 : 56);
  tail = i64_constant(e, "andi", tail, 15);
  if (!top) tail = i64_constant(e, "shli", tail, 60);
  nabla_ssa odd = i64_constant(e, top ? "shli" : "shrui", even, 4);
  odd = k_op(e, "arith.ori %%v%u, %%v%u : i64", odd, tail);
  nabla_ssa parity = k_op(e, "arith.trunci %%v%u : i64 to i1", flat);
  nabla_ssa word = k_choice(e, parity, odd, even);
  nabla_ssa upper = i64_constant(e, "shrui", word, 32);
  upper = k_op(e, "arith.trunci %%v%u : i64 to i32", upper);
  nabla_ssa lower = k_op(e, "arith.trunci %%v%u : i64 to i32", word);
  return shift_lanes(
      e, top ? join_words(e, upper, lower) : join_words(e, lower, upper), top);
}

/* Codes one by one, with arbitrary bits above them; 0 beyond the window. */
static nabla_ssa few_codes(nabla_emitter *e, const nabla_window *window) {
  unsigned bits = e->spec->w.format.encoding->bits, per_byte = 8 / bits;
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    if (i >= window->width) {
      values[i] = k_i32(e, NABLA_SCALAR, 0);
      continue;
    }
    nabla_ssa at = k_add_constant(e, window->flat, i);
    nabla_ssa place = k_divide(e, at, per_byte);
    values[i] = code_byte(e, place, "extui");
    if (per_byte == 1) continue;
    nabla_ssa which = i64_constant(e, "andi", at, per_byte - 1);
    if (high_first(e)) which = i64_constant(e, "xori", which, per_byte - 1);
    which = k_multiply(e, which, bits);
    which = k_op(e, "arith.trunci %%v%u : i64 to i32", which);
    values[i] = k_op(e, "arith.shrui %%v%u, %%v%u : i32", values[i], which);
  }
  return k_from_elements(e, "i32", values);
}

/* A value for each lane: `at` of the block that its element is in. */
typedef nabla_ssa lookup(nabla_emitter *e, nabla_ssa index);
static nabla_ssa block_lanes(nabla_emitter *e, const nabla_window *window,
                             lookup *at, const char *type);

/* The codes in the low bits of each i32. */
static nabla_ssa raw_codes(nabla_emitter *e, const nabla_window *window) {
  unsigned bits = e->spec->w.format.encoding->bits;
  if (window->width < NABLA_LANES || bits < 4) return few_codes(e, window);
  if (bits == 8) {
    nabla_ssa codes = k_load(e, "vector<16xi8>", e->codes, window->flat, 1);
    return k_op(e, "arith.extsi %%v%u : vector<16xi8> to vector<16xi32>",
                codes);
  }
  return window->aligned % 2 == 0 ? even_codes(e, window->flat)
                                  : any_codes(e, window->flat);
}

/* A window that may reach into a second block, but not a third: the value of
 * each lane is that of the first element or that of the last. */
static nabla_ssa two_blocks(nabla_emitter *e, nabla_ssa flat, lookup *at,
                            const char *type) {
  uint64_t block = e->spec->w.format.block;
  uint32_t lanes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa first = k_divide(e, flat, block);
  nabla_ssa end = k_add_constant(e, flat, NABLA_LANES - 1);
  nabla_ssa last = k_divide(e, end, block);
  nabla_ssa begin = k_multiply(e, first, block);
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", flat, begin);
  nabla_ssa size = k_i64(e, block);
  left = k_op(e, "arith.subi %%v%u, %%v%u : i64", size, left);
  left = k_minimum(e, left, k_i64(e, NABLA_LANES));
  left = k_op(e, "arith.trunci %%v%u : i64 to i32", left);
  left = k_broadcast(e, "i32", left);
  nabla_ssa lane = k_i32_lanes(e, lanes);
  nabla_ssa later =
      k_op(e, "arith.cmpi uge, %%v%u, %%v%u : vector<16xi32>", lane, left);
  nabla_ssa low = k_broadcast(e, type, at(e, first));
  nabla_ssa high = k_broadcast(e, type, at(e, last));
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16x%s>",
              later, high, low, type);
}

/* A value for each lane, looked up one by one; 0 beyond the window. */
static nabla_ssa each_block(nabla_emitter *e, const nabla_window *window,
                            lookup *at, const char *type) {
  uint64_t block = e->spec->w.format.block;
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa flat = k_add_constant(e, window->flat, i);
    if (i < window->width)
      values[i] = at(e, k_divide(e, flat, block));
    else
      values[i] =
          *type == 'f' ? k_f32(e, NABLA_SCALAR, 0) : k_i32(e, NABLA_SCALAR, 0);
  }
  return k_from_elements(e, type, values);
}

static nabla_ssa block_lanes(nabla_emitter *e, const nabla_window *window,
                             lookup *at, const char *type) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t block = spec->w.format.block;
  int whole = window->width == NABLA_LANES;
  int one = spec->any_size && spec->w.format.granularity != NABLA_PER_BLOCK;
  if (one ||
      (whole && block % NABLA_LANES == 0 && window->aligned % NABLA_LANES == 0))
    return k_broadcast(e, type, at(e, nabla_emit_block(e, window->flat)));
  if (whole && block >= NABLA_LANES)
    return two_blocks(e, window->flat, at, type);
  return each_block(e, window, at, type);
}

static nabla_ssa scale_lanes(nabla_emitter *e, const nabla_window *window) {
  if (window->scale && window->width == NABLA_LANES)
    return k_broadcast(e, "f32", window->scale);
  return block_lanes(e, window, nabla_emit_scale_at, "f32");
}

/* Elements of a dense weight. */
static nabla_ssa dense(nabla_emitter *e, const nabla_window *window) {
  nabla_array_ref array = {e->codes, e->spec->w_stored};
  return k_round(e, NABLA_VECTOR, e->spec->w_type,
                 k_read_lanes(e, array, window->flat, window->width));
}

nabla_ssa nabla_emit_dequantize(nabla_emitter *e, const nabla_window *window) {
  if (e->spec->w.ggml) return nabla_emit_dequantize_ggml(e, window);
  if (!e->spec->w.format.encoding) return dense(e, window);
  nabla_ssa value = nabla_emit_code_value(e, raw_codes(e, window));
  nabla_ssa zero = e->spec->w.format.zero_point
                       ? block_lanes(e, window, nabla_emit_zero_value, "f32")
                       : 0;
  if (window->is_unscaled)
    return zero ? k_binary(e, NABLA_VECTOR, "subf", value, zero) : value;
  return nabla_emit_scaled(e, value, zero, scale_lanes(e, window));
}

nabla_ssa nabla_emit_block_lanes(nabla_emitter *e, nabla_ssa first,
                                 unsigned count,
                                 nabla_ssa (*at)(nabla_emitter *, nabla_ssa)) {
  nabla_ssa values[NABLA_LANES];
  unsigned lanes = NABLA_LANES / count; /* that share a block */
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] =
        i % lanes ? values[i - 1] : at(e, k_add_constant(e, first, i / lanes));
  return count == 1 ? k_broadcast(e, "f32", values[0])
                    : k_from_elements(e, "f32", values);
}

nabla_ssa nabla_emit_drop_lanes(nabla_emitter *e, nabla_ssa value,
                                unsigned first) {
  nabla_ssa zero = k_f32(e, NABLA_VECTOR, 0);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xf32>",
              k_mask(e, first, NABLA_LANES), value, zero);
}
