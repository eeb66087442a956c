/* Short names of the functions that write a kernel (emit.h, transpose.h,
 * amx.h): `k_add` is nabla_emit_add, with the same parameters. Generators use
 * these; symbols of archives keep the prefix of the project. */
#ifndef NABLA_KERNELS_BUILDER_K_H
#define NABLA_KERNELS_BUILDER_K_H

#include "lib/kernels/builder/amx.h"
#include "lib/kernels/builder/emit.h"
#include "lib/kernels/builder/families.h"
#include "lib/kernels/builder/transpose.h"

/* Functions with `...` cannot be wrapped in a function. */
#define k_op   nabla_emit
#define k_line nabla_emit_line

static inline nabla_ssa k_taken(nabla_emitter *e, nabla_text *take) {
  return nabla_emit_taken(e, take);
}

static inline const nabla_cpu_family *k_family(const nabla_emitter *e) {
  return nabla_cpu_family_of(e->spec->features);
}

static inline void k_leave(nabla_emitter *e) { nabla_emit_leave(e); }

static inline nabla_ssa k_i64(nabla_emitter *e, uint64_t value) {
  return nabla_emit_i64(e, value);
}

static inline nabla_ssa k_add(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return nabla_emit_add(e, a, b);
}

static inline nabla_ssa k_add_constant(nabla_emitter *e, nabla_ssa a,
                                       uint64_t b) {
  return nabla_emit_add_constant(e, a, b);
}

static inline nabla_ssa k_multiply(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  return nabla_emit_multiply(e, a, b);
}

static inline nabla_ssa k_product(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return nabla_emit_product(e, a, b);
}

static inline nabla_ssa k_divide(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  return nabla_emit_divide(e, a, b);
}

static inline nabla_ssa k_minimum(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return nabla_emit_minimum(e, a, b);
}

static inline nabla_ssa k_choice(nabla_emitter *e, nabla_ssa condition,
                                 nabla_ssa yes, nabla_ssa no) {
  return nabla_emit_choice(e, condition, yes, no);
}

static inline nabla_ssa k_select(nabla_emitter *e, nabla_shape shape,
                                 nabla_ssa condition, nabla_ssa yes,
                                 nabla_ssa no) {
  return nabla_emit_select_f32(e, shape, condition, yes, no);
}

static inline nabla_ssa k_f32(nabla_emitter *e, nabla_shape shape,
                              double value) {
  return nabla_emit_f32(e, shape, value);
}

static inline nabla_ssa k_f32_lanes(nabla_emitter *e, const float *values) {
  return nabla_emit_f32_lanes(e, values);
}

static inline nabla_ssa k_i32(nabla_emitter *e, nabla_shape shape,
                              uint32_t value) {
  return nabla_emit_i32(e, shape, value);
}

static inline nabla_ssa k_i32_lanes(nabla_emitter *e, const uint32_t *values) {
  return nabla_emit_i32_lanes(e, values);
}

static inline nabla_ssa k_from_elements(nabla_emitter *e, const char *type,
                                        const nabla_ssa *values) {
  return nabla_emit_from_elements(e, type, values);
}

static inline nabla_ssa k_mask(nabla_emitter *e, unsigned first, unsigned end) {
  return nabla_emit_mask(e, first, end);
}

static inline nabla_ssa k_binary(nabla_emitter *e, nabla_shape shape,
                                 const char *operation, nabla_ssa a,
                                 nabla_ssa b) {
  return nabla_emit_binary(e, shape, operation, a, b);
}

static inline nabla_ssa k_fma(nabla_emitter *e, nabla_shape shape, nabla_ssa a,
                              nabla_ssa b, nabla_ssa c) {
  return nabla_emit_fma(e, shape, a, b, c);
}

static inline nabla_ssa k_broadcast(nabla_emitter *e, const char *type,
                                    nabla_ssa value) {
  return nabla_emit_broadcast(e, type, value);
}

static inline nabla_ssa k_sum(nabla_emitter *e, nabla_ssa vector) {
  return nabla_emit_sum(e, vector);
}

static inline nabla_ssa k_i32_binary(nabla_emitter *e, nabla_shape shape,
                                     const char *operation, nabla_ssa a,
                                     nabla_ssa b) {
  return nabla_emit_i32_binary(e, shape, operation, a, b);
}

static inline nabla_ssa k_i32_with(nabla_emitter *e, nabla_shape shape,
                                   const char *operation, nabla_ssa a,
                                   uint32_t b) {
  return nabla_emit_i32_with(e, shape, operation, a, b);
}

static inline nabla_ssa k_shuffle(nabla_emitter *e, const char *element,
                                  unsigned lanes, nabla_ssa a, nabla_ssa b,
                                  unsigned count, nabla_pick *pick,
                                  unsigned context) {
  return nabla_emit_shuffle(e, element, lanes, a, b, count, pick, context);
}

static inline nabla_ssa k_bitcast(nabla_emitter *e, const char *from,
                                  const char *to, nabla_ssa value) {
  return nabla_emit_bitcast(e, from, to, value);
}

static inline nabla_ssa k_address(nabla_emitter *e, nabla_ssa base,
                                  nabla_ssa bytes) {
  return nabla_emit_address(e, base, bytes);
}

static inline nabla_ssa k_load(nabla_emitter *e, const char *type,
                               nabla_ssa base, nabla_ssa byte,
                               unsigned alignment) {
  return nabla_emit_load(e, type, base, byte, alignment);
}

