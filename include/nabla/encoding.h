/* Encodings: how weights are stored as codes and scales, and the calls that
 * encode and decode them. */
#ifndef NABLA_ENCODING_H
#define NABLA_ENCODING_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/dtype.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of the block size of every encoding: a power of two in this range. */
#define NABLA_BLOCK_MIN 16
#define NABLA_BLOCK_MAX 4096

/* What may share one scale. */
typedef enum nabla_granularity {
  NABLA_PER_BLOCK,  /* `block` consecutive elements of the flattened tensor;
                       the last block may be short                          */
  NABLA_PER_ROW,    /* a row: an index of the first dimension               */
  NABLA_PER_TENSOR, /* all of it                                            */
} nabla_granularity;

/* How a scale is stored: the rows of quant/codec/scales.def, by their numbers.
 */
typedef enum nabla_scale_type {
  NABLA_SCALE_F32 = 0,
  NABLA_SCALE_F16 = 1,
  NABLA_SCALE_BF16 = 2,
  NABLA_SCALE_DYNAMIC8 = 3, /* bitsandbytes' double quantization; the calls of
                               this header see f32, nabla/dynamic8.h does the
                               rest                                         */
  NABLA_SCALE_E8M0 = 4,     /* a power of two in a byte                     */
} nabla_scale_type;

typedef struct nabla_scale_info {
  const char *name;    /* as in files: "F32", "dynamic8"           */
  const char *option;  /* as on the command line: "f32", "dynamic8" */
  const char *summary; /* one line for people                       */
  nabla_dtype dtype;   /* of one stored scale                       */
  size_t bytes;        /* of one stored scale                       */
} nabla_scale_info;

/* Describes a scale type; NULL for a number that has no row. */
NABLA_API const nabla_scale_info *nabla_scale_info_of(nabla_scale_type type);

/* Finds a scale type by the name in files or on the command line.
 * @return 1 and the type in *out, or 0 */
NABLA_API int nabla_scale_type_find(const char *name, nabla_scale_type *out);

/* One row of quant/codec/encodings.def. Rows are static; never free one. */
typedef struct nabla_encoding {
  const char *name;    /* as on the command line and in files: "nf4"        */
  const char *summary; /* one line for people                               */
  uint32_t wire;       /* pinned number of the encoding                     */
  uint32_t bits;       /* bits of one code: 1, 2, 4 or 8                    */
  int high_first;      /* the first code of a byte is in its highest bits   */
  int has_rows;        /* may have one scale per row instead of per block   */
  int has_tensor;      /* may have one scale for all elements               */
  int has_zero_point;  /* may have zero points                              */
  int is_mx;           /* has E8M0 scales and blocks of 32, always          */
  int in_bitsandbytes; /* the bitsandbytes layout can hold it               */
  double rmse_bound;   /* relative RMSE on N(0,1), block 64; tests enforce  */
} nabla_encoding;

/* The block size of mx encodings (OCP Microscaling Formats 1.0, 5.1). */
#define NABLA_BLOCK_MX 32

/* Returns the table of encodings and stores its length in `*out_count`. */
NABLA_API const nabla_encoding *nabla_encodings(size_t *out_count);

/* Finds a row by name; NULL when there is none. */
NABLA_API const nabla_encoding *nabla_encoding_find(const char *name);

/* An encoding with its parameters. Zero-initialised fields are defaults, but
 * mx encodings need scale E8M0 and block 32. */
typedef struct nabla_format {
  const nabla_encoding *encoding;
  nabla_granularity granularity;
  uint64_t block; /* elements per scale: a power of two in NABLA_BLOCK_MIN ..
                     NABLA_BLOCK_MAX, the row length, or all elements       */
  nabla_scale_type scale;
  int zero_point;   /* 1: each block has a zero point                       */
  uint64_t segment; /* PER_BLOCK: blocks begin anew after so many elements,
                       which fill whole bytes; 0: never                     */
} nabla_format;

/* Says whether two formats are the same. */
NABLA_API int nabla_format_equal(const nabla_format *a, const nabla_format *b);

