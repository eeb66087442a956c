/* Decoding elements of packed storage; see dequantize.h. */
#include "lib/kernels/dequant/dequantize.h"

#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "quant/codec/codec.h"

/* 16 codes of 4 bits are this many bytes. */
#define CODE_BYTES (NABLA_LANES / 2)

nabla_dtype nabla_spec_scale_dtype(const nabla_fused_spec *spec) {
  return nabla_scale_info_of(spec->format.scale)->dtype;
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
  if (!spec->format.encoding) return 0;
  uint64_t block = spec->format.block, first = spec->offset % block;
  if (lines > 1 && stride % block) return 0;
  return count <= block && first <= block - count;
}

nabla_ssa nabla_emit_code_byte(nabla_emitter *emitter, nabla_ssa flat) {
  const nabla_fused_spec *spec = emitter->spec;
  if (spec->ggml)
    return nabla_emit_multiply(
        emitter, nabla_emit_divide(emitter, flat, spec->ggml->elements),
        spec->ggml->bytes);
  if (!spec->format.encoding)
    return nabla_emit_multiply(emitter, flat,
                               nabla_dtype_bits(spec->dense) / 8);
  return nabla_emit_divide(emitter, flat, 8 / spec->format.encoding->bits);
}

/* Rows of any size: as long as K. */
static int has_open_rows(const nabla_fused_spec *spec) {
  return spec->any_size && spec->format.granularity == NABLA_PER_ROW;
}

nabla_ssa nabla_emit_block(nabla_emitter *emitter, nabla_ssa flat) {
  const nabla_fused_spec *spec = emitter->spec;
  if (spec->any_size && spec->format.granularity == NABLA_PER_TENSOR)
    return nabla_emit_i64(emitter, 0);
  if (!has_open_rows(spec))
    return nabla_emit_divide(emitter, flat, spec->format.block);
  return nabla_emit(emitter, "arith.divui %%v%u, %%v%u : i64", flat,
                    emitter->k);
}

nabla_ssa nabla_emit_e8m0(nabla_emitter *emitter, nabla_shape shape,
                          nabla_ssa bytes) {
  const char *type = nabla_type_i32[shape];
  nabla_ssa bits = nabla_emit(emitter, "arith.extui %%v%u : %s to %s", bytes,
                              shape ? "vector<16xi8>" : "i8", type);
  bits = nabla_emit(emitter, "arith.shli %%v%u, %%v%u : %s", bits,
                    nabla_emit_i32(emitter, shape, 23), type);
  bits = nabla_emit(emitter, "arith.maxui %%v%u, %%v%u : %s", bits,
                    nabla_emit_i32(emitter, shape, 0x00400000), type);
  nabla_ssa is_nan =
      nabla_emit(emitter, "arith.cmpi eq, %%v%u, %%v%u : %s", bits,
                 nabla_emit_i32(emitter, shape, 0x7f800000), type);
  bits = nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : %s%s", is_nan,
                    nabla_emit_i32(emitter, shape, 0x7fc00000), bits,
                    shape ? "vector<16xi1>, " : "", type);
  return nabla_emit(emitter, "arith.bitcast %%v%u : %s to %s", bits, type,
                    nabla_type_f32[shape]);
}

/* A power of two in a byte. */
static nabla_ssa power_of_two(nabla_emitter *emitter, nabla_ssa index) {
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->scales, index, 1);
  return nabla_emit_e8m0(emitter, NABLA_SCALAR, raw);
}

/* map[code] * absmax + offset, two roundings (nabla/dynamic8.h). */
static nabla_ssa nested_scale(nabla_emitter *emitter, nabla_ssa index) {
  nabla_array_ref map = {emitter->nested_map, NABLA_DTYPE_F32};
  nabla_array_ref absmax = {emitter->nested_scales, NABLA_DTYPE_F32};
  nabla_array_ref offset = {emitter->nested_offset, NABLA_DTYPE_F32};
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->scales, index, 1);
  nabla_ssa code = nabla_emit(emitter, "arith.extui %%v%u : i8 to i64", raw);
  nabla_ssa block =
      nabla_emit_divide(emitter, index, emitter->spec->nested_block);
  nabla_ssa product = nabla_emit_binary(
      emitter, NABLA_SCALAR, "mulf", nabla_emit_read(emitter, map, code),
      nabla_emit_read(emitter, absmax, block));
  return nabla_emit_binary(
      emitter, NABLA_SCALAR, "addf", product,
      nabla_emit_read(emitter, offset, nabla_emit_i64(emitter, 0)));
}

