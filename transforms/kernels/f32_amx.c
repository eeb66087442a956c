/* Products in f32 by AMX, which multiplies bf16: both operands are split into
 * parts (bf16.h) and those products of parts are added that an f32 would tell.
 *
 * AMX takes subnormals for zeros, and products of parts may be subnormal where
 * the whole is not. With x up to 2^30, and weights as well (some 2^32) or
 * codes and scales up to 2^16, this costs a sum at most K * 2^-93, nothing that
 * its bound would tell beside a sum of 2^-60 or more. What cannot be told so is
 * computed again, in f32, by a kernel of its own: rows of x with elements that
 * are larger, columns with such weights or scales, or with those below 2^-60
 * (all are NaN in the sums), sums near zero, and sums of zero where the row of
 * x has elements below 2^-40: with none on either side no product is lost. */
#include "quant/ggml.h"
#include "transforms/kernels/bf16.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"

#define LEAST_BITS    0x21800000u /* 2^-60 */
#define TINY_BITS     0x2b800000u /* 2^-40 */
#define INFINITY_BITS 0x7f800000u

#define WORDS_BYTES ((uint64_t)NABLA_FUSED_WORDS * 8)

/* ---- sums that are computed again -----------------------------------------
 */

static nabla_ssa compare(nabla_emitter *emitter, const char *how, nabla_ssa a,
                         double b) {
  nabla_ssa limit = nabla_emit_f32(emitter, NABLA_VECTOR, b);
  return nabla_emit(emitter, "arith.cmpf %s, %%v%u, %%v%u : vector<16xf32>",
                    how, a, limit);
}

static nabla_ssa both(nabla_emitter *emitter, nabla_ssa a, nabla_ssa b) {
  return nabla_emit(emitter, "arith.andi %%v%u, %%v%u : vector<16xi1>", a, b);
}

static nabla_ssa any(nabla_emitter *emitter, nabla_ssa lanes) {
  return nabla_emit(
      emitter, "vector.reduction <or>, %%v%u : vector<16xi1> into i1", lanes);
}

/* `found` or'ed with the elements of x that are tiny and not zero, as bits that
 * f32 hold: loops carry those. */
static nabla_ssa add_tiny(nabla_emitter *emitter, nabla_ssa found,
                          nabla_ssa x) {
  const char *type = nabla_type_i32[NABLA_VECTOR];
  const char *floats = nabla_type_f32[NABLA_VECTOR];
  nabla_ssa bits = nabla_emit_bitcast(emitter, floats, type, x);
  bits = nabla_emit(emitter, "arith.andi %%v%u, %%v%u : %s", bits,
                    nabla_emit_i32(emitter, NABLA_VECTOR, 0x7fffffffu), type);
  nabla_ssa tiny =
      nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : %s", bits,
                 nabla_emit_i32(emitter, NABLA_VECTOR, TINY_BITS), type);
  bits = nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, %s",
                    tiny, bits, nabla_emit_i32(emitter, NABLA_VECTOR, 0), type);
  bits = nabla_emit(emitter, "arith.ori %%v%u, %%v%u : %s", bits,
                    nabla_emit_bitcast(emitter, floats, type, found), type);
  return nabla_emit_bitcast(emitter, type, floats, bits);
}

/* Whether row `row` of x has tiny elements, i1. */
static nabla_ssa row_has_tiny(nabla_emitter *emitter, nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned rest = (unsigned)(spec->k % NABLA_LANES);
  nabla_array_ref x = {0, spec->x_type};
  nabla_loop loop;
  nabla_emit_tile_rows(emitter, row, 1, &x.base);
  nabla_ssa whole = nabla_emit_i64(emitter, spec->k - rest);
  nabla_ssa bits = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), whole,
                   NABLA_LANES, 1, &bits);
  bits =
      add_tiny(emitter, loop.carried[0],
               nabla_emit_read_lanes(emitter, x, loop.induction, NABLA_LANES));
  nabla_loop_end(emitter, &loop, &bits);
  bits = loop.results[0];
  if (rest)
    bits =
        add_tiny(emitter, bits, nabla_emit_read_lanes(emitter, x, whole, rest));
  nabla_ssa integers = nabla_emit_bitcast(emitter, nabla_type_f32[NABLA_VECTOR],
                                          nabla_type_i32[NABLA_VECTOR], bits);
  return any(emitter,
             nabla_emit(emitter, "arith.cmpi ne, %%v%u, %%v%u : vector<16xi32>",
                        integers, nabla_emit_i32(emitter, NABLA_VECTOR, 0)));
}

