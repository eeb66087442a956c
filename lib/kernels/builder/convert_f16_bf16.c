/* Loads and stores of F32, F16 and BF16 as f32. BF16, and F16 where the target
 * cannot convert it, go through integers: LLVM would call its runtime library,
 * or (vcvtneps2bf16) flush small values to zero. */
#include "lib/kernels/builder/emit.h"

static nabla_ssa bits_binary(nabla_emitter *emitter, nabla_shape shape,
                             const char *operation, nabla_ssa a, nabla_ssa b) {
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : %s", operation, a, b,
                    nabla_type_i32[shape]);
}

static nabla_ssa bits_constant(nabla_emitter *emitter, nabla_shape shape,
                               const char *operation, nabla_ssa a,
                               uint32_t value) {
  return bits_binary(emitter, shape, operation, a,
                     nabla_emit_i32(emitter, shape, value));
}

static nabla_ssa as_bits(nabla_emitter *emitter, nabla_shape shape,
                         nabla_ssa value) {
  return nabla_emit(emitter, "arith.bitcast %%v%u : %s to %s", value,
                    nabla_type_f32[shape], nabla_type_i32[shape]);
}

static nabla_ssa as_float(nabla_emitter *emitter, nabla_shape shape,
                          nabla_ssa bits) {
  return nabla_emit(emitter, "arith.bitcast %%v%u : %s to %s", bits,
                    nabla_type_i32[shape], nabla_type_f32[shape]);
}

static nabla_ssa choose(nabla_emitter *emitter, nabla_shape shape,
                        nabla_ssa condition, nabla_ssa yes, nabla_ssa no) {
  if (shape == NABLA_SCALAR)
    return nabla_emit(emitter, "arith.select %%v%u, %%v%u, %%v%u : i32",
                      condition, yes, no);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xi32>",
                    condition, yes, no);
}

static nabla_ssa above(nabla_emitter *emitter, nabla_shape shape, nabla_ssa a,
                       uint32_t limit) {
  nabla_ssa bound = nabla_emit_i32(emitter, shape, limit);
  return nabla_emit(emitter, "arith.cmpi ugt, %%v%u, %%v%u : %s", a, bound,
                    nabla_type_i32[shape]);
}

#define SIZE_BITS 0x7fffffffu

nabla_ssa nabla_emit_size_bits(nabla_emitter *emitter, nabla_shape shape,
                               nabla_ssa value) {
  return bits_constant(emitter, shape, "andi", as_bits(emitter, shape, value),
                       SIZE_BITS);
}

/* Exponent and mantissa moved to where f32 has them, then a multiplication by
 * 2^112, exact also for subnormals; infinity and NaN need the largest
 * exponent. */
static nabla_ssa widen_f16(nabla_emitter *emitter, nabla_shape shape,
                           nabla_ssa bits) {
  nabla_ssa sign = bits_constant(emitter, shape, "andi", bits, 0x8000);
  sign = bits_constant(emitter, shape, "shli", sign, 16);
  nabla_ssa rest = bits_constant(emitter, shape, "andi", bits, 0x7fff);
  rest = bits_constant(emitter, shape, "shli", rest, 13);
  nabla_ssa special = above(emitter, shape, rest, (0x7c00u << 13) - 1);
  nabla_ssa largest = bits_constant(emitter, shape, "ori", rest, 0x7f800000);
  nabla_ssa scaled = as_float(emitter, shape, rest);
  scaled = nabla_emit_binary(emitter, shape, "mulf", scaled,
                             nabla_emit_f32(emitter, shape, 0x1p112));
  scaled = as_bits(emitter, shape, scaled);
  scaled = choose(emitter, shape, special, largest, scaled);
  return as_float(emitter, shape,
                  bits_binary(emitter, shape, "ori", scaled, sign));
}

/* Three ranges: below 2^-14 the addition of 1/2 rounds at f16's subnormal
 * step; up to 2^16 integers round half to even; above is infinity or NaN. */
