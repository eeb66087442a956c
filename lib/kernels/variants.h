/* Variants of kernels (rows of variants.def) and the choice among them. */
#ifndef NABLA_KERNELS_VARIANTS_H
#define NABLA_KERNELS_VARIANTS_H

#include "lib/kernels/builder/emit.h"

/* One way to compute y for a range of M. Functions that a variant does not need
 * are NULL. */
typedef struct nabla_kernel_variant {
  const char *name;
  const char *instruction;  /* of its products, if always the same */
  int takes_blocks;         /* it may apply to specs with `ggml` too */
  int takes_strided_x;      /* several rows of NABLA_X_STRIDED */
  int takes_columns_of_x;   /* several rows of NABLA_X_COLUMNS */
  uint32_t takes_open;      /* sizes that may be open (nabla_fused_open) */
  uint32_t dedicated_max_m; /* for no more of x than these it is another, */
                            /* faster kernel; or 0                        */
  int has_exact;            /* it calls @NAME_exact, which computes
                               nabla_fused_exact of the spec */
  /* Whether it can compute `spec`, which is one that the encoding can have. */
  int (*applies)(const nabla_fused_spec *spec);
  /* Estimated cost at `m` rows, in picoseconds for one element of w on a core
   * of 2024; only the order of variants matters. */
  double (*cost)(const nabla_fused_spec *spec, uint64_t m);
  /* Write the code of the three functions of lib/runtime/matmul/kernel.h:
   * `run`, `prepare` (packing of x), `prepack`. */
  void (*run)(nabla_emitter *e);
  void (*pack_a)(nabla_emitter *e);
  void (*prepack)(nabla_emitter *e);
  /* Fills tiles and grain. */
  void (*describe)(const nabla_fused_spec *spec, nabla_kernel *out);
  uint64_t (*accumulation_depth)(const nabla_fused_spec *spec);
  /* Bytes of stack that `run` and `prepack` use as e->scratch, 64-byte aligned:
   * at most 256 KiB, fixed when the code is generated. */
  uint64_t (*scratch)(const nabla_fused_spec *spec);
  uint64_t pack_a_scratch; /* the same for `pack_a` */
} nabla_kernel_variant;

#define VARIANT(id, summary) \
  extern const nabla_kernel_variant nabla_variant_##id;
#include "lib/kernels/variants.def"
#undef VARIANT

/* The variant for `spec`, whose range of M is one of nabla_fused_classes; NULL
 * when none applies. */
const nabla_kernel_variant *nabla_variant_of(const nabla_fused_spec *spec);

/* The spec of @NAME_exact: one row of x, by gemv_k_lanes. */
nabla_fused_spec nabla_fused_exact(const nabla_fused_spec *spec);

/* Is the weight consecutive along k (or k at most 1)? */
int nabla_spec_is_row(const nabla_fused_spec *spec);

/* The elements between rows of w, 0 when there is one row only. */
uint64_t nabla_spec_row_stride(const nabla_fused_spec *spec);

/* The largest M of `spec`. */
uint64_t nabla_spec_last_m(const nabla_fused_spec *spec);

/* Is w a dense array? */
int nabla_spec_is_dense(const nabla_fused_spec *spec);

/* The layout of x: NABLA_X_ROWS where there is one row. */
nabla_x_layout nabla_spec_x_layout(const nabla_fused_spec *spec);

#endif
