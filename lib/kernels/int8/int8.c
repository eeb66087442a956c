/* Products in int8; see int8.h. */
#include "quant/codec/int8.h"

#include <math.h>
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/gemv_int8_ggml.h"
#include "quant/codec/codec.h"

/* The elements along k under one scale, which begin with the row; 0 if it is
 * not so. */
static uint64_t span_of(const nabla_fused_spec *spec) {
  uint64_t stride = nabla_spec_row_stride(spec), block = spec->w.format.block;
  if (spec->any_size)
    return spec->any_size % block || block & (block - 1) ? 0 : block;
  if (nabla_lines_share_scales(spec, spec->n, stride, spec->k)) return spec->k;
  if (spec->k % block || spec->offset % block || stride % block) return 0;
  return block & (block - 1) ? 0 : block;
}

static int is_table(const nabla_encoding *encoding) {
  return encoding->bits == 4 && !nabla_spec_is_integer(encoding);
}

/* The largest magnitude in the table. */
static double table_size(const nabla_encoding *encoding) {
  float table[NABLA_TABLE_VALUES];
  double most = 0;
  nabla_encoding_table(encoding, table);
  for (unsigned i = 0; i < NABLA_TABLE_VALUES; i++)
    most = fmax(most, fabs((double)table[i]));
  return most;
}

static int is_ternary(const nabla_encoding *encoding) {
  return encoding->bits == 2;
}

/* The unit of the byte of a code. Twice a value of MXFP4 is an integer. */
static double unit_of(const nabla_fused_spec *spec) {
  if (spec->w.format.encoding->is_mx) return 0.5;
  if (is_table(spec->w.format.encoding))
    return table_size(spec->w.format.encoding) / 127;
  return nabla_format_is_llm_int8(&spec->w.format) ? (double)NABLA_INT8_STEP
                                                   : 1;
}

static int offset_of(const nabla_fused_spec *spec, int is_signed) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  if (is_ternary(encoding)) return is_signed ? 0 : 1;
  if (encoding->bits == 4 && nabla_spec_is_integer(encoding))
    return is_signed || spec->w.format.zero_point ? 0 : 8;
  return is_signed ? 0 : 128;
}

int nabla_int8_has_instructions(nabla_features features, int *vnni) {
  *vnni = NABLA_HAS(features, AVX512VNNI) && NABLA_HAS(features, AVX512BW) &&
          NABLA_HAS(features, AVX512VL);
  return *vnni || (NABLA_HAS(features, AVX2) && NABLA_HAS(features, FMA));
}

/* Rows begin with whole bytes; of any size they are whole lines of codes with
 * scales of their own. */
static int has_sizes(const nabla_fused_spec *spec) {
  uint64_t parts = 8 / spec->w.format.encoding->bits;
  if (spec->any_size)
    return spec->any_size % (NABLA_BYTES * parts) == 0 &&
           spec->w.format.granularity == NABLA_PER_BLOCK &&
           spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
  return spec->n && spec->k && spec->k <= NABLA_INT8_K_MAX &&
         spec->offset % parts == 0 && nabla_spec_row_stride(spec) % parts == 0;
}

int nabla_int8_of(const nabla_fused_spec *spec, nabla_int8 *out) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  *out = (nabla_int8){0};
  if (spec->w.ggml) return nabla_int8_panel_of(spec, out);
  if (spec->numerics != NABLA_NUMERICS_INT8 || !encoding ||
      !nabla_spec_is_row(spec) || spec->w.format.segment || !has_sizes(spec))
    return 0;
  if (!is_table(encoding) && !nabla_spec_is_integer(encoding) &&
      !is_ternary(encoding))
    return 0;
  if (!nabla_int8_has_instructions(spec->features, &out->vnni)) return 0;
  out->bits = encoding->bits;
  out->parts = 8 / encoding->bits;
  out->span = span_of(spec);
  out->block = nabla_common_divisor(out->span, NABLA_BYTES);
  if (!out->span || out->block < NABLA_LANES) return 0;
  out->has_zero = spec->w.format.zero_point;
  out->is_signed = !out->vnni;
  out->offset = offset_of(spec, out->is_signed);
  out->unit = unit_of(spec);
  return 1;
}

int nabla_int8_of_amx(const nabla_fused_spec *spec, nabla_int8 *out) {
  if (spec->w.ggml || spec->any_size || !nabla_int8_of(spec, out) ||
      !out->vnni || out->parts > 2 || !NABLA_HAS(spec->features, AMX_INT8))
    return 0;
  out->is_signed = 1;
  out->offset = offset_of(spec, 1);
  return 1;
}

uint64_t nabla_int8_line(const nabla_int8 *self) {
  return (uint64_t)NABLA_BYTES * self->parts;
}

int nabla_int8_has_sums(const nabla_int8 *self) {
  return self->has_zero || self->offset;
}

