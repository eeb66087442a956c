/* Products in integers, for NABLA_NUMERICS_INT8: x is quantized to 8 bits per
 * block of k, a weight's codes are bytes, and 4 products of neighbours along k
 * are added in 32 bits. Between blocks sums are f32.
 *
 * A code stands for (byte - offset) * unit * scale. Bytes have a sign with AVX2
 * (vpmaddubsw) and AMX (tdpbssd) and have none with AVX-512 VNNI (vpdpbusd),
 * where tables and int8 have 128 added: the sum of a block's x times that is
 * taken off again.
 *
 * Functions are defined in interleave_int8.c and pack_a_int8.c too. */
#ifndef NABLA_KERNELS_INT8_INT8_H
#define NABLA_KERNELS_INT8_INT8_H

#include "lib/kernels/variants.h"

/* Longest product of sizes that addresses in tiles are made of. */
#define NABLA_INT8_K_MAX ((uint64_t)1 << 24)

/* Bytes of a row of x where `unit` elements take `bytes`; the last unit counts
 * whole. */
nabla_ssa nabla_emit_int8_row_bytes(nabla_emitter *e, uint64_t unit,
                                    uint64_t bytes);

/* Elements of a row behind those of whole `unit`s, and the end of these. Of any
 * size none are known: there are none where any_size is a multiple of `unit`.
 */
uint64_t nabla_int8_rest(const nabla_fused_spec *spec, uint64_t unit);
nabla_ssa nabla_emit_int8_whole(nabla_emitter *e, uint64_t unit);

/* Bytes of a vector, of 16 lanes with 4 each. */
#define NABLA_BYTES 64u

#define NABLA_INT8_PARTS 4u /* nabla_int8.parts at most */

typedef struct nabla_int8 {
  unsigned bits;  /* of a code: 2, 4 or 8                                 */
  unsigned parts; /* vectors of bytes that a vector of codes is: 8 / bits */
  uint64_t block; /* elements of x that share a scale: 64, 32 or 16       */
  uint64_t span;  /* elements along k that share a scale of w             */
  int vnni;       /* else AVX2                                            */
  int is_signed;  /* bytes of w have a sign                               */
  int has_zero;   /* zero points; or                                      */
  int has_min;    /* with it: minima of blocks of GGUF files in their place */
  int offset;     /* a constant of the byte's offset                      */
  double unit;    /* what a byte counts, before the scale                 */
} nabla_int8;

/* Fills `out`, for blocks of GGUF files with what panels of them are like; 0
 * when the weight's rows do not begin with whole bytes, blocks
 * and scales, or the target has neither set of instructions. */
int nabla_int8_of(const nabla_fused_spec *spec, nabla_int8 *out);

/* Whether a target has instructions for such products, and which. */
int nabla_int8_has_instructions(nabla_features features, int *out_vnni);
/* The same for products by AMX: bytes of w have a sign. */
int nabla_int8_of_amx(const nabla_fused_spec *spec, nabla_int8 *out);

/* Elements of k in 64 bytes of codes. */
uint64_t nabla_int8_line(const nabla_int8 *self);

/* Splits 64 bytes of codes (vector<16xi32>) into bytes to multiply with,
 * vector<64xi8> for each part: of 4-bit codes elements 0, 2, 4, 6 of each 8,
 * then 1, 3, 5, 7; of 2 bits each fourth. */
void nabla_emit_int8_split(nabla_emitter *e, const nabla_int8 *self,
                           nabla_ssa codes, nabla_ssa out[NABLA_INT8_PARTS]);

/* Adds the products of bytes of w with x (vector<64xi8>) to 16 sums of 4. */
nabla_ssa nabla_emit_int8_dot(nabla_emitter *e, const nabla_int8 *self,
                              nabla_ssa sums, nabla_ssa w, nabla_ssa x);

/* vector<64xi8>: one value in all bytes; a table for lookups, the same 16
 * values in each quarter; table[index] of each byte of `index`, which is below
 * 16. */
nabla_ssa nabla_emit_int8_splat(nabla_emitter *e, int value);
nabla_ssa nabla_emit_int8_table(nabla_emitter *e,
                                const int values[NABLA_LANES]);
nabla_ssa nabla_emit_int8_table_lookup(nabla_emitter *e, const nabla_int8 *self,
                                       nabla_ssa table, nabla_ssa index);

/* vector<16xi32> of zeros, or of the bytes 1 to multiply with. */
nabla_ssa nabla_emit_int8_zeros(nabla_emitter *e);
nabla_ssa nabla_emit_int8_ones(nabla_emitter *e);

/* Whether a sum of x is stored with each block, and its stored form: the
 * initial value of an integer sum, or with zero points the sum of x in f32. */
