/* y = x . w in integers for many rows of x: 32 columns of w and up to 1024
 * elements of k are made bytes with rows of w in lanes, in the scratch; tiles
 * of 8 rows of x are multiplied with them. Sums of up to 256 rows wait in the
 * scratch, so that a panel is decoded once for all of them. */
#include "transforms/kernels/decode.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"

#define GROUPS     2u
#define COLUMNS    (GROUPS * NABLA_LANES)
#define PANEL      1024u /* elements of k */
#define ROWS_BLOCK 256u
#define ROWS       NABLA_INT8_ROWS
#define UNROLL     4u /* dwords */

/* Bytes in the scratch of one group of 16 columns. */
#define GROUP_CODES ((uint64_t)PANEL * NABLA_LANES)

/* Where things are in the scratch. */
typedef struct room {
  uint64_t spans; /* in a panel */
  uint64_t scales, zeros, sums, size;
} room;

static room room_of(const nabla_int8 *self) {
  room out = {.spans = self->span < PANEL ? PANEL / self->span : 1};
  uint64_t each = out.spans * GROUPS * NABLA_BYTES;
  out.scales = GROUPS * GROUP_CODES;
  out.zeros = out.scales + each;
  out.sums = out.zeros + (self->has_zero ? each : 0);
  out.size = out.sums + (uint64_t)ROWS_BLOCK * COLUMNS * 4;
  return out;
}

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) && self.vnni;
}

static void prepare(nabla_emitter *emitter) {
  nabla_int8 self;
  if (nabla_int8_of(emitter->spec, &self))
    nabla_emit_int8_tiles(emitter, &self, ROWS);
}

typedef struct panel {
  const nabla_int8 *self;
  room room;
  nabla_int8_packed layout;
  nabla_ssa row_end;      /* of the rows of x whose sums wait */
  nabla_ssa row, n, k;    /* the first ones */
  nabla_ssa width, count; /* columns; elements of k */
} panel;

static nabla_ssa offset_by(nabla_emitter *emitter, nabla_ssa base,
                           uint64_t bytes) {
  return nabla_emit_address(emitter, base, nabla_emit_i64(emitter, bytes));
}

static nabla_ssa subtract(nabla_emitter *emitter, nabla_ssa a, nabla_ssa b) {
  return nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", a, b);
}

/* Stores the bytes of a vector of codes, which is number `dword` of a group. */
static void store_bytes(nabla_emitter *emitter, const nabla_int8 *self,
                        nabla_ssa codes, nabla_ssa to, nabla_ssa dword) {
  nabla_ssa w[2] = {0, 0};
  nabla_emit_int8_split(emitter, self, codes, w);
  nabla_ssa byte =
      nabla_emit_multiply(emitter, dword, (uint64_t)NABLA_BYTES * self->parts);
  for (unsigned i = 0; i < self->parts; i++)
    nabla_emit_store(
        emitter, "vector<64xi8>", w[i], to,
        nabla_emit_add_constant(emitter, byte, (uint64_t)i * NABLA_BYTES), 64);
}

/* Decodes `count` dwords of 16 rows, with `first` of the rows' dwords. */
static void turn_codes(nabla_emitter *emitter, const panel *p,
                       const nabla_ssa *rows, nabla_ssa at, unsigned count,
                       nabla_ssa to) {
  nabla_ssa v[NABLA_LANES];
  nabla_ssa first =
      nabla_emit_divide(emitter, p->k, (uint64_t)4 * p->self->parts);
  nabla_emit_int8_turn(emitter, p->self, rows,
                       nabla_emit_add(emitter, first, at), count, v);
  for (unsigned i = 0; i < count; i++)
    store_bytes(emitter, p->self, v[i], to,
                nabla_emit_add_constant(emitter, at, i));
}

