/* Bytes and factors of a line of GGUF blocks; see gemv_int8_ggml.h. */
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "lib/kernels/int8/gemv_int8_ggml.h"

#define HALF (NABLA_BYTES / 2)

static const nabla_ggml_layout *layout_of(const nabla_int8_blocks *self) {
  return self->format->layout;
}

/* Bytes of codes in a block. */
static uint32_t code_bytes(const nabla_int8_blocks *self) {
  return layout_of(self)->run ? self->format->elements / 2
                              : self->format->elements;
}

uint32_t nabla_int8_blocks_element(const nabla_int8_blocks *self,
                                   uint32_t vector, uint32_t byte) {
  uint32_t run = layout_of(self)->run, each = code_bytes(self);
  if (!run) return vector * NABLA_BYTES + byte;
  uint32_t at = vector / 2 * NABLA_BYTES + byte, in = at % each;
  return at / each * self->format->elements + in / run * 2 * run +
         vector % 2 * run + in % run;
}

/* The offset of a byte: codes are unsigned bytes; tables and signed bytes are
 * signed with AVX2. */
static int offset_of(const nabla_ggml_layout *l, int vnni) {
  if (l->run && !l->table) return l->bias;
  return vnni ? 128 : 0;
}

/* Rows are whole blocks; of any size they are whole lines. */
static int has_sizes(const nabla_fused_spec *spec, uint64_t elements,
                     uint64_t line) {
  if (spec->any_size) return spec->any_size % line == 0;
  return spec->n && spec->k && spec->k <= NABLA_INT8_K_MAX &&
         spec->k % elements == 0 && spec->offset % elements == 0 &&
         nabla_spec_row_stride(spec) % elements == 0;
}

int nabla_int8_blocks_of(const nabla_fused_spec *spec, nabla_int8_blocks *out) {
  const nabla_ggml *format = spec->w.ggml;
  *out = (nabla_int8_blocks){.format = format};
  if (!format || spec->numerics != NABLA_NUMERICS_INT8 ||
      !nabla_spec_is_row(spec))
    return 0;
  uint32_t elements = format->elements;
  if (!nabla_int8_has_instructions(spec->features, &out->base.vnni)) return 0;
  const nabla_ggml_layout *l = format->layout;
  out->line = NABLA_BYTES * (l->run ? 2 : 1);
  if (out->line < elements) out->line = elements;
  out->blocks = out->line / elements;
  out->vectors = out->line / NABLA_BYTES;
  out->dots = l->sub == NABLA_GGML_SUB_NONE ? 1 : out->vectors;
  out->base.block = elements < NABLA_BYTES ? elements : NABLA_BYTES;
  out->base.offset = offset_of(l, out->base.vnni);
  out->base.unit = 1;
  return has_sizes(spec, elements, out->line);
}

/* ---- bytes ---- */

/* Byte `more` of block `block` of a line, as a byte of the storage. */
static nabla_ssa byte_of(nabla_emitter *e, const nabla_int8_blocks *self,
                         const nabla_int8_line_ref *line, uint32_t block,
                         uint32_t more) {
  return k_add_constant(e, line->base, block * self->format->bytes + more);
}

/* 64 bytes of codes, from number `at` of a line on. */
static nabla_ssa raw_bytes(nabla_emitter *e, const nabla_int8_blocks *self,
                           const nabla_int8_line_ref *line, uint32_t at) {
  uint32_t each = code_bytes(self), codes = layout_of(self)->codes;
  nabla_ssa part[4] = {0};
  char type[32];
  if (each >= NABLA_BYTES)
    return k_load(e, "vector<64xi8>", e->codes,
                  byte_of(e, self, line, at / each, codes + at % each), 1);
  uint32_t count = NABLA_BYTES / each, first = at / each;
  (void)snprintf(type, sizeof type, "vector<%uxi8>", each);
  for (uint32_t i = 0; i < count; i++)
    if (first + i < line->blocks)
      part[i] = k_load(e, type, e->codes,
                       byte_of(e, self, line, first + i, codes), 1);
  if (count == 4) return nabla_emit_int8_join(e, part);
  if (!part[1]) part[1] = k_op(e, "arith.constant dense<0> : %s", type);
  return k_shuffle(e, "i8", HALF, part[0], part[1], NABLA_BYTES,
                   nabla_pick_from, 0);
}

