/* Decoding strips; see pack_b_small_m.h. Three ways: whole blocks of GGUF
 * files; codes of up to 4 bits, 16 at a time from one word that all lanes shift
 * by amounts of their own, in a table that was scaled once for all elements of
 * a scale; and anything, 16 elements at a time. */
#include "lib/kernels/f32/pack_b_small_m.h"

#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

/* Elements that are decoded at once, at most, but for blocks of 256. */
#define UNIT 128u

int nabla_strip_applies(const nabla_fused_spec *spec) {
  return nabla_spec_is_row(spec) && (spec->k > 0 || spec->any_size);
}

/* What the start of every strip of every row is a multiple of, and K too if
 * `with_k`. */
static uint64_t alignment(const nabla_fused_spec *spec, int with_k) {
  uint64_t all =
      spec->any_size
          ? spec->any_size
          : nabla_common_divisor(spec->offset, nabla_spec_row_stride(spec));
  if (with_k && !spec->any_size) all = nabla_common_divisor(all, spec->k);
  return nabla_common_divisor(all, NABLA_STRIP / 2);
}

/* Each row has one scale. */
static int has_row_scale(const nabla_fused_spec *spec) {
  const nabla_format *format = &spec->format;
  if (!format->encoding) return 0;
  if (spec->any_size) return format->granularity != NABLA_PER_BLOCK;
  return nabla_lines_share_scales(spec, spec->n, nabla_spec_row_stride(spec),
                                  spec->k);
}

/* ---- codes of up to 4 bits ---- */

/* Elements of a unit: they share a scale. */
static uint64_t unit_of(const nabla_fused_spec *spec) {
  uint64_t unit = nabla_common_divisor(alignment(spec, 1), UNIT);
  return has_row_scale(spec) ? unit
                             : nabla_common_divisor(unit, spec->format.block);
}

/* Targets without AVX2 have no table to scale. */
static int by_words(const nabla_fused_spec *spec) {
  const nabla_encoding *encoding = spec->format.encoding;
  return encoding && encoding->bits <= 4 &&
         (NABLA_HAS(spec->features, AVX512F) ||
          NABLA_HAS(spec->features, AVX2)) &&
         unit_of(spec) % NABLA_LANES == 0;
}

/* Bit of the word at which code `i` begins. */
static uint32_t bit_of(const nabla_encoding *encoding, uint32_t i) {
  uint32_t flip = encoding->high_first ? 8 / encoding->bits - 1 : 0;
  return (i ^ flip) * encoding->bits;
}

/* Of 4 bits two lanes share the shift of a word of 64 bits. */
void nabla_strip_order(const nabla_fused_spec *spec,
                       unsigned out[NABLA_LANES]) {
  int turned = spec->ggml && nabla_block_weights_turn(spec);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = turned ? i % 4 * 4 + i / 4 : i;
  if (!by_words(spec) || spec->format.encoding->bits != 4) return;
  unsigned flip = spec->format.encoding->high_first ? 1 : 0;
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = (i / 2 + i % 2 * (NABLA_LANES / 2)) ^ flip;
}

/* Codes of 4 bits of the 8 bytes at `byte`, at the bottom of the lanes. */
static nabla_ssa split_quads(nabla_emitter *emitter, nabla_ssa byte) {
  nabla_ssa word = nabla_emit_load(emitter, "i64", emitter->codes, byte, 1);
  word = nabla_emit(emitter, "vector.broadcast %%v%u : i64 to vector<8xi64>",
                    word);
  nabla_ssa by = nabla_emit(
      emitter,
      "arith.constant dense<[0, 4, 8, 12, 16, 20, 24, 28]> : vector<8xi64>");
  word =
      nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<8xi64>", word, by);
  return nabla_emit(
      emitter, "vector.bitcast %%v%u : vector<8xi64> to vector<16xi32>", word);
}

