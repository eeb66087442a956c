/* Factors of operations: sizes that dimensions of operands and results share.
 * An operation is divided by dividing its factors. */
#ifndef NABLA_TRANSFORMS_SHARD_FACTORS_H
#define NABLA_TRANSFORMS_SHARD_FACTORS_H

#include "transforms/shard/layout.h"

#define NABLA_MAX_FACTORS    24
#define NABLA_FACTOR_ARRAYS  10 /* operands and results that are arrays */
#define NABLA_FACTORS_OF_DIM 4

typedef enum nabla_factor_kind {
  NABLA_FACTOR_PASS,   /* each index is computed on its own               */
  NABLA_FACTOR_REDUCE, /* results are joined: `join` is a Nabla_ReduceKind */
  NABLA_FACTOR_WHOLE,  /* is not divided                                  */
} nabla_factor_kind;

typedef struct nabla_factor {
  nabla_factor_kind kind;
  int join;
  int64_t size; /* dynamic sizes are not divided */
} nabla_factor;

/* The factors of a dimension, the first counts most. */
typedef struct nabla_factor_dim {
  uint8_t count, at[NABLA_FACTORS_OF_DIM];
} nabla_factor_dim;

typedef struct nabla_factor_array {
  bool is_result;
  intptr_t index; /* of the operand or result */
  MlirValue value;
  intptr_t rank;
  nabla_factor_dim dims[NABLA_MAX_RANK];
} nabla_factor_array;

typedef struct nabla_factors {
  uint32_t count;
  nabla_factor all[NABLA_MAX_FACTORS];
  uint32_t array_count; /* operands, then results */
  nabla_factor_array arrays[NABLA_FACTOR_ARRAYS];
} nabla_factors;

/* Reads the factors of an operation. False for one that is computed whole by
 * every device. */
bool nabla_op_factors(MlirOperation op, nabla_factors *out);

/* The atoms that `layout` gives to each factor of an array: `out` has a list
 * for each factor. False where it divides the array in another way than along
 * its factors. */
bool nabla_factors_split(const nabla_grid *shard, const nabla_factors *factors,
                         const nabla_factor_array *array,
                         const nabla_division *layout,
                         nabla_atom_list out[NABLA_MAX_FACTORS]);
/* Back: the layout of an array whose factors are divided so. A factor behind
 * one that is not wholly divided is left out. */
nabla_division nabla_factors_join(
    const nabla_grid *shard, const nabla_factors *factors,
    const nabla_factor_array *array,
    const nabla_atom_list lists[NABLA_MAX_FACTORS]);

/* Makes the attributes of an operation, whose factors are divided, those of a
 * piece: sizes of boxes. */
void nabla_factors_adjust(MlirOperation op, const nabla_grid *shard,
                          const nabla_factors *factors,
                          const nabla_atom_list lists[NABLA_MAX_FACTORS]);

#endif
