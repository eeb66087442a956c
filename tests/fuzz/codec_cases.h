/* The codecs that an input of the codec fuzzers selects, and buffers of exactly
 * the right size, so that sanitizers see the first byte beyond. */
#ifndef NABLA_TESTS_FUZZ_CODEC_CASES_H
#define NABLA_TESTS_FUZZ_CODEC_CASES_H

#include "nabla/encoding.h"
#include "tests/fuzz/fuzz.h"

/* Option bytes: encoding, block, and two for how many values (little-endian).
 */
typedef struct codec_case {
  nabla_format format;
  size_t count; /* of values, 0 to CODEC_MAX_COUNT, mostly few */
  size_t code_bytes, scales;
  fuzz_span rest; /* of the input */
} codec_case;

#define CODEC_MAX_COUNT 8500

/* Reads a case. @return 0 when the input has no option bytes */
int codec_case_read(const uint8_t *data, size_t size, codec_case *out);

/* Selects the codec of a case for an instruction set that is available. */
nabla_codec codec_case_select(const codec_case *at, nabla_isa isa);

/* Allocates `size` bytes, or aborts; never NULL. */
void *codec_case_buffer(size_t size);

/* Fills `out` with the bytes of `from` from `begin` on, repeated as often as
 * needed; zeros when there are none. */
void codec_case_fill(fuzz_span from, size_t begin, void *out, size_t size);

#endif
