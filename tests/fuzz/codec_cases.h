/* The codecs that an input of the codec fuzzers selects, and buffers of exactly
 * the right size, so that sanitizers see the first byte beyond. */
#ifndef NABLA_TESTS_FUZZ_CODEC_CASES_H
#define NABLA_TESTS_FUZZ_CODEC_CASES_H

#include "nabla/encoding.h"
#include "tests/fuzz/fuzz.h"

/* Option bytes:
 *   0  encoding (4 bits), scale type (2), zero points, segments
 *   1  bit 7: a row of 1 to 64 values, or with bit 6 a tensor; else the block
 *      size (mod 9) and the dtype of values (by 9, mod 3)
 *   2  and 3: how many values, little-endian; the length of segments
 * Of rows the last two bits of byte 0 are the dtype. What an encoding has not
 * is left out. */
typedef struct codec_case {
  nabla_format format;
  nabla_dtype dtype;
  size_t count; /* of values, 0 to CODEC_MAX_COUNT, mostly few */
  nabla_packed_size size;
  size_t scale_bytes; /* as nabla_encode gives them */
  fuzz_span rest;     /* of the input */
} codec_case;

#define CODEC_MAX_COUNT 8500

/* Reads a case. @return 0 when the input has no option bytes */
int codec_case_read(const uint8_t *data, size_t size, codec_case *out);

/* Selects the codec of a case for an instruction set that is available. */
nabla_codec codec_case_select(const codec_case *at, nabla_isa isa,
                              nabla_dtype dtype);

/* Allocates `size` bytes, or aborts; never NULL. */
void *codec_case_buffer(size_t size);

/* Fills `out` with the bytes of `from` from `begin` on, repeated as often as
 * needed; zeros when there are none. */
void codec_case_fill(fuzz_span from, size_t begin, void *out, size_t size);

/* Components in buffers of their own, of exactly the right size. */
nabla_packed codec_case_parts(const codec_case *at);
void codec_case_drop(nabla_packed *parts);
int codec_case_equal(const codec_case *at, const nabla_packed *a,
                     const nabla_packed *b);

/* Says whether bytes of values are the same, any NaN standing for any. */
int codec_case_same_values(nabla_dtype dtype, const void *a, const void *b,
                           size_t count);

/* Where the block of value `begin` ends: of its segment and of all values. */
size_t codec_case_block_end(const codec_case *at, size_t begin);

/* Checks a refusal: the value is not finite and the first such, or the scale of
 * so large a value cannot be stored. `in` are f32. */
void codec_case_check_bad(const codec_case *at, const float *in,
                          nabla_status status, size_t index);

#endif
