/* Factors of operations: sizes that dimensions of operands and results share.
 * An operation is divided by dividing its factors. The column SHARD of
 * dialect/ops.def says where an operation has them from. Functions are defined
 * in factors.c, those that read and print text in factors_text.c; rules are in
 * factors_products.c, factors_moves.c and factors_create.c. */
#ifndef NABLA_TRANSFORMS_SHARD_FACTORS_H
#define NABLA_TRANSFORMS_SHARD_FACTORS_H

#include "transforms/shard/layout.h"

#define NABLA_MAX_FACTORS    24
#define NABLA_FACTOR_ARRAYS  20 /* operands and results that are arrays */
#define NABLA_FACTORS_OF_DIM 4

/* Attributes of a custom call: text of factors; the join of those that no
 * result has. */
#define NABLA_FACTORS   "nabla.factors"
#define NABLA_REDUCTION "nabla.reduction"

typedef enum nabla_factor_kind {
  NABLA_FACTOR_PASS,   /* each index is computed on its own               */
  NABLA_FACTOR_REDUCE, /* results are joined: `join` is a Nabla_ReduceKind */
  NABLA_FACTOR_MOVED,  /* elements move along it: is not divided           */
  NABLA_FACTOR_WHOLE,  /* is needed whole: is not divided                  */
} nabla_factor_kind;

/* `join` of a factor whose parts pieces.c joins. */
#define NABLA_JOIN_OWN (-1)

typedef struct nabla_factor {
  nabla_factor_kind kind;
  int join;
  bool is_even; /* pieces have one size: it is never padded */
  int64_t size; /* NABLA_DYNAMIC: known when the program runs */
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

/* Why an operation with the word `none` is not divided; NULL. */
const char *nabla_op_undivided(MlirOperation op);

/* The factors that `text` gives to the arrays of an operation, such as
 * "..., m k, k n -> ..., m n {k: sum}": for each operand, and behind the arrow
 * for each result, a name for each dimension. "..." are the dimensions before
 * those that are named, as many as are left, 1 is a dimension of size 1, and
 * "(h g)" a dimension whose size is the product of two factors. In braces are
 * factors that do not pass: those whose parts are joined by sum, prod, max,
 * min, any or all, and `moved` or `whole`. False: why is in `message`. */
bool nabla_factors_read(const char *text, size_t size, MlirOperation op,
                        nabla_factors *out, char message[NABLA_MESSAGE_SIZE]);
/* Appends such text, with the names a, b, c, ... */
void nabla_factors_print(const nabla_factors *factors, nabla_text *out);

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

/* Whether a factor is one that is divided at all. */
static inline bool nabla_factor_divides(const nabla_factor *factor) {
  return factor->kind == NABLA_FACTOR_PASS ||
         factor->kind == NABLA_FACTOR_REDUCE;
}

/* Whether a factor can be divided by a list of atoms: a size that is not
 * divided evenly has to be a dimension of its own, of dense arrays. */
bool nabla_factor_takes(const nabla_grid *shard, const nabla_factors *factors,
                        uint32_t factor, const nabla_atom_list *list);

#endif
