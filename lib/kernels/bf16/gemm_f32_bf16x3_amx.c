/* Products in f32 by AMX, which multiplies bf16: both operands are split into
 * parts (bf16.h) and those products of parts are added that an f32 would tell.
 * Left out are those of the second with the third parts and of both third ones:
 * less than 2^-8 * 2^-15 + 2^-17 * 2^-7 + 2^-32 < 3.01 * 2^-24 of a product,
 * where w is cut and x is rounded.
 *
 * AMX takes subnormals for zeros, and products of parts may be subnormal where
 * the whole is not. With x up to 2^30, and weights as well (some 2^32) or
 * codes and scales up to 2^16, this costs a sum at most K * 2^-93, nothing that
 * its bound would tell beside a sum of 2^-60 or more. What cannot be told so is
 * computed again, in f32, by a kernel of its own: rows of x with elements that
 * are larger, columns with such weights or scales, or with those below 2^-60
 * (they, and the 15 beside them that are decoded together, are NaN in the
 * sums), sums near zero, and sums of zero where the row of x has elements below
 * 2^-40: with none on either side no product is lost. Where weights are made
 * from a table and a scale, scales that are too large make 32 columns NaN, and
 * sums begin at 2^-86 if some weights may be below 2^-60: only sums of 2^-62
 * and more lose that, so that all that are near zero show. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/ggml.h"

#define LEAST_BITS    NABLA_BF16_TINY_BITS /* of sums, as of weights: 2^-60 */
#define SMALL_BITS    0x2b800000u          /* 2^-40 */
#define INFINITY_BITS 0x7f800000u

#define ARGS_BYTES ((uint64_t)NABLA_KERNEL_ARGS * 8)

/* ---- sums that are computed again -----------------------------------------
 */

static nabla_ssa any(nabla_emitter *e, nabla_ssa lanes) {
  return k_op(e, "vector.reduction <or>, %%v%u : vector<16xi1> into i1", lanes);
}

/* `found` or'ed with the sizes of elements of x that are small and not zero, as
 * bits that f32 hold: loops carry those. */
static nabla_ssa add_small(nabla_emitter *e, nabla_ssa found, nabla_ssa x) {
  const char *type = nabla_type_i32[NABLA_VECTOR];
  const char *floats = nabla_type_f32[NABLA_VECTOR];
  nabla_ssa size = k_size_bits(e, NABLA_VECTOR, x);
  nabla_ssa small = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : %s", size,
                         k_i32(e, NABLA_VECTOR, SMALL_BITS), type);
  size = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, %s", small,
              size, k_i32(e, NABLA_VECTOR, 0), type);
  size = k_op(e, "arith.ori %%v%u, %%v%u : %s", size,
              k_bitcast(e, floats, type, found), type);
  return k_bitcast(e, type, floats, size);
}

/* Lanes of `bits` that are not 0. */
static nabla_ssa not_zero(nabla_emitter *e, nabla_ssa bits) {
  return k_op(e, "arith.cmpi ne, %%v%u, %%v%u : vector<16xi32>", bits,
              k_i32(e, NABLA_VECTOR, 0));
}

/* Whether row `row` of x has small elements, i1. */
static nabla_ssa row_has_small(nabla_emitter *e, nabla_ssa row) {
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  nabla_array_ref x = {0, spec->x_type};
  nabla_loop loop;
  nabla_emit_tile_rows(e, row, 1, &x.base);
  nabla_ssa whole = spec->any_size ? e->k : k_i64(e, spec->k - rest);
  nabla_ssa bits = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &loop, k_i64(e, 0), whole, NABLA_LANES, 1, &bits);
  bits = add_small(e, loop.carried[0],
                   k_read_lanes(e, x, loop.induction, NABLA_LANES));
  k_loop_end(e, &loop, &bits);
  bits = loop.results[0];
  if (rest) bits = add_small(e, bits, k_read_lanes(e, x, whole, rest));
  nabla_ssa integers = k_bitcast(e, nabla_type_f32[NABLA_VECTOR],
                                 nabla_type_i32[NABLA_VECTOR], bits);
  return any(e, not_zero(e, integers));
}

/* Lanes of such magnitudes that are below LEAST, infinite or NaN: differences
 * below 0 wrap. */
