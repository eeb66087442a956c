/* Loops of the code stages, for every instruction set. An encoding supplies the
 * function that encodes one unit. Include absmax_avx2.h or absmax_avx512.h and
 * the scales of a unit before. */
#ifndef NABLA_QUANT_X86_ENCODE_CODE_H
#define NABLA_QUANT_X86_ENCODE_CODE_H

#include "quant/codec/kernel.h"

/* The input and output of a unit. */
typedef struct unit_place {
  const uint8_t *in;
  nabla_dtype dtype;
  uint8_t *codes;
} unit_place;

/* Encodes one unit. @param tables  of the encoding, kept in registers */
typedef void unit_fn(unit_place at, const unit_scales *scales,
                     const void *tables);

/* An encoding. Its members are compile-time constants at each call of these
 * functions and are folded into the innermost loop. */
typedef struct coder {
  size_t bits;
  unit_fn *unit;
  nabla_kernel_code *self; /* the stage itself, for the values after the last
                            * unit */
  /* Prefetch distances of nabla_kernel_code_ahead in cache lines, for the
   * second and the first cache. They were the fastest on a Sapphire Rapids and
   * depend on the time that a unit takes; even numbers are up to 40 % slower.
   */
  size_t far, near;
  int is_signed; /* scales come from peaks, not from magnitudes */
} coder;

/* Encodes all whole units. */
INLINE void code_units(const coder *c, const nabla_blocks *blocks,
                       unit_place at, size_t count, size_t block,
                       const void *tables) {
  const size_t in_step = UNIT * width_of(at.dtype);
  const size_t out_step = UNIT / 8 * c->bits;
  size_t b = 0;
  while (count >= UNIT) {
    const unit_scales scales =
        scales_of(blocks, b, block < UNIT ? block / 16 : PARTS, at.dtype);
    const size_t step = block < UNIT ? UNIT : block;
    const size_t units = (count < step ? count : step) / UNIT;
    for (size_t i = 0; i < units; i++) {
      prefetch_unit(at.in, at.dtype);
      c->unit(at, &scales, tables);
      at.in += in_step;
      at.codes += out_step;
    }
    count -= units * UNIT;
    b += block < UNIT ? UNIT / block : 1;
  }
}

INLINE void code_dtype(const coder *c, const nabla_blocks *blocks,
                       unit_place at, size_t count, size_t block,
                       const void *tables) {
  if (block == 16)
    code_units(c, blocks, at, count, 16, tables);
  else if (block == 32)
    code_units(c, blocks, at, count, 32, tables);
  else if (block == 64)
    code_units(c, blocks, at, count, 64, tables);
  else
    code_units(c, blocks, at, count, block, tables);
}

/* Encodes the values after the last whole unit, in a copy that is filled up
 * with 0.0 in the last block. */
static inline void code_rest(const coder *c, const nabla_blocks *blocks,
                             unit_place at, size_t count, size_t block) {
  const size_t done = count / UNIT * UNIT, rest = count - done;
  const size_t width = width_of(at.dtype), last = (count - 1) / block;
  uint8_t in[UNIT * sizeof(float)] = {0}, codes[UNIT];
  float factors[PARTS], scales[PARTS], zeros[PARTS] = {0};
  for (size_t i = 0; i < PARTS; i++) {
    const size_t own = (done + 16 * i) / block, b = own < last ? own : last;
    factors[i] = blocks->factors[b];
    scales[i] = blocks->scales[b];
    if (blocks->zeros) zeros[i] = blocks->zeros[b];
  }
  nabla_blocks copy = *blocks;
  copy.factors = factors;
  copy.scales = scales;
  if (blocks->zeros) copy.zeros = zeros;
  memcpy(in, at.in + done * width, rest * width);
  c->self(&copy, in, at.dtype, UNIT, 16, codes);
  memcpy(at.codes + done / 8 * c->bits, codes, (rest * c->bits + 7) / 8);
}

