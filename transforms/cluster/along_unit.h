/* A unit of the kernels of along.h while it is written: a block of columns of
 * one matrix. Vectors of a unit of at least 16 columns overlap at its end,
 * where columns may be computed twice; other units are computed element by
 * element. */
#ifndef NABLA_TRANSFORMS_CLUSTER_ALONG_UNIT_H
#define NABLA_TRANSFORMS_CLUSTER_ALONG_UNIT_H

#include "lib/kernels/builder/k.h"
#include "transforms/cluster/along.h"
#include "transforms/cluster/body.h"

/* Bytes of a 32-bit number for each column of a unit. */
#define NABLA_ALONG_NUMBERS (4 * 2 * NABLA_ALONG_BLOCK)

typedef struct nabla_along_unit {
  nabla_emitter *e;
  const nabla_along *a;
  nabla_cluster_body values; /* for operations of elements.c */
  nabla_array_ref x;
  nabla_ssa y; /* its address */
  nabla_ssa rows, columns;
  nabla_ssa start;  /* element of x in which the matrix of the unit begins */
  nabla_ssa result; /* and of y, where that has no rows */
  nabla_ssa first, end, last, steps; /* columns, last vector, vectors */
} nabla_along_unit;

/* The bodies of kernels; each is in a file of its own. */
void nabla_along_reduce(nabla_along_unit *u); /* along_reduce.c */
void nabla_along_arg(nabla_along_unit *u);    /* along_arg.c */
void nabla_along_sums(nabla_along_unit *u);   /* along_sums.c */

nabla_ssa nabla_along_subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b);

/* i1: whether a and b, i64, are as `how` says ("ult"). */
nabla_ssa nabla_along_compare(nabla_emitter *e, const char *how, nabla_ssa a,
                              nabla_ssa b);

/* Finds the vectors of columns: none where there are fewer than 16. */
void nabla_along_find_vectors(nabla_along_unit *u);

/* The first column of vector `number`; the element in which a row begins. */
nabla_ssa nabla_along_column(const nabla_along_unit *u, nabla_ssa number);
nabla_ssa nabla_along_row(const nabla_along_unit *u, nabla_ssa row);

/* A number of each column in memory of the stack, `from` bytes into it: vector
 * `number`. The `type` is "vector<16xf32>" or "vector<16xi32>". */
nabla_ssa nabla_along_load(const nabla_along_unit *u, const char *type,
                           uint64_t from, nabla_ssa number);
void nabla_along_store(const nabla_along_unit *u, const char *type,
                       uint64_t from, nabla_ssa number, nabla_ssa value);

/* A loop over the columns of a unit that are computed one after the other, if
 * `condition` (i1) holds. */
void nabla_along_each_column(const nabla_along_unit *u, nabla_ssa condition,
                             nabla_loop *loop);

#endif
