/* The stages of encoding and decoding: their types, their prototypes (generated
 * from the .def tables), and how one is found. For use in quant/.
 *
 * quant/codec/encode.c cuts its input into chunks of whole blocks that stay in
 * the L1 cache, and calls the stages for each chunk:
 *
 * - absmax, peak, range or mean: computes a statistic of each block
 * - round: computes from it the scale as stored, and the factor of the block
 * - code: computes codes from values and factors
 *
 * A search (quant/codec/search.h), which finds the scales of least squared
 * error, takes the place of the statistic.
 *
 * Decoding widens the stored scales to f32 and calls `decode`. Stages in rows
 * `any` of the tables serve all encodings. A stage allocates nothing, calls no
 * function outside quant/ and keeps no state, and no pointer need be aligned
 * beyond its type. It assumes the default
 * floating-point environment: round to nearest even, subnormals kept. Every
 * instruction set gives the same bits.
 *
 * In all stages `block` is a power of two from 16 to 4096, or at least `count`
 * (then all values share one scale); the last block may be short. `dtype` is
 * F32, F16 or BF16, in native byte order. */
#ifndef NABLA_QUANT_CODEC_KERNEL_H
#define NABLA_QUANT_CODEC_KERNEL_H

#include "lib/base/bytes.h"
#include "nabla/encoding.h"

#if defined(__x86_64__)
#define NABLA_X86 1
#else
#define NABLA_X86 0
#endif

/* Values of a chunk; a larger block is a chunk of its own. 4 KiB of f32. */
#define NABLA_CHUNK 1024

/* Blocks of a chunk, at most. */
#define NABLA_CHUNK_BLOCKS (NABLA_CHUNK / NABLA_BLOCK_MIN)

/* The statistic of a block from which its scale is computed. */
typedef enum nabla_statistic {
  NABLA_STATISTIC_ABSMAX,
  NABLA_STATISTIC_MEAN, /* of absolute values */
  NABLA_STATISTIC_PEAK, /* the value of largest magnitude, with its sign */
} nabla_statistic;

/* The inputs of the code and decode stages for each block: scales, zero points
 * and factors (docs/FORMAT.md, E2 to E5). */
typedef struct nabla_blocks {
  const float *scales; /* as stored                                         */
  const float *zeros;  /* zero point - bias, or NULL without zero points    */
  /* Encoding only: the scaled value is x * factor; where that is NaN,
   * x / divisor * times. */
  const float *factors, *divisors;
  float times;
  float after; /* decoding only: a last factor (LLM.int8), or 1 */
} nabla_blocks;

/* The same for one block, as scalar code uses it. */
typedef struct nabla_scaler {
  float scale, zero, factor, divisor, times;
  int has_zero;
} nabla_scaler;

/* The definition of an encoding, beside its table row: nabla_<id>_recipe in
 * quant/codec/<id>.c. */
typedef struct nabla_recipe {
  nabla_statistic statistic;
  float limit;     /* scale = statistic / limit; negative for PEAK          */
  float divide_at; /* below this absmax the code is computed from x/absmax,
                      even if 1/absmax is finite (B6); 0: not needed        */
  float scale_max; /* scale for absmax FLT_MAX; 0: absmax / limit           */
  int emax;        /* mx: exponent of the largest value of the element type */
  int bias;        /* with zero points: added to stored codes and zeros     */
  uint8_t (*code)(float x, const nabla_scaler *scaler);
  float (*value)(uint8_t code); /* decoded with scale 1 */
} nabla_recipe;

/* The largest magnitude of each block.
 * @param out ceil(count / block) magnitudes. That of a block with a NaN or an
 *            infinity is not finite: magnitudes are compared as integers */
typedef void nabla_kernel_absmax(const void *in, nabla_dtype dtype,
                                 size_t count, size_t block, float *out);
/* The value of largest magnitude, with its sign. If both a value and its
 * negative have that magnitude, the negative one. */
typedef nabla_kernel_absmax nabla_kernel_peak;
/* The minimum and maximum of each block and 0 (-0 counts as 0, and is given as
 * +0). If a value is not finite, the block's `high` is not finite. */
typedef void nabla_kernel_range(const void *in, nabla_dtype dtype, size_t count,
                                size_t block, float *low, float *high);
/* The mean of absolute values (E1). */
typedef void nabla_kernel_mean(const void *in, nabla_dtype dtype, size_t count,
                               size_t block, float *out);
/* Codes of `count` values. The unused bits of the last byte are filled as if
 * the last block went on with values 0.0. */
typedef void nabla_kernel_code(const nabla_blocks *blocks, const void *in,
                               nabla_dtype dtype, size_t count, size_t block,
                               uint8_t *codes);