/* Encodes all values of a call. */
INLINE void code_all(const coder *c, const nabla_blocks *blocks, const void *in,
                     nabla_dtype dtype, size_t count, size_t block,
                     uint8_t *codes, const void *tables) {
  unit_place at = {in, dtype, codes};
  if (count % UNIT) code_rest(c, blocks, at, count, block);
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    code_dtype(c, blocks, at, count, block, tables);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    code_dtype(c, blocks, at, count, block, tables);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    code_dtype(c, blocks, at, count, block, tables);
  }
}

/* State of the stage that codes one chunk while it reads the next. */
typedef struct look {
  vector most[NABLA_CHUNK_BLOCKS];
  uint8_t *past; /* see nabla_kernel_code_ahead */
} look;

/* Prefetches lines ahead of the chunk that is being read, first to the second
 * cache, which can have many more requests open. */
INLINE void ask_ahead(const coder *c, const uint8_t *next, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    const uintptr_t line = (uintptr_t)next + i;
    _mm_prefetch((const char *)(line + 64 * c->far), _MM_HINT_T1);
    _mm_prefetch((const char *)(line + 64 * c->near), _MM_HINT_T0);
  }
}

/* Codes one chunk and reads the next one at the same time, so that the loop
 * never waits for memory: `most` gets a vector of magnitudes for each block of
 * the next chunk, or for each unit of a block. The two alternate after each
 * unit, or after 64 values in blocks of 64 and more. Codes are stored past the
 * caches one line at a time, since many such stores at once would delay the
 * reads. */
INLINE void code_and_look(const coder *c, const nabla_blocks *blocks,
                          unit_place at, size_t block, const void *tables,
                          look *l) {
  const size_t width = width_of(at.dtype), turn = block >= 64 ? 64 : UNIT;
  const size_t span = block < UNIT ? block : UNIT;
  const uint8_t *next = at.in + NABLA_CHUNK * width;
  const uint8_t *line = at.codes - (uintptr_t)at.codes % 64;
  vector *most = l->most;
  uint8_t *past = l->past;
  for (size_t i = 0; i < NABLA_CHUNK; i += turn) {
    const unit_scales scales = scales_of(
        blocks, i / block, block < UNIT ? block / 16 : PARTS, at.dtype);
    ask_ahead(c, next, turn * width);
    for (size_t j = 0; j < turn; j += span)
      *most++ =
          max_of_span(next + j * width, span * width, at.dtype, c->is_signed);
    for (size_t j = 0; j < turn; j += UNIT) {
      c->unit(at, &scales, tables);
      at.in += UNIT * width;
      at.codes += UNIT / 8 * c->bits;
    }
    next += turn * width;
    /* Only lines whose stores are complete; the last one is written later. */
    if (past && at.codes - line >= 128) {
      stream_line(past, line);
      line += 64;
      past += 64;
    }
  }
  for (; past && at.codes - line >= 64; line += 64, past += 64)
    stream_line(past, line);
}

/* Largest magnitudes of `count` blocks, of which each has `each` vectors. */
INLINE void peaks_of(const vector *most, size_t count, size_t each,
                     nabla_dtype dtype, int is_signed, float *peaks) {
  for (size_t i = 0; i < count; i += LANES) {
    const size_t some = count - i < LANES ? count - i : LANES;
    vector dwords[LANES];
    float out[LANES];
    for (size_t j = 0; j < LANES; j++) {
      vector x = *most;
      for (size_t k = 1; k < each; k++) x = larger(x, most[k], dtype);
      dwords[j] = dwords_of(x, dtype);
      if (j + 1 < some) most += each;
    }
    most += each;
    store_floats(out, widened(max_of_lanes(dwords), dtype, is_signed));
    memcpy(peaks + i, out, some * sizeof *out);
  }
}

