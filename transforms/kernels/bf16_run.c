/* y = x . w in bf16 pairs for many rows of x: panels of 32 rows of w and up to
 * 512 elements of k are decoded to the scratch, where they stay in the first
 * cache, and multiplied with all rows of x whose sums wait: tiles of 32 x 32.
 * Two bodies that differ in how tiles are multiplied: by AMX, or by vdpbf16ps
 * with columns of x in lanes. */
#include "transforms/kernels/bf16.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"
#include "transforms/kernels/transpose.h"

#define ROWS    NABLA_TILE_ROWS
#define WAITING 256u /* rows of x whose sums wait */
#define HALVES  (NABLA_BF16_ROWS / ROWS)
#define AT_ONCE 2u /* tiles of x */

/* The scratch: what AMX is set up with, the panel, a tile of sums for each tile
 * of x and half of the panel. */
#define PANEL_AT  64u
#define TOTALS_AT (PANEL_AT + HALVES * NABLA_BF16_HALF)
#define TOTALS    ((uint64_t)WAITING / ROWS * HALVES * NABLA_TILE_BYTES)

static nabla_ssa part(nabla_emitter *emitter, uint64_t byte) {
  return nabla_emit_address(emitter, emitter->scratch,
                            nabla_emit_i64(emitter, byte));
}

/* Rows of x and of w, and elements of k, that are multiplied. */
typedef struct block {
  nabla_ssa row, rows;       /* of x: the first, and how many sums wait     */
  nabla_ssa tiles;           /* of x                                        */
  nabla_ssa column, columns; /* rows of w                             */
  nabla_ssa k, steps;        /* the first element, and the tiles from there */
} block;

/* What is multiplied at once: addresses of the tiles of sums (those of a tile
 * of x follow each other), of the first tile of each tile of x, and how many
 * of these. */
typedef struct square {
  nabla_ssa sums, x[AT_ONCE];
  unsigned count;
} square;

typedef void multiplier(nabla_emitter *emitter, const block *b,
                        const square *s);

/* ---- by AMX ---------------------------------------------------------------
 */

/* Numbers of tiles. */
static unsigned sum_tile(unsigned i, unsigned half) {
  return i * HALVES + half;
}
#define W_TILE (AT_ONCE * HALVES)
#define X_TILE (W_TILE + HALVES)

static void each_sum(nabla_emitter *emitter, const square *s,
                     void (*move)(nabla_emitter *, unsigned, nabla_ssa,
                                  nabla_ssa)) {
  for (unsigned i = 0; i < s->count * HALVES; i++)
    move(emitter, sum_tile(i / HALVES, i % HALVES), s->sums,
         nabla_emit_i64(emitter, (uint64_t)i * NABLA_TILE_BYTES));
}

static void multiply_amx(nabla_emitter *emitter, const block *b,
                         const square *s) {
  nabla_loop steps;
  nabla_ssa panel = part(emitter, PANEL_AT);
  each_sum(emitter, s, nabla_emit_tile_load);
  nabla_loop_begin(emitter, &steps, nabla_emit_i64(emitter, 0), b->steps, 1, 0,
                   NULL);
  nabla_ssa at =
      nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  for (unsigned h = 0; h < HALVES; h++)
    nabla_emit_tile_load(
        emitter, W_TILE + h, panel,
        nabla_emit_add_constant(emitter, at, h * NABLA_BF16_HALF));
  for (unsigned i = 0; i < s->count; i++) {
    nabla_emit_tile_load(emitter, X_TILE + i, s->x[i], at);
    for (unsigned h = 0; h < HALVES; h++)
      nabla_emit_tile_dot(emitter, "tdpbf16ps", sum_tile(i, h), W_TILE + h,
                          X_TILE + i);
  }
  nabla_loop_end(emitter, &steps, NULL);
  each_sum(emitter, s, nabla_emit_tile_store);
}

/* ---- by vdpbf16ps ---------------------------------------------------------
 */

#define DOT_ROWS 8u /* rows of w whose sums are in registers */
#define UNROLL   4u /* pairs */

static nabla_ssa pairs_type(nabla_emitter *emitter, nabla_ssa words) {
  return nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<32xbf16>",
                            words);
}

/* UNROLL pairs from pair `pair` on of a tile of rows of w at `w` and of each
 * tile of x at `x`. */
