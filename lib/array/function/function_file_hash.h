/* Magic and hash of the container of a saved function, for its reader and its
 * writer. The user of this header includes xxhash.h before. */
#ifndef NABLA_ARRAY_FUNCTION_FILE_HASH_H
#define NABLA_ARRAY_FUNCTION_FILE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define NABLA_FUNCTION_FILE_MAGIC "NablaFun"
#define NABLA_FUNCTION_FILE_HASH  16 /* bytes; they begin at byte 24 */

/* The hash of a file of at least a header: its first 24 bytes, and its body. */
static inline void nabla_function_file_hash(
    const uint8_t *data, size_t size, uint8_t out[NABLA_FUNCTION_FILE_HASH]) {
  XXH3_state_t state;
  XXH128_canonical_t canonical;
  XXH3_INITSTATE(&state);
  (void)XXH3_128bits_reset(&state);
  (void)XXH3_128bits_update(&state, data, 24);
  (void)XXH3_128bits_update(&state, data + 40, size - 40);
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  for (size_t i = 0; i < NABLA_FUNCTION_FILE_HASH; i++)
    out[i] = canonical.digest[i];
}

#endif
