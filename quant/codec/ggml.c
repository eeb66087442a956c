/* The table of GGUF's block formats, the sizes of what they hold, and the calls
 * that decode and encode blocks. */
#include "quant/codec/ggml.h"

#include <inttypes.h>

#include "lib/base/checked.h"
#include "lib/base/require.h"
#include "quant/codec/scalar.h"

/* Twice the values of E2M1; and those of IQ4_NL (ggml-common.h). */
static const int8_t e2m1[NABLA_GGML_TABLE_VALUES] = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t nonlinear[NABLA_GGML_TABLE_VALUES] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

#define TABLE_NONE      NULL
#define TABLE_NONLINEAR nonlinear
#define TABLE_E2M1      e2m1
#define E8M0_NONE       0
#define E8M0_NONLINEAR  0
#define E8M0_E2M1       1

#define GGML(id, type, elements, bytes_, codes_, run_, high_, bits_, part_,   \
             bias_, table_, d_, min_, sub_, at_, encode, rmse, text)          \
  static const nabla_ggml_layout id##_layout = {.codes = codes_,              \
                                                .run = run_,                  \
                                                .high = high_,                \
                                                .bits = bits_,                \
                                                .part = part_,                \
                                                .bias = bias_,                \
                                                .table = TABLE_##table_,      \
                                                .is_e8m0 = E8M0_##table_,     \
                                                .d = d_,                      \
                                                .min = min_,                  \
                                                .sub = NABLA_GGML_SUB_##sub_, \
                                                .sub_at = at_};
#include "quant/codec/ggml.def"
#undef GGML

static const nabla_ggml formats[] = {
#define GGML(id, type_, elements_, bytes_, codes, run, high, bits, part, bias, \
             table, d, min, sub, at, encode, rmse, text)                       \
  {.name = #id,                                                                \
   .summary = text,                                                            \
   .type = type_,                                                              \
   .elements = elements_,                                                      \
   .bytes = bytes_,                                                            \
   .can_encode = encode,                                                       \
   .rmse_bound = rmse,                                                         \
   .layout = &id##_layout},
#include "quant/codec/ggml.def"
#undef GGML
};

enum { FORMATS = sizeof formats / sizeof *formats };

const nabla_ggml *nabla_ggml_formats(size_t *out_count) {
  *out_count = FORMATS;
  return formats;
}

const nabla_ggml *nabla_ggml_find(const char *name) {
  for (size_t i = 0; i < FORMATS; i++)
    if (!strcmp(formats[i].name, name)) return &formats[i];
  return NULL;
}

const nabla_ggml *nabla_ggml_of_type(uint32_t type) {
  for (size_t i = 0; i < FORMATS; i++)
    if (formats[i].type == type) return &formats[i];
  return NULL;
}

nabla_status nabla_ggml_size(const nabla_ggml *format, uint64_t elements,
                             uint64_t *out_bytes, nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  NABLA_REQUIRE(out_bytes, diag);
  uint64_t bytes;
  if (elements % format->elements) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "%" PRIu64 " values are no whole number of blocks of %s",
                   elements, format->name);
    nabla_diag_set_next(diag, "a block has %" PRIu32 " values",
                        format->elements);
    return status;
  }
  if (!nabla_mul_u64(elements / format->elements, format->bytes, &bytes) ||
      bytes > INT64_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%" PRIu64 " values are too many for %s", elements,
                      format->name);
  *out_bytes = bytes;
  return NABLA_OK;
}

static nabla_status check_dtype(const nabla_ggml *format, nabla_dtype dtype,
                                nabla_diag *diag) {
  if (dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
      dtype == NABLA_DTYPE_BF16)
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED, "blocks of %s hold no values of %s",
                 format->name, nabla_dtype_name(dtype));
  nabla_diag_set_next(diag, "use F32, F16 or BF16");
  return status;
}

nabla_status nabla_ggml_decode(const nabla_ggml *format, nabla_dtype dtype,
                               const void *in, size_t count, void *out,
                               nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  if (count) NABLA_REQUIRE(in, diag);
  if (count) NABLA_REQUIRE(out, diag);
  float values[NABLA_GGML_ELEMENTS_MAX];
  const uint8_t *blocks = in;
  NABLA_TRY(check_dtype(format, dtype, diag));
  for (size_t b = 0; b < count; b++) {
    nabla_ggml_decode_block(format, blocks + b * format->bytes, values);
    for (size_t i = 0; i < format->elements; i++)
      nabla_store_value(values[i], dtype, out, b * format->elements + i);
  }
  return NABLA_OK;
}

static nabla_status refuse_encode(const nabla_ggml *format, nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED, "%s is decoded only", format->name);
  nabla_diag_set_next(diag, "encode to q4_0, q4_1, q5_0, q8_0 or mxfp4");
  return status;
}

nabla_status nabla_ggml_encode(const nabla_ggml *format, nabla_dtype dtype,
                               const void *in, size_t count, void *out,
                               size_t *out_index, nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  if (count) NABLA_REQUIRE(in, diag);
  if (count) NABLA_REQUIRE(out, diag);
  float values[NABLA_GGML_ELEMENTS_MAX];
  size_t ignored;
  if (!out_index) out_index = &ignored;
  if (!format->can_encode) return refuse_encode(format, diag);
  NABLA_TRY(check_dtype(format, dtype, diag));
  for (size_t b = 0; b < count; b++) {
    for (size_t i = 0; i < format->elements; i++) {
      const size_t at = b * format->elements + i;
      values[i] = nabla_load_value(in, dtype, at);
      if (isfinite(values[i])) continue;
      *out_index = at;
      return nabla_fail(diag, NABLA_NOT_FINITE, "value %zu is not finite", at);
    }
    if (nabla_ggml_encode_block(format, values,
                                (uint8_t *)out + b * format->bytes))
      continue;
    *out_index = b * format->elements;
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "the values from %zu on are too large for the f16 of %s",
                      *out_index, format->name);
  }
  return NABLA_OK;
}
