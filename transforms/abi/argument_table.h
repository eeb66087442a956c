/* Tables of arguments and of results: a function that takes many tensors takes
 * the address of an array instead, of pointers to buffer descriptors. That
 * array is the one an entry point is given (nabla/services.h), so nothing is
 * copied there. */
#ifndef NABLA_TRANSFORMS_ABI_ARGUMENT_TABLE_H
#define NABLA_TRANSFORMS_ABI_ARGUMENT_TABLE_H

#include "transforms/ir/ir.h"

/* The most tensors that a function takes as arguments of its own. */
#define NABLA_TENSOR_ARGUMENTS_MAX 64

/* Attribute of functions whose first argument is a table of all tensors. */
#define NABLA_TABLE_MARK "nabla.argument_table"

/* Attribute of functions that return nothing: their last argument is a table of
 * pointers to the descriptors of their results, which they write. */
#define NABLA_RESULT_TABLE_MARK "nabla.result_table"

MlirType nabla_table_pointer(MlirContext context);

/* The buffer descriptor of a memref of this rank, as a structure of LLVM. */
MlirType nabla_table_descriptor(MlirContext context, intptr_t rank);

/* The result of an operation with one operand, before `before`. */
MlirValue nabla_table_op(MlirOperation before, const char *name,
                         MlirValue operand, MlirType result);

/* The address `offset` bytes behind `base`. */
MlirValue nabla_table_address(MlirOperation before, MlirValue base,
                              int64_t offset);

/* Stores the descriptor of a buffer at `place`, before `before`, by a call of a
 * private function that is added to the module. Stores to places that are not
 * known may all alias: in one stretch of code LLVM's schedulers would compare
 * each with each. A call ends a stretch. */
void nabla_table_store(MlirOperation module, MlirOperation before,
                       MlirValue buffer, MlirValue place);

#endif
