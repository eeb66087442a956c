/* Sizes that are known where a function begins: those that follow from the
 * sizes of its arguments, and in a public function also from values that it
 * computes first, or reads from its inputs. */
#ifndef NABLA_TRANSFORMS_MEMORY_ENTRY_SIZES_H
#define NABLA_TRANSFORMS_MEMORY_ENTRY_SIZES_H

#include "transforms/ir/block_index.h"

/* A value that sizes follow from: argument `argument` of the function itself,
 * or its dimension `dim`; -1: no dimension. */
typedef struct nabla_size_source {
  int64_t argument, dim;
} nabla_size_source;

typedef struct nabla_entry_sizes {
  MlirOperation function; /* of one block                                    */
  MlirOperation at;       /* sizes are computed before it                    */
  /* The operations of the function, and the number of the one of the block that
   * `at` stands before: results of those above it are used as they are. NULL:
   * sizes follow from arguments alone. */
  const nabla_block_index *index;
  size_t at_number;
  /* Gives the value of a source before `at`; null if it cannot. */
  MlirValue (*source)(void *self, nabla_size_source from);
  void *self;
  /* below: private */
  MlirValue *pairs; /* a value, and what it is before `at` */
  size_t count, capacity;
  size_t budget;
} nabla_entry_sizes;

/* Whether `value`, or dimension `dim` of `buffer`, is known. Changes nothing.
 */
bool nabla_entry_knows(nabla_entry_sizes *sizes, MlirValue value);
bool nabla_entry_knows_dim(nabla_entry_sizes *sizes, MlirValue buffer,
                           intptr_t dim);

/* Computes before `at` what is known; null if out of memory, or if a source is
 * null. */
MlirValue nabla_entry_value(nabla_entry_sizes *sizes, MlirValue value);
MlirValue nabla_entry_dim(nabla_entry_sizes *sizes, MlirValue buffer,
                          intptr_t dim);

void nabla_entry_sizes_deinit(nabla_entry_sizes *sizes);

/* The number of `?` among the dimensions of `type` below `dim`. */
intptr_t nabla_entry_open_before(MlirType type, intptr_t dim);

#endif
