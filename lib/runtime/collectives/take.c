/* Exchanges that join nothing: what comes from one member. */
#include <string.h>

#include "lib/runtime/collectives/collective.h"

/* ---- pieces of all_to_all ---- */

/* A piece of an array that is seen as [outer, a, middle, b, inner]: `rows` of a
 * and `columns` of b. */
typedef struct piece {
  uint64_t outer, middle, inner, rows, columns;
} piece;

/* Where it lies: the array's sizes of a and b, and its first row and column. */
typedef struct place {
  uint64_t a, b, row, column;
} place;

static void copy_piece(const piece *p, const place *from, const uint8_t *in,
                       const place *to, uint8_t *out) {
  for (uint64_t o = 0; o < p->outer; o++)
    for (uint64_t i = 0; i < p->rows; i++)
      for (uint64_t m = 0; m < p->middle; m++)
        memcpy(out + (((o * to->a + to->row + i) * p->middle + m) * to->b +
                      to->column) *
                         p->inner,
               in + (((o * from->a + from->row + i) * p->middle + m) * from->b +
                     from->column) *
                        p->inner,
               (size_t)(p->columns * p->inner));
}

/* The pieces, and the sizes of dimensions a and b of an input. */
static piece find_piece(const nabla_collective *c, place *input) {
  const uint32_t low = c->split < c->concat ? c->split : c->concat;
  const uint32_t high = c->split < c->concat ? c->concat : c->split;
  piece p = {1, 1, nabla_dtype_bits(c->dtype) / 8, 0, 0};
  for (uint32_t i = 0; i < c->dim_count; i++) {
    const uint64_t dim = (uint64_t)c->dims[i];
    if (i < low) p.outer *= dim;
    if (i > low && i < high) p.middle *= dim;
    if (i > high) p.inner *= dim;
  }
  *input = (place){(uint64_t)c->dims[low], (uint64_t)c->dims[high], 0, 0};
  p.rows = c->split == low ? input->a / c->count : input->a;
  p.columns = c->split == low ? input->b : input->b / c->count;
  return p;
}

/* Where the piece of member `index` begins in an input. */
static place place_in_input(const nabla_collective *c, const piece *p,
                            place input, uint32_t index) {
  if (c->split < c->concat)
    input.row = index * p->rows;
  else
    input.column = index * p->columns;
  return input;
}

static place place_in_output(const nabla_collective *c, const piece *p,
                             uint32_t from) {
  if (c->split < c->concat)
    return (place){p->rows, p->columns * c->count, 0, from * p->columns};
  return (place){p->rows * c->count, p->columns, from * p->rows, 0};
}

static uint64_t take_piece(const nabla_collective *c, uint32_t from,
                           const uint8_t *in) {
  place input;
  const piece p = find_piece(c, &input);
  const place at = place_in_input(c, &p, input, c->index);
  const place to = place_in_output(c, &p, from);
  copy_piece(&p, &at, in, &to, c->out);
  return p.outer * p.rows * p.middle * p.columns * p.inner;
}

/* ---- all kinds ---- */

uint64_t nabla_collective_take(const nabla_collective *c, uint32_t from,
                               const void *in) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  const uint64_t bytes = c->rows * c->inner * element;
  if (c->kind == NABLA_COLLECTIVE_ALL_TO_ALL) return take_piece(c, from, in);
  if (c->kind == NABLA_COLLECTIVE_ALL_GATHER) {
    for (uint64_t o = 0; o < c->outer; o++)
      memcpy((uint8_t *)c->out + (o * c->count + from) * bytes,
             (const uint8_t *)in + o * bytes, (size_t)bytes);
    return c->outer * bytes;
  }
  if (from != c->source) return 0;
  memcpy(c->out, in, (size_t)(c->outer * bytes));
  return c->outer * bytes;
}

uint64_t nabla_collective_piece(const nabla_collective *c) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  uint64_t count = 1;
  if (c->kind != NABLA_COLLECTIVE_ALL_TO_ALL)
    return c->outer * c->rows * c->inner * element;
  for (uint32_t i = 0; i < c->dim_count; i++) count *= (uint64_t)c->dims[i];
  return count / c->count * element;
}

void nabla_collective_pack(const nabla_collective *c, uint32_t to,
                           void *packed) {
  if (c->kind == NABLA_COLLECTIVE_ALL_TO_ALL) {
    place input;
    const piece p = find_piece(c, &input);
    const place at = place_in_input(c, &p, input, to);
    const place gapless = {p.rows, p.columns, 0, 0};
    copy_piece(&p, &at, c->in, &gapless, packed);
    return;
  }
  const int has_rows_of_all = c->kind == NABLA_COLLECTIVE_REDUCE_SCATTER;
  const uint64_t rows = c->rows * c->inner * (nabla_dtype_bits(c->dtype) / 8);
  const uint64_t stride = has_rows_of_all ? c->count * rows : rows;
  const uint8_t *from =
      (const uint8_t *)c->in + (has_rows_of_all ? to * rows : 0);
  for (uint64_t o = 0; o < c->outer; o++)
    memcpy((uint8_t *)packed + o * rows, from + o * stride, (size_t)rows);
}

void nabla_collective_unpack(const nabla_collective *c, uint32_t from,
                             const void *packed) {
  if (c->kind != NABLA_COLLECTIVE_ALL_TO_ALL) {
    (void)nabla_collective_take(c, from, packed);
    return;
  }
  place input;
  const piece p = find_piece(c, &input);
  const place gapless = {p.rows, p.columns, 0, 0};
  const place to = place_in_output(c, &p, from);
  copy_piece(&p, &gapless, packed, &to, c->out);
}