/* The codes of 16 columns from the weight in place. */
static void decode_in_place(nabla_emitter *emitter, const panel *p,
                            const nabla_ssa *rows, nabla_ssa to) {
  uint64_t each = (uint64_t)4 * p->self->parts;
  unsigned rest = (unsigned)(emitter->spec->k / each % NABLA_LANES);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa dwords = nabla_emit_divide(emitter, p->count, each);
  nabla_ssa whole = nabla_emit_divide(emitter, dwords, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop loop, last;
  nabla_loop_begin(emitter, &loop, zero, whole, NABLA_LANES, 0, NULL);
  turn_codes(emitter, p, rows, loop.induction, NABLA_LANES, to);
  nabla_loop_end(emitter, &loop, NULL);
  if (!rest) return;
  nabla_loop_begin(emitter, &last, whole, dwords, NABLA_LANES, 0, NULL);
  turn_codes(emitter, p, rows, last.induction, rest, to);
  nabla_loop_end(emitter, &last, NULL);
}

/* The same from the prepacked group at address `from`. */
static void decode_packed(nabla_emitter *emitter, const panel *p,
                          nabla_ssa from, nabla_ssa to) {
  uint64_t each = (uint64_t)4 * p->self->parts;
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa dwords = nabla_emit_divide(emitter, p->count, each);
  nabla_ssa first = nabla_emit_divide(emitter, p->k, each);
  nabla_loop_begin(emitter, &loop, zero, dwords, 1, 0, NULL);
  nabla_ssa at = nabla_emit_add(emitter, first, loop.induction);
  nabla_ssa codes =
      nabla_emit_load(emitter, "vector<16xi32>", from,
                      nabla_emit_multiply(emitter, at, NABLA_BYTES), 64);
  store_bytes(emitter, p->self, codes, to, loop.induction);
  nabla_loop_end(emitter, &loop, NULL);
}

/* Copies `count` vectors of 16 f32. */
static void copy_spans(nabla_emitter *emitter, nabla_ssa count, nabla_ssa from,
                       nabla_ssa to) {
  nabla_loop loop;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &loop, zero, count, 1, 0, NULL);
  nabla_ssa byte = nabla_emit_multiply(emitter, loop.induction, NABLA_BYTES);
  nabla_emit_store(emitter, "vector<16xf32>",
                   nabla_emit_load(emitter, "vector<16xf32>", from, byte, 64),
                   to, byte, 64);
  nabla_loop_end(emitter, &loop, NULL);
}

/* Scales and zero points of a packed group. */
static void copy_scales(nabla_emitter *emitter, const panel *p, nabla_ssa from,
                        nabla_ssa count, nabla_ssa scales, nabla_ssa zeros) {
  nabla_ssa first = nabla_emit_divide(emitter, p->k, p->self->span);
  nabla_ssa at = nabla_emit_address(
      emitter, from, nabla_emit_multiply(emitter, first, NABLA_BYTES));
  copy_spans(emitter, count, offset_by(emitter, at, p->layout.scales), scales);
  if (p->self->has_zero)
    copy_spans(emitter, count, offset_by(emitter, at, p->layout.zeros), zeros);
}

