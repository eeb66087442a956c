/* A window of elementwise operations (fuse_plan.h) as one body. */
#ifndef NABLA_TRANSFORMS_FUSION_FUSE_WINDOW_H
#define NABLA_TRANSFORMS_FUSION_FUSE_WINDOW_H

#include "transforms/fusion/fuse_plan.h"

typedef struct nabla_fuse_window {
  const nabla_fuse_plan *plan;
  const size_t *members; /* numbers */
  size_t count;
  MlirContext context;
  MlirBlock body;
  MlirValue *inputs; /* from outside, each with its map      */
  MlirAttribute *maps;
  size_t input_count;
  MlirValue *made; /* in the body: each result of each member  */
  size_t *places;  /* of the first result of a member in `made` */
  MlirValue *old;  /* results that are used outside             */
  MlirValue *outs, *yields;
  MlirType *types;
  MlirAttribute *out_maps;
  size_t output_count;
} nabla_fuse_window;

/* Moves the bodies of the members into one, which ends with a yield of what is
 * used outside, and takes the elements of outs behind those of inputs. False
 * when memory runs out; deinitialize in both cases. */
bool nabla_fuse_window_init(nabla_fuse_window *w, const nabla_fuse_plan *plan,
                            const size_t *members, size_t count);
void nabla_fuse_window_deinit(nabla_fuse_window *w);

/* A linalg.generic of this body, which it owns then: operands stand for inputs,
 * then outs. It is in no block. */
MlirOperation nabla_fuse_window_create(nabla_fuse_window *w,
                                       const MlirValue *operands,
                                       bool with_results);

#endif
