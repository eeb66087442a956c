/* y[n] = sum over k of x[k] * w[n][k] for M up to 4 and blocks of GGUF files,
 * whole blocks at a time, where they lie. Which bytes and bits an element has
 * is known when the code is made, so that there are constants only. Codes of 4
 * bits are looked up in a table that was multiplied with the factor (and added
 * to the minimum) of their part; all other products of codes and factors are
 * exact as well, so that weights are what nabla_ggml_decode gives. */
#include "transforms/kernels/decode_ggml.h"
#include "transforms/kernels/epilogue.h"
#include "transforms/kernels/shapes.h"

/* Elements that are summed side by side, and sums. */
#define GROUP 128u
#define SUMS  4u

/* 16 elements are a lane each; 32 the unit of what has upper bits. */
#define PIECE (2 * NABLA_LANES)

/* What elements of a part of a block are multiplied with, and what is added (0:
 * nothing), as vectors. */
typedef struct part {
  nabla_ssa factor, min;
  nabla_ssa table; /* of codes of 4 bits, with both; 0: none */
} part;

/* A block that is being computed. */
typedef struct block {
  nabla_ssa base;  /* its first byte */
  nabla_ssa k;     /* its first element of x */
  nabla_ssa *sums; /* SUMS of them */
} block;

static const nabla_ggml_layout *layout_of(const nabla_emitter *emitter) {
  return emitter->spec->ggml->layout;
}

static nabla_ssa splat(nabla_emitter *emitter, nabla_ssa value) {
  return nabla_emit_broadcast(emitter, "f32", value);
}

static nabla_ssa at_byte(nabla_emitter *emitter, const block *b,
                         uint32_t more) {
  return nabla_emit_add_constant(emitter, b->base, more);
}

/* ---- factors ---- */

/* Four bytes of the block, in a lane each of which a factor or minimum of 6
 * bits will be. */
static nabla_ssa word_at(nabla_emitter *emitter, const block *b, uint32_t at) {
  return nabla_emit_load(emitter, "i32", emitter->codes,
                         at_byte(emitter, b, at), 1);
}

static nabla_ssa i32_with(nabla_emitter *emitter, const char *operation,
                          nabla_ssa a, uint32_t value) {
  return nabla_emit_i32_with(emitter, NABLA_SCALAR, operation, a, value);
}

/* The upper bits of the last four, from the two highest of each byte. */
static nabla_ssa last_four(nabla_emitter *emitter, nabla_ssa low,
                           nabla_ssa high) {
  high = i32_with(emitter, "shrui", high, 2);
  high = i32_with(emitter, "andi", high, 0x30303030);
  low = i32_with(emitter, "andi", low, 0x0f0f0f0f);
  return nabla_emit_i32_binary(emitter, NABLA_SCALAR, "ori", low, high);
}

/* All factors and minima of PACKED6 (quant/ggml_decode.c): lane j is factor j,
 * lane 8 + j minimum j, as f32. */
static nabla_ssa packed6_lanes(nabla_emitter *emitter, const block *b) {
  uint32_t at = layout_of(emitter)->sub_at;
  nabla_ssa f = word_at(emitter, b, at), m = word_at(emitter, b, at + 4);
  nabla_ssa both = word_at(emitter, b, at + 8);
  nabla_ssa words[4] = {
      i32_with(emitter, "andi", f, 0x3f3f3f3f), last_four(emitter, both, f),
      i32_with(emitter, "andi", m, 0x3f3f3f3f),
      last_four(emitter, i32_with(emitter, "shrui", both, 4), m)};
  nabla_ssa all = nabla_emit(emitter,
                             "vector.from_elements %%v%u, %%v%u, %%v%u, %%v%u "
                             ": vector<4xi32>",
                             words[0], words[1], words[2], words[3]);
  all = nabla_emit(emitter,
                   "vector.bitcast %%v%u : vector<4xi32> to "
                   "vector<16xi8>",
                   all);
  all = nabla_emit(emitter,
                   "arith.extui %%v%u : vector<16xi8> to "
                   "vector<16xi32>",
                   all);
  return nabla_emit(emitter,
                    "arith.sitofp %%v%u : vector<16xi32> to "
                    "vector<16xf32>",
                    all);
}

