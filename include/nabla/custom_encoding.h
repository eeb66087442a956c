/* Encodings from outside: #nabla.custom<"name", {parameters}>, whose components
 * and decode a C program gives. Needs libnabla, but no header of MLIR. */
#ifndef NABLA_CUSTOM_ENCODING_H
#define NABLA_CUSTOM_ENCODING_H

#include "nabla/attribute_tree.h"
#include "nabla/dtype.h"
#include "nabla/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most components of an encoding. */
#define NABLA_ENCODING_MAX_COMPONENTS 4

/* One array that an implicit array of the encoding is made of; it has rank 1.
 */
typedef struct nabla_encoding_component {
  const char *name;  /* letters, digits and '_' */
  nabla_dtype dtype; /* F64, F32, F16, BF16, I64, I32, I8 */
} nabla_encoding_component;

/* What is asked about: the storage of an implicit array. */
typedef struct nabla_encoding_storage {
  size_t struct_size;
  uint32_t rank;
  const int64_t *shape;
  uint64_t elements;                      /* the product of the shape */
  const nabla_attribute_tree *parameters; /* a dictionary             */
} nabla_encoding_storage;

/* What happens to an operation that has an operand of an encoding, where no
 * rule takes the operation. */
typedef enum nabla_encoding_fallback {
  NABLA_FALLBACK_REPORT, /* the operand is decoded, and reported by the policy
                          */
  NABLA_FALLBACK_SILENT, /* it is decoded without a report */
  NABLA_FALLBACK_NEVER, /* an error that names operation and encoding         */
} nabla_encoding_fallback;

typedef struct nabla_encoding_description {
  size_t struct_size; /* sizeof(nabla_encoding_description) */
  const char *name;   /* letters, digits, '_' and '.'       */
  uint32_t component_count;
  nabla_encoding_component components[NABLA_ENCODING_MAX_COMPONENTS];
  /* Storages may be cut where a multiple of so many elements is, and every
   * component then is cut in the same proportion: slices that a scan takes and
   * joined arrays stay implicit. 0: they may not. */
  uint64_t cut;
  /* nabla.materialize, which a program asks for, is legal whatever it says. */
  nabla_encoding_fallback fallback;
  /* Sets the number of elements of each component. Returns NULL, or what is
   * wrong with shape or parameters: text that lives as long as the process. */
  const char *(*count)(void *self, const nabla_encoding_storage *storage,
                       int64_t counts[NABLA_ENCODING_MAX_COMPONENTS]);
  /* Writes an MLIR function of this name that gives the element at a flat
   * storage index, and calls nothing:
   *   func.func private @NAME(%codes: tensor<?xi8>, ..., %at: index) -> f32
   * with a tensor for each component, in arith, math, tensor and scf. Other
   * sizes than ? are legal where they are those of `count`. It becomes a part
   * of the loop that needs the element. */
  nabla_status (*decode)(void *self, const nabla_encoding_storage *storage,
                         const char *name, const nabla_sink *to,
                         nabla_diag *diag);
  /* A text that changes when `decode` or `count` do; a part of the keys of the
   * object cache. NULL: programs are not cached from then on. */
  const char *version;
  void *self;
} nabla_encoding_description;

/* Adds an encoding for the rest of the process: types refer to it. Texts are
 * copied; what `self` points to must stay. The functions may be called on
 * several threads at once, and any number of times: the same question has the
 * same answer.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a name or dtype is not legal, or the name is
 *                                 taken
 *         NABLA_NO_MEMORY
 * Thread-safe; before the first program that has the encoding. */
NABLA_API NABLA_MUST_USE nabla_status nabla_add_encoding(
    const nabla_encoding_description *encoding, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
