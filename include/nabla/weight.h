/* The description of a weight in memory: its shape, how its bytes stand for
 * values, and where they are. Weights of a model, of an engine that maps its
 * own files, and of a GGUF file are all described this way, for plans
 * (nabla/matmul.h), for programs (nabla/executable.h) and for reading rows.
 * Part of libnabla-runtime. */
#ifndef NABLA_WEIGHT_H
#define NABLA_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/dtype.h"
#include "nabla/encoding.h"
#include "nabla/ggml.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_WEIGHT_MAX_RANK       32
#define NABLA_WEIGHT_MAX_COMPONENTS 6

typedef enum nabla_storage_kind {
  NABLA_STORAGE_DENSE,  /* values of a dtype                                */
  NABLA_STORAGE_PLANES, /* codes, scales and zero points, each an array     */
  NABLA_STORAGE_BLOCKS, /* blocks of a GGUF file, which hold their scales   */
  NABLA_STORAGE_COUNT
} nabla_storage_kind;

/* How bytes stand for values. Zero-initialised is dense; the members that the
 * kind does not name are zero. */
typedef struct nabla_storage {
  nabla_storage_kind kind;
  nabla_format format;    /* PLANES: encoding, block, type of the scales      */
  uint32_t nested_block;  /* PLANES with DYNAMIC8 scales: those that share an
                             absmax                                           */
  const nabla_ggml *ggml; /* BLOCKS: a row of nabla_ggml_formats              */
} nabla_storage;

/* One component of a weight. */
typedef struct nabla_weight_component {
  const char *name; /* as nabla_weight_components says, static text; NULL is
                       allowed in a description                             */
  nabla_dtype dtype;
  const void *data; /* aligned to `dtype`; blocks need no alignment         */
  uint64_t bytes;   /* at least those of all elements                       */
} nabla_weight_component;

/* A weight. Its components are in the order of nabla_weight_components. */
typedef struct nabla_weight_desc {
  const char *name; /* for messages; may be NULL */
  uint32_t rank;
  uint64_t shape[NABLA_WEIGHT_MAX_RANK];
  nabla_dtype dtype; /* of the values; of a packed weight, of those that were
                        packed                                              */
  nabla_storage layout;
  uint32_t component_count;
  nabla_weight_component components[NABLA_WEIGHT_MAX_COMPONENTS];
} nabla_weight_desc;

/* Says whether two layouts are the same. */
NABLA_API int nabla_storage_equal(const nabla_storage *a,
                                  const nabla_storage *b);

/* Lists the components that a weight of this shape, dtype and layout has, with
 * their dtypes and bytes; `data` is NULL. Its own components are not read.
 * `out` has room for NABLA_WEIGHT_MAX_COMPONENTS.
 *
 * DENSE   "values"
 * PLANES  "codes"; "scales", or of scales in 8 bits "scales.codes",
 *         "scales.scales", "scales.offset", "scales.map" (nabla/dynamic8.h);
 *         with zero points "zero_points"
 * BLOCKS  "blocks"
 *
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  the layout contradicts itself or the shape
 *         NABLA_TOO_LARGE         a size beyond 63 bits
 * Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_weight_components(
    const nabla_weight_desc *weight, nabla_weight_component *out,
    uint32_t *out_count, nabla_diag *diag);

/* Checks a description: shape and layout as above, and each component's name,
 * dtype (0, BOOL, stands for the one that it must have), bytes, data and
 * alignment. The bytes of the components are not read.
 * @return NABLA_OK, or as nabla_weight_components. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_weight_check(const nabla_weight_desc *weight, nabla_diag *diag);

/* Reads rows of a weight as f32: those of an embedding that stays packed, for
 * example. A row is an index of the first dimension; a weight of rank 0 is one
 * row. The values equal those of nabla_decode and nabla_ggml_decode to f32, of
 * nabla_to_f32 where the weight is dense, and so those that `nabla-quant
 * dequantize --dtype f32` writes, bit for bit, but that a NaN may be any NaN.
 *
 * @param first  the first row
 * @param count  rows; `first` + `count` is at most the rows that there are
 * @param out    room for `count` rows; may be NULL where they have no elements
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  rows that there are not, or as
 *                                 nabla_weight_check
 *         NABLA_UNSUPPORTED       a dense weight of a dtype that is no float
 *         NABLA_TOO_LARGE         a size beyond 63 bits
 * On failure `out` is untouched. Thread-safe, allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_weight_read(const nabla_weight_desc *weight, uint64_t first,
                  uint64_t count, float *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