/* The 16 factors of BYTES. */
static nabla_ssa bytes_lanes(nabla_emitter *emitter, const block *b) {
  nabla_ssa raw =
      nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                      at_byte(emitter, b, layout_of(emitter)->sub_at), 1);
  raw = nabla_emit(emitter,
                   "arith.extsi %%v%u : vector<16xi8> to "
                   "vector<16xi32>",
                   raw);
  return nabla_emit(emitter,
                    "arith.sitofp %%v%u : vector<16xi32> to "
                    "vector<16xf32>",
                    raw);
}

/* Lane `lane` of a vector in all lanes. */
static nabla_ssa spread(nabla_emitter *emitter, nabla_ssa vector,
                        unsigned lane) {
  nabla_ssa one =
      nabla_emit(emitter, "vector.extract %%v%u[%u] : f32 from vector<16xf32>",
                 vector, lane);
  return splat(emitter, one);
}

/* The f16 at a byte of the block, widened in all lanes: that is cheaper than to
 * spread it afterwards. */
static nabla_ssa half_lanes(nabla_emitter *emitter, const block *b,
                            uint32_t at) {
  nabla_ssa half = nabla_emit_load(emitter, "i16", emitter->codes,
                                   at_byte(emitter, b, at), 1);
  return nabla_emit_widen(emitter, NABLA_VECTOR, NABLA_DTYPE_F16,
                          nabla_emit_broadcast(emitter, "i16", half));
}

/* The factor of the block in all lanes; with PACKED6 the minimum, negated, in
 * the upper ones. */
static nabla_ssa block_factor(nabla_emitter *emitter, const block *b) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa all = l->is_e8m0
                      ? splat(emitter, nabla_emit_ggml_e8m0(
                                           emitter, at_byte(emitter, b, l->d)))
                      : half_lanes(emitter, b, l->d);
  if (l->sub != NABLA_GGML_SUB_PACKED6) return all;
  nabla_ssa min = half_lanes(emitter, b, (uint32_t)l->min);
  min = nabla_emit(emitter, "arith.negf %%v%u : vector<16xf32>", min);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    nabla_emit_mask(emitter, 0, 8), all, min);
}

/* The parts of a block, and how many elements each has. */
static uint32_t parts_of(nabla_emitter *emitter, const block *b,
                         part out[NABLA_GGML_ELEMENTS_MAX / NABLA_LANES]) {
  const nabla_ggml *format = emitter->spec->ggml;
  const nabla_ggml_layout *l = format->layout;
  nabla_ssa by = block_factor(emitter, b);
  uint32_t size = format->elements;
  if (l->sub == NABLA_GGML_SUB_NONE) {
    out[0] = (part){.factor = by};
    if (l->min >= 0) out[0].min = half_lanes(emitter, b, (uint32_t)l->min);
  } else {
    int packed6 = l->sub == NABLA_GGML_SUB_PACKED6;
    nabla_ssa lanes =
        packed6 ? packed6_lanes(emitter, b) : bytes_lanes(emitter, b);
    lanes = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", lanes, by);
    size = packed6 ? NABLA_GGML_PACKED6_PART : NABLA_GGML_BYTES_PART;
    for (uint32_t j = 0; j < format->elements / size; j++)
      out[j] = (part){.factor = spread(emitter, lanes, j),
                      .min = packed6 ? spread(emitter, lanes, 8 + j) : 0};
  }
  if (!l->run || (l->bits && l->part != 1)) return size;
  nabla_ssa table = nabla_emit_ggml_table(emitter);
  for (uint32_t j = 0; j < format->elements / size; j++)
    out[j].table = out[j].min ? nabla_emit_fma(emitter, NABLA_VECTOR, table,
                                               out[j].factor, out[j].min)
                              : nabla_emit_binary(emitter, NABLA_VECTOR, "mulf",
                                                  table, out[j].factor);
  return size;
}

/* ---- weights ---- */

static nabla_ssa load_bytes(nabla_emitter *emitter, const block *b, uint32_t at,
                            const char *extend) {
  nabla_ssa raw = nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                                  at_byte(emitter, b, at), 1);
  return nabla_emit(emitter, "arith.%s %%v%u : vector<16xi8> to vector<16xi32>",
                    extend, raw);
}

/* Codes of 4 bits from element `e` on. The lookup takes the lowest 4 bits of
 * each lane. */
