/* Arrays of one value: constants, and implicit splats, which become some.
 * Functions are defined in fold_splats.c too. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_SPLATS_H
#define NABLA_TRANSFORMS_SIMPLIFY_SPLATS_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stdint.h>

/* Replaces each operand that is a #nabla.splat by a constant.
 * @return how many there were, -1 after an error */
int nabla_splats_to_constants(MlirOperation op);

/* The value that all elements of a constant of static shape have. */
typedef struct nabla_splat {
  MlirType element;
  bool is_float;
  double number;    /* of a float */
  uint64_t integer; /* of an integer: its bits, no others */
} nabla_splat;

/* Reads a nabla.constant or nabla.full with one value and at least one element;
 * false for anything else. */
bool nabla_splat_read(MlirValue value, nabla_splat *out);

/* A nabla.constant of `type`, a tensor of static shape, before `before`; a
 * float is rounded to the element type. Null where it cannot be made. */
MlirValue nabla_splat_write(MlirOperation before, MlirType type,
                            const nabla_splat *splat);

/* Bits of an integer type. */
unsigned nabla_splat_width(MlirType element);

/* The same bits of the same type. */
bool nabla_splat_equal(const nabla_splat *a, const nabla_splat *b);

/* Folds an op all of whose operands are such constants into one, where that is
 * exact: rows of splats.def. Whether it replaced `op`. */
bool nabla_fold_splats(MlirOperation op);
/* Whether there is a row for `op`. */
bool nabla_folds_splats(MlirOperation op);

#endif