static nabla_ssa bytes_with(nabla_emitter *e, const char *operation,
                            nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : vector<64xi8>", operation, a, b);
}

/* The fifth bits of 16 elements of each block are two bytes, all together a
 * mask. It is assembled as an integer: LLVM converts vectors to masks through
 * memory. */
static nabla_ssa add_bit_rows(nabla_emitter *e, const nabla_int8_blocks *self,
                              const nabla_int8_line_ref *line, uint32_t vector,
                              nabla_ssa codes) {
  nabla_ssa mask = k_i64(e, 0);
  for (uint32_t i = 0; i < line->blocks; i++) {
    uint32_t element = nabla_int8_blocks_element(self, vector, 16 * i) %
                       self->format->elements;
    uint32_t at = nabla_ggml_high_byte(layout_of(self), element);
    nabla_ssa bits =
        k_load(e, "i16", e->codes, byte_of(e, self, line, i, at), 1);
    bits = k_op(e, "arith.extui %%v%u : i16 to i64", bits);
    bits = k_op(e, "arith.shli %%v%u, %%v%u : i64", bits,
                k_i64(e, (uint64_t)16 * i));
    mask = k_op(e, "arith.ori %%v%u, %%v%u : i64", mask, bits);
  }
  mask = k_op(e, "llvm.bitcast %%v%u : i64 to vector<64xi1>", mask);
  nabla_ssa more = bytes_with(e, "ori", codes, nabla_emit_int8_splat(e, 16));
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<64xi1>, "
              "vector<64xi8>",
              mask, more, codes);
}

/* Upper bits are in 32 bytes for each 32 elements, at shifts that differ
 * between the halves of a vector: a rotation moves them above the lower 4 bits,
 * and a mask removes bits of other bytes. */
static nabla_ssa add_bit_runs(nabla_emitter *e, const nabla_int8_blocks *self,
                              const nabla_int8_line_ref *line, uint32_t vector,
                              nabla_ssa codes) {
  const nabla_ggml_layout *l = layout_of(self);
  nabla_ssa part[2];
  uint32_t by[2];
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t element = nabla_int8_blocks_element(self, vector, HALF * i);
    by[i] = (68 - nabla_ggml_high_shift(l, element)) % 64;
    part[i] =
        k_load(e, "vector<32xi8>", e->codes,
               byte_of(e, self, line, 0, nabla_ggml_high_byte(l, element)), 1);
  }
  nabla_ssa high = k_shuffle(e, "i8", HALF, part[0], part[1], NABLA_BYTES,
                             nabla_pick_from, 0);
  high = k_bitcast(e, "vector<64xi8>", "vector<8xi64>", high);
  nabla_ssa rotation =
      k_op(e,
           "arith.constant dense<[%u, %u, %u, %u, %u, %u, "
           "%u, %u]> : vector<8xi64>",
           by[0], by[0], by[0], by[0], by[1], by[1], by[1], by[1]);
  high = k_op(e,
              "\"llvm.intr.fshl\"(%%v%u, %%v%u, %%v%u) : "
              "(vector<8xi64>, vector<8xi64>, vector<8xi64>) -> "
              "vector<8xi64>",
              high, high, rotation);
  high = k_bitcast(e, "vector<8xi64>", "vector<64xi8>", high);
  high =
      bytes_with(e, "andi", high,
                 nabla_emit_int8_splat(e, (int)(((1u << l->bits) - 1) << 4)));
  return bytes_with(e, "ori", codes, high);
}