/* Codes of 1 or 2 bits from `byte` on, at the bottom of the lanes. */
static nabla_ssa split_few(nabla_emitter *emitter, nabla_ssa byte) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  uint32_t shifts[NABLA_LANES];
  nabla_ssa word;
  for (uint32_t i = 0; i < NABLA_LANES; i++) shifts[i] = bit_of(encoding, i);
  if (encoding->bits == 2) {
    word = nabla_emit_load(emitter, "i32", emitter->codes, byte, 1);
  } else {
    word = nabla_emit_load(emitter, "i16", emitter->codes, byte, 1);
    word = nabla_emit(emitter, "arith.extui %%v%u : i16 to i32", word);
  }
  return nabla_emit(emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
                    nabla_emit_broadcast(emitter, "i32", word),
                    nabla_emit_i32_lanes(emitter, shifts));
}

/* The values of all codes under the scale, and zero point, at `flat`. */
static nabla_ssa scaled_table(nabla_emitter *emitter, nabla_ssa flat) {
  uint32_t all[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) all[i] = i;
  nabla_ssa values =
      nabla_emit_code_value(emitter, nabla_emit_i32_lanes(emitter, all));
  nabla_ssa block = nabla_emit_block(emitter, flat);
  nabla_ssa zero = nabla_emit_zero_value(emitter, block);
  if (zero) zero = nabla_emit_broadcast(emitter, "f32", zero);
  nabla_ssa scale =
      nabla_emit_broadcast(emitter, "f32", nabla_emit_scale_at(emitter, block));
  return nabla_emit_scaled(emitter, values, zero, scale);
}

/* ---- one row ---- */

/* A row of a strip. */
typedef struct piece {
  nabla_ssa flat;  /* of its first element */
  nabla_ssa count; /* elements */
  nabla_ssa out;   /* address */
} piece;

static void store(nabla_emitter *emitter, const piece *p, nabla_ssa at,
                  nabla_ssa values) {
  nabla_emit_write_lanes(emitter, nabla_floats_at(p->out), at, values);
}

static void words(nabla_emitter *emitter, const piece *p) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned bits = spec->format.encoding->bits;
  unsigned vectors = (unsigned)(unit_of(spec) / NABLA_LANES);
  nabla_ssa table = has_row_scale(spec) ? scaled_table(emitter, p->flat) : 0;
  nabla_loop units;
  nabla_loop_begin(emitter, &units, nabla_emit_i64(emitter, 0), p->count,
                   unit_of(spec), 0, NULL);
  nabla_ssa flat = nabla_emit_add(emitter, p->flat, units.induction);
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 8 / bits);
  nabla_ssa here = table ? table : scaled_table(emitter, flat);
  for (unsigned i = 0; i < vectors; i++) {
    nabla_ssa at =
        nabla_emit_add_constant(emitter, byte, (uint64_t)i * 2 * bits);
    nabla_ssa codes =
        bits == 4 ? split_quads(emitter, at) : split_few(emitter, at);
    store(emitter, p,
          nabla_emit_add_constant(emitter, units.induction,
                                  (uint64_t)i * NABLA_LANES),
          nabla_emit_lookup_in(emitter, here, codes));
  }
  nabla_loop_end(emitter, &units, NULL);
}

/* Where the weights of a block go. */
typedef struct block_place {
  const piece *p;
  nabla_ssa at;
} block_place;

static void store_block(nabla_emitter *emitter, uint32_t element, nabla_ssa weights,
                        void *context) {
  const block_place *place = context;
  store(emitter, place->p, nabla_emit_add_constant(emitter, place->at, element),
        weights);
}

static void blocks(nabla_emitter *emitter, const piece *p) {
  const nabla_ggml *format = emitter->spec->ggml;
  uint64_t unit = nabla_common_divisor(alignment(emitter->spec, 1), UNIT);
  if (unit < format->elements) unit = format->elements;
  nabla_loop units;
  nabla_loop_begin(emitter, &units, nabla_emit_i64(emitter, 0), p->count, unit,
                   0, NULL);
  nabla_ssa base = nabla_emit_code_byte(
      emitter, nabla_emit_add(emitter, p->flat, units.induction));
  for (uint64_t i = 0; i < unit / format->elements; i++) {
    block_place place = {p, nabla_emit_add_constant(emitter, units.induction,
                                                    i * format->elements)};
    nabla_emit_block_weights(
        emitter, nabla_emit_add_constant(emitter, base, i * format->bytes), 1,
        store_block, &place);
  }
  nabla_loop_end(emitter, &units, NULL);
}

