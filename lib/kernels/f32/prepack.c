/* The prepacked weight for f32; see prepack.h. */
#include "lib/kernels/f32/prepack.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"

#define VECTOR 64u /* bytes */

#define ALIGNED 256u /* elements of k; panels begin at multiples of it */

static int is_dense(const nabla_fused_spec *spec) {
  return spec->w.kind == NABLA_STORAGE_DENSE;
}

static uint64_t dense_bytes(const nabla_fused_spec *spec) {
  return nabla_dtype_bits(spec->w_stored) / 8;
}

/* The offset of the dwords in the record of a step: its scales, and its zero
 * points if there are any, are in front. */
static uint64_t dwords_at(const nabla_fused_spec *spec) {
  uint64_t each = spec->w.format.zero_point ? 2 * VECTOR : VECTOR;
  return nabla_dwords_groups(spec) * each;
}

static uint64_t record_bytes(const nabla_fused_spec *spec) {
  return dwords_at(spec) + (uint64_t)NABLA_LANES * VECTOR;
}

uint64_t nabla_packed_bytes(const nabla_fused_spec *spec, uint64_t elements) {
  return is_dense(spec)
             ? elements * NABLA_LANES * dense_bytes(spec)
             : elements / nabla_dwords_step(spec) * record_bytes(spec);
}

int nabla_packed_applies(const nabla_fused_spec *spec) {
  if (spec->layout != NABLA_WEIGHT_LAYOUT_PREPACKED || spec->w.ggml ||
      spec->any_size || !spec->k || !nabla_spec_is_row(spec))
    return 0;
  if (!is_dense(spec) && !nabla_panel_by_dwords(spec, ALIGNED)) return 0;
  return spec->k <= UINT32_MAX / VECTOR / 2; /* fits nabla_kernel_tiles */
}

nabla_kernel_tiles nabla_packed_tiles(const nabla_fused_spec *spec) {
  return (nabla_kernel_tiles){NABLA_LANES, (uint32_t)spec->k,
                              (uint32_t)nabla_packed_bytes(spec, spec->k)};
}

nabla_ssa nabla_emit_packed_at(nabla_emitter *e, nabla_ssa row, nabla_ssa k) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t step = is_dense(spec) ? 1 : nabla_dwords_step(spec);
  nabla_ssa last = k_i64(e, spec->n - 1);
  nabla_ssa group = k_divide(e, k_minimum(e, row, last), NABLA_LANES);
  nabla_ssa byte = k_multiply(e, group, nabla_packed_bytes(spec, spec->k));
  k = k_divide(e, k, step);
  k = k_multiply(e, k, nabla_packed_bytes(spec, step));
  return k_address(e, e->packed, k_add(e, byte, k));
}

nabla_dwords nabla_packed_dwords(nabla_emitter *e, nabla_ssa record) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa zeros = k_i64(e, (uint64_t)nabla_dwords_groups(spec) * VECTOR);
  nabla_ssa dwords = k_i64(e, dwords_at(spec));
  return (nabla_dwords){k_address(e, record, dwords), record,
                        k_address(e, record, zeros)};
}

/* ---- making it ------------------------------------------------------------
 */

/* The step at k of the panel of 16 rows. */
static void pack_step(nabla_emitter *e, const nabla_panel *panel, nabla_ssa k) {
  nabla_dwords from = nabla_dwords_in_scratch(e, panel->scratch);
  nabla_dwords to =
      nabla_packed_dwords(e, nabla_emit_packed_at(e, panel->first, k));
  nabla_ssa zero = k_i64(e, 0);
  nabla_emit_dwords_collect(e, panel, zero, k);
  nabla_emit_dwords_transpose(e, from.dwords, to.dwords);
  for (unsigned g = 0; g < nabla_dwords_groups(e->spec); g++) {
    nabla_ssa at = k_i64(e, (uint64_t)g * NABLA_LANES);
    for (int zeros = 0; zeros <= e->spec->w.format.zero_point; zeros++)
      k_write_lanes(
          e, nabla_floats_at(zeros ? to.zeros : to.scales), at,
          k_read_lanes(e, nabla_floats_at(zeros ? from.zeros : from.scales), at,
                       NABLA_LANES));
  }
}

