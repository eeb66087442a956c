/* "Did you mean": the name nearest to one that was not found, among names that
 * may come from a hostile file: the work is bounded. */
#ifndef NABLA_BASE_EDIT_DISTANCE_H
#define NABLA_BASE_EDIT_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

typedef struct nabla_nearest {
  const char *wanted;
  size_t length;
  const char *best; /* borrowed from an offer; NULL while none is near */
  size_t best_length, distance;
  uint64_t work; /* steps that are left */
} nabla_nearest;

nabla_nearest nabla_nearest_begin(const char *wanted, size_t length);

/* Considers a name, which must live until the end. The first of equals wins.
 * Near is: few edits for the length (two swapped neighbours are one edit), or,
 * after all of those, one name inside the other. */
void nabla_nearest_offer(nabla_nearest *nearest, const char *name,
                         size_t length);

/* Sets "did you mean 'NAME'?", or `otherwise` when no name is near. */
void nabla_nearest_say(const nabla_nearest *nearest, nabla_diag *diag,
                       const char *otherwise);

#endif
