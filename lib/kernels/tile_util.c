/* What the bodies of a fused kernel share; see tile_util.h. */
#include "lib/kernels/tile_util.h"

#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"

unsigned nabla_row_tile(const nabla_fused_spec *spec) {
  const unsigned height = NABLA_HAS(spec->features, AVX512F) ? 8 : 4;
  const uint64_t last = nabla_spec_last_m(spec);
  return last < height ? (unsigned)last : height;
}

void nabla_emit_by_rows(nabla_emitter *emitter,
                        void (*one)(nabla_emitter *emitter),
                        void (*many)(nabla_emitter *emitter)) {
  if (emitter->spec->m_max == 1) {
    one(emitter);
    return;
  }
  if (emitter->spec->m_min > 1) {
    many(emitter);
    return;
  }
  nabla_ssa number = nabla_emit_i64(emitter, 1);
  nabla_ssa single = nabla_emit(emitter, "arith.cmpi eq, %%v%u, %%v%u : i64",
                                emitter->m, number);
  nabla_emit_line(emitter, "scf.if %%v%u {", single);
  one(emitter);
  nabla_emit_line(emitter, "} else {");
  many(emitter);
  nabla_emit_line(emitter, "}");
}

nabla_ssa nabla_emit_y_index(nabla_emitter *emitter, nabla_ssa row,
                             nabla_ssa column) {
  nabla_ssa first = nabla_emit_product(emitter, row, emitter->n);
  return nabla_emit_add(emitter, first, column);
}

nabla_ssa nabla_emit_flat(nabla_emitter *emitter, nabla_ssa line,
                          uint64_t stride) {
  nabla_ssa flat = nabla_emit_multiply(emitter, line, stride);
  return nabla_emit_add_constant(emitter, flat, emitter->spec->offset);
}

nabla_ssa nabla_emit_row_start(nabla_emitter *emitter, nabla_ssa row) {
  const nabla_fused_spec *spec = emitter->spec;
  return spec->any_size
             ? nabla_emit_product(emitter, row, emitter->k)
             : nabla_emit_flat(emitter, row, nabla_spec_row_stride(spec));
}

uint64_t nabla_row_alignment(const nabla_fused_spec *spec, uint64_t most) {
  if (spec->any_size) return nabla_common_divisor(spec->any_size, most);
  uint64_t rows =
      nabla_common_divisor(spec->offset, nabla_spec_row_stride(spec));
  return nabla_common_divisor(rows, most);
}

void nabla_emit_tile_rows(nabla_emitter *emitter, nabla_ssa first,
                          unsigned count, nabla_ssa *out) {
  uint64_t size = nabla_dtype_bits(emitter->spec->x_type) / 8;
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->m, one);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa row = nabla_emit_add_constant(emitter, first, i);
    row = nabla_emit_minimum(emitter, row, last);
    row = nabla_emit_product(emitter, row, emitter->k);
    out[i] = nabla_emit_address(emitter, emitter->x,
                                nabla_emit_multiply(emitter, row, size));
  }
}

static nabla_array_ref kept(const nabla_emitter *emitter) {
  return (nabla_array_ref){emitter->scratch, NABLA_DTYPE_F32};
}

void nabla_emit_keep_sums(nabla_emitter *emitter, unsigned count,
                          const nabla_ssa *sums) {
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = nabla_emit_i64(emitter, (uint64_t)i * NABLA_LANES);
    nabla_emit_write_lanes(emitter, kept(emitter), at, sums[i]);
  }
}

nabla_ssa nabla_emit_kept_sum(nabla_emitter *emitter, nabla_ssa index) {
  nabla_ssa at = nabla_emit_multiply(emitter, index, NABLA_LANES);
  return nabla_emit_read_lanes(emitter, kept(emitter), at, NABLA_LANES);
}

nabla_ssa nabla_emit_round_up(nabla_emitter *emitter, nabla_ssa value,
                              uint64_t to) {
  value = nabla_emit_add_constant(emitter, value, to - 1);
  return nabla_emit_multiply(emitter, nabla_emit_divide(emitter, value, to),
                             to);
}

nabla_ssa nabla_emit_left(nabla_emitter *emitter, nabla_ssa end, nabla_ssa at,
                          uint64_t count) {
  nabla_ssa left =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", end, at);
  return nabla_emit_minimum(emitter, left, nabla_emit_i64(emitter, count));
}

nabla_ssa nabla_emit_rows_left(nabla_emitter *emitter, nabla_ssa first,
                               unsigned count) {
  return nabla_emit_left(emitter, emitter->m, first, count);
}

void nabla_emit_finish_sum(nabla_emitter *emitter, nabla_ssa sums,
                           nabla_ssa row, nabla_ssa column) {
  nabla_array_ref y = {emitter->y, emitter->spec->y_type};
  nabla_ssa value = nabla_emit_sum(emitter, sums);
  value = nabla_emit_epilogue(emitter, NABLA_SCALAR, value, row, column, 1);
  nabla_emit_write(emitter, y, nabla_emit_y_index(emitter, row, column), value);
}

void nabla_emit_finish_row(nabla_emitter *emitter, nabla_ssa sums,
                           nabla_ssa row, nabla_ssa column, nabla_ssa count) {
  nabla_array_ref from = nabla_floats_at(sums);
  nabla_array_ref y = {emitter->y, emitter->spec->y_type};
  nabla_ssa zero = nabla_emit_i64(emitter, 0), value, at;
  nabla_ssa whole = nabla_emit_divide(emitter, count, NABLA_LANES);
  nabla_loop vectors, rest;
  whole = nabla_emit_multiply(emitter, whole, NABLA_LANES);
  nabla_loop_begin(emitter, &vectors, zero, whole, NABLA_LANES, 0, NULL);
  at = nabla_emit_add(emitter, column, vectors.induction);
  value = nabla_emit_read_lanes(emitter, from, vectors.induction, NABLA_LANES);
  value =
      nabla_emit_epilogue(emitter, NABLA_VECTOR, value, row, at, NABLA_LANES);
  nabla_emit_write_lanes(emitter, y, nabla_emit_y_index(emitter, row, at),
                         value);
  nabla_loop_end(emitter, &vectors, NULL);
  nabla_loop_begin(emitter, &rest, whole, count, 1, 0, NULL);
  at = nabla_emit_add(emitter, column, rest.induction);
  value = nabla_emit_read(emitter, from, rest.induction);
  value = nabla_emit_epilogue(emitter, NABLA_SCALAR, value, row, at, 1);
  nabla_emit_write(emitter, y, nabla_emit_y_index(emitter, row, at), value);
  nabla_loop_end(emitter, &rest, NULL);
}
