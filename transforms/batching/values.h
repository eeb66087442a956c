/* Which value of a function's batch stands for a value of the function. */
#ifndef NABLA_TRANSFORMS_BATCHING_VALUES_H
#define NABLA_TRANSFORMS_BATCHING_VALUES_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stddef.h>

/* A value of the new function; `batched`: its first dimension is the batch. */
typedef struct nabla_batched {
  MlirValue value; /* null: no entry */
  bool batched;
} nabla_batched;

/* A hash table; zero-initialised it is empty. After `failed`, out of memory,
 * entries are missing. */
typedef struct nabla_batch_values {
  struct nabla_batch_entry {
    MlirValue key;
    nabla_batched to;
  } *slots;
  size_t count, capacity;
  bool failed;
} nabla_batch_values;

void nabla_batch_values_deinit(nabla_batch_values *values);
/* Adds an entry or replaces one. */
void nabla_batch_values_set(nabla_batch_values *values, MlirValue key,
                            nabla_batched to);
nabla_batched nabla_batch_values_get(const nabla_batch_values *values,
                                     MlirValue key);

#endif
