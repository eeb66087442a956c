/* See prepack.h. */
#include "lib/kernels/f32/prepack.h"

#include "lib/kernels/builder/transpose.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define VECTOR 64u /* bytes */

/* Panels begin at multiples of it. */
#define ALIGNED 256u

static int is_dense(const nabla_fused_spec *spec) {
  return !spec->format.encoding && !spec->ggml;
}

static uint64_t dense_bytes(const nabla_fused_spec *spec) {
  return nabla_dtype_bits(spec->dense) / 8;
}

/* Bytes of the record of a step before its dwords, and of it all. */
static uint64_t words_at(const nabla_fused_spec *spec) {
  uint64_t each = spec->format.zero_point ? 2 * VECTOR : VECTOR;
  return nabla_words_groups(spec) * each;
}

static uint64_t record_bytes(const nabla_fused_spec *spec) {
  return words_at(spec) + (uint64_t)NABLA_LANES * VECTOR;
}

uint64_t nabla_packed_bytes(const nabla_fused_spec *spec, uint64_t elements) {
  return is_dense(spec)
             ? elements * NABLA_LANES * dense_bytes(spec)
             : elements / nabla_words_step(spec) * record_bytes(spec);
}

int nabla_packed_applies(const nabla_fused_spec *spec) {
  if (spec->layout != NABLA_WEIGHT_LAYOUT_PREPACKED || spec->ggml ||
      spec->any_size || !spec->k || !nabla_spec_is_row(spec))
    return 0;
  if (!is_dense(spec) && !nabla_panel_by_words(spec, ALIGNED)) return 0;
  return spec->k <= UINT32_MAX / VECTOR / 2; /* a size in nabla_kernel_tiles */
}

nabla_kernel_tiles nabla_packed_tiles(const nabla_fused_spec *spec) {
  return (nabla_kernel_tiles){NABLA_LANES, (uint32_t)spec->k,
                              (uint32_t)nabla_packed_bytes(spec, spec->k)};
}

nabla_ssa nabla_emit_packed_at(nabla_emitter *emitter, nabla_ssa row,
                               nabla_ssa k) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t step = is_dense(spec) ? 1 : nabla_words_step(spec);
  nabla_ssa last = nabla_emit_i64(emitter, spec->n - 1);
  nabla_ssa group = nabla_emit_divide(
      emitter, nabla_emit_minimum(emitter, row, last), NABLA_LANES);
  nabla_ssa byte =
      nabla_emit_multiply(emitter, group, nabla_packed_bytes(spec, spec->k));
  k = nabla_emit_divide(emitter, k, step);
  k = nabla_emit_multiply(emitter, k, nabla_packed_bytes(spec, step));
  return nabla_emit_address(emitter, emitter->packed,
                            nabla_emit_add(emitter, byte, k));
}

nabla_words nabla_packed_words(nabla_emitter *emitter, nabla_ssa record) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_ssa zeros =
      nabla_emit_i64(emitter, (uint64_t)nabla_words_groups(spec) * VECTOR);
  nabla_ssa words = nabla_emit_i64(emitter, words_at(spec));
  return (nabla_words){nabla_emit_address(emitter, record, words), record,
                       nabla_emit_address(emitter, record, zeros)};
}

/* ---- making it ------------------------------------------------------------
 */

/* The step at k of the panel of 16 rows. */
static void pack_step(nabla_emitter *emitter, const nabla_panel *panel,
                      nabla_ssa k) {
  nabla_words from = nabla_words_in_scratch(emitter, panel->scratch);
  nabla_words to = nabla_packed_words(
      emitter, nabla_emit_packed_at(emitter, panel->first, k));
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_emit_words_collect(emitter, panel, zero, k);
  nabla_emit_words_turn(emitter, from.words, to.words);
  for (unsigned g = 0; g < nabla_words_groups(emitter->spec); g++) {
    nabla_ssa at = nabla_emit_i64(emitter, (uint64_t)g * NABLA_LANES);
    for (int zeros = 0; zeros <= emitter->spec->format.zero_point; zeros++)
      nabla_emit_write_lanes(
          emitter, nabla_floats_at(zeros ? to.zeros : to.scales), at,
          nabla_emit_read_lanes(
              emitter, nabla_floats_at(zeros ? from.zeros : from.scales), at,
              NABLA_LANES));
  }
}