static nabla_ssa looked_up(nabla_emitter *emitter, const block *b, uint32_t e,
                           const part *p) {
  const nabla_ggml_layout *l = layout_of(emitter);
  nabla_ssa codes = load_bytes(emitter, b, nabla_ggml_code_byte(l, e), "extui");
  codes = nabla_emit_i32_with(emitter, NABLA_VECTOR, "shrui", codes,
                              nabla_ggml_code_shift(l, e));
  nabla_ssa value = nabla_emit_lookup_in(emitter, p->table, codes);
  if (!l->bits) return value;
  /* a fifth bit in a row of bits: 16 times the factor more */
  nabla_ssa more = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", p->factor,
                                     nabla_emit_f32(emitter, NABLA_VECTOR, 16));
  more = nabla_emit_binary(emitter, NABLA_VECTOR, "addf", value, more);
  nabla_ssa bits =
      nabla_emit_load(emitter, "i16", emitter->codes,
                      at_byte(emitter, b, nabla_ggml_high_byte(l, e)), 1);
  bits = nabla_emit(emitter, "llvm.bitcast %%v%u : i16 to vector<16xi1>", bits);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    bits, more, value);
}

static nabla_ssa i8_with(nabla_emitter *emitter, const char *operation,
                         nabla_ssa a, uint32_t value) {
  nabla_ssa b =
      nabla_emit(emitter, "arith.constant dense<%u> : vector<32xi8>", value);
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : vector<32xi8>", operation,
                    a, b);
}

/* 32 codes with upper bits from element `e` on, a byte each. */
static nabla_ssa piece_codes(nabla_emitter *emitter, const block *b,
                             uint32_t e) {
  const nabla_ggml_layout *l = layout_of(emitter);
  uint32_t shift = nabla_ggml_high_shift(l, e);
  nabla_ssa low =
      nabla_emit_load(emitter, "vector<32xi8>", emitter->codes,
                      at_byte(emitter, b, nabla_ggml_code_byte(l, e)), 1);
  nabla_ssa high =
      nabla_emit_load(emitter, "vector<32xi8>", emitter->codes,
                      at_byte(emitter, b, nabla_ggml_high_byte(l, e)), 1);
  low = nabla_ggml_code_shift(l, e) ? i8_with(emitter, "shrui", low, 4)
                                    : i8_with(emitter, "andi", low, 15);
  high = shift > 4 ? i8_with(emitter, "shrui", high, shift - 4)
                   : i8_with(emitter, "shli", high, 4 - shift);
  high = i8_with(emitter, "andi", high, ((1u << l->bits) - 1) << 4);
  return nabla_emit(emitter, "arith.ori %%v%u, %%v%u : vector<32xi8>", low,
                    high);
}

/* Half `half` of 32 codes, as f32. */
static nabla_ssa half_piece(nabla_emitter *emitter, nabla_ssa codes,
                            unsigned half) {
  nabla_ssa lanes = nabla_emit(
      emitter,
      "vector.extract_strided_slice %%v%u {offsets = [%u], sizes = [16], "
      "strides = [1]} : vector<32xi8> to vector<16xi8>",
      codes, half * NABLA_LANES);
  lanes = nabla_emit(emitter,
                     "arith.extui %%v%u : vector<16xi8> to "
                     "vector<16xi32>",
                     lanes);
  return nabla_emit(emitter,
                    "arith.sitofp %%v%u : vector<16xi32> to "
                    "vector<16xf32>",
                    lanes);
}

/* factor * (code - bias), or factor * code + min. */
static nabla_ssa converted(nabla_emitter *emitter, nabla_ssa code,
                           const part *p) {
  int32_t bias = layout_of(emitter)->bias;
  nabla_ssa add = p->min;
  if (!add)
    add = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", p->factor,
                            nabla_emit_f32(emitter, NABLA_VECTOR, -bias));
  return nabla_emit_fma(emitter, NABLA_VECTOR, code, p->factor, add);
}

/* ---- sums ---- */

static void add_product(nabla_emitter *emitter, const block *b, uint32_t e,
                        nabla_ssa weight) {
  nabla_array_ref x = {emitter->x, emitter->spec->x_type};
  nabla_ssa values = nabla_emit_read_lanes(
      emitter, x, nabla_emit_add_constant(emitter, b->k, e), NABLA_LANES);
  nabla_ssa *sum = &b->sums[e / NABLA_LANES % SUMS];
  *sum = nabla_emit_fma(emitter, NABLA_VECTOR, weight, values, *sum);
}

