/* Packing of weight panels to bytes with rows in lanes; see
 * gemm_int8_vnni.h. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/gemm_int8_vnni.h"
#include "lib/kernels/int8/gemv_int8_ggml.h"
#include "lib/kernels/tile_util.h"

nabla_int8_vnni_areas nabla_int8_vnni_areas_of(const nabla_int8 *self) {
  nabla_int8_vnni_areas out = {.spans = self->span < NABLA_PANEL_DEPTH
                                            ? NABLA_PANEL_DEPTH / self->span
                                            : 1};
  uint64_t each = out.spans * NABLA_PANEL_GROUPS * NABLA_BYTES;
  out.scales = NABLA_PANEL_GROUPS * NABLA_PANEL_GROUP;
  out.zeros = out.scales + each;
  out.sums = out.zeros + (self->has_zero ? each : 0);
  out.size = out.sums + (uint64_t)NABLA_PANEL_WAITING * NABLA_PANEL_COLUMNS * 4;
  return out;
}

nabla_ssa nabla_emit_int8_after(nabla_emitter *e, nabla_ssa base,
                                uint64_t bytes) {
  return k_address(e, base, k_i64(e, bytes));
}

/* Stores the bytes of a vector of codes, which is number `dword` of a group. */
static void store_bytes(nabla_emitter *e, const nabla_int8 *self,
                        nabla_ssa codes, nabla_ssa to, nabla_ssa dword) {
  nabla_ssa w[NABLA_INT8_PARTS] = {0};
  nabla_emit_int8_split(e, self, codes, w);
  nabla_ssa byte = k_multiply(e, dword, (uint64_t)NABLA_BYTES * self->parts);
  for (unsigned i = 0; i < self->parts; i++)
    k_store(e, "vector<64xi8>", w[i], to,
            k_add_constant(e, byte, (uint64_t)i * NABLA_BYTES), 64);
}

/* Decodes `count` dwords of 16 rows, with `first` of the rows' dwords. */
static void interleave_codes(nabla_emitter *e, const nabla_int8_panel *p,
                             const nabla_ssa *rows, nabla_ssa at,
                             unsigned count, nabla_ssa to) {
  nabla_ssa v[NABLA_LANES];
  nabla_ssa first = k_divide(e, p->k, (uint64_t)4 * p->self->parts);
  nabla_emit_int8_interleave(e, rows, k_add(e, first, at), count, v);
  for (unsigned i = 0; i < count; i++)
    store_bytes(e, p->self, v[i], to, k_add_constant(e, at, i));
}

/* The codes of 16 columns from the weight in place. */
static void decode_in_place(nabla_emitter *e, const nabla_int8_panel *p,
                            const nabla_ssa *rows, nabla_ssa to) {
  uint64_t each = (uint64_t)4 * p->self->parts;
  unsigned rest =
      (unsigned)(nabla_int8_rest(e->spec, each * NABLA_LANES) / each);
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa dwords = k_divide(e, p->count, each);
  nabla_ssa whole = k_divide(e, dwords, NABLA_LANES);
  whole = k_multiply(e, whole, NABLA_LANES);
  nabla_loop loop, last;
  k_loop_begin(e, &loop, zero, whole, NABLA_LANES, 0, NULL);
  interleave_codes(e, p, rows, loop.induction, NABLA_LANES, to);
  k_loop_end(e, &loop, NULL);
  if (!rest) return;
  k_loop_begin(e, &last, whole, dwords, NABLA_LANES, 0, NULL);
  interleave_codes(e, p, rows, last.induction, rest, to);
  k_loop_end(e, &last, NULL);
}

/* The same from the prepacked group at address `from`. */
static void decode_packed(nabla_emitter *e, const nabla_int8_panel *p,
                          nabla_ssa from, nabla_ssa to) {
  uint64_t each = (uint64_t)4 * p->self->parts;
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa dwords = k_divide(e, p->count, each);
  nabla_ssa first = k_divide(e, p->k, each);
  k_loop_begin(e, &loop, zero, dwords, 1, 0, NULL);
  nabla_ssa at = k_add(e, first, loop.induction);
  nabla_ssa codes =
      k_load(e, "vector<16xi32>", from, k_multiply(e, at, NABLA_BYTES), 64);
  store_bytes(e, p->self, codes, to, loop.induction);
  k_loop_end(e, &loop, NULL);
}

/* Copies `count` vectors of 16 f32. */
static void copy_spans(nabla_emitter *e, nabla_ssa count, nabla_ssa from,
                       nabla_ssa to) {
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &loop, zero, count, 1, 0, NULL);
  nabla_ssa byte = k_multiply(e, loop.induction, NABLA_BYTES);
  k_store(e, "vector<16xf32>", k_load(e, "vector<16xf32>", from, byte, 64), to,
          byte, 64);
  k_loop_end(e, &loop, NULL);
}

/* Scales and zero points of a packed group. */
static void copy_scales(nabla_emitter *e, const nabla_int8_panel *p,
                        nabla_ssa from, nabla_ssa count, nabla_ssa scales,
                        nabla_ssa zeros) {
  nabla_ssa first = k_divide(e, p->k, p->self->span);
  nabla_ssa at = k_address(e, from, k_multiply(e, first, NABLA_BYTES));
  copy_spans(e, count, nabla_emit_int8_after(e, at, p->layout.scales), scales);
  if (p->self->has_zero)
    copy_spans(e, count, nabla_emit_int8_after(e, at, p->layout.zeros), zeros);
}

void nabla_emit_int8_pack_b(nabla_emitter *e, const nabla_int8_panel *p) {
  const nabla_int8 *self = p->self;
  nabla_loop groups;
  nabla_ssa rows[NABLA_LANES], flats[NABLA_LANES], count;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &groups, zero, p->width, NABLA_LANES, 0, NULL);
  nabla_ssa n = k_add(e, p->n, groups.induction);
  nabla_ssa group = k_divide(e, groups.induction, NABLA_LANES);
  nabla_ssa to =
      k_address(e, e->scratch, k_multiply(e, group, NABLA_PANEL_GROUP));
  nabla_ssa at = k_address(e, e->scratch,
                           k_multiply(e, group, p->areas.spans * NABLA_BYTES));
  nabla_ssa scales = nabla_emit_int8_after(e, at, p->areas.scales);
  nabla_ssa zeros = nabla_emit_int8_after(e, at, p->areas.zeros);
  count = p->areas.spans == 1 ? k_i64(e, 1) : k_divide(e, p->count, self->span);
  if (e->spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED) {
    nabla_ssa number = k_divide(e, n, NABLA_LANES);
    nabla_ssa from =
        k_address(e, e->packed, k_multiply(e, number, p->layout.size));
    decode_packed(e, p, from, to);
    copy_scales(e, p, from, count, scales, zeros);
  } else {
    nabla_emit_int8_rows(e, self, n, rows, flats);
    if (e->spec->w.ggml) {
      nabla_emit_int8_pack_b_ggml(
          e, flats,
          &(nabla_int8_block_panel){p->k, p->count, to, scales, zeros});
      k_loop_end(e, &groups, NULL);
      return;
    }
    decode_in_place(e, p, rows, to);
    nabla_emit_int8_spans(e, self, flats, p->k, count, scales, zeros);
  }
  k_loop_end(e, &groups, NULL);
}
