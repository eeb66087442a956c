/* How kernels compute with packed weights, and how the weights lie. */
#ifndef NABLA_NUMERICS_H
#define NABLA_NUMERICS_H

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name, summary): what products and sums are made of. Each has a bound
 * of its error, docs/COMPILER.md "Numerics". */
#define NABLA_NUMERICS_LIST(X)                                  \
  X(F32, "f32", "weights decoded to f32, sums in f32")          \
  X(BF16, "bf16", "x and weights rounded to bf16, sums in f32") \
  X(INT8, "int8",                                               \
    "x quantized to 8 bits per block, sums in integers per"     \
    " block, in f32 between blocks")

typedef enum nabla_numerics {
#define NABLA_NUMERICS_ROW(id, name, summary) NABLA_NUMERICS_##id,
  NABLA_NUMERICS_LIST(NABLA_NUMERICS_ROW)
#undef NABLA_NUMERICS_ROW
      NABLA_NUMERICS_COUNT
} nabla_numerics;

/* X(id, name, summary): where a kernel reads a weight from. */
#define NABLA_WEIGHT_LAYOUT_LIST(X)                                \
  X(IN_PLACE, "in-place", "codes and scales as they lie in files") \
  X(PREPACKED, "prepacked", "rearranged once, for one kind of kernel")

typedef enum nabla_weight_layout {
#define NABLA_WEIGHT_LAYOUT_ROW(id, name, summary) NABLA_WEIGHT_LAYOUT_##id,
  NABLA_WEIGHT_LAYOUT_LIST(NABLA_WEIGHT_LAYOUT_ROW)
#undef NABLA_WEIGHT_LAYOUT_ROW
      NABLA_WEIGHT_LAYOUT_COUNT
} nabla_weight_layout;

/* "f32", "in-place", ...; NULL for a number that has no row. */
NABLA_API const char *nabla_numerics_name(nabla_numerics numerics);
NABLA_API const char *nabla_weight_layout_name(nabla_weight_layout layout);

/* Finds by name.
 * @return 1 and the value in *out, or 0 with `out` untouched */
NABLA_API int nabla_numerics_find(const char *name, nabla_numerics *out);
NABLA_API int nabla_weight_layout_find(const char *name,
                                       nabla_weight_layout *out);

#ifdef __cplusplus
}
#endif

#endif
