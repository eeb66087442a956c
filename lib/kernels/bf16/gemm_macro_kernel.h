/* The GEMM macro kernel for tiles of 16 rows of w and 16 of x: panels of 32
 * rows of w and some elements of k are packed to the scratch, where they stay
 * in the first-level cache, and multiplied with all rows of x whose totals are
 * in the scratch, which stay in the second-level cache. An accumulator tile is
 * f32, with rows of w as rows and rows of x as columns, so that w is not
 * transposed; the sums are. */
#ifndef NABLA_KERNELS_BF16_GEMM_MACRO_KERNEL_H
#define NABLA_KERNELS_BF16_GEMM_MACRO_KERNEL_H

#include "lib/kernels/builder/amx.h"
#include "lib/kernels/variants.h"

#define NABLA_MACRO_ROWS   32u /* of w in a panel, the grain */
#define NABLA_MACRO_HALVES (NABLA_MACRO_ROWS / NABLA_TILE_ROWS)
#define NABLA_MACRO_TILES  2u /* of x that are multiplied at once, at most */

typedef struct nabla_macro_kernel nabla_macro_kernel;

/* A block of the product: rows of x and of w, and elements of k. */
typedef struct nabla_macro_block {
  const nabla_macro_kernel *self;
  nabla_ssa row, rows;       /* of x: the first, and how many have totals */
  nabla_ssa tiles;           /* of x                                        */
  nabla_ssa column, columns; /* rows of w; beyond the last it is used again */
  nabla_ssa k, count, steps; /* first element; elements; tiles of x         */
  nabla_ssa next, next_k;    /* row of w, and element of k, of the next panel */
  nabla_ssa panel;           /* its address                                  */
  nabla_ssa other;           /* and that of the next, if packed ahead */
  int is_whole;              /* there are all rows of w from `column` on      */
} nabla_macro_block;

/* The operands of the micro-kernel: addresses of the accumulator tiles
 * (consecutive for a tile of x), of the first tile of each tile of x, and their
 * number. */
typedef struct nabla_macro_tile {
  nabla_ssa sums, x[NABLA_MACRO_TILES];
  unsigned count;
  nabla_ssa is_first; /* of the panel, i1 */
} nabla_macro_tile;

struct nabla_macro_kernel {
  uint64_t step, step_bytes; /* elements of k in a tile of x, and its bytes */
  uint64_t depth;            /* elements of k in a panel                    */
  uint64_t panel;            /* its bytes, a multiple of 64                 */
  unsigned folds;            /* 2: rows 8 to 15 of a tile of x are parts of */
                             /* the first 8, to which their sums are added  */
  unsigned waiting;          /* rows of x whose totals are in the scratch */
  unsigned at_once;          /* tiles of x, up to NABLA_MACRO_TILES       */
  /* Panels are packed while the one before is multiplied; K is whole panels,
   * and there are at most `at_once` tiles of x. */
  int is_ahead;
  /* Accumulators stay in tiles across panels; there are at most `at_once` tiles
   * of x. */
  int stays;
  void (*pack_b)(nabla_emitter *e, const nabla_macro_block *block);
  void (*multiply)(nabla_emitter *e, const nabla_macro_block *block,
                   const nabla_macro_tile *square);
  /* Instead of `multiply` where panels are packed ahead, or accumulators stay:
   * all panels of `block`, to sums that begin at 0; `square` is that of the
   * first. */
  void (*multiply_all)(nabla_emitter *e, nabla_macro_block *block,
                       const nabla_macro_tile *square);
  /* Writes `count` sums (f32, at address `sums`, which has space for 16) of row
   * `row` from column `column` on to y. */
  void (*finish)(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                 nabla_ssa column, nabla_ssa count);
};

/* The tiles along `count` elements of k. */
nabla_ssa nabla_emit_macro_steps(nabla_emitter *e,
                                 const nabla_macro_kernel *self,
                                 nabla_ssa count);

/* For `multiply_all`: sets the panel of `block` to the one at `k`, and the
 * tiles of x to those that it is multiplied with. */
void nabla_emit_macro_panel(nabla_emitter *e, nabla_macro_block *block,
                            nabla_macro_tile *square, nabla_ssa k);

/* The code of `run`. The first 64 bytes of the scratch are free. */
void nabla_emit_macro_kernel(nabla_emitter *e, const nabla_macro_kernel *self);
uint64_t nabla_macro_kernel_scratch(const nabla_macro_kernel *self);

/* Cost in ps for an element of w: packing takes `decode`, and a row of x
 * `row`. */
double nabla_macro_kernel_cost(const nabla_macro_kernel *self, uint64_t m,
                               double decode, double row);

#endif
