/* Packing of x to tiles of bf16 pairs; see bf16.h. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/ggml.h"

#define ROWS NABLA_TILE_ROWS

#define WORDS "vector<32xi16>"

#define NAN_BITS 0x7fc00000u

/* Sums of panels that are added up, besides one for each 256 of k. */
#define PANELS_MOST 200u

/* Parts of a value that F16 (11 bits), BF16 (8) or F32 (24) has. */
static unsigned parts_of(nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_BF16) return 1;
  return dtype == NABLA_DTYPE_F16 ? 2 : NABLA_BF16_PARTS;
}

static int has_minima(const nabla_fused_spec *spec) {
  return spec->w.ggml && spec->w.ggml->layout->min >= 0;
}

/* Elements of k under one scale in panels of `depth`, a power of two, where
 * that scale can be left to the sums; or 0. */
static uint64_t scale_run(const nabla_fused_spec *spec, uint64_t depth) {
  const nabla_format *format = &spec->w.format;
  uint64_t run = 0;
  if (spec->numerics != NABLA_NUMERICS_F32 || spec->w_type != NABLA_DTYPE_F32)
    return 0;
  if (spec->w.ggml) {
    const nabla_ggml_layout *l = spec->w.ggml->layout;
    if (l->sub == NABLA_GGML_SUB_PACKED6)
      run = NABLA_GGML_PACKED6_PART;
    else if (!l->is_e8m0)
      run = spec->w.ggml->elements;
  } else if (format->encoding && !format->encoding->is_mx) {
    if (spec->any_size && format->granularity != NABLA_PER_BLOCK) return depth;
    if (!spec->any_size &&
        nabla_lines_share_scales(spec, spec->n, nabla_spec_row_stride(spec),
                                 spec->k))
      return depth;
    run = format->block;
  }
  if (!run) return 0;
  run = nabla_common_divisor(run, nabla_row_alignment(spec, depth));
  return run % NABLA_BF16_STEP ? 0 : run;
}

/* Of codes: integers of at most 8 bits, less zero points too, and FP8 are bf16;
 * those of 6 bits times the factor of their 16 have 13 bits. */
static unsigned code_parts(const nabla_fused_spec *spec) {
  const nabla_encoding *encoding = spec->w.format.encoding;
  if (spec->w.ggml)
    return spec->w.ggml->layout->sub == NABLA_GGML_SUB_BYTES ? 2 : 1;
  return encoding && encoding->bits == 4 && !nabla_spec_is_integer(encoding)
             ? NABLA_BF16_PARTS
             : 1;
}

/* Those of MX formats are a few bits, times powers of two. */
static unsigned weight_parts(const nabla_fused_spec *spec) {
  unsigned parts = parts_of(spec->w_type);
  if (spec->w.ggml) return spec->w.ggml->layout->is_e8m0 ? 1 : parts;
  if (!spec->w.format.encoding) {
    unsigned stored = parts_of(spec->w_stored);
    return stored < parts ? stored : parts;
  }
  return spec->w.format.encoding->is_mx ? 1 : parts;
}

/* Elements of k in a panel. A panel of 8 to 12 KiB shares the first-level cache
 * with tiles of x and with the other thread of the core: 16 and 24 KiB take a
 * sixth more time; but q6_k is packed by 128, and q4_k and q5_k have scales of
 * 256 at once. For large K panels are deeper: a sum adds at most PANELS_MOST of
 * them and one for each 256 of k, which keeps its error within the documented
 * bound (gemm_f32_bf16x3_amx.c). */
static uint64_t depth_of(const nabla_fused_spec *spec, unsigned parts) {
  int is_packed6 =
      spec->w.ggml && spec->w.ggml->layout->sub == NABLA_GGML_SUB_PACKED6;
  int has_halves =
      parts == 2 && spec->w.ggml && scale_run(spec, NABLA_BF16_STEP);
  if (spec->numerics != NABLA_NUMERICS_F32 || (parts == 1 && is_packed6))
    return NABLA_BF16_DEPTH_MOST;
  uint64_t depth = parts == 1 || has_halves ? 128 : 64;
  while (depth < NABLA_BF16_DEPTH_MOST &&
         spec->k / depth > PANELS_MOST + spec->k / NABLA_BF16_DEPTH_MOST)
    depth *= 2;
  return depth;
}