int nabla_int8_has_sums(const nabla_int8 *self);
nabla_ssa nabla_emit_int8_sums(nabla_emitter *e, const nabla_int8 *self,
                               nabla_ssa sums);

/* A block of x: its quantized elements in their order, 16 to a vector<16xi8>,
 * and the scale (f32) with the unit. */
typedef struct nabla_int8_block {
  nabla_ssa pieces[NABLA_BYTES / NABLA_LANES];
  nabla_ssa scale;
} nabla_int8_block;

/* Quantizes elements index .. index + block - 1 of `row` of x: to
 * round(127 x / absmax), half to even. With NaN or infinity among them the
 * scale is NaN. */
nabla_int8_block nabla_emit_int8_quantize(nabla_emitter *e,
                                          const nabla_int8 *self, nabla_ssa row,
                                          nabla_ssa index);

/* vector<64xi8> of 4 pieces; 0 is a piece of zeros. */
nabla_ssa nabla_emit_int8_join(nabla_emitter *e, const nabla_ssa pieces[4]);

/* For the group of 4 * 16 products in f32: sum + dot * scale of w * scale of x,
 * zero points (f32, negative) times sums of x added to the dot product first,
 * where there are; minima times sums of x to its product with the scale of w.
 */
typedef struct nabla_int8_factors {
  nabla_ssa w, x;          /* scales */
  nabla_ssa negative, sum; /* of zero points; of x */
  int has_min;             /* `negative` are minima */
} nabla_int8_factors;
nabla_ssa nabla_emit_int8_add(nabla_emitter *e, nabla_ssa total, nabla_ssa dot,
                              const nabla_int8_factors *by);

/* The zero point of the element at `flat` with the offset, negative, f32. */
nabla_ssa nabla_emit_int8_negative(nabla_emitter *e, const nabla_int8 *self,
                                   nabla_ssa flat);

/* Packing of x to tiles of `rows` rows (a power of two up to 16) and a block of
 * k, for rows of w in lanes: for each 4 elements the bytes of all rows; then a
 * scale for each row, then its sums. Rows beyond the last are the last row. */
#define NABLA_INT8_ROWS 16u
uint64_t nabla_int8_tile_bytes(const nabla_int8 *self, unsigned rows);
void nabla_emit_int8_pack_a(nabla_emitter *e, const nabla_int8 *self,
                            unsigned rows);

/* Transposes 16 rows of 16 dwords. */
void nabla_emit_int8_transpose(nabla_emitter *e, nabla_ssa rows[NABLA_LANES]);

/* Codes of 16 rows of w with rows in lanes: a vector for each dword of a row,
 * from `dword` on, `count` of them, at most 16. */
void nabla_emit_int8_interleave(nabla_emitter *e,
                                const nabla_ssa rows[NABLA_LANES],
                                nabla_ssa dword, unsigned count,
                                nabla_ssa out[NABLA_LANES]);

/* `count` dwords at `byte`, at most 16, repeated to 16 lanes. */
nabla_ssa nabla_emit_int8_dwords(nabla_emitter *e, nabla_ssa base,
                                 nabla_ssa byte, unsigned count);

/* The addresses of the codes of rows n .. n + 15 (the last row again beyond
 * it), and the flat indices of their first elements. */
void nabla_emit_int8_rows(nabla_emitter *e, const nabla_int8 *self, nabla_ssa n,
                          nabla_ssa addresses[NABLA_LANES],
                          nabla_ssa flats[NABLA_LANES]);

/* Writes scales, and negative zero points if there are, of `count` spans from
 * element `k` on: for each 16 f32, one for each row. */
void nabla_emit_int8_spans(nabla_emitter *e, const nabla_int8 *self,
                           const nabla_ssa flats[NABLA_LANES], nabla_ssa k,
                           nabla_ssa count, nabla_ssa scales, nabla_ssa zeros);

/* The prepacked weight: for each 16 rows all codes with rows in lanes, then the
 * scales of each span, then negative zero points, in f32. */
typedef struct nabla_int8_packed {
  uint64_t codes, scales, zeros, size; /* bytes: where they begin; of all */
} nabla_int8_packed;
nabla_int8_packed nabla_int8_packed_of(const nabla_fused_spec *spec,
                                       const nabla_int8 *self);
void nabla_emit_int8_prepack(nabla_emitter *e);

/* Fills the prepacked weight's part of a description; the accumulation depth of
 * variants whose sums are f32 from block to block. */
void nabla_int8_describe_packed(const nabla_fused_spec *spec,
                                const nabla_int8 *self, nabla_kernel *out);
uint64_t nabla_int8_accumulation_depth(const nabla_fused_spec *spec);

/* i32 or f32 at `byte` in 16 lanes. */
nabla_ssa nabla_emit_int8_spread(nabla_emitter *e, const char *type,
                                 nabla_ssa base, nabla_ssa byte);

#endif
