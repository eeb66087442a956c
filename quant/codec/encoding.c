/* The table of encodings, the sizes of what they produce, and which
 * instruction sets this CPU can run. */
#include "nabla/encoding.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/require.h"
#include "lib/base/x86_features.h"
#include "quant/codec/kernel.h"

#define HIGH   1
#define LOW    0
#define BLOCK  1
#define ROW    2
#define TENSOR 4
#define ANY    0
#define MX     1

static const nabla_encoding encodings[] = {
#define ENCODING(id, wire_, bits_, order, spans, zero, scale, bnb, rmse, text) \
  {.name = #id,                                                                \
   .summary = text,                                                            \
   .wire = wire_,                                                              \
   .bits = bits_,                                                              \
   .high_first = order,                                                        \
   .has_rows = ((spans) & ROW) != 0,                                           \
   .has_tensor = ((spans) & TENSOR) != 0,                                      \
   .has_zero_point = zero,                                                     \
   .is_mx = scale,                                                             \
   .in_bitsandbytes = bnb,                                                     \
   .rmse_bound = rmse},
#include "quant/codec/encodings.def"
#undef ENCODING
};

static const nabla_scale_info scale_types[] = {
#define SCALE(id, wire, name_, option_, dtype_, bytes_, text) \
  [wire] = {.name = name_,                                    \
            .option = option_,                                \
            .summary = text,                                  \
            .dtype = NABLA_DTYPE_##dtype_,                    \
            .bytes = bytes_},
#include "quant/codec/scales.def"
#undef SCALE
};

enum {
  ENCODINGS = sizeof encodings / sizeof *encodings,
  SCALES = sizeof scale_types / sizeof *scale_types,
};

const nabla_encoding *nabla_encodings(size_t *out_count) {
  *out_count = ENCODINGS;
  return encodings;
}

const nabla_encoding *nabla_encoding_find(const char *name) {
  for (size_t i = 0; i < ENCODINGS; i++)
    if (!strcmp(encodings[i].name, name)) return &encodings[i];
  return NULL;
}

const nabla_scale_info *nabla_scale_info_of(nabla_scale_type type) {
  return (size_t)type < SCALES ? &scale_types[type] : NULL;
}

int nabla_scale_type_find(const char *name, nabla_scale_type *out) {
  for (size_t i = 0; i < SCALES; i++) {
    if (strcmp(scale_types[i].name, name) != 0 &&
        strcmp(scale_types[i].option, name) != 0)
      continue;
    *out = (nabla_scale_type)i;
    return 1;
  }
  return 0;
}

int nabla_format_equal(const nabla_format *a, const nabla_format *b) {
  return a->encoding == b->encoding && a->granularity == b->granularity &&
         a->block == b->block && a->scale == b->scale &&
         a->zero_point == b->zero_point && a->segment == b->segment;
}

static nabla_status refuse(nabla_diag *diag, const char *what,
                           const nabla_encoding *encoding, const char *next) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s %s", encoding->name, what);
  nabla_diag_set_next(diag, "%s", next);
  return status;
}

static nabla_status check_block(const nabla_format *format, nabla_diag *diag) {
  const uint64_t block = format->block;
  if (format->encoding->is_mx && block != NABLA_BLOCK_MX)
    return refuse(diag, "has blocks of 32 only", format->encoding,
                  "use 32, or leave it out");
  if (block >= NABLA_BLOCK_MIN && block <= NABLA_BLOCK_MAX &&
      (block & (block - 1)) == 0)
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "block size %" PRIu64 " is not allowed", block);
  nabla_diag_set_next(diag, "use a power of two from %d to %d", NABLA_BLOCK_MIN,
                      NABLA_BLOCK_MAX);
  return status;
}

static nabla_status check_span(const nabla_format *format, nabla_diag *diag) {
  const nabla_encoding *encoding = format->encoding;
  switch (format->granularity) {
    case NABLA_PER_BLOCK:
      if (format->segment % (8 / encoding->bits))
        return refuse(diag, "needs whole bytes at the end of each segment",
                      encoding, "let blocks run on: blocks flat");
      return check_block(format, diag);
    case NABLA_PER_ROW:
      if (!encoding->has_rows)
        return refuse(diag, "has no form with one scale per row", encoding,
                      "use blocks");
      break;
    case NABLA_PER_TENSOR:
      if (!encoding->has_tensor)
        return refuse(diag, "has no form with one scale per tensor", encoding,
                      "use blocks");
      break;
    default:
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown granularity %d",
                        (int)format->granularity);
  }
  if (format->zero_point || format->segment)
    return refuse(diag, "has zero points and segments with blocks only",
                  encoding, "use blocks");
  if (format->block == 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a row has no values");
  return NABLA_OK;
}