/* Decodes a panel, one group of columns after the other. */
static void decode(nabla_emitter *emitter, const panel *p) {
  const nabla_int8 *self = p->self;
  nabla_loop groups;
  nabla_ssa rows[NABLA_LANES], flats[NABLA_LANES], count;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &groups, zero, p->width, NABLA_LANES, 0, NULL);
  nabla_ssa n = nabla_emit_add(emitter, p->n, groups.induction);
  nabla_ssa group = nabla_emit_divide(emitter, groups.induction, NABLA_LANES);
  nabla_ssa to =
      nabla_emit_address(emitter, emitter->scratch,
                         nabla_emit_multiply(emitter, group, GROUP_CODES));
  nabla_ssa at = nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_multiply(emitter, group, p->room.spans * NABLA_BYTES));
  nabla_ssa scales = offset_by(emitter, at, p->room.scales);
  nabla_ssa zeros = offset_by(emitter, at, p->room.zeros);
  count = p->room.spans == 1 ? nabla_emit_i64(emitter, 1)
                             : nabla_emit_divide(emitter, p->count, self->span);
  if (emitter->spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED) {
    nabla_ssa number = nabla_emit_divide(emitter, n, NABLA_LANES);
    nabla_ssa from = nabla_emit_address(
        emitter, emitter->packed,
        nabla_emit_multiply(emitter, number, p->layout.size));
    decode_packed(emitter, p, from, to);
    copy_scales(emitter, p, from, count, scales, zeros);
  } else {
    nabla_emit_int8_rows(emitter, self, n, rows, flats);
    decode_in_place(emitter, p, rows, to);
    nabla_emit_int8_spans(emitter, self, flats, p->k, count, scales, zeros);
  }
  nabla_loop_end(emitter, &groups, NULL);
}

/* Adds the products of UNROLL dwords of a block: `w` and `x` are addresses of
 * the first. The sums are i32 in f32's clothes, as loops carry these. */
static void dot_dwords(nabla_emitter *emitter, const nabla_int8 *self,
                       nabla_ssa w, nabla_ssa x, nabla_ssa *sums) {
  nabla_ssa dots[ROWS * GROUPS], codes[GROUPS];
  for (unsigned i = 0; i < ROWS * GROUPS; i++)
    dots[i] = nabla_emit_bitcast(emitter, "vector<16xf32>", "vector<16xi32>",
                                 sums[i]);
  for (unsigned d = 0; d < UNROLL; d++) {
    for (unsigned g = 0; g < GROUPS; g++)
      codes[g] = nabla_emit_load(
          emitter, "vector<64xi8>", w,
          nabla_emit_i64(emitter, g * GROUP_CODES + (uint64_t)d * NABLA_BYTES),
          64);
    for (unsigned r = 0; r < ROWS; r++) {
      nabla_ssa four = nabla_emit_int8_spread(
          emitter, "i32", x,
          nabla_emit_i64(emitter, (uint64_t)4 * (d * ROWS + r)));
      four =
          nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<64xi8>", four);
      for (unsigned g = 0; g < GROUPS; g++)
        dots[r * GROUPS + g] = nabla_emit_int8_dot(
            emitter, self, dots[r * GROUPS + g], codes[g], four);
    }
  }
  for (unsigned i = 0; i < ROWS * GROUPS; i++)
    sums[i] = nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<16xf32>",
                                 dots[i]);
}

/* The integer sums of a block: `w` and `tile` are addresses. */
static void dot_block(nabla_emitter *emitter, const nabla_int8 *self,
                      nabla_ssa w, nabla_ssa tile, nabla_ssa *dots) {
  nabla_loop loop;
  uint64_t dwords = self->block / 4;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa end = nabla_emit_i64(emitter, dwords);
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < ROWS * GROUPS; i++) dots[i] = none;
  for (unsigned r = 0; !self->has_zero && r < ROWS; r++) {
    nabla_ssa start = nabla_emit_int8_spread(
        emitter, "f32", tile,
        nabla_emit_i64(emitter, ROWS * (self->block + 4) + 4 * r));
    for (unsigned g = 0; g < GROUPS; g++) dots[r * GROUPS + g] = start;
  }
  nabla_loop_begin(emitter, &loop, zero, end, UNROLL, ROWS * GROUPS, dots);
  for (unsigned i = 0; i < ROWS * GROUPS; i++) dots[i] = loop.carried[i];
  dot_dwords(emitter, self,
             nabla_emit_address(
                 emitter, w,
                 nabla_emit_multiply(emitter, loop.induction, NABLA_BYTES)),
             nabla_emit_address(
                 emitter, tile,
                 nabla_emit_multiply(emitter, loop.induction, 4 * ROWS)),
             dots);
  nabla_loop_end(emitter, &loop, dots);
  for (unsigned i = 0; i < ROWS * GROUPS; i++)
    dots[i] = nabla_emit_bitcast(emitter, "vector<16xf32>", "vector<16xi32>",
                                 loop.results[i]);
}