uint64_t nabla_int8_rest(const nabla_fused_spec *spec, uint64_t unit) {
  return spec->any_size ? 0 : spec->k % unit;
}

nabla_ssa nabla_emit_int8_whole(nabla_emitter *e, uint64_t unit) {
  nabla_ssa units = k_divide(e, e->k, unit);
  return k_multiply(e, units, unit);
}

nabla_ssa nabla_emit_int8_row_bytes(nabla_emitter *e, uint64_t unit,
                                    uint64_t bytes) {
  const nabla_fused_spec *spec = e->spec;
  if (!spec->any_size) /* K is a multiple of the unit, else */
    return k_i64(e, (spec->k + unit - 1) / unit * bytes);
  return k_multiply(e, k_divide(e, e->k, unit), bytes);
}

nabla_ssa nabla_emit_int8_table(nabla_emitter *e,
                                const int values[NABLA_LANES]) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_BYTES; i++)
    nabla_text_add(&line, "%s%d", i ? ", " : "",
                   (int)(int8_t)(uint8_t)values[i % 16]);
  nabla_text_add(&line, "]> : vector<64xi8>");
  return k_taken(e, &line);
}

nabla_ssa nabla_emit_int8_splat(nabla_emitter *e, int value) {
  return k_op(e, "arith.constant dense<%d> : vector<64xi8>",
              (int)(int8_t)(uint8_t)value);
}

static nabla_ssa halves(nabla_emitter *e, nabla_ssa vector, int high) {
  return k_shuffle(e, "i8", NABLA_BYTES, vector, vector, NABLA_BYTES / 2,
                   nabla_pick_from, high ? NABLA_BYTES / 2 : 0);
}

nabla_ssa nabla_emit_int8_table_lookup(nabla_emitter *e, const nabla_int8 *self,
                                       nabla_ssa table, nabla_ssa index) {
  nabla_ssa found[2];
  if (self->vnni)
    return k_op(e,
                "llvm.call_intrinsic \"llvm.x86.avx512.pshuf.b.512\""
                "(%%v%u, %%v%u) : (vector<64xi8>, vector<64xi8>) -> "
                "vector<64xi8>",
                table, index);
  for (int i = 0; i < 2; i++)
    found[i] = k_op(e,
                    "llvm.call_intrinsic \"llvm.x86.avx2.pshuf.b\""
                    "(%%v%u, %%v%u) : (vector<32xi8>, vector<32xi8>) -> "
                    "vector<32xi8>",
                    halves(e, table, i), halves(e, index, i));
  return k_shuffle(e, "i8", NABLA_BYTES / 2, found[0], found[1], NABLA_BYTES,
                   nabla_pick_from, 0);
}

/* The bytes of the 16 codes; 0 when codes are the bytes. */
static nabla_ssa table_of(nabla_emitter *e, const nabla_int8 *self) {
  const nabla_fused_spec *spec = e->spec;
  int values[NABLA_TABLE_VALUES];
  float table[NABLA_TABLE_VALUES];
  int ternary = is_ternary(spec->w.format.encoding);
  if (ternary || nabla_spec_is_integer(spec->w.format.encoding)) {
    if (!self->is_signed || self->has_zero) return 0;
    for (int i = 0; i < (int)NABLA_TABLE_VALUES; i++)
      values[i] = i - (ternary ? 1 : 8);
    return nabla_emit_int8_table(e, values);
  }
  nabla_encoding_table(spec->w.format.encoding, table);
  for (unsigned i = 0; i < NABLA_TABLE_VALUES; i++)
    values[i] = (int)lrint((double)table[i] / self->unit) + self->offset;
  return nabla_emit_int8_table(e, values);
}

void nabla_emit_int8_split(nabla_emitter *e, const nabla_int8 *self,
                           nabla_ssa codes, nabla_ssa out[NABLA_INT8_PARTS]) {
  nabla_ssa bytes = k_bitcast(e, "vector<16xi32>", "vector<64xi8>", codes);
  if (self->bits == 8) {
    out[0] = self->is_signed
                 ? bytes
                 : k_op(e, "arith.xori %%v%u, %%v%u : vector<64xi8>", bytes,
                        nabla_emit_int8_splat(e, 128));
    return;
  }
  nabla_ssa table = table_of(e, self);
  nabla_ssa mask = nabla_emit_int8_splat(e, (1 << self->bits) - 1);
  for (unsigned i = 0; i < self->parts; i++) {
    nabla_ssa part = bytes;
    if (i) {
      nabla_ssa by = k_i32(e, NABLA_VECTOR, i * self->bits);
      part = k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>", codes, by);
      part = k_bitcast(e, "vector<16xi32>", "vector<64xi8>", part);
    }
    nabla_ssa index =
        k_op(e, "arith.andi %%v%u, %%v%u : vector<64xi8>", part, mask);
    int reversed = e->spec->w.format.encoding->high_first;
    out[reversed ? self->parts - 1 - i : i] =
        table ? nabla_emit_int8_table_lookup(e, self, table, index) : index;
  }
}

