/* GEMV in int8 for few rows of x and GGUF blocks in place. `pack_a` writes for
 * each line of blocks (gemv_int8_ggml.h) the quantized x in the order of its
 * bytes; for each integer sum a scale for each lane and, where bytes have an
 * offset, the initial value of the lane's sum; and the scaled sums of x that
 * minima are multiplied with. */
#include "lib/kernels/int8/gemv_int8_ggml.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/gemv_int8_common.h"
#include "lib/kernels/tile_util.h"

/* Elements between prefetches, which are of lines of 64 bytes. */
#define GROUP 256u

/* Layout of packed x for a line, in vectors of 64 bytes. */
typedef struct x_layout {
  uint32_t scales, sums, minima, size;
} x_layout;

static x_layout x_layout_of(const nabla_int8_blocks *self) {
  x_layout out = {.scales = self->vectors};
  out.sums = out.scales + self->dots;
  out.minima = out.sums + (self->base.offset ? self->dots : 0);
  out.size = out.minima + (self->format->layout->min >= 0);
  return out;
}

static uint64_t line_bytes(const nabla_int8_blocks *self) {
  return (uint64_t)x_layout_of(self).size * NABLA_BYTES;
}

static nabla_ssa row_bytes(nabla_emitter *e, const nabla_int8_blocks *self) {
  return nabla_emit_int8_row_bytes(e, self->line, line_bytes(self));
}

/* The address of packed x for the line of element `k`. */
static nabla_ssa line_at(nabla_emitter *e, const nabla_int8_blocks *self,
                         nabla_ssa row, nabla_ssa k) {
  nabla_ssa line = k_divide(e, k, self->line);
  return k_address(e, row, k_multiply(e, line, line_bytes(self)));
}

/* Vectors that add to integer sum `dot`: the first, and one beyond. */
static uint32_t first_of(const nabla_int8_blocks *self, uint32_t dot) {
  return dot * (self->vectors / self->dots);
}

/* ---- prepare ---- */

/* A line of x: pieces of 16 elements, 0 beyond the last block, and a scale for
 * each of base.block elements. */
typedef struct line_of_x {
  nabla_ssa pieces[NABLA_GGML_ELEMENTS_MAX / NABLA_LANES];
  nabla_ssa scales[NABLA_GGML_ELEMENTS_MAX / NABLA_LANES];
  nabla_ssa to; /* address */
} line_of_x;

static void store_vector(nabla_emitter *e, const char *type, nabla_ssa value,
                         nabla_ssa to, uint64_t number) {
  k_store(e, type, value, to, k_i64(e, number * NABLA_BYTES), 4);
}

static nabla_ssa as_f32(nabla_emitter *e, nabla_shape shape, nabla_ssa value) {
  return k_op(e, "arith.sitofp %%v%u : %s to %s", value, nabla_type_i32[shape],
              nabla_type_f32[shape]);
}

/* The sum of part `part` (32 elements) times its scale. */
static nabla_ssa scaled_sum(nabla_emitter *e, const nabla_int8_blocks *self,
                            const line_of_x *x, uint32_t part) {
  nabla_ssa sum = 0;
  for (uint32_t i = 0; i < NABLA_GGML_PACKED6_PART / NABLA_LANES; i++) {
    nabla_ssa wide =
        k_op(e, "arith.extsi %%v%u : vector<16xi8> to vector<16xi32>",
             x->pieces[part * (NABLA_GGML_PACKED6_PART / NABLA_LANES) + i]);
    sum = sum ? k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", sum, wide)
              : wide;
  }
  sum = k_op(e, "vector.reduction <add>, %%v%u : vector<16xi32> into i32", sum);
  uint64_t block = part * NABLA_GGML_PACKED6_PART / self->base.block;
  return k_binary(e, NABLA_SCALAR, "mulf", as_f32(e, NABLA_SCALAR, sum),
                  x->scales[block]);
}

/* The factors of minima; `sums` are those of the bytes of the only integer sum,
 * `scales` its scales. */