static nabla_ssa is_near_or_not_finite(nabla_emitter *e, nabla_ssa size) {
  const char *type = nabla_type_i32[NABLA_VECTOR];
  nabla_ssa above = k_op(e, "arith.subi %%v%u, %%v%u : %s", size,
                         k_i32(e, NABLA_VECTOR, LEAST_BITS), type);
  return k_op(e, "arith.cmpi uge, %%v%u, %%v%u : %s", above,
              k_i32(e, NABLA_VECTOR, INFINITY_BITS - LEAST_BITS), type);
}

/* Whether the sums of row `row`, 16 lanes, have to be computed again, i1. */
static nabla_ssa is_open(nabla_emitter *e, nabla_ssa sums, nabla_ssa row) {
  nabla_ssa size = k_size_bits(e, NABLA_VECTOR, sums);
  nabla_ssa near = is_near_or_not_finite(e, size);
  nabla_ssa some = any(e, near), open = ++e->last;
  k_line(e, "%%v%u = scf.if %%v%u -> (i1) {", open, some);
  nabla_ssa sure = any(e, k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi1>",
                               near, not_zero(e, size)));
  nabla_ssa inner = ++e->last;
  k_line(e, "%%v%u = scf.if %%v%u -> (i1) {", inner, sure);
  k_line(e, "scf.yield %%v%u : i1", sure);
  k_line(e, "} else {");
  k_line(e, "scf.yield %%v%u : i1", row_has_small(e, row));
  k_line(e, "}");
  k_line(e, "scf.yield %%v%u : i1", inner);
  k_line(e, "} else {");
  k_line(e, "scf.yield %%v%u : i1", some);
  k_line(e, "}");
  return open;
}

static uint64_t args_at(const nabla_fused_spec *spec) {
  const nabla_macro_kernel macro = nabla_bf16_macro_kernel(spec);
  return nabla_macro_kernel_scratch(&macro) + NABLA_BF16_MORE_BYTES;
}

static void set_arg(nabla_emitter *e, nabla_ssa args, uint64_t arg,
                    nabla_ssa value) {
  k_store(e, "i64", value, args, k_i64(e, arg * 8), 8);
}

/* The address in `base` of row `row` of `columns` elements. */
static nabla_ssa row_at(nabla_emitter *e, nabla_ssa base, nabla_ssa row,
                        nabla_ssa columns, nabla_dtype dtype) {
  nabla_ssa at = k_address(
      e, base,
      k_multiply(e, k_product(e, row, columns), nabla_dtype_bits(dtype) / 8));
  return k_op(e, "llvm.ptrtoint %%v%u : !llvm.ptr to i64", at);
}

/* Calls the exact kernel for one row: a copy of the arguments with that row as
 * all of x and y. */
static void compute_again(nabla_emitter *e, nabla_ssa row, nabla_ssa column,
                          nabla_ssa count) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t arg = NABLA_ARG_EPILOGUE;
  nabla_ssa args = k_address(e, e->scratch, k_i64(e, args_at(spec)));
  k_line(e,
         "\"llvm.intr.memcpy\"(%%v%u, %%args, %%v%u) <{isVolatile = "
         "false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()",
         args, k_i64(e, ARGS_BYTES));
  set_arg(e, args, NABLA_ARG_X, row_at(e, e->x, row, e->k, spec->x_type));
  set_arg(e, args, NABLA_ARG_Y, row_at(e, e->y, row, e->n, spec->y_type));
  set_arg(e, args, NABLA_ARG_M, k_i64(e, 1));
  for (uint32_t i = 0; i < spec->step_count; i++) {
    if (spec->steps[i] == NABLA_STEP_ADD)
      set_arg(e, args, arg, row_at(e, e->operands[i], row, e->n, spec->y_type));
    arg += e->operands[i] != 0;
  }
  k_line(e,
         "llvm.call @%s_exact(%%v%u, %%v%u, %%v%u) : (!llvm.ptr, i64, "
         "i64) -> ()",
         e->name, args, column, k_add(e, column, count));
}