/* `count` vectors of any weight from `at` on, the last one of `width`. */
static void vectors(nabla_emitter *emitter, const piece *p, nabla_ssa scale,
                    nabla_ssa at, unsigned count, unsigned width) {
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa here =
        nabla_emit_add_constant(emitter, at, (uint64_t)i * NABLA_LANES);
    nabla_window window = {.flat = nabla_emit_add(emitter, p->flat, here),
                           .width = i + 1 < count ? NABLA_LANES : width,
                           .scale = scale,
                           .aligned = nabla_common_divisor(
                               alignment(emitter->spec, 0), NABLA_LANES)};
    store(emitter, p, here, nabla_emit_decode(emitter, &window));
  }
}

static void windows(nabla_emitter *emitter, const piece *p) {
  const nabla_fused_spec *spec = emitter->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  /* repeated where that tells the place in a byte or block */
  unsigned unit = alignment(spec, 1) % 64 ? NABLA_LANES : 64;
  nabla_ssa scale =
      has_row_scale(spec) ? nabla_emit_scale(emitter, p->flat) : 0;
  nabla_ssa whole = nabla_emit_divide(emitter, p->count, NABLA_LANES);
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop units;
  nabla_loop_begin(emitter, &units, nabla_emit_i64(emitter, 0), whole, unit, 0,
                   NULL);
  vectors(emitter, p, scale, units.induction, unit / NABLA_LANES, NABLA_LANES);
  nabla_loop_end(emitter, &units, NULL);
  if (!rest) return;
  nabla_ssa some = nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i64",
                              whole, p->count);
  nabla_emit_line(emitter, "scf.if %%v%u {", some);
  vectors(emitter, p, scale, whole, 1, rest);
  nabla_emit_line(emitter, "}");
}

/* ---- all rows ---- */

/* The flat index of row `row` of the strip at its k. */
static nabla_ssa row_flat(nabla_emitter *emitter, const nabla_strip *strip,
                          nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  row = nabla_emit_add(emitter, strip->first, row);
  row = nabla_emit_minimum(emitter, row, strip->last);
  nabla_ssa flat =
      spec->any_size
          ? nabla_emit_product(emitter, row, emitter->k)
          : nabla_emit_flat(emitter, row, nabla_spec_row_stride(spec));
  return nabla_emit_add(emitter, flat, strip->k);
}

void nabla_emit_strip(nabla_emitter *emitter, const nabla_strip *strip) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_loop rows;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), strip->rows, 1,
                   0, NULL);
  nabla_ssa to = nabla_emit_multiply(emitter, rows.induction, NABLA_STRIP * 4);
  piece p = {.flat = row_flat(emitter, strip, rows.induction),
             .count = strip->count,
             .out = nabla_emit_address(emitter, strip->out, to)};
  if (spec->ggml && nabla_block_weights_apply(spec))
    blocks(emitter, &p);
  else if (by_words(spec))
    words(emitter, &p);
  else
    windows(emitter, &p);
  nabla_loop_end(emitter, &rows, NULL);
}

void nabla_emit_prefetch_strip(nabla_emitter *emitter,
                               const nabla_strip *strip) {
  nabla_loop rows, lines;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &rows, zero, strip->rows, 1, 0, NULL);
  nabla_ssa flat = row_flat(emitter, strip, rows.induction);
  nabla_ssa from = nabla_emit_code_byte(emitter, flat);
  nabla_ssa to = nabla_emit_code_byte(
      emitter, nabla_emit_add(emitter, flat, strip->count));
  nabla_loop_begin(emitter, &lines, from, to, 64, 0, NULL);
  nabla_emit_prefetch(emitter, emitter->codes, lines.induction);
  nabla_loop_end(emitter, &lines, NULL);
  if (emitter->spec->format.encoding) nabla_emit_prefetch_scale(emitter, flat);
  nabla_loop_end(emitter, &rows, NULL);
}
