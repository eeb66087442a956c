/* Reverse mode: cotangents of the values of a block, one pass over its
 * operations from the last to the first. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_REVERSE_H
#define NABLA_TRANSFORMS_AUTODIFF_REVERSE_H

#include "transforms/autodiff/calls.h"
#include "transforms/autodiff/rules.h"
#include "transforms/autodiff/varied.h"
#include "transforms/shard/varying.h"

typedef struct nabla_reverse {
  nabla_builder b;         /* where cotangents are made */
  nabla_value_map *varied; /* values that have a cotangent */
  nabla_value_map sums;    /* of each value the sum so far, in the type that
                            * f16 and bf16 are computed in if it has terms */
  nabla_derived *derived;  /* derivatives of functions that are called */

  /* In a shard_map, else NULL: what values vary along. A cotangent of a value
   * that is equal along axes, from an operation whose results vary along them,
   * is a term of each device: `pending` has their sums, which are joined when
   * the cotangent is needed. */
  const nabla_grid *grid;
  nabla_varying *varying;
  uint64_t atoms;  /* that results of the operation in reverse vary along */
  uint64_t always; /* that all values here vary along: those of conditions */
  nabla_value_map pending;
  nabla_varying pending_atoms; /* over which they are to be joined */
} nabla_reverse;

void nabla_reverse_deinit(nabla_reverse *r);

/* A pass over a region that is made at `b`, with cotangents of its own. The
 * caller deinits it. */
nabla_reverse nabla_reverse_inner(const nabla_reverse *r,
                                  const nabla_builder *b);
/* Finds what the operations of a block that was copied vary along. False after
 * an error. */
bool nabla_reverse_visit(nabla_reverse *r, MlirBlock block);
/* What a value varies along; nothing outside of a shard_map. */
uint64_t nabla_reverse_atoms(const nabla_reverse *r, MlirValue value);
/* nabla_reverse_add of a cotangent that varies along `atoms`. */
void nabla_reverse_add_along(nabla_reverse *r, uint64_t atoms, MlirValue value,
                             MlirValue cotangent);

/* Adds a cotangent of a value; nothing where either has none. The order of the
 * calls is that of the sum. */
void nabla_reverse_add(nabla_reverse *r, MlirValue value, MlirValue cotangent);
/* The sum, in the type of the value; null where there is none. */
MlirValue nabla_reverse_sum(nabla_reverse *r, MlirValue value);
/* The same, zeros where there is none. */
MlirValue nabla_reverse_sum_or_zeros(nabla_reverse *r, MlirValue value);

/* Goes through `block` from its end: the cotangents of what its operations give
 * become those of what they take. False after an error. */
bool nabla_reverse_block(nabla_reverse *r, MlirBlock block);

/* Control flow (reverse_control.c, reverse_scan.c, remat.c) and calls
 * (calls.c): `cotangents` of the results. */
bool nabla_reverse_cond(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents);
bool nabla_reverse_scan(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents);
bool nabla_reverse_while(nabla_reverse *r, MlirOperation op,
                         const MlirValue *cotangents);
bool nabla_reverse_remat(nabla_reverse *r, MlirOperation op,
                         const MlirValue *cotangents);
bool nabla_reverse_custom_call(nabla_reverse *r, MlirOperation op,
                               const MlirValue *cotangents);
bool nabla_reverse_call(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents);

#endif
