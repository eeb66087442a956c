/* A step of k, the products of all parts of a tile of w and one or two of x;
 * bf16.h says what parts are. */
#ifndef NABLA_KERNELS_BF16_AMX_STEP_H
#define NABLA_KERNELS_BF16_AMX_STEP_H

#include "lib/kernels/bf16/split_bf16.h"

/* Elements of k whose products tiles add up at most, from panel to panel. */
#define NABLA_BF16_SUM_DEPTH 1024u

/* A step under way: which part of w is in tiles, and where those of the step
 * are. */
typedef struct nabla_bf16_step {
  const nabla_macro_block *b;
  const nabla_macro_tile *s;
  nabla_bf16 self;
  nabla_ssa number; /* of the steps of the panel */
  nabla_ssa w_at, x_at;
  unsigned w_part;
  unsigned set;  /* of sums, that comes next */
  unsigned done; /* halves of products that are behind */
  /* What is done after each half, while it waits for its turn. */
  void (*after)(nabla_emitter *e, struct nabla_bf16_step *step);
  void *context; /* of `after` */
  /* For `after`: how many rows, and lines of x, are behind, and what was seen
   * in rows. */
  unsigned rows, lines;
  nabla_bf16_extremes all;
} nabla_bf16_step;

/* All products of step `number` of the panel. */
void nabla_emit_bf16_step(nabla_emitter *e, const nabla_macro_block *b,
                          const nabla_macro_tile *s, nabla_ssa number,
                          void (*after)(nabla_emitter *, nabla_bf16_step *),
                          void *context);

/* How many of `rows` should be behind by now. */
unsigned nabla_bf16_rows_behind(const nabla_bf16_step *step, unsigned rows);

/* Sets of tiles of sums that a step adds to: more than tiles of x where these
 * are few. All are to be added up. */
unsigned nabla_bf16_sets(const nabla_emitter *e, const nabla_macro_tile *s);

/* Sums of `sets`: to 0, and between tiles and the address `base`. */
void nabla_emit_bf16_zero(nabla_emitter *e, unsigned sets);
void nabla_emit_bf16_load_sums(nabla_emitter *e, unsigned sets, nabla_ssa base);
void nabla_emit_bf16_store_sums(nabla_emitter *e, unsigned sets,
                                nabla_ssa base);

#endif