nabla_bf16 nabla_bf16_of(const nabla_fused_spec *spec) {
  int whole = spec->numerics == NABLA_NUMERICS_F32;
  nabla_bf16 self = {.w_parts = whole ? weight_parts(spec) : 1,
                     .x_parts = whole ? parts_of(spec->x_type) : 1};
  if (whole && scale_run(spec, NABLA_BF16_STEP))
    self.w_parts = code_parts(spec);
  self.folds = self.x_parts > 1 && nabla_spec_last_m(spec) <= ROWS / 2 ? 2 : 1;
  self.x_tiles = (self.x_parts + self.folds - 1) / self.folds;
  self.is_ahead = nabla_bf16_is_ahead(spec);
  self.depth = self.is_ahead ? NABLA_BF16_LINE : depth_of(spec, self.w_parts);
  self.run = whole && !self.is_ahead ? scale_run(spec, self.depth) : 0;
  self.stays = whole && !self.is_ahead && !self.run;
  self.has_minima = self.run && has_minima(spec);
  if (self.run) self.scales = (self.has_minima ? 2 : 1) * self.depth / self.run;
  /* few enough for the documented bound (gemm_f32_bf16x3_amx.c) */
  self.adds_runs =
      self.run && (1 + (uint64_t)self.has_minima) * spec->k / self.run <=
                      PANELS_MOST + spec->k / NABLA_BF16_DEPTH_MOST;
  self.half = self.depth / NABLA_BF16_STEP * NABLA_TILE_BYTES;
  self.part = NABLA_MACRO_HALVES * self.half;
  return self;
}

unsigned nabla_bf16_products(const nabla_bf16 *self) {
  unsigned count = 0;
  for (unsigned x = 0; x < self->x_tiles; x++)
    for (unsigned w = 0; w < self->w_parts; w++)
      count += x * self->folds + w < NABLA_BF16_PARTS;
  return count;
}

nabla_macro_kernel nabla_bf16_macro_kernel(const nabla_fused_spec *spec) {
  nabla_bf16 self = nabla_bf16_of(spec);
  return (nabla_macro_kernel){
      .step = NABLA_BF16_STEP,
      .step_bytes = self.x_tiles * NABLA_TILE_BYTES +
                    (self.has_minima ? NABLA_TILE_ROW_BYTES : 0),
      .depth = self.depth,
      .panel = self.w_parts * self.part,
      .folds = self.folds,
      .waiting = self.is_ahead      ? NABLA_MACRO_TILES * ROWS
                 : self.x_parts > 1 ? 64
                                    : 128,
      .is_ahead = self.is_ahead,
      .at_once = nabla_spec_last_m(spec) <= ROWS ? 1 : NABLA_MACRO_TILES,
      .pack_b = nabla_emit_bf16_pack_b,
      .finish = nabla_emit_finish_row};
}

static nabla_ssa round_pair(nabla_emitter *e, nabla_ssa low, nabla_ssa high) {
  nabla_ssa both = k_op(
      e,
      "llvm.call_intrinsic \"llvm.x86.avx512bf16.cvtne2ps2bf16.512\""
      "(%%v%u, %%v%u) : (vector<16xf32>, vector<16xf32>) -> vector<32xbf16>",
      high, low);
  return k_bitcast(e, "vector<32xbf16>", WORDS, both);
}

/* `value` less lanes [first, first + 16) of `words`, which is exact. */
static nabla_ssa less_words(nabla_emitter *e, nabla_ssa value, nabla_ssa words,
                            unsigned first) {
  nabla_ssa half = k_shuffle(e, "i16", NABLA_BF16_STEP, words, words,
                             NABLA_LANES, nabla_pick_from, first);
  return k_binary(e, NABLA_VECTOR, "subf", value,
                  k_widen(e, NABLA_VECTOR, NABLA_DTYPE_BF16, half));
}

