/* The contents of an encoding attribute, and the components, types and formats
 * of implicit arrays. All data of an encoding come from
 * quant/codec/encodings.def. */
#ifndef NABLA_DIALECT_ENCODING_ENCODING_H
#define NABLA_DIALECT_ENCODING_ENCODING_H

#include "dialect/dialect.h"
#include "nabla/encoding.h"
#include "nabla/ggml.h"

typedef enum nabla_encoding_kind {
  NABLA_KIND_PACKED, /* a row of quant/codec/encodings.def: codes and scales */
  NABLA_KIND_SPLAT,  /* one value; no components                       */
  NABLA_KIND_IDENTITY, /* 1 on the diagonal, else 0; no components */
  NABLA_KIND_DYNAMIC8, /* bitsandbytes' codes of scales: codes, scales,
                          offset, map                                  */
  NABLA_KIND_LORA,     /* base + b.a                                   */
  NABLA_KIND_CUSTOM, /* dialect/encoding/custom_encoding.h                    */
  NABLA_KIND_GGML,   /* a row of quant/codec/ggml.def: blocks              */
} nabla_encoding_kind;

/* The contents of an encoding attribute. */
typedef struct nabla_encoding_info {
  nabla_encoding_kind kind;
  const nabla_encoding *row; /* PACKED */
  const nabla_ggml *ggml;    /* GGML   */
  nabla_granularity granularity;
  /* Elements per scale; 0 for scales of rows, whose length is that of the
   * storage. GGML: elements of a block. CUSTOM: the storage may be divided at
   * multiples of it; 0: nowhere. */
  uint64_t block;
  nabla_scale_type scale; /* F32 for packed scales */
  bool zero_point;
  MlirAttribute nested; /* the encoding of the scales, or null */
  double value;         /* SPLAT */
  MlirAttribute base;   /* LORA: the encoding of the weight that is changed */
  int64_t rank;         /* LORA: columns of b, rows of a */
} nabla_encoding_info;

/* Reads `attribute`, which must be an encoding attribute; hooks of the dialect
 * have checked its parameters. */
nabla_encoding_info nabla_encoding_read(MlirAttribute attribute);

/* Returns whether the encoding is called `name`: "nf4", or the name of a custom
 * encoding. */
bool nabla_encoding_is_named(MlirAttribute attribute, const char *name);

/* Returns the encoding of an implicit type. */
nabla_encoding_info nabla_implicit_encoding(MlirType type);

#define NABLA_MAX_PARTS 4

/* Returns whether the encoding has components into which views index. */
bool nabla_encoding_is_stored(nabla_encoding_kind kind);

/* One component as a value of the IR: a tensor, of rank 1 unless stated here,
 * or an implicit array of rank 1 (nested scales, the base of a lora). */
typedef struct nabla_implicit_component {
  const char *name; /* "codes", "scales"; DYNAMIC8: "offset" (rank 0), "map";
                       LORA: "base", "a" (RANK x K), "b" (N x RANK);
                       GGML: "blocks" */
  int64_t count;    /* elements */
  MlirType element; /* i8, f32 */
  MlirType type;
} nabla_implicit_component;

/* Lists the components of an implicit type; returns their number, 0 for splat.
 */
uint32_t nabla_implicit_components(
    MlirType type, nabla_implicit_component out[NABLA_MAX_PARTS]);

/* Returns the type of a component. */
MlirType nabla_component_type(const nabla_implicit_component *component);

/* Returns the format of a PACKED type's storage; for scales of rows, block is
 * the row length; packed scales count as the f32 values that they decode to.
 * For DYNAMIC8 and GGML only the block is set, and encoding is NULL; for LORA
 * the block is 1. */
nabla_format nabla_implicit_format(MlirType type);

/* Returns the product of the storage's dimensions. */
uint64_t nabla_implicit_storage_elements(MlirType type);

/* Logical shape, strides and offset of a type: those of its view, or row-major
 * ones if it has none. */
typedef struct nabla_strided {
  intptr_t rank;
  int64_t shape[NABLA_MAX_RANK], strides[NABLA_MAX_RANK];
  int64_t offset;
} nabla_strided;
nabla_strided nabla_implicit_strided(MlirType type);

/* Returns the type for the storage of `type` under another view, in canonical
 * form; for splat only the shape is used. */
MlirType nabla_implicit_with_view(MlirType type, const nabla_strided *view);

/* Returns whether every slice and permutation of the array can be expressed in
 * its encoding. Of an identity only the transpose can. */
bool nabla_implicit_has_views(MlirType type);

/* Returns the type for the same storage in another encoding. */
MlirType nabla_implicit_with_encoding(MlirType type, MlirAttribute encoding);

/* Computes the view for a `reshape` of `type` to `shape`; false if no strides
 * express it. */
bool nabla_implicit_reshape(MlirType type, intptr_t rank, const int64_t *shape,
                            nabla_strided *out);

/* Returns tensor<SHAPE x ELEMENT> for an implicit type, and a tensor type
 * unchanged. */
MlirType nabla_dense_type(MlirType type);

/* Rank, dimension and element type of a tensor or an implicit array. A dynamic
 * dimension is INT64_MIN, as in MLIR. */
intptr_t nabla_array_rank(MlirType type);
int64_t nabla_array_dim(MlirType type, intptr_t index);
MlirType nabla_array_element(MlirType type);
bool nabla_is_dynamic(int64_t dim);

#endif
