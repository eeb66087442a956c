/* Loads and stores of F32, F16 and BF16 as f32. BF16, and F16 where the target
 * cannot convert it, go through integers: LLVM would call its runtime library,
 * or (vcvtneps2bf16) flush small values to zero. */
#include "lib/kernels/builder/k.h"

static nabla_ssa bits_binary(nabla_emitter *e, nabla_shape shape,
                             const char *operation, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b,
              nabla_type_i32[shape]);
}

static nabla_ssa bits_constant(nabla_emitter *e, nabla_shape shape,
                               const char *operation, nabla_ssa a,
                               uint32_t value) {
  return bits_binary(e, shape, operation, a, k_i32(e, shape, value));
}

static nabla_ssa as_bits(nabla_emitter *e, nabla_shape shape, nabla_ssa value) {
  return k_op(e, "arith.bitcast %%v%u : %s to %s", value, nabla_type_f32[shape],
              nabla_type_i32[shape]);
}

static nabla_ssa as_float(nabla_emitter *e, nabla_shape shape, nabla_ssa bits) {
  return k_op(e, "arith.bitcast %%v%u : %s to %s", bits, nabla_type_i32[shape],
              nabla_type_f32[shape]);
}

static nabla_ssa choose(nabla_emitter *e, nabla_shape shape,
                        nabla_ssa condition, nabla_ssa yes, nabla_ssa no) {
  if (shape == NABLA_SCALAR)
    return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i32", condition, yes,
                no);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xi32>",
              condition, yes, no);
}

static nabla_ssa above(nabla_emitter *e, nabla_shape shape, nabla_ssa a,
                       uint32_t limit) {
  nabla_ssa bound = k_i32(e, shape, limit);
  return k_op(e, "arith.cmpi ugt, %%v%u, %%v%u : %s", a, bound,
              nabla_type_i32[shape]);
}

#define SIZE_BITS 0x7fffffffu

nabla_ssa nabla_emit_size_bits(nabla_emitter *e, nabla_shape shape,
                               nabla_ssa value) {
  return bits_constant(e, shape, "andi", as_bits(e, shape, value), SIZE_BITS);
}

/* Exponent and mantissa moved to where f32 has them, then a multiplication by
 * 2^112, exact also for subnormals; infinity and NaN need the largest
 * exponent. */
static nabla_ssa widen_f16(nabla_emitter *e, nabla_shape shape,
                           nabla_ssa bits) {
  nabla_ssa sign = bits_constant(e, shape, "andi", bits, 0x8000);
  sign = bits_constant(e, shape, "shli", sign, 16);
  nabla_ssa rest = bits_constant(e, shape, "andi", bits, 0x7fff);
  rest = bits_constant(e, shape, "shli", rest, 13);
  nabla_ssa special = above(e, shape, rest, (0x7c00u << 13) - 1);
  nabla_ssa largest = bits_constant(e, shape, "ori", rest, 0x7f800000);
  nabla_ssa scaled = as_float(e, shape, rest);
  scaled = k_binary(e, shape, "mulf", scaled, k_f32(e, shape, 0x1p112));
  scaled = as_bits(e, shape, scaled);
  scaled = choose(e, shape, special, largest, scaled);
  return as_float(e, shape, bits_binary(e, shape, "ori", scaled, sign));
}

/* Three ranges: below 2^-14 the addition of 1/2 rounds at f16's subnormal
 * step; up to 2^16 integers round half to even; above is infinity or NaN. */
static nabla_ssa narrow_f16(nabla_emitter *e, nabla_shape shape,
                            nabla_ssa bits) {
  nabla_ssa size = bits_constant(e, shape, "andi", bits, SIZE_BITS);
  nabla_ssa sign = bits_constant(e, shape, "shrui", bits, 16);
  sign = bits_constant(e, shape, "andi", sign, 0x8000);
  nabla_ssa small = k_binary(e, shape, "addf", as_float(e, shape, size),
                             k_f32(e, shape, 0.5));
  small = bits_constant(e, shape, "subi", as_bits(e, shape, small), 0x3f000000);
  nabla_ssa odd = bits_constant(e, shape, "shrui", size, 13);
  odd = bits_constant(e, shape, "andi", odd, 1);
  nabla_ssa usual = bits_constant(e, shape, "subi", size, 0x38000000u - 0xfffu);
  usual = bits_binary(e, shape, "addi", usual, odd);
  usual = bits_constant(e, shape, "shrui", usual, 13);
  nabla_ssa infinite = k_i32(e, shape, 0x7c00);
  nabla_ssa nan = k_i32(e, shape, 0x7e00);
  nabla_ssa large =
      choose(e, shape, above(e, shape, size, 0x7f800000), nan, infinite);
  nabla_ssa result =
      choose(e, shape, above(e, shape, size, 0x387fffff), usual, small);
  result = choose(e, shape, above(e, shape, size, 0x477fffff), large, result);
  return bits_binary(e, shape, "ori", result, sign);
}

static nabla_ssa narrow_bf16(nabla_emitter *e, nabla_shape shape,
                             nabla_ssa bits) {
  nabla_ssa size = bits_constant(e, shape, "andi", bits, SIZE_BITS);
  nabla_ssa nan = above(e, shape, size, 0x7f800000);
  nabla_ssa quiet = bits_constant(e, shape, "ori", bits, 0x400000);
  nabla_ssa odd = bits_constant(e, shape, "shrui", bits, 16);
  odd = bits_constant(e, shape, "andi", odd, 1);
  nabla_ssa up = bits_constant(e, shape, "addi", bits, 0x7fff);
  up = bits_binary(e, shape, "addi", up, odd);
  up = choose(e, shape, nan, quiet, up);
  return bits_constant(e, shape, "shrui", up, 16);
}