void nabla_emit_bf16_split(nabla_emitter *e, nabla_ssa low, nabla_ssa high,
                           unsigned count, nabla_ssa *out) {
  for (unsigned i = 0; i < NABLA_BF16_PARTS; i++) {
    out[i] = round_pair(e, low, high);
    if (i + 1 == count) break;
    low = less_words(e, low, out[i], 0);
    high = less_words(e, high, out[i], NABLA_LANES);
  }
}

nabla_ssa nabla_emit_bf16_limit(nabla_emitter *e, nabla_ssa value,
                                uint32_t least, uint32_t most) {
  const char *type = nabla_type_i32[NABLA_VECTOR];
  nabla_ssa size = k_size_bits(e, NABLA_VECTOR, value);
  nabla_ssa above = k_op(e, "arith.subi %%v%u, %%v%u : %s", size,
                         k_i32(e, NABLA_VECTOR, least), type);
  nabla_ssa fits = k_op(e, "arith.cmpi ule, %%v%u, %%v%u : %s", above,
                        k_i32(e, NABLA_VECTOR, most - least), type);
  if (least) {
    nabla_ssa zero = k_op(e, "arith.cmpi eq, %%v%u, %%v%u : %s", size,
                          k_i32(e, NABLA_VECTOR, 0), type);
    fits = k_op(e, "arith.ori %%v%u, %%v%u : vector<16xi1>", fits, zero);
  }
  nabla_ssa bits = k_bitcast(e, nabla_type_f32[NABLA_VECTOR], type, value);
  bits = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, %s", fits,
              bits, k_i32(e, NABLA_VECTOR, NAN_BITS), type);
  return k_bitcast(e, type, nabla_type_f32[NABLA_VECTOR], bits);
}

/* Pairs of elements that are `apart`, in each two times as many. */
static unsigned pick_of_line(unsigned lane, unsigned apart) {
  return lane / (2 * apart) * 2 * apart + lane % (2 * apart) / 2 +
         (lane % 2 ? apart : 0);
}

/* Those that are 16 apart. */
static unsigned pick_apart(unsigned lane, unsigned context) {
  (void)context;
  return lane / 2 + lane % 2 * NABLA_LANES;
}

/* Elements [k, k + width) of a row as 16 pairs, in as many parts as x has;
 * zeros beyond the width. The result is their sum, 16 lanes of it, if minima
 * need it, or 0. */
static nabla_ssa pairs_of(nabla_emitter *e, nabla_array_ref row, nabla_ssa k,
                          unsigned width, nabla_ssa *out) {
  const nabla_fused_spec *spec = e->spec;
  unsigned parts = nabla_bf16_of(spec).x_parts;
  nabla_ssa half[2];
  for (unsigned i = 0; i < 2; i++) {
    unsigned first = i * NABLA_LANES;
    unsigned left = width > first ? width - first : 0;
    half[i] = left ? k_read_lanes(e, row, k_add_constant(e, k, first),
                                  left < NABLA_LANES ? left : NABLA_LANES)
                   : k_f32(e, NABLA_VECTOR, 0);
    if (spec->numerics == NABLA_NUMERICS_F32 && left)
      half[i] = nabla_emit_bf16_limit(e, half[i], 0, NABLA_BF16_LIMIT_BITS);
  }
  nabla_emit_bf16_split(e, half[0], half[1], parts, out);
  for (unsigned i = 0; i < parts && i < NABLA_BF16_PARTS; i++) {
    if (nabla_bf16_by_lines(spec) || nabla_bf16_is_apart(spec))
      out[i] = k_shuffle(
          e, "i16", NABLA_BF16_STEP, out[i], out[i], NABLA_BF16_STEP,
          nabla_bf16_is_apart(spec) ? pick_apart : pick_of_line,
          nabla_bf16_is_apart(spec) ? 0 : nabla_bf16_word_codes(spec));
    out[i] = k_bitcast(e, WORDS, "vector<16xi32>", out[i]);
  }
  if (!nabla_bf16_of(spec).has_minima) return 0;
  return k_binary(e, NABLA_VECTOR, "addf", half[0], half[1]);
}

