/* The kernel of a cluster while it is written: shared by body.c, which writes
 * the loops, elements.c and math.c, which write values. Values are of one
 * column or row (scalars) or of a vector of columns. lanes.c has their types.
 */
#ifndef NABLA_TRANSFORMS_CLUSTER_BODY_H
#define NABLA_TRANSFORMS_CLUSTER_BODY_H

#include "lib/kernels/builder/k.h"
#include "transforms/cluster/cluster.h"

/* The accumulators of a reduction, at most: vectors of 16 lanes. */
#define NABLA_CLUSTER_UNROLL 4

/* The type that values of an element type are computed in. `type` and `bits`,
 * an integer as wide, are those of scalars and of vectors of 16 and of 64. */
typedef struct nabla_cluster_lane {
  nabla_dtype dtype;
  const char *type[3], *bits[3];
  unsigned bytes; /* of an element in memory */
  bool is_float, is_unsigned;
} nabla_cluster_lane;

struct nabla_cluster_body {
  nabla_emitter *e;
  const nabla_cluster *c;
  nabla_shape shape;              /* of what is written now */
  const nabla_cluster_lane *lane; /* and its type */
  unsigned lanes_of_vectors;      /* 16; 64 where all values are bytes */
  nabla_ssa inputs[NABLA_CLUSTER_INPUTS], outputs[NABLA_CLUSTER_OUTPUTS];
  nabla_ssa dims[NABLA_CLUSTER_RANK], columns;
  nabla_ssa row;                       /* its number */
  nabla_ssa index[NABLA_CLUSTER_RANK]; /* and that along each dimension */
  nabla_ssa begin;      /* the first element of the row in full tensors */
  nabla_ssa first, end; /* columns of the unit */
  nabla_ssa starts[NABLA_CLUSTER_INPUTS]; /* elements, of the row */
  nabla_ssa scratch;                      /* 64 bytes on the stack */
  /* uniform values as scalars, and as vectors */
  nabla_ssa scalars[NABLA_CLUSTER_NODES], lanes[NABLA_CLUSTER_NODES];
  /* of a vector of columns: from `column` on, of which those of `mask` count
   * (0: all) */
  nabla_ssa column, mask, width;
  nabla_ssa values[NABLA_CLUSTER_NODES];
  int spilled[NABLA_CLUSTER_OUTPUTS]; /* node that an output's memory holds */
};

/* lanes.c: that of an element type of clusters. */
const nabla_cluster_lane *nabla_cluster_lane_of(nabla_dtype dtype);
/* "f32" or "vector<16xf32>": of an element type in the shape that is written;
 * of the type that is written. */
const char *nabla_cluster_type_of(const nabla_cluster_body *b,
                                  nabla_dtype dtype);
const char *nabla_cluster_type(const nabla_cluster_body *b);
/* Constants: of a float type; of the type that is written, an integer or any.
 */
nabla_ssa nabla_cluster_float(nabla_cluster_body *b,
                              const nabla_cluster_lane *lane, double value);
nabla_ssa nabla_cluster_integer(nabla_cluster_body *b, int64_t value);
nabla_ssa nabla_cluster_number(nabla_cluster_body *b, double value);
/* |x| of a float. */
nabla_ssa nabla_cluster_size(nabla_cluster_body *b, nabla_ssa x);
/* `x` in another type, to be rounded to it. */
nabla_ssa nabla_cluster_convert(nabla_cluster_body *b, nabla_ssa x,
                                const nabla_cluster_lane *from,
                                const nabla_cluster_lane *to);
/* condition ? yes : no */
nabla_ssa nabla_cluster_choose(nabla_cluster_body *b, nabla_ssa condition,
                               nabla_ssa yes, nabla_ssa no);

/* math.c: a function of f32 by its row of math.def, else, and of f64, by its
 * formula, in f64. */
nabla_ssa nabla_cluster_function(nabla_cluster_body *b, const char *name,
                                 const nabla_ssa *x);

/* math_far.c: quarters of a turn in the f32 x, an f64, modulo 4 and with its
 * sign, and what is left, in +-pi / 4; from |x| = 2^17 on, scalars. */
nabla_ssa nabla_cluster_far_turns(nabla_cluster_body *b, nabla_ssa x);
nabla_ssa nabla_cluster_far_rest(nabla_cluster_body *b, nabla_ssa x);

/* The value of no elements. */
nabla_ssa nabla_cluster_initial(nabla_cluster_body *b,
                                nabla_cluster_reduction reduction);
/* One value of a reduction and another. */
nabla_ssa nabla_cluster_combine(nabla_cluster_body *b,
                                nabla_cluster_reduction reduction, nabla_ssa x,
                                nabla_ssa y);

/* reduce.c: all lanes of vectors, as a scalar; a fixed tree. */
nabla_ssa nabla_cluster_lanes(nabla_cluster_body *b,
                              nabla_cluster_reduction reduction,
                              nabla_ssa vector);

/* memory.c: an element, or a vector of them, of an array of any type of
 * clusters; it sets the shape that is written. */
nabla_ssa nabla_cluster_read(nabla_cluster_body *b, nabla_shape shape,
                             nabla_array_ref array, nabla_ssa index);
void nabla_cluster_write(nabla_cluster_body *b, nabla_shape shape,
                         nabla_array_ref array, nabla_ssa index,
                         nabla_ssa value);
/* Elements of an input, of an output. `is_rounded`: the value is one of the
 * output's type already, as operations of elements give it. */
nabla_ssa nabla_cluster_load(nabla_cluster_body *b, int input);
void nabla_cluster_store(nabla_cluster_body *b, int output, nabla_ssa value,
                         bool is_rounded);
nabla_ssa nabla_cluster_reload(nabla_cluster_body *b, int output);
/* Those of a row in a tensor that is uniform. */
nabla_ssa nabla_cluster_load_row(nabla_cluster_body *b, int input);
void nabla_cluster_store_row(nabla_cluster_body *b, int output,
                             nabla_ssa value);

#endif
