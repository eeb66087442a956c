/* Encodings: how weights are stored as codes and scales, and the calls that
 * encode and decode them. */
#ifndef NABLA_ENCODING_H
#define NABLA_ENCODING_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/dtype.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of the block size of every encoding: a power of two in this range. */
#define NABLA_BLOCK_MIN 16
#define NABLA_BLOCK_MAX 4096

/* One row of quant/encodings.def. Rows are static; never free one. */
typedef struct nabla_encoding {
  const char *name;    /* as on the command line and in files: "nf4"        */
  const char *summary; /* one line for people                               */
  uint32_t wire;       /* pinned number of the encoding                     */
  uint32_t bits;       /* bits of one code: 4 or 8                          */
  int has_rows;        /* may have one scale per row instead of per block   */
  int in_bitsandbytes; /* the bitsandbytes layout can hold it               */
  double rmse_bound;   /* relative RMSE on N(0,1), block 64; tests enforce  */
} nabla_encoding;

/* Returns the table of encodings and stores its length in `*out_count`. */
NABLA_API const nabla_encoding *nabla_encodings(size_t *out_count);

/* Finds a row by name; NULL when there is none. */
NABLA_API const nabla_encoding *nabla_encoding_find(const char *name);

/* How scales are laid over the elements. */
typedef enum nabla_granularity {
  NABLA_PER_BLOCK, /* one scale per `block` consecutive elements of the
                      flattened tensor; the last block may be short         */
  NABLA_PER_ROW,   /* one scale per row: LLM.int8 (docs/FORMAT.md)          */
} nabla_granularity;

/* An encoding with its parameters. */
typedef struct nabla_format {
  const nabla_encoding *encoding;
  nabla_granularity granularity;
  uint64_t block; /* elements per scale: a power of two in NABLA_BLOCK_MIN ..
                     NABLA_BLOCK_MAX, or the row length for PER_ROW         */
} nabla_format;

/* Sizes of the two components of a packed tensor. */
typedef struct nabla_packed_size {
  uint64_t code_bytes;
  uint64_t scales; /* number of f32 */
} nabla_packed_size;

/* Computes the component sizes of `elements` elements.
 * @param elements any value, including one read from an untrusted file
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT when the format breaks its own rules
 *         NABLA_TOO_LARGE        when a size does not fit in 63 bits
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_format_size(const nabla_format *format, uint64_t elements,
                  nabla_packed_size *out, nabla_diag *diag);

/* Instruction sets with code paths, in rising order. All give the same bytes.
 */
typedef enum nabla_isa {
  NABLA_ISA_BEST = 0, /* the last one that this CPU has */
  NABLA_ISA_SCALAR = 1,
  NABLA_ISA_AVX2 = 2,   /* AVX2, FMA, F16C                       */
  NABLA_ISA_AVX512 = 3, /* AVX-512 F BW DQ VL VBMI: Ice Lake, Zen 4 and later */
} nabla_isa;

/* Returns "best", "scalar", "avx2" or "avx512". */
NABLA_API const char *nabla_isa_name(nabla_isa isa);

/* Says whether this CPU (and this build) can run `isa`. */
NABLA_API int nabla_isa_available(nabla_isa isa);

/* Turns NABLA_ISA_BEST into what it stands for on this CPU; any other value is
 * returned as it is, also when it is not available. Thread-safe. */
NABLA_API nabla_isa nabla_isa_resolve(nabla_isa isa);

/* A format bound to code for an instruction set. A value; copy freely. */
typedef struct nabla_codec {
  nabla_format format;
  nabla_isa isa; /* what was chosen; never NABLA_ISA_BEST */
  void (*encode)(const float *in, size_t count, size_t block, uint8_t *codes,
                 float *scales);
  void (*decode)(const uint8_t *codes, const float *scales, size_t count,
                 size_t block, float *out);
} nabla_codec;

/* Chooses code for `format`. An encoding without a fast path for `isa` uses
 * the best one below it; `isa` itself must be available.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT a bad block, or rows where there are none
 *         NABLA_UNSUPPORTED      this CPU or build lacks `isa`
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_codec_select(const nabla_format *format, nabla_isa isa, nabla_codec *out,
                   nabla_diag *diag);

/* Encodes `count` values that start on a block (or row) boundary.
 *
 * @param in     count f32 values
 * @param codes  nabla_format_size(count).code_bytes bytes
 * @param scales nabla_format_size(count).scales floats: absmax for nf4, fp4
 *               and rows; absmax/127 for int8 blocks (docs/FORMAT.md, N5)
 * @param out_index written only with the two failures below; may be NULL
 * @return NABLA_OK
 *         NABLA_NOT_FINITE  a value is NaN or infinite; `*out_index` is the
 *                           first such. Outputs are then defined bytes that
 *                           nobody should use.
 *         NABLA_UNSUPPORTED int8 rows only: absmax above FLT_MAX/127, which
 *                           LLM.int8 cannot decode; `*out_index` is the value
 * Pointers need no alignment beyond their type's. The bytes are the same for
 * every instruction set. Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_encode(
    const nabla_codec *codec, const float *in, size_t count, uint8_t *codes,
    float *scales, size_t *out_index, nabla_diag *diag);

/* Decodes `count` values that start on a block (or row) boundary. Any bytes
 * decode; a scale that is not finite gives values that are not finite.
 * Thread-safe, allocates nothing, the same bits for every instruction set. */
NABLA_API void nabla_decode(const nabla_codec *codec, const uint8_t *codes,
                            const float *scales, size_t count, float *out);

#ifdef __cplusplus
}
#endif

#endif