INLINE void code_ahead_dtype(const coder *c, const nabla_blocks *blocks,
                             unit_place at, size_t block, const void *tables,
                             const nabla_ahead *ahead) {
  look l;
  l.past = ahead->past;
  if (block == 16)
    code_and_look(c, blocks, at, 16, tables, &l);
  else if (block == 32)
    code_and_look(c, blocks, at, 32, tables, &l);
  else if (block == 64)
    code_and_look(c, blocks, at, 64, tables, &l);
  else
    code_and_look(c, blocks, at, block, tables, &l);
  const size_t count = NABLA_CHUNK / block;
  const size_t each = block < UNIT ? 1 : block / UNIT;
  if (each == 1)
    peaks_of(l.most, count, 1, at.dtype, c->is_signed, ahead->peaks);
  else if (each == 2)
    peaks_of(l.most, count, 2, at.dtype, c->is_signed, ahead->peaks);
  else
    peaks_of(l.most, count, each, at.dtype, c->is_signed, ahead->peaks);
}

/* Codes one chunk and reads the next. */
INLINE void code_ahead_all(const coder *c, const nabla_blocks *blocks,
                           const void *in, nabla_dtype dtype, size_t block,
                           uint8_t *codes, const void *tables,
                           const nabla_ahead *ahead) {
  unit_place at = {in, dtype, codes};
  if (dtype == NABLA_DTYPE_F32) {
    at.dtype = NABLA_DTYPE_F32;
    code_ahead_dtype(c, blocks, at, block, tables, ahead);
  } else if (dtype == NABLA_DTYPE_F16) {
    at.dtype = NABLA_DTYPE_F16;
    code_ahead_dtype(c, blocks, at, block, tables, ahead);
  } else {
    at.dtype = NABLA_DTYPE_BF16;
    code_ahead_dtype(c, blocks, at, block, tables, ahead);
  }
}

/* Defines nabla_<id>_code_<isa>. `make` supplies the tables of its unit
 * function. */
#define CODE_STAGE(id, isa, bits, unit, tables, make)                          \
  CODE_STAGE_OF(id, isa, tables, make, bits, unit, nabla_##id##_code_##isa, 0, \
                0, 0)

/* Defines that function and nabla_<id>_code_ahead_<isa>. */
#define CODE_STAGES(id, isa, bits, unit, tables, make, far, near)            \
  CODE_STAGES_OF(id, isa, tables, make, bits, unit, nabla_##id##_code_##isa, \
                 far, near, 0)
#define CODE_STAGES_SIGNED(id, isa, bits, unit, tables, make, far, near)     \
  CODE_STAGES_OF(id, isa, tables, make, bits, unit, nabla_##id##_code_##isa, \
                 far, near, 1)
#define CODE_STAGES_OF(id, isa, tables, make, ...)                           \
  CODE_STAGE_OF(id, isa, tables, make, __VA_ARGS__)                          \
  void nabla_##id##_code_ahead_##isa(                                        \
      const nabla_blocks *blocks, const void *in, nabla_dtype dtype,         \
      size_t block, uint8_t *codes, const nabla_ahead *ahead) {              \
    const tables t = make(blocks);                                           \
    code_ahead_all(&id##_coder, blocks, in, dtype, block, codes, &t, ahead); \
  }

/* @param ...  the coder */
#define CODE_STAGE_OF(id, isa, tables, make, ...)                             \
  static const coder id##_coder = {__VA_ARGS__};                              \
  void nabla_##id##_code_##isa(const nabla_blocks *blocks, const void *in,    \
                               nabla_dtype dtype, size_t count, size_t block, \
                               uint8_t *codes) {                              \
    const tables t = make(blocks);                                            \
    code_all(&id##_coder, blocks, in, dtype, count, block, codes, &t);        \
  }

/* `make` of a unit function without tables. */
typedef int no_tables;
#define NO_TABLES(blocks) 0

#endif