/* The outputs of the next function type besides codes. */
typedef struct nabla_ahead {
  float *peaks;  /* out: absmax, or peak, of the values that follow the chunk */
  uint8_t *past; /* NULL, or aligned to 64: all cache lines that `codes` fills,
                    from the one it begins in, are also stored here, around
                    the caches (non-temporal) */
} nabla_ahead;

/* Optional stage: codes of NABLA_CHUNK values, and the statistic (absmax or
 * peak) of the NABLA_CHUNK values after them in memory, in one pass. `block` is
 * 16 to 1024. */
typedef void nabla_kernel_code_ahead(const nabla_blocks *blocks, const void *in,
                                     nabla_dtype dtype, size_t block,
                                     uint8_t *codes, const nabla_ahead *ahead);
/* Copies with non-temporal stores, around the caches, for codes that are not
 * read soon. A call with size 0 ends a series of copies; other threads may see
 * them only after it. */
typedef void nabla_kernel_stream(uint8_t *out, const uint8_t *in, size_t size);
/* Values of `count` codes.
 * @param stream  1: non-temporal stores, where `out` is aligned for them */
typedef void nabla_kernel_decode(const nabla_blocks *blocks,
                                 const uint8_t *codes, size_t count,
                                 size_t block, nabla_dtype dtype, void *out,
                                 int stream);

/* Arguments of the round stage: the scales of `count` blocks. */
typedef struct nabla_rounding {
  const nabla_recipe *recipe;
  nabla_scale_type type;
  int from_peaks;      /* 1: `wanted` is absmax or peaks; 0: raw scales      */
  size_t count;        /* of blocks                                           */
  const float *wanted; /* `count` inputs, see from_peaks */
  float *scales;       /* out: as stored                                      */
  float *factors;      /* out: see nabla_blocks                               */
  void *stored;        /* out: in the type (DYNAMIC8: f32)                    */
} nabla_rounding;

enum {
  NABLA_ROUND_DIVIDE = 1, /* some factor is NaN: use scalar code         */
  NABLA_ROUND_BAD = 2,    /* a scale, or its `wanted`, is not finite     */
};
/* @return the flags above that apply. Where the code stage has to divide, its
 *         divisors are `wanted` and times is limit if from_peaks is set and the
 *         type is F32 or DYNAMIC8; else they are `scales`, and times is 1 */
typedef int nabla_kernel_round(const nabla_rounding *rounding);

/* The stages of an encoding for an instruction set. */
typedef struct nabla_stages {
  nabla_kernel_absmax *absmax;
  nabla_kernel_peak *peak;
  nabla_kernel_range *range;
  nabla_kernel_mean *mean;
  nabla_kernel_round *round;
  nabla_kernel_stream *stream;
  nabla_kernel_code *code, *code_scalar;
  nabla_kernel_code_ahead *code_ahead; /* NULL: use absmax and code */
  nabla_kernel_decode *decode;
} nabla_stages;

/* The stages for an encoding: for each, the last row of the tables that `isa`
 * can run, which is the fastest. */
const nabla_stages *nabla_stages_find(const nabla_encoding *encoding,
                                      nabla_isa isa);

/* The definition of an encoding; NULL when the table has no such row. */
const nabla_recipe *nabla_recipe_find(const nabla_encoding *encoding);

/* KERNEL(id, stage, isa): nabla_<id>_<stage>_<isa> */
#define KERNEL(id, stage, isa) \
  nabla_kernel_##stage nabla_##id##_##stage##_##isa;
#define ENCODING(id, ...)                        \
  extern const nabla_recipe nabla_##id##_recipe; \
  KERNEL(id, code, scalar)                       \
  KERNEL(id, decode, scalar)
KERNEL(any, absmax, scalar)
KERNEL(any, peak, scalar)
KERNEL(any, range, scalar)
KERNEL(any, mean, scalar)
KERNEL(any, round, scalar)
KERNEL(any, stream, scalar)
#include "quant/codec/encodings.def"
#if NABLA_X86
#include "quant/codec/kernels.def"
#endif
#undef ENCODING
#undef KERNEL

#define NABLA_F32_MAGNITUDE 0x7fffffffu /* all bits but the sign           */
#define NABLA_F32_INFINITY  0x7f800000u /* magnitudes from here: not finite */
#define NABLA_F32_NORMAL    0x00800000u /* 2^-126: below are subnormals     */

/* From this many bytes of values on, decoded values, and the codes of a call or
 * segment, are written with non-temporal stores: these bypass the caches and do
 * not read the memory that they replace. Smaller results are likely to be read
 * soon and should stay in the caches. */
#define NABLA_STREAM_BYTES ((size_t)8 << 20)

#endif
