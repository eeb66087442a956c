/* Inside quant/: the stages that encoding and decoding are made of, their
 * prototypes (made from the tables), and how they are found.
 *
 * quant/codec/encode.c cuts its input into chunks of whole blocks that stay in
 * the first cache, and takes each through the stages:
 *
 * - absmax, peak, range or mean: a statistic of each block
 * - round: scales as they are stored, made from it, and factors
 * - code: codes from values and factors
 *
 * A search (quant/codec/search.h), which finds the scales of least squared
 * error, takes the place of the statistic.
 *
 * Decoding widens the stored scales and calls `decode`. Stages of the row `any`
 * serve all encodings. A stage never allocates, calls out of quant/ or holds
 * state, and no pointer need be aligned beyond its type. It assumes the default
 * floating-point environment: round to nearest even, subnormals kept. Every
 * instruction set gives the same bits.
 *
 * In all of them `block` is a power of two from 16 to 4096, or at least `count`
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

/* What scales are made from. */
typedef enum nabla_statistic {
  NABLA_STATISTIC_ABSMAX,
  NABLA_STATISTIC_MEAN, /* of absolute values */
  NABLA_STATISTIC_PEAK, /* the value of largest magnitude, with its sign */
} nabla_statistic;

/* What the code stage needs of each block (docs/FORMAT.md, E2 to E5), and what
 * the decode stage does. */
typedef struct nabla_blocks {
  const float *scales; /* as stored                                         */
  const float *zeros;  /* z - bias, or NULL without zero points             */
  /* Encoding only: the scaled value is x * factor; where that is NaN,
   * x / divisor * times. */
  const float *factors, *divisors;
  float times;
  float after; /* decoding only: a last factor, of LLM.int8; else 1 */
} nabla_blocks;

/* One block of them, for scalar code. */
typedef struct nabla_scaler {
  float scale, zero, factor, divisor, times;
  int has_zero;
} nabla_scaler;

/* The definition of an encoding, beside its table row: nabla_<id>_recipe in
 * quant/codec/<id>.c. */
typedef struct nabla_recipe {
  nabla_statistic statistic;
  float limit;     /* scale = statistic / limit; negative for PEAK          */
  float divide_at; /* absmax below this is divided by, though 1/absmax may
                      be finite (B6); else 0                                */
  float scale_max; /* scale of absmax FLT_MAX; 0: the quotient will do      */
  int emax;        /* mx: exponent of the largest value of the element type */
  int bias;        /* with zero points: what codes and z are stored above   */
  uint8_t (*code)(float x, const nabla_scaler *scaler);
  float (*value)(uint8_t code); /* decoded with scale 1 */
} nabla_recipe;

/* @param out ceil(count / block) magnitudes. One with a value that is not
 *            finite is not finite: magnitudes are compared as integers */
typedef void nabla_kernel_absmax(const void *in, nabla_dtype dtype,
                                 size_t count, size_t block, float *out);
/* The same with the sign of the value that has it; of a value and its negative,
 * the negative. */
typedef nabla_kernel_absmax nabla_kernel_peak;
/* The least and largest value, both widened to hold 0 (-0 counts as 0, and is
 * given as +0). With a value that is not finite, *high is not finite. */
typedef void nabla_kernel_range(const void *in, nabla_dtype dtype, size_t count,
                                size_t block, float *low, float *high);
/* The mean of absolute values (E1). */
typedef void nabla_kernel_mean(const void *in, nabla_dtype dtype, size_t count,
                               size_t block, float *out);
/* Codes of `count` values. What is left of the last byte is filled as if a
 * value 0.0 of the last block followed. */
typedef void nabla_kernel_code(const nabla_blocks *blocks, const void *in,
                               nabla_dtype dtype, size_t count, size_t block,
                               uint8_t *codes);
/* What the next stage does besides coding. */
typedef struct nabla_ahead {
  float *peaks; /* out: what absmax, or peak, gives of the values that follow */
  uint8_t *past; /* NULL; or a multiple of 64: the line in which `codes` begins
                    and all that it fills are copied here, past the caches */
} nabla_ahead;

/* Optional: codes of NABLA_CHUNK values, and a look at the NABLA_CHUNK values
 * that follow them in memory. `block` is 16 to 1024. */
typedef void nabla_kernel_code_ahead(const nabla_blocks *blocks, const void *in,
                                     nabla_dtype dtype, size_t block,
                                     uint8_t *codes, const nabla_ahead *ahead);
/* Copies past the caches, for codes that nobody reads soon; size 0 ends a row
 * of such copies, which other threads may see only then. */
typedef void nabla_kernel_stream(uint8_t *out, const uint8_t *in, size_t size);
/* @param stream  1: write past the caches, where `out` is aligned enough */
typedef void nabla_kernel_decode(const nabla_blocks *blocks,
                                 const uint8_t *codes, size_t count,
                                 size_t block, nabla_dtype dtype, void *out,
                                 int stream);

/* Scales of many blocks on their way to storage. */
typedef struct nabla_rounding {
  const nabla_recipe *recipe;
  nabla_scale_type type;
  int from_peaks;      /* `wanted` are absmax or peaks, else scales           */
  size_t count;        /* of blocks                                           */
  const float *wanted; /* count */
  float *scales;       /* out: as stored                                      */
  float *factors;      /* out: see nabla_blocks                               */
  void *stored;        /* out: in the type (DYNAMIC8: f32)                    */
} nabla_rounding;

enum {
  NABLA_ROUND_DIVIDE = 1, /* some factor is NaN: use scalar code         */
  NABLA_ROUND_BAD = 2,    /* some scale, or what it comes from, is not finite */
};
/* @return flags of the above. Divisors are `wanted` when from_peaks and the
 *         type is F32 or DYNAMIC8 (times: limit), else `scales` (times: 1) */
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

/* For each stage the last row of the tables that `isa` can run. */
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

/* From this many bytes of values up decoding, and the codes of a call or
 * segment, go past the caches, with stores that do not read the memory they
 * replace; below, the result is likely read soon and should stay in them. */
#define NABLA_STREAM_BYTES ((size_t)8 << 20)

#endif
