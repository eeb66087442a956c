/* Joins of elements: a balanced tree over ranks, blocks of elements at a time.
 */
#include <math.h>
#include <string.h>

#include "lib/base/floats.h"
#include "lib/runtime/collectives/collective.h"

#define BLOCK 256 /* elements of one pass down the tree */

typedef struct tree {
  nabla_join join;
  nabla_dtype dtype;
  const void *const *arrays;
  uint64_t first;
  size_t count;
} tree;

/* ---- loads and stores: floats as float or double, others as int64 ---- */

static void load_float(const tree *t, uint32_t member, float *out) {
  const uint16_t *half = (const uint16_t *)t->arrays[member] + t->first;
  if (t->dtype == NABLA_DTYPE_F32)
    memcpy(out, (const float *)t->arrays[member] + t->first,
           t->count * sizeof *out);
  else
    for (size_t i = 0; i < t->count; i++)
      out[i] = t->dtype == NABLA_DTYPE_F16 ? nabla_f16_to_f32(half[i])
                                           : nabla_bf16_to_f32(half[i]);
}

static void load_double(const tree *t, uint32_t member, double *out) {
  memcpy(out, (const double *)t->arrays[member] + t->first,
         t->count * sizeof *out);
}

static void load_int64_t(const tree *t, uint32_t member, int64_t *out) {
  const void *from = t->arrays[member];
  for (size_t i = 0; i < t->count; i++) {
    const uint64_t at = t->first + i;
    out[i] = t->dtype == NABLA_DTYPE_I64   ? ((const int64_t *)from)[at]
             : t->dtype == NABLA_DTYPE_I32 ? ((const int32_t *)from)[at]
             : t->dtype == NABLA_DTYPE_I8  ? ((const int8_t *)from)[at]
                                           : ((const uint8_t *)from)[at];
  }
}

/* ---- the tree ---- */

/* maximum and minimum give NaN where an operand is NaN. */
#define FLOAT_MAX(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define FLOAT_MIN(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
#define WRAP(a, op, b)  ((int64_t)((uint64_t)(a)op(uint64_t)(b)))

/* One loop for each way to join, which compilers turn into vector code. */
#define EACH(value)                                  \
  do {                                               \
    for (size_t i = 0; i < count; i++) a[i] = value; \
  } while (0)

#define COMBINE(type, sum, prod, max, min)                                    \
  static void combine_##type(nabla_join join, size_t count, type *restrict a, \
                             const type *restrict b) {                        \
    switch (join) {                                                           \
      case NABLA_JOIN_SUM:                                                    \
        EACH(sum);                                                            \
        break;                                                                \
      case NABLA_JOIN_PROD:                                                   \
        EACH(prod);                                                           \
        break;                                                                \
      case NABLA_JOIN_MAX:                                                    \
      case NABLA_JOIN_ANY:                                                    \
        EACH(max);                                                            \
        break;                                                                \
      case NABLA_JOIN_MIN:                                                    \
      case NABLA_JOIN_ALL:                                                    \
        EACH(min);                                                            \
        break;                                                                \
    }                                                                         \
  }                                                                           \
  static void join_##type(const tree *t, uint32_t from, uint32_t end,         \
                          type *out) {                                        \
    type right[BLOCK];                                                        \
    const uint32_t middle = from + (end - from + 1) / 2;                      \
    if (end - from == 1) {                                                    \
      load_##type(t, from, out);                                              \
      return;                                                                 \
    }                                                                         \
    join_##type(t, from, middle, out);                                        \
    join_##type(t, middle, end, right);                                       \
    combine_##type(t->join, t->count, out, right);                            \
  }

COMBINE(float, a[i] + b[i], a[i] * b[i], FLOAT_MAX(a[i], b[i]),
        FLOAT_MIN(a[i], b[i]))
COMBINE(double, a[i] + b[i], a[i] * b[i], FLOAT_MAX(a[i], b[i]),
        FLOAT_MIN(a[i], b[i]))
COMBINE(int64_t, WRAP(a[i], +, b[i]), WRAP(a[i], *, b[i]),
        (a[i] > b[i] ? a[i] : b[i]), (a[i] < b[i] ? a[i] : b[i]))

/* ---- blocks ---- */

static void join_floats(const tree *t, uint32_t members, void *out) {
  float values[BLOCK];
  join_float(t, 0, members, values);
  uint16_t *half = (uint16_t *)out + t->first;
  if (t->dtype == NABLA_DTYPE_F32)
    memcpy((float *)out + t->first, values, t->count * sizeof *values);
  else
    for (size_t i = 0; i < t->count; i++)
      half[i] = t->dtype == NABLA_DTYPE_F16 ? nabla_f32_to_f16(values[i])
                                            : nabla_f32_to_bf16(values[i]);
}

static void join_doubles(const tree *t, uint32_t members, void *out) {
  double values[BLOCK];
  join_double(t, 0, members, values);
  memcpy((double *)out + t->first, values, t->count * sizeof *values);
}

static void join_integers(const tree *t, uint32_t members, void *out) {
  int64_t values[BLOCK];
  const int64_t mask = t->dtype == NABLA_DTYPE_BOOL ? 1 : 255;
  join_int64_t(t, 0, members, values);
  for (size_t i = 0; i < t->count; i++) {
    const uint64_t at = t->first + i;
    if (t->dtype == NABLA_DTYPE_I64)
      ((int64_t *)out)[at] = values[i];
    else if (t->dtype == NABLA_DTYPE_I32)
      ((int32_t *)out)[at] = (int32_t)values[i];
    else
      ((uint8_t *)out)[at] = (uint8_t)(values[i] & mask);
  }
}

int nabla_collective_can_join(nabla_join join, nabla_dtype dtype) {
  switch (dtype) {
    case NABLA_DTYPE_F32:
    case NABLA_DTYPE_F64:
    case NABLA_DTYPE_F16:
    case NABLA_DTYPE_BF16:
    case NABLA_DTYPE_I64:
    case NABLA_DTYPE_I32:
    case NABLA_DTYPE_I8:
    case NABLA_DTYPE_U8:
      return join <= NABLA_JOIN_MIN;
    case NABLA_DTYPE_BOOL: /* a sum is odd or even, as that of nabla.reduce */
      return join <= NABLA_JOIN_MIN || join == NABLA_JOIN_ANY ||
             join == NABLA_JOIN_ALL;
    default:
      return 0;
  }
}

void nabla_collective_join(nabla_join join, nabla_dtype dtype,
                           const void *const *arrays, uint32_t member_count,
                           uint64_t first, uint64_t count, void *out) {
  tree t = {join, dtype, arrays, first, 0};
  for (; count; count -= t.count, t.first += t.count) {
    t.count = count < BLOCK ? (size_t)count : BLOCK;
    if (dtype == NABLA_DTYPE_F64)
      join_doubles(&t, member_count, out);
    else if (dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
             dtype == NABLA_DTYPE_BF16)
      join_floats(&t, member_count, out);
    else
      join_integers(&t, member_count, out);
  }
}
