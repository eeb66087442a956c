/* What an encoding attribute means, and the components, types and formats of
 * implicit arrays. Everything per encoding comes from
 * quant/codec/encodings.def. */
#ifndef NABLA_DIALECT_ENCODING_ENCODING_H
#define NABLA_DIALECT_ENCODING_ENCODING_H

#include "dialect/dialect.h"
#include "nabla/encoding.h"
#include "nabla/ggml.h"

typedef enum nabla_encoding_kind {
  NABLA_KIND_PACKED, /* a row of quant/codec/encodings.def: codes and scales */
  NABLA_KIND_SPLAT,  /* one value; no components                       */
  NABLA_KIND_IDENTITY, /* 1 where row and column agree, else 0; none    */
  NABLA_KIND_DYNAMIC8, /* bitsandbytes' codes of scales: codes, scales,
                          offset, map                                  */
  NABLA_KIND_LORA,     /* base + b.a                                   */
  NABLA_KIND_CUSTOM, /* dialect/encoding/custom_encoding.h                    */
  NABLA_KIND_GGML,   /* a row of quant/codec/ggml.def: blocks              */
} nabla_encoding_kind;

/* An encoding attribute, read. */
typedef struct nabla_encoding_info {
  nabla_encoding_kind kind;
  const nabla_encoding *row; /* PACKED */
  const nabla_ggml *ggml;    /* GGML   */
  nabla_granularity granularity;
  /* elements per scale; 0 for rows: the storage says. GGML: those of a block.
   * CUSTOM: storages may be cut at multiples of it; 0: nowhere */
  uint64_t block;
  nabla_scale_type scale; /* F32 for packed scales */
  bool zero_point;
  MlirAttribute nested; /* the encoding of the scales, or null */
  double value;         /* SPLAT */
  MlirAttribute base;   /* LORA: of the weight that is changed; */
  int64_t rank;         /* columns of b, rows of a              */
} nabla_encoding_info;

/* Reads `attribute`, which must be an encoding attribute (the hooks see to it
 * that its parameters are good). */
nabla_encoding_info nabla_encoding_read(MlirAttribute attribute);

/* Whether it is called `name`: "nf4", or the name of a custom encoding. */
bool nabla_encoding_is_named(MlirAttribute attribute, const char *name);

/* The kind and row of an implicit type. */
nabla_encoding_info nabla_implicit_encoding(MlirType type);

#define NABLA_MAX_PARTS 4

/* Has it components that views name places in? */
bool nabla_encoding_is_stored(nabla_encoding_kind kind);

/* One component as a value of the IR: a tensor, of rank 1 unless it is told
 * here, or, nested, an implicit array of rank 1 (of a lora: its base). */
typedef struct nabla_implicit_component {
  const char *name; /* "codes", "scales"; DYNAMIC8: "offset" (rank 0), "map";
                       LORA: "base", "a" (RANK x K), "b" (N x RANK);
                       GGML: "blocks" */
  int64_t count;    /* elements */
  MlirType element; /* i8, f32 */
  MlirType type;
} nabla_implicit_component;

/* Lists the components of an implicit type, 0 for splat. */
uint32_t nabla_implicit_components(
    MlirType type, nabla_implicit_component out[NABLA_MAX_PARTS]);

/* Its type. */
MlirType nabla_component_type(const nabla_implicit_component *component);

/* The format of a PACKED type's storage: for rows, block is the row length;
 * packed scales count as the f32 that they stand for. Of DYNAMIC8 and GGML it
 * has the block alone, encoding NULL; of LORA that is 1. */
nabla_format nabla_implicit_format(MlirType type);

/* Product of the storage's dimensions. */
uint64_t nabla_implicit_storage_elements(MlirType type);

/* Logical (shape, strides, offset) of a type: those of its view, or row-major
 * ones for the identity. */
typedef struct nabla_strided {
  intptr_t rank;
  int64_t shape[NABLA_MAX_RANK], strides[NABLA_MAX_RANK];
  int64_t offset;
} nabla_strided;
nabla_strided nabla_implicit_strided(MlirType type);

/* The type of the same storage as `type` under another view, canonical; splat
 * takes the shape alone. */
MlirType nabla_implicit_with_view(MlirType type, const nabla_strided *view);

/* Whether every box and order of the array is an array of its encoding: not of
 * an identity, of which only the transpose is one. */
bool nabla_implicit_has_views(MlirType type);

/* The same array in another encoding, of the same storage. */
MlirType nabla_implicit_with_encoding(MlirType type, MlirAttribute encoding);

/* The view that `reshape` of `type` to `shape` gives; false when no strides
 * express it. */
bool nabla_implicit_reshape(MlirType type, intptr_t rank, const int64_t *shape,
                            nabla_strided *out);

/* tensor<SHAPE x ELEMENT> of an implicit type; a tensor type as it is. */
MlirType nabla_dense_type(MlirType type);

/* Rank, dimension, element type of a tensor or an implicit array. A dynamic
 * dimension is INT64_MIN, as in MLIR. */
intptr_t nabla_array_rank(MlirType type);
int64_t nabla_array_dim(MlirType type, intptr_t index);
MlirType nabla_array_element(MlirType type);
bool nabla_is_dynamic(int64_t dim);

#endif
