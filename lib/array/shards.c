/* See shards.h. */
#include "lib/array/shards.h"

#include <pthread.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/runtime/collectives/collective.h"

#define ALIGNMENT ((size_t)64)

/* Of `whole` in all arrays: pieces are gathered once each. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t align(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Where aligned memory begins in a block with ALIGNMENT bytes more. */
static char *aligned(void *memory) {
  const size_t past = (uintptr_t)memory % ALIGNMENT;
  return (char *)memory + (past ? ALIGNMENT - past : 0);
}

/* ---- life ---- */

nabla_status nabla_shards_make(nabla_array *array,
                               const nabla_argument_cut *cut, nabla_comm *comm,
                               uint32_t held, nabla_diag *diag) {
  void *memory;
  NABLA_TRY(
      nabla_alloc(array->allocator, 1, sizeof(nabla_shards), &memory, diag));
  nabla_shards *shards = memory;
  *shards = (nabla_shards){.allocator = array->allocator,
                           .shown = array->dense,
                           .comm = comm,
                           .first = comm ? nabla_comm_rank(comm) : 0,
                           .held = held,
                           .place_count = cut->count};
  memcpy(shards->places, cut->at, cut->count * sizeof *cut->at);
  shards->shown.data = NULL;
  shards->piece = shards->shown;
  for (uint32_t d = 0; d < cut->local.rank; d++)
    shards->piece.shape[d] = cut->local.shape[d];
  shards->bytes = nabla_dtype_bytes(&shards->piece);
  shards->memory_bytes = align(shards->bytes) * held + ALIGNMENT;
  const nabla_status status = nabla_alloc_raw(
      shards->allocator, 1, shards->memory_bytes, &shards->memory, diag);
  if (status) {
    nabla_free(array->allocator, shards, 1, sizeof *shards);
    return status;
  }
  array->shards = shards;
  array->dense.data = shards; /* realized */
  return NABLA_OK;
}

void nabla_shards_free(nabla_array *array) {
  nabla_shards *shards = array->shards;
  if (!shards) return;
  nabla_free(shards->allocator, shards->whole, 1, shards->whole_bytes);
  nabla_free(shards->allocator, shards->memory, 1, shards->memory_bytes);
  nabla_free(shards->allocator, shards, 1, sizeof *shards);
  array->shards = NULL;
  array->dense.data = NULL;
}

void nabla_shards_move(nabla_array *from, nabla_array *to) {
  nabla_shards *shards = from->shards;
  nabla_free(shards->allocator, shards->whole, 1, shards->whole_bytes);
  shards->whole = NULL; /* of the values before */
  from->shards = NULL;
  from->dense.data = NULL;
  from->is_donated = true;
  to->shards = shards;
  to->dense.data = shards;
}

nabla_dense nabla_shards_piece(const nabla_shards *shards, uint32_t index) {
  nabla_dense out = shards->piece;
  out.data = aligned(shards->memory) + index * align(shards->bytes);
  return out;
}

bool nabla_shards_fit(const nabla_shards *shards,
                      const nabla_argument_cut *cut) {
  if (cut->count != shards->place_count ||
      cut->local.rank != shards->piece.rank)
    return false;
  for (uint32_t i = 0; i < cut->count; i++)
    if (cut->at[i].dim != shards->places[i].dim ||
        cut->at[i].stride != shards->places[i].stride ||
        cut->at[i].size != shards->places[i].size)
      return false;
  for (uint32_t d = 0; d < cut->local.rank; d++)
    if (cut->local.shape[d] != NABLA_DYNAMIC &&
        cut->local.shape[d] != shards->piece.shape[d])
      return false;
  return true;
}

/* ---- the whole ---- */

void nabla_shards_start(const nabla_shards *shards, uint32_t rank,
                        int64_t *out) {
  for (uint32_t d = 0; d < shards->piece.rank; d++) out[d] = 0;
  for (uint32_t i = 0; i < shards->place_count; i++) {
    const nabla_cut_place *at = &shards->places[i];
    out[at->dim] = out[at->dim] * at->size + rank / at->stride % at->size;
  }
  for (uint32_t d = 0; d < shards->piece.rank; d++)
    out[d] *= shards->piece.shape[d];
}

