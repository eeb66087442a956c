/* Packing of panels by dwords; see pack_b_dwords.h. */
#include "lib/kernels/f32/pack_b_dwords.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

/* Prefetch distances in elements: of codes, the next panel of 256, and of
 * scales, of which a cache line holds many. */
#define CODES_AHEAD  256u
#define SCALES_AHEAD 512u

unsigned nabla_dwords_step(const nabla_fused_spec *spec) {
  return 16 * 32 / spec->w.format.encoding->bits;
}

/* Each row has one scale, or all have, whatever their length. */
static int has_row_scales(const nabla_fused_spec *spec) {
  return spec->any_size && spec->w.format.granularity != NABLA_PER_BLOCK;
}

int nabla_panel_by_dwords(const nabla_fused_spec *spec, unsigned aligned) {
  const nabla_format *format = &spec->w.format;
  if (!format->encoding) return 0;
  uint64_t step = nabla_dwords_step(spec), block = format->block;
  uint64_t k = spec->any_size ? spec->any_size : spec->k;
  if (k % step || nabla_row_alignment(spec, aligned) % step) return 0;
  if (has_row_scales(spec)) return 1;
  if (block >= step) return block % step == 0;
  return step % block == 0 && step / block <= NABLA_LANES;
}

/* ---- dwords first: transposed, then decoded -------------------------------
 */

unsigned nabla_dwords_groups(const nabla_fused_spec *spec) {
  uint64_t step = nabla_dwords_step(spec), block = spec->w.format.block;
  return has_row_scales(spec) || block >= step ? 1 : (unsigned)(step / block);
}

/* The scales, and zero points, of the blocks of a step at `flat`, for lane
 * `row`, to the scratch. */
static void load_scales(nabla_emitter *e, const nabla_panel *panel,
                        nabla_ssa flat, nabla_ssa row) {
  nabla_array_ref out = nabla_floats_at(panel->scratch);
  nabla_ssa first = nabla_emit_block(e, flat);
  for (unsigned g = 0; g < nabla_dwords_groups(e->spec); g++) {
    nabla_ssa index = k_add_constant(e, first, g);
    uint64_t at = (uint64_t)g * NABLA_LANES;
    k_write(e, out, k_add_constant(e, row, NABLA_DWORDS_SCALES / 4 + at),
            nabla_emit_scale_at(e, index));
    nabla_ssa zero = nabla_emit_zero_value(e, index);
    if (zero)
      k_write(e, out, k_add_constant(e, row, NABLA_DWORDS_ZEROS / 4 + at),
              zero);
  }
}

/* One by one: that is little code, and the copies stay in the first cache. */
void nabla_emit_dwords_collect(nabla_emitter *e, const nabla_panel *panel,
                               nabla_ssa first, nabla_ssa k) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_LANES), 1, 0, NULL);
  nabla_ssa row = k_add(e, first, rows.induction);
  nabla_ssa flat = nabla_panel_flat(e, panel, row, k);
  nabla_ssa byte = k_divide(e, flat, 8 / encoding->bits);
  k_prefetch(e, e->codes,
             k_add_constant(e, byte, CODES_AHEAD / (8 / encoding->bits)));
  if (e->spec->w.format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(e, k_add_constant(e, flat, SCALES_AHEAD));
  k_store(e, "vector<16xi32>", k_load(e, "vector<16xi32>", e->codes, byte, 1),
          panel->scratch, k_multiply(e, rows.induction, 64), 64);
  load_scales(e, panel, flat, rows.induction);
  k_loop_end(e, &rows, NULL);
}

/* The bit at which the code of element `i` begins in its dword. */
static unsigned place_of(const nabla_encoding *encoding, unsigned i) {
  unsigned per_byte = 8 / encoding->bits;
  return encoding->high_first ? i ^ (per_byte - 1) : i;
}

void nabla_emit_dwords_transpose(nabla_emitter *e, nabla_ssa from,
                                 nabla_ssa to) {
  nabla_ssa dwords[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    dwords[i] =
        k_load(e, "vector<16xi32>", from, k_i64(e, (uint64_t)i * 64), 64);
  k_transpose(e, "i32", dwords);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    k_store(e, "vector<16xi32>", dwords[i], to, k_i64(e, (uint64_t)i * 64), 64);
}

nabla_ssa nabla_emit_dword_value(nabla_emitter *e, nabla_ssa dword,
                                 unsigned i) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  nabla_ssa by = k_i32(e, NABLA_VECTOR, encoding->bits * place_of(encoding, i));
  return nabla_emit_code_value(
      e, k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>", dword, by));
}

void nabla_emit_dwords_dequantize(nabla_emitter *e, const nabla_dwords *from,
                                  const nabla_panel *panel, nabla_ssa to) {
  const nabla_fused_spec *spec = e->spec;
  const nabla_format *format = &spec->w.format;
  unsigned per_dword = 32 / format->encoding->bits;
  unsigned groups = nabla_dwords_groups(spec);
  nabla_loop dwords;
  nabla_ssa zero = k_i64(e, 0), zeros = 0;
  k_loop_begin(e, &dwords, zero, k_i64(e, NABLA_LANES), 1, 0, NULL);
  nabla_ssa dword = k_load(e, "vector<16xi32>", from->dwords,
                           k_multiply(e, dwords.induction, 64), 64);
  nabla_ssa group = k_divide(e, dwords.induction, NABLA_LANES / groups);
  group = k_multiply(e, group, NABLA_LANES);
  nabla_ssa scales =
      k_read_lanes(e, nabla_floats_at(from->scales), group, NABLA_LANES);
  if (format->zero_point)
    zeros = k_read_lanes(e, nabla_floats_at(from->zeros), group, NABLA_LANES);
  nabla_ssa row =
      k_multiply(e, dwords.induction, (uint64_t)per_dword * panel->width);
  row = k_add(e, to, row);
  for (unsigned i = 0; i < per_dword; i++)
    k_write_lanes(e, nabla_floats_at(panel->out),
                  k_add_constant(e, row, (uint64_t)i * panel->width),
                  nabla_emit_scaled(e, nabla_emit_dword_value(e, dword, i),
                                    zeros, scales));
  k_loop_end(e, &dwords, NULL);
}

nabla_dwords nabla_dwords_in_scratch(nabla_emitter *e, nabla_ssa scratch) {
  nabla_ssa scales = k_i64(e, NABLA_DWORDS_SCALES);
  nabla_ssa zeros = k_i64(e, NABLA_DWORDS_ZEROS);
  return (nabla_dwords){scratch, k_address(e, scratch, scales),
                        k_address(e, scratch, zeros)};
}

void nabla_emit_pack_b_dwords(nabla_emitter *e, const nabla_panel *panel,
                              nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  nabla_dwords from = nabla_dwords_in_scratch(e, panel->scratch);
  k_loop_begin(e, &loop, zero, panel->count, nabla_dwords_step(e->spec), 0,
               NULL);
  nabla_emit_dwords_collect(e, panel, row, k_add(e, panel->k, loop.induction));
  nabla_emit_dwords_transpose(e, panel->scratch, panel->scratch);
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  nabla_emit_dwords_dequantize(e, &from, panel, k_add(e, to, row));
  k_loop_end(e, &loop, NULL);
}