static inline void k_store(nabla_emitter *e, const char *type, nabla_ssa value,
                           nabla_ssa base, nabla_ssa byte, unsigned alignment) {
  nabla_emit_store(e, type, value, base, byte, alignment);
}

static inline void k_prefetch(nabla_emitter *e, nabla_ssa base,
                              nabla_ssa byte) {
  nabla_emit_prefetch(e, base, byte);
}

static inline void k_prefetch_write(nabla_emitter *e, nabla_ssa address) {
  nabla_emit_prefetch_write(e, address);
}

static inline void k_prefetch_far(nabla_emitter *e, nabla_ssa address) {
  nabla_emit_prefetch_far(e, address);
}

static inline nabla_ssa k_read(nabla_emitter *e, nabla_array_ref array,
                               nabla_ssa index) {
  return nabla_emit_read(e, array, index);
}

static inline nabla_ssa k_read_lanes(nabla_emitter *e, nabla_array_ref array,
                                     nabla_ssa index, unsigned width) {
  return nabla_emit_read_lanes(e, array, index, width);
}

static inline void k_write(nabla_emitter *e, nabla_array_ref array,
                           nabla_ssa index, nabla_ssa value) {
  nabla_emit_write(e, array, index, value);
}

static inline void k_write_lanes(nabla_emitter *e, nabla_array_ref array,
                                 nabla_ssa index, nabla_ssa value) {
  nabla_emit_write_lanes(e, array, index, value);
}

static inline void k_clear(nabla_emitter *e, nabla_array_ref array,
                           nabla_ssa count) {
  nabla_emit_clear(e, array, count);
}

static inline nabla_ssa k_widen(nabla_emitter *e, nabla_shape shape,
                                nabla_dtype dtype, nabla_ssa half) {
  return nabla_emit_widen(e, shape, dtype, half);
}

static inline nabla_ssa k_narrow(nabla_emitter *e, nabla_shape shape,
                                 nabla_dtype dtype, nabla_ssa value) {
  return nabla_emit_narrow(e, shape, dtype, value);
}

static inline nabla_ssa k_size_bits(nabla_emitter *e, nabla_shape shape,
                                    nabla_ssa value) {
  return nabla_emit_size_bits(e, shape, value);
}

static inline nabla_ssa k_round(nabla_emitter *e, nabla_shape shape,
                                nabla_dtype dtype, nabla_ssa value) {
  return nabla_emit_round(e, shape, dtype, value);
}

static inline void k_loop_begin(nabla_emitter *e, nabla_loop *loop,
                                nabla_ssa from, nabla_ssa to, uint64_t step,
                                unsigned count, const nabla_ssa *initial) {
  nabla_loop_begin(e, loop, from, to, step, count, initial);
}

static inline void k_loop_begin_of(nabla_emitter *e, nabla_loop *loop,
                                   nabla_ssa from, nabla_ssa to, uint64_t step,
                                   unsigned count, const nabla_ssa *initial,
                                   const char *const *types) {
  nabla_loop_begin_of(e, loop, from, to, step, count, initial, types);
}

static inline void k_loop_end(nabla_emitter *e, nabla_loop *loop,
                              const nabla_ssa *yielded) {
  nabla_loop_end(e, loop, yielded);
}

static inline void k_deinterleave(nabla_emitter *e, unsigned count,
                                  nabla_ssa *v) {
  nabla_emit_deinterleave(e, count, v);
}

static inline void k_transpose(nabla_emitter *e, const char *element,
                               nabla_ssa rows[NABLA_LANES]) {
  nabla_emit_transpose(e, element, rows);
}

static inline void k_interleave_rows(nabla_emitter *e, const char *element,
                                     unsigned rows, nabla_ssa *v) {
  nabla_emit_interleave_rows(e, element, rows, v);
}

static inline nabla_ssa k_lane_sums(nabla_emitter *e, nabla_array_ref rows,
                                    nabla_ssa at) {
  return nabla_emit_lane_sums(e, rows, at);
}

static inline void k_tiles_begin(nabla_emitter *e, nabla_ssa address,
                                 unsigned bytes) {
  nabla_emit_tiles_begin(e, address, bytes);
}

static inline void k_tiles_end(nabla_emitter *e) { nabla_emit_tiles_end(e); }

static inline void k_tile_load(nabla_emitter *e, unsigned tile, nabla_ssa base,
                               nabla_ssa byte) {
  nabla_emit_tile_load(e, tile, base, byte);
}

static inline void k_tile_store(nabla_emitter *e, unsigned tile, nabla_ssa base,
                                nabla_ssa byte) {
  nabla_emit_tile_store(e, tile, base, byte);
}

static inline void k_tile_load_apart(nabla_emitter *e, unsigned tile,
                                     nabla_ssa base, nabla_ssa byte,
                                     uint64_t apart) {
  nabla_emit_tile_load_apart(e, tile, base, byte, apart);
}

static inline void k_tile_store_apart(nabla_emitter *e, unsigned tile,
                                      nabla_ssa base, nabla_ssa byte,
                                      uint64_t apart) {
  nabla_emit_tile_store_apart(e, tile, base, byte, apart);
}

static inline void k_tile_zero(nabla_emitter *e, unsigned tile) {
  nabla_emit_tile_zero(e, tile);
}

static inline void k_tile_dot(nabla_emitter *e, const char *what, unsigned sum,
                              unsigned a, unsigned b) {
  nabla_emit_tile_dot(e, what, sum, a, b);
}

#endif