/* Adds a block's products to the sums at address `sums`. */
static void add_block(nabla_emitter *emitter, const panel *p, nabla_ssa k,
                      nabla_ssa tile, const nabla_ssa *dots, nabla_ssa sums) {
  const nabla_int8 *self = p->self;
  nabla_array_ref to = {sums, NABLA_DTYPE_F32};
  nabla_ssa span = p->room.spans == 1
                       ? nabla_emit_i64(emitter, 0)
                       : nabla_emit_divide(emitter, k, self->span);
  nabla_ssa base =
      nabla_emit_address(emitter, emitter->scratch,
                         nabla_emit_multiply(emitter, span, NABLA_BYTES));
  for (unsigned i = 0; i < ROWS * GROUPS; i++) {
    unsigned r = i / GROUPS, g = i % GROUPS;
    uint64_t group = g * p->room.spans * NABLA_BYTES;
    uint64_t scale = ROWS * self->block + 4 * r;
    nabla_int8_factors by = {0, 0, 0, 0};
    by.w = nabla_emit_load(emitter, "vector<16xf32>", base,
                           nabla_emit_i64(emitter, p->room.scales + group), 64);
    by.x = nabla_emit_int8_spread(emitter, "f32", tile,
                                  nabla_emit_i64(emitter, scale));
    if (self->has_zero) {
      by.negative =
          nabla_emit_load(emitter, "vector<16xf32>", base,
                          nabla_emit_i64(emitter, p->room.zeros + group), 64);
      by.sum = nabla_emit_int8_spread(
          emitter, "f32", tile,
          nabla_emit_i64(emitter, scale + (uint64_t)4 * ROWS));
    }
    nabla_ssa at = nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES);
    nabla_ssa total = nabla_emit_read_lanes(emitter, to, at, NABLA_LANES);
    nabla_emit_write_lanes(emitter, to, at,
                           nabla_emit_int8_add(emitter, total, dots[i], &by));
  }
}

/* The sums of row `row` of x, relative to the first that waits. */
static nabla_ssa sums_at(nabla_emitter *emitter, const panel *p,
                         nabla_ssa row) {
  nabla_ssa at = subtract(emitter, row, p->row);
  nabla_ssa base = offset_by(emitter, emitter->scratch, p->room.sums);
  return nabla_emit_address(emitter, base,
                            nabla_emit_multiply(emitter, at, COLUMNS * 4));
}

/* Multiplies a decoded panel with all rows whose sums wait. */
static void multiply(nabla_emitter *emitter, const panel *p) {
  const nabla_int8 *self = p->self;
  uint64_t bytes = nabla_int8_tile_bytes(self, ROWS);
  uint64_t row_bytes = bytes / ROWS * (emitter->spec->k / self->block);
  nabla_loop tiles, blocks;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), dots[ROWS * GROUPS];
  nabla_loop_begin(emitter, &tiles, p->row, p->row_end, ROWS, 0, NULL);
  nabla_ssa x = nabla_emit_address(
      emitter, emitter->workspace,
      nabla_emit_multiply(emitter, tiles.induction, row_bytes));
  nabla_ssa sums = sums_at(emitter, p, tiles.induction);
  nabla_loop_begin(emitter, &blocks, zero, p->count, self->block, 0, NULL);
  nabla_ssa at = nabla_emit_add(emitter, p->k, blocks.induction);
  at = nabla_emit_divide(emitter, at, self->block);
  nabla_ssa tile =
      nabla_emit_address(emitter, x, nabla_emit_multiply(emitter, at, bytes));
  nabla_ssa w = nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_multiply(emitter, blocks.induction, NABLA_LANES));
  dot_block(emitter, self, w, tile, dots);
  add_block(emitter, p, blocks.induction, tile, dots, sums);
  nabla_loop_end(emitter, &blocks, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}