static nabla_ssa narrow_f16(nabla_emitter *emitter, nabla_shape shape,
                            nabla_ssa bits) {
  nabla_ssa size = bits_constant(emitter, shape, "andi", bits, SIZE_BITS);
  nabla_ssa sign = bits_constant(emitter, shape, "shrui", bits, 16);
  sign = bits_constant(emitter, shape, "andi", sign, 0x8000);
  nabla_ssa small =
      nabla_emit_binary(emitter, shape, "addf", as_float(emitter, shape, size),
                        nabla_emit_f32(emitter, shape, 0.5));
  small = bits_constant(emitter, shape, "subi", as_bits(emitter, shape, small),
                        0x3f000000);
  nabla_ssa odd = bits_constant(emitter, shape, "shrui", size, 13);
  odd = bits_constant(emitter, shape, "andi", odd, 1);
  nabla_ssa usual =
      bits_constant(emitter, shape, "subi", size, 0x38000000u - 0xfffu);
  usual = bits_binary(emitter, shape, "addi", usual, odd);
  usual = bits_constant(emitter, shape, "shrui", usual, 13);
  nabla_ssa infinite = nabla_emit_i32(emitter, shape, 0x7c00);
  nabla_ssa nan = nabla_emit_i32(emitter, shape, 0x7e00);
  nabla_ssa large = choose(
      emitter, shape, above(emitter, shape, size, 0x7f800000), nan, infinite);
  nabla_ssa result = choose(
      emitter, shape, above(emitter, shape, size, 0x387fffff), usual, small);
  result = choose(emitter, shape, above(emitter, shape, size, 0x477fffff),
                  large, result);
  return bits_binary(emitter, shape, "ori", result, sign);
}

static nabla_ssa narrow_bf16(nabla_emitter *emitter, nabla_shape shape,
                             nabla_ssa bits) {
  nabla_ssa size = bits_constant(emitter, shape, "andi", bits, SIZE_BITS);
  nabla_ssa nan = above(emitter, shape, size, 0x7f800000);
  nabla_ssa quiet = bits_constant(emitter, shape, "ori", bits, 0x400000);
  nabla_ssa odd = bits_constant(emitter, shape, "shrui", bits, 16);
  odd = bits_constant(emitter, shape, "andi", odd, 1);
  nabla_ssa up = bits_constant(emitter, shape, "addi", bits, 0x7fff);
  up = bits_binary(emitter, shape, "addi", up, odd);
  up = choose(emitter, shape, nan, quiet, up);
  return bits_constant(emitter, shape, "shrui", up, 16);
}

/* AArch64 has instructions for it too. */
static int has_f16(const nabla_emitter *emitter) {
  return NABLA_HAS(emitter->spec->features, F16C) ||
         NABLA_HAS(emitter->spec->features, NEON);
}

nabla_ssa nabla_emit_widen(nabla_emitter *emitter, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa half) {
  if (dtype == NABLA_DTYPE_F16 && has_f16(emitter)) {
    nabla_ssa value =
        nabla_emit(emitter, "arith.bitcast %%v%u : %s to %s", half,
                   nabla_type_i16[shape], nabla_type_f16[shape]);
    return nabla_emit(emitter, "arith.extf %%v%u : %s to %s", value,
                      nabla_type_f16[shape], nabla_type_f32[shape]);
  }
  nabla_ssa bits = nabla_emit(emitter, "arith.extui %%v%u : %s to %s", half,
                              nabla_type_i16[shape], nabla_type_i32[shape]);
  if (dtype == NABLA_DTYPE_F16) return widen_f16(emitter, shape, bits);
  return as_float(emitter, shape,
                  bits_constant(emitter, shape, "shli", bits, 16));
}

nabla_ssa nabla_emit_narrow(nabla_emitter *emitter, nabla_shape shape,
                            nabla_dtype dtype, nabla_ssa value) {
  if (dtype == NABLA_DTYPE_F16 && has_f16(emitter)) {
    nabla_ssa half = nabla_emit(emitter, "arith.truncf %%v%u : %s to %s", value,
                                nabla_type_f32[shape], nabla_type_f16[shape]);
    return nabla_emit(emitter, "arith.bitcast %%v%u : %s to %s", half,
                      nabla_type_f16[shape], nabla_type_i16[shape]);
  }
  nabla_ssa bits = as_bits(emitter, shape, value);
  bits = dtype == NABLA_DTYPE_F16 ? narrow_f16(emitter, shape, bits)
                                  : narrow_bf16(emitter, shape, bits);
  return nabla_emit(emitter, "arith.trunci %%v%u : %s to %s", bits,
                    nabla_type_i32[shape], nabla_type_i16[shape]);
}