static void finish(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                   nabla_ssa column, nabla_ssa count) {
  nabla_ssa open = is_open(
      e, k_read_lanes(e, nabla_floats_at(sums), k_i64(e, 0), NABLA_LANES), row);
  k_line(e, "scf.if %%v%u {", open);
  compute_again(e, row, column, count);
  k_line(e, "} else {");
  nabla_emit_finish_row(e, sums, row, column, count);
  k_line(e, "}");
}

/* ---- the variant
 * -------------------------------------------------------------
 */

static void run(nabla_emitter *e) {
  nabla_macro_kernel macro = nabla_bf16_macro_kernel(e->spec);
  macro.finish = finish;
  nabla_emit_bf16_amx(e, &macro);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) && spec->m_min > 1 &&
         nabla_bf16_applies(spec, NABLA_NUMERICS_F32);
}

/* Cost of packing: little for codes that are exact in bf16, most for f32 that
 * are dequantized and then split. Dense weights are bound by memory in any
 * case. */
static double decode_cost(const nabla_fused_spec *spec) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  if (self.run && spec->w.ggml) {
    const nabla_ggml_layout *l = spec->w.ggml->layout;
    if (!l->run) return 90; /* bytes */
    if (nabla_bf16_by_units(spec))
      return l->sub == NABLA_GGML_SUB_BYTES ? 200 : 170;
    if (l->sub == NABLA_GGML_SUB_BYTES) return 560;
    return (l->sub ? 170 : 125) + (l->bits ? 100 : 0);
  }
  if (self.is_ahead) return 95;
  if (self.run)
    return spec->w.format.encoding->bits < 4 && !nabla_bf16_by_lines(spec) ? 160
                                                                           : 95;
  if (spec->w.kind == NABLA_STORAGE_DENSE) return 60;
  if (self.w_parts == 1) return 160;
  if (nabla_bf16_by_lines(spec)) return 170;
  return !spec->w.ggml && spec->w.format.encoding->bits == 8 ? 330 : 560;
}

/* Numerics that allow more error get the same computation. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  nabla_fused_spec own = *spec;
  own.numerics = NABLA_NUMERICS_F32;
  const nabla_bf16 self = nabla_bf16_of(&own);
  double products = nabla_bf16_products(&self);
  double row = self.run ? products + 1 : .8 * products;
  /* runs of a step that go to a panel's sums first, as K may be large */
  const double twice =
      spec->any_size && self.run == NABLA_BF16_STEP && !self.adds_runs ? 60 : 0;
  return nabla_bf16_cost(&own, m, decode_cost(&own) + twice, row);
}

/* The chain: the products of all tiles of a run, each a sum of 16 pairs; two
 * multiplications; the runs of `depth` elements; the panels. */
static uint64_t chain_of(const nabla_fused_spec *spec, uint64_t depth) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  uint64_t run = self.run ? self.run : depth;
  uint64_t added = self.adds_runs ? run : depth;
  uint64_t panels = (spec->k + added - 1) / added;
  uint64_t count = spec->k < run ? spec->k : run;
  uint64_t steps = (count + NABLA_BF16_STEP - 1) / NABLA_BF16_STEP;
  uint64_t tiles = steps * nabla_bf16_products(&self) + NABLA_TILE_ROWS + 2 +
                   depth / run + 2 + panels;
  if (self.w_parts > 1)
    tiles += 4; /* products of cut parts that are left out */
  /* the sum of 32 of x, and a multiplication for each run */
  if (self.has_minima) tiles += 6 + (self.adds_runs ? panels : depth / run);
  return tiles;
}

static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  uint64_t tiles =
      chain_of(spec, self.is_ahead ? NABLA_BF16_SUM_DEPTH : self.depth);
  const uint64_t staying = chain_of(spec, NABLA_BF16_SUM_DEPTH);
  if (self.stays && staying > tiles) tiles = staying;
  nabla_fused_spec exact = nabla_fused_exact(spec);
  uint64_t again = nabla_fused_accumulation_depth(&exact);
  return tiles > again ? tiles : again;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  return args_at(spec) + ARGS_BYTES;
}

const nabla_kernel_variant nabla_variant_gemm_f32_bf16x3_amx = {
    .name = "gemm_f32_bf16x3_amx",
    .instruction = "tdpbf16ps",
    NABLA_BF16_VARIANT,
    .dedicated_max_m = NABLA_TILE_ROWS / 2,
    .has_exact = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
