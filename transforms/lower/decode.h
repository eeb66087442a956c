/* Decoding single elements of a packed array in a lowering, bit for bit as
 * nabla_decode. Functions are defined in custom.c and materialize.c too. */
#ifndef NABLA_TRANSFORMS_LOWER_DECODE_H
#define NABLA_TRANSFORMS_LOWER_DECODE_H

#include "dialect/encoding/encoding_nested.h"
#include "transforms/lower/lowering.h"

/* One encoding of those that stand in each other. */
typedef struct nabla_decoding_level {
  nabla_encoding_kind kind;
  nabla_format format;
  nabla_ssa_tensor codes, scales, zero_points;
  nabla_ssa_tensor table;  /* the values of codes; DYNAMIC8: the map */
  nabla_ssa_tensor offset; /* DYNAMIC8 */
  nabla_ssa_tensor a, b;   /* LORA */
  const nabla_ggml *ggml;  /* GGML: codes are the blocks */
  uint64_t columns;        /* LORA: of the weight */
  bool nested;             /* the next level is that of its scales (its base) */
} nabla_decoding_level;

typedef struct nabla_decoding {
  MlirType type; /* implicit */
  nabla_decoding_level levels[NABLA_MAX_NESTING];
} nabla_decoding;

/* Once, outside of loops. The function's first operands are the leaves of
 * `type`. */
void nabla_decoding_begin(nabla_template *t, MlirType type,
                          nabla_decoding *out);

/* In a loop: the storage index (i64) of the element that it is at. */
nabla_ssa nabla_flat_index(nabla_template *t, const nabla_strided *view);

/* Of a GGML level (ggml.c): the tables, and a value. */
void nabla_ggml_begin(nabla_template *t, nabla_decoding_level *level);
nabla_ssa nabla_ggml_value(nabla_template *t, const nabla_decoding_level *level,
                           nabla_ssa at);

/* materialize of an encoding from outside. */
bool nabla_lower_custom(nabla_template *t, MlirType type);

/* The f32 value at a flat storage index (i64). */
nabla_ssa nabla_decoding_value(nabla_template *t, const nabla_decoding *d,
                               nabla_ssa at);

#endif