static void dot_pairs(nabla_emitter *emitter, const square *s, nabla_ssa w,
                      const nabla_ssa *x, nabla_ssa pair, nabla_ssa *sums) {
  nabla_ssa dword = nabla_emit_multiply(emitter, pair, 4), columns[AT_ONCE];
  nabla_ssa row = nabla_emit_multiply(emitter, pair, NABLA_TILE_ROW_BYTES);
  for (unsigned p = 0; p < UNROLL; p++) {
    for (unsigned i = 0; i < s->count; i++)
      columns[i] = pairs_type(
          emitter,
          nabla_emit_load(emitter, "vector<16xi32>", x[i],
                          nabla_emit_add_constant(
                              emitter, row, (uint64_t)p * NABLA_TILE_ROW_BYTES),
                          64));
    for (unsigned r = 0; r < DOT_ROWS; r++) {
      nabla_ssa at = nabla_emit_add_constant(
          emitter, dword, (uint64_t)r * NABLA_TILE_ROW_BYTES + (uint64_t)p * 4);
      nabla_ssa one =
          pairs_type(emitter, nabla_emit_int8_spread(emitter, "i32", w, at));
      for (unsigned i = 0; i < s->count; i++) {
        nabla_ssa *sum = &sums[r * s->count + i];
        *sum = nabla_emit(
            emitter,
            "llvm.call_intrinsic \"llvm.x86.avx512bf16.dpbf16ps.512\"(%%v%u, "
            "%%v%u, %%v%u) : (vector<16xf32>, vector<32xbf16>, "
            "vector<32xbf16>) -> vector<16xf32>",
            *sum, one, columns[i]);
      }
    }
  }
}

/* DOT_ROWS rows of w, whose panel is at `panel` and whose sums are at `sums`.
 */
static void dot_rows(nabla_emitter *emitter, const block *b, const square *s,
                     nabla_ssa panel, nabla_ssa sums) {
  unsigned count = DOT_ROWS * s->count;
  nabla_ssa values[DOT_ROWS * AT_ONCE], x[AT_ONCE];
  nabla_array_ref totals = nabla_floats_at(sums);
  nabla_loop steps, pairs;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile = (uint64_t)(i % s->count) * HALVES * NABLA_TILE_BYTES;
    values[i] = nabla_emit_read_lanes(
        emitter, totals,
        nabla_emit_i64(emitter, tile / 4 + (uint64_t)(i / s->count) * ROWS),
        NABLA_LANES);
  }
  nabla_loop_begin(emitter, &steps, zero, b->steps, 1, count, values);
  nabla_ssa at =
      nabla_emit_multiply(emitter, steps.induction, NABLA_TILE_BYTES);
  nabla_ssa w = nabla_emit_address(emitter, panel, at);
  for (unsigned i = 0; i < s->count; i++)
    x[i] = nabla_emit_address(emitter, s->x[i], at);
  nabla_loop_begin(emitter, &pairs, zero, nabla_emit_i64(emitter, ROWS), UNROLL,
                   count, steps.carried);
  for (unsigned i = 0; i < count; i++) values[i] = pairs.carried[i];
  dot_pairs(emitter, s, w, x, pairs.induction, values);
  nabla_loop_end(emitter, &pairs, values);
  nabla_loop_end(emitter, &steps, pairs.results);
  for (unsigned i = 0; i < count; i++) {
    uint64_t tile = (uint64_t)(i % s->count) * HALVES * NABLA_TILE_BYTES;
    nabla_emit_write_lanes(
        emitter, totals,
        nabla_emit_i64(emitter, tile / 4 + (uint64_t)(i / s->count) * ROWS),
        steps.results[i]);
  }
}

static void multiply_dots(nabla_emitter *emitter, const block *b,
                          const square *s) {
  nabla_loop parts;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &parts, zero,
                   nabla_emit_i64(emitter, NABLA_BF16_ROWS), DOT_ROWS, 0, NULL);
  nabla_ssa half = nabla_emit_divide(emitter, parts.induction, ROWS);
  nabla_ssa row =
      nabla_emit_multiply(emitter, parts.induction, NABLA_TILE_ROW_BYTES);
  nabla_ssa skip =
      nabla_emit_multiply(emitter, half, NABLA_BF16_HALF - NABLA_TILE_BYTES);
  dot_rows(emitter, b, s,
           nabla_emit_address(emitter, part(emitter, PANEL_AT),
                              nabla_emit_add(emitter, row, skip)),
           nabla_emit_address(emitter, s->sums, row));
  nabla_loop_end(emitter, &parts, NULL);
}

