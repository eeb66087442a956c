/* y = x . w for many rows of x, by tiles of 16 rows of w and 16 of x: panels of
 * 32 rows of w and some elements of k are decoded to the scratch, where they
 * stay in the first cache, and multiplied with all rows of x whose sums wait,
 * which stay in the second. A tile of sums is f32, with rows of w as rows and
 * those of x as columns, so that w needs no turning; sums are turned instead.
 */
#ifndef NABLA_KERNELS_BF16_GEMM_MACRO_KERNEL_H
#define NABLA_KERNELS_BF16_GEMM_MACRO_KERNEL_H

#include "lib/kernels/builder/amx.h"
#include "lib/kernels/variants.h"

#define NABLA_MACRO_ROWS   32u /* of w in a panel, the grain */
#define NABLA_MACRO_HALVES (NABLA_MACRO_ROWS / NABLA_TILE_ROWS)
#define NABLA_MACRO_TILES                           \
  2u /* most tiles of x that are multiplied at once \
      */

typedef struct nabla_macro_kernel nabla_macro_kernel;

/* Rows of x and of w, and elements of k, that are multiplied. */
typedef struct nabla_macro_block {
  const nabla_macro_kernel *self;
  nabla_ssa row, rows;       /* of x: the first, and how many sums wait     */
  nabla_ssa tiles;           /* of x                                        */
  nabla_ssa column, columns; /* rows of w; beyond the last it is used again */
  nabla_ssa k, count, steps; /* first element; elements; tiles of x         */
  nabla_ssa next, next_k;    /* row of w, and element of k, of the next panel */
  nabla_ssa panel;           /* its address                                  */
  nabla_ssa other;           /* and that of the next, where it is made ahead */
  int is_whole;              /* there are all rows of w from `column` on      */
} nabla_macro_block;

/* What is multiplied at once: addresses of the tiles of sums (those of a tile
 * of x follow each other), of the first tile of each tile of x, and how many
 * of these. */
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
  unsigned waiting;          /* rows of x whose sums wait                   */
  unsigned at_once;          /* tiles of x, up to NABLA_MACRO_TILES       */
  /* Panels are decoded while the one before is multiplied; K is whole panels,
   * and no more tiles of x wait than are multiplied at once. */
  int is_ahead;
  /* Sums of all panels stay in tiles while panels are decoded in between; no
   * more tiles of x wait than are multiplied at once. */
  int stays;
  void (*pack_b)(nabla_emitter *e, const nabla_macro_block *block);
  void (*multiply)(nabla_emitter *e, const nabla_macro_block *block,
                   const nabla_macro_tile *square);
  /* Instead of `multiply` where panels are decoded ahead, or sums stay: all
   * panels of `block`, to sums from 0 on; `square` is that of the first. */
  void (*multiply_all)(nabla_emitter *e, nabla_macro_block *block,
                       const nabla_macro_tile *square);
  /* Writes `count` sums (f32, at address `sums`, room for 16) of row `row` from
   * column `column` on to y. */
  void (*finish)(nabla_emitter *e, nabla_ssa sums, nabla_ssa row,
                 nabla_ssa column, nabla_ssa count);
};

/* The tiles along `count` elements of k. */
nabla_ssa nabla_emit_macro_steps(nabla_emitter *e,
                                 const nabla_macro_kernel *self,
                                 nabla_ssa count);

/* For `multiply_all`, sets what `block` has of the panel at `k`, and the tiles
 * of x to those that it is multiplied with. */
void nabla_emit_macro_panel(nabla_emitter *e, nabla_macro_block *block,
                            nabla_macro_tile *square, nabla_ssa k);

/* The inside of run. The first 64 bytes of the scratch are free. */
void nabla_emit_macro_kernel(nabla_emitter *e, const nabla_macro_kernel *self);
uint64_t nabla_macro_kernel_scratch(const nabla_macro_kernel *self);

/* ps for an element of w, which takes `decode` to decode, and `row` for a row
 * of x. */
double nabla_macro_kernel_cost(const nabla_macro_kernel *self, uint64_t m,
                               double decode, double row);

#endif
