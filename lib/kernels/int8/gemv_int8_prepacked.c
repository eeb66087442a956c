/* GEMV in int8 for few rows of x and a weight that is prepacked with rows in
 * lanes: each dword of x is broadcast and multiplied with 16 rows of w, which
 * are read as one stream. No horizontal sums are needed. */
#include "lib/kernels/builder/k.h"
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

/* Independent integer accumulators for each row of x: a product has a latency
 * of some 5 cycles. */
static unsigned sums_of(unsigned rows) { return rows == 1 ? 4 : 1; }

static void pack_a(nabla_emitter *e) {
  nabla_int8 self;
  if (nabla_int8_of(e->spec, &self))
    nabla_emit_int8_pack_a(e, &self, rows_of(e->spec));
}

/* The group of 16 rows of w, and the rows of x. */
typedef struct group {
  const nabla_int8 *self;
  nabla_int8_packed layout;
  nabla_ssa w, x; /* addresses */
  unsigned rows;
} group;

static nabla_ssa constant_at(nabla_emitter *e, nabla_ssa base, uint64_t byte) {
  return k_address(e, base, k_i64(e, byte));
}

/* The integer sums of a block of x, whose tile is at `tile`. */
static void dot_block(nabla_emitter *e, const group *g, nabla_ssa k,
                      nabla_ssa tile, nabla_ssa *out) {
  const nabla_int8 *self = g->self;
  unsigned dwords = (unsigned)self->block / 4 / self->parts;
  unsigned sums = sums_of(g->rows);
  nabla_ssa part[4 * ROWS_MOST] = {0}, w[NABLA_INT8_PARTS] = {0};
  nabla_ssa byte = k_multiply(e, k_divide(e, k, self->parts), NABLA_LANES);
  nabla_ssa codes = k_address(e, g->w, byte);
  for (unsigned i = 0; i < sums * g->rows; i++)
    part[i] = nabla_emit_int8_zeros(e);
  for (unsigned r = 0; !self->has_zero && r < g->rows; r++)
    part[r * sums] = nabla_emit_int8_spread(
        e, "i32", tile, k_i64(e, g->rows * (self->block + 4) + 4 * r));
  for (unsigned i = 0; i < dwords; i++) {
    nabla_ssa at = k_i64(e, (uint64_t)i * NABLA_BYTES);
    k_prefetch(e, codes, k_add_constant(e, at, k_family(e)->stream));
    nabla_emit_int8_split(e, self, k_load(e, "vector<16xi32>", codes, at, 1),
                          w);
    for (unsigned j = 0; j < self->parts * g->rows; j++) {
      unsigned r = j % g->rows, dword = i * self->parts + j / g->rows;
      nabla_ssa x = nabla_emit_int8_spread(
          e, "i32", tile, k_i64(e, (uint64_t)4 * (dword * g->rows + r)));
      nabla_ssa *to = &part[r * sums + dword % sums];
      *to = nabla_emit_int8_dot(
          e, self, *to, w[j / g->rows],
          k_bitcast(e, "vector<16xi32>", "vector<64xi8>", x));
    }
  }
  for (unsigned r = 0; r < g->rows; r++) {
    out[r] = part[r * sums];
    for (unsigned i = 1; i < sums; i++)
      out[r] = k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", out[r],
                    part[r * sums + i]);
  }
}

/* Adds the products of the block from `k` on. */
static void multiply_block(nabla_emitter *e, const group *g, nabla_ssa k,
                           nabla_ssa *totals) {
  const nabla_int8 *self = g->self;
  nabla_ssa dots[ROWS_MOST];
  nabla_ssa at = k_multiply(e, k_divide(e, k, self->block),
                            nabla_int8_tile_bytes(self, g->rows));
  nabla_ssa tile = k_address(e, g->x, at);
  dot_block(e, g, k, tile, dots);
  nabla_ssa span = k_multiply(e, k_divide(e, k, self->span), NABLA_BYTES);
  nabla_int8_factors by = {.w = 0};
  if (k_family(e)->scales)
    k_prefetch(e, constant_at(e, g->w, g->layout.scales),
               k_add_constant(e, span, k_family(e)->scales));
  by.w = k_load(e, "vector<16xf32>", constant_at(e, g->w, g->layout.scales),
                span, 4);
  if (self->has_zero)
    by.negative = k_load(e, "vector<16xf32>",
                         constant_at(e, g->w, g->layout.zeros), span, 4);
  for (unsigned r = 0; r < g->rows; r++) {
    uint64_t scale = g->rows * self->block + 4 * r;
    by.x = nabla_emit_int8_spread(e, "f32", tile, k_i64(e, scale));
    if (self->has_zero)
      by.sum = nabla_emit_int8_spread(e, "f32", tile,
                                      k_i64(e, scale + (uint64_t)4 * g->rows));
    totals[r] = nabla_emit_int8_add(e, totals[r], dots[r], &by);
  }
}

/* Sums of one group and all rows of a tile, to the scratch. */
static void sum_group(nabla_emitter *e, const group *g) {
  nabla_loop blocks;
  nabla_ssa zero = k_i64(e, 0), totals[ROWS_MOST];
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned r = 0; r < g->rows; r++) totals[r] = none;
  k_loop_begin(e, &blocks, zero, e->k, g->self->block, g->rows, totals);
  for (unsigned r = 0; r < g->rows; r++) totals[r] = blocks.carried[r];
  multiply_block(e, g, blocks.induction, totals);
  k_loop_end(e, &blocks, totals);
  nabla_emit_keep_sums(e, g->rows, blocks.results);
}

static void run(nabla_emitter *e) {
  nabla_int8 self;
  const nabla_fused_spec *spec = e->spec;
  if (!nabla_int8_of(spec, &self)) return;
  group g = {.self = &self,
             .layout = nabla_int8_packed_of(spec, &self),
             .rows = rows_of(spec)};
  nabla_loop tiles, groups, each;
  uint64_t x_bytes =
      nabla_int8_tile_bytes(&self, g.rows) / g.rows * (spec->k / self.block);
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa begin = e->begin, end = e->end;
  k_loop_begin(e, &tiles, zero, e->m, g.rows, 0, NULL);
  g.x = k_address(e, e->workspace, k_multiply(e, tiles.induction, x_bytes));
  k_loop_begin(e, &groups, begin, end, NABLA_LANES, 0, NULL);
  nabla_ssa number = k_divide(e, groups.induction, NABLA_LANES);
  g.w = k_address(e, e->packed, k_multiply(e, number, g.layout.size));
  sum_group(e, &g);
  nabla_ssa columns = nabla_emit_left(e, end, groups.induction, NABLA_LANES);
  nabla_ssa left = nabla_emit_rows_left(e, tiles.induction, g.rows);
  k_loop_begin(e, &each, zero, left, 1, 0, NULL);
  nabla_emit_finish_row(
      e, k_address(e, e->scratch, k_multiply(e, each.induction, NABLA_BYTES)),
      k_add(e, tiles.induction, each.induction), groups.induction, columns);
  k_loop_end(e, &each, NULL);
  k_loop_end(e, &groups, NULL);
  k_loop_end(e, &tiles, NULL);
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

const nabla_kernel_variant nabla_variant_gemv_int8_prepacked = {
    .name = "gemv_int8_prepacked",
    .dedicated_max_m = 1,
    .instruction = "vpdpbusd",
    .applies = applies,
    .cost = cost,
    .run = run,
    .pack_a = pack_a,
    .prepack = nabla_emit_int8_prepack,
    .describe = describe,
    .accumulation_depth = nabla_int8_accumulation_depth,
    .scratch = scratch};
