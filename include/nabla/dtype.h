/* Element types of tensors in files, and conversions between floats. */
#ifndef NABLA_DTYPE_H
#define NABLA_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, bits, torch): every dtype of safetensors (safetensors/src/tensor.rs,
 * enum Dtype), spelled as in its header. `torch` is PyTorch's name where
 * bitsandbytes may store it in a quant_state, else NULL. */
#define NABLA_DTYPE_LIST(X) \
  X(BOOL, 8, NULL)          \
  X(F4, 4, NULL)            \
  X(F6_E2M3, 6, NULL)       \
  X(F6_E3M2, 6, NULL)       \
  X(U8, 8, NULL)            \
  X(I8, 8, NULL)            \
  X(F8_E5M2, 8, NULL)       \
  X(F8_E4M3, 8, NULL)       \
  X(F8_E8M0, 8, NULL)       \
  X(F8_E4M3FNUZ, 8, NULL)   \
  X(F8_E5M2FNUZ, 8, NULL)   \
  X(I16, 16, NULL)          \
  X(U16, 16, NULL)          \
  X(F16, 16, "float16")     \
  X(BF16, 16, "bfloat16")   \
  X(I32, 32, NULL)          \
  X(U32, 32, NULL)          \
  X(F32, 32, "float32")     \
  X(C64, 64, NULL)          \
  X(F64, 64, NULL)          \
  X(I64, 64, NULL)          \
  X(U64, 64, NULL)

typedef enum nabla_dtype {
#define NABLA_DTYPE_ROW(id, bits, torch) NABLA_DTYPE_##id,
  NABLA_DTYPE_LIST(NABLA_DTYPE_ROW)
#undef NABLA_DTYPE_ROW
      NABLA_DTYPE_COUNT
} nabla_dtype;

/* Returns "BF16", ...; never NULL. */
NABLA_API const char *nabla_dtype_name(nabla_dtype dtype);

/* Returns the bits of one element: 4, 6, 8, 16, 32 or 64. */
NABLA_API uint32_t nabla_dtype_bits(nabla_dtype dtype);

/* Returns "float16", "bfloat16" or "float32"; NULL for every other dtype. */
NABLA_API const char *nabla_dtype_torch_name(nabla_dtype dtype);

/* Finds a dtype by its safetensors name, case-sensitive.
 * @return NABLA_OK, or NABLA_UNSUPPORTED with `out` untouched */
NABLA_API NABLA_MUST_USE nabla_status nabla_dtype_find(const char *name,
                                                       size_t length,
                                                       nabla_dtype *out,
                                                       nabla_diag *diag);

/* Says whether values of `dtype` convert to and from f32 below: F16, BF16,
 * F32, F64. */
NABLA_API int nabla_dtype_is_float(nabla_dtype dtype);

/* Converts `count` little-endian elements to f32. F16 and BF16 are exact, F64
 * rounds half to even. Neither pointer needs alignment; no overlap.
 * `dtype` must satisfy nabla_dtype_is_float. Thread-safe, allocates nothing,
 * the same bits on every machine. */
NABLA_API void nabla_to_f32(nabla_dtype dtype, const void *in, size_t count,
                            float *out);

/* Converts `count` f32 to little-endian elements of `dtype`, rounding half to
 * even; a finite value beyond the largest of `dtype` becomes infinity.
 * @return how many finite inputs became infinite. Thread-safe. */
NABLA_API size_t nabla_from_f32(nabla_dtype dtype, const float *in,
                                size_t count, void *out);

#ifdef __cplusplus
}
#endif

#endif
