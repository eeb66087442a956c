/* Objects on disk, found by what they were made from. Damage, other processes
 * and a full disk never make a compilation fail. */
#ifndef NABLA_COMPILER_CACHE_H
#define NABLA_COMPILER_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#define NABLA_CACHE_KEY_SIZE 16 /* bytes: XXH3-128 */

typedef struct nabla_cache nabla_cache;

typedef struct nabla_cache_key {
  uint8_t bytes[NABLA_CACHE_KEY_SIZE];
} nabla_cache_key;

/* What an entry holds. */
typedef struct nabla_cache_entry {
  uint8_t *memory; /* free() */
  const uint8_t *object, *diagnostics;
  size_t object_size, diagnostics_size;
} nabla_cache_entry;

/* Opens or makes the folder `path`; NULL: the default one (nabla/compiler.h);
 * "": none. It must be a folder of this user that nobody else can enter; where
 * there is none, `*out` is NULL and `why`, when not "", says why.
 * @return NABLA_OK, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_cache_open(const char *path, uint64_t limit,
                                             nabla_cache **out, char why[256],
                                             nabla_diag *diag);
void nabla_cache_close(nabla_cache *cache); /* NULL is allowed */

/* 1 and `out` when there is a sound entry; a damaged one is removed. `cache`
 * may be NULL, here and below. */
int nabla_cache_find(nabla_cache *cache, const nabla_cache_key *key,
                     nabla_cache_entry *out);

/* Removes an entry that turned out to be of no use. */
void nabla_cache_remove(nabla_cache *cache, const nabla_cache_key *key);

/* Writes an entry, and removes the least recently used ones beyond the limit.
 * 0, or an errno when it could not be written. */
int nabla_cache_store(nabla_cache *cache, const nabla_cache_key *key,
                      const nabla_cache_entry *entry);

#endif
