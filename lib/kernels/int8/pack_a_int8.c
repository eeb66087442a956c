/* Quantizing x for products in integers; see int8.h. */
#include <stdio.h>

#include "lib/kernels/builder/transpose.h"
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
static nabla_ssa largest(nabla_emitter *emitter, const nabla_ssa *values,
                         unsigned count) {
  nabla_ssa most = 0;
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa bits = nabla_emit_size_bits(emitter, NABLA_VECTOR, values[i]);
    most =
        most ? nabla_emit(emitter, "arith.maxui %%v%u, %%v%u : vector<16xi32>",
                          most, bits)
             : bits;
  }
  return nabla_emit(emitter,
                    "vector.reduction <maxui>, %%v%u : vector<16xi32> into i32",
                    most);
}

static nabla_ssa compare(nabla_emitter *emitter, const char *how, nabla_ssa a,
                         uint32_t b) {
  return nabla_emit(emitter, "arith.cmpi %s, %%v%u, %%v%u : i32", how, a,
                    nabla_emit_i32(emitter, NABLA_SCALAR, b));
}

static nabla_ssa choose(nabla_emitter *emitter, nabla_ssa condition,
                        nabla_ssa yes, nabla_ssa no) {
  return nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : f32",
                    condition, yes, no);
}

static nabla_ssa number(nabla_emitter *emitter, double value) {
  return nabla_emit_f32(emitter, NABLA_SCALAR, value);
}

/* What a block is multiplied with, in two steps, and its scale. */
typedef struct factors {
  nabla_ssa larger, by, scale;
} factors;

static factors factors_of(nabla_emitter *emitter, const nabla_int8 *self,
                          nabla_ssa most) {
  nabla_ssa one = number(emitter, 1), none = number(emitter, 0);
  nabla_ssa steps = number(emitter, 127);
  nabla_ssa absmax =
      nabla_emit(emitter, "arith.bitcast %%v%u : i32 to f32", most);
  nabla_ssa small = compare(emitter, "ult", most, SMALL_BITS);
  nabla_ssa odd = compare(emitter, "ugt", most, 0x7f7fffff);
  nabla_ssa empty = compare(emitter, "eq", most, 0);
  factors out = {.larger =
                     choose(emitter, small, number(emitter, LARGER), one)};
  nabla_ssa size =
      nabla_emit_binary(emitter, NABLA_SCALAR, "mulf", absmax, out.larger);
  out.by = nabla_emit_binary(emitter, NABLA_SCALAR, "divf", steps, size);
  out.by = choose(emitter, empty, none, out.by);
  out.scale = nabla_emit_binary(emitter, NABLA_SCALAR, "divf", absmax, steps);
  if (self->unit != 1)
    out.scale = nabla_emit_binary(emitter, NABLA_SCALAR, "mulf", out.scale,
                                  number(emitter, self->unit));
  nabla_ssa nan = nabla_emit_i32(emitter, NABLA_SCALAR, 0x7fc00000);
  nan = nabla_emit(emitter, "arith.bitcast %%v%u : i32 to f32", nan);
  out.scale = choose(emitter, odd, nan, out.scale);
  return out;
}

nabla_int8_block nabla_emit_int8_quantize(nabla_emitter *emitter,
                                          const nabla_int8 *self, nabla_ssa row,
                                          nabla_ssa index) {
  nabla_array_ref x = {row, emitter->spec->x_type};
  nabla_int8_block out = {{0}, 0};
  nabla_ssa values[PIECES];
  unsigned count = (unsigned)(self->block / NABLA_LANES);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at =
        nabla_emit_add_constant(emitter, index, (uint64_t)i * NABLA_LANES);
    values[i] = nabla_emit_read_lanes(emitter, x, at, NABLA_LANES);
  }
  factors f = factors_of(emitter, self, largest(emitter, values, count));
  nabla_ssa larger = nabla_emit_broadcast(emitter, "f32", f.larger);
  nabla_ssa by = nabla_emit_broadcast(emitter, "f32", f.by);
  nabla_ssa magic = nabla_emit_f32(emitter, NABLA_VECTOR, MAGIC);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa value =
        nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", values[i], larger);
    value = nabla_emit_fma(emitter, NABLA_VECTOR, value, by, magic);
    value = nabla_emit(emitter,
                       "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>",
                       value);
    out.pieces[i] = nabla_emit(
        emitter, "arith.trunci %%v%u : vector<16xi32> to vector<16xi8>", value);
  }
  out.scale = f.scale;
  return out;
}