static void store_minima(nabla_emitter *e, const nabla_int8_blocks *self,
                         const line_of_x *x, nabla_ssa sums, nabla_ssa scales) {
  nabla_ssa lanes[NABLA_LANES], value;
  if (self->format->layout->min < 0) return;
  if (self->dots == 1) {
    value = k_binary(e, NABLA_VECTOR, "mulf", as_f32(e, NABLA_VECTOR, sums),
                     scales);
  } else {
    nabla_ssa none = k_f32(e, NABLA_SCALAR, 0);
    for (uint32_t i = 0; i < NABLA_LANES; i++) {
      int part = nabla_int8_blocks_min_part(self, i);
      lanes[i] = part < 0 ? none : scaled_sum(e, self, x, (uint32_t)part);
    }
    value = k_from_elements(e, "f32", lanes);
  }
  store_vector(e, "vector<16xf32>", value, x->to, x_layout_of(self).minima);
}

/* Packs x for integer sum `dot`. Returns the sums of its bytes, if needed. */
static nabla_ssa store_dot(nabla_emitter *e, const nabla_int8_blocks *self,
                           const line_of_x *x, uint32_t dot,
                           nabla_ssa *out_scales) {
  x_layout at = x_layout_of(self);
  nabla_ssa lanes[NABLA_LANES], pieces[4], sums = 0, ones = 0;
  int wanted = self->base.offset || self->format->layout->min >= 0;
  uint32_t first = first_of(self, dot), end = first_of(self, dot + 1);
  if (wanted) {
    sums = nabla_emit_int8_zeros(e);
    ones = nabla_emit_int8_ones(e);
  }
  for (uint32_t v = first; v < end; v++) {
    for (uint32_t q = 0; q < 4; q++)
      pieces[q] =
          x->pieces[nabla_int8_blocks_element(self, v, 16 * q) / NABLA_LANES];
    nabla_ssa bytes = nabla_emit_int8_join(e, pieces);
    store_vector(e, "vector<64xi8>", bytes, x->to, v);
    if (wanted) sums = nabla_emit_int8_dot(e, &self->base, sums, ones, bytes);
  }
  for (uint32_t i = 0; i < NABLA_LANES; i++)
    lanes[i] = x->scales[nabla_int8_blocks_element(self, first, 4 * i) /
                         self->base.block];
  *out_scales = k_from_elements(e, "f32", lanes);
  store_vector(e, "vector<16xf32>", *out_scales, x->to, at.scales + dot);
  if (self->base.offset)
    store_vector(e, "vector<16xi32>",
                 nabla_emit_int8_sums(e, &self->base, sums), x->to,
                 at.sums + dot);
  return sums;
}

/* Packs x for the line from element `k` on, of which `count` elements exist. */
static void pack_a_line(nabla_emitter *e, const nabla_int8_blocks *self,
                        nabla_ssa row, nabla_ssa k, uint64_t count,
                        nabla_ssa to) {
  line_of_x x = {.to = line_at(e, self, to, k)};
  nabla_ssa none = k_f32(e, NABLA_SCALAR, 0), sums = 0, scales;
  uint32_t block = (uint32_t)self->base.block;
  for (uint32_t at = 0; at < self->line; at += block) {
    x.scales[at / block] = none;
    if (at >= count) continue;
    nabla_int8_block b =
        nabla_emit_int8_quantize(e, &self->base, row, k_add_constant(e, k, at));
    for (uint32_t i = 0; i < block / NABLA_LANES; i++)
      x.pieces[at / NABLA_LANES + i] = b.pieces[i];
    x.scales[at / block] = b.scale;
  }
  for (uint32_t d = 0; d < self->dots; d++)
    sums = store_dot(e, self, &x, d, &scales);
  store_minima(e, self, &x, sums, scales);
}

static void pack_a_row(nabla_emitter *e, const void *context, nabla_ssa row,
                       nabla_ssa to) {
  const nabla_int8_blocks *self = context;
  uint64_t rest = nabla_int8_rest(e->spec, self->line);
  nabla_ssa whole = nabla_emit_int8_whole(e, self->line);
  nabla_loop lines;
  k_loop_begin(e, &lines, k_i64(e, 0), whole, self->line, 0, NULL);
  pack_a_line(e, self, row, lines.induction, self->line, to);
  k_loop_end(e, &lines, NULL);
  if (rest) pack_a_line(e, self, row, whole, rest, to);
}

