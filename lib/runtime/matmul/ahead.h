/* Kernels made ahead of time: a table that the build generates (lib/ahead), or
 * the empty one of a library that is built without the compiler. */
#ifndef NABLA_RUNTIME_MATMUL_AHEAD_H
#define NABLA_RUNTIME_MATMUL_AHEAD_H

#include "lib/runtime/matmul/provider.h"

/* What code is compiled for: rows of isa_levels.def. */
typedef enum nabla_level {
#define LEVEL(id, isa, also, first, k_most, target) NABLA_LEVEL_##id,
#include "lib/runtime/matmul/isa_levels.def"
#undef LEVEL
  NABLA_LEVEL_COUNT
} nabla_level;

/* Kernels of one row of quant/ahead/ahead.def at one level. */
typedef struct nabla_ahead_set {
  nabla_storage_kind kind;
  const char *ggml;     /* BLOCKS: of quant/codec/ggml.def              */
  const char *encoding; /* PLANES: of quant/codec/encodings.def         */
  nabla_dtype dense;    /* DENSE                                        */
  nabla_granularity granularity;
  nabla_scale_type scale;
  int zero_point;
  uint64_t block;        /* 0: the granularity says it                  */
  uint64_t nested_block; /* of DYNAMIC8 scales                          */
  uint64_t n, k;         /* with `any_size`: any N, and the largest K, or 0 */
  uint64_t any_size;     /* not 0: K is a multiple of it */
  uint64_t first;        /* the fewest rows of x */
  nabla_numerics numerics;
  nabla_weight_layout layout;
  nabla_level level;
  uint32_t count;
  const nabla_provided_kernel *kernels; /* in rising order of m_last */
} nabla_ahead_set;

typedef struct nabla_ahead_table {
  const nabla_ahead_set *sets;
  size_t count;
} nabla_ahead_table;

extern const nabla_ahead_table nabla_ahead;

/* Can this CPU run it, and does `limit` allow it? For a level with tiles this
 * asks the system, for the whole process and for ever. */
int nabla_level_available(nabla_level level, nabla_isa limit);

#endif
