/* The AMX micro-kernel: one step of k, the products of all parts of a tile of w
 * and of one or two tiles of x. Parts are defined in bf16.h. */
#ifndef NABLA_KERNELS_BF16_AMX_STEP_H
#define NABLA_KERNELS_BF16_AMX_STEP_H

#include "lib/kernels/bf16/split_bf16.h"

/* Elements of k that an accumulator tile sums, at most, across panels. */
#define NABLA_BF16_SUM_DEPTH 1024u

/* The state of a step: the part of w that is in tiles, and the addresses of its
 * operands. */
typedef struct nabla_bf16_step {
  const nabla_macro_block *b;
  const nabla_macro_tile *s;
  nabla_bf16 self;
  nabla_ssa number; /* of the steps of the panel */
  nabla_ssa w_at, x_at;
  unsigned w_part;
  unsigned set;  /* of accumulator tiles, the next one */
  unsigned done; /* halves of products that are done */
  /* Called after each half of the products, to interleave other work (packing,
   * prefetches). */
  void (*after)(nabla_emitter *e, struct nabla_bf16_step *step);
  void *context; /* of `after` */
  /* For `after`: how many rows, and lines of x, are done, and the extremes of
   * those rows. */
  unsigned rows, lines;
  nabla_bf16_extremes all;
} nabla_bf16_step;

/* All products of step `number` of the panel. */
void nabla_emit_bf16_step(nabla_emitter *e, const nabla_macro_block *b,
                          const nabla_macro_tile *s, nabla_ssa number,
                          void (*after)(nabla_emitter *, nabla_bf16_step *),
                          void *context);

/* How many of `rows` should be done by now. */
unsigned nabla_bf16_rows_behind(const nabla_bf16_step *step, unsigned rows);

/* Sets of accumulator tiles that a step adds to: more than tiles of x where
 * these are few. The sets are added up at the end. */
unsigned nabla_bf16_sets(const nabla_emitter *e, const nabla_macro_tile *s);

/* Clears, loads and stores the accumulator tiles of `sets`; in memory at the
 * address `base`. */
void nabla_emit_bf16_zero(nabla_emitter *e, unsigned sets);
void nabla_emit_bf16_load_sums(nabla_emitter *e, unsigned sets, nabla_ssa base);
void nabla_emit_bf16_store_sums(nabla_emitter *e, unsigned sets,
                                nabla_ssa base);

#endif
