/* x as tiles of bf16 pairs; see bf16.h. */
#include "transforms/kernels/bf16.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"
#include "transforms/kernels/transpose.h"

#define ROWS NABLA_TILE_ROWS

static const nabla_tiled tiled = {NABLA_BF16_TILED};

nabla_ssa nabla_emit_bf16_round(nabla_emitter *emitter, nabla_ssa low,
                                nabla_ssa high) {
  nabla_ssa both = nabla_emit(
      emitter,
      "llvm.call_intrinsic \"llvm.x86.avx512bf16.cvtne2ps2bf16.512\""
      "(%%v%u, %%v%u) : (vector<16xf32>, vector<16xf32>) -> vector<32xbf16>",
      high, low);
  return nabla_emit_bitcast(emitter, "vector<32xbf16>", "vector<32xi16>", both);
}

/* Pairs of elements that are 4 apart, in each 8. */
static unsigned pick_apart(unsigned lane, unsigned context) {
  (void)context;
  return lane / 8 * 8 + lane % 8 / 2 + (lane % 2 ? 4 : 0);
}

/* Elements [k, k + width) of a row as 16 pairs; zeros beyond the width. */
static nabla_ssa pairs_of(nabla_emitter *emitter, nabla_array_ref row,
                          nabla_ssa k, unsigned width) {
  nabla_ssa half[2];
  for (unsigned i = 0; i < 2; i++) {
    unsigned first = i * NABLA_LANES;
    unsigned left = width > first ? width - first : 0;
    half[i] =
        left ? nabla_emit_read_lanes(emitter, row,
                                     nabla_emit_add_constant(emitter, k, first),
                                     left < NABLA_LANES ? left : NABLA_LANES)
             : nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  }
  nabla_ssa words = nabla_emit_bf16_round(emitter, half[0], half[1]);
  if (nabla_bf16_by_lines(emitter->spec))
    words = nabla_emit_shuffle(emitter, "i16", NABLA_BF16_STEP, words, words,
                               NABLA_BF16_STEP, pick_apart, 0);
  return nabla_emit_bitcast(emitter, "vector<32xi16>", "vector<16xi32>", words);
}

/* Writes 32 elements of 16 rows: pair j of all rows is vector j. By lines the
 * pairs at one place of each 8 elements are neighbours, and the four 32 of a
 * line are quarters of four tiles. `base` is the address of the rows' tiles. */
static void write_step(nabla_emitter *emitter, const nabla_ssa *rows,
                       nabla_ssa base, nabla_ssa k, unsigned width) {
  const nabla_fused_spec *spec = emitter->spec;
  int lines = nabla_bf16_by_lines(spec);
  nabla_ssa v[ROWS], at;
  for (unsigned i = 0; i < ROWS; i++)
    v[i] =
        pairs_of(emitter, (nabla_array_ref){rows[i], spec->x_type}, k, width);
  nabla_emit_transpose(emitter, "i32", v);
  nabla_ssa step = nabla_emit_divide(emitter, k, NABLA_BF16_STEP);
  if (lines) {
    nabla_ssa line = nabla_emit_divide(emitter, k, NABLA_BF16_LINE);
    /* quarter * 256 + line * 4096 = step * 256 + line * (4096 - 4 * 256) */
    at = nabla_emit_add(
        emitter, nabla_emit_multiply(emitter, step, NABLA_TILE_BYTES / 4),
        nabla_emit_multiply(emitter, line, (uint64_t)3 * NABLA_TILE_BYTES));
  } else {
    at = nabla_emit_multiply(emitter, step, NABLA_TILE_BYTES);
  }
  for (unsigned j = 0; j < ROWS; j++) {
    uint64_t byte = lines ? (uint64_t)(j % 4) * NABLA_TILE_BYTES +
                                (uint64_t)(j / 4) * NABLA_TILE_ROW_BYTES
                          : (uint64_t)j * NABLA_TILE_ROW_BYTES;
    nabla_emit_store(emitter, "vector<16xi32>", v[j], base,
                     nabla_emit_add_constant(emitter, at, byte), 64);
  }
}

void nabla_emit_bf16_x(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_BF16_STEP);
  nabla_loop tiles, steps;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), rows[ROWS];
  nabla_ssa whole = nabla_emit_divide(emitter, emitter->k, NABLA_BF16_STEP);
  whole = nabla_emit_multiply(emitter, whole, NABLA_BF16_STEP);
  nabla_loop_begin(emitter, &tiles, emitter->begin, emitter->end, ROWS, 0,
                   NULL);
  nabla_emit_tile_rows(emitter, tiles.induction, ROWS, rows);
  nabla_ssa first = nabla_emit_divide(emitter, tiles.induction, ROWS);
  first = nabla_emit_product(
      emitter, first, nabla_emit_tiled_steps(emitter, &tiled, emitter->k));
  nabla_ssa base =
      nabla_emit_address(emitter, emitter->workspace,
                         nabla_emit_multiply(emitter, first, NABLA_TILE_BYTES));
  nabla_loop_begin(emitter, &steps, zero, whole, NABLA_BF16_STEP, 0, NULL);
  write_step(emitter, rows, base, steps.induction, NABLA_BF16_STEP);
  nabla_loop_end(emitter, &steps, NULL);
  if (rest) write_step(emitter, rows, base, whole, rest);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* ---- what bodies say of themselves ----------------------------------------
 */

double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double row) {
  return nabla_tiled_cost(&tiled, m, nabla_bf16_by_lines(spec) ? 25 : 60, row);
}

void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_TILED_ROWS;
  out->workspace =
      (nabla_kernel_tiles){ROWS, NABLA_BF16_STEP, NABLA_TILE_BYTES};
}

/* Of a tile 16 pairs in turn, then that of the next. */
uint64_t nabla_bf16_chain(const nabla_fused_spec *spec) {
  return spec->k + NABLA_BF16_STEP;
}

uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return nabla_tiled_scratch(&tiled);
}