static void pack_a(nabla_emitter *e) {
  nabla_int8_blocks self;
  if (!nabla_int8_blocks_of(e->spec, &self)) return;
  nabla_emit_int8_pack_a_rows(e, row_bytes(e, &self), pack_a_row, &self);
}

/* ---- run ---- */

static nabla_ssa load_vector(nabla_emitter *e, const char *type, nabla_ssa line,
                             uint64_t number) {
  return k_load(e, type, line, k_i64(e, number * NABLA_BYTES), 4);
}

/* The products of integer sum `dot`, added to `total`, 0 for none yet. `w` are
 * the bytes of the weight, `by` its factors, `x` the line of x. */
static nabla_ssa add_dot(nabla_emitter *e, const nabla_int8_blocks *self,
                         uint32_t dot, const nabla_ssa *w, nabla_ssa by,
                         nabla_ssa x, nabla_ssa total) {
  x_layout at = x_layout_of(self);
  uint32_t first = first_of(self, dot), end = first_of(self, dot + 1);
  nabla_ssa sum = self->base.offset
                      ? load_vector(e, "vector<16xi32>", x, at.sums + dot)
                      : nabla_emit_int8_zeros(e);
  for (uint32_t v = first; v < end; v++)
    sum = nabla_emit_int8_dot(e, &self->base, sum, w[v - first],
                              load_vector(e, "vector<64xi8>", x, v));
  sum = as_f32(e, NABLA_VECTOR, sum);
  nabla_ssa factor =
      k_binary(e, NABLA_VECTOR, "mulf", by,
               load_vector(e, "vector<16xf32>", x, at.scales + dot));
  return total ? k_fma(e, NABLA_VECTOR, sum, factor, total)
               : k_binary(e, NABLA_VECTOR, "mulf", sum, factor);
}

/* Adds the products of the line `at`, whose first element is `k`. Several
 * products are summed first, so that the chain of totals has one addition for
 * each line. */
static void add_line(nabla_emitter *e, const nabla_int8_blocks *self,
                     const nabla_int8_row *r, nabla_ssa k,
                     const nabla_int8_line_ref *at, nabla_ssa *totals) {
  nabla_ssa by[NABLA_INT8_VECTORS_MAX], w[2], x[NABLA_INT8_ROWS_MOST],
      sums[NABLA_INT8_ROWS_MOST];
  for (unsigned j = 0; j < r->count; j++) {
    x[j] = line_at(e, self, r->x[j], k);
    sums[j] = self->dots == 1 ? totals[j] : 0;
  }
  for (uint32_t d = 0; d < self->dots; d++) {
    uint32_t first = first_of(self, d), end = first_of(self, d + 1);
    for (uint32_t v = first; v < end; v++)
      w[v - first] = nabla_emit_int8_block_bytes(e, self, at, v);
    /* behind the first bytes: LLVM would make those from the words that hold
     * factors, one by one */
    if (!d) nabla_emit_int8_block_factors(e, self, at, by);
    for (unsigned j = 0; j < r->count; j++)
      sums[j] = add_dot(e, self, d, w, by[d], x[j], sums[j]);
  }
  nabla_ssa min = nabla_emit_int8_block_minima(e, self, at);
  for (unsigned j = 0; j < r->count; j++) {
    if (min)
      sums[j] = k_fma(
          e, NABLA_VECTOR, min,
          load_vector(e, "vector<16xf32>", x[j], x_layout_of(self).minima),
          sums[j]);
    totals[j] = self->dots == 1
                    ? sums[j]
                    : k_binary(e, NABLA_VECTOR, "addf", totals[j], sums[j]);
  }
}

/* Adds the lines of `count` elements of row `side` of w, from `k` on, the last
 * one perhaps not whole. */
