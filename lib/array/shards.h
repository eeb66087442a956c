/* Pieces of arrays: what the results of a program on a mesh are where its
 * ranks have divided them. */
#ifndef NABLA_ARRAY_SHARDS_H
#define NABLA_ARRAY_SHARDS_H

#include "lib/array/graph.h"
#include "lib/runtime/program/manifest.h"
#include "nabla/comm.h"

/* The value of an array of which each rank has a piece; all pieces are of one
 * size. `dense.data` of the array is then no data, but not NULL. */
typedef struct nabla_shards {
  const nabla_allocator *allocator;
  nabla_dense shown;    /* of the array, without data */
  nabla_comm *comm;     /* of processes; NULL: all ranks are of this one */
  uint32_t first, held; /* ranks of this process */
  uint32_t place_count;
  nabla_cut_place places[NABLA_MANIFEST_MAX_CUTS];
  nabla_dense piece; /* its type */
  size_t bytes;      /* of a piece */
  void *memory;      /* of the pieces */
  size_t memory_bytes;
  void *whole; /* once they were gathered; read and written under a lock */
  size_t whole_bytes;
} nabla_shards;

/* Makes an array one of pieces, which are not set. */
NABLA_MUST_USE nabla_status nabla_shards_make(nabla_array *array,
                                              const nabla_argument_cut *cut,
                                              nabla_comm *comm, uint32_t held,
                                              nabla_diag *diag);
/* Frees the pieces of an array; does nothing for another. */
void nabla_shards_free(nabla_array *array);

/* Gives the pieces of one array to another, of the same type; the first counts
 * as donated. */
void nabla_shards_move(nabla_array *from, nabla_array *to);

/* The piece of a rank of this process, `index` of its ranks. */
nabla_dense nabla_shards_piece(const nabla_shards *shards, uint32_t index);
/* Where the piece of a rank begins in the array. */
void nabla_shards_start(const nabla_shards *shards, uint32_t rank,
                        int64_t *out);
/* Whether an argument is divided as the array is. */
bool nabla_shards_fit(const nabla_shards *shards,
                      const nabla_argument_cut *cut);

/* The elements of a realized array. Pieces are gathered, once: by all ranks of
 * a mesh of processes, in the same order. Thread-safe.
 * @return NABLA_OK, NABLA_NO_MEMORY, NABLA_CANCELLED */
NABLA_MUST_USE nabla_status nabla_array_whole(const nabla_array *array,
                                              nabla_dense *out,
                                              nabla_diag *diag);

#endif
