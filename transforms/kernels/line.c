/* y[n] = sum over k of x[k] * w[n][k] for M = 1 and 4-bit codes that begin at
 * whole cache lines: 64 bytes hold 128 codes, 8 in each of 16 dwords. A shift
 * by 4 * i brings code i ^ 1 of every dword to the bottom (the high nibble of a
 * byte is first), where the lookup takes it; `prepare` rearranges x to match:
 * vector i of a line of x holds elements 8 * lane + (i ^ 1). */
#include <stdio.h>

#include "transforms/kernels/decode.h"
#include "transforms/kernels/epilogue.h"
#include "transforms/kernels/shapes.h"

/* Codes in 64 bytes. */
#define ELEMENTS 128u
#define VECTORS  (ELEMENTS / NABLA_LANES)
#define GRAIN    16u

static int applies(const nabla_fused_spec *spec) {
  uint64_t stride = nabla_spec_row_stride(spec);
  return nabla_spec_is_row(spec) && nabla_spec_last_m(spec) == 1 &&
         !spec->any_size && spec->numerics == NABLA_NUMERICS_F32 &&
         spec->layout == NABLA_WEIGHT_LAYOUT_IN_PLACE &&
         NABLA_HAS(spec->features, AVX512F) &&
         spec->format.encoding->bits == 4 &&
         !nabla_spec_is_integer(spec->format.encoding) &&
         spec->format.granularity == NABLA_PER_BLOCK &&
         spec->w_type == NABLA_DTYPE_F32 && spec->k > 0 &&
         spec->k % ELEMENTS == 0 && spec->offset % ELEMENTS == 0 &&
         stride % ELEMENTS == 0;
}

/* Elements 0, 2, 4, ... or 1, 3, 5, ... of two vectors. */
static nabla_ssa every_second(nabla_emitter *emitter, nabla_ssa a, nabla_ssa b,
                              int odd) {
  return nabla_emit(
      emitter,
      "vector.shuffle %%v%u, %%v%u [%s] : vector<16xf32>, vector<16xf32>", a, b,
      odd ? "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31"
          : "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30");
}

/* Writes rows of x to the workspace in the order of the codes. With the bits of
 * an element's number in a line named e6 .. e0, a vector's number is e6 e5 e4
 * and its lane e3 .. e0. Taking every second element of two vectors trades the
 * bit that tells them apart for e0; after three times vectors are e2 e1 e0. */
static void prepare(nabla_emitter *emitter) {
  nabla_array_ref x = {emitter->x, emitter->spec->x_type};
  nabla_array_ref out = {emitter->workspace, NABLA_DTYPE_F32};
  nabla_ssa begin = nabla_emit_product(emitter, emitter->begin, emitter->k);
  nabla_ssa end = nabla_emit_product(emitter, emitter->end, emitter->k);
  nabla_ssa v[VECTORS];
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, begin, end, ELEMENTS, 0, NULL);
  for (unsigned i = 0; i < VECTORS; i++) {
    nabla_ssa at = nabla_emit_add_constant(emitter, loop.induction,
                                           (uint64_t)i * NABLA_LANES);
    v[i] = nabla_emit_read_lanes(emitter, x, at, NABLA_LANES);
  }
  for (unsigned apart = 1; apart < VECTORS; apart *= 2)
    for (unsigned i = 0; i < VECTORS; i++) {
      if (i & apart) continue;
      nabla_ssa even = every_second(emitter, v[i], v[i + apart], 0);
      v[i + apart] = every_second(emitter, v[i], v[i + apart], 1);
      v[i] = even;
    }
  for (unsigned i = 0; i < VECTORS; i++) {
    nabla_ssa at = nabla_emit_add_constant(emitter, loop.induction,
                                           (uint64_t)i * NABLA_LANES);
    nabla_emit_write_lanes(emitter, out, at, v[i ^ 1]);
  }
  nabla_loop_end(emitter, &loop, NULL);
}

/* The scale of each dword of the line at `flat`. */
static nabla_ssa line_scales(nabla_emitter *emitter, nabla_ssa flat) {
  uint64_t block = emitter->spec->format.block;
  if (block >= ELEMENTS)
    return nabla_emit_broadcast(emitter, "f32",
                                nabla_emit_scale(emitter, flat));
  unsigned count = (unsigned)(ELEMENTS / block);
  nabla_ssa first = nabla_emit_divide(emitter, flat, block);
  char type[32];
  nabla_text *text = emitter->text;
  nabla_dtype dtype = nabla_spec_scale_dtype(emitter->spec);
  unsigned width = nabla_dtype_bits(dtype) / 8;
  (void)snprintf(type, sizeof type, "vector<%ux%s>", count,
                 width == 4 ? "f32" : "i16");
  nabla_ssa scales =
      nabla_emit_load(emitter, type, emitter->scales,
                      nabla_emit_multiply(emitter, first, width), width);
  nabla_ssa result = ++emitter->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result,
                 scales, scales);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "", i * count / NABLA_LANES);
  nabla_text_add(text, "] : %s, %s\n", type, type);
  return width == 4 ? result
                    : nabla_emit_widen(emitter, NABLA_VECTOR, dtype, result);
}