static nabla_status check_format(const nabla_format *format, nabla_diag *diag) {
  const nabla_encoding *encoding = format->encoding;
  if (!encoding)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "no encoding is set");
  if ((size_t)format->scale >= SCALES)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown scale type %d",
                      (int)format->scale);
  if (encoding->is_mx != (format->scale == NABLA_SCALE_E8M0))
    return encoding->is_mx ? refuse(diag, "has scales of type e8m0 only",
                                    encoding, "leave the scale type out")
                           : refuse(diag, "has no scales of type e8m0",
                                    encoding, "use f32, f16, bf16 or dynamic8");
  if (format->zero_point && !encoding->has_zero_point)
    return refuse(diag, "has no zero points", encoding,
                  "leave them out, or use int4 or int8");
  return check_span(format, diag);
}

/* With segments each has its own last block. */
static int count_scales(const nabla_format *format, uint64_t elements,
                        uint64_t *out) {
  if (!format->segment) {
    *out = nabla_ceil_div_u64(elements, format->block);
    return 1;
  }
  const uint64_t each = nabla_ceil_div_u64(format->segment, format->block);
  const uint64_t rest = elements % format->segment;
  return nabla_mul_u64(elements / format->segment, each, out) &&
         nabla_add_u64(*out, nabla_ceil_div_u64(rest, format->block), out);
}

nabla_status nabla_format_size(const nabla_format *format, uint64_t elements,
                               nabla_packed_size *out, nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  NABLA_REQUIRE(out, diag);
  nabla_packed_size size;
  NABLA_TRY(check_format(format, diag));
  const nabla_scale_info *scale = nabla_scale_info_of(format->scale);
  size.code_bytes = nabla_ceil_div_u64(elements, 8 / format->encoding->bits);
  if (size.code_bytes > INT64_MAX ||
      !count_scales(format, elements, &size.scales) ||
      !nabla_mul_u64(size.scales, scale->bytes, &size.scale_bytes) ||
      size.scale_bytes > INT64_MAX ||
      size.scales > INT64_MAX / sizeof(float)) /* dynamic8 is f32 at first */
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%" PRIu64 " values are too many for %s", elements,
                      format->encoding->name);
  *out = size;
  return NABLA_OK;
}

/* What the fast paths are compiled for. */
#if NABLA_X86
static int has_avx2(void) {
  return nabla_x86_has(NABLA_X86_AVX2) && nabla_x86_has(NABLA_X86_FMA) &&
         nabla_x86_has(NABLA_X86_F16C) && nabla_x86_has(NABLA_X86_BMI2);
}

static int has_avx512(void) {
  return has_avx2() && nabla_x86_has(NABLA_X86_AVX512F) &&
         nabla_x86_has(NABLA_X86_AVX512BW) &&
         nabla_x86_has(NABLA_X86_AVX512DQ) &&
         nabla_x86_has(NABLA_X86_AVX512VL) &&
         nabla_x86_has(NABLA_X86_AVX512VBMI);
}
#else
static int has_avx2(void) { return 0; }
static int has_avx512(void) { return 0; }
#endif

int nabla_isa_available(nabla_isa isa) {
  switch (isa) {
    case NABLA_ISA_BEST:
    case NABLA_ISA_SCALAR:
    case NABLA_ISA_NO_AMX:
      return 1;
    case NABLA_ISA_AVX2:
      return has_avx2();
    case NABLA_ISA_AVX512:
      return has_avx512();
  }
  return 0;
}

nabla_isa nabla_isa_resolve(nabla_isa isa) {
  if (isa != NABLA_ISA_BEST && isa != NABLA_ISA_NO_AMX) return isa;
  if (has_avx512()) return NABLA_ISA_AVX512;
  return has_avx2() ? NABLA_ISA_AVX2 : NABLA_ISA_SCALAR;
}
