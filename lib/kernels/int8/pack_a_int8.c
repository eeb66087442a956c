/* Packing of x for int8 products: quantization; see int8.h. */
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

/* Adding it rounds to an integer, whose last bits then are the last of the f32:
 * half to even, and no value can be out of range. */
#define MAGIC 0x1.8p23

/* Below 2^-64 the quotient 127 / absmax could be infinite: such blocks are
 * taken 2^64 times larger. */
#define SMALL_BITS 0x1f800000u
#define LARGER     0x1p64

#define PIECES (NABLA_BYTES / NABLA_LANES)

/* The bits of the largest magnitude: NaN is above infinity. */
static nabla_ssa largest(nabla_emitter *e, const nabla_ssa *values,
                         unsigned count) {
  nabla_ssa most = 0;
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa bits = k_size_bits(e, NABLA_VECTOR, values[i]);
    most =
        most ? k_op(e, "arith.maxui %%v%u, %%v%u : vector<16xi32>", most, bits)
             : bits;
  }
  return k_op(e, "vector.reduction <maxui>, %%v%u : vector<16xi32> into i32",
              most);
}

static nabla_ssa compare(nabla_emitter *e, const char *how, nabla_ssa a,
                         uint32_t b) {
  return k_op(e, "arith.cmpi %s, %%v%u, %%v%u : i32", how, a,
              k_i32(e, NABLA_SCALAR, b));
}

static nabla_ssa choose(nabla_emitter *e, nabla_ssa condition, nabla_ssa yes,
                        nabla_ssa no) {
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : f32", condition, yes, no);
}

static nabla_ssa number(nabla_emitter *e, double value) {
  return k_f32(e, NABLA_SCALAR, value);
}

/* The factors of a block, applied in two steps, and its scale. */
typedef struct factors {
  nabla_ssa larger, by, scale;
} factors;

static factors factors_of(nabla_emitter *e, const nabla_int8 *self,
                          nabla_ssa most) {
  nabla_ssa one = number(e, 1), none = number(e, 0);
  nabla_ssa steps = number(e, 127);
  nabla_ssa absmax = k_op(e, "arith.bitcast %%v%u : i32 to f32", most);
  nabla_ssa small = compare(e, "ult", most, SMALL_BITS);
  nabla_ssa odd = compare(e, "ugt", most, 0x7f7fffff);
  nabla_ssa empty = compare(e, "eq", most, 0);
  factors out = {.larger = choose(e, small, number(e, LARGER), one)};
  nabla_ssa size = k_binary(e, NABLA_SCALAR, "mulf", absmax, out.larger);
  out.by = k_binary(e, NABLA_SCALAR, "divf", steps, size);
  out.by = choose(e, empty, none, out.by);
  out.scale = k_binary(e, NABLA_SCALAR, "divf", absmax, steps);
  if (self->unit != 1)
    out.scale =
        k_binary(e, NABLA_SCALAR, "mulf", out.scale, number(e, self->unit));
  nabla_ssa nan = k_i32(e, NABLA_SCALAR, 0x7fc00000);
  nan = k_op(e, "arith.bitcast %%v%u : i32 to f32", nan);
  out.scale = choose(e, odd, nan, out.scale);
  return out;
}

nabla_int8_block nabla_emit_int8_quantize(nabla_emitter *e,
                                          const nabla_int8 *self, nabla_ssa row,
                                          nabla_ssa index) {
  nabla_array_ref x = {row, e->spec->x_type};
  nabla_int8_block out = {{0}, 0};
  nabla_ssa values[PIECES];
  unsigned count = (unsigned)(self->block / NABLA_LANES);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_add_constant(e, index, (uint64_t)i * NABLA_LANES);
    values[i] = k_read_lanes(e, x, at, NABLA_LANES);
  }
  factors f = factors_of(e, self, largest(e, values, count));
  nabla_ssa larger = k_broadcast(e, "f32", f.larger);
  nabla_ssa by = k_broadcast(e, "f32", f.by);
  nabla_ssa magic = k_f32(e, NABLA_VECTOR, MAGIC);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa value = k_binary(e, NABLA_VECTOR, "mulf", values[i], larger);
    value = k_fma(e, NABLA_VECTOR, value, by, magic);
    value = k_op(e, "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>",
                 value);
    out.pieces[i] =
        k_op(e, "arith.trunci %%v%u : vector<16xi32> to vector<16xi8>", value);
  }
  out.scale = f.scale;
  return out;
}

nabla_ssa nabla_emit_int8_join(nabla_emitter *e, const nabla_ssa pieces[4]) {
  nabla_ssa part[4], half[2], none = 0;
  for (unsigned i = 0; i < 4; i++) {
    if (!pieces[i] && !none)
      none = k_op(e, "arith.constant dense<0> : vector<16xi8>");
    part[i] = pieces[i] ? pieces[i] : none;
  }
  for (unsigned i = 0; i < 2; i++)
    half[i] = k_shuffle(e, "i8", NABLA_LANES, part[2 * i], part[2 * i + 1],
                        2 * NABLA_LANES, nabla_pick_from, 0);
  return k_shuffle(e, "i8", 2 * NABLA_LANES, half[0], half[1], NABLA_BYTES,
                   nabla_pick_from, 0);
}