/* Copies the piece of a rank to its place in the whole. */
static void place(const nabla_shards *shards, uint32_t rank, const char *from,
                  char *whole) {
  const uint32_t dims = shards->piece.rank;
  int64_t start[NABLA_ARRAY_MAX_RANK], at[NABLA_ARRAY_MAX_RANK] = {0};
  const int64_t *size = shards->piece.shape, *all = shards->shown.shape;
  uint32_t row = dims; /* dimensions from here on lie in a row */
  size_t bytes = nabla_dtype_bits(shards->piece.dtype) / 8, step;
  nabla_shards_start(shards, rank, start);
  while (row > 0 && size[row - 1] == all[row - 1]) bytes *= (size_t)size[--row];
  step = bytes; /* of an index of dimension row - 1, which is divided */
  if (row > 0) bytes *= (size_t)size[--row];
  for (;;) {
    size_t offset = 0;
    for (uint32_t d = 0; d <= row; d++)
      offset = offset * (size_t)all[d] + (size_t)(start[d] + at[d]);
    memcpy(whole + offset * step, from, bytes);
    from += bytes;
    uint32_t d = row;
    while (d > 0 && ++at[d - 1] == size[d - 1]) at[--d] = 0;
    if (!d) return;
  }
}

/* The ranks that have the pieces of the group of `rank`: those that differ in
 * what divides the array alone. */
static uint32_t find_members(const nabla_shards *shards, uint32_t rank,
                             uint32_t *members) {
  uint32_t count = 1;
  members[0] = rank;
  for (uint32_t i = 0; i < shards->place_count; i++) {
    const uint32_t stride = shards->places[i].stride;
    members[0] -= rank / stride % shards->places[i].size * stride;
  }
  for (uint32_t i = 0; i < shards->place_count; i++) {
    const nabla_cut_place *at = &shards->places[i];
    for (uint32_t k = 1; k < at->size; k++)
      for (uint32_t m = 0; m < count; m++)
        members[k * count + m] = members[m] + k * at->stride;
    count *= at->size;
  }
  return count;
}

/* Exchanges the pieces with the other processes. */
static nabla_status exchange(const nabla_shards *shards, char *whole,
                             nabla_diag *diag) {
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_U8,
                        .rank = shards->first,
                        .in = nabla_shards_piece(shards, 0).data,
                        .outer = 1,
                        .rows = shards->bytes,
                        .inner = 1};
  void *pieces;
  c.count = find_members(shards, shards->first, c.members);
  while (c.members[c.index] != shards->first) c.index++;
  NABLA_TRY(nabla_alloc_raw(shards->allocator, c.count, shards->bytes, &pieces,
                            diag));
  c.out = pieces;
  const nabla_status status = nabla_comm_run(shards->comm, &c, diag);
  for (uint32_t m = 0; m < c.count && !status; m++)
    place(shards, c.members[m], (const char *)pieces + m * shards->bytes,
          whole);
  nabla_free(shards->allocator, pieces, c.count, shards->bytes);
  return status;
}

static nabla_status gather(nabla_shards *shards, nabla_diag *diag) {
  void *memory;
  uint32_t members[NABLA_COMM_MAX_RANKS];
  const size_t bytes = nabla_dtype_bytes(&shards->shown) + ALIGNMENT;
  NABLA_TRY(nabla_alloc_raw(shards->allocator, 1, bytes, &memory, diag));
  nabla_status status = NABLA_OK;
  if (shards->comm) {
    status = exchange(shards, aligned(memory), diag);
  } else {
    const uint32_t count = find_members(shards, 0, members);
    for (uint32_t m = 0; m < count; m++)
      place(shards, members[m], nabla_shards_piece(shards, members[m]).data,
            aligned(memory));
  }
  if (status) {
    nabla_free(shards->allocator, memory, 1, bytes);
    return status;
  }
  shards->whole = memory;
  shards->whole_bytes = bytes;
  return NABLA_OK;
}

nabla_status nabla_array_whole(const nabla_array *array, nabla_dense *out,
                               nabla_diag *diag) {
  nabla_shards *shards = array->shards;
  nabla_status status = NABLA_OK;
  *out = array->dense;
  if (!shards) return NABLA_OK;
  pthread_mutex_lock(&lock);
  if (!shards->whole) status = gather(shards, diag);
  if (!status) out->data = aligned(shards->whole);
  pthread_mutex_unlock(&lock);
  return status;
}