nabla_ssa nabla_emit_scale_at(nabla_emitter *emitter, nabla_ssa index) {
  nabla_array_ref scales = {emitter->scales,
                            nabla_spec_scale_dtype(emitter->spec)};
  switch (emitter->spec->format.scale) {
    case NABLA_SCALE_E8M0:
      return power_of_two(emitter, index);
    case NABLA_SCALE_DYNAMIC8:
      return nested_scale(emitter, index);
    default:
      return nabla_emit_read(emitter, scales, index);
  }
}

void nabla_emit_prefetch_scale(nabla_emitter *emitter, nabla_ssa flat) {
  uint64_t bytes = nabla_scale_info_of(emitter->spec->format.scale)->bytes;
  nabla_ssa index = nabla_emit_block(emitter, flat);
  nabla_emit_prefetch(emitter, emitter->scales,
                      nabla_emit_multiply(emitter, index, bytes));
}

nabla_ssa nabla_emit_scale(nabla_emitter *emitter, nabla_ssa flat) {
  return nabla_emit_scale_at(emitter, nabla_emit_block(emitter, flat));
}

/* One byte of the codes as i32, zero- or sign-extended. */
static nabla_ssa code_byte(nabla_emitter *emitter, nabla_ssa byte,
                           const char *extend) {
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->codes, byte, 1);
  return nabla_emit(emitter, "arith.%s %%v%u : i8 to i32", extend, raw);
}

static int high_first(const nabla_emitter *emitter) {
  return emitter->spec->format.encoding->high_first;
}

/* Brings code i of the 8 in a dword to the bottom of lanes i and 8 + i. With
 * the low nibble of a byte first that is the i-th nibble from the bottom. Else,
 * of a dword as it lies in memory, it is code i ^ 1; of one with its bytes
 * swapped, code i is the i-th from the top. */
static nabla_ssa shift_lanes(nabla_emitter *emitter, nabla_ssa words,
                             int swapped) {
  uint32_t shifts[NABLA_LANES];
  uint32_t flip = high_first(emitter) ? 1 : 0;
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    shifts[i] = swapped ? 28 - i % 8 * 4 : (i % 8 ^ flip) * 4;
  nabla_ssa by = nabla_emit_i32_lanes(emitter, shifts);
  return nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>", words,
                    by);
}

/* Lanes 0-7 hold `low`, lanes 8-15 `high`. */
static nabla_ssa join_words(nabla_emitter *emitter, nabla_ssa low,
                            nabla_ssa high) {
  nabla_ssa all_low = nabla_emit_broadcast(emitter, "i32", low);
  nabla_ssa all_high = nabla_emit_broadcast(emitter, "i32", high);
  nabla_ssa mask = nabla_emit_mask(emitter, 8, 16);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xi32>",
                    mask, all_high, all_low);
}

/* 16 codes of 4 bits from an even position: two dwords, little-endian, in
 * which the high nibble of a byte is the first. */
static nabla_ssa even_codes(nabla_emitter *emitter, nabla_ssa flat) {
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 2);
  nabla_ssa next = nabla_emit_add_constant(emitter, byte, 4);
  nabla_ssa low = nabla_emit_load(emitter, "i32", emitter->codes, byte, 1);
  nabla_ssa high = nabla_emit_load(emitter, "i32", emitter->codes, next, 1);
  return shift_lanes(emitter, join_words(emitter, low, high), 0);
}

/* Eight bytes of codes, in an order in which they follow each other: from the
 * bottom with the low nibble first, else from the top. */
static nabla_ssa ordered_word(nabla_emitter *emitter, nabla_ssa byte) {
  nabla_ssa word = nabla_emit_load(emitter, "i64", emitter->codes, byte, 1);
  if (!high_first(emitter)) return word;
  return nabla_emit(emitter, "llvm.intr.bswap(%%v%u) : (i64) -> i64", word);
}

static nabla_ssa i64_constant(nabla_emitter *emitter, const char *operation,
                              nabla_ssa a, uint64_t value) {
  nabla_ssa b = nabla_emit_i64(emitter, value);
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : i64", operation, a, b);
}

