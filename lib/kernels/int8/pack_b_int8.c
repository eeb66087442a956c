/* Decoding panels of w to bytes with rows in lanes; see gemm_int8_vnni.h. */
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/gemm_int8_vnni.h"
#include "lib/kernels/int8/gemv_int8_ggml.h"
#include "lib/kernels/tile_util.h"

nabla_int8_room nabla_int8_room_of(const nabla_int8 *self) {
  nabla_int8_room out = {.spans = self->span < NABLA_PANEL_DEPTH
                                      ? NABLA_PANEL_DEPTH / self->span
                                      : 1};
  uint64_t each = out.spans * NABLA_PANEL_GROUPS * NABLA_BYTES;
  out.scales = NABLA_PANEL_GROUPS * NABLA_PANEL_GROUP;
  out.zeros = out.scales + each;
  out.sums = out.zeros + (self->has_zero ? each : 0);
  out.size = out.sums + (uint64_t)NABLA_PANEL_WAITING * NABLA_PANEL_COLUMNS * 4;
  return out;
}

nabla_ssa nabla_emit_int8_after(nabla_emitter *emitter, nabla_ssa base,
                                uint64_t bytes) {
  return nabla_emit_address(emitter, base, nabla_emit_i64(emitter, bytes));
}

/* Stores the bytes of a vector of codes, which is number `dword` of a group. */
static void store_bytes(nabla_emitter *emitter, const nabla_int8 *self,
                        nabla_ssa codes, nabla_ssa to, nabla_ssa dword) {
  nabla_ssa w[NABLA_INT8_PARTS] = {0};
  nabla_emit_int8_split(emitter, self, codes, w);
  nabla_ssa byte =
      nabla_emit_multiply(emitter, dword, (uint64_t)NABLA_BYTES * self->parts);
  for (unsigned i = 0; i < self->parts; i++)
    nabla_emit_store(
        emitter, "vector<64xi8>", w[i], to,
        nabla_emit_add_constant(emitter, byte, (uint64_t)i * NABLA_BYTES), 64);
}

/* Decodes `count` dwords of 16 rows, with `first` of the rows' dwords. */
static void turn_codes(nabla_emitter *emitter, const nabla_int8_panel *p,
                       const nabla_ssa *rows, nabla_ssa at, unsigned count,
                       nabla_ssa to) {
  nabla_ssa v[NABLA_LANES];
  nabla_ssa first =
      nabla_emit_divide(emitter, p->k, (uint64_t)4 * p->self->parts);
  nabla_emit_int8_turn(emitter, rows, nabla_emit_add(emitter, first, at), count,
                       v);
  for (unsigned i = 0; i < count; i++)
    store_bytes(emitter, p->self, v[i], to,
                nabla_emit_add_constant(emitter, at, i));
}

/* The codes of 16 columns from the weight in place. */
static void decode_in_place(nabla_emitter *emitter, const nabla_int8_panel *p,
                            const nabla_ssa *rows, nabla_ssa to) {
  uint64_t each = (uint64_t)4 * p->self->parts;
  unsigned rest =
      (unsigned)(nabla_int8_rest(emitter->spec, each * NABLA_LANES) / each);
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
static void decode_packed(nabla_emitter *emitter, const nabla_int8_panel *p,
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
static void copy_scales(nabla_emitter *emitter, const nabla_int8_panel *p,
                        nabla_ssa from, nabla_ssa count, nabla_ssa scales,
                        nabla_ssa zeros) {
  nabla_ssa first = nabla_emit_divide(emitter, p->k, p->self->span);
  nabla_ssa at = nabla_emit_address(
      emitter, from, nabla_emit_multiply(emitter, first, NABLA_BYTES));
  copy_spans(emitter, count,
             nabla_emit_int8_after(emitter, at, p->layout.scales), scales);
  if (p->self->has_zero)
    copy_spans(emitter, count,
               nabla_emit_int8_after(emitter, at, p->layout.zeros), zeros);
}

void nabla_emit_int8_panel(nabla_emitter *emitter, const nabla_int8_panel *p) {
  const nabla_int8 *self = p->self;
  nabla_loop groups;
  nabla_ssa rows[NABLA_LANES], flats[NABLA_LANES], count;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_loop_begin(emitter, &groups, zero, p->width, NABLA_LANES, 0, NULL);
  nabla_ssa n = nabla_emit_add(emitter, p->n, groups.induction);
  nabla_ssa group = nabla_emit_divide(emitter, groups.induction, NABLA_LANES);
  nabla_ssa to = nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_multiply(emitter, group, NABLA_PANEL_GROUP));
  nabla_ssa at = nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_multiply(emitter, group, p->room.spans * NABLA_BYTES));
  nabla_ssa scales = nabla_emit_int8_after(emitter, at, p->room.scales);
  nabla_ssa zeros = nabla_emit_int8_after(emitter, at, p->room.zeros);
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
    if (emitter->spec->ggml) {
      nabla_emit_int8_block_panel(
          emitter, flats,
          &(nabla_int8_block_panel){p->k, p->count, to, scales, zeros});
      nabla_loop_end(emitter, &groups, NULL);
      return;
    }
    decode_in_place(emitter, p, rows, to);
    nabla_emit_int8_spans(emitter, self, flats, p->k, count, scales, zeros);
  }
  nabla_loop_end(emitter, &groups, NULL);
}