/* ---- from sums to y -------------------------------------------------------
 */

static void clear_totals(nabla_emitter *emitter, const block *b) {
  nabla_array_ref totals = nabla_floats_at(part(emitter, TOTALS_AT));
  nabla_loop loop;
  nabla_loop_begin(
      emitter, &loop, nabla_emit_i64(emitter, 0),
      nabla_emit_multiply(emitter, b->tiles, HALVES * NABLA_TILE_BYTES / 4),
      NABLA_LANES, 0, NULL);
  nabla_emit_write_lanes(emitter, totals, loop.induction,
                         nabla_emit_f32(emitter, NABLA_VECTOR, 0));
  nabla_loop_end(emitter, &loop, NULL);
}

/* Turns the tile of sums at address `tile`, which then has rows of y. */
static void turn(nabla_emitter *emitter, nabla_ssa tile) {
  nabla_array_ref sums = nabla_floats_at(tile);
  nabla_ssa v[ROWS];
  for (unsigned i = 0; i < ROWS; i++)
    v[i] = nabla_emit_read_lanes(
        emitter, sums, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
        NABLA_LANES);
  nabla_emit_transpose(emitter, "f32", v);
  for (unsigned i = 0; i < ROWS; i++)
    nabla_emit_write_lanes(emitter, sums,
                           nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
                           v[i]);
}

static void write_block(nabla_emitter *emitter, const block *b) {
  nabla_loop tiles, halves, rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &tiles, zero, b->rows, ROWS, 0, NULL);
  nabla_loop_begin(emitter, &halves, zero, b->columns, ROWS, 0, NULL);
  /* both count in 16: 2 KiB for 16 rows of x, 1 KiB for 16 columns */
  nabla_ssa at = nabla_emit_add(
      emitter,
      nabla_emit_multiply(emitter, tiles.induction,
                          HALVES * NABLA_TILE_BYTES / ROWS),
      nabla_emit_multiply(emitter, halves.induction, NABLA_TILE_BYTES / ROWS));
  nabla_ssa tile = nabla_emit_address(emitter, part(emitter, TOTALS_AT), at);
  turn(emitter, tile);
  nabla_ssa width =
      nabla_emit_left(emitter, b->columns, halves.induction, ROWS);
  nabla_loop_begin(emitter, &rows, zero,
                   nabla_emit_left(emitter, b->rows, tiles.induction, ROWS), 1,
                   0, NULL);
  nabla_ssa row =
      nabla_emit_add(emitter, nabla_emit_add(emitter, b->row, tiles.induction),
                     rows.induction);
  nabla_emit_int8_finish(
      emitter,
      nabla_emit_address(
          emitter, tile,
          nabla_emit_multiply(emitter, rows.induction, NABLA_TILE_ROW_BYTES)),
      row, nabla_emit_add(emitter, b->column, halves.induction), width);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &halves, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* ---- all of it ------------------------------------------------------------
 */

/* Multiplies `count` tiles of x from tile `tile` of the block on. */
static void multiply_square(nabla_emitter *emitter, const block *b,
                            nabla_ssa tile, unsigned count,
                            multiplier *multiply) {
  square s = {.count = count};
  nabla_ssa all = nabla_emit_bf16_steps(emitter);
  nabla_ssa first = nabla_emit_divide(emitter, b->row, ROWS);
  nabla_ssa step = nabla_emit_divide(emitter, b->k, NABLA_BF16_STEP);
  s.sums = nabla_emit_address(
      emitter, part(emitter, TOTALS_AT),
      nabla_emit_multiply(emitter, tile, HALVES * NABLA_TILE_BYTES));
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = nabla_emit_add(emitter, first, tile);
    at = nabla_emit_add_constant(emitter, at, i);
    at = nabla_emit_add(emitter, nabla_emit_product(emitter, at, all), step);
    s.x[i] =
        nabla_emit_address(emitter, emitter->workspace,
                           nabla_emit_multiply(emitter, at, NABLA_TILE_BYTES));
  }
  multiply(emitter, b, &s);
}

static void multiply_panel(nabla_emitter *emitter, const block *b,
                           multiplier *multiply) {
  nabla_loop tiles;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_divide(emitter, b->tiles, AT_ONCE);
  whole = nabla_emit_multiply(emitter, whole, AT_ONCE);
  nabla_loop_begin(emitter, &tiles, zero, whole, AT_ONCE, 0, NULL);
  multiply_square(emitter, b, tiles.induction, AT_ONCE, multiply);
  nabla_loop_end(emitter, &tiles, NULL);
  nabla_loop_begin(emitter, &tiles, whole, b->tiles, 1, 0, NULL);
  multiply_square(emitter, b, tiles.induction, 1, multiply);
  nabla_loop_end(emitter, &tiles, NULL);
}

