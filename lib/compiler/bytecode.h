/* Compilation of programs that this process made, for other folders of the
 * library: MLIR's bytecode, from any context. Its reader is not hardened, so
 * that nabla_compile_text refuses it. */
#ifndef NABLA_COMPILER_BYTECODE_H
#define NABLA_COMPILER_BYTECODE_H

#include "nabla/compiler.h"

/* As nabla_compile_text. `bytecode` is aligned to 8 bytes; the program is
 * called "graph" in diagnostics. `out_code` gets the bytes of the object. */
NABLA_MUST_USE nabla_status nabla_compile_bytecode(
    nabla_compiler *compiler, const void *bytecode, size_t size,
    const nabla_compile_options *options, nabla_executable **out,
    size_t *out_code, nabla_diag *diag);

#endif
