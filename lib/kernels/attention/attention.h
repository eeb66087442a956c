/* Attention: y = softmax(q k^T scale + mask) v for each head, as kernels that
 * read keys and values once for a block of queries and keep a running maximum
 * and sum of each query (online softmax): scores exist for a block of keys
 * only. Functions are defined in attend.c, attend_few.c and attend_many.c.
 *
 * The heads of q that share a head of k and v are consecutive; `outer` is the
 * number of heads of k and v, of all batches. Such a head has R = group * T
 * rows of q and y, row r being query r mod T of head r / T of the group. There
 * are three functions, with the words below as arguments:
 *
 *   few    for R <= NABLA_ATTENTION_FEW: an item is a range of keys (a piece)
 *          of one head of k and v, and all of its rows
 *   many   an item is a block of NABLA_ATTENTION_BLOCK rows, and a piece
 *   join   rows of y from the partial results of several pieces; an item is a
 *          row
 *
 * Where there is one piece, few and many write y. The number of pieces depends
 * on sizes alone, so that the bytes of y do not depend on threads. */
#ifndef NABLA_KERNELS_ATTENTION_H
#define NABLA_KERNELS_ATTENTION_H

#include "lib/kernels/fused_kernel.h"

/* The largest head size, of q and k or of v. */
#define NABLA_ATTENTION_HEAD_MAX 256u

#define NABLA_ATTENTION_FEW   8u  /* rows */
#define NABLA_ATTENTION_BLOCK 64u /* rows */
#define NABLA_ATTENTION_KEYS  96u /* keys whose scores exist at a time */

/* Items below which keys are split, and the least keys of a piece. */
#define NABLA_ATTENTION_ITEMS 32u
#define NABLA_ATTENTION_PIECE 192u

typedef enum nabla_attention_mask {
  NABLA_ATTENTION_NO_MASK,
  NABLA_ATTENTION_TRUTH, /* i1, a byte each: 0 hides a key         */
  NABLA_ATTENTION_ADDED, /* of q's type, added to the scaled score */
} nabla_attention_mask;

typedef struct nabla_attention_spec {
  uint64_t head, value_head;   /* elements of a row of q and k, of v */
  nabla_dtype q_type, kv_type; /* F32, F16, BF16; y has q's */
  nabla_attention_mask mask;
  int causal;
  nabla_features features;
} nabla_attention_spec;

/* Arguments: indices of an array of i64. */
typedef enum nabla_attention_arg {
  NABLA_ATTENTION_Q, /* addresses */
  NABLA_ATTENTION_Y,
  NABLA_ATTENTION_K,
  NABLA_ATTENTION_V,
  NABLA_ATTENTION_MASK,
  NABLA_ATTENTION_WORK,       /* of partial results                        */
  NABLA_ATTENTION_QUERIES,    /* T                                         */
  NABLA_ATTENTION_ROWS,       /* R                                         */
  NABLA_ATTENTION_ROOM,       /* S: keys that a head of k has              */
  NABLA_ATTENTION_COUNT,      /* keys that count, at most S                */
  NABLA_ATTENTION_GROUP,      /* heads of q that share one of k            */
  NABLA_ATTENTION_MASK_HEADS, /* heads of the mask                         */
  NABLA_ATTENTION_SCALE,      /* the bits of an f32                        */
  NABLA_ATTENTION_BLOCKS,     /* blocks of rows of a head: of `few` one    */
  NABLA_ATTENTION_PIECES,     /* at least 1                                */
  NABLA_ATTENTION_LENGTH,     /* keys of a piece                           */
  /* Elements between batches, heads and rows of k, and the same of v; the heads
   * of k in a batch. Elements of a row are consecutive. */
  NABLA_ATTENTION_K_STEPS,
  NABLA_ATTENTION_V_STEPS = NABLA_ATTENTION_K_STEPS + 3,
  NABLA_ATTENTION_HEADS = NABLA_ATTENTION_V_STEPS + 3,
} nabla_attention_arg;

/* Why there is no kernel, as static text; NULL when there is one. */
const char *nabla_attention_objection(const nabla_attention_spec *spec);

/* Bytes of a row of the partial results, for one piece. */
uint64_t nabla_attention_state_bytes(const nabla_attention_spec *spec);

/* Appends a name that differs between specs. */
void nabla_attention_name(const nabla_attention_spec *spec, nabla_text *text);

/* Append @NAME_few, @NAME_many, @NAME_join (fused_kernel.h has the form);
 * failure shows in text->failed only. `rows`: R, 0 where it is not known. */
void nabla_attention_emit_few(const nabla_attention_spec *spec,
                              const char *name, uint64_t rows,
                              nabla_text *text);
void nabla_attention_emit_many(const nabla_attention_spec *spec,
                               const char *name, nabla_text *text);
void nabla_attention_emit_join(const nabla_attention_spec *spec,
                               const char *name, nabla_text *text);

#endif
