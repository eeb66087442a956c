/* What the pass back uses of the values that the function computes. Functions
 * are in saved.c, again.c and remat.c (barriers). */
#ifndef NABLA_TRANSFORMS_AUTODIFF_SAVED_H
#define NABLA_TRANSFORMS_AUTODIFF_SAVED_H

#include "transforms/autodiff/derive.h"
#include "transforms/ir/block_index.h"
#include "transforms/ir/build.h"

/* A function that nabla_derive_vjp made with `marked`, and what its pass back
 * uses: values that are saved, and operations that run again for it. */
typedef struct nabla_saved {
  nabla_derived *d;
  MlirOperation function;
  nabla_save save;
  intptr_t results;        /* of the original */
  nabla_block_index index; /* of the function's block */
  size_t mark;             /* number of the marking operation */
  bool *needed;            /* for each operation before it: runs again */
  nabla_value_list values; /* saved, in the order in which they are computed */
} nabla_saved;

/* Fills in the rest of `s`; false after an error. Deinitialize in both cases.
 */
bool nabla_saved_find(nabla_saved *s);
void nabla_saved_deinit(nabla_saved *s);

/* Whether a value is an array that costs more to compute than to keep. */
bool nabla_is_kept(MlirValue value);

/* Makes a nabla.barrier of `values` that waits for `after`; `map` gets what
 * they are behind it. False after an error. */
bool nabla_barrier_add(const nabla_builder *b, const nabla_value_list *values,
                       MlirValue after, nabla_value_map *map);

/* In the function that nabla_derive_vjp made with `marked`: what is not saved
 * runs again, behind barriers, where the pass back first needs it. `arguments`
 * and `results` are those of the original. False after an error. */
bool nabla_derive_again(nabla_derived *d, MlirOperation made, nabla_save save,
                        intptr_t arguments, intptr_t results);

#endif
