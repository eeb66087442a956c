/* GEMV for M up to 4 and GGUF blocks in place, whole blocks at a time: y[n] =
 * sum over k of x[k] * w[n][k]. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/tile_util.h"

/* Elements of one step, and independent accumulators. */
#define GROUP 128u
#define SUMS  4u

/* The current block. */
typedef struct block {
  nabla_ssa base;  /* its first byte */
  nabla_ssa k;     /* its first element of x */
  nabla_ssa *sums; /* SUMS of them */
} block;

/* ---- sums ---- */

static void add_product(nabla_emitter *e, uint32_t element, nabla_ssa weight,
                        void *context) {
  const block *b = context;
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_ssa values =
      k_read_lanes(e, x, k_add_constant(e, b->k, element), NABLA_LANES);
  nabla_ssa *sum = &b->sums[element / NABLA_LANES % SUMS];
  *sum = k_fma(e, NABLA_VECTOR, weight, values, *sum);
}

/* The products of a block of 8-bit codes are summed before they are scaled. */
static void add_bytes(nabla_emitter *e, const block *b, uint32_t number) {
  nabla_array_ref x = {e->x, e->spec->x_type};
  nabla_block_factors factors = nabla_emit_block_factors(e, b->base);
  nabla_ssa sum = 0;
  for (uint32_t element = 0; element < e->spec->w.ggml->elements;
       element += NABLA_LANES) {
    nabla_ssa codes = nabla_emit_block_bytes(e, b->base, element);
    nabla_ssa values =
        k_read_lanes(e, x, k_add_constant(e, b->k, element), NABLA_LANES);
    sum = sum ? k_fma(e, NABLA_VECTOR, codes, values, sum)
              : k_binary(e, NABLA_VECTOR, "mulf", codes, values);
  }
  nabla_ssa *to = &b->sums[number % SUMS];
  *to = k_fma(e, NABLA_VECTOR, sum, factors.factor, *to);
}

/* Adds the products of block `number` of a group to the sums. */
static void add_block(nabla_emitter *e, block *b, uint32_t number) {
  if (e->spec->w.ggml->layout->run)
    nabla_emit_block_weights(e, b->base, 0, add_product, b);
  else
    add_bytes(e, b, number);
}

/* Adds `count` blocks from element `k` of the row at byte `row` on. */
static void add_blocks(nabla_emitter *e, nabla_ssa row, nabla_ssa k,
                       uint32_t count, nabla_ssa *sums) {
  const nabla_ggml *format = e->spec->w.ggml;
  nabla_ssa at = k_divide(e, k, format->elements);
  at = k_add(e, row, k_multiply(e, at, format->bytes));
  for (uint32_t line = 0; line < count * format->bytes; line += 64)
    k_prefetch(e, e->codes, k_add_constant(e, at, k_family(e)->stream + line));
  for (uint32_t i = 0; i < count; i++) {
    block b = {.base = k_add_constant(e, at, (uint64_t)i * format->bytes),
               .k = k_add_constant(e, k, (uint64_t)i * format->elements),
               .sums = sums};
    /* blocks of two vectors alternate between the accumulators */
    nabla_ssa rotated[SUMS];
    uint32_t shift =
        format->layout->run ? i * format->elements / NABLA_LANES : 0;
    for (uint32_t j = 0; j < SUMS; j++) rotated[j] = sums[(j + shift) % SUMS];
    b.sums = rotated;
    add_block(e, &b, i);
    for (uint32_t j = 0; j < SUMS; j++) sums[(j + shift) % SUMS] = rotated[j];
  }
}

/* Adds the products of elements [from, to), `step` at a time. */
static void sum_range(nabla_emitter *e, nabla_ssa row, nabla_ssa from,
                      nabla_ssa to, uint32_t step, nabla_ssa *sums) {
  nabla_loop loop;
  k_loop_begin(e, &loop, from, to, step, SUMS, sums);
  for (unsigned j = 0; j < SUMS; j++) sums[j] = loop.carried[j];
  add_blocks(e, row, loop.induction, step / e->spec->w.ggml->elements, sums);
  k_loop_end(e, &loop, sums);
  for (unsigned j = 0; j < SUMS; j++) sums[j] = loop.results[j];
}