/* Sets the sums of the waiting rows to 0: those of whole tiles. */
static void clear(nabla_emitter *emitter, const panel *p) {
  nabla_loop rows;
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_loop_begin(emitter, &rows, p->row, p->row_end, ROWS, 0, NULL);
  nabla_array_ref to = {sums_at(emitter, p, rows.induction), NABLA_DTYPE_F32};
  for (unsigned i = 0; i < ROWS * GROUPS; i++)
    nabla_emit_write_lanes(
        emitter, to, nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES), none);
  nabla_loop_end(emitter, &rows, NULL);
}

static void sum_columns(nabla_emitter *emitter, panel *p) {
  nabla_loop panels, rows;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  clear(emitter, p);
  nabla_loop_begin(emitter, &panels, zero, emitter->k, PANEL, 0, NULL);
  p->k = panels.induction;
  p->count = nabla_emit_minimum(emitter, subtract(emitter, emitter->k, p->k),
                                nabla_emit_i64(emitter, PANEL));
  decode(emitter, p);
  multiply(emitter, p);
  nabla_loop_end(emitter, &panels, NULL);
  nabla_loop_begin(emitter, &rows, p->row, p->row_end, 1, 0, NULL);
  nabla_emit_int8_finish(emitter, sums_at(emitter, p, rows.induction),
                         rows.induction, p->n, p->width);
  nabla_loop_end(emitter, &rows, NULL);
}

static void run(nabla_emitter *emitter) {
  nabla_int8 self;
  if (!nabla_int8_of(emitter->spec, &self)) return;
  panel p = {.self = &self,
             .room = room_of(&self),
             .layout = nabla_int8_packed_of(emitter->spec, &self)};
  nabla_loop rows, columns;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa begin = emitter->begin, end = emitter->end;
  nabla_loop_begin(emitter, &rows, zero, emitter->m, ROWS_BLOCK, 0, NULL);
  p.row = rows.induction;
  p.row_end = nabla_emit_minimum(
      emitter, nabla_emit_add_constant(emitter, p.row, ROWS_BLOCK), emitter->m);
  nabla_loop_begin(emitter, &columns, begin, end, COLUMNS, 0, NULL);
  p.n = columns.induction;
  p.width = nabla_emit_minimum(emitter, subtract(emitter, end, p.n),
                               nabla_emit_i64(emitter, COLUMNS));
  sum_columns(emitter, &p);
  nabla_loop_end(emitter, &columns, NULL);
  nabla_loop_end(emitter, &rows, NULL);
}

static uint64_t chain(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) ? spec->k / self.block + 4 : 0;
}

/* Some 4 ps for each row and 30 for decoding, once for ROWS_BLOCK rows. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  int in_place = spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
  double tiles = (double)((m + ROWS - 1) / ROWS);
  double blocks = (double)((m + ROWS_BLOCK - 1) / ROWS_BLOCK);
  return tiles * 4 * ROWS + blocks * (in_place ? 30 : 15);
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  out->grain = COLUMNS;
  if (!nabla_int8_of(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){
      ROWS, (uint32_t)self.block, (uint32_t)nabla_int8_tile_bytes(&self, ROWS)};
  if (spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED)
    out->packed =
        (nabla_kernel_tiles){NABLA_LANES, (uint32_t)spec->k,
                             (uint32_t)nabla_int8_packed_of(spec, &self).size};
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) ? room_of(&self).size : 0;
}

const nabla_body nabla_body_int8_panels = {.name = "int8_panels",
                                           .applies = applies,
                                           .cost = cost,
                                           .run = run,
                                           .prepare = prepare,
                                           .prepack = nabla_emit_int8_prepack,
                                           .describe = describe,
                                           .chain = chain,
                                           .scratch = scratch};