/* The products of a block of bytes are summed before the factor. */
static void add_bytes(nabla_emitter *emitter, const block *b, uint32_t number,
                      const part *p) {
  nabla_array_ref x = {emitter->x, emitter->spec->x_type};
  nabla_ssa sum = 0;
  for (uint32_t e = 0; e < emitter->spec->ggml->elements; e += NABLA_LANES) {
    nabla_ssa codes = load_bytes(
        emitter, b, nabla_ggml_code_byte(layout_of(emitter), e), "extsi");
    codes = nabla_emit(emitter,
                       "arith.sitofp %%v%u : vector<16xi32> to "
                       "vector<16xf32>",
                       codes);
    nabla_ssa values = nabla_emit_read_lanes(
        emitter, x, nabla_emit_add_constant(emitter, b->k, e), NABLA_LANES);
    sum = sum ? nabla_emit_fma(emitter, NABLA_VECTOR, codes, values, sum)
              : nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", codes, values);
  }
  nabla_ssa *to = &b->sums[number % SUMS];
  *to = nabla_emit_fma(emitter, NABLA_VECTOR, sum, p->factor, *to);
}

/* Adds the products of block `number` of a group to the sums. */
static void add_block(nabla_emitter *emitter, const block *b, uint32_t number) {
  const nabla_ggml *format = emitter->spec->ggml;
  part parts[NABLA_GGML_ELEMENTS_MAX / NABLA_LANES];
  uint32_t size = parts_of(emitter, b, parts), step = NABLA_LANES;
  nabla_ssa codes = 0;
  if (!format->layout->run) {
    add_bytes(emitter, b, number, parts);
    return;
  }
  for (uint32_t e = 0; e < format->elements; e += step) {
    const part *p = &parts[e / size];
    if (p->table) {
      add_product(emitter, b, e, looked_up(emitter, b, e, p));
      continue;
    }
    if (e % PIECE == 0) codes = piece_codes(emitter, b, e);
    nabla_ssa code = half_piece(emitter, codes, e / NABLA_LANES % 2);
    add_product(emitter, b, e, converted(emitter, code, p));
  }
}

/* Adds `count` blocks from element `k` of the row at byte `row` on. */
static void add_blocks(nabla_emitter *emitter, nabla_ssa row, nabla_ssa k,
                       uint32_t count, nabla_ssa *sums) {
  const nabla_ggml *format = emitter->spec->ggml;
  nabla_ssa at = nabla_emit_divide(emitter, k, format->elements);
  at = nabla_emit_add(emitter, row,
                      nabla_emit_multiply(emitter, at, format->bytes));
  for (uint32_t line = 0; line < count * format->bytes; line += 64)
    nabla_emit_prefetch(
        emitter, emitter->codes,
        nabla_emit_add_constant(emitter, at, NABLA_PREFETCH_BYTES + line));
  for (uint32_t i = 0; i < count; i++) {
    block b = {.base = nabla_emit_add_constant(emitter, at,
                                               (uint64_t)i * format->bytes),
               .k = nabla_emit_add_constant(emitter, k,
                                            (uint64_t)i * format->elements),
               .sums = sums};
    /* blocks of two vectors take turns at the sums */
    nabla_ssa turned[SUMS];
    uint32_t turn =
        format->layout->run ? i * format->elements / NABLA_LANES : 0;
    for (uint32_t j = 0; j < SUMS; j++) turned[j] = sums[(j + turn) % SUMS];
    b.sums = turned;
    add_block(emitter, &b, i);
    for (uint32_t j = 0; j < SUMS; j++) sums[(j + turn) % SUMS] = turned[j];
  }
}

/* Adds the products of elements [from, to), `step` at a time. */
static void sum_range(nabla_emitter *emitter, nabla_ssa row, nabla_ssa from,
                      nabla_ssa to, uint32_t step, nabla_ssa *sums) {
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, from, to, step, SUMS, sums);
  for (unsigned j = 0; j < SUMS; j++) sums[j] = loop.carried[j];
  add_blocks(emitter, row, loop.induction, step / emitter->spec->ggml->elements,
             sums);
  nabla_loop_end(emitter, &loop, sums);
  for (unsigned j = 0; j < SUMS; j++) sums[j] = loop.results[j];
}

