/* Checked arithmetic: the only place where sizes that a file declared are
 * multiplied, added or rounded up. Raw operators on such values fail review.
 * Each returns 1 and sets *out, or returns 0 and leaves *out untouched. */
#ifndef NABLA_BASE_CHECKED_H
#define NABLA_BASE_CHECKED_H

#include <stddef.h>
#include <stdint.h>

#define NABLA_CHECKED __attribute__((warn_unused_result)) static inline

NABLA_CHECKED int nabla_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return 0;
  *out = product;
  return 1;
}

NABLA_CHECKED int nabla_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return 0;
  *out = sum;
  return 1;
}

NABLA_CHECKED int nabla_sub_u64(uint64_t a, uint64_t b, uint64_t *out) {
  if (b > a) return 0;
  *out = a - b;
  return 1;
}

/* Rounds `value` up to a multiple of `alignment`, a power of two. */
NABLA_CHECKED int nabla_align_u64(uint64_t value, uint64_t alignment,
                                  uint64_t *out) {
  uint64_t raised;
  if (!nabla_add_u64(value, alignment - 1, &raised)) return 0;
  *out = raised & ~(alignment - 1);
  return 1;
}

NABLA_CHECKED int nabla_mul_size(size_t a, size_t b, size_t *out) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product)) return 0;
  *out = product;
  return 1;
}

NABLA_CHECKED int nabla_add_size(size_t a, size_t b, size_t *out) {
  size_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return 0;
  *out = sum;
  return 1;
}

/* Narrows a file's u64 to size_t (they differ on 32-bit machines). */
NABLA_CHECKED int nabla_cast_size(uint64_t value, size_t *out) {
  if (value > SIZE_MAX) return 0;
  *out = (size_t)value;
  return 1;
}

/* ceil(a / b) for b > 0; cannot overflow. */
static inline uint64_t nabla_ceil_div_u64(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

#endif
