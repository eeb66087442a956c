/* Code that computes where parts of sizes known at run time lie: one block
 * holds them and the parts of static size. */
#ifndef NABLA_TRANSFORMS_MEMORY_OPEN_PARTS_H
#define NABLA_TRANSFORMS_MEMORY_OPEN_PARTS_H

#include "transforms/ir/ir.h"
#include "transforms/memory/open_layout.h"

/* What code knows of a part: words (i64). */
typedef struct nabla_open_words {
  MlirValue bytes;  /* what is wanted; 2^64 - 1 where that overflows         */
  MlirValue room;   /* a multiple of the alignment; 0 where `bytes` is above
                       NABLA_LAYOUT_MAX, so that sums never wrap             */
  MlirValue offset; /* in the block                                          */
} nabla_open_words;

/* The bytes of a buffer of type `type`, whose dimensions `?` are `dims`, of
 * type index. */
MlirValue nabla_open_bytes(MlirOperation before, MlirType type,
                           const MlirValue *dims);

/* A guess of the same, with 64 for each `?`. */
uint64_t nabla_open_guess(MlirType type);

/* Computes `room` and `offset` of all parts from `bytes`, and returns the size
 * of the block. Each part has `more` bytes behind it. `fixed`: the bytes of all
 * parts of static size. */
MlirValue nabla_open_parts_place(MlirOperation before,
                                 const nabla_open_part *parts,
                                 nabla_open_words *words, size_t count,
                                 const size_t *order, uint64_t fixed,
                                 uint64_t more);

#endif
