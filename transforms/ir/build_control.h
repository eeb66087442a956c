/* Functions that make nabla.cond, nabla.while and nabla.scan. Callbacks of the
 * caller write the regions; result types follow from the values that the
 * regions yield. */
#ifndef NABLA_TRANSFORMS_IR_BUILD_CONTROL_H
#define NABLA_TRANSFORMS_IR_BUILD_CONTROL_H

#include "transforms/ir/build.h"

/* Operations have at most 64 operands, and results (dialect/dialect.h). */
enum { NABLA_BUILD_MAX_CARRIES = 64, NABLA_BUILD_MAX_BRANCHES = 32 };

/* A region. `write` makes its operations with `b` from the `arguments` of its
 * block, and stores `count` values that the region yields; a null value is an
 * error that was reported. The operations may use values from outside. */
typedef struct nabla_built_region {
  void (*write)(const nabla_builder *b, const MlirValue *arguments,
                MlirValue *results, void *data);
  void *data;
  intptr_t count; /* at most NABLA_BUILD_MAX_CARRIES */
} nabla_built_region;

/* Makes nabla.cond; the first region determines the types of the results. This
 * function and the next two return a null op after an error. */
MlirOperation nabla_build_cond(const nabla_builder *b, MlirValue selector,
                               intptr_t count,
                               const nabla_built_region *branches);

/* Makes nabla.while: `condition` yields the truth value, then the values that
 * are passed on; `body` yields the next carries. */
MlirOperation nabla_build_while(const nabla_builder *b, intptr_t count,
                                const MlirValue *initial,
                                const nabla_built_region *condition,
                                const nabla_built_region *body);

/* Operands of nabla.scan. Zero-initialise. */
typedef struct nabla_built_scan {
  intptr_t carry_count, input_count, size_count;
  const MlirValue *carries, *inputs;
  MlirValue length;       /* only without inputs; null: none */
  const MlirValue *sizes; /* each `?` in the slices of stacked outputs */
  bool reverse;
} nabla_built_scan;

/* Makes nabla.scan; `body` yields the next carries, then slices of stacked
 * outputs, which must be tensors. */
MlirOperation nabla_build_scan(const nabla_builder *b,
                               const nabla_built_scan *scan,
                               const nabla_built_region *body);

/* Makes nabla.remat. */
MlirOperation nabla_build_remat(const nabla_builder *b,
                                const nabla_built_region *body);
/* Moves the operations of a nabla.remat to where it stands; true. */
bool nabla_remat_open(MlirOperation op);

/* Returns result `index`; null for a null op. */
MlirValue nabla_build_result(MlirOperation op, intptr_t index);

#endif
