/* The fused dot product with a packed weight: y = epilogue(x . w), as kernels
 * (lib/runtime/matmul/kernel.h) that decode w where they use it.
 *
 * x is M x K, dense, row-major (nabla_x_layout has other forms); y is M x N,
 * dense, row-major. w is N x K by a
 * view of packed storage: element (n, k) is flat element offset + n * stride_n
 * + k * stride_k of the storage. M is known at run time only; a kernel is made
 * for a range of it (nabla_fused_classes). N, K and all about w are static, but
 * see `any_size`. The bytes of y do not depend on how [0, N) is cut.
 *
 * Functions are defined in variants.c too. */
#ifndef NABLA_KERNELS_FUSED_KERNEL_H
#define NABLA_KERNELS_FUSED_KERNEL_H

#include <stdint.h>

#include "lib/kernels/builder/features.h"
#include "lib/kernels/builder/text.h"
#include "lib/runtime/matmul/kernel.h"
#include "nabla/status.h"
#include "nabla/weight.h"

/* A step of the epilogue, applied to each element of y in order, in f32. */
typedef enum nabla_fused_step {
  NABLA_STEP_BIAS, /* adds b[n]; operand: N elements of y's type   */
  NABLA_STEP_ADD,  /* adds r[m][n]; operand: like y, may be y      */
  NABLA_STEP_RELU, /* max(x, 0); NaN stays NaN                     */
  NABLA_STEP_SILU, /* x / (1 + exp(-x))                            */
} nabla_fused_step;
#define NABLA_FUSED_MAX_STEPS 8

/* Where element (m, k) of x is. A single row is the same in all of them. */
typedef enum nabla_x_layout {
  NABLA_X_ROWS,    /* m * K + k */
  NABLA_X_STRIDED, /* m * stride + k; the stride is a kernel argument */
  NABLA_X_COLUMNS, /* k * M + m */
} nabla_x_layout;

/* What is known at run time only, as bits. */
typedef enum nabla_fused_open {
  NABLA_OPEN_N = 1,
  NABLA_OPEN_K = 2,
  NABLA_OPEN_STRIDE = 4, /* between rows of w, or between columns where these
                            are consecutive */
} nabla_fused_open;

typedef struct nabla_fused_spec {
  nabla_storage w;      /* how w lies in memory, as nabla_weight_view.layout;
                           format.block is the elements per scale, also for rows
                           (NABLA_PER_ROW), or those of a GGUF block             */
  nabla_dtype w_stored; /* dtype of a dense w: F32, F16, BF16          */
  uint64_t storage_elements; /* of the whole storage                        */
  uint64_t m_min, m_max; /* M lies in it; m_max 0: there is no limit. A narrower
                            range gives less or faster code, not other numbers
                            where the variant is the same */
  uint64_t n, k;
  uint64_t stride_n, stride_k, offset; /* stride_k or stride_n is 1, or its
                                          extent is at most 1; 0 broadcasts */
  /* Not 0: N and K are kernel arguments; K is a multiple of it and at most k,
   * for which nabla_fused_accumulation_depth holds (k 0: no limit, for variants
   * that need none); w is the whole storage, row-major; n, storage_elements,
   * strides and offset are not read */
  uint64_t any_size;
  /* Sizes of a dense weight that are kernel arguments (nabla_fused_open). An
   * open N or K is 0 here; with an open stride, the other one of stride_n and
   * stride_k is 1 and this one 0; storage_elements is not read. */
  uint32_t open;
  nabla_numerics numerics;
  nabla_weight_layout layout;
  nabla_dtype x_type, y_type; /* F32, F16, BF16                             */
  nabla_x_layout x_layout;
  nabla_dtype w_type; /* values of w are rounded to it: F32 is exact */
  nabla_fused_step steps[NABLA_FUSED_MAX_STEPS];
  uint32_t step_count;
  nabla_features features; /* what the target has */
  const char *variant; /* the variant to use (variants.def); NULL: the best  */
} nabla_fused_spec;

/* Why there is no kernel for `spec`, as static text; NULL when there is one. */
const char *nabla_fused_objection(const nabla_fused_spec *spec);

/* The ranges of M that kernels are made for. */
#define NABLA_FUSED_CLASSES_MAX 6u

/* Splits spec's range of M into classes that have one kernel each, in rising
 * order; all else is as in `spec`, to which there must be no objection. For a
 * single M above 1 the one class is the range of the kernel that serves M.
 * Returns the number of classes. The functions below take the spec of a
 * class. */
uint32_t nabla_fused_classes(const nabla_fused_spec *spec,
                             nabla_fused_spec out[NABLA_FUSED_CLASSES_MAX]);

/* The index of the class that contains M = m; the last one if none does. */
uint32_t nabla_fused_class_of(const nabla_fused_spec *classes, uint32_t count,
                              uint64_t m);

/* The name of the variant in variants.def that computes `spec`. */
const char *nabla_fused_variant(const nabla_fused_spec *spec);

/* The multiply instruction of this variant, where it has one of its own, else
 * NULL. */
const char *nabla_fused_instruction(const nabla_fused_spec *spec);

/* Fills tiles, grain and form of `out`, not its functions.
 * nabla_fused_has_prepare and nabla_fused_has_prepack say which functions the
 * kernel has besides `run`. */
void nabla_fused_describe(const nabla_fused_spec *spec, nabla_kernel *out);
int nabla_fused_has_prepare(const nabla_fused_spec *spec);
int nabla_fused_has_prepack(const nabla_fused_spec *spec);

/* The accumulation depth D: the longest chain of dependent additions for one
 * element of y. It bounds the error: (D + 16) * 2^-24 * sum |x||w| (DIALECT.md,
 * promise 2). */
uint64_t nabla_fused_accumulation_depth(const nabla_fused_spec *spec);

/* Appends
 *   llvm.func internal @NAME(%args: !llvm.ptr, %begin: i64, %end: i64)
 *       attributes {nabla.kernel, ...} { ... }
 * and, where the spec has them, @NAME_prepare, @NAME_prepack and @NAME_exact
 * likewise, whose bodies are llvm, arith, vector, math-free and scf; and
 * nothing else. `spec` must not object. Failure shows in text->failed only. */
void nabla_fused_emit(const nabla_fused_spec *spec, const char *name,
                      nabla_text *text);

#endif
