/* Copies of strided arrays into row-major ones. */
#ifndef NABLA_RUNTIME_SESSION_STRIDED_H
#define NABLA_RUNTIME_SESSION_STRIDED_H

#include <stddef.h>
#include <stdint.h>

/* An array of at most NABLA_ARRAY_MAX_RANK dimensions. */
typedef struct nabla_strided_array {
  const void *data; /* of element 0, 0, ...              */
  size_t element;   /* bytes                             */
  uint32_t rank;
  const int64_t *sizes;   /* each >= 0                   */
  const int64_t *strides; /* in elements; any, also < 0  */
} nabla_strided_array;

/* 1 when the elements lie row-major without gaps. */
int nabla_strided_is_dense(const nabla_strided_array *array);

/* Copies all elements to `out`, row-major. No overlap. */
void nabla_strided_copy(const nabla_strided_array *array, void *out);

#endif
