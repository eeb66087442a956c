/* Scales in 8 bits: bitsandbytes' double quantization (docs/FORMAT.md, B5, N6,
 * E6). A stored scale is map[code] * absmax + offset, where absmax belongs to a
 * group of 256 scales and offset to the tensor. */
#ifndef NABLA_DYNAMIC8_H
#define NABLA_DYNAMIC8_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_DYNAMIC8_CODES 256  /* values of the map                   */
#define NABLA_DYNAMIC8_BLOCK 256  /* scales that share an absmax         */
#define NABLA_DYNAMIC8_CHUNK 4096 /* scales of a partial sum (E6)        */

/* The signed dynamic map: 256 values from -0.99 to 1, rising. Static. */
NABLA_API const float *nabla_dynamic8_map(void);

/* Adds `count` scales to `sum`, chunk by chunk, each from left to right. A
 * caller that has all scales in pieces gives pieces of whole chunks, in order,
 * but for the last. Thread-safe, allocates nothing. */
NABLA_API double nabla_dynamic8_add(double sum, const float *scales,
                                    size_t count);

/* The offset of `count` scales whose sum is `sum`. */
NABLA_API float nabla_dynamic8_offset(double sum, uint64_t count);

/* Encodes `count` scales that start on a group's boundary.
 * @param codes   count bytes
 * @param absmax  ceil(count / NABLA_DYNAMIC8_BLOCK)
 * @return 1, or 0 when a scale is not finite or would not decode to a finite
 *         one: the outputs are then defined bytes that nobody should use
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE int nabla_dynamic8_encode(const float *scales,
                                                   size_t count, float offset,
                                                   uint8_t *codes,
                                                   float *absmax);

/* What a file says of its 8-bit scales. */
typedef struct nabla_dynamic8 {
  float map[NABLA_DYNAMIC8_CODES];
  float offset;
  uint32_t block; /* scales that share an absmax, not 0 */
} nabla_dynamic8;

/* Decodes `count` scales, of which the first has the index `first` in its
 * group, the one of absmax[0]. Any bytes decode. Thread-safe. */
NABLA_API void nabla_dynamic8_decode(const nabla_dynamic8 *how,
                                     const uint8_t *codes, const float *absmax,
                                     size_t first, size_t count, float *out);

#ifdef __cplusplus
}
#endif

#endif
