/* Parts that the kernels of attention share: arguments, masks, the online
 * softmax of a row, and the row's state. */
#ifndef NABLA_KERNELS_ATTEND_H
#define NABLA_KERNELS_ATTEND_H

#include "lib/kernels/attention/attention.h"
#include "lib/kernels/builder/k.h"

/* k or v: its address, and elements between batches, heads and rows. */
typedef struct nabla_attend_array {
  nabla_ssa base, batch, head, row;
} nabla_attend_array;

/* A kernel being written, with its arguments loaded. */
typedef struct nabla_attend {
  nabla_emitter *e;
  const nabla_attention_spec *spec;
  nabla_ssa q, y, mask, work; /* addresses */
  nabla_attend_array k, v;
  nabla_ssa heads; /* of k in a batch */
  nabla_ssa queries, rows, room, count, group, mask_heads;
  nabla_ssa blocks, pieces, length;
  nabla_ssa scale;      /* in all lanes */
  nabla_ssa begin, end; /* items */
} nabla_attend;

/* Writes one function: @NAME and `suffix`. */
void nabla_attend_function(const nabla_attention_spec *spec, const char *name,
                           const char *suffix,
                           void (*write)(nabla_attend *a, uint64_t rows),
                           uint64_t rows, nabla_text *text);

/* Vectors of a row of v and y, the last one filled up with zeros; `width`
 * rounded up to whole vectors. */
unsigned nabla_attend_chunks(const nabla_attention_spec *spec);
uint64_t nabla_attend_padded(uint64_t width);

/* How many of a row's elements vector `chunk` has. */
unsigned nabla_attend_lanes(uint64_t width, unsigned chunk);

/* Bytes of an element of k and v. */
uint64_t nabla_attend_kv_size(const nabla_attention_spec *spec);

/* The address of row `row` of k or v, of head `outer`. */
nabla_ssa nabla_attend_kv_row(nabla_attend *a, const nabla_attend_array *of,
                              nabla_ssa outer, nabla_ssa row);

/* The state of a row: in f32, the maximum (in all lanes), the sum (of each
 * lane), then the weighted sum of v. */
#define NABLA_ATTEND_SUM      16u /* floats in front */
#define NABLA_ATTEND_WEIGHTED 32u
uint64_t nabla_attend_state_floats(const nabla_attention_spec *spec);
void nabla_attend_clear_state(nabla_attend *a, nabla_ssa state);

/* How many keys from key `from` on row `row` may see. */
nabla_ssa nabla_attend_visible(nabla_attend *a, nabla_ssa row, nabla_ssa from);

/* Applies the mask to the `count` scores at `scores`, of keys from `from` on.
 */
void nabla_attend_mask(nabla_attend *a, nabla_ssa scores, nabla_ssa outer,
                       nabla_ssa row, nabla_ssa from, nabla_ssa count);

/* Replaces NABLA_ATTENTION_KEYS scores by weights exp(score - maximum), 0 from
 * key `visible` on, and takes them into the state, whose weighted sum is scaled
 * to the new maximum. */
void nabla_attend_softmax(nabla_attend *a, nabla_ssa scores, nabla_ssa visible,
                          nabla_ssa state);

/* How many bytes ahead lines are fetched, 0: not at all; to the second cache
 * (`is_far`) or the first. */
typedef struct nabla_attend_ahead {
  uint64_t bytes;
  int is_far;
} nabla_attend_ahead;

/* Fetches the line `ahead` of byte `at` of `base`. */
void nabla_attend_prefetch(nabla_emitter *e, nabla_attend_ahead ahead,
                           nabla_ssa base, nabla_ssa at);

/* Rows of v, elements `stride` (an i64) apart; `padded`: with zeros up to whole
 * vectors. */
typedef struct nabla_attend_values {
  nabla_array_ref rows;
  nabla_ssa stride;
  nabla_attend_ahead ahead;
  int padded;
} nabla_attend_values;

/* Adds to the weighted sums of `rows` consecutive states `count` rows of v
 * times their weights, NABLA_ATTENTION_KEYS floats for each state. At most
 * `tile` accumulators are in registers. */
void nabla_attend_weigh(nabla_attend *a, const nabla_attend_values *v,
                        unsigned rows, unsigned tile, nabla_ssa weights,
                        nabla_ssa count, nabla_ssa state);

/* Copies `count` rows of q, those from `row` on of head `outer`, to `to`, as
 * f32 with zeros up to whole vectors; rows that do not exist are the last one.
 */
void nabla_attend_copy_q(nabla_attend *a, nabla_ssa outer, nabla_ssa row,
                         nabla_ssa count, nabla_ssa to);

/* Writes the row of y, where there is one piece; else the state, as partial
 * result. */
void nabla_attend_finish(nabla_attend *a, nabla_ssa state, nabla_ssa outer,
                         nabla_ssa row, nabla_ssa piece);

#endif