/* AArch64 has instructions for it too. */
static int has_f16(const nabla_emitter *e) {
  return NABLA_HAS(e->spec->features, F16C) ||
         NABLA_HAS(e->spec->features, NEON);
}

nabla_ssa nabla_emit_widen(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa half) {
  if (dtype == NABLA_DTYPE_F16 && has_f16(e)) {
    nabla_ssa value = k_op(e, "arith.bitcast %%v%u : %s to %s", half,
                           nabla_type_i16[shape], nabla_type_f16[shape]);
    return k_op(e, "arith.extf %%v%u : %s to %s", value, nabla_type_f16[shape],
                nabla_type_f32[shape]);
  }
  nabla_ssa bits = k_op(e, "arith.extui %%v%u : %s to %s", half,
                        nabla_type_i16[shape], nabla_type_i32[shape]);
  if (dtype == NABLA_DTYPE_F16) return widen_f16(e, shape, bits);
  return as_float(e, shape, bits_constant(e, shape, "shli", bits, 16));
}

nabla_ssa nabla_emit_narrow(nabla_emitter *e, nabla_shape shape,
                            nabla_dtype dtype, nabla_ssa value) {
  if (dtype == NABLA_DTYPE_F16 && has_f16(e)) {
    nabla_ssa half = k_op(e, "arith.truncf %%v%u : %s to %s", value,
                          nabla_type_f32[shape], nabla_type_f16[shape]);
    return k_op(e, "arith.bitcast %%v%u : %s to %s", half,
                nabla_type_f16[shape], nabla_type_i16[shape]);
  }
  nabla_ssa bits = as_bits(e, shape, value);
  bits = dtype == NABLA_DTYPE_F16 ? narrow_f16(e, shape, bits)
                                  : narrow_bf16(e, shape, bits);
  return k_op(e, "arith.trunci %%v%u : %s to %s", bits, nabla_type_i32[shape],
              nabla_type_i16[shape]);
}

nabla_ssa nabla_emit_round(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa value) {
  if (dtype == NABLA_DTYPE_F32) return value;
  return k_widen(e, shape, dtype, k_narrow(e, shape, dtype, value));
}

static unsigned size_of(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? 4 : 2;
}

static nabla_ssa address_of(nabla_emitter *e, nabla_array_ref array,
                            nabla_ssa index) {
  nabla_ssa byte = k_multiply(e, index, size_of(array.dtype));
  return k_address(e, array.base, byte);
}

/* The type that an array's elements are loaded and stored as. */
static const char *stored(nabla_dtype dtype, nabla_shape shape) {
  return dtype == NABLA_DTYPE_F32 ? nabla_type_f32[shape]
                                  : nabla_type_i16[shape];
}

/* An element, or NABLA_LANES. */
static nabla_ssa read_as(nabla_emitter *e, nabla_shape shape,
                         nabla_array_ref array, nabla_ssa index) {
  nabla_ssa address = address_of(e, array, index);
  nabla_ssa raw =
      k_op(e, "llvm.load %%v%u {alignment = %u : i64} : !llvm.ptr -> %s",
           address, size_of(array.dtype), stored(array.dtype, shape));
  if (array.dtype == NABLA_DTYPE_F32) return raw;
  return k_widen(e, shape, array.dtype, raw);
}

nabla_ssa nabla_emit_read(nabla_emitter *e, nabla_array_ref array,
                          nabla_ssa index) {
  return read_as(e, NABLA_SCALAR, array, index);
}

/* Not llvm.masked.load and .store: with one lane of i16, LLVM 22 stores 4 bytes
 * for x86. */
static nabla_ssa read_few(nabla_emitter *e, nabla_array_ref array,
                          nabla_ssa index, unsigned width) {
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] = i < width ? k_read(e, array, k_add_constant(e, index, i))
                          : k_f32(e, NABLA_SCALAR, 0);
  return k_from_elements(e, "f32", values);
}

nabla_ssa nabla_emit_read_lanes(nabla_emitter *e, nabla_array_ref array,
                                nabla_ssa index, unsigned width) {
  return width < NABLA_LANES ? read_few(e, array, index, width)
                             : read_as(e, NABLA_VECTOR, array, index);
}

static void write_as(nabla_emitter *e, nabla_shape shape, nabla_array_ref array,
                     nabla_ssa index, nabla_ssa value) {
  nabla_ssa address = address_of(e, array, index);
  if (array.dtype != NABLA_DTYPE_F32)
    value = k_narrow(e, shape, array.dtype, value);
  k_line(e, "llvm.store %%v%u, %%v%u {alignment = %u : i64} : %s, !llvm.ptr",
         value, address, size_of(array.dtype), stored(array.dtype, shape));
}

void nabla_emit_write(nabla_emitter *e, nabla_array_ref array, nabla_ssa index,
                      nabla_ssa value) {
  write_as(e, NABLA_SCALAR, array, index, value);
}

void nabla_emit_write_lanes(nabla_emitter *e, nabla_array_ref array,
                            nabla_ssa index, nabla_ssa value) {
  write_as(e, NABLA_VECTOR, array, index, value);
}

void nabla_emit_clear(nabla_emitter *e, nabla_array_ref array,
                      nabla_ssa count) {
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), count, NABLA_LANES, 0, NULL);
  k_write_lanes(e, array, loop.induction, k_f32(e, NABLA_VECTOR, 0));
  k_loop_end(e, &loop, NULL);
}
