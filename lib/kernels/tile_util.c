/* Code that the variants of a fused kernel share; see tile_util.h. */
#include "lib/kernels/tile_util.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"

unsigned nabla_row_tile(const nabla_fused_spec *spec) {
  const unsigned height = NABLA_HAS(spec->features, AVX512F) ? 8 : 4;
  const uint64_t last = nabla_spec_last_m(spec);
  return last < height ? (unsigned)last : height;
}

void nabla_emit_by_rows(nabla_emitter *e, void (*one)(nabla_emitter *e),
                        void (*many)(nabla_emitter *e)) {
  if (e->spec->m_max == 1) {
    one(e);
    return;
  }
  if (e->spec->m_min > 1) {
    many(e);
    return;
  }
  nabla_ssa number = k_i64(e, 1);
  nabla_ssa single = k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", e->m, number);
  k_line(e, "scf.if %%v%u {", single);
  one(e);
  k_line(e, "} else {");
  many(e);
  k_line(e, "}");
}

nabla_ssa nabla_emit_y_index(nabla_emitter *e, nabla_ssa row,
                             nabla_ssa column) {
  nabla_ssa first = k_product(e, row, e->n);
  return k_add(e, first, column);
}

nabla_ssa nabla_emit_flat(nabla_emitter *e, nabla_ssa line, uint64_t stride) {
  nabla_ssa flat = k_multiply(e, line, stride);
  return k_add_constant(e, flat, e->spec->offset);
}

nabla_ssa nabla_emit_column_start(nabla_emitter *e, nabla_ssa k) {
  const nabla_fused_spec *spec = e->spec;
  if (e->w_stride) return k_product(e, k, e->w_stride);
  return nabla_emit_flat(e, k, spec->k == 1 ? 0 : spec->stride_k);
}

nabla_ssa nabla_emit_row_start(nabla_emitter *e, nabla_ssa row) {
  const nabla_fused_spec *spec = e->spec;
  if (e->w_stride) return k_product(e, row, e->w_stride);
  return spec->any_size ? k_product(e, row, e->k)
                        : nabla_emit_flat(e, row, nabla_spec_row_stride(spec));
}

uint64_t nabla_row_alignment(const nabla_fused_spec *spec, uint64_t most) {
  if (spec->open) return 1;
  if (spec->any_size) return nabla_common_divisor(spec->any_size, most);
  uint64_t rows =
      nabla_common_divisor(spec->offset, nabla_spec_row_stride(spec));
  return nabla_common_divisor(rows, most);
}

void nabla_emit_tile_rows(nabla_emitter *e, nabla_ssa first, unsigned count,
                          nabla_ssa *out) {
  uint64_t size = nabla_dtype_bits(e->spec->x_type) / 8;
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->m, one);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa row = k_add_constant(e, first, i);
    row = k_minimum(e, row, last);
    row = k_product(e, row, e->x_stride);
    out[i] = k_address(e, e->x, k_multiply(e, row, size));
  }
}

static nabla_array_ref kept(const nabla_emitter *e) {
  return (nabla_array_ref){e->scratch, NABLA_DTYPE_F32};
}

void nabla_emit_keep_sums(nabla_emitter *e, unsigned count,
                          const nabla_ssa *sums) {
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_i64(e, (uint64_t)i * NABLA_LANES);
    k_write_lanes(e, kept(e), at, sums[i]);
  }
}

nabla_ssa nabla_emit_kept_sum(nabla_emitter *e, nabla_ssa index) {
  nabla_ssa at = k_multiply(e, index, NABLA_LANES);
  return k_read_lanes(e, kept(e), at, NABLA_LANES);
}

nabla_ssa nabla_emit_round_up(nabla_emitter *e, nabla_ssa value, uint64_t to) {
  value = k_add_constant(e, value, to - 1);
  return k_multiply(e, k_divide(e, value, to), to);
}

nabla_ssa nabla_emit_part(nabla_emitter *e, unsigned parts) {
  nabla_ssa begin = k_minimum(e, e->begin, e->end);
  nabla_ssa columns = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->end, begin);
  return k_divide(e, k_add_constant(e, columns, parts - 1), parts);
}

nabla_ssa nabla_emit_left(nabla_emitter *e, nabla_ssa end, nabla_ssa at,
                          uint64_t count) {
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", end, at);
  return k_minimum(e, left, k_i64(e, count));
}

nabla_ssa nabla_emit_rows_left(nabla_emitter *e, nabla_ssa first,
                               unsigned count) {
  return nabla_emit_left(e, e->m, first, count);
}

void nabla_emit_finish_sum(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column) {
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_ssa value = k_sum(e, sums);
  value = nabla_emit_epilogue(e, NABLA_SCALAR, value, row, column, 1);
  k_write(e, y, nabla_emit_y_index(e, row, column), value);
}

void nabla_emit_finish_row(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                           nabla_ssa column, nabla_ssa count) {
  nabla_array_ref from = nabla_floats_at(sums);
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_ssa zero = k_i64(e, 0), value, at;
  nabla_ssa whole = k_divide(e, count, NABLA_LANES);
  nabla_loop vectors, rest;
  whole = k_multiply(e, whole, NABLA_LANES);
  k_loop_begin(e, &vectors, zero, whole, NABLA_LANES, 0, NULL);
  at = k_add(e, column, vectors.induction);
  value = k_read_lanes(e, from, vectors.induction, NABLA_LANES);
  value = nabla_emit_epilogue(e, NABLA_VECTOR, value, row, at, NABLA_LANES);
  k_write_lanes(e, y, nabla_emit_y_index(e, row, at), value);
  k_loop_end(e, &vectors, NULL);
  k_loop_begin(e, &rest, whole, count, 1, 0, NULL);
  at = k_add(e, column, rest.induction);
  value = k_read(e, from, rest.induction);
  value = nabla_emit_epilogue(e, NABLA_SCALAR, value, row, at, 1);
  k_write(e, y, nabla_emit_y_index(e, row, at), value);
  k_loop_end(e, &rest, NULL);
}