static void sum_row(nabla_emitter *emitter, nabla_ssa row, nabla_ssa *sums) {
  const nabla_fused_spec *spec = emitter->spec;
  uint32_t elements = spec->ggml->elements;
  uint32_t group = elements < GROUP ? GROUP : elements;
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  for (unsigned i = 0; i < SUMS; i++) sums[i] = none;
  uint64_t multiple = spec->any_size ? spec->any_size : spec->k;
  nabla_ssa grouped = emitter->k;
  if (multiple % group)
    grouped = nabla_emit_multiply(
        emitter, nabla_emit_divide(emitter, emitter->k, group), group);
  if (spec->any_size || spec->k >= group)
    sum_range(emitter, row, zero, grouped, group, sums);
  if (multiple % group)
    sum_range(emitter, row, grouped, emitter->k, elements, sums);
}

/* y[m][n] for the row of w at byte `row`: each row of x decodes it again, but
 * from the first cache. */
static void one_product(nabla_emitter *emitter, nabla_ssa row, nabla_ssa m,
                        nabla_ssa n) {
  nabla_array_ref y = {emitter->y, emitter->spec->y_type};
  nabla_ssa sums[SUMS], x = emitter->x;
  uint64_t size = nabla_dtype_bits(emitter->spec->x_type) / 8;
  nabla_ssa at = nabla_emit_product(emitter, m, emitter->k);
  emitter->x =
      nabla_emit_address(emitter, x, nabla_emit_multiply(emitter, at, size));
  sum_row(emitter, row, sums);
  emitter->x = x;
  for (unsigned apart = 1; apart < SUMS; apart *= 2)
    for (unsigned i = 0; i < SUMS; i += 2 * apart)
      sums[i] = nabla_emit_binary(emitter, NABLA_VECTOR, "addf", sums[i],
                                  sums[i + apart]);
  nabla_ssa value = nabla_emit_sum(emitter, sums[0]);
  value = nabla_emit_epilogue(emitter, NABLA_SCALAR, value, m, n, 1);
  nabla_emit_write(emitter, y, nabla_emit_y_index(emitter, m, n), value);
}

static void run(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_loop columns, rows;
  nabla_loop_begin(emitter, &columns, emitter->begin, emitter->end, 1, 0, NULL);
  nabla_ssa row = spec->any_size ? nabla_emit_product(
                                       emitter, columns.induction, emitter->k)
                                 : nabla_emit_flat(emitter, columns.induction,
                                                   nabla_spec_row_stride(spec));
  row = nabla_emit_divide(emitter, row, spec->ggml->elements);
  row = nabla_emit_multiply(emitter, row, spec->ggml->bytes);
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0), emitter->m, 1, 0,
                   NULL);
  one_product(emitter, row, rows.induction, columns.induction);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &columns, NULL);
}

/* ---- what it is for ---- */

static int applies(const nabla_fused_spec *spec) {
  if (!spec->ggml || spec->numerics != NABLA_NUMERICS_F32 ||
      spec->layout != NABLA_WEIGHT_LAYOUT_IN_PLACE)
    return 0;
  uint64_t elements = spec->ggml->elements;
  if (spec->any_size && spec->any_size % elements) return 0;
  return nabla_spec_last_m(spec) <= 4 && nabla_spec_is_row(spec) &&
         NABLA_HAS(spec->features, AVX512F) &&
         spec->w_type == NABLA_DTYPE_F32 &&
         (spec->any_size || (spec->k > 0 && spec->k % elements == 0 &&
                             spec->offset % elements == 0 &&
                             nabla_spec_row_stride(spec) % elements == 0));
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  (void)spec;
  return 40.0 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_LANES;
}

/* A quarter of the vectors of a row and two levels of sums, then the lanes;
 * what is left of a group has two vectors in each block. */
static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t rest = spec->k % GROUP / NABLA_LANES;
  return spec->k / (NABLA_LANES * SUMS) + rest + 2 + 4;
}

const nabla_body nabla_body_blocks = {.name = "blocks",
                                      .takes_blocks = 1,
                                      .applies = applies,
                                      .cost = cost,
                                      .run = run,
                                      .describe = describe,
                                      .chain = chain};
