/* Numbers by which ranks compare what they have bound: equal names, types and
 * files give an equal number. */
#ifndef NABLA_RUNTIME_PROGRAM_BOUND_KEY_H
#define NABLA_RUNTIME_PROGRAM_BOUND_KEY_H

#include "lib/runtime/program/executable_internal.h"
#include "nabla/model.h"

/* Adds bytes to a number. */
uint64_t nabla_key_mix(uint64_t key, const void *data, size_t bytes);

/* Adds a weight that is bound to `argument`: its type, the size of its
 * components, and the first bytes of each. */
void nabla_bound_key_add(nabla_executable *executable, const char *argument,
                         const nabla_weight_desc *weight);

/* Adds what the headers of a model's files say. */
void nabla_bound_key_add_files(nabla_executable *executable,
                               const nabla_checkpoint *checkpoint);

#endif