static nabla_ssa dot_avx2(nabla_emitter *e, nabla_ssa w, nabla_ssa x) {
  nabla_ssa size =
      k_op(e,
           "\"llvm.intr.abs\"(%%v%u) <{is_int_min_poison = false}> : "
           "(vector<32xi8>) -> vector<32xi8>",
           w);
  nabla_ssa reversed =
      k_op(e,
           "llvm.call_intrinsic \"llvm.x86.avx2.psign.b\"(%%v%u, %%v%u) : "
           "(vector<32xi8>, vector<32xi8>) -> vector<32xi8>",
           x, w);
  nabla_ssa pairs =
      k_op(e,
           "llvm.call_intrinsic \"llvm.x86.avx2.pmadd.ub.sw\"(%%v%u, %%v%u) : "
           "(vector<32xi8>, vector<32xi8>) -> vector<16xi16>",
           size, reversed);
  nabla_ssa ones = k_op(e, "arith.constant dense<1> : vector<16xi16>");
  return k_op(e,
              "llvm.call_intrinsic \"llvm.x86.avx2.pmadd.wd\"(%%v%u, %%v%u) : "
              "(vector<16xi16>, vector<16xi16>) -> vector<8xi32>",
              pairs, ones);
}

/* AVX2 multiplies unsigned by signed bytes: |w| by x with the sign of w. 2 *
 * 128 * 127 fits into 16 bits, so nothing saturates. */
nabla_ssa nabla_emit_int8_dot(nabla_emitter *e, const nabla_int8 *self,
                              nabla_ssa sums, nabla_ssa w, nabla_ssa x) {
  nabla_ssa part[2];
  if (self->vnni)
    return k_op(e,
                "llvm.call_intrinsic \"llvm.x86.avx512.vpdpbusd.512\""
                "(%%v%u, %%v%u, %%v%u) : (vector<16xi32>, vector<64xi8>, "
                "vector<64xi8>) -> vector<16xi32>",
                sums, w, x);
  for (int i = 0; i < 2; i++)
    part[i] = dot_avx2(e, halves(e, w, i), halves(e, x, i));
  nabla_ssa all = k_shuffle(e, "i32", NABLA_LANES / 2, part[0], part[1],
                            NABLA_LANES, nabla_pick_from, 0);
  return k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", sums, all);
}

nabla_ssa nabla_emit_int8_zeros(nabla_emitter *e) {
  return k_i32(e, NABLA_VECTOR, 0);
}

nabla_ssa nabla_emit_int8_ones(nabla_emitter *e) {
  return nabla_emit_int8_splat(e, 1);
}

nabla_ssa nabla_emit_int8_sums(nabla_emitter *e, const nabla_int8 *self,
                               nabla_ssa sums) {
  if (self->has_zero)
    return k_op(e, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>",
                sums);
  nabla_ssa by = k_i32(e, NABLA_VECTOR, (uint32_t)-self->offset);
  return k_op(e, "arith.muli %%v%u, %%v%u : vector<16xi32>", sums, by);
}

nabla_ssa nabla_emit_int8_add(nabla_emitter *e, nabla_ssa total, nabla_ssa dot,
                              const nabla_int8_factors *by) {
  nabla_ssa value =
      k_op(e, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>", dot);
  if (by->has_min) {
    nabla_ssa min = k_binary(e, NABLA_VECTOR, "mulf", by->negative, by->sum);
    value = k_fma(e, NABLA_VECTOR, value, by->w, min);
    return k_fma(e, NABLA_VECTOR, value, by->x, total);
  }
  if (by->negative)
    value = k_fma(e, NABLA_VECTOR, by->negative, by->sum, value);
  nabla_ssa factor = k_binary(e, NABLA_VECTOR, "mulf", by->w, by->x);
  return k_fma(e, NABLA_VECTOR, value, factor, total);
}

nabla_ssa nabla_emit_int8_negative(nabla_emitter *e, const nabla_int8 *self,
                                   nabla_ssa flat) {
  nabla_ssa index = k_divide(e, flat, e->spec->w.format.block);
  nabla_ssa raw = k_load(e, "i8", e->zeros, index, 1);
  nabla_ssa zero = k_op(e, "arith.%s %%v%u : i8 to i32",
                        self->bits == 8 ? "extsi" : "extui", raw);
  nabla_ssa from = k_i32(e, NABLA_SCALAR, (uint32_t)-self->offset);
  zero = k_op(e, "arith.subi %%v%u, %%v%u : i32", from, zero);
  return k_op(e, "arith.sitofp %%v%u : i32 to f32", zero);
}
