/* Limits for text in MLIR's syntax, which a recursive parser is to read. */
#ifndef NABLA_BASE_NESTING_H
#define NABLA_BASE_NESTING_H

#include <stddef.h>

#include "nabla/status.h"

/* Largest depth of nesting: brackets of any kind that are open at the same
 * time, including those of aliases (`#name = ...`, `!name = ...`), which count
 * at each use of the name. */
#define NABLA_NESTING_MAX 256
/* Operators in one affine expression. */
#define NABLA_OPERATORS_MAX 256
/* Bytes of a word outside quotes: a name, a number, the shape of a type. */
#define NABLA_WORD_MAX 4096
/* Bytes of the text after each alias is replaced by its value. */
#define NABLA_EXPANSION_MAX ((size_t)1 << 30)

/* Returns whether the text is MLIR's bytecode, by its first bytes. */
int nabla_is_bytecode(const char *text, size_t size);

/* Refuses text beyond these limits, with the line, as NABLA_TOO_LARGE, and
 * bytecode as NABLA_UNSUPPORTED. Thread-safe. */
NABLA_MUST_USE nabla_status nabla_nesting_check(const char *text, size_t size,
                                                nabla_diag *diag);

#endif