/* Lanes that are below LEAST, infinite or NaN: sizes compare as bits, and what
 * is below 0 wraps. */
static nabla_ssa is_near_or_not_finite(nabla_emitter *emitter, nabla_ssa sums) {
  const char *type = nabla_type_i32[NABLA_VECTOR];
  nabla_ssa bits =
      nabla_emit_bitcast(emitter, nabla_type_f32[NABLA_VECTOR], type, sums);
  bits = nabla_emit(emitter, "arith.andi %%v%u, %%v%u : %s", bits,
                    nabla_emit_i32(emitter, NABLA_VECTOR, 0x7fffffffu), type);
  bits = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : %s", bits,
                    nabla_emit_i32(emitter, NABLA_VECTOR, LEAST_BITS), type);
  return nabla_emit(
      emitter, "arith.cmpi uge, %%v%u, %%v%u : %s", bits,
      nabla_emit_i32(emitter, NABLA_VECTOR, INFINITY_BITS - LEAST_BITS), type);
}

/* Whether the sums of row `row`, 16 lanes, have to be computed again, i1. */
static nabla_ssa is_open(nabla_emitter *emitter, nabla_ssa sums,
                         nabla_ssa row) {
  nabla_ssa near = is_near_or_not_finite(emitter, sums);
  nabla_ssa some = any(emitter, near), open = ++emitter->last;
  nabla_emit_line(emitter, "%%v%u = scf.if %%v%u -> (i1) {", open, some);
  nabla_ssa not_zero =
      any(emitter, both(emitter, near, compare(emitter, "une", sums, 0)));
  nabla_ssa inner = ++emitter->last;
  nabla_emit_line(emitter, "%%v%u = scf.if %%v%u -> (i1) {", inner, not_zero);
  nabla_emit_line(emitter, "scf.yield %%v%u : i1", not_zero);
  nabla_emit_line(emitter, "} else {");
  nabla_emit_line(emitter, "scf.yield %%v%u : i1", row_has_tiny(emitter, row));
  nabla_emit_line(emitter, "}");
  nabla_emit_line(emitter, "scf.yield %%v%u : i1", inner);
  nabla_emit_line(emitter, "} else {");
  nabla_emit_line(emitter, "scf.yield %%v%u : i1", some);
  nabla_emit_line(emitter, "}");
  return open;
}

static uint64_t words_at(const nabla_fused_spec *spec) {
  const nabla_tiled tiled = nabla_bf16_tiled(spec);
  return nabla_tiled_scratch(&tiled) + NABLA_BF16_MORE_BYTES;
}

static void set_word(nabla_emitter *emitter, nabla_ssa words, uint64_t word,
                     nabla_ssa value) {
  nabla_emit_store(emitter, "i64", value, words,
                   nabla_emit_i64(emitter, word * 8), 8);
}

/* The address in `base` of row `row` of `columns` elements. */
static nabla_ssa row_at(nabla_emitter *emitter, nabla_ssa base, nabla_ssa row,
                        nabla_ssa columns, nabla_dtype dtype) {
  nabla_ssa at = nabla_emit_address(
      emitter, base,
      nabla_emit_multiply(emitter, nabla_emit_product(emitter, row, columns),
                          nabla_dtype_bits(dtype) / 8));
  return nabla_emit(emitter, "llvm.ptrtoint %%v%u : !llvm.ptr to i64", at);
}

/* The exact kernel for one row: the words with that row as all of x and y. */
static void compute_again(nabla_emitter *emitter, nabla_ssa row,
                          nabla_ssa column, nabla_ssa count) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t word = NABLA_FUSED_EPILOGUE;
  nabla_ssa words = nabla_emit_address(emitter, emitter->scratch,
                                       nabla_emit_i64(emitter, words_at(spec)));
  nabla_emit_line(emitter,
                  "\"llvm.intr.memcpy\"(%%v%u, %%args, %%v%u) <{isVolatile = "
                  "false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()",
                  words, nabla_emit_i64(emitter, WORDS_BYTES));
  set_word(emitter, words, NABLA_FUSED_X,
           row_at(emitter, emitter->x, row, emitter->k, spec->x_type));
  set_word(emitter, words, NABLA_FUSED_Y,
           row_at(emitter, emitter->y, row, emitter->n, spec->y_type));
  set_word(emitter, words, NABLA_FUSED_M, nabla_emit_i64(emitter, 1));
  for (uint32_t i = 0; i < spec->step_count; i++) {
    if (spec->steps[i] == NABLA_STEP_ADD)
      set_word(
          emitter, words, word,
          row_at(emitter, emitter->operands[i], row, emitter->n, spec->y_type));
    word += emitter->operands[i] != 0;
  }
  nabla_emit_line(emitter,
                  "llvm.call @%s_exact(%%v%u, %%v%u, %%v%u) : (!llvm.ptr, i64, "
                  "i64) -> ()",
                  emitter->name, words, column,
                  nabla_emit_add(emitter, column, count));
}