/* Where pair `j` of 32 elements of a line goes, in bytes from its first tile
 * on: those at one place of each word of codes follow each other, pairs of the
 * first half of the line and then of the second, and half of the places are a
 * tile. */
static uint64_t pair_of_line(const nabla_fused_spec *spec, unsigned j) {
  const unsigned places = nabla_bf16_word_codes(spec);
  const unsigned place = j % places, row = ROWS / places * 2;
  return place / (places / 2) * nabla_bf16_macro_kernel(spec).step_bytes +
         ((uint64_t)(place % (places / 2)) * row + j / places) *
             NABLA_TILE_ROW_BYTES;
}

/* Writes a part of 32 elements of 16 rows: pair j of all rows is vector j.
 * `base` is the address of the part of the rows' first tile. */
static void write_part(nabla_emitter *e, nabla_ssa *v, nabla_ssa base,
                       nabla_ssa k) {
  const nabla_fused_spec *spec = e->spec;
  const int lines = nabla_bf16_by_lines(spec);
  uint64_t tile = nabla_bf16_macro_kernel(spec).step_bytes;
  nabla_ssa at;
  k_transpose(e, "i32", v);
  nabla_ssa step = k_divide(e, k, NABLA_BF16_STEP);
  if (lines) {
    const uint64_t half = NABLA_TILE_BYTES / nabla_bf16_word_codes(spec);
    nabla_ssa line = k_divide(e, k, NABLA_BF16_LINE);
    /* of the second half of a line, step * half + line * (2 tiles - 2 halves)
     */
    at = k_add(e, k_multiply(e, step, half),
               k_multiply(e, line, 2 * tile - 2 * half));
  } else {
    at = k_multiply(e, step, tile);
  }
  for (unsigned j = 0; j < ROWS; j++)
    k_store(e, "vector<16xi32>", v[j], base,
            k_add_constant(e, at,
                           lines ? pair_of_line(spec, j)
                                 : (uint64_t)j * NABLA_TILE_ROW_BYTES),
            64);
}

/* The sums of 32 elements of 16 rows, behind the parts of these. */
static void write_sums(nabla_emitter *e, nabla_ssa sums, nabla_ssa base,
                       nabla_ssa k) {
  const uint64_t tile = nabla_bf16_macro_kernel(e->spec).step_bytes;
  nabla_ssa at = k_multiply(e, k_divide(e, k, NABLA_BF16_STEP), tile);
  at = k_add_constant(e, at, tile - NABLA_TILE_ROW_BYTES);
  k_write_lanes(
      e, nabla_floats_at(k_address(e, base, at)), k_i64(e, 0),
      k_read_lanes(e, nabla_floats_at(sums), k_i64(e, 0), NABLA_LANES));
}

/* The scratch: tiles before transposition, sums of x. */
static nabla_ssa sums_scratch(nabla_emitter *e) {
  return k_address(e, e->scratch,
                   k_i64(e, (uint64_t)NABLA_BF16_PARTS * NABLA_TILE_BYTES));
}

/* Elements [k, k + width) of row `number` of a tile, whose address is `row`, to
 * the scratch: each part to a row of its tile, zeros where there is no part. */
static void write_row(nabla_emitter *e, nabla_ssa number, nabla_ssa row,
                      nabla_ssa k, unsigned width) {
  const nabla_fused_spec *spec = e->spec;
  const nabla_bf16 self = nabla_bf16_of(spec);
  const uint64_t rows = ROWS / self.folds;
  nabla_ssa of_row[NABLA_BF16_PARTS];
  nabla_ssa sum =
      pairs_of(e, (nabla_array_ref){row, spec->x_type}, k, width, of_row);
  nabla_ssa at = k_multiply(e, number, NABLA_TILE_ROW_BYTES);
  for (unsigned i = 0; i < self.x_tiles * self.folds; i++)
    k_store(e, "vector<16xi32>",
            i < self.x_parts && i < NABLA_BF16_PARTS
                ? of_row[i]
                : k_i32(e, NABLA_VECTOR, 0),
            e->scratch,
            k_add_constant(e, at,
                           i / self.folds * (uint64_t)NABLA_TILE_BYTES +
                               i % self.folds * rows * NABLA_TILE_ROW_BYTES),
            64);
  if (!self.has_minima) return;
  nabla_array_ref sums = nabla_floats_at(sums_scratch(e));
  k_write(e, sums, number, k_sum(e, sum));
  if (self.folds > 1)
    k_write(e, sums, k_add_constant(e, number, rows),
            k_f32(e, NABLA_SCALAR, 0));
}

