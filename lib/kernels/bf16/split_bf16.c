/* Splitting weights into parts; see split_bf16.h. */
#include "lib/kernels/bf16/split_bf16.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"
#include "quant/codec/ggml.h"

#define UPPER_BITS 0xffff0000u
#define NAN_PAIR   0x7fc07fc0u

static nabla_ssa bits_of(nabla_emitter *e, nabla_ssa value) {
  return k_bitcast(e, nabla_type_f32[NABLA_VECTOR],
                   nabla_type_i32[NABLA_VECTOR], value);
}

static nabla_ssa floats_of(nabla_emitter *e, nabla_ssa bits) {
  return k_bitcast(e, nabla_type_i32[NABLA_VECTOR],
                   nabla_type_f32[NABLA_VECTOR], bits);
}

static nabla_ssa masked(nabla_emitter *e, nabla_ssa value, uint32_t mask) {
  return k_op(e, "arith.andi %%v%u, %%v%u : %s", bits_of(e, value),
              k_i32(e, NABLA_VECTOR, mask), nabla_type_i32[NABLA_VECTOR]);
}

/* ---- parts ----------------------------------------------------------------
 */

nabla_ssa nabla_emit_bf16_less_upper(nabla_emitter *e, nabla_ssa value) {
  nabla_ssa upper = floats_of(e, masked(e, value, UPPER_BITS));
  return k_binary(e, NABLA_VECTOR, "subf", value, upper);
}

/* Pairs of the upper halves of two vectors. */
static nabla_ssa paired(nabla_emitter *e, nabla_ssa low, nabla_ssa high) {
  nabla_ssa shifted =
      k_op(e, "arith.shrui %%v%u, %%v%u : %s", bits_of(e, low),
           k_i32(e, NABLA_VECTOR, 16), nabla_type_i32[NABLA_VECTOR]);
  return k_op(e, "arith.ori %%v%u, %%v%u : %s", shifted,
              masked(e, high, UPPER_BITS), nabla_type_i32[NABLA_VECTOR]);
}

/* In f32 parts are cut off, not rounded, 8 bits each: what is left is exact,
 * and so is the last part. */
void nabla_emit_bf16_parts(nabla_emitter *e, nabla_ssa low, nabla_ssa high,
                           nabla_ssa out) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  nabla_ssa part;
  if (!nabla_bf16_is_apart(e->spec)) {
    nabla_emit_bf16_split(e, low, high, 1, &part);
    k_store(e, "vector<32xi16>", part, out, k_i64(e, 0), 64);
    return;
  }
  for (unsigned i = 0; i < self.w_parts; i++) {
    if (i) {
      low = nabla_emit_bf16_less_upper(e, low);
      high = nabla_emit_bf16_less_upper(e, high);
    }
    k_store(e, nabla_type_i32[NABLA_VECTOR], paired(e, low, high), out,
            k_i64(e, i * self.part), 64);
  }
}

/* ---- what cannot be split -------------------------------------------------
 */

/* Infinities need no check: infinity less itself is NaN, which is detected. */
int nabla_bf16_has_extremes(const nabla_fused_spec *spec) {
  if (spec->numerics != NABLA_NUMERICS_F32 || nabla_bf16_of(spec).run) return 0;
  if (spec->w.ggml) return spec->w.ggml->layout->is_e8m0; /* or f16, few bits */
  if (!spec->w.format.encoding) return spec->w_stored != NABLA_DTYPE_F16;
  return spec->w.format.scale != NABLA_SCALE_F16;
}

/* The two ways to gather sizes, and when what they have gathered is beyond a
 * limit. */
static const struct {
  uint32_t first;
  const char *gather, *is_beyond;
} extreme[NABLA_BF16_EXTREMES] = {
    [NABLA_BF16_LEAST] = {0xffffffffu, "minui", "ult"},
    [NABLA_BF16_MOST] = {0, "maxsi", "sgt"},
};

nabla_bf16_extremes nabla_emit_bf16_no_extremes(nabla_emitter *e) {
  nabla_bf16_extremes none;
  for (unsigned i = 0; i < NABLA_BF16_EXTREMES; i++)
    none.values[i] = floats_of(e, k_i32(e, NABLA_VECTOR, extreme[i].first));
  return none;
}

void nabla_emit_bf16_add_extremes(nabla_emitter *e, nabla_bf16_extremes *all,
                                  nabla_ssa value) {
  nabla_ssa size = k_op(
      e, "arith.subi %%v%u, %%v%u : %s", k_size_bits(e, NABLA_VECTOR, value),
      k_i32(e, NABLA_VECTOR, 1), nabla_type_i32[NABLA_VECTOR]);
  for (unsigned i = 0; i < NABLA_BF16_EXTREMES; i++)
    all->values[i] = floats_of(
        e, k_op(e, "arith.%s %%v%u, %%v%u : %s", extreme[i].gather, size,
                bits_of(e, all->values[i]), nabla_type_i32[NABLA_VECTOR]));
}

nabla_ssa nabla_emit_bf16_is_beyond(nabla_emitter *e,
                                    const nabla_bf16_extremes *all,
                                    nabla_bf16_extreme which, uint32_t limit) {
  return k_op(e, "arith.cmpi %s, %%v%u, %%v%u : i32", extreme[which].is_beyond,
              k_op(e, "vector.reduction <%s>, %%v%u : %s into i32",
                   extreme[which].gather, bits_of(e, all->values[which]),
                   nabla_type_i32[NABLA_VECTOR]),
              k_i32(e, NABLA_SCALAR, limit - 1));
}

void nabla_emit_bf16_mark_extremes(nabla_emitter *e, nabla_ssa first,
                                   const nabla_bf16_extremes *all) {
  nabla_ssa small =
      nabla_emit_bf16_is_beyond(e, all, NABLA_BF16_LEAST, NABLA_BF16_TINY_BITS);
  nabla_ssa large =
      nabla_emit_bf16_is_beyond(e, all, NABLA_BF16_MOST, NABLA_BF16_LIMIT_BITS);
  k_line(e, "scf.if %%v%u {",
         k_op(e, "arith.ori %%v%u, %%v%u : i1", small, large));
  k_store(e, "i32", k_i32(e, NABLA_SCALAR, NAN_PAIR), first, k_i64(e, 0), 4);
  k_line(e, "}");
}
