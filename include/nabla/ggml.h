/* The block formats of GGUF files: blocks of 32 or 256 elements that hold their
 * scales and codes in one piece of bytes, of any alignment. */
#ifndef NABLA_GGML_H
#define NABLA_GGML_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/dtype.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most elements of a block. */
#define NABLA_GGML_ELEMENTS_MAX 256

/* One row of quant/codec/ggml.def. Rows are static; never free one. */
typedef struct nabla_ggml {
  const char *name;    /* "q4_0"                                           */
  const char *summary; /* one line for people                              */
  uint32_t type;       /* its number in files                              */
  uint32_t elements;   /* of a block: 32 or 256                            */
  uint32_t bytes;      /* of a block                                       */
  int can_encode;      /* nabla_ggml_encode has it                         */
  double rmse_bound;   /* relative RMSE on N(0,1) where it can be encoded  */
  const struct nabla_ggml_layout *layout; /* inside of the library         */
} nabla_ggml;

/* Returns the table of formats and stores its length in `*out_count`. */
NABLA_API const nabla_ggml *nabla_ggml_formats(size_t *out_count);

/* Finds a row by name, or by its number in files; NULL when there is none. */
NABLA_API const nabla_ggml *nabla_ggml_find(const char *name);
NABLA_API const nabla_ggml *nabla_ggml_of_type(uint32_t type);

/* Computes the bytes of `elements` elements.
 * @param elements any value, including one read from an untrusted file
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no multiple of the elements of a block
 *         NABLA_TOO_LARGE         the size does not fit in 63 bits
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_ggml_size(const nabla_ggml *format,
                                                      uint64_t elements,
                                                      uint64_t *out_bytes,
                                                      nabla_diag *diag);

/* Decodes `count` blocks to `dtype` (F32, F16 or BF16), rounding half to even.
 * Any bytes decode; a factor that is not finite gives values that are not, and
 * F16 may become infinite. `in` and `out` need no alignment and do not overlap.
 * @return NABLA_OK
 *         NABLA_UNSUPPORTED  another dtype
 * Thread-safe, allocates nothing, the same bits on every machine, but that a
 * NaN may be any NaN. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_ggml_decode(const nabla_ggml *format, nabla_dtype dtype, const void *in,
                  size_t count, void *out, nabla_diag *diag);

/* Encodes `count` blocks of values of `dtype` (F32, F16 or BF16), to the bytes
 * that ggml's reference gives.
 *
 * @param out_index written only with the two failures below; may be NULL
 * @return NABLA_OK
 *         NABLA_NOT_FINITE  a value is NaN or infinite; `*out_index` is the
 *                           first such. Outputs are then written in part, and
 *                           nobody should use them.
 *         NABLA_UNSUPPORTED a format that is decoded only, or another dtype;
 *                           or a block whose factor or minimum is infinite in
 *                           f16: `*out_index` is its first value
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_ggml_encode(const nabla_ggml *format, nabla_dtype dtype, const void *in,
                  size_t count, void *out, size_t *out_index, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
