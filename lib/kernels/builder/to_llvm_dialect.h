/* Rewriting of kernels to the LLVM dialect, on text. Generators write arith and
 * vector, which are shorter; conversion patterns for these would take half of
 * the time of all passes, rewriting the text next to none. */
#ifndef NABLA_KERNELS_BUILDER_TO_LLVM_DIALECT_H
#define NABLA_KERNELS_BUILDER_TO_LLVM_DIALECT_H

#include "lib/kernels/builder/text.h"

/* Appends the operations of `from`, one on each line, to `to`, with those of
 * arith and vector that kernels contain as operations of the LLVM dialect.
 * Other operations stay and are lowered later, but for those of vector, which
 * are an error. Values are %v1 to %vLAST; operations whose results are unused
 * are removed. */
void nabla_to_llvm_dialect_add(const nabla_text *from, unsigned last,
                               nabla_text *to);

#endif