/* How many sums run side by side in a line: with few lines the chain of 8
 * products would be longer than K / 64 + 8 allows. */
static unsigned sums_of(const nabla_fused_spec *spec) {
  return spec->k < 3 * ELEMENTS ? 2 : 1;
}

/* The products of the line of codes at `flat` with that of x at `k`. */
static nabla_ssa multiply_line(nabla_emitter *emitter, nabla_ssa flat,
                               nabla_ssa k) {
  nabla_array_ref x = {emitter->workspace, NABLA_DTYPE_F32};
  unsigned sums = sums_of(emitter->spec);
  nabla_ssa byte = nabla_emit_divide(emitter, flat, 2), sum[2] = {0, 0};
  nabla_ssa codes =
      nabla_emit_load(emitter, "vector<16xi32>", emitter->codes, byte, 1);
  nabla_emit_prefetch(
      emitter, emitter->codes,
      nabla_emit_add_constant(emitter, byte, NABLA_PREFETCH_BYTES));
  for (unsigned i = 0; i < VECTORS; i++) {
    nabla_ssa by = nabla_emit_i32(emitter, NABLA_VECTOR, 4 * i);
    nabla_ssa index = nabla_emit(
        emitter, "arith.shrui %%v%u, %%v%u : vector<16xi32>", codes, by);
    nabla_ssa w = nabla_emit_lookup(emitter, index);
    nabla_ssa at =
        nabla_emit_add_constant(emitter, k, (uint64_t)i * NABLA_LANES);
    nabla_ssa values = nabla_emit_read_lanes(emitter, x, at, NABLA_LANES);
    nabla_ssa *to = &sum[i % sums];
    *to = *to ? nabla_emit_fma(emitter, NABLA_VECTOR, w, values, *to)
              : nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", w, values);
  }
  return sums == 1
             ? sum[0]
             : nabla_emit_binary(emitter, NABLA_VECTOR, "addf", sum[0], sum[1]);
}

static void emit_lines(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  nabla_array_ref y = {emitter->y, spec->y_type};
  nabla_loop rows, lines;
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa end = emitter->k;
  nabla_ssa none = nabla_emit_f32(emitter, NABLA_VECTOR, 0);
  nabla_loop_begin(emitter, &rows, emitter->begin, emitter->end, 1, 0, NULL);
  nabla_ssa row = nabla_emit_flat(emitter, rows.induction,
                                  spec->n > 1 ? spec->stride_n : 0);
  nabla_loop_begin(emitter, &lines, zero, end, ELEMENTS, 1, &none);
  nabla_ssa flat = nabla_emit_add(emitter, row, lines.induction);
  nabla_ssa sum = multiply_line(emitter, flat, lines.induction);
  nabla_ssa total = nabla_emit_fma(
      emitter, NABLA_VECTOR, sum, line_scales(emitter, flat), lines.carried[0]);
  nabla_loop_end(emitter, &lines, &total);
  nabla_ssa value = nabla_emit_sum(emitter, lines.results[0]);
  value = nabla_emit_epilogue(emitter, NABLA_SCALAR, value, zero,
                              rows.induction, 1);
  nabla_emit_write(emitter, y, rows.induction, value);
  nabla_loop_end(emitter, &rows, NULL);
}

static uint64_t chain(const nabla_fused_spec *spec) {
  uint64_t line = sums_of(spec) == 1 ? VECTORS - 1 : VECTORS / 2;
  return line + spec->k / ELEMENTS + 4;
}

/* A line of 128 codes takes some 4 ns. */
static double cost(const nabla_fused_spec *spec, uint64_t m) {
  (void)spec;
  return 30.0 * (double)m;
}

static void describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  (void)spec;
  out->grain = GRAIN;
  out->workspace = (nabla_kernel_tiles){1, ELEMENTS, ELEMENTS * 4};
}

const nabla_body nabla_body_lines = {.name = "lines",
                                     .applies = applies,
                                     .cost = cost,
                                     .run = emit_lines,
                                     .prepare = prepare,
                                     .describe = describe,
                                     .chain = chain};