static void add_side(nabla_emitter *e, const nabla_int8_blocks *self,
                     const nabla_int8_row *r, unsigned side, nabla_ssa k,
                     uint64_t count, nabla_ssa *totals) {
  uint64_t elements = self->format->elements, bytes = self->format->bytes;
  nabla_ssa at = k_divide(e, k_add(e, r->flat[side], k), elements);
  at = k_multiply(e, at, bytes);
  for (uint64_t byte = 0; byte < count / elements * bytes; byte += NABLA_BYTES)
    k_prefetch(e, e->codes, k_add_constant(e, at, k_family(e)->blocks + byte));
  for (uint64_t done = 0; done < count; done += self->line) {
    uint64_t left = count - done < self->line ? count - done : self->line;
    nabla_int8_line_ref line = {k_add_constant(e, at, done / elements * bytes),
                                (uint32_t)(left / elements)};
    add_line(e, self, r, k_add_constant(e, k, done), &line, totals);
  }
}

static void add_lines(nabla_emitter *e, const nabla_int8_blocks *self,
                      const nabla_int8_row *r, nabla_ssa k, uint64_t count,
                      nabla_ssa *totals) {
  for (unsigned s = 0; s < r->sides; s++)
    add_side(e, self, r, s, k, count, totals + s * r->count);
}

/* Adds the lines of elements [from, to), `step` elements at a time. */
static void sum_range(nabla_emitter *e, const nabla_int8_blocks *self,
                      const nabla_int8_row *r, nabla_ssa range[2],
                      uint64_t step, nabla_ssa *totals) {
  const unsigned totals_count = r->sides * r->count;
  nabla_loop loop;
  k_loop_begin(e, &loop, range[0], range[1], step, totals_count, totals);
  for (unsigned j = 0; j < totals_count; j++) totals[j] = loop.carried[j];
  add_lines(e, self, r, loop.induction, step, totals);
  k_loop_end(e, &loop, totals);
  for (unsigned j = 0; j < totals_count; j++) totals[j] = loop.results[j];
}

static void sum_row(nabla_emitter *e, const void *context,
                    const nabla_int8_row *r, nabla_ssa *totals) {
  const nabla_int8_blocks *self = context;
  const nabla_fused_spec *spec = e->spec;
  uint64_t rest = nabla_int8_rest(spec, GROUP);
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  nabla_ssa from = k_i64(e, 0);
  nabla_ssa whole = nabla_emit_int8_whole(e, GROUP);
  for (unsigned j = 0; j < r->sides * r->count; j++) totals[j] = none;
  sum_range(e, self, r, (nabla_ssa[2]){from, whole}, GROUP, totals);
  if (rest)
    add_lines(e, self, r, whole, rest, totals);
  else if (spec->any_size % GROUP)
    sum_range(e, self, r, (nabla_ssa[2]){whole, e->k}, self->line, totals);
}

static void run(nabla_emitter *e) {
  nabla_int8_blocks self;
  if (!nabla_int8_blocks_of(e->spec, &self)) return;
  /* Blocks of 8 bits per element use the bandwidth with one stream: two made
   * q8_0 a tenth slower on a Zen 4. */
  const nabla_ggml *format = self.format;
  const unsigned sides = format->bytes >= format->elements ? 1 : 2;
  nabla_emit_int8_columns(e, row_bytes(e, &self), sides, sum_row, &self);
}

/* ---- what it is for ---- */

static int applies(const nabla_fused_spec *spec) {
  nabla_int8_blocks self;
  return nabla_int8_blocks_of(spec, &self) &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE;
}

/* An addition for each line, its own, the tree, and roundings of the factors.
 */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  nabla_int8_blocks self;
  if (!nabla_int8_blocks_of(spec, &self)) return 0;
  return spec->k / self.line + self.dots + 8;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  nabla_int8_blocks self;
  out->grain = NABLA_LANES;
  if (!nabla_int8_blocks_of(spec, &self)) return;
  out->workspace =
      (nabla_kernel_tiles){1, self.line, (uint32_t)line_bytes(&self)};
}

static uint64_t scratch(const nabla_fused_spec *spec) {
  (void)spec;
  return NABLA_SUMS_BYTES;
}

const nabla_kernel_variant nabla_variant_gemv_int8_ggml = {
    .name = "gemv_int8_ggml",
    .dedicated_max_m = 1,
    .takes_blocks = 1,
    .applies = applies,
    .cost = nabla_int8_rows_cost,
    .run = run,
    .pack_a = pack_a,
    .describe = describe,
    .accumulation_depth = accumulation_depth,
    .scratch = scratch};