static void sum_columns(nabla_emitter *emitter, block *b,
                        multiplier *multiply) {
  nabla_loop panels;
  clear_totals(emitter, b);
  nabla_loop_begin(emitter, &panels, nabla_emit_i64(emitter, 0), emitter->k,
                   NABLA_BF16_DEPTH, 0, NULL);
  nabla_bf16_panel panel = {
      .row = b->column,
      .k = panels.induction,
      .count = nabla_emit_left(emitter, emitter->k, panels.induction,
                               NABLA_BF16_DEPTH),
      .out = part(emitter, PANEL_AT)};
  b->k = panel.k;
  b->steps = nabla_emit_divide(
      emitter,
      nabla_emit_add_constant(emitter, panel.count, NABLA_BF16_STEP - 1),
      NABLA_BF16_STEP);
  nabla_emit_bf16_panel(emitter, &panel);
  multiply_panel(emitter, b, multiply);
  nabla_loop_end(emitter, &panels, NULL);
  write_block(emitter, b);
}

static void run(nabla_emitter *emitter, multiplier *multiply) {
  block b;
  nabla_loop rows, columns;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), emitter->m,
                   WAITING, 0, NULL);
  b.row = rows.induction;
  b.rows = nabla_emit_left(emitter, emitter->m, b.row, WAITING);
  b.tiles = nabla_emit_divide(
      emitter, nabla_emit_add_constant(emitter, b.rows, ROWS - 1), ROWS);
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end,
                   NABLA_BF16_ROWS, 0, NULL);
  b.column = columns.induction;
  b.columns = nabla_emit_left(emitter, emitter->end, b.column, NABLA_BF16_ROWS);
  sum_columns(emitter, &b, multiply);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

static void run_amx(nabla_emitter *emitter) {
  nabla_emit_tiles_begin(emitter, emitter->scratch);
  run(emitter, multiply_amx);
  nabla_emit_tiles_end(emitter);
}

static void run_dots(nabla_emitter *emitter) { run(emitter, multiply_dots); }

static int applies_amx(const nabla_fused_spec *spec) {
  return NABLA_HAS(spec->features, AMX_BF16) && nabla_bf16_applies(spec);
}

/* Decoding, once for WAITING rows, and products of whole tiles. */
static double cost_of(const nabla_fused_spec *spec, uint64_t m, double row) {
  double tiles = (double)((m + ROWS - 1) / ROWS);
  double blocks = (double)((m + WAITING - 1) / WAITING);
  return blocks * (nabla_bf16_by_lines(spec) ? 40 : 100) + tiles * ROWS * row;
}

static double cost_amx(const nabla_fused_spec *spec, uint64_t m) {
  return cost_of(spec, m, .8);
}

/* Twice as fast as f32 on AMD's CPUs, half as fast on Intel's, of which those
 * that have bf16 have AVX512-FP16 too, and AMD's have not. */
static double cost_dots(const nabla_fused_spec *spec, uint64_t m) {
  return cost_of(spec, m, NABLA_HAS(spec->features, AVX512FP16) ? 22 : 5);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_BF16_ROWS;
  out->workspace =
      (nabla_kernel_tiles){ROWS, NABLA_BF16_STEP, NABLA_TILE_BYTES};
}

/* Of a tile 16 pairs in turn, then that of the next. */
static uint64_t chain(const nabla_fused_spec *spec) {
  return spec->k + NABLA_BF16_STEP;
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return TOTALS_AT + TOTALS;
}

#define BODY(id, does, is, price, what)                     \
  const nabla_body nabla_body_##id = {.name = #id,          \
                                      .takes_blocks = 1,    \
                                      .applies = (does),    \
                                      .cost = (price),      \
                                      .run = (is),          \
                                      .prepare = (what),    \
                                      .describe = describe, \
                                      .chain = chain,       \
                                      .scratch = scratch}
BODY(bf16_amx, applies_amx, run_amx, cost_amx, nabla_emit_bf16_x);
BODY(bf16_dots, nabla_bf16_applies, run_dots, cost_dots, nabla_emit_bf16_x);
#undef BODY
