/* Shared by verifiers and inference: errors that name the op, and the reading
 * of attributes. */
#ifndef NABLA_DIALECT_VERIFY_CHECKS_H
#define NABLA_DIALECT_VERIFY_CHECKS_H

#include <stdarg.h>

#include "dialect/encoding/encoding.h"
#include "nabla/status.h"

/* Emits "'OP' op TEXT" at `location`; returns failure. */
MlirLogicalResult nabla_op_error(MlirLocation location, MlirStringRef op,
                                 const char *format, ...) NABLA_PRINTF(3, 4);

/* The same with the arguments of `format` in a list. */
MlirLogicalResult nabla_op_error_list(MlirLocation location, MlirStringRef op,
                                      const char *format, va_list arguments)
    NABLA_PRINTF(3, 0);

/* Integers of a DenseI64ArrayAttr under `key` of the dictionary; a missing one
 * is empty. At most NABLA_MAX_RANK are stored; returns the true number. */
intptr_t nabla_integers(MlirAttribute attributes, const char *key,
                        int64_t out[NABLA_MAX_RANK]);
/* The same of an inherent attribute of an op. */
intptr_t nabla_op_integers(MlirOperation op, const char *key,
                           int64_t out[NABLA_MAX_RANK]);

/* An integer or enum attribute of an op; `missing` where it is not written. */
int64_t nabla_op_integer(MlirOperation op, const char *key, int64_t missing);

/* An attribute of the dictionary; null when missing. */
MlirAttribute nabla_attribute(MlirAttribute attributes, const char *key);

/* Operands of group `index` of an op with several variadic ones. */
intptr_t nabla_op_segment(MlirOperation op, intptr_t index);

/* Whether an op takes arrays of the element type of `type`: its column TYPES
 * of ops.def. Reports what is legal. True of what is no array. */
bool nabla_types_check(MlirLocation location, MlirStringRef op, MlirType type);

/* "4x?x3" of a shape. */
typedef struct nabla_shape_text {
  char data[160];
} nabla_shape_text;
nabla_shape_text nabla_shape_format(intptr_t rank, const int64_t *shape);

/* Every entry lies in [0, rank) and none is given twice. */
bool nabla_dims_valid(intptr_t count, const int64_t *dims, intptr_t rank);

/* Sizes that may be equal at run time. */
bool nabla_dims_compatible(int64_t a, int64_t b);

bool nabla_text_equals(MlirStringRef text, const char *other);

#endif