/* Elements [k, k + width) of 16 rows of a dense weight. */
static void pack_dense(nabla_emitter *e, const nabla_panel *panel, nabla_ssa k,
                       unsigned width) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa rows[NABLA_LANES];
  nabla_array_ref w = {e->codes, spec->w_stored};
  nabla_array_ref to = {nabla_emit_packed_at(e, panel->first, k),
                        spec->w_stored};
  for (unsigned i = 0; i < NABLA_LANES; i++)
    rows[i] =
        k_read_lanes(e, w, nabla_panel_flat(e, panel, k_i64(e, i), k), width);
  k_transpose(e, "f32", rows);
  for (unsigned i = 0; i < width; i++)
    k_write_lanes(e, to, k_i64(e, (uint64_t)i * NABLA_LANES), rows[i]);
}

void nabla_emit_prepack(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t step = is_dense(spec) ? NABLA_LANES : nabla_dwords_step(spec);
  nabla_loop groups, steps;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_i64(e, spec->k / step * step);
  k_loop_begin(e, &groups, e->begin, e->end, NABLA_LANES, 0, NULL);
  nabla_panel panel = {.first = groups.induction,
                       .width = NABLA_LANES,
                       .k = zero,
                       .aligned = ALIGNED,
                       .scratch = e->scratch};
  k_loop_begin(e, &steps, zero, whole, step, 0, NULL);
  if (is_dense(spec))
    pack_dense(e, &panel, steps.induction, NABLA_LANES);
  else
    pack_step(e, &panel, steps.induction);
  k_loop_end(e, &steps, NULL);
  if (spec->k % step) pack_dense(e, &panel, whole, (unsigned)(spec->k % step));
  k_loop_end(e, &groups, NULL);
}

/* ---- reading it -----------------------------------------------------------
 */

static void widen_panel(nabla_emitter *e, const nabla_panel *panel,
                        nabla_ssa row) {
  nabla_loop loop;
  nabla_ssa first = k_add(e, panel->first, row);
  nabla_array_ref from = {nabla_emit_packed_at(e, first, panel->k),
                          e->spec->w_stored};
  k_loop_begin(e, &loop, k_i64(e, 0), panel->count, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, loop.induction, NABLA_LANES);
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  nabla_ssa w = k_read_lanes(e, from, at, NABLA_LANES);
  k_write_lanes(e, nabla_floats_at(panel->out), k_add(e, to, row),
                k_round(e, NABLA_VECTOR, e->spec->w_type, w));
  k_loop_end(e, &loop, NULL);
}

int nabla_packed_is_panel(const nabla_fused_spec *spec) {
  return spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED && is_dense(spec) &&
         spec->w_stored == NABLA_DTYPE_F32 && spec->w_type == NABLA_DTYPE_F32;
}

void nabla_emit_packed_panel(nabla_emitter *e, const nabla_panel *panel,
                             nabla_ssa row) {
  const nabla_fused_spec *spec = e->spec;
  nabla_loop loop;
  if (is_dense(spec)) {
    widen_panel(e, panel, row);
    return;
  }
  nabla_ssa first = k_add(e, panel->first, row);
  k_loop_begin(e, &loop, k_i64(e, 0), panel->count, nabla_dwords_step(spec), 0,
               NULL);
  nabla_ssa k = k_add(e, panel->k, loop.induction);
  nabla_dwords from = nabla_packed_dwords(e, nabla_emit_packed_at(e, first, k));
  nabla_ssa to = k_multiply(e, loop.induction, panel->width);
  nabla_emit_dwords_dequantize(e, &from, panel, k_add(e, to, row));
  k_loop_end(e, &loop, NULL);
}
