/* The user's regular expressions, compiled once and bounded. */
#ifndef NABLA_QUANT_PLAN_PATTERNS_H
#define NABLA_QUANT_PLAN_PATTERNS_H

#include <stddef.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

typedef struct nabla_patterns nabla_patterns;

/* Compiles `count` POSIX extended expressions. `option` names where they come
 * from, for errors ("skip").
 * @return NABLA_INVALID_ARGUMENT  a syntax error, more patterns or bytes than
 *                                 allowed, or an expression whose repetition
 *                                 counts would make it huge
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_patterns_create(const nabla_allocator *allocator, const char *option,
                      const char *const *texts, size_t count,
                      nabla_patterns **out, nabla_diag *diag);
void nabla_patterns_destroy(nabla_patterns *patterns);

size_t nabla_patterns_count(const nabla_patterns *patterns);

/* Finds the first pattern that matches somewhere in `name`; SIZE_MAX if none.
 * @return NABLA_OK, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_patterns_match(const nabla_patterns *patterns,
                                                 const char *name, size_t *out,
                                                 nabla_diag *diag);

const char *nabla_patterns_text(const nabla_patterns *patterns, size_t index);

#endif
