/* Making nabla.cond, nabla.while and nabla.scan: regions are written by the
 * caller's functions, result types follow from what the regions yield. */
#ifndef NABLA_TRANSFORMS_IR_BUILD_CONTROL_H
#define NABLA_TRANSFORMS_IR_BUILD_CONTROL_H

#include "transforms/ir/build.h"

enum { NABLA_BUILD_MAX_CARRIES = 32 };

/* A region: `write` makes its operations with `b`, given the `arguments` of its
 * block, and fills in `count` values that it yields; a null one is an error
 * that was reported. Values from outside may be used. */
typedef struct nabla_built_region {
  void (*write)(const nabla_builder *b, const MlirValue *arguments,
                MlirValue *results, void *data);
  void *data;
  intptr_t count; /* at most NABLA_BUILD_MAX_CARRIES */
} nabla_built_region;

/* nabla.cond; the first region's types are the results'. All three give a null
 * op where something could not be made, which was reported. */
MlirOperation nabla_build_cond(const nabla_builder *b, MlirValue selector,
                               intptr_t count,
                               const nabla_built_region *branches);

/* nabla.while: `condition` gives the truth value, then what is handed on;
 * `body` the next carries. */
MlirOperation nabla_build_while(const nabla_builder *b, intptr_t count,
                                const MlirValue *initial,
                                const nabla_built_region *condition,
                                const nabla_built_region *body);

/* Operands of nabla.scan. Zero-initialise. */
typedef struct nabla_built_scan {
  intptr_t carry_count, input_count, size_count;
  const MlirValue *carries, *inputs;
  MlirValue length;       /* where there is no input; null: none */
  const MlirValue *sizes; /* each `?` of the slices of stacked outputs */
  bool reverse;
} nabla_built_scan;

/* nabla.scan; `body` gives the next carries, then slices of stacked outputs,
 * which must be tensors. */
MlirOperation nabla_build_scan(const nabla_builder *b,
                               const nabla_built_scan *scan,
                               const nabla_built_region *body);

/* Result `index`; null of a null op. */
MlirValue nabla_build_result(MlirOperation op, intptr_t index);

#endif
