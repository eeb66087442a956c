/* GGUF blocks as bytes for int8 products: a line, whose codes are 64 bytes or
 * more, is vectors of 64 bytes, 4 products to a lane. A byte is the value of a
 * code plus an offset (int8.h). Functions are defined in ggml_to_int8.c and
 * pack_b_int8_ggml.c too. */
#ifndef NABLA_KERNELS_INT8_GEMV_INT8_GGML_H
#define NABLA_KERNELS_INT8_GEMV_INT8_GGML_H

#include "lib/kernels/int8/int8.h"
#include "quant/codec/ggml.h"

#define NABLA_INT8_VECTORS_MAX 4u /* of a line */

typedef struct nabla_int8_blocks {
  nabla_int8 base; /* what of it does not depend on an encoding */
  const nabla_ggml *format;
  uint32_t line;    /* elements: whole blocks                                */
  uint32_t blocks;  /* in it                                                 */
  uint32_t vectors; /* of bytes                                              */
  uint32_t dots;    /* integer sums: one for all vectors, or one for each    */
} nabla_int8_blocks;

/* Fills `out`; 0 when the weight's rows are no whole blocks, or the target has
 * no instructions for it. */
int nabla_int8_blocks_of(const nabla_fused_spec *spec, nabla_int8_blocks *out);

/* The element of a line that a byte of a vector holds. 16 elements from a
 * multiple of 16 on are consecutive bytes. */
uint32_t nabla_int8_blocks_element(const nabla_int8_blocks *self,
                                   uint32_t vector, uint32_t byte);

/* The line at byte `base` of the storage, of which `blocks` blocks exist. */
typedef struct nabla_int8_line_ref {
  nabla_ssa base;
  uint32_t blocks;
} nabla_int8_line_ref;

/* vector<64xi8> number `vector` of a line. Bytes of missing blocks are any. */
nabla_ssa nabla_emit_int8_block_bytes(nabla_emitter *e,
                                      const nabla_int8_blocks *self,
                                      const nabla_int8_line_ref *line,
                                      uint32_t vector);

/* Factors of the products, vector<16xf32>: for each integer sum those of its
 * lanes; 0 for missing blocks. */
void nabla_emit_int8_block_factors(nabla_emitter *e,
                                   const nabla_int8_blocks *self,
                                   const nabla_int8_line_ref *line,
                                   nabla_ssa out[NABLA_INT8_VECTORS_MAX]);

/* The part of a line that a lane of minima belongs to, -1 for none; and the
 * minima as lanes, 0 where the format has none. Without parts, lanes are those
 * of the products. */
int nabla_int8_blocks_min_part(const nabla_int8_blocks *self, uint32_t lane);
nabla_ssa nabla_emit_int8_block_minima(nabla_emitter *e,
                                       const nabla_int8_blocks *self,
                                       const nabla_int8_line_ref *line);

/* nabla_int8_of for blocks: natural order, one scale of x for each part. */
int nabla_int8_panel_of(const nabla_fused_spec *spec, nabla_int8 *out);

/* A part of 16 rows and the addresses it is packed to. */
typedef struct nabla_int8_block_panel {
  nabla_ssa k, count;       /* the first element of each row, and how many */
  nabla_ssa bytes;          /* a vector of 16 rows for each 4 elements */
  nabla_ssa scales, minima; /* for each part 16 f32 */
} nabla_int8_block_panel;

/* Packs it; `flats` are the elements of w at k = 0 of the rows. */
void nabla_emit_int8_pack_b_ggml(nabla_emitter *e,
                                 const nabla_ssa flats[NABLA_LANES],
                                 const nabla_int8_block_panel *panel);

#endif
