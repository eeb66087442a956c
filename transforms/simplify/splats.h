/* Arrays of equal elements: constants, and implicit splats, which are replaced
 * by constants. Functions are defined in fold_splats.c too. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SPLATS_H
#define NABLA_TRANSFORMS_SIMPLIFY_SPLATS_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stdint.h>

/* Replaces each operand that is a #nabla.splat by a constant.
 * @return how many there were, -1 after an error */
int nabla_splats_to_constants(MlirOperation op);

/* The common value of the elements of a constant of static shape. */
typedef struct nabla_splat {
  MlirType element;
  bool is_float;
  double number;    /* the value of a float */
  uint64_t integer; /* the bits of an integer; all others are 0 */
} nabla_splat;

/* Reads a nabla.constant or nabla.full with equal elements, at least one;
 * returns false for any other value. */
bool nabla_splat_read(MlirValue value, nabla_splat *out);

/* Makes a nabla.constant of `type`, a tensor of static shape, before `before`;
 * a float is rounded to the element type. Null if it cannot be made. */
MlirValue nabla_splat_write(MlirOperation before, MlirType type,
                            const nabla_splat *splat);

/* Returns the bits of an integer type. */
unsigned nabla_splat_width(MlirType element);

/* Returns whether two values have the same type and the same bits. */
bool nabla_splat_equal(const nabla_splat *a, const nabla_splat *b);

/* Replaces an op whose operands are all such constants by a constant, if its
 * row in splats.def computes it exactly. Returns whether it replaced `op`. */
bool nabla_fold_splats(MlirOperation op);
/* Returns whether there is a row for `op`. */
bool nabla_folds_splats(MlirOperation op);

#endif
