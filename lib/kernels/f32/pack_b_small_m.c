/* Packing of weight panels for small M; see pack_b_small_m.h. Three ways: whole
 * GGUF blocks; codes of up to 4 bits, 16 at a time from one word, shifted by a
 * different amount in each lane, with a table that is scaled once for all
 * elements of a scale; and any weight, 16 elements at a time. */
#include "lib/kernels/f32/pack_b_small_m.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

/* Elements of a step, at most, but for blocks of 256. */
#define UNIT 128u

int nabla_small_m_applies(const nabla_fused_spec *spec) {
  return nabla_spec_is_row(spec) && (spec->k > 0 || spec->any_size);
}

/* The alignment of the start of every panel of every row, and of K too if
 * `with_k`. */
static uint64_t alignment(const nabla_fused_spec *spec, int with_k) {
  uint64_t all =
      spec->any_size
          ? spec->any_size
          : nabla_common_divisor(spec->offset, nabla_spec_row_stride(spec));
  if (with_k && !spec->any_size) all = nabla_common_divisor(all, spec->k);
  return nabla_common_divisor(all, NABLA_SMALL_M_DEPTH / 2);
}

/* Each row has one scale. */
static int has_row_scale(const nabla_fused_spec *spec) {
  const nabla_format *format = &spec->w.format;
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
                             : nabla_common_divisor(unit, spec->w.format.block);
}

/* Targets without AVX2 have no table to scale. */
static int by_word(const nabla_fused_spec *spec) {
  const nabla_encoding *encoding = spec->w.format.encoding;
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
void nabla_small_m_order(const nabla_fused_spec *spec,
                         unsigned out[NABLA_LANES]) {
  int transposed = spec->w.ggml && nabla_block_weights_transpose(spec);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = transposed ? i % 4 * 4 + i / 4 : i;
  if (!by_word(spec) || spec->w.format.encoding->bits != 4) return;
  unsigned flip = spec->w.format.encoding->high_first ? 1 : 0;
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = (i / 2 + i % 2 * (NABLA_LANES / 2)) ^ flip;
}

/* Codes of 4 bits of the 8 bytes at `byte`, in the low bits of the lanes. */
static nabla_ssa split_quads(nabla_emitter *e, nabla_ssa byte) {
  nabla_ssa word = k_load(e, "i64", e->codes, byte, 1);
  word = k_op(e, "vector.broadcast %%v%u : i64 to vector<8xi64>", word);
  nabla_ssa by = k_op(
      e, "arith.constant dense<[0, 4, 8, 12, 16, 20, 24, 28]> : vector<8xi64>");
  word = k_op(e, "arith.shrui %%v%u, %%v%u : vector<8xi64>", word, by);
  return k_op(e, "vector.bitcast %%v%u : vector<8xi64> to vector<16xi32>",
              word);
}

/* Codes of 1 or 2 bits from `byte` on, in the low bits of the lanes. */
static nabla_ssa split_few(nabla_emitter *e, nabla_ssa byte) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  uint32_t shifts[NABLA_LANES];
  nabla_ssa word;
  for (uint32_t i = 0; i < NABLA_LANES; i++) shifts[i] = bit_of(encoding, i);
  if (encoding->bits == 2) {
    word = k_load(e, "i32", e->codes, byte, 1);
  } else {
    word = k_load(e, "i16", e->codes, byte, 1);
    word = k_op(e, "arith.extui %%v%u : i16 to i32", word);
  }
  return k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>",
              k_broadcast(e, "i32", word), k_i32_lanes(e, shifts));
}

/* The values of all codes under the scale, and zero point, at `flat`. */
static nabla_ssa scaled_table(nabla_emitter *e, nabla_ssa flat) {
  uint32_t all[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) all[i] = i;
  nabla_ssa values = nabla_emit_code_value(e, k_i32_lanes(e, all));
  nabla_ssa block = nabla_emit_block(e, flat);
  nabla_ssa zero = nabla_emit_zero_value(e, block);
  if (zero) zero = k_broadcast(e, "f32", zero);
  nabla_ssa scale = k_broadcast(e, "f32", nabla_emit_scale_at(e, block));
  return nabla_emit_scaled(e, values, zero, scale);
}

/* ---- one row ---- */

/* A row of a panel. */
typedef struct piece {
  nabla_ssa flat;  /* of its first element */
  nabla_ssa count; /* elements */
  nabla_ssa out;   /* address */
} piece;

static void store(nabla_emitter *e, const piece *p, nabla_ssa at,
                  nabla_ssa values) {
  k_write_lanes(e, nabla_floats_at(p->out), at, values);
}

static void words(nabla_emitter *e, const piece *p) {
  const nabla_fused_spec *spec = e->spec;
  unsigned bits = spec->w.format.encoding->bits;
  unsigned vectors = (unsigned)(unit_of(spec) / NABLA_LANES);
  nabla_ssa table = has_row_scale(spec) ? scaled_table(e, p->flat) : 0;
  nabla_loop units;
  k_loop_begin(e, &units, k_i64(e, 0), p->count, unit_of(spec), 0, NULL);
  nabla_ssa flat = k_add(e, p->flat, units.induction);
  nabla_ssa byte = k_divide(e, flat, 8 / bits);
  nabla_ssa here = table ? table : scaled_table(e, flat);
  for (unsigned i = 0; i < vectors; i++) {
    nabla_ssa at = k_add_constant(e, byte, (uint64_t)i * 2 * bits);
    nabla_ssa codes = bits == 4 ? split_quads(e, at) : split_few(e, at);
    store(e, p, k_add_constant(e, units.induction, (uint64_t)i * NABLA_LANES),
          nabla_emit_table_lookup_in(e, here, codes));
  }
  k_loop_end(e, &units, NULL);
}

