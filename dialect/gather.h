/* The dimension numbers of gather and scatter. */
#ifndef NABLA_DIALECT_GATHER_H
#define NABLA_DIALECT_GATHER_H

#include "dialect/verify/checks.h"

/* Where each dimension goes; -1: nowhere. "Result" is that of a gather, the
 * updates of a scatter. */
typedef struct nabla_gather_numbers {
  intptr_t rank, index_rank, result_rank, vector_dim;
  intptr_t components;                /* of a place */
  intptr_t offset_of[NABLA_MAX_RANK]; /* array -> result: in the box      */
  intptr_t start_of[NABLA_MAX_RANK];  /* array -> component of a place    */
  intptr_t batch_of[NABLA_MAX_RANK];  /* array -> indices: batching       */
  intptr_t result_of[NABLA_MAX_RANK]; /* indices -> result                */
} nabla_gather_numbers;

/* Reads the lists of an op, or of a dictionary where `op` is null, and checks
 * them against the ranks of array and indices. NULL, or what is wrong. */
const char *nabla_gather_read(MlirOperation op, MlirAttribute dictionary,
                              intptr_t rank, intptr_t index_rank,
                              nabla_gather_numbers *out);

#endif