nabla_ssa nabla_emit_int8_block_bytes(nabla_emitter *e,
                                      const nabla_int8_blocks *self,
                                      const nabla_int8_line_ref *line,
                                      uint32_t vector) {
  const nabla_ggml_layout *l = layout_of(self);
  if (!l->run) {
    nabla_ssa raw = raw_bytes(e, self, line, vector * NABLA_BYTES);
    if (!self->base.offset) return raw;
    return bytes_with(e, "xori", raw, nabla_emit_int8_splat(e, 128));
  }
  nabla_ssa raw = raw_bytes(e, self, line, vector / 2 * NABLA_BYTES);
  if (vector % 2) {
    raw = k_bitcast(e, "vector<64xi8>", "vector<16xi32>", raw);
    raw = k_i32_with(e, NABLA_VECTOR, "shrui", raw, 4);
    raw = k_bitcast(e, "vector<16xi32>", "vector<64xi8>", raw);
  }
  raw = bytes_with(e, "andi", raw, nabla_emit_int8_splat(e, 15));
  if (l->bits)
    return (l->part == 1 ? add_bit_rows : add_bit_runs)(e, self, line, vector,
                                                        raw);
  if (!l->table) return raw;
  int values[NABLA_GGML_TABLE_VALUES];
  for (unsigned i = 0; i < NABLA_GGML_TABLE_VALUES; i++)
    values[i] = l->table[i] + self->base.offset;
  return nabla_emit_int8_table_lookup(e, &self->base,
                                      nabla_emit_int8_table(e, values), raw);
}

/* ---- factors ---- */

/* A value that each block of the line has, in the lanes of the block. */
static unsigned pick_block(unsigned lane, unsigned blocks) {
  return lane * blocks / NABLA_LANES;
}

/* Context: the words between blocks, 256 times the first, 65536 times how many
 * blocks there are. */
static unsigned pick_word(unsigned lane, unsigned context) {
  return context / 256 % 256 +
         pick_block(lane, context / 65536) * (context % 256);
}

/* vector<16xTYPE> of the values at byte `at` of each block. */
static nabla_ssa of_blocks(nabla_emitter *e, const nabla_int8_blocks *self,
                           const nabla_int8_line_ref *line, uint32_t at,
                           const char *type) {
  nabla_ssa value[4], result;
  for (uint32_t i = 0; i < self->blocks; i++)
    value[i] = i < line->blocks
                   ? k_load(e, type, e->codes, byte_of(e, self, line, i, at), 1)
                   : k_op(e, "arith.constant 0 : %s", type);
  if (self->blocks == 2)
    result = k_op(e, "vector.from_elements %%v%u, %%v%u : vector<2x%s>",
                  value[0], value[1], type);
  else
    result = k_op(e,
                  "vector.from_elements %%v%u, %%v%u, %%v%u, %%v%u : "
                  "vector<4x%s>",
                  value[0], value[1], value[2], value[3], type);
  return k_shuffle(e, type, self->blocks, result, result, NABLA_LANES,
                   pick_block, self->blocks);
}

/* f16 at byte `at` of each block, f32 in the lanes of the block. Where all are
 * within 64 bytes one permutation of words finds them. */
static nabla_ssa halves(nabla_emitter *e, const nabla_int8_blocks *self,
                        const nabla_int8_line_ref *line, uint32_t at) {
  uint32_t bytes = self->format->bytes, count = self->blocks;
  nabla_ssa words;
  if (self->base.vnni && line->blocks == count &&
      bytes * count >= NABLA_BYTES &&
      (count - 1) * bytes + at + 2 <= NABLA_BYTES && bytes % 2 == 0) {
    words = k_load(e, "vector<32xi16>", e->codes, line->base, 1);
    words = k_shuffle(e, "i16", HALF, words, words, NABLA_LANES, pick_word,
                      bytes / 2 + 256 * (at / 2) + 65536 * count);
  } else {
    words = of_blocks(e, self, line, at, "i16");
  }
  return k_widen(e, NABLA_VECTOR, NABLA_DTYPE_F16, words);
}

