/* Chooses kernels, and wraps them in calls that look for bad values. */
#include "quant/codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "quant/kernel.h"

typedef struct kernel_row {
  const char *encoding;
  nabla_operation operation;
  nabla_isa isa;
  nabla_kernel code;
} kernel_row;

#define ISA_scalar NABLA_ISA_SCALAR
#define ISA_avx2   NABLA_ISA_AVX2
#define ISA_avx512 NABLA_ISA_AVX512
#define KERNEL(id, operation, isa)              \
  {#id, NABLA_OPERATION_##operation, ISA_##isa, \
   (nabla_kernel)nabla_##id##_##operation##_##isa},
#define ENCODING(id, wire, bits, rows, bnb, rmse, summary) \
  KERNEL(id, encode, scalar)                               \
  KERNEL(id, decode, scalar)                               \
  NABLA_SCALAR_ROWS_##rows(id)

/* From slowest to fastest within each operation. */
static const kernel_row kernels[] = {
#include "quant/encodings.def"
#if NABLA_X86
#include "quant/kernels.def"
#endif
};

nabla_kernel nabla_kernel_find(const char *encoding, nabla_operation operation,
                               nabla_isa isa) {
  nabla_kernel found = NULL;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const kernel_row *row = &kernels[i];
    if (row->operation == operation && row->isa <= isa &&
        !strcmp(row->encoding, encoding))
      found = row->code;
  }
  return found;
}

nabla_status nabla_codec_select(const nabla_format *format, nabla_isa isa,
                                nabla_codec *out, nabla_diag *diag) {
  nabla_packed_size ignored;
  NABLA_TRY(nabla_format_size(format, 0, &ignored, diag));
  if (!nabla_isa_available(isa)) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED, "this CPU or this build cannot run %s code",
        nabla_isa_name(isa));
    nabla_diag_set_next(diag, "leave the instruction set to the program");
    return status;
  }
  int rows = format->granularity == NABLA_PER_ROW;
  nabla_operation encode =
      rows ? NABLA_OPERATION_encode_rows : NABLA_OPERATION_encode;
  nabla_operation decode =
      rows ? NABLA_OPERATION_decode_rows : NABLA_OPERATION_decode;
  const char *name = format->encoding->name;
  nabla_codec codec = {.format = *format, .isa = nabla_isa_resolve(isa)};
  codec.encode =
      (nabla_kernel_encode *)nabla_kernel_find(name, encode, codec.isa);
  codec.decode =
      (nabla_kernel_decode *)nabla_kernel_find(name, decode, codec.isa);
  while (codec.isa > NABLA_ISA_SCALAR && /* what the encode kernel is for */
         nabla_kernel_find(name, encode, (nabla_isa)(codec.isa - 1)) ==
             (nabla_kernel)codec.encode)
    codec.isa = (nabla_isa)(codec.isa - 1);
  if (!codec.encode || !codec.decode)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "'%s' is not in the table of encodings", name);
  *out = codec;
  return NABLA_OK;
}

/* Magnitudes above `low` up to `high`, as f32 bits. */
typedef struct range {
  uint32_t low, high;
} range;

static int in_range(float value, range bad) {
  uint32_t bits = nabla_bits_of_f32(value) & NABLA_F32_MAGNITUDE;
  return bits > bad.low && bits <= bad.high;
}

/* No early exit, so that the compiler can use vectors. */
static int any_in_range(const float *values, size_t count, range bad) {
  int any = 0;
  for (size_t i = 0; i < count; i++) any |= in_range(values[i], bad);
  return any;
}

/* The first bad value of the first block with a bad scale. */
static size_t find_bad(const nabla_codec *codec, const float *in,
                       const float *scales, range bad) {
  size_t block = (size_t)codec->format.block, at = 0;
  while (!in_range(*scales, bad)) scales++, at += block;
  while (!in_range(in[at], bad)) at++;
  return at;
}

static nabla_status fail_not_finite(float value, size_t index,
                                    nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_NOT_FINITE, "value %zu is %s",
                                   index, isnan(value) ? "NaN" : "infinite");
  nabla_diag_set_next(diag, "repair the input");
  return status;
}

static nabla_status fail_too_large_for_rows(float value, size_t index,
                                            nabla_diag *diag) {
  nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "value %zu is %g, beyond what LLM.int8 can decode", index, value);
  nabla_diag_set_next(diag, "use blocks instead of rows");
  return status;
}

/* A stored scale is not finite exactly when its block is not, so the scales
 * tell of bad values without a second look at the input. In a row, a scale of
 * which 127 times is infinite cannot be decoded; this is looked for first,
 * because a caller may choose to live with NaN but not with that. */
nabla_status nabla_encode(const nabla_codec *codec, const float *in,
                          size_t count, uint8_t *codes, float *scales,
                          size_t *out_index, nabla_diag *diag) {
  size_t index, block = (size_t)codec->format.block;
  size_t blocks = count / block + (count % block != 0);
  codec->encode(in, count, block, codes, scales);

  /* FLT_MAX / 127 in f32 is rounded up: 127 times it is infinite. */
  range too_large = {nabla_bits_of_f32(FLT_MAX / 127.0f) - 1,
                     NABLA_F32_INFINITY - 1};
  range not_finite = {NABLA_F32_INFINITY - 1, NABLA_F32_MAGNITUDE};
  if (codec->format.granularity == NABLA_PER_ROW &&
      any_in_range(scales, blocks, too_large)) {
    index = find_bad(codec, in, scales, too_large);
    if (out_index) *out_index = index;
    return fail_too_large_for_rows(in[index], index, diag);
  }
  if (any_in_range(scales, blocks, not_finite)) {
    index = find_bad(codec, in, scales, not_finite);
    if (out_index) *out_index = index;
    return fail_not_finite(in[index], index, diag);
  }
  return NABLA_OK;
}

void nabla_decode(const nabla_codec *codec, const uint8_t *codes,
                  const float *scales, size_t count, float *out) {
  codec->decode(codes, scales, count, (size_t)codec->format.block, out);
}

void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]) {
  nabla_kernel_decode *decode = (nabla_kernel_decode *)nabla_kernel_find(
      encoding->name, NABLA_OPERATION_decode, NABLA_ISA_SCALAR);
  uint8_t codes[NABLA_TABLE_VALUES / 2];
  const float one = 1;
  for (int i = 0; i < NABLA_TABLE_VALUES; i += 2)
    codes[i / 2] = (uint8_t)(i << 4 | (i + 1));
  decode(codes, &one, NABLA_TABLE_VALUES, NABLA_TABLE_VALUES, out);
}

float nabla_absmax(nabla_isa isa, const float *in, size_t count) {
  nabla_kernel_absmax *absmax = (nabla_kernel_absmax *)nabla_kernel_find(
      "int8", NABLA_OPERATION_absmax, nabla_isa_resolve(isa));
  return absmax(in, count);
}

void nabla_encode_scaled(const nabla_encoding *encoding, nabla_isa isa,
                         const float *in, size_t count, float absmax,
                         uint8_t *codes) {
  nabla_kernel_encode_scaled *encode =
      (nabla_kernel_encode_scaled *)nabla_kernel_find(
          encoding->name, NABLA_OPERATION_encode_scaled,
          nabla_isa_resolve(isa));
  encode(in, count, absmax, codes);
}
