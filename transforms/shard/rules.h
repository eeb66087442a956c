/* Shared by the rules of operations, functions nabla_factors_NAME that the
 * column SHARD of dialect/ops.def names: they give the arrays of an operation,
 * which are listed, their factors. False: the operation is not divided. */
#ifndef NABLA_TRANSFORMS_SHARD_RULES_H
#define NABLA_TRANSFORMS_SHARD_RULES_H

#include "dialect/verify/checks.h"
#include "transforms/shard/factors.h"

/* All arrays among operands and results, without factors. Others, indices, are
 * left out. False where there are too many, or a result is none. */
bool nabla_factors_arrays(MlirOperation op, nabla_factors *f);

/* NABLA_MAX_FACTORS where there are too many. */
uint8_t nabla_factor_add(nabla_factors *f, nabla_factor_kind kind,
                         int64_t size);
/* Gives dimension `dim` one more factor. */
void nabla_factor_give(nabla_factor_array *a, intptr_t dim, uint8_t factor);

/* A factor for dimension `dim` of `a`, which is dimension `other` of `b` too;
 * `b` may be NULL. */
uint8_t nabla_factor_share(nabla_factors *f, nabla_factor_kind kind,
                           nabla_factor_array *a, intptr_t dim,
                           nabla_factor_array *b, intptr_t other);

int64_t nabla_factor_size_of(const nabla_factor_array *a, intptr_t dim);

/* The last array. */
nabla_factor_array *nabla_factor_result(nabla_factors *f);

/* Operand or result `index`; NULL where it is no array. */
nabla_factor_array *nabla_factor_array_of(nabla_factors *f, bool is_result,
                                          intptr_t index);

/* Whether `dim` is in a list. */
bool nabla_dims_have(intptr_t count, const int64_t *list, intptr_t dim);

#define SHARD_BY(name) \
  bool nabla_factors_##name(MlirOperation op, nabla_factors *f);
#define OP(id, columns) columns
#include "dialect/ops.def"

bool nabla_factors_elementwise(MlirOperation op, nabla_factors *f);
bool nabla_factors_dims(MlirOperation op, nabla_factors *f);

#endif
