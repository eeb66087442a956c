/* GEMV in int8 for few rows of x and the weight in place: 64 bytes of codes are
 * 16 dwords of 8 or 4 codes, and lane i sums the products of dword i. `pack_a`
 * writes for each 64 bytes of codes the quantized x in the order of their
 * bytes, a scale for each lane, and where it is needed a sum for each lane. */
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/gemv_int8_common.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"

#define GRAIN 16u

static int applies(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

static uint64_t line_bytes(const nabla_int8 *self) {
  return (uint64_t)NABLA_BYTES *
         (self->parts + (nabla_int8_has_sums(self) ? 2 : 1));
}

/* Bytes of a row of x in the workspace. */
static nabla_ssa row_bytes(nabla_emitter *e, const nabla_int8 *self) {
  return nabla_emit_int8_row_bytes(e, nabla_int8_line(self), line_bytes(self));
}

static void store_vector(nabla_emitter *e, const char *type, nabla_ssa value,
                         nabla_ssa line, uint64_t part) {
  k_store(e, type, value, line, k_i64(e, part * NABLA_BYTES), 4);
}

/* De-interleaves consecutive bytes with stride `parts`: even and odd ones, and
 * of these again even and odd ones. */
static void deinterleave(nabla_emitter *e, unsigned parts,
                         nabla_ssa bytes[NABLA_INT8_PARTS]) {
  nabla_ssa v[NABLA_INT8_PARTS];
  for (unsigned size = parts; size > 1; size /= 2)
    for (unsigned i = 0; i < parts; i++) {
      unsigned half = size / 2, first = i - i % size, pair = i % half;
      if (i == first)
        for (unsigned j = 0; j < size; j++) v[first + j] = bytes[first + j];
      bytes[i] = k_shuffle(e, "i8", NABLA_BYTES, v[first + 2 * pair],
                           v[first + 2 * pair + 1], NABLA_BYTES,
                           nabla_pick_second, i % size / half);
    }
  if (parts != 4) return;
  nabla_ssa second = bytes[1]; /* for four the index is bit-reversed */
  bytes[1] = bytes[2];
  bytes[2] = second;
}

/* Packs x for the line of codes from element `k` on, of which `count` elements
 * exist, to address `to`. */
static void pack_a_line(nabla_emitter *e, const nabla_int8 *self, nabla_ssa row,
                        nabla_ssa k, uint64_t count, nabla_ssa to) {
  nabla_ssa pieces[4 * NABLA_INT8_PARTS] = {0}, lanes[NABLA_LANES],
                       bytes[NABLA_INT8_PARTS] = {0};
  nabla_ssa none = k_f32(e, NABLA_SCALAR, 0);
  uint64_t each = nabla_int8_line(self) / NABLA_LANES;
  for (unsigned i = 0; i < NABLA_LANES; i++) lanes[i] = none;
  for (uint64_t at = 0; at < count; at += self->block) {
    nabla_int8_block block =
        nabla_emit_int8_quantize(e, self, row, k_add_constant(e, k, at));
    for (uint64_t i = 0; i < self->block / NABLA_LANES; i++)
      pieces[at / NABLA_LANES + i] = block.pieces[i];
    for (uint64_t i = 0; i < self->block / each; i++)
      lanes[at / each + i] = block.scale;
  }
  for (unsigned i = 0; i < self->parts; i++)
    bytes[i] = nabla_emit_int8_join(e, pieces + (size_t)4 * i);
  deinterleave(e, self->parts, bytes);
  for (unsigned i = 0; i < self->parts; i++)
    store_vector(e, "vector<64xi8>", bytes[i], to, i);
  store_vector(e, "vector<16xf32>", k_from_elements(e, "f32", lanes), to,
               self->parts);
  if (!nabla_int8_has_sums(self)) return;
  nabla_ssa sums = nabla_emit_int8_zeros(e);
  nabla_ssa ones = nabla_emit_int8_ones(e);
  for (unsigned i = 0; i < self->parts; i++)
    sums = nabla_emit_int8_dot(e, self, sums, ones, bytes[i]);
  store_vector(e, self->has_zero ? "vector<16xf32>" : "vector<16xi32>",
               nabla_emit_int8_sums(e, self, sums), to, self->parts + 1);
}

/* The address of the line of element `k` after `base`. */
static nabla_ssa line_at(nabla_emitter *e, const nabla_int8 *self,
                         nabla_ssa base, nabla_ssa k) {
  nabla_ssa line = k_divide(e, k, nabla_int8_line(self));
  return k_address(e, base, k_multiply(e, line, line_bytes(self)));
}

/* Writes a row of x, `row`, to address `to`. */
static void pack_a_row(nabla_emitter *e, const void *context, nabla_ssa row,
                       nabla_ssa to) {
  const nabla_int8 *self = context;
  uint64_t line = nabla_int8_line(self);
  uint64_t rest = nabla_int8_rest(e->spec, line);
  nabla_ssa whole = nabla_emit_int8_whole(e, line);
  nabla_loop lines;
  k_loop_begin(e, &lines, k_i64(e, 0), whole, line, 0, NULL);
  pack_a_line(e, self, row, lines.induction, line,
              line_at(e, self, to, lines.induction));
  k_loop_end(e, &lines, NULL);
  if (rest) pack_a_line(e, self, row, whole, rest, line_at(e, self, to, whole));
}

static void pack_a(nabla_emitter *e) {
  nabla_int8 self;
  if (!nabla_int8_of(e->spec, &self)) return;
  nabla_emit_int8_pack_a_rows(e, row_bytes(e, &self), pack_a_row, &self);
}

/* Which of the values that belong to the spans of a line a lane has. Context:
 * the spans of a whole line, and 256 times how many there are. Where they are
 * missing the last repeats: x is 0 there. */
static unsigned pick_span(unsigned lane, unsigned context) {
  unsigned span = lane * (context % 256) / NABLA_LANES, count = context / 256;
  return span < count ? span : count - 1;
}

/* Spreads `values` (vector<COUNTxf32>), one for each span of a line, of which
 * there are `spans` when it is whole, over its lanes. */
static nabla_ssa spread(nabla_emitter *e, const nabla_ssa *values,
                        unsigned count, unsigned spans) {
  nabla_ssa lanes[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    lanes[i] = values[pick_span(i, spans + 256 * count) % NABLA_LANES];
  return k_from_elements(e, "f32", lanes);
}

/* Scales of `count` spans, next to each other, spread over the lanes. */
static nabla_ssa load_scales(nabla_emitter *e, nabla_ssa flat, unsigned count,
                             unsigned spans) {
  const nabla_fused_spec *spec = e->spec;
  nabla_dtype dtype = nabla_spec_scale_dtype(spec);
  int powers = spec->w.format.scale == NABLA_SCALE_E8M0;
  unsigned width = powers ? 1 : nabla_dtype_bits(dtype) / 8;
  const char *element = width == 4 ? "f32" : width == 2 ? "i16" : "i8";
  char type[32];
  (void)snprintf(type, sizeof type, "vector<%ux%s>", count, element);
  nabla_ssa index = k_divide(e, flat, spec->w.format.block);
  nabla_ssa scales =
      k_load(e, type, e->scales, k_multiply(e, index, width), width);
  nabla_ssa lanes = k_shuffle(e, element, count, scales, scales, NABLA_LANES,
                              pick_span, spans + 256 * count);
  if (powers) return nabla_emit_e8m0(e, NABLA_VECTOR, lanes);
  return width == 4 ? lanes : k_widen(e, NABLA_VECTOR, dtype, lanes);
}

/* Scale and zero points of the lanes of the line from `k` on. */
static nabla_int8_factors factors_of(nabla_emitter *e, const nabla_int8 *self,
                                     nabla_ssa flat, uint64_t elements) {
  uint64_t line = nabla_int8_line(self);
  nabla_int8_factors out = {.w = 0};
  nabla_ssa zeros[NABLA_LANES] = {0}, scales[NABLA_LANES] = {0};
  if (self->span >= line) {
    out.w = k_broadcast(e, "f32", nabla_emit_scale(e, flat));
    if (self->has_zero)
      out.negative =
          k_broadcast(e, "f32", nabla_emit_int8_negative(e, self, flat));
    return out;
  }
  unsigned spans = (unsigned)(line / self->span);
  unsigned count = (unsigned)((elements + self->span - 1) / self->span);
  int nested = e->spec->w.format.scale == NABLA_SCALE_DYNAMIC8;
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_add_constant(e, flat, (uint64_t)i * self->span);
    if (nested) scales[i] = nabla_emit_scale(e, at);
    if (self->has_zero) zeros[i] = nabla_emit_int8_negative(e, self, at);
  }
  out.w = nested ? spread(e, scales, count, spans)
                 : load_scales(e, flat, count, spans);
  if (self->has_zero) out.negative = spread(e, zeros, count, spans);
  return out;
}

/* 64 bytes of codes at `byte`, of which the first `dwords` * 4 exist. */
static nabla_ssa load_codes(nabla_emitter *e, nabla_ssa byte, unsigned dwords) {
  char type[32];
  (void)snprintf(type, sizeof type, "vector<%uxi32>", dwords);
  nabla_ssa codes = k_load(e, type, e->codes, byte, 1);
  if (dwords == NABLA_LANES) return codes;
  nabla_ssa lanes[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    lanes[i] = i < dwords ? k_op(e, "vector.extract %%v%u[%u] : i32 from %s",
                                 codes, i, type)
                          : k_i32(e, NABLA_SCALAR, 0);
  return k_from_elements(e, "i32", lanes);
}

static nabla_ssa load_vector(nabla_emitter *e, const char *type, nabla_ssa line,
                             uint64_t part) {
  return k_load(e, type, line, k_i64(e, part * NABLA_BYTES), 4);
}

/* Adds the products of `elements` elements of row `side` of w, from `k` on, to
 * the totals of this row. */
static void multiply_side(nabla_emitter *e, const nabla_int8 *self,
                          const nabla_int8_row *r, unsigned side, nabla_ssa k,
                          uint64_t elements, nabla_ssa *totals) {
  unsigned each = (unsigned)(nabla_int8_line(self) / NABLA_LANES);
  nabla_ssa flat = k_add(e, r->flat[side], k);
  nabla_ssa w[NABLA_INT8_PARTS] = {0};
  nabla_ssa byte = k_divide(e, flat, self->parts);
  nabla_ssa codes = load_codes(e, byte, (unsigned)elements / each);
  k_prefetch(e, e->codes, k_add_constant(e, byte, k_family(e)->stream));
  nabla_emit_int8_split(e, self, codes, w);
  nabla_int8_factors by = factors_of(e, self, flat, elements);
  for (unsigned j = 0; j < r->count; j++) {
    nabla_ssa line = line_at(e, self, r->x[j], k);
    nabla_ssa dot = 0;
    if (!self->has_zero && nabla_int8_has_sums(self))
      dot = load_vector(e, "vector<16xi32>", line, self->parts + 1);
    else
      dot = nabla_emit_int8_zeros(e);
    for (unsigned i = 0; i < self->parts; i++)
      dot = nabla_emit_int8_dot(e, self, dot, w[i],
                                load_vector(e, "vector<64xi8>", line, i));
    by.x = load_vector(e, "vector<16xf32>", line, self->parts);
    if (self->has_zero)
      by.sum = load_vector(e, "vector<16xf32>", line, self->parts + 1);
    totals[j] = nabla_emit_int8_add(e, totals[j], dot, &by);
  }
}

static void multiply_line(nabla_emitter *e, const nabla_int8 *self,
                          const nabla_int8_row *r, nabla_ssa k,
                          uint64_t elements, nabla_ssa *totals) {
  for (unsigned s = 0; s < r->sides; s++)
    multiply_side(e, self, r, s, k, elements, totals + s * r->count);
}

/* The sums of the rows of w, one vector for each row of x. */
static void sum_row(nabla_emitter *e, const void *context,
                    const nabla_int8_row *r, nabla_ssa *totals) {
  const nabla_int8 *self = context;
  uint64_t line = nabla_int8_line(self);
  uint64_t rest = nabla_int8_rest(e->spec, line);
  nabla_ssa whole = nabla_emit_int8_whole(e, line);
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  const unsigned count = r->sides * r->count;
  for (unsigned j = 0; j < count; j++) totals[j] = none;
  nabla_loop lines;
  k_loop_begin(e, &lines, k_i64(e, 0), whole, line, count, totals);
  for (unsigned j = 0; j < count; j++) totals[j] = lines.carried[j];
  multiply_line(e, self, r, lines.induction, line, totals);
  k_loop_end(e, &lines, totals);
  for (unsigned j = 0; j < count; j++) totals[j] = lines.results[j];
  if (rest) multiply_line(e, self, r, whole, rest, totals);
}

/* Rows of w at a time where M = 1. */
static unsigned sides_of(const nabla_fused_spec *spec, const nabla_int8 *self) {
  const uint64_t most = nabla_cpu_family_of(spec->features)->near_int8;
  const uint64_t lines = spec->any_size ? 0 : spec->k / nabla_int8_line(self);
  return most && lines > most / line_bytes(self) ? NABLA_INT8_SIDES_MOST : 2;
}

static void emit_lines(nabla_emitter *e) {
  nabla_int8 self;
  if (!nabla_int8_of(e->spec, &self)) return;
  nabla_emit_int8_columns(e, row_bytes(e, &self), sides_of(e->spec, &self),
                          sum_row, &self);
}

/* An addition for each line, the tree, and roundings of the factors. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  nabla_int8 self;
  if (!nabla_int8_of(spec, &self)) return 0;
  return spec->k / nabla_int8_line(&self) + 8;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8 self;
  out->grain = GRAIN;
  if (!nabla_int8_of(spec, &self)) return;
  out->workspace = (nabla_kernel_tiles){1, (uint32_t)nabla_int8_line(&self),
                                        (uint32_t)line_bytes(&self)};
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

const nabla_kernel_variant nabla_variant_gemv_int8 = {
    .name = "gemv_int8",
    .dedicated_max_m = 1,
    .applies = applies,
    .cost = nabla_int8_rows_cost,
    .run = emit_lines,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
