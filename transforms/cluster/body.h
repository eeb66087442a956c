/* The kernel of a cluster while it is written: shared by body.c, which writes
 * the loops, elements.c and math.c, which write values. Values are of one
 * column or row (scalars) or of 16 columns (vectors). */
#ifndef NABLA_TRANSFORMS_CLUSTER_BODY_H
#define NABLA_TRANSFORMS_CLUSTER_BODY_H

#include "lib/kernels/builder/k.h"
#include "transforms/cluster/cluster.h"

/* The accumulators of a reduction, at most: vectors of 16 lanes. */
#define NABLA_CLUSTER_UNROLL 4

struct nabla_cluster_body {
  nabla_emitter *e;
  const nabla_cluster *c;
  nabla_shape shape; /* of what is written now */
  nabla_ssa inputs[NABLA_CLUSTER_INPUTS], outputs[NABLA_CLUSTER_OUTPUTS];
  nabla_ssa dims[NABLA_CLUSTER_RANK], columns;
  nabla_ssa row;        /* its number */
  nabla_ssa begin;      /* the first element of the row in full tensors */
  nabla_ssa first, end; /* columns of the unit */
  nabla_ssa starts[NABLA_CLUSTER_INPUTS]; /* elements, of the row */
  nabla_ssa scratch;                      /* 64 bytes on the stack */
  /* uniform values as scalars, and as vectors */
  nabla_ssa scalars[NABLA_CLUSTER_NODES], lanes[NABLA_CLUSTER_NODES];
  /* of 16 columns: from `column` on, of which those of `mask` count (0: all) */
  nabla_ssa column, mask, width;
  nabla_ssa values[NABLA_CLUSTER_NODES];
  int spilled[NABLA_CLUSTER_OUTPUTS]; /* node that an output's memory holds */
};

/* "f32" or "vector<16xf32>" of the shape that is written, and of i1. */
const char *nabla_cluster_type(const nabla_cluster_body *b);
const char *nabla_cluster_truth(const nabla_cluster_body *b);
/* A constant of f32. */
nabla_ssa nabla_cluster_f32(nabla_cluster_body *b, double value);
/* condition ? yes : no, of f32. */
nabla_ssa nabla_cluster_choose(nabla_cluster_body *b, nabla_ssa condition,
                               nabla_ssa yes, nabla_ssa no);

/* math.c: a function by its row of math.def, else by its formula, in f64. */
nabla_ssa nabla_cluster_function(nabla_cluster_body *b, const char *name,
                                 const nabla_ssa *x);

/* The value of no elements. */
double nabla_cluster_initial(nabla_cluster_reduction reduction);
/* One value of a reduction and another. */
nabla_ssa nabla_cluster_combine(nabla_cluster_body *b,
                                nabla_cluster_reduction reduction, nabla_ssa x,
                                nabla_ssa y);

/* reduce.c: all lanes of vectors, as a scalar; a fixed tree. */
nabla_ssa nabla_cluster_lanes(nabla_cluster_body *b,
                              nabla_cluster_reduction reduction,
                              nabla_ssa vector);

/* memory.c: elements of an input, of an output. */
nabla_ssa nabla_cluster_load(nabla_cluster_body *b, int input);
void nabla_cluster_store(nabla_cluster_body *b, int output, nabla_ssa value);
nabla_ssa nabla_cluster_reload(nabla_cluster_body *b, int output);
/* Those of a row in a tensor that is uniform. */
nabla_ssa nabla_cluster_load_row(nabla_cluster_body *b, int input);
void nabla_cluster_store_row(nabla_cluster_body *b, int output,
                             nabla_ssa value);

#endif