/* 16 codes of 4 bits from any position. With the bytes in order, from an odd
 * position the first half byte is shifted out, and the last comes from a ninth
 * byte. That byte is read as the last of a word that ends there, so nothing is
 * read beyond it; from an even position both words are the same. */
static nabla_ssa any_codes(nabla_emitter *emitter, nabla_ssa flat) {
  int top = high_first(emitter);
  nabla_ssa first = nabla_emit_divide(emitter, flat, 2);
  nabla_ssa last = nabla_emit_add_constant(emitter, flat, NABLA_LANES - 1);
  last = nabla_emit_divide(emitter, last, 2);
  last = i64_constant(emitter, "subi", last, CODE_BYTES - 1);
  nabla_ssa even = ordered_word(emitter, first);
  nabla_ssa tail = ordered_word(emitter, last);
  tail = i64_constant(emitter, "shrui", tail, top ? 4 : 56);
  tail = i64_constant(emitter, "andi", tail, 15);
  if (!top) tail = i64_constant(emitter, "shli", tail, 60);
  nabla_ssa odd = i64_constant(emitter, top ? "shli" : "shrui", even, 4);
  odd = nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i64", odd, tail);
  nabla_ssa parity =
      nabla_emit(emitter, "arith.trunci %%v%u : i64 to i1", flat);
  nabla_ssa word = nabla_emit_choice(emitter, parity, odd, even);
  nabla_ssa upper = i64_constant(emitter, "shrui", word, 32);
  upper = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", upper);
  nabla_ssa lower =
      nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", word);
  return shift_lanes(emitter,
                     top ? join_words(emitter, upper, lower)
                         : join_words(emitter, lower, upper),
                     top);
}

/* Codes one by one, the bits above them whatever they are; 0 beyond the
 * window. */
static nabla_ssa few_codes(nabla_emitter *emitter, const nabla_window *window) {
  unsigned bits = emitter->spec->format.encoding->bits, per_byte = 8 / bits;
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    if (i >= window->width) {
      values[i] = nabla_emit_i32(emitter, NABLA_SCALAR, 0);
      continue;
    }
    nabla_ssa at = nabla_emit_add_constant(emitter, window->flat, i);
    nabla_ssa place = nabla_emit_divide(emitter, at, per_byte);
    values[i] = code_byte(emitter, place, "extui");
    if (per_byte == 1) continue;
    nabla_ssa which = i64_constant(emitter, "andi", at, per_byte - 1);
    if (high_first(emitter))
      which = i64_constant(emitter, "xori", which, per_byte - 1);
    which = nabla_emit_multiply(emitter, which, bits);
    which = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", which);
    values[i] =
        nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : i32", values[i], which);
  }
  return nabla_emit_from_elements(emitter, "i32", values);
}

/* A value for each lane: `at` of the block that its element is in. */
typedef nabla_ssa lookup(nabla_emitter *emitter, nabla_ssa index);
static nabla_ssa block_lanes(nabla_emitter *emitter, const nabla_window *window,
                             lookup *at, const char *type);

/* The codes in the low bits of each i32. */
static nabla_ssa raw_codes(nabla_emitter *emitter, const nabla_window *window) {
  unsigned bits = emitter->spec->format.encoding->bits;
  if (window->width < NABLA_LANES || bits < 4)
    return few_codes(emitter, window);
  if (bits == 8) {
    nabla_ssa codes = nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                                      window->flat, 1);
    return nabla_emit(
        emitter, "arith.extsi %%v%u : vector<16xi8> to vector<16xi32>", codes);
  }
  return window->aligned % 2 == 0 ? even_codes(emitter, window->flat)
                                  : any_codes(emitter, window->flat);
}

/* A window that may reach into a second block, but not a third: the value of
 * each lane is that of the first element or that of the last. */
static nabla_ssa two_blocks(nabla_emitter *emitter, nabla_ssa flat, lookup *at,
                            const char *type) {
  uint64_t block = emitter->spec->format.block;
  uint32_t lanes[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa first = nabla_emit_divide(emitter, flat, block);
  nabla_ssa end = nabla_emit_add_constant(emitter, flat, NABLA_LANES - 1);
  nabla_ssa last = nabla_emit_divide(emitter, end, block);
  nabla_ssa begin = nabla_emit_multiply(emitter, first, block);
  nabla_ssa left =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", flat, begin);
  nabla_ssa size = nabla_emit_i64(emitter, block);
  left = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", size, left);
  left =
      nabla_emit_minimum(emitter, left, nabla_emit_i64(emitter, NABLA_LANES));
  left = nabla_emit(emitter, "arith.trunci %%v%u : i64 to i32", left);
  left = nabla_emit_broadcast(emitter, "i32", left);
  nabla_ssa lane = nabla_emit_i32_lanes(emitter, lanes);
  nabla_ssa later = nabla_emit(
      emitter, "arith.cmpi uge, %%v%u, %%v%u : vector<16xi32>", lane, left);
  nabla_ssa low = nabla_emit_broadcast(emitter, type, at(emitter, first));
  nabla_ssa high = nabla_emit_broadcast(emitter, type, at(emitter, last));
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16x%s>",
                    later, high, low, type);
}