/* Elements [k, k + width) of 16 rows of a dense weight. */
static void pack_dense(nabla_emitter *emitter, const nabla_panel *panel,
                       nabla_ssa k, unsigned width) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_ssa rows[NABLA_LANES];
  nabla_array_ref w = {emitter->codes, spec->dense};
  nabla_array_ref to = {nabla_emit_packed_at(emitter, panel->first, k),
                        spec->dense};
  for (unsigned i = 0; i < NABLA_LANES; i++)
    rows[i] = nabla_emit_read_lanes(
        emitter, w,
        nabla_panel_flat(emitter, panel, nabla_emit_i64(emitter, i), k), width);
  nabla_emit_transpose(emitter, "f32", rows);
  for (unsigned i = 0; i < width; i++)
    nabla_emit_write_lanes(emitter, to,
                           nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES),
                           rows[i]);
}

void nabla_emit_prepack(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t step = is_dense(spec) ? NABLA_LANES : nabla_words_step(spec);
  nabla_loop groups, steps;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa whole = nabla_emit_i64(emitter, spec->k / step * step);
  nabla_loop_begin(emitter, &groups, emitter->begin, emitter->end, NABLA_LANES,
                   0, NULL);
  nabla_panel panel = {.first = groups.induction,
                       .width = NABLA_LANES,
                       .k = zero,
                       .aligned = ALIGNED,
                       .scratch = emitter->scratch};
  nabla_loop_begin(emitter, &steps, zero, whole, step, 0, NULL);
  if (is_dense(spec))
    pack_dense(emitter, &panel, steps.induction, NABLA_LANES);
  else
    pack_step(emitter, &panel, steps.induction);
  nabla_loop_end(emitter, &steps, NULL);
  if (spec->k % step)
    pack_dense(emitter, &panel, whole, (unsigned)(spec->k % step));
  nabla_loop_end(emitter, &groups, NULL);
}

/* ---- reading it -----------------------------------------------------------
 */

static void widen_panel(nabla_emitter *emitter, const nabla_panel *panel,
                        nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa first = nabla_emit_add(emitter, panel->first, row);
  nabla_array_ref from = {nabla_emit_packed_at(emitter, first, panel->k),
                          emitter->spec->dense};
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), panel->count, 1,
                   0, NULL);
  nabla_ssa at = nabla_emit_multiply(emitter, loop.induction, NABLA_LANES);
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  nabla_ssa w = nabla_emit_read_lanes(emitter, from, at, NABLA_LANES);
  nabla_emit_write_lanes(
      emitter, nabla_floats_at(panel->out), nabla_emit_add(emitter, to, row),
      nabla_emit_round(emitter, NABLA_VECTOR, emitter->spec->w_type, w));
  nabla_loop_end(emitter, &loop, NULL);
}

int nabla_packed_is_panel(const nabla_fused_spec *spec) {
  return spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED && is_dense(spec) &&
         spec->dense == NABLA_DTYPE_F32 && spec->w_type == NABLA_DTYPE_F32;
}

void nabla_emit_packed_panel(nabla_emitter *emitter, const nabla_panel *panel,
                             nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_loop loop;
  if (is_dense(spec)) {
    widen_panel(emitter, panel, row);
    return;
  }
  nabla_ssa first = nabla_emit_add(emitter, panel->first, row);
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), panel->count,
                   nabla_words_step(spec), 0, NULL);
  nabla_ssa k = nabla_emit_add(emitter, panel->k, loop.induction);
  nabla_words from =
      nabla_packed_words(emitter, nabla_emit_packed_at(emitter, first, k));
  nabla_ssa to = nabla_emit_multiply(emitter, loop.induction, panel->width);
  nabla_emit_words_decode(emitter, &from, panel,
                          nabla_emit_add(emitter, to, row));
  nabla_loop_end(emitter, &loop, NULL);
}
