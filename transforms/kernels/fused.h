/* The fused dot product with a packed weight: y = epilogue(x . w), as a kernel
 * (nabla/services.h) that decodes w where it uses it.
 *
 * x is M x K, dense, row-major; y is M x N, dense, row-major. M is known at run
 * time only (but see nabla_fused_spec.m); N, K and all about w are static. w is
 * N x K by a view of packed storage: element (n, k) is flat element offset + n
 * * stride_n + k * stride_k of the storage. A kernel computes all rows of x for
 * the columns [begin, end) of y. The bytes of y do not depend on how [0, N) is
 * cut.
 *
 * Argument words: see nabla_fused_word. */
#ifndef NABLA_TRANSFORMS_KERNELS_FUSED_H
#define NABLA_TRANSFORMS_KERNELS_FUSED_H

#include <stdint.h>

#include "nabla/encoding.h"
#include "nabla/status.h"
#include "transforms/features.h"
#include "transforms/text.h"

/* What the words of a kernel's argument array hold. Pointers are addresses. */
typedef enum nabla_fused_word {
  NABLA_FUSED_X = 0,      /* address of x                                  */
  NABLA_FUSED_Y = 1,      /* address of y                                  */
  NABLA_FUSED_M = 2,      /* rows of x and y                               */
  NABLA_FUSED_CODES = 3,  /* address of the codes, any alignment           */
  NABLA_FUSED_SCALES = 4, /* address of the scales, aligned to their type  */
  NABLA_FUSED_ZERO_POINTS = 5, /* address of the zero points, if any */
  NABLA_FUSED_EPILOGUE = 6,    /* from here: one word for each step that has an
                                  operand, in order of the steps: its address   */
  NABLA_FUSED_WORDS = 16
} nabla_fused_word;

/* A step of the epilogue, applied to each element of y in order, in f32. */
typedef enum nabla_fused_step {
  NABLA_STEP_BIAS, /* adds b[n]; operand: N elements of y's type   */
  NABLA_STEP_ADD,  /* adds r[m][n]; operand: like y, may be y      */
  NABLA_STEP_RELU, /* max(x, 0); NaN stays NaN                     */
  NABLA_STEP_SILU, /* x / (1 + exp(-x))                            */
} nabla_fused_step;
#define NABLA_FUSED_MAX_STEPS 8

typedef struct nabla_fused_spec {
  nabla_format format;       /* of the storage; block is the elements per
                                scale, also for rows (NABLA_PER_ROW)        */
  uint64_t storage_elements; /* of the whole storage                       */
  uint64_t m; /* what is known of M: 1: it is 1; 2: it is not 1; 0: nothing.
                 Knowing more gives less code, not other numbers             */
  uint64_t n, k;
  uint64_t stride_n, stride_k, offset; /* stride_k or stride_n is 1, or its
                                          extent is at most 1; 0 broadcasts */
  nabla_dtype x_type, y_type; /* F32, F16, BF16                             */
  nabla_dtype w_type;         /* values of w are rounded to it: F32 is exact */
  nabla_fused_step steps[NABLA_FUSED_MAX_STEPS];
  uint32_t step_count;
  nabla_features features; /* what the target has */
} nabla_fused_spec;

/* NULL when a kernel exists for `spec`, else why not, as static text. */
const char *nabla_fused_objection(const nabla_fused_spec *spec);

/* The multiple at which [0, N) should be cut for threads. */
uint64_t nabla_fused_grain(const nabla_fused_spec *spec);

/* Longest chain of dependent additions for one element of y, which bounds the
 * error: (D + 16) * 2^-24 * sum |x||w| (DIALECT.md, promise 2). */
uint64_t nabla_fused_chain(const nabla_fused_spec *spec);

/* Appends
 *   llvm.func internal @NAME(%args: !llvm.ptr, %begin: i64, %end: i64)
 *       attributes {nabla.kernel, ...} { ... }
 * whose body is llvm, arith, vector, math-free and scf; and nothing else.
 * `spec` must not object. Failure shows in text->failed only. */
void nabla_fused_emit(const nabla_fused_spec *spec, const char *name,
                      nabla_text *text);

#endif
