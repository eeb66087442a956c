/* Kernels in the words of the LLVM dialect. Bodies write arith and vector,
 * which say more in less; lowering these by conversion patterns takes half of
 * the time that passes take, and spelling them otherwise next to nothing. */
#ifndef NABLA_KERNELS_BUILDER_TO_LLVM_DIALECT_H
#define NABLA_KERNELS_BUILDER_TO_LLVM_DIALECT_H

#include "lib/kernels/builder/text.h"

/* Appends the operations of `from`, one on each line, to `to`: those of arith
 * and vector that kernels have as the LLVM dialect has them. Others stay: of
 * them all but those of vector are lowered later. Values are %v1 to %vLAST;
 * what makes one that nothing uses is left out. */
void nabla_to_llvm_dialect_add(const nabla_text *from, unsigned last,
                               nabla_text *to);

#endif
