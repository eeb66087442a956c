/* A limit of nesting for text that a recursive parser is to read. */
#ifndef NABLA_BASE_NESTING_H
#define NABLA_BASE_NESTING_H

#include <stddef.h>

#include "nabla/status.h"

/* Brackets of any kind that may be open at once, minus signs in a row, and
 * operators in an affine expression: MLIR's parser calls itself for each. */
#define NABLA_NESTING_MAX 256
#define NABLA_AFFINE_MAX  4096 /* bytes of an affine map or set */

/* Refuses a program in MLIR's text beyond those limits, with its line. Bytecode
 * is not read. Thread-safe, allocates nothing. */
NABLA_MUST_USE nabla_status nabla_nesting_check(const char *text, size_t size,
                                                nabla_diag *diag);

#endif
