/* Pieces of packed arrays that are packed arrays themselves. */
#ifndef NABLA_DIALECT_ENCODING_SLICE_BLOCKS_H
#define NABLA_DIALECT_ENCODING_SLICE_BLOCKS_H

#include "dialect/encoding/encoding.h"

/* A piece of a storage that begins with a block: its components are pieces of
 * the storage's. */
typedef struct nabla_cut {
  MlirType alone; /* the piece as an array that is no view */
  uint32_t count; /* of components */
  int64_t first[NABLA_MAX_PARTS], size[NABLA_MAX_PARTS];
} nabla_cut;

/* Reads an implicit type as such a piece: the whole, or a view of neighbours in
 * order. False where it is none. */
bool nabla_cut_read(MlirType type, nabla_cut *out);

#endif
