/* y = x . w in integers for few rows of x, the weight prepacked with rows in
 * lanes: each dword of x, the same for all lanes, meets 16 rows of w, which are
 * read as one stream. Sums need no tree. */
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

#define ROWS_MOST 4u

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) && self.vnni &&
         spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED;
}

static unsigned rows_of(const nabla_fused_spec *spec) {
  return nabla_spec_last_m(spec) == 1 ? 1 : ROWS_MOST;
}

/* Integer sums side by side for each row of x: a product waits for the one
 * before, some 5 cycles. */
static unsigned sums_of(unsigned rows) { return rows == 1 ? 4 : 1; }

static void prepare(nabla_emitter *emitter) {
  nabla_int8 self;
  if (nabla_int8_of(emitter->spec, &self))
    nabla_emit_int8_tiles(emitter, &self, rows_of(emitter->spec));
}

/* The group of 16 rows of w, and the rows of x. */
typedef struct group {
  const nabla_int8 *self;
  nabla_int8_packed layout;
  nabla_ssa w, x; /* addresses */
  unsigned rows;
} group;

static nabla_ssa constant_at(nabla_emitter *emitter, nabla_ssa base,
                             uint64_t byte) {
  return nabla_emit_address(emitter, base, nabla_emit_i64(emitter, byte));
}

/* The integer sums of a block of x, whose tile is at `tile`. */
static void dot_block(nabla_emitter *emitter, const group *g, nabla_ssa k,
                      nabla_ssa tile, nabla_ssa *out) {
  const nabla_int8 *self = g->self;
  unsigned dwords = (unsigned)self->block / 4 / self->parts;
  unsigned sums = sums_of(g->rows);
  nabla_ssa part[4 * ROWS_MOST] = {0}, w[NABLA_INT8_PARTS] = {0};
  nabla_ssa byte = nabla_emit_multiply(
      emitter, nabla_emit_divide(emitter, k, self->parts), NABLA_LANES);
  nabla_ssa codes = nabla_emit_address(emitter, g->w, byte);
  for (unsigned i = 0; i < sums * g->rows; i++)
    part[i] = nabla_emit_int8_zeros(emitter);
  for (unsigned r = 0; !self->has_zero && r < g->rows; r++)
    part[r * sums] = nabla_emit_int8_spread(
        emitter, "i32", tile,
        nabla_emit_i64(emitter, g->rows * (self->block + 4) + 4 * r));
  for (unsigned i = 0; i < dwords; i++) {
    nabla_ssa at = nabla_emit_i64(emitter, (uint64_t)i * NABLA_BYTES);
    nabla_emit_prefetch(
        emitter, codes,
        nabla_emit_add_constant(emitter, at, NABLA_PREFETCH_BYTES));
    nabla_emit_int8_split(
        emitter, self, nabla_emit_load(emitter, "vector<16xi32>", codes, at, 1),
        w);
    for (unsigned j = 0; j < self->parts * g->rows; j++) {
      unsigned r = j % g->rows, dword = i * self->parts + j / g->rows;
      nabla_ssa x = nabla_emit_int8_spread(
          emitter, "i32", tile,
          nabla_emit_i64(emitter, (uint64_t)4 * (dword * g->rows + r)));
      nabla_ssa *to = &part[r * sums + dword % sums];
      *to = nabla_emit_int8_dot(
          emitter, self, *to, w[j / g->rows],
          nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<64xi8>", x));
    }
  }
  for (unsigned r = 0; r < g->rows; r++) {
    out[r] = part[r * sums];
    for (unsigned i = 1; i < sums; i++)
      out[r] = nabla_emit(emitter, "arith.addi %%v%u, %%v%u : vector<16xi32>",
                          out[r], part[r * sums + i]);
  }
}

/* Adds the products of the block from `k` on. */
static void multiply_block(nabla_emitter *emitter, const group *g, nabla_ssa k,
                           nabla_ssa *totals) {
  const nabla_int8 *self = g->self;
  nabla_ssa dots[ROWS_MOST];
  nabla_ssa at =
      nabla_emit_multiply(emitter, nabla_emit_divide(emitter, k, self->block),
                          nabla_int8_tile_bytes(self, g->rows));
  nabla_ssa tile = nabla_emit_address(emitter, g->x, at);
  dot_block(emitter, g, k, tile, dots);
  nabla_ssa span = nabla_emit_multiply(
      emitter, nabla_emit_divide(emitter, k, self->span), NABLA_BYTES);
  nabla_int8_factors by = {.w = 0};
  by.w = nabla_emit_load(emitter, "vector<16xf32>",
                         constant_at(emitter, g->w, g->layout.scales), span, 4);
  if (self->has_zero)
    by.negative =
        nabla_emit_load(emitter, "vector<16xf32>",
                        constant_at(emitter, g->w, g->layout.zeros), span, 4);
  for (unsigned r = 0; r < g->rows; r++) {
    uint64_t scale = g->rows * self->block + 4 * r;
    by.x = nabla_emit_int8_spread(emitter, "f32", tile,
                                  nabla_emit_i64(emitter, scale));
    if (self->has_zero)
      by.sum = nabla_emit_int8_spread(
          emitter, "f32", tile,
          nabla_emit_i64(emitter, scale + (uint64_t)4 * g->rows));
    totals[r] = nabla_emit_int8_add(emitter, totals[r], dots[r], &by);
  }
}

/* Sums of one group and all rows of a tile, to the scratch. */
static void sum_group(nabla_emitter *emitter, const group *g) {
  nabla_loop blocks;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), totals[ROWS_MOST];
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  for (unsigned r = 0; r < g->rows; r++) totals[r] = none;
  nabla_loop_begin(emitter, &blocks, zero, emitter->k, g->self->block, g->rows,
                   totals);
  for (unsigned r = 0; r < g->rows; r++) totals[r] = blocks.carried[r];
  multiply_block(emitter, g, blocks.induction, totals);
  nabla_loop_end(emitter, &blocks, totals);
  nabla_emit_keep_sums(emitter, g->rows, blocks.results);
}