nabla_ssa nabla_emit_round(nabla_emitter *emitter, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa value) {
  if (dtype == NABLA_DTYPE_F32) return value;
  return nabla_emit_widen(emitter, shape, dtype,
                          nabla_emit_narrow(emitter, shape, dtype, value));
}

static unsigned size_of(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 ? 4 : 2;
}

static nabla_ssa address_of(nabla_emitter *emitter, nabla_array_ref array,
                            nabla_ssa index) {
  nabla_ssa byte = nabla_emit_multiply(emitter, index, size_of(array.dtype));
  return nabla_emit_address(emitter, array.base, byte);
}

/* The type that an array's elements are loaded and stored as. */
static const char *stored(nabla_dtype dtype, nabla_shape shape) {
  return dtype == NABLA_DTYPE_F32 ? nabla_type_f32[shape]
                                  : nabla_type_i16[shape];
}

/* An element, or NABLA_LANES. */
static nabla_ssa read_as(nabla_emitter *emitter, nabla_shape shape,
                         nabla_array_ref array, nabla_ssa index) {
  nabla_ssa address = address_of(emitter, array, index);
  nabla_ssa raw = nabla_emit(
      emitter, "llvm.load %%v%u {alignment = %u : i64} : !llvm.ptr -> %s",
      address, size_of(array.dtype), stored(array.dtype, shape));
  if (array.dtype == NABLA_DTYPE_F32) return raw;
  return nabla_emit_widen(emitter, shape, array.dtype, raw);
}

nabla_ssa nabla_emit_read(nabla_emitter *emitter, nabla_array_ref array,
                          nabla_ssa index) {
  return read_as(emitter, NABLA_SCALAR, array, index);
}

/* Not llvm.masked.load and .store: with one lane of i16, LLVM 22 stores 4 bytes
 * for x86. */
static nabla_ssa read_few(nabla_emitter *emitter, nabla_array_ref array,
                          nabla_ssa index, unsigned width) {
  nabla_ssa values[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    values[i] =
        i < width ? nabla_emit_read(emitter, array,
                                    nabla_emit_add_constant(emitter, index, i))
                  : nabla_emit_f32(emitter, NABLA_SCALAR, 0);
  return nabla_emit_from_elements(emitter, "f32", values);
}

nabla_ssa nabla_emit_read_lanes(nabla_emitter *emitter, nabla_array_ref array,
                                nabla_ssa index, unsigned width) {
  return width < NABLA_LANES ? read_few(emitter, array, index, width)
                             : read_as(emitter, NABLA_VECTOR, array, index);
}

static void write_as(nabla_emitter *emitter, nabla_shape shape,
                     nabla_array_ref array, nabla_ssa index, nabla_ssa value) {
  nabla_ssa address = address_of(emitter, array, index);
  if (array.dtype != NABLA_DTYPE_F32)
    value = nabla_emit_narrow(emitter, shape, array.dtype, value);
  nabla_emit_line(
      emitter, "llvm.store %%v%u, %%v%u {alignment = %u : i64} : %s, !llvm.ptr",
      value, address, size_of(array.dtype), stored(array.dtype, shape));
}

void nabla_emit_write(nabla_emitter *emitter, nabla_array_ref array,
                      nabla_ssa index, nabla_ssa value) {
  write_as(emitter, NABLA_SCALAR, array, index, value);
}

void nabla_emit_write_lanes(nabla_emitter *emitter, nabla_array_ref array,
                            nabla_ssa index, nabla_ssa value) {
  write_as(emitter, NABLA_VECTOR, array, index, value);
}

void nabla_emit_clear(nabla_emitter *emitter, nabla_array_ref array,
                      nabla_ssa count) {
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0), count,
                   NABLA_LANES, 0, NULL);
  nabla_emit_write_lanes(emitter, array, loop.induction,
                         nabla_emit_f32(emitter, NABLA_VECTOR, 0));
  nabla_loop_end(emitter, &loop, NULL);
}