nabla_ssa nabla_emit_int8_join(nabla_emitter *emitter,
                               const nabla_ssa pieces[4]) {
  nabla_ssa part[4], half[2], none = 0;
  for (unsigned i = 0; i < 4; i++) {
    if (!pieces[i] && !none)
      none = nabla_emit(emitter, "arith.constant dense<0> : vector<16xi8>");
    part[i] = pieces[i] ? pieces[i] : none;
  }
  for (unsigned i = 0; i < 2; i++)
    half[i] = nabla_emit_shuffle(emitter, "i8", NABLA_LANES, part[2 * i],
                                 part[2 * i + 1], 2 * NABLA_LANES,
                                 nabla_pick_from, 0);
  return nabla_emit_shuffle(emitter, "i8", 2 * NABLA_LANES, half[0], half[1],
                            NABLA_BYTES, nabla_pick_from, 0);
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
static void store_lanes(nabla_emitter *emitter, const char *element,
                        unsigned count, nabla_ssa vector, nabla_ssa base,
                        uint64_t byte) {
  char type[32];
  (void)snprintf(type, sizeof type, "vector<%ux%s>", count, element);
  if (count < NABLA_LANES)
    vector = nabla_emit_shuffle(emitter, element, NABLA_LANES, vector, vector,
                                count, nabla_pick_from, 0);
  nabla_emit_store(emitter, type, vector, base, nabla_emit_i64(emitter, byte),
                   4);
}

static void store_sums(nabla_emitter *emitter, const nabla_int8 *self,
                       unsigned rows, const nabla_ssa *v, nabla_ssa tile) {
  unsigned dwords = (unsigned)self->block / 4 * rows;
  nabla_ssa sums = nabla_emit_int8_zeros(emitter);
  nabla_ssa ones = nabla_emit_int8_ones(emitter);
  for (unsigned i = 0; i * NABLA_LANES < dwords; i++)
    sums = nabla_emit_int8_dot(
        emitter, self, sums, ones,
        nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<64xi8>", v[i]));
  for (unsigned apart = NABLA_LANES / 2; apart >= rows; apart /= 2) {
    nabla_ssa other = nabla_emit_shuffle(emitter, "i32", NABLA_LANES, sums,
                                         sums, NABLA_LANES, pick_around, apart);
    sums = nabla_emit(emitter, "arith.addi %%v%u, %%v%u : vector<16xi32>", sums,
                      other);
  }
  store_lanes(emitter, self->has_zero ? "f32" : "i32", rows,
              nabla_emit_int8_sums(emitter, self, sums), tile,
              rows * (self->block + 4));
}

/* Writes one tile at address `tile`. */
static void store_tile(nabla_emitter *emitter, const nabla_int8 *self,
                       unsigned rows, const nabla_int8_block *blocks,
                       nabla_ssa tile) {
  nabla_ssa v[NABLA_INT8_ROWS];
  unsigned dwords = (unsigned)self->block / 4 * rows;
  for (unsigned i = 0; i < rows; i++) {
    nabla_ssa bytes = nabla_emit_int8_join(emitter, blocks[i].pieces);
    if (self->parts > 1)
      bytes = nabla_emit_shuffle(emitter, "i8", NABLA_BYTES, bytes, bytes,
                                 NABLA_BYTES, pick_parts, self->parts);
    v[i] =
        nabla_emit_bitcast(emitter, "vector<64xi8>", "vector<16xi32>", bytes);
    nabla_emit_store(emitter, "f32", blocks[i].scale, tile,
                     nabla_emit_i64(emitter, rows * self->block + 4 * i), 4);
  }
  nabla_emit_mix_rows(emitter, "i32", rows, v);
  for (unsigned i = 0; i * NABLA_LANES < dwords; i++)
    store_lanes(emitter, "i32", dwords < NABLA_LANES ? dwords : NABLA_LANES,
                v[i], tile, (uint64_t)i * NABLA_BYTES);
  if (nabla_int8_has_sums(self)) store_sums(emitter, self, rows, v, tile);
}

void nabla_emit_int8_tiles(nabla_emitter *emitter, const nabla_int8 *self,
                           unsigned rows) {
  nabla_loop tiles, steps;
  uint64_t bytes = nabla_int8_tile_bytes(self, rows);
  nabla_ssa row_bytes =
      nabla_emit_int8_row_bytes(emitter, self->block, bytes / rows);
  nabla_ssa zero = nabla_emit_i64(emitter, 0), x[NABLA_INT8_ROWS];
  nabla_ssa begin = emitter->begin, end = emitter->end;
  nabla_loop_begin(emitter, &tiles, begin, end, rows, 0, NULL);
  nabla_emit_tile_rows(emitter, tiles.induction, rows, x);
  nabla_ssa base = nabla_emit_address(
      emitter, emitter->workspace,
      nabla_emit_product(emitter, tiles.induction, row_bytes));
  nabla_loop_begin(emitter, &steps, zero, emitter->k, self->block, 0, NULL);
  nabla_int8_block blocks[NABLA_INT8_ROWS];
  for (unsigned i = 0; i < rows; i++)
    blocks[i] = nabla_emit_int8_quantize(emitter, self, x[i], steps.induction);
  nabla_ssa at = nabla_emit_divide(emitter, steps.induction, self->block);
  nabla_ssa tile = nabla_emit_address(emitter, base,
                                      nabla_emit_multiply(emitter, at, bytes));
  store_tile(emitter, self, rows, blocks, tile);
  nabla_loop_end(emitter, &steps, NULL);
  nabla_loop_end(emitter, &tiles, NULL);
}
