/* A unit of the kernels of along.h while it is written: a block of columns of
 * one matrix. Vectors of a unit of at least as many columns as they have lanes
 * overlap at its end, where columns may be computed twice; other units are
 * computed element by element. Values are computed in the type of
 * `values.lane`, truth values as bytes 0 and 1. */
#ifndef NABLA_TRANSFORMS_CLUSTER_ALONG_UNIT_H
#define NABLA_TRANSFORMS_CLUSTER_ALONG_UNIT_H

#include "lib/kernels/builder/k.h"
#include "transforms/cluster/along.h"
#include "transforms/cluster/body.h"

/* Bytes of a number of `bytes` bytes for each column of a unit. */
#define NABLA_ALONG_NUMBERS(bytes) ((bytes) * 2u * NABLA_ALONG_BLOCK)

typedef struct nabla_along_unit {
  nabla_emitter *e;
  const nabla_along *a;
  nabla_cluster_body values;   /* for operations of elements.c */
  nabla_array_ref x, y, value; /* `value`: of a column, on the stack */
  nabla_ssa rows, columns;
  nabla_ssa start;  /* element of x in which the matrix of the unit begins */
  nabla_ssa result; /* and of y, where that has no rows */
  nabla_ssa first, end, last, steps; /* columns, last vector, vectors */
  nabla_ssa joined; /* rows that vectors are of: 0 where there are none */
} nabla_along_unit;

/* The bodies of kernels; each is in a file of its own. */
void nabla_along_reduce(nabla_along_unit *u); /* along_reduce.c */
void nabla_along_arg(nabla_along_unit *u);    /* along_arg.c */
void nabla_along_sums(nabla_along_unit *u);   /* along_sums.c */

nabla_ssa nabla_along_subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b);

/* i1: whether a and b, i64, are as `how` says ("ult"). */
nabla_ssa nabla_along_compare(nabla_emitter *e, const char *how, nabla_ssa a,
                              nabla_ssa b);

/* Finds the vectors of columns: none where there are fewer columns than lanes.
 */
void nabla_along_find_vectors(nabla_along_unit *u);

/* The first column of vector `number`; the element in which a row begins. */
nabla_ssa nabla_along_column(const nabla_along_unit *u, nabla_ssa number);
nabla_ssa nabla_along_row(const nabla_along_unit *u, nabla_ssa row);

/* The type of values of a shape: "f32" or "vector<16xf32>". */
const char *nabla_along_type(nabla_along_unit *u, nabla_shape shape);

/* An element of x as a value, or a vector; a value as an element of y. */
nabla_ssa nabla_along_read(nabla_along_unit *u, nabla_shape shape,
                           nabla_ssa at);
void nabla_along_write(nabla_along_unit *u, nabla_shape shape, nabla_ssa at,
                       nabla_ssa value);

/* Numbers of columns in memory of the stack, `from` bytes into it: vector
 * `number`, of the type `of`. */
nabla_ssa nabla_along_load(const nabla_along_unit *u,
                           const nabla_cluster_lane *of, uint64_t from,
                           nabla_ssa number);
void nabla_along_store(const nabla_along_unit *u, const nabla_cluster_lane *of,
                       uint64_t from, nabla_ssa number, nabla_ssa value);
/* A value of one column, at the begin of that memory. */
nabla_ssa nabla_along_recall(nabla_along_unit *u);
void nabla_along_keep(nabla_along_unit *u, nabla_ssa value);

/* A loop over the columns of a unit that are computed one after the other, if
 * `condition` (i1) holds. */
void nabla_along_each_column(const nabla_along_unit *u, nabla_ssa condition,
                             nabla_loop *loop);

#endif
