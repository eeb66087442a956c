/* What plans are asked for: shapes, sizes, alignments, options. */
#include <inttypes.h>

#include "lib/base/isa.h"
#include "lib/runtime/matmul/matmul_internal.h"

static int is_float(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
         dtype == NABLA_DTYPE_BF16;
}

/* ---- the weight -------------------------------------------------------------
 */

/* Rows of a plan's weight are whole blocks, and its values floats. */
static nabla_status check_weight(const nabla_weight_desc *weight,
                                 nabla_diag *diag) {
  if (weight->rank != 2) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "a product takes a matrix, and this has rank %" PRIu32, weight->rank);
    nabla_diag_set_next(diag, "describe it as N x K: nabla_weight_desc");
    return status;
  }
  if (weight->layout.kind == NABLA_STORAGE_DENSE && !is_float(weight->dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "there are no products with weights of %s",
                      (uint32_t)weight->dtype < NABLA_DTYPE_COUNT
                          ? nabla_dtype_name(weight->dtype)
                          : "an unknown dtype");
  const nabla_ggml *ggml = weight->layout.ggml;
  if (weight->layout.kind != NABLA_STORAGE_BLOCKS || !ggml ||
      weight->shape[1] % ggml->elements == 0)
    return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "rows of %" PRIu64 " elements are no whole number of blocks of %s",
      weight->shape[1], ggml->name);
  nabla_diag_set_next(diag, "a block has %" PRIu32 " elements of one row",
                      ggml->elements);
  return status;
}

/* ---- options ---------------------------------------------------------------
 */

static nabla_status check_type(const char *name, nabla_dtype asked,
                               nabla_dtype *out, nabla_diag *diag) {
  *out = asked ? asked : NABLA_DTYPE_F32;
  if (is_float(*out)) return NABLA_OK;
  return nabla_fail(
      diag, NABLA_UNSUPPORTED, "%s is F32, F16 or BF16, not %s", name,
      (uint32_t)asked < NABLA_DTYPE_COUNT ? nabla_dtype_name(asked)
                                          : "an unknown dtype");
}

static nabla_status check_options(const nabla_matmul_options *options,
                                  nabla_matmul_request *out, nabla_diag *diag) {
  if ((uint32_t)options->numerics >= NABLA_NUMERICS_COUNT ||
      (uint32_t)options->layout >= NABLA_WEIGHT_LAYOUT_COUNT ||
      (uint32_t)options->provider >= NABLA_MATMUL_PROVIDER_COUNT)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is no such numerics, layout or provider");
  nabla_isa isa;
  NABLA_TRY(nabla_isa_or_environment(options->isa, &isa, diag));
  if (!nabla_isa_available(isa)) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED, "this CPU or this build cannot run %s code",
        (uint32_t)isa < NABLA_ISA_COUNT ? nabla_isa_name(isa) : "such");
    nabla_diag_set_next(diag, "leave the instruction set to the program");
    return status;
  }
  out->numerics = options->numerics;
  out->layout = options->layout;
  out->isa = isa;
  out->bias = options->bias;
  out->m_max = options->m_max;
  NABLA_TRY(check_type("x", options->x_type, &out->x_type, diag));
  NABLA_TRY(check_type("y", options->y_type, &out->y_type, diag));
  return NABLA_OK;
}

static nabla_status check_bias(const nabla_matmul_options *options,
                               const nabla_matmul_request *request,
                               nabla_diag *diag) {
  if (!options->bias) return NABLA_OK;
  const uint64_t width = nabla_dtype_bits(request->y_type) / 8;
  const uint64_t needed = request->weight.n * width;
  if (options->bias_bytes < needed) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "the values of the bias have %" PRIu64
                                     " bytes, and the shape needs %" PRIu64,
                                     options->bias_bytes, needed);
    nabla_diag_set_next(diag, "give all of them, or the right shape");
    return status;
  }
  if ((uintptr_t)options->bias % width == 0) return NABLA_OK;
  return nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "the values of the bias are not aligned to %" PRIu64 " bytes", width);
}

nabla_status nabla_matmul_check(const nabla_weight_desc *weight,
                                const nabla_matmul_options *options,
                                nabla_matmul_request *out, nabla_diag *diag) {
  *out = (nabla_matmul_request){0};
  NABLA_TRY(check_options(options, out, diag));
  NABLA_TRY(check_weight(weight, diag));
  NABLA_TRY(nabla_weight_view_of(weight, out->isa, &out->weight, diag));
  return check_bias(options, out, diag);
}
