/* Text of a program in MLIR's bytecode. */
#ifndef NABLA_TOOLS_OPT_BYTECODE_H
#define NABLA_TOOLS_OPT_BYTECODE_H

#include <mlir-c/IR.h>

#include "lib/base/memory.h"

/* Appends the text, with its locations, and a NUL, to `out`. MLIR's reader is
 * not made for damaged bytecode: it works in a process of its own, whose end by
 * a signal is an error. To be called while the process has one thread.
 * @return NABLA_CORRUPT    it cannot be read; MLIR said why on stderr
 *         NABLA_TOO_LARGE  more than `out` may hold
 *         NABLA_IO, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status opt_bytecode_to_text(MlirDialectRegistry registry,
                                                 MlirStringRef bytecode,
                                                 nabla_buffer *out,
                                                 nabla_diag *diag);

#endif
