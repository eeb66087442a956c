/* Which elementwise operations of a block are fused: windows of neighbours. */
#ifndef NABLA_TRANSFORMS_FUSION_FUSE_PLAN_H
#define NABLA_TRANSFORMS_FUSION_FUSE_PLAN_H

#include <mlir-c/AffineMap.h>

#include "transforms/ir/block_index.h"

/* What a fused loop has at most: operations of the program, and operations of
 * arith and math in its body (a single one of the program may have more). */
#define NABLA_FUSED_OPS_MAX  64
#define NABLA_FUSED_BODY_MAX 4096

/* An elementwise linalg.generic: all loops are parallel, results are written in
 * the order of the loops, `outs` are not read, the body has no regions and no
 * effects. */
typedef struct nabla_elementwise {
  MlirOperation op;
  MlirBlock body;
  intptr_t inputs, outputs;
  MlirAttribute maps; /* of inputs, then outputs */
  size_t weight;      /* operations of its body */
  bool is_closed;     /* the body takes nothing from outside but elements */
} nabla_elementwise;

/* False for any other operation. */
bool nabla_elementwise_match(MlirOperation op, nabla_elementwise *out);
MlirAffineMap nabla_elementwise_map(const nabla_elementwise *e,
                                    intptr_t operand);

typedef struct nabla_fuse_plan {
  nabla_block_index index;
  nabla_elementwise *elementwise; /* by number; op is null for others  */
  size_t *windows;                /* by number; 0: none, else 1 and more */
  size_t count;                   /* of windows                         */
} nabla_fuse_plan;

/* Plans a block. No window where upstream's fusion stays below the limits and
 * the block is of ordinary size; else elementwise operations that nothing uses
 * are erased. False when memory runs out; deinitialize in
 * both cases. */
bool nabla_fuse_plan_init(nabla_fuse_plan *plan, MlirBlock block);
void nabla_fuse_plan_deinit(nabla_fuse_plan *plan);

#endif
