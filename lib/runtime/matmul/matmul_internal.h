/* Inside lib/runtime: a plan, between its making and its runs. */
#ifndef NABLA_RUNTIME_MATMUL_MATMUL_INTERNAL_H
#define NABLA_RUNTIME_MATMUL_MATMUL_INTERNAL_H

#include "lib/runtime/matmul/provider.h"
#include "lib/runtime/program/allocations.h"

struct nabla_matmul_plan {
  nabla_environment environment;
  nabla_matmul_request request;
  nabla_provided provided;
  nabla_matmul_provider provider;
  nabla_allocations blocks; /* of rearranged copies */
  void *packed[NABLA_MATMUL_MAX_KERNELS];
  /* 0, or how scales are converted to the format that the kernels read:
   * nabla_ahead_convert. */
  uint32_t conversion;
  nabla_format read;
  uint64_t packed_bytes;
  double packed_ms;
  uint64_t m_limit; /* more rows than memory can hold, or m_max */
  uint64_t args[NABLA_KERNEL_ARGS];         /* what all runs have in common */
  char note[sizeof((nabla_diag *)0)->what]; /* "", or why C computes */
};

/* Checks a weight and options and fills the request.
 * @return as nabla_matmul_plan_create */
NABLA_MUST_USE nabla_status nabla_matmul_check(
    const nabla_weight_desc *weight, const nabla_matmul_options *options,
    nabla_matmul_request *out, nabla_diag *diag);

/* Makes the scales, and zero points, that the kernels read; with a conversion
 * 0 nothing is to be done. Defined in matmul_scales.c. */
NABLA_MUST_USE nabla_status nabla_matmul_convert_scales(nabla_matmul_plan *plan,
                                                        nabla_diag *diag);

#endif