/* Sizes of the components of a packed tensor. */
typedef struct nabla_packed_size {
  uint64_t code_bytes;
  uint64_t scales;      /* number of scales, and of zero points if any  */
  uint64_t scale_bytes; /* of all of them, in the format's scale type   */
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

/* Measures the relative RMSE of a format on normally distributed values, always
 * the same 65536: what a weight of about that distribution loses. With rows and
 * tensors at most as many values share a scale.
 * @param search    scales of least squared error (nabla_codec_options)
 * @param allocator NULL: malloc; about 700 KiB
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT, NABLA_UNSUPPORTED as nabla_codec_select
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_format_expected_error(
    const nabla_format *format, int search, const nabla_allocator *allocator,
    double *out, nabla_diag *diag);

/* Says whether products with a weight of `format`, with rows of `k` elements,
 * have a kernel made ahead of time (nabla/matmul.h) on every CPU with AVX2, x
 * and y in F32: as it is, or once a plan has converted its scales. Without one,
 * and without the compiler, they are computed in C, several times slower.
 * Thread-safe, allocates nothing. */
NABLA_API int nabla_format_has_kernel(const nabla_format *format, uint64_t k);

/* Finds the format nearest to `format` that has such a kernel: of the same
 * encoding, if there is one, and of about as many bits.
 * @return 1 and the format in *out, or 0: no format has one for such rows */
NABLA_API int nabla_format_nearest_kernel(const nabla_format *format,
                                          uint64_t k, nabla_format *out);

/* Instruction sets with code paths, in rising order but for NABLA_ISA_NO_AMX.
 * Codecs give the same bytes with all. */
typedef enum nabla_isa {
  NABLA_ISA_BEST = 0, /* the last one that this CPU has */
  NABLA_ISA_SCALAR = 1,
  NABLA_ISA_AVX2 = 2,   /* AVX2, FMA, F16C                       */
  NABLA_ISA_AVX512 = 3, /* AVX-512 F BW DQ VL VBMI: Ice Lake, Zen 4 and later */
  NABLA_ISA_NO_AMX = 4, /* all that this CPU has but AMX, which codecs do not */
  /* use: products are faster with it (nabla/matmul.h)   */
} nabla_isa;

/* Returns "best", "scalar", "avx2", "avx512" or "no-amx". */
NABLA_API const char *nabla_isa_name(nabla_isa isa);

/* Says whether this CPU (and this build) can run `isa`. */
NABLA_API int nabla_isa_available(nabla_isa isa);

/* Turns NABLA_ISA_BEST and NABLA_ISA_NO_AMX into the code path that codecs take
 * for them on this CPU; any other value is returned as it is, also when it is
 * not available. Thread-safe. */
NABLA_API nabla_isa nabla_isa_resolve(nabla_isa isa);

/* A format bound to code for an instruction set. A value; copy freely. */
typedef struct nabla_codec {
  nabla_format format;
  nabla_isa isa;     /* what was chosen; never NABLA_ISA_BEST               */
  nabla_dtype dtype; /* of dense values: F32, F16 or BF16                   */
  int search;        /* encode with scales of least squared error           */
  const struct nabla_recipe *recipe; /* the definition: quant/codec/<id>.c */
  const struct nabla_stages *stages; /* the code: quant/codec/kernels.def */
} nabla_codec;

/* How to encode and decode. Members that are 0: f32, best code, no search. */
typedef struct nabla_codec_options {
  size_t struct_size; /* sizeof(nabla_codec_options) */
  nabla_isa isa;
  nabla_dtype dtype; /* of dense values; 0 (BOOL) stands for F32 */
  int search;        /* PER_BLOCK only                           */
} nabla_codec_options;

/* Chooses code for `format`; `options` may be NULL. An encoding without a fast
 * path for an instruction set uses the best one below it; what is asked for
 * must be available.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT a bad block, or what the encoding has not
 *         NABLA_UNSUPPORTED      this CPU or build lacks the instruction set;
 *                                a dtype other than F32, F16, BF16; a search
 *                                for rows or a tensor
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_codec_select(
    const nabla_format *format, const nabla_codec_options *options,
    nabla_codec *out, nabla_diag *diag);

/* Where the components of packed values are. Scales are f32 for DYNAMIC8 (see
 * nabla/dynamic8.h), else of the format's scale type in native byte order. No
 * pointer needs alignment beyond its type's. */
typedef struct nabla_packed {
  uint8_t *codes;
  void *scales;
  uint8_t *zero_points; /* NULL without; signed for int8 */
} nabla_packed;

/* Encodes `count` values that start on a block (row, segment) boundary.
 *
 * @param in      count values of codec->dtype
 * @param weights NULL, or with `search` the importance of each value: finite,
 *                not negative
 * @param out     room for what nabla_format_size(count) says
 * @param out_index written only with the two failures below; may be NULL
 * @return NABLA_OK
 *         NABLA_NOT_FINITE  a value is NaN or infinite; `*out_index` is the
 *                           first such. Outputs are then written in part, and
 *                           nobody should use them.
 *         NABLA_UNSUPPORTED a finite block whose scale is infinite in the scale
 *                           type, or cannot be decoded (LLM.int8: absmax above
 *                           FLT_MAX/127); `*out_index` is its largest value
 * The bytes are the same for every instruction set. Thread-safe, allocates
 * nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_encode(
    const nabla_codec *codec, const void *in, const float *weights,
    size_t count, const nabla_packed *out, size_t *out_index, nabla_diag *diag);

/* Decodes `count` values that start on a block (row, segment) boundary to
 * codec->dtype, rounding half to even. Any bytes decode; a scale that is not
 * finite gives values that are not finite. F16 may become infinite.
 * Thread-safe, allocates nothing, the same bits for every instruction set, but
 * that a NaN may be any NaN. */
NABLA_API void nabla_decode(const nabla_codec *codec, const nabla_packed *in,
                            size_t count, void *out);

#ifdef __cplusplus
}
#endif

#endif
