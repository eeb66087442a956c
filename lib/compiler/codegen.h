/* From the LLVM dialect to an object: the one path for JIT, files and cache.
 * Functions are defined in intrinsics.c and object.c too. */
#ifndef NABLA_COMPILER_CODEGEN_H
#define NABLA_COMPILER_CODEGEN_H

#include <llvm-c/Core.h>
#include <mlir-c/IR.h>

#include "lib/compiler/target.h"
#include "nabla/compiler.h"

/* Translates, optimises and emits `module`: NABLA_EMIT_LLVM, ASM or OBJ. The
 * result ends with a NUL beyond its size. Times go to `report`; `needed`,
 * unless NULL, gets the features that a CPU must have to run it.
 * @return NABLA_CORRUPT (LLVM refuses it), NABLA_UNSUPPORTED (needs an
 *         instruction that the target lacks) */
NABLA_MUST_USE nabla_status nabla_codegen(
    MlirOperation module, const nabla_machine *target, nabla_emission emission,
    LLVMMemoryBufferRef *out, nabla_x86_features *needed,
    nabla_compile_report *report, nabla_diag *diag);

/* NULL, or the name of a feature that calls of an intrinsic need and `target`
 * lacks. "" when the intrinsic is of another machine, or not one that compiled
 * code may use (x86_intrinsics.def). */
const char *nabla_intrinsic_objection(const nabla_machine *target,
                                      const char *name, size_t length);

/* Does an intrinsic of x86 take numbers of tiles, as i8? They are below
 * NABLA_INTRINSIC_TILES. */
#define NABLA_INTRINSIC_TILES 8u
int nabla_intrinsic_has_tiles(const char *name, size_t length);

/* Adds to `needed` the features that an intrinsic needs. */
void nabla_intrinsic_add(const char *name, size_t length,
                         nabla_x86_features *needed);

/* NABLA_CORRUPT unless `data` is an ELF object whose only undefined symbols
 * are memcpy, memmove and memset. */
NABLA_MUST_USE nabla_status nabla_object_check(const void *data, size_t size,
                                               nabla_diag *diag);

/* Milliseconds of a clock that never goes back. */
double nabla_milliseconds(void);

#endif