static void finish(nabla_emitter *emitter, nabla_ssa sums, nabla_ssa row,
                   nabla_ssa column, nabla_ssa count) {
  nabla_ssa open =
      is_open(emitter,
              nabla_emit_read_lanes(emitter, nabla_floats_at(sums),
                                    nabla_emit_i64(emitter, 0), NABLA_LANES),
              row);
  nabla_emit_line(emitter, "scf.if %%v%u {", open);
  compute_again(emitter, row, column, count);
  nabla_emit_line(emitter, "} else {");
  nabla_emit_finish_row(emitter, sums, row, column, count);
  nabla_emit_line(emitter, "}");
}

/* ---- the body -------------------------------------------------------------
 */

static void run(nabla_emitter *emitter) {
  nabla_tiled tiled = nabla_bf16_tiled(emitter->spec);
  tiled.finish = finish;
  nabla_emit_bf16_amx(emitter, &tiled);
}

static int applies(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) && !spec->any_size &&
         nabla_bf16_applies(spec, NABLA_NUMERICS_F32);
}

/* What decoding costs: codes that are bf16 little, splitting f32 that have to
 * be decoded more than all else. Dense ones wait for memory in any case. */
static double decode_cost(const nabla_fused_spec *spec) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  if (self.run && spec->ggml) {
    const nabla_ggml_layout *l = spec->ggml->layout;
    if (!l->run) return 90; /* bytes */
    return (l->sub ? 170 : 125) + (l->bits ? 100 : 0);
  }
  if (self.run) return spec->format.encoding->bits < 4 ? 160 : 95;
  if (!spec->ggml && !spec->format.encoding) return 60;
  if (self.w_parts == 1) return 160;
  if (nabla_bf16_by_lines(spec)) return 170;
  return !spec->ggml && spec->format.encoding->bits == 8 ? 330 : 560;
}

/* What is computed is the same where numerics that allow more ask. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  nabla_fused_spec own = *spec;
  own.numerics = NABLA_NUMERICS_F32;
  const nabla_bf16 self = nabla_bf16_of(&own);
  double products = nabla_bf16_products(&self);
  double row = self.run ? products + 1 : .8 * products;
  return nabla_bf16_cost(&own, m, decode_cost(&own), row);
}

/* Of a run the products of all tiles in turn, each a sum of 16 pairs; then two
 * multiplications, the runs of a panel, and the panels. */
static uint64_t chain(const nabla_fused_spec *spec) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  uint64_t run = self.run ? self.run : self.depth;
  uint64_t added = self.adds_runs ? run : self.depth;
  uint64_t panels = (spec->k + added - 1) / added;
  uint64_t count = spec->k < run ? spec->k : run;
  uint64_t steps = (count + NABLA_BF16_STEP - 1) / NABLA_BF16_STEP;
  uint64_t tiles = steps * nabla_bf16_products(&self) + NABLA_TILE_ROWS + 2 +
                   self.depth / run + 2 + panels;
  if (self.w_parts > 1)
    tiles += 4; /* products of cut parts that are left out */
  /* the sum of 32 of x, and a multiplication for each run */
  if (self.has_minima)
    tiles += 6 + (self.adds_runs ? panels : self.depth / run);
  nabla_fused_spec exact = nabla_fused_exact(spec);
  uint64_t again = nabla_fused_chain(&exact);
  return tiles > again ? tiles : again;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  return words_at(spec) + WORDS_BYTES;
}

const nabla_body nabla_body_f32_amx = {.name = "f32_amx",
                                       .instruction = "tdpbf16ps",
                                       NABLA_BF16_BODY,
                                       .has_exact = 1,
                                       .applies = applies,
                                       .cost = cost,
                                       .run = run,
                                       .chain = chain,
                                       .scratch = scratch};
