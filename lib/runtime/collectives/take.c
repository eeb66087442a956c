/* Exchanges that join nothing: what comes from one member. */
#include <string.h>

#include "lib/runtime/collectives/collective.h"

/* Piece `index` of another member's array along `split`, into place `from`
 * along `concat`. */
static uint64_t take_piece(const nabla_collective *c, uint32_t from,
                           const uint8_t *in, uint64_t element) {
  const uint32_t low = c->split < c->concat ? c->split : c->concat;
  const uint32_t high = c->split < c->concat ? c->concat : c->split;
  uint64_t outer = 1, middle = 1, inner = element;
  for (uint32_t i = 0; i < c->dim_count; i++) {
    const uint64_t dim = (uint64_t)c->dims[i];
    if (i < low) outer *= dim;
    if (i > low && i < high) middle *= dim;
    if (i > high) inner *= dim;
  }
  const uint64_t a = (uint64_t)c->dims[low], b = (uint64_t)c->dims[high];
  const int splits_low = c->split == low;
  /* sizes of the result, and where the piece begins in both */
  const uint64_t to_a = splits_low ? a / c->count : a * c->count;
  const uint64_t to_b = splits_low ? b * c->count : b / c->count;
  const uint64_t rows = splits_low ? to_a : a, columns = splits_low ? b : to_b;
  const uint64_t in_a = splits_low ? c->index * to_a : 0;
  const uint64_t in_b = splits_low ? 0 : c->index * to_b;
  const uint64_t out_a = splits_low ? 0 : from * a;
  const uint64_t out_b = splits_low ? from * b : 0;
  uint8_t *out = c->out;
  for (uint64_t o = 0; o < outer; o++)
    for (uint64_t i = 0; i < rows; i++)
      for (uint64_t m = 0; m < middle; m++)
        memcpy(out + (((o * to_a + out_a + i) * middle + m) * to_b + out_b) *
                         inner,
               in + (((o * a + in_a + i) * middle + m) * b + in_b) * inner,
               (size_t)(columns * inner));
  return outer * rows * middle * columns * inner;
}

uint64_t nabla_collective_take(const nabla_collective *c, uint32_t from,
                               const void *in) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  const uint64_t piece = c->rows * c->inner * element;
  if (c->kind == NABLA_COLLECTIVE_ALL_TO_ALL)
    return take_piece(c, from, in, element);
  if (c->kind == NABLA_COLLECTIVE_ALL_GATHER) {
    for (uint64_t o = 0; o < c->outer; o++)
      memcpy((uint8_t *)c->out + (o * c->count + from) * piece,
             (const uint8_t *)in + o * piece, (size_t)piece);
    return c->outer * piece;
  }
  if (from != c->source) return 0;
  memcpy(c->out, in, (size_t)(c->outer * piece));
  return c->outer * piece;
}
