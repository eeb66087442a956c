/* The speed at which this machine encodes and decodes, compared with memcpy. */
#ifndef NABLA_BENCH_CODEC_MEASURE_H
#define NABLA_BENCH_CODEC_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/encoding.h"

/* The longest rows measured with NABLA_PER_ROW. */
#define BENCH_CODEC_ROW 4096

/* What to measure. Members that are 0 mean: everything, at its best. */
typedef struct bench_codec_options {
  const nabla_encoding *encoding; /* NULL: every row of nabla_encodings()   */
  nabla_isa isa;
  uint64_t block;       /* 0: 64                                            */
  uint64_t bytes;       /* of the f32 buffer; 0: 512 MiB. Rounded down to a
                           multiple of 16 KiB, at least one                  */
  uint32_t repetitions; /* 0: 7                                             */
} bench_codec_options;

/* One measured kernel; with scales of dynamic8, these are encoded as well, and
 * decoding is not measured. Rates count bytes of the dense side: read when
 * encoding, written when decoding. */
typedef struct bench_codec_result {
  nabla_format format;
  const char *operation;  /* "encode" or "decode"                            */
  const char *stores;     /* of decoding: "plain", "nt" (past the caches);
                             else "any"                                      */
  nabla_isa isa;          /* never NABLA_ISA_BEST                            */
  nabla_dtype dtype;      /* of the dense side                               */
  int search;             /* scales of least squared error                   */
  double gb_per_s;        /* median, 10^9 bytes per second                   */
  double memcpy_gb_per_s; /* median of the copies between its runs           */
  double ratio;           /* gb_per_s / memcpy_gb_per_s                      */
  double target;          /* of the ratio (codec.def); 0: none         */
  double spread; /* (slowest - fastest) / median of its times               */
} bench_codec_result;

typedef void (*bench_codec_report)(void *context,
                                   const bench_codec_result *result);

/* Runs on the calling thread. Each repetition of each kernel is preceded by a
 * memcpy of the f32 buffer, so that both see the same machine; buffers are
 * touched before the first measurement, and lie in huge pages where the system
 * gives them (Linux: madvise). Values are normal(0, 1). One call covers the
 * whole buffer, so that large ones measure memory; decoding with plain stores
 * is called for 4 MiB at a time, and below 8 MiB is not measured otherwise.
 *
 * @param allocator NULL for malloc; up to 4 times `bytes` are allocated
 * @param report    called once per kernel, in the order of the table
 * @return NABLA_OK, what nabla_codec_select returns, NABLA_TOO_LARGE,
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_MUST_USE nabla_status bench_measure_codecs(
    const bench_codec_options *options, const nabla_allocator *allocator,
    bench_codec_report report, void *context, nabla_diag *diag);

#endif
