/* Packing of GGUF blocks to bytes with rows of w in lanes; see
 * gemv_int8_ggml.h. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "lib/kernels/int8/gemv_int8_ggml.h"

static uint32_t part_of(const nabla_ggml *format) {
  switch (format->layout->sub) {
    case NABLA_GGML_SUB_PACKED6:
      return NABLA_GGML_PACKED6_PART;
    case NABLA_GGML_SUB_BYTES:
      return NABLA_GGML_BYTES_PART;
    default:
      return format->elements;
  }
}

int nabla_int8_panel_of(const nabla_fused_spec *spec, nabla_int8 *out) {
  nabla_int8_blocks self;
  if (!nabla_int8_blocks_of(spec, &self)) return 0;
  *out = self.base;
  out->bits = 8;
  out->parts = 1;
  out->block = out->span = part_of(spec->w.ggml);
  out->has_min = out->has_zero = spec->w.ggml->layout->min >= 0;
  return 1;
}

/* Stores bytes of one line of 16 rows: of each row 16 dwords of a vector, which
 * become 16 vectors of a dword of each row. */
static void store_line(nabla_emitter *e, const nabla_int8_blocks *self,
                       const nabla_int8_line_ref rows[NABLA_LANES],
                       uint32_t vector, nabla_ssa to) {
  const nabla_ggml *format = self->format;
  nabla_ssa v[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    v[i] = k_bitcast(e, "vector<64xi8>", "vector<16xi32>",
                     nabla_emit_int8_block_bytes(e, self, &rows[i], vector));
  nabla_emit_int8_transpose(e, v);
  for (uint32_t i = 0; i < NABLA_LANES; i++) {
    uint32_t element = nabla_int8_blocks_element(self, vector, 4 * i);
    if (element >= rows[0].blocks * format->elements) continue;
    k_store(e, "vector<16xi32>", v[i], to,
            k_i64(e, (uint64_t)element / 4 * NABLA_BYTES), 64);
  }
}

/* Decodes the line of `blocks` blocks at element `at` of the panel. */
static void decode_line(nabla_emitter *e, const nabla_int8_blocks *self,
                        const nabla_ssa *flats, const nabla_int8_block_panel *p,
                        nabla_ssa at, uint32_t blocks) {
  const nabla_ggml *format = self->format;
  nabla_int8_line_ref rows[NABLA_LANES];
  nabla_ssa k = k_add(e, p->k, at);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa block = k_divide(e, k_add(e, flats[i], k), format->elements);
    rows[i] =
        (nabla_int8_line_ref){k_multiply(e, block, format->bytes), blocks};
  }
  nabla_ssa to = k_address(e, p->bytes, k_multiply(e, at, NABLA_LANES));
  for (uint32_t v = 0; v < self->vectors; v++) store_line(e, self, rows, v, to);
}

static void store_lanes(nabla_emitter *e, nabla_ssa value, nabla_ssa to,
                        nabla_ssa at, uint32_t part) {
  nabla_ssa byte = k_add_constant(e, at, (uint64_t)part * NABLA_BYTES);
  value = k_bitcast(e, "vector<16xi32>", "vector<16xf32>", value);
  k_store(e, "vector<16xf32>", value, to, byte, 64);
}

/* Factors and minima of all parts of the block at element `at`: a vector for
 * each row, transposed. */
static void store_parts(nabla_emitter *e, const nabla_ssa *flats,
                        const nabla_int8_block_panel *p, nabla_ssa at) {
  const nabla_ggml *format = e->spec->w.ggml;
  int has_min = format->layout->min >= 0;
  uint32_t part = part_of(format);
  nabla_ssa k = k_add(e, p->k, at), v[NABLA_LANES];
  nabla_ssa to = k_multiply(e, k_divide(e, at, part), NABLA_BYTES);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa block = k_divide(e, k_add(e, flats[i], k), format->elements);
    v[i] = nabla_emit_ggml_sub_lanes(e, k_multiply(e, block, format->bytes));
    v[i] = k_bitcast(e, "vector<16xf32>", "vector<16xi32>", v[i]);
  }
  nabla_emit_int8_transpose(e, v);
  for (uint32_t j = 0; j < format->elements / part; j++) {
    store_lanes(e, v[has_min ? 2 * j : j], p->scales, to, j);
    if (has_min) store_lanes(e, v[2 * j + 1], p->minima, to, j);
  }
}

/* f16 at byte `more` of a block of each row, stored as f32. */
static void store_halves(nabla_emitter *e, const nabla_ssa bases[NABLA_LANES],
                         uint32_t more, nabla_ssa to, nabla_ssa at) {
  nabla_ssa half[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    half[i] = k_load(e, "i16", e->codes, k_add_constant(e, bases[i], more), 1);
  nabla_ssa all = k_from_elements(e, "i16", half);
  k_store(e, "vector<16xf32>", k_widen(e, NABLA_VECTOR, NABLA_DTYPE_F16, all),
          to, at, 64);
}

/* Factors and minima of the block at element `at` of the panel, which has no
 * parts. */
static void store_factors(nabla_emitter *e, const nabla_ssa *flats,
                          const nabla_int8_block_panel *p, nabla_ssa at) {
  const nabla_ggml *format = e->spec->w.ggml;
  const nabla_ggml_layout *l = format->layout;
  nabla_ssa k = k_add(e, p->k, at), bases[NABLA_LANES];
  nabla_ssa to = k_multiply(e, k_divide(e, at, format->elements), NABLA_BYTES);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa block = k_divide(e, k_add(e, flats[i], k), format->elements);
    bases[i] = k_multiply(e, block, format->bytes);
    if (!l->is_e8m0) continue;
    k_store(e, "f32",
            nabla_emit_ggml_e8m0(e, k_add_constant(e, bases[i], l->d)),
            p->scales, k_add_constant(e, to, (uint64_t)4 * i), 4);
  }
  if (!l->is_e8m0) store_halves(e, bases, l->d, p->scales, to);
  if (l->min >= 0) store_halves(e, bases, (uint32_t)l->min, p->minima, to);
}

void nabla_emit_int8_pack_b_ggml(nabla_emitter *e,
                                 const nabla_ssa flats[NABLA_LANES],
                                 const nabla_int8_block_panel *panel) {
  nabla_int8_blocks self;
  if (!nabla_int8_blocks_of(e->spec, &self)) return;
  uint32_t rest = (uint32_t)nabla_int8_rest(e->spec, self.line);
  nabla_loop lines, last, blocks;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_divide(e, panel->count, self.line);
  whole = k_multiply(e, whole, self.line);
  k_loop_begin(e, &lines, zero, whole, self.line, 0, NULL);
  decode_line(e, &self, flats, panel, lines.induction, self.blocks);
  k_loop_end(e, &lines, NULL);
  if (rest) { /* in the last panel only */
    k_loop_begin(e, &last, whole, panel->count, self.line, 0, NULL);
    decode_line(e, &self, flats, panel, last.induction,
                rest / self.format->elements);
    k_loop_end(e, &last, NULL);
  }
  k_loop_begin(e, &blocks, zero, panel->count, self.format->elements, 0, NULL);
  if (self.format->layout->sub == NABLA_GGML_SUB_NONE)
    store_factors(e, flats, panel, blocks.induction);
  else
    store_parts(e, flats, panel, blocks.induction);
  k_loop_end(e, &blocks, NULL);
}