/* Of each 4 * `parts` bytes first those at multiples of `parts`, then those
 * behind them. */
static unsigned pick_parts(unsigned lane, unsigned parts) {
  unsigned i = lane % (4 * parts);
  return lane - i + i % 4 * parts + i / 4;
}

static unsigned pick_around(unsigned lane, unsigned context) {
  return (lane + context) % NABLA_LANES;
}

uint64_t nabla_int8_tile_bytes(const nabla_int8 *self, unsigned rows) {
  return rows * (self->block + (nabla_int8_has_sums(self) ? 8 : 4));
}

/* The first `count` lanes of a vector of 16, stored. */
static void store_lanes(nabla_emitter *e, const char *element, unsigned count,
                        nabla_ssa vector, nabla_ssa base, uint64_t byte) {
  char type[32];
  (void)snprintf(type, sizeof type, "vector<%ux%s>", count, element);
  if (count < NABLA_LANES)
    vector = k_shuffle(e, element, NABLA_LANES, vector, vector, count,
                       nabla_pick_from, 0);
  k_store(e, type, vector, base, k_i64(e, byte), 4);
}

static void store_sums(nabla_emitter *e, const nabla_int8 *self, unsigned rows,
                       const nabla_ssa *v, nabla_ssa tile) {
  unsigned dwords = (unsigned)self->block / 4 * rows;
  nabla_ssa sums = nabla_emit_int8_zeros(e);
  nabla_ssa ones = nabla_emit_int8_ones(e);
  for (unsigned i = 0; i * NABLA_LANES < dwords; i++)
    sums = nabla_emit_int8_dot(
        e, self, sums, ones,
        k_bitcast(e, "vector<16xi32>", "vector<64xi8>", v[i]));
  for (unsigned apart = NABLA_LANES / 2; apart >= rows; apart /= 2) {
    nabla_ssa other = k_shuffle(e, "i32", NABLA_LANES, sums, sums, NABLA_LANES,
                                pick_around, apart);
    sums = k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", sums, other);
  }
  store_lanes(e, self->has_zero ? "f32" : "i32", rows,
              nabla_emit_int8_sums(e, self, sums), tile,
              rows * (self->block + 4));
}

/* Writes one tile at address `tile`. */
static void store_tile(nabla_emitter *e, const nabla_int8 *self, unsigned rows,
                       const nabla_int8_block *blocks, nabla_ssa tile) {
  nabla_ssa v[NABLA_INT8_ROWS];
  unsigned dwords = (unsigned)self->block / 4 * rows;
  for (unsigned i = 0; i < rows; i++) {
    nabla_ssa bytes = nabla_emit_int8_join(e, blocks[i].pieces);
    if (self->parts > 1)
      bytes = k_shuffle(e, "i8", NABLA_BYTES, bytes, bytes, NABLA_BYTES,
                        pick_parts, self->parts);
    v[i] = k_bitcast(e, "vector<64xi8>", "vector<16xi32>", bytes);
    k_store(e, "f32", blocks[i].scale, tile,
            k_i64(e, rows * self->block + 4 * i), 4);
  }
  k_interleave_rows(e, "i32", rows, v);
  for (unsigned i = 0; i * NABLA_LANES < dwords; i++)
    store_lanes(e, "i32", dwords < NABLA_LANES ? dwords : NABLA_LANES, v[i],
                tile, (uint64_t)i * NABLA_BYTES);
  if (nabla_int8_has_sums(self)) store_sums(e, self, rows, v, tile);
}

void nabla_emit_int8_pack_a(nabla_emitter *e, const nabla_int8 *self,
                            unsigned rows) {
  nabla_loop tiles, steps;
  uint64_t bytes = nabla_int8_tile_bytes(self, rows);
  nabla_ssa row_bytes = nabla_emit_int8_row_bytes(e, self->block, bytes / rows);
  nabla_ssa zero = k_i64(e, 0), x[NABLA_INT8_ROWS];
  nabla_ssa begin = e->begin, end = e->end;
  k_loop_begin(e, &tiles, begin, end, rows, 0, NULL);
  nabla_emit_tile_rows(e, tiles.induction, rows, x);
  nabla_ssa base =
      k_address(e, e->workspace, k_product(e, tiles.induction, row_bytes));
  k_loop_begin(e, &steps, zero, e->k, self->block, 0, NULL);
  nabla_int8_block blocks[NABLA_INT8_ROWS];
  for (unsigned i = 0; i < rows; i++)
    blocks[i] = nabla_emit_int8_quantize(e, self, x[i], steps.induction);
  nabla_ssa at = k_divide(e, steps.induction, self->block);
  nabla_ssa tile = k_address(e, base, k_multiply(e, at, bytes));
  store_tile(e, self, rows, blocks, tile);
  k_loop_end(e, &steps, NULL);
  k_loop_end(e, &tiles, NULL);
}