/* 2^(b - 128) of the byte of each block; 2^-128 and 2^-127 are subnormal. */
static nabla_ssa powers(nabla_emitter *e, const nabla_int8_blocks *self,
                        const nabla_int8_line_ref *line) {
  const nabla_shape all = NABLA_VECTOR;
  nabla_ssa exponent = of_blocks(e, self, line, layout_of(self)->d, "i8");
  exponent =
      k_op(e, "arith.extui %%v%u : vector<16xi8> to vector<16xi32>", exponent);
  nabla_ssa one = k_i32(e, all, 1);
  nabla_ssa small =
      k_i32_binary(e, all, "shli", k_i32(e, all, nabla_ggml_e8m0_bits(0)),
                   k_i32_binary(e, all, "minui", exponent, one));
  nabla_ssa large = k_i32_binary(e, all, "subi", exponent, one);
  large = k_i32_with(e, all, "shli", large, 23);
  nabla_ssa is_small =
      k_op(e, "arith.cmpi ule, %%v%u, %%v%u : vector<16xi32>", exponent, one);
  nabla_ssa bits = k_op(e,
                        "arith.select %%v%u, %%v%u, %%v%u : "
                        "vector<16xi1>, vector<16xi32>",
                        is_small, small, large);
  return k_op(e, "arith.bitcast %%v%u : vector<16xi32> to vector<16xf32>",
              bits);
}

/* The lane of nabla_emit_ggml_sub_lanes that the part of an element has. */
static uint32_t lane_of(const nabla_int8_blocks *self, uint32_t element) {
  return layout_of(self)->sub == NABLA_GGML_SUB_PACKED6
             ? 2 * (element / NABLA_GGML_PACKED6_PART)
             : element / NABLA_GGML_BYTES_PART;
}

/* Picks of a quarter each are enough: 4 bits for each, from the lowest. */
static unsigned pick_quarters(unsigned lane, unsigned context) {
  return context >> (lane / 4 * 4) & 15;
}

void nabla_emit_int8_block_factors(nabla_emitter *e,
                                   const nabla_int8_blocks *self,
                                   const nabla_int8_line_ref *line,
                                   nabla_ssa out[NABLA_INT8_VECTORS_MAX]) {
  const nabla_ggml_layout *l = layout_of(self);
  if (l->sub == NABLA_GGML_SUB_NONE) {
    out[0] = l->is_e8m0 ? powers(e, self, line) : halves(e, self, line, l->d);
    return;
  }
  nabla_ssa all = nabla_emit_ggml_sub_lanes(e, line->base);
  for (uint32_t d = 0; d < self->dots; d++) {
    unsigned context = 0;
    for (uint32_t q = 0; q < 4; q++)
      context |= lane_of(self, nabla_int8_blocks_element(self, d, 16 * q))
                 << 4 * q;
    out[d] = k_shuffle(e, "f32", NABLA_LANES, all, all, NABLA_LANES,
                       pick_quarters, context);
  }
}

int nabla_int8_blocks_min_part(const nabla_int8_blocks *self, uint32_t lane) {
  return layout_of(self)->sub != NABLA_GGML_SUB_PACKED6 || lane % 2 == 0
             ? -1
             : (int)lane / 2;
}

nabla_ssa nabla_emit_int8_block_minima(nabla_emitter *e,
                                       const nabla_int8_blocks *self,
                                       const nabla_int8_line_ref *line) {
  const nabla_ggml_layout *l = layout_of(self);
  if (l->min < 0) return 0;
  if (l->sub == NABLA_GGML_SUB_PACKED6)
    return nabla_emit_ggml_sub_lanes(e, line->base);
  return halves(e, self, line, (uint32_t)l->min);
}
