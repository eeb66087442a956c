/* The hash table of names: linear probing, at most half full. */
#include "quant/formats/name_index.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/base/memory.h"

enum { INDEX_BITS = 24 };
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

static uint64_t random_seed(const void *salt) {
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) {
    return seed;
  }
  /* Before the kernel's pool is ready: unequal from run to run is enough. */
  struct timespec now = {0, 0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)(uintptr_t)salt;
}

/* The 8 bits kept in a slot are the top ones; the position uses the low ones.
 */
static uint32_t tag_of(uint64_t hash) {
  return (uint32_t)(hash >> 56) << INDEX_BITS;
}

/* Finds the slot that holds `name`, or the free one where it belongs. */
static size_t probe(const nabla_name_index *index, nabla_names names,
                    const char *name, size_t length, uint64_t hash) {
  size_t mask = index->capacity - 1;
  size_t at = (size_t)hash & mask;
  for (; index->slots[at] != 0; at = (at + 1) & mask) {
    uint32_t slot = index->slots[at];
    if ((slot & ~INDEX_MASK) != tag_of(hash)) continue;
    size_t other_length;
    const char *other =
        names.get(names.self, (slot & INDEX_MASK) - 1, &other_length);
    if (other_length == length && memcmp(other, name, length) == 0) break;
  }
  return at;
}

/* Names whose slots are fetched together: in a large table each is a miss of
 * the cache. */
enum { AHEAD = 16 };

/* Adds `count` names, at most AHEAD, from `begin` on.
 * @return SIZE_MAX, or the name that repeats *out_first */
static size_t add_names(nabla_name_index *index, nabla_names names,
                        size_t begin, size_t count, size_t *out_first) {
  uint64_t hashes[AHEAD];
  const char *texts[AHEAD];
  size_t lengths[AHEAD];
  for (size_t i = 0; i < count; i++) {
    texts[i] = names.get(names.self, begin + i, &lengths[i]);
    hashes[i] = XXH3_64bits_withSeed(texts[i], lengths[i], index->seed);
    __builtin_prefetch(&index->slots[hashes[i] & (index->capacity - 1)], 1);
  }
  for (size_t i = 0; i < count; i++) {
    const size_t at = probe(index, names, texts[i], lengths[i], hashes[i]);
    if (index->slots[at] != 0) {
      *out_first = (index->slots[at] & INDEX_MASK) - 1;
      return begin + i;
    }
    index->slots[at] = tag_of(hashes[i]) | (uint32_t)(begin + i + 1);
  }
  return SIZE_MAX;
}

nabla_status nabla_name_index_build(nabla_name_index *index,
                                    const nabla_allocator *allocator,
                                    nabla_names names, size_t count,
                                    size_t *out_first, size_t *out_duplicate,
                                    nabla_diag *diag) {
  *index = (nabla_name_index){allocator, NULL, 0, random_seed(index)};
  if (count > NABLA_NAME_INDEX_MAX) {
    return nabla_fail(diag, NABLA_TOO_LARGE, "%zu names; at most %u fit", count,
                      NABLA_NAME_INDEX_MAX);
  }
  size_t capacity = 16;
  while (capacity / 2 < count) capacity *= 2;
  void *slots;
  NABLA_TRY(nabla_alloc(allocator, capacity, sizeof(uint32_t), &slots, diag));
  index->slots = slots;
  index->capacity = capacity;
  *out_first = *out_duplicate = SIZE_MAX;
  for (size_t i = 0; i < count; i += AHEAD) {
    const size_t part = count - i < AHEAD ? count - i : AHEAD;
    const size_t found = add_names(index, names, i, part, out_first);
    if (found == SIZE_MAX) continue;
    *out_duplicate = found;
    nabla_name_index_deinit(index);
    return NABLA_OK;
  }
  return NABLA_OK;
}

void nabla_name_index_deinit(nabla_name_index *index) {
  nabla_free(index->allocator, index->slots, index->capacity, sizeof(uint32_t));
  index->slots = NULL;
  index->capacity = 0;
}

size_t nabla_name_index_find(const nabla_name_index *index, nabla_names names,
                             const char *name, size_t length) {
  if (index->capacity == 0) return SIZE_MAX;
  uint64_t hash = XXH3_64bits_withSeed(name, length, index->seed);
  uint32_t slot = index->slots[probe(index, names, name, length, hash)];
  return slot == 0 ? SIZE_MAX : (slot & INDEX_MASK) - 1;
}
