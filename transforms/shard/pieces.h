/* What changes in an operation that computes a piece: attributes, sizes and
 * indices, elements of padding that would be joined, and results that know
 * where the piece begins. Functions are defined in pieces.c, pieces_index.c. */
#ifndef NABLA_TRANSFORMS_SHARD_PIECES_H
#define NABLA_TRANSFORMS_SHARD_PIECES_H

#include "transforms/ir/build.h"
#include "transforms/shard/factors.h"

typedef struct nabla_shard_piece {
  const nabla_grid *grid;
  MlirOperation op;
  const nabla_factors *factors;
  const nabla_atom_list *lists; /* of each factor */
  MlirValue owned; /* of a gather: whether each row is of this device */
} nabla_shard_piece;

/* Changes the operation, whose operands are pieces already, and whose results
 * still have the types of the whole. False after an error. */
bool nabla_piece_adjust(nabla_shard_piece *piece);

/* What result `index`, of the type of a piece, is made before `before`, to be
 * joined as its factors say. Null after an error. */
MlirValue nabla_piece_finish(const nabla_shard_piece *piece,
                             MlirOperation before, intptr_t index,
                             MlirValue result);

/* ---- for pieces.c and pieces_index.c ---- */

/* The number of pieces of a factor. */
int64_t nabla_piece_count(const nabla_shard_piece *piece, uint32_t factor);
/* Where the device's piece begins along a factor, of which `size` elements are
 * a piece: a tensor<i64>. */
MlirValue nabla_piece_start(const nabla_shard_piece *piece,
                            const nabla_builder *b, uint32_t factor,
                            int64_t size);
/* The indices in the whole along dimension `dim` of an array of pieces of shape
 * `shape`, which is `factor`. */
MlirValue nabla_piece_iota(const nabla_shard_piece *piece,
                           const nabla_builder *b,
                           const nabla_built_shape *shape, intptr_t dim,
                           uint32_t factor);
/* A number of an element type, as an array. */
MlirValue nabla_piece_number(const nabla_builder *b, int64_t value,
                             const nabla_built_shape *shape, MlirType element);

/* What is added to an element without a change. */
MlirValue nabla_piece_nothing(const nabla_builder *b,
                              const nabla_built_shape *shape, MlirType element);

/* Changes the indices of a gather or scatter of a table that is divided along
 * rows. */
bool nabla_piece_rows(nabla_shard_piece *piece, bool is_gather);
/* Rows that are not this device's as 0. */
MlirValue nabla_piece_own_rows(const nabla_shard_piece *piece,
                               const nabla_builder *b, MlirValue result);
/* The first best element of all devices, of an argmax or argmin. */
MlirValue nabla_piece_best(const nabla_shard_piece *piece,
                           const nabla_builder *b, MlirValue result);

#endif
