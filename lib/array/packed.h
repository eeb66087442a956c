/* Packed arrays: their types, their components, and runs that take them. */
#ifndef NABLA_ARRAY_PACKED_H
#define NABLA_ARRAY_PACKED_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/array/recorder.h"
#include "nabla/array.h"

/* The type of a packed array has a number, which stands in the place of the
 * dtype: numbers from NABLA_PACKED_FIRST on. Equal types have equal numbers in
 * all threads, and keep them until the process ends. */
#define NABLA_PACKED_FIRST ((unsigned)NABLA_DTYPE_COUNT + 2)
#define NABLA_PACKED_TYPES 65536

static inline bool nabla_dtype_is_packed(nabla_dtype dtype) {
  return (unsigned)dtype >= NABLA_PACKED_FIRST;
}

/* The dtype of the values of a packed type; a dtype itself. */
nabla_dtype nabla_dtype_element(nabla_dtype dtype);
/* The text of a packed type: "!nabla.implicit<8x64xf32, #nabla.nf4>". */
const char *nabla_packed_text(nabla_dtype dtype);

/* Writes number, rank and shape of an implicit type.
 * @return NABLA_OK
 *         NABLA_UNSUPPORTED  values of a dtype that arrays do not have
 *         NABLA_TOO_LARGE    more than NABLA_PACKED_TYPES types
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_packed_intern(MlirType type, nabla_dense *out,
                                                nabla_diag *diag);

/* Makes a packed type that of a slice along its first dimension: packed where
 * the slices are whole blocks, else dense. */
NABLA_MUST_USE nabla_status nabla_packed_slice(MlirContext context,
                                               nabla_array_type *type,
                                               nabla_diag *diag);
/* The number of components of a packed type. */
uint32_t nabla_packed_components(MlirContext context,
                                 const nabla_array_type *type);

/* The value of a packed array. */
typedef struct nabla_packed_value {
  nabla_dense shown;        /* dtype of the values, shape; no data */
  nabla_weight_desc weight; /* once it is realized                 */
  bool is_owned;            /* components are freed with it        */
} nabla_packed_value;

/* Makes the value of an array whose dtype is that of a packed type; does
 * nothing for another array. */
NABLA_MUST_USE nabla_status nabla_packed_prepare(nabla_array *array,
                                                 nabla_diag *diag);
/* Makes the components that a run has allocated those of the array, which is
 * realized. */
void nabla_packed_take(nabla_array *array);
/* Frees components that a run allocated, after a failure of the run; nothing
 * for another array. */
void nabla_packed_forget(nabla_array *array);
/* Frees the description, with such components. */
void nabla_packed_free(nabla_array *array);

/* The description of a realized packed array. A slice of whole blocks has the
 * components of the blocks.
 * @return NABLA_OK; NABLA_UNSUPPORTED  another view */
NABLA_MUST_USE nabla_status nabla_packed_describe(const nabla_array *array,
                                                  nabla_weight_desc *out,
                                                  nabla_diag *diag);

/* Whether one of these arrays is packed. */
bool nabla_packed_among(size_t count, nabla_array *const *arrays);

/* Runs "main" of a program in a session of it, and gives `results`
 * their data; those that are not packed have it already, unless their size was
 * not known. */
typedef struct nabla_program nabla_program;
NABLA_MUST_USE nabla_status nabla_packed_run(
    nabla_program *program, size_t input_count, nabla_array *const *inputs,
    size_t result_count, nabla_array *const *results, nabla_diag *diag);

#endif
