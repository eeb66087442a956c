/* Finds a name among many, and finds duplicates: a hash table of 4 bytes per
 * slot over names that the caller keeps. Keyed with a random seed, so that no
 * file can choose names that collide. */
#ifndef NABLA_QUANT_FORMATS_NAME_INDEX_H
#define NABLA_QUANT_FORMATS_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

/* More names than this do not fit; a safetensors header of 100 MB holds at
 * most 2.3 million tensors. */
#define NABLA_NAME_INDEX_MAX ((1u << 24) - 1)

/* The caller's names, numbered from 0. `get` is called from any thread that
 * looks a name up. */
typedef struct nabla_names {
  const void *self;
  const char *(*get)(const void *self, size_t index, size_t *out_length);
} nabla_names;

typedef struct nabla_name_index {
  const nabla_allocator *allocator;
  uint32_t *slots; /* 0: free; else index + 1, and 8 bits of the hash above */
  size_t capacity; /* slots, a power of two, or 0                          */
  uint64_t seed;
} nabla_name_index;

/* Indexes `count` names. When two are equal, *out_duplicate is the number of
 * the later one, *out_first of the earlier one, and the index is empty; else
 * both are SIZE_MAX. `index` need not be initialised.
 * @return NABLA_OK also for duplicates; NABLA_TOO_LARGE, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_name_index_build(
    nabla_name_index *index, const nabla_allocator *allocator,
    nabla_names names, size_t count, size_t *out_first, size_t *out_duplicate,
    nabla_diag *diag);

void nabla_name_index_deinit(nabla_name_index *index);

/* @return the number of the name, or SIZE_MAX. Thread-safe. */
size_t nabla_name_index_find(const nabla_name_index *index, nabla_names names,
                             const char *name, size_t length);

#endif
