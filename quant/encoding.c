/* The table of encodings, the sizes of what they produce, and which
 * instruction sets this CPU can run. */
#include "nabla/encoding.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "quant/kernel.h"

static const nabla_encoding encodings[] = {
#define ENCODING(id, wire, bits, rows, bnb, rmse, summary) \
  {#id, summary, wire, bits, rows, bnb, rmse},
#include "quant/encodings.def"
#undef ENCODING
};

enum { ENCODINGS = sizeof encodings / sizeof *encodings };

const nabla_encoding *nabla_encodings(size_t *out_count) {
  *out_count = ENCODINGS;
  return encodings;
}

const nabla_encoding *nabla_encoding_find(const char *name) {
  for (size_t i = 0; i < ENCODINGS; i++)
    if (!strcmp(encodings[i].name, name)) return &encodings[i];
  return NULL;
}

static nabla_status check_format(const nabla_format *format, nabla_diag *diag) {
  const nabla_encoding *encoding = format->encoding;
  uint64_t block = format->block;
  if (!encoding)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "no encoding is set");
  if (format->granularity == NABLA_PER_ROW) {
    if (!encoding->has_rows) {
      nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     "%s has no form with one scale per row", encoding->name);
      nabla_diag_set_next(diag, "use blocks");
      return status;
    }
    if (block == 0)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a row has no values");
    return NABLA_OK;
  }
  if (format->granularity != NABLA_PER_BLOCK)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown granularity %d",
                      (int)format->granularity);
  if (block < NABLA_BLOCK_MIN || block > NABLA_BLOCK_MAX ||
      (block & (block - 1)) != 0) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "block size %" PRIu64 " is not allowed", block);
    nabla_diag_set_next(diag, "use a power of two from %d to %d",
                        NABLA_BLOCK_MIN, NABLA_BLOCK_MAX);
    return status;
  }
  return NABLA_OK;
}

nabla_status nabla_format_size(const nabla_format *format, uint64_t elements,
                               nabla_packed_size *out, nabla_diag *diag) {
  NABLA_TRY(check_format(format, diag));
  uint64_t per_byte = format->encoding->bits == 4 ? 2 : 1;
  uint64_t code_bytes = nabla_ceil_div_u64(elements, per_byte);
  uint64_t scales = nabla_ceil_div_u64(elements, format->block);
  uint64_t scale_bytes;
  if (code_bytes > INT64_MAX ||
      !nabla_mul_u64(scales, sizeof(float), &scale_bytes) ||
      scale_bytes > INT64_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%" PRIu64 " values are too many for %s", elements,
                      format->encoding->name);
  out->code_bytes = code_bytes;
  out->scales = scales;
  return NABLA_OK;
}

const char *nabla_isa_name(nabla_isa isa) {
  switch (isa) {
    case NABLA_ISA_BEST:
      return "best";
    case NABLA_ISA_SCALAR:
      return "scalar";
    case NABLA_ISA_AVX2:
      return "avx2";
    case NABLA_ISA_AVX512:
      return "avx512";
  }
  return "unknown";
}

/* What the fast paths are compiled for. __builtin_cpu_supports also asks
 * whether the operating system saves the wider registers. */
#if NABLA_X86
static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
}

static int has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi");
}
#else
static int has_avx2(void) { return 0; }
static int has_avx512(void) { return 0; }
#endif

int nabla_isa_available(nabla_isa isa) {
  switch (isa) {
    case NABLA_ISA_BEST:
    case NABLA_ISA_SCALAR:
      return 1;
    case NABLA_ISA_AVX2:
      return has_avx2();
    case NABLA_ISA_AVX512:
      return has_avx512();
  }
  return 0;
}

nabla_isa nabla_isa_resolve(nabla_isa isa) {
  if (isa != NABLA_ISA_BEST) return isa;
  if (has_avx512()) return NABLA_ISA_AVX512;
  return has_avx2() ? NABLA_ISA_AVX2 : NABLA_ISA_SCALAR;
}