/* The destination of the weights of a block. */
typedef struct block_place {
  const piece *p;
  nabla_ssa at;
} block_place;

static void store_block(nabla_emitter *e, uint32_t element, nabla_ssa weights,
                        void *context) {
  const block_place *place = context;
  store(e, place->p, k_add_constant(e, place->at, element), weights);
}

static void blocks(nabla_emitter *e, const piece *p) {
  const nabla_ggml *format = e->spec->w.ggml;
  uint64_t unit = nabla_common_divisor(alignment(e->spec, 1), UNIT);
  if (unit < format->elements) unit = format->elements;
  nabla_loop units;
  k_loop_begin(e, &units, k_i64(e, 0), p->count, unit, 0, NULL);
  nabla_ssa base = nabla_emit_code_byte(e, k_add(e, p->flat, units.induction));
  for (uint64_t i = 0; i < unit / format->elements; i++) {
    block_place place = {
        p, k_add_constant(e, units.induction, i * format->elements)};
    nabla_emit_block_weights(e, k_add_constant(e, base, i * format->bytes), 1,
                             store_block, &place);
  }
  k_loop_end(e, &units, NULL);
}

/* `count` vectors of any weight from `at` on, the last one of `width`. */
static void vectors(nabla_emitter *e, const piece *p, nabla_ssa scale,
                    nabla_ssa at, unsigned count, unsigned width) {
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa here = k_add_constant(e, at, (uint64_t)i * NABLA_LANES);
    nabla_window window = {
        .flat = k_add(e, p->flat, here),
        .width = i + 1 < count ? NABLA_LANES : width,
        .scale = scale,
        .aligned = nabla_common_divisor(alignment(e->spec, 0), NABLA_LANES)};
    store(e, p, here, nabla_emit_dequantize(e, &window));
  }
}

static void windows(nabla_emitter *e, const piece *p) {
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_LANES);
  /* repeated where `at` must be a constant modulo a byte or block */
  unsigned unit = alignment(spec, 1) % 64 ? NABLA_LANES : 64;
  nabla_ssa scale = has_row_scale(spec) ? nabla_emit_scale(e, p->flat) : 0;
  nabla_ssa whole = k_divide(e, p->count, NABLA_LANES);
  whole = k_multiply(e, whole, NABLA_LANES);
  nabla_loop units;
  k_loop_begin(e, &units, k_i64(e, 0), whole, unit, 0, NULL);
  vectors(e, p, scale, units.induction, unit / NABLA_LANES, NABLA_LANES);
  k_loop_end(e, &units, NULL);
  if (!rest) return;
  nabla_ssa some =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", whole, p->count);
  k_line(e, "scf.if %%v%u {", some);
  vectors(e, p, scale, whole, 1, rest);
  k_line(e, "}");
}

/* ---- all rows ---- */

/* The flat index of row `row` of the panel at its k. */
static nabla_ssa row_flat(nabla_emitter *e, const nabla_small_m_panel *panel,
                          nabla_ssa row) {
  const nabla_fused_spec *spec = e->spec;
  row = k_add(e, panel->first, row);
  row = k_minimum(e, row, panel->last);
  nabla_ssa flat = spec->any_size
                       ? k_product(e, row, e->k)
                       : nabla_emit_flat(e, row, nabla_spec_row_stride(spec));
  return k_add(e, flat, panel->k);
}

void nabla_emit_pack_b_small_m(nabla_emitter *e,
                               const nabla_small_m_panel *panel) {
  const nabla_fused_spec *spec = e->spec;
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), panel->rows, 1, 0, NULL);
  nabla_ssa to = k_multiply(e, rows.induction, NABLA_SMALL_M_DEPTH * 4);
  piece p = {.flat = row_flat(e, panel, rows.induction),
             .count = panel->count,
             .out = k_address(e, panel->out, to)};
  if (spec->w.ggml && nabla_block_weights_apply(spec))
    blocks(e, &p);
  else if (by_word(spec))
    words(e, &p);
  else
    windows(e, &p);
  k_loop_end(e, &rows, NULL);
}

void nabla_emit_pack_b_small_m_prefetch(nabla_emitter *e,
                                        const nabla_small_m_panel *panel) {
  nabla_loop rows, lines;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &rows, zero, panel->rows, 1, 0, NULL);
  nabla_ssa flat = row_flat(e, panel, rows.induction);
  nabla_ssa from = nabla_emit_code_byte(e, flat);
  nabla_ssa to = nabla_emit_code_byte(e, k_add(e, flat, panel->count));
  k_loop_begin(e, &lines, from, to, 64, 0, NULL);
  k_prefetch(e, e->codes, lines.induction);
  k_loop_end(e, &lines, NULL);
  if (e->spec->w.format.encoding) nabla_emit_prefetch_scale(e, flat);
  k_loop_end(e, &rows, NULL);
}