/* All parts of 32 elements of the rows of a tile from row `first` on, to tiles
 * from `base` on: by way of the scratch, in loops, as LLVM takes long for a
 * block of a thousand shuffles. */
static void write_step(nabla_emitter *e, nabla_ssa first, nabla_ssa base,
                       nabla_ssa k, unsigned width) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  const nabla_ssa zero = k_i64(e, 0);
  nabla_ssa v[ROWS], row;
  nabla_loop rows, tiles;
  k_loop_begin(e, &rows, zero, k_i64(e, ROWS / self.folds), 1, 0, NULL);
  nabla_emit_tile_rows(e, k_add(e, first, rows.induction), 1, &row);
  write_row(e, rows.induction, row, k, width);
  k_loop_end(e, &rows, NULL);
  if (self.has_minima) write_sums(e, sums_scratch(e), base, k);
  k_loop_begin(e, &tiles, zero, k_i64(e, self.x_tiles), 1, 0, NULL);
  nabla_ssa at = k_multiply(e, tiles.induction, NABLA_TILE_BYTES);
  for (unsigned i = 0; i < ROWS; i++)
    v[i] =
        k_load(e, "vector<16xi32>", e->scratch,
               k_add_constant(e, at, (uint64_t)i * NABLA_TILE_ROW_BYTES), 64);
  write_part(e, v, k_address(e, base, at), k);
  k_loop_end(e, &tiles, NULL);
}

void nabla_emit_bf16_pack_a(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_BF16_STEP);
  const nabla_macro_kernel macro = nabla_bf16_macro_kernel(spec);
  nabla_loop tiles, steps;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa whole = k_divide(e, e->k, NABLA_BF16_STEP);
  whole = k_multiply(e, whole, NABLA_BF16_STEP);
  k_loop_begin(e, &tiles, e->begin, e->end, ROWS, 0, NULL);
  nabla_ssa first = k_divide(e, tiles.induction, ROWS);
  first = k_product(e, first, nabla_emit_macro_steps(e, &macro, e->k));
  nabla_ssa base =
      k_address(e, e->workspace, k_multiply(e, first, macro.step_bytes));
  k_loop_begin(e, &steps, zero, whole, NABLA_BF16_STEP, 0, NULL);
  write_step(e, tiles.induction, base, steps.induction, NABLA_BF16_STEP);
  k_loop_end(e, &steps, NULL);
  if (rest) write_step(e, tiles.induction, base, whole, rest);
  k_loop_end(e, &tiles, NULL);
}

/* ---- what variants say of themselves ----------------------------------------
 */

double nabla_bf16_decode_cost(const nabla_fused_spec *spec) {
  return nabla_bf16_by_lines(spec) ? 25 : 60;
}

double nabla_bf16_cost(const nabla_fused_spec *spec, uint64_t m, double decode,
                       double row) {
  const nabla_macro_kernel macro = nabla_bf16_macro_kernel(spec);
  return nabla_macro_kernel_cost(&macro, m, decode, row);
}

void nabla_bf16_describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  out->grain = NABLA_MACRO_ROWS;
  out->workspace =
      (nabla_kernel_tiles){ROWS, NABLA_BF16_STEP,
                           (uint32_t)nabla_bf16_macro_kernel(spec).step_bytes};
}

/* The chain: 16 pairs of each tile along k. */
uint64_t nabla_bf16_accumulation_depth(const nabla_fused_spec *spec) {
  return spec->k + NABLA_BF16_STEP;
}

uint64_t nabla_bf16_scratch(const nabla_fused_spec *spec) {
  const nabla_macro_kernel macro = nabla_bf16_macro_kernel(spec);
  return nabla_macro_kernel_scratch(&macro);
}