static void sum_row(nabla_emitter *e, nabla_ssa row, nabla_ssa *sums) {
  const nabla_fused_spec *spec = e->spec;
  uint32_t elements = spec->w.ggml->elements;
  uint32_t group = elements < GROUP ? GROUP : elements;
  nabla_ssa none = k_f32(e, NABLA_VECTOR, 0);
  nabla_ssa zero = k_i64(e, 0);
  for (unsigned i = 0; i < SUMS; i++) sums[i] = none;
  uint64_t multiple = spec->any_size ? spec->any_size : spec->k;
  nabla_ssa grouped = e->k;
  if (multiple % group)
    grouped = k_multiply(e, k_divide(e, e->k, group), group);
  if (spec->any_size || spec->k >= group)
    sum_range(e, row, zero, grouped, group, sums);
  if (multiple % group) sum_range(e, row, grouped, e->k, elements, sums);
}

/* y[m][n] for the row of w at byte `row`: it is dequantized again for each row
 * of x, but from the first-level cache. */
static void one_product(nabla_emitter *e, nabla_ssa row, nabla_ssa m,
                        nabla_ssa n) {
  nabla_ssa sums[SUMS], x = e->x;
  uint64_t size = nabla_dtype_bits(e->spec->x_type) / 8;
  nabla_ssa at = k_product(e, m, e->k);
  e->x = k_address(e, x, k_multiply(e, at, size));
  sum_row(e, row, sums);
  e->x = x;
  for (unsigned apart = 1; apart < SUMS; apart *= 2)
    for (unsigned i = 0; i < SUMS; i += 2 * apart)
      sums[i] = k_binary(e, NABLA_VECTOR, "addf", sums[i], sums[i + apart]);
  nabla_emit_finish_sum(e, sums[0], m, n);
}

static void run(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  nabla_loop columns, rows;
  k_loop_begin(e, &columns, e->begin, e->end, 1, 0, NULL);
  nabla_ssa row = nabla_emit_row_start(e, columns.induction);
  row = k_divide(e, row, spec->w.ggml->elements);
  row = k_multiply(e, row, spec->w.ggml->bytes);
  k_loop_begin(e, &rows, k_i64(e, 0), e->m, 1, 0, NULL);
  one_product(e, row, rows.induction, columns.induction);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &columns, NULL);
}

/* ---- what it is for ---- */

static int applies(const nabla_fused_spec *spec) {
  return spec->w.ggml && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         nabla_spec_last_m(spec) <= 4 && nabla_spec_is_row(spec) &&
         (spec->any_size || spec->k > 0) && nabla_block_weights_apply(spec) &&
         (NABLA_HAS(spec->features, AVX512F) || spec->w.ggml->layout->run);
}

static double cost(const nabla_fused_spec *spec, uint64_t m) {
  return (NABLA_HAS(spec->features, AVX512F) ? 65 : 130) * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = NABLA_LANES;
}

/* Of each group a sum has two vectors, or what a block of bytes gives, which is
 * two vectors itself; the first is added to zero. What is left of a group goes
 * to the same sums, block by block. Two levels of sums, then the lanes. */
static uint64_t accumulation_depth(const nabla_fused_spec *spec) {
  uint64_t groups = spec->k / GROUP, left = spec->k % GROUP;
  uint64_t sums = spec->w.ggml->layout->run ? 2 * groups : groups + 1;
  return sums + left / spec->w.ggml->elements + 2 + 4 - 1;
}

const nabla_kernel_variant nabla_variant_gemv_ggml = {
    .name = "gemv_ggml",
    .takes_blocks = 1,
    .applies = applies,
    .cost = cost,
    .run = run,
    .describe = describe,
    .accumulation_depth = accumulation_depth};
