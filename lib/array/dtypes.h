/* Dtypes of arrays: those of MLIR, sizes, and the dtype of a pair. */
#ifndef NABLA_ARRAY_DTYPES_H
#define NABLA_ARRAY_DTYPES_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "nabla/executable.h"

/* A dtype by its number, which may be beyond those of nabla_dtype: packed types
 * (packed.h) and MLIR's index (recorder.h) stand in the place of a dtype. */
static inline nabla_dtype nabla_dtype_numbered(unsigned number) {
  nabla_dtype out;
  _Static_assert(sizeof out == sizeof number, "enumerations are of this size");
  memcpy(&out, &number, sizeof out);
  return out;
}

/* The element type of a dtype; null for those that programs do not have. */
MlirType nabla_dtype_to_mlir(MlirContext context, nabla_dtype dtype);
bool nabla_dtype_from_mlir(MlirType type, nabla_dtype *out);

/* Whether programs have this dtype. */
bool nabla_dtype_is_known(nabla_dtype dtype);
/* Elements, and bytes, of an array of a known dtype. */
size_t nabla_dtype_count(const nabla_dense *dense);
size_t nabla_dtype_bytes(const nabla_dense *dense);

/* The elements of `dense` as an attribute; null for more truth values than
 * this. */
#define NABLA_MAX_CONSTANT_BOOLS 4096
MlirAttribute nabla_dense_to_mlir(MlirContext context,
                                  const nabla_dense *dense);

/* A dtype, or that of a number that has none of its own. */
typedef struct nabla_operand_dtype {
  nabla_dtype dtype;
  bool is_weak; /* F64 stands for any float, I64 for any number */
} nabla_operand_dtype;

/* The dtype to which two operands are converted, both known: JAX's rules
 * without 64-bit results that nobody asked for. docs/ARRAYS.md has the table.
 * Two weak operands give a weak one. */
nabla_operand_dtype nabla_dtype_promote(nabla_operand_dtype a,
                                        nabla_operand_dtype b);
/* The dtype of a weak operand that is not combined with others; the other's
 * own. */
nabla_dtype nabla_dtype_settle(nabla_operand_dtype operand);

#endif