static void run(nabla_emitter *emitter) {
  nabla_int8 self;
  const nabla_fused_spec *spec = emitter->spec;
  if (!nabla_int8_of(spec, &self)) return;
  group g = {.self = &self,
             .layout = nabla_int8_packed_of(spec, &self),
             .rows = rows_of(spec)};
  nabla_loop tiles, groups, each;
  uint64_t x_bytes =
      nabla_int8_tile_bytes(&self, g.rows) / g.rows * (spec->k / self.block);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa begin = emitter->begin, end = emitter->end;
  nabla_loop_begin(emitter, &tiles, zero, emitter->m, g.rows, 0, NULL);
  g.x = nabla_emit_address(
      emitter, emitter->workspace,
      nabla_emit_multiply(emitter, tiles.induction, x_bytes));
  nabla_loop_begin(emitter, &groups, begin, end, NABLA_LANES, 0, NULL);
  nabla_ssa number = nabla_emit_divide(emitter, groups.induction, NABLA_LANES);
  g.w = nabla_emit_address(emitter, emitter->packed,
                           nabla_emit_multiply(emitter, number, g.layout.size));
  sum_group(emitter, &g);
  nabla_ssa columns =
      nabla_emit_left(emitter, end, groups.induction, NABLA_LANES);
  nabla_ssa left = nabla_emit_rows_left(emitter, tiles.induction, g.rows);
  nabla_loop_begin(emitter, &each, zero, left, 1, 0, NULL);
  nabla_emit_finish_row(
      emitter,
      nabla_emit_address(
          emitter, emitter->scratch,
          nabla_emit_multiply(emitter, each.induction, NABLA_BYTES)),
      nabla_emit_add(emitter, tiles.induction, each.induction),
      groups.induction, columns);
  nabla_loop_end(emitter, &each, NULL);
  nabla_loop_end(emitter, &groups, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  unsigned height = rows_of(spec);
  return (double)((m + height - 1) / height) * (height == 1 ? 18 : 30);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  unsigned rows = rows_of(spec);
  out->grain = NABLA_LANES;
  if (!nabla_int8_of(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){
      rows, (uint32_t)self.block, (uint32_t)nabla_int8_tile_bytes(&self, rows)};
  nabla_int8_describe_packed(spec, &self, out);
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

const nabla_body nabla_body_int8_packed = {.name = "int8_packed",
                                           .few_rows = 1,
                                           .instruction = "vpdpbusd",
                                           .applies = applies,
                                           .cost = cost,
                                           .run = run,
                                           .prepare = prepare,
                                           .prepack = nabla_emit_int8_prepack,
                                           .describe = describe,
                                           .chain = nabla_int8_chain,
                                           .scratch = scratch};