/* A value for each lane, looked up one by one; 0 beyond the window. */
static nabla_ssa each_block(nabla_emitter *emitter, const nabla_window *window,
                            lookup *at, const char *type) {
  uint64_t block = emitter->spec->format.block;
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa flat = nabla_emit_add_constant(emitter, window->flat, i);
    if (i < window->width)
      values[i] = at(emitter, nabla_emit_divide(emitter, flat, block));
    else
      values[i] = *type == 'f' ? nabla_emit_f32(emitter, NABLA_SCALAR, 0)
                               : nabla_emit_i32(emitter, NABLA_SCALAR, 0);
  }
  return nabla_emit_from_elements(emitter, type, values);
}

static nabla_ssa block_lanes(nabla_emitter *emitter, const nabla_window *window,
                             lookup *at, const char *type) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t block = spec->format.block;
  int whole = window->width == NABLA_LANES;
  int one = spec->any_size && spec->format.granularity != NABLA_PER_BLOCK;
  if (one ||
      (whole && block % NABLA_LANES == 0 && window->aligned % NABLA_LANES == 0))
    return nabla_emit_broadcast(
        emitter, type, at(emitter, nabla_emit_block(emitter, window->flat)));
  if (whole && block >= NABLA_LANES)
    return two_blocks(emitter, window->flat, at, type);
  return each_block(emitter, window, at, type);
}

static nabla_ssa scale_lanes(nabla_emitter *emitter,
                             const nabla_window *window) {
  if (window->scale && window->width == NABLA_LANES)
    return nabla_emit_broadcast(emitter, "f32", window->scale);
  return block_lanes(emitter, window, nabla_emit_scale_at, "f32");
}

/* Elements of a dense weight. */
static nabla_ssa dense(nabla_emitter *emitter, const nabla_window *window) {
  nabla_array_ref array = {emitter->codes, emitter->spec->dense};
  return nabla_emit_round(
      emitter, NABLA_VECTOR, emitter->spec->w_type,
      nabla_emit_read_lanes(emitter, array, window->flat, window->width));
}

nabla_ssa nabla_emit_decode(nabla_emitter *emitter,
                            const nabla_window *window) {
  if (emitter->spec->ggml) return nabla_emit_decode_ggml(emitter, window);
  if (!emitter->spec->format.encoding) return dense(emitter, window);
  nabla_ssa value = nabla_emit_code_value(emitter, raw_codes(emitter, window));
  nabla_ssa zero =
      emitter->spec->format.zero_point
          ? block_lanes(emitter, window, nabla_emit_zero_value, "f32")
          : 0;
  if (window->is_unscaled)
    return zero ? nabla_emit_binary(emitter, NABLA_VECTOR, "subf", value, zero)
                : value;
  return nabla_emit_scaled(emitter, value, zero, scale_lanes(emitter, window));
}

nabla_ssa nabla_emit_block_lanes(nabla_emitter *emitter, nabla_ssa first,
                                 unsigned count,
                                 nabla_ssa (*at)(nabla_emitter *, nabla_ssa)) {
  nabla_ssa values[NABLA_LANES];
  unsigned lanes = NABLA_LANES / count; /* that share a block */
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] =
        i % lanes
            ? values[i - 1]
            : at(emitter, nabla_emit_add_constant(emitter, first, i / lanes));
  return count == 1 ? nabla_emit_broadcast(emitter, "f32", values[0])
                    : nabla_emit_from_elements(emitter, "f32", values);
}

nabla_ssa nabla_emit_drop_lanes(nabla_emitter *emitter, nabla_ssa value,
                                unsigned first) {
  nabla_ssa zero = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    nabla_emit_mask(emitter, first, NABLA_LANES), value, zero);
}
