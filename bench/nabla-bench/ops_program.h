/* One program of bench/nabla-bench/ops.def, compiled and given inputs. */
#ifndef NABLA_BENCH_OPS_PROGRAM_H
#define NABLA_BENCH_OPS_PROGRAM_H

#include "bench/nabla-bench/bench.h"
#include "nabla/compiler.h"

#define OPS_MAX_SHAPES 4
#define OPS_MAX_INPUTS 4

typedef struct ops_shape {
  uint32_t a, b, c, d;
} ops_shape;

/* A row of ops.def. */
typedef struct ops_row {
  const char *id, *peers, *program;
  ops_shape shapes[OPS_MAX_SHAPES];
} ops_row;

/* Memory for results, which runs use again as engines do, and in huge pages
 * where there are some: results of 64 MB in fresh pages would measure the
 * system. */
typedef struct ops_memory ops_memory;
ops_memory *ops_memory_create(void);
void ops_memory_destroy(ops_memory *self);
const nabla_allocator *ops_memory_allocator(ops_memory *self);

typedef struct ops_program {
  nabla_executable *executable;
  const nabla_signature *signature;
  uint32_t threads;
  nabla_dense inputs[OPS_MAX_INPUTS];
  size_t bytes[OPS_MAX_INPUTS]; /* of the inputs */
  double read, written;         /* bytes of one run */
  double flops;
} ops_program;

/* @param row of ops.def, a number
 * @param type "f32" or "bf16" */
NABLA_MUST_USE nabla_status ops_program_open(nabla_compiler *compiler,
                                             size_t row, const ops_shape *shape,
                                             const char *type, uint32_t threads,
                                             ops_program *out,
                                             nabla_diag *diag);
void ops_program_close(ops_program *self);

/* See contest.h. */
nabla_status ops_program_run(void *self, uint64_t first, uint32_t count,
                             double *out, nabla_diag *diag);

/* The rows; their number in `out_count`. */
const ops_row *ops_rows(size_t *out_count);

#endif
