/* Lookups of codes of up to 4 bits in a table of 16 values; see
 * dequantize.h. */
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"

/* AVX-512 looks up 16 values in one instruction, by the low 4 bits. */
static nabla_ssa lookup_avx512(nabla_emitter *e, nabla_ssa values,
                               nabla_ssa indices) {
  return k_op(e,
              "llvm.call_intrinsic \"llvm.x86.avx512.permvar.sf.512\""
              "(%%v%u, %%v%u) : (vector<16xf32>, vector<16xi32>) -> "
              "vector<16xf32>",
              values, indices);
}

static nabla_ssa half_of(nabla_emitter *e, const char *type, nabla_ssa vector,
                         int high) {
  return k_op(e,
              "vector.shuffle %%v%u, %%v%u [%s] : vector<16x%s>, "
              "vector<16x%s>",
              vector, vector,
              high ? "8, 9, 10, 11, 12, 13, 14, 15" : "0, 1, 2, 3, 4, 5, 6, 7",
              type, type);
}

static nabla_ssa bit_set(nabla_emitter *e, nabla_ssa indices, uint32_t bit) {
  nabla_ssa mask = k_i32(e, NABLA_VECTOR, bit);
  nabla_ssa only =
      k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi32>", indices, mask);
  nabla_ssa zero = k_i32(e, NABLA_VECTOR, 0);
  return k_op(e, "arith.cmpi ne, %%v%u, %%v%u : vector<16xi32>", only, zero);
}

static nabla_ssa pick(nabla_emitter *e, nabla_ssa mask, nabla_ssa yes,
                      nabla_ssa no) {
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xf32>",
              mask, yes, no);
}

/* AVX2 looks up 8 values by 3 bits: in both halves of the table, then selects
 * by the fourth bit. */
static nabla_ssa lookup_avx2(nabla_emitter *e, nabla_ssa values,
                             nabla_ssa indices) {
  nabla_ssa found[2];
  nabla_ssa index[2] = {half_of(e, "i32", indices, 0),
                        half_of(e, "i32", indices, 1)};
  for (int part = 0; part < 2; part++) {
    nabla_ssa half = half_of(e, "f32", values, part), low_high[2];
    for (int i = 0; i < 2; i++)
      low_high[i] = k_op(e,
                         "llvm.call_intrinsic \"llvm.x86.avx2.permps\""
                         "(%%v%u, %%v%u) : (vector<8xf32>, "
                         "vector<8xi32>) -> vector<8xf32>",
                         half, index[i]);
    found[part] = k_op(e,
                       "vector.shuffle %%v%u, %%v%u [0, 1, 2, 3, 4, 5, "
                       "6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : "
                       "vector<8xf32>, vector<8xf32>",
                       low_high[0], low_high[1]);
  }
  return pick(e, bit_set(e, indices, 8), found[1], found[0]);
}

/* Any target: a tree of selects by one bit each. Slow, but without memory
 * accesses and without instructions that could be missing. */
static nabla_ssa lookup_portable(nabla_emitter *e, const float *table,
                                 nabla_ssa indices) {
  nabla_ssa values[NABLA_TABLE_VALUES];
  for (unsigned i = 0; i < NABLA_TABLE_VALUES; i++)
    values[i] = k_f32(e, NABLA_VECTOR, (double)table[i]);
  unsigned count = NABLA_TABLE_VALUES;
  for (uint32_t bit = 1; count > 1; bit *= 2, count /= 2) {
    nabla_ssa set = bit_set(e, indices, bit);
    for (unsigned i = 0; i < count / 2; i++)
      values[i] = pick(e, set, values[2 * i + 1], values[2 * i]);
  }
  return values[0];
}

/* AArch64 looks up 16 bytes by the low 4 bits of 16 others: one of the four
 * bytes of each value. */
static nabla_ssa byte_plane(nabla_emitter *e, const float *table, unsigned byte,
                            nabla_ssa indices) {
  nabla_text line = {0};
  uint32_t any = 0;
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_TABLE_VALUES; i++) {
    uint32_t bits;
    memcpy(&bits, &table[i], sizeof bits);
    bits = bits >> 8 * byte & 255;
    any |= bits;
    nabla_text_add(&line, "%s%u", i ? ", " : "", bits);
  }
  nabla_text_add(&line, "]> : vector<16xi8>");
  nabla_ssa bytes = k_taken(e, &line);
  if (!any) return bytes; /* the same for every index */
  return k_op(e,
              "llvm.call_intrinsic \"llvm.aarch64.neon.tbl1.v16i8\""
              "(%%v%u, %%v%u) : (vector<16xi8>, vector<16xi8>) -> "
              "vector<16xi8>",
              bytes, indices);
}

/* Interleaved elements of two vectors of 16; two such results make one of the
 * result. */
static nabla_ssa interleave(nabla_emitter *e, nabla_ssa low, nabla_ssa high,
                            const char *from, const char *to) {
  nabla_ssa both = k_op(
      e,
      "vector.shuffle %%v%u, %%v%u [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, "
      "6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, "
      "31] : vector<16x%s>, vector<16x%s>",
      low, high, from, from);
  return k_op(e,
              "llvm.bitcast %%v%u : vector<32x%s> to "
              "vector<16x%s>",
              both, from, to);
}

static nabla_ssa lookup_neon(nabla_emitter *e, const float *table,
                             nabla_ssa indices) {
  nabla_ssa mask = k_i32(e, NABLA_VECTOR, 15), planes[4];
  nabla_ssa low =
      k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi32>", indices, mask);
  low = k_op(e, "arith.trunci %%v%u : vector<16xi32> to vector<16xi8>", low);
  for (unsigned i = 0; i < 4; i++) planes[i] = byte_plane(e, table, i, low);
  return interleave(e, interleave(e, planes[0], planes[1], "i8", "i16"),
                    interleave(e, planes[2], planes[3], "i8", "i16"), "i16",
                    "f32");
}

/* The values of codes with scale 1, repeated for encodings of fewer bits. */
static void table_of(const nabla_fused_spec *spec, float *out) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  for (int i = 0; i < NABLA_TABLE_VALUES; i++) {
    if (encoding) {
      const int codes = 1 << encoding->bits;
      out[i] = nabla_recipe_find(encoding)->value((uint8_t)(i % codes));
    } else {
      const nabla_ggml_layout *l = spec->w.ggml->layout;
      out[i] = (float)(l->table ? l->table[i] : i - l->bias);
    }
  }
}

nabla_ssa nabla_emit_table_lookup_in(nabla_emitter *e, nabla_ssa table,
                                     nabla_ssa indices) {
  return NABLA_HAS(e->spec->features, AVX512F)
             ? lookup_avx512(e, table, indices)
             : lookup_avx2(e, table, indices);
}

nabla_ssa nabla_emit_table_lookup_of(nabla_emitter *e, const float *table,
                                     nabla_ssa indices) {
  nabla_features features = e->spec->features;
  if (NABLA_HAS(features, NEON)) return lookup_neon(e, table, indices);
  if (!NABLA_HAS(features, AVX512F) && !NABLA_HAS(features, AVX2))
    return lookup_portable(e, table, indices);
  return nabla_emit_table_lookup_in(e, k_f32_lanes(e, table), indices);
}

nabla_ssa nabla_emit_table_lookup(nabla_emitter *e, nabla_ssa indices) {
  float table[NABLA_TABLE_VALUES];
  table_of(e->spec, table);
  return nabla_emit_table_lookup_of(e, table, indices);
}
