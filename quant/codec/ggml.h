/* Inside the libraries: how the block formats of GGUF files lie in bytes. What
 * the fields mean is said in quant/codec/ggml.def; the scalar codec, the
 * lowering of materialize and kernels all read the same layout. */
#ifndef NABLA_QUANT_CODEC_GGML_H
#define NABLA_QUANT_CODEC_GGML_H

#include "lib/base/bytes.h"
#include "nabla/ggml.h"

typedef enum nabla_ggml_sub {
  NABLA_GGML_SUB_NONE,
  NABLA_GGML_SUB_PACKED6,
  NABLA_GGML_SUB_BYTES,
} nabla_ggml_sub;

/* Elements that share a factor of PACKED6, of BYTES. */
#define NABLA_GGML_PACKED6_PART 32u
#define NABLA_GGML_BYTES_PART   16u

/* Codes of a table have 4 bits. */
#define NABLA_GGML_TABLE_VALUES 16u

typedef struct nabla_ggml_layout {
  uint32_t codes, run;
  uint32_t high, bits, part;
  int32_t bias;
  const int8_t *table; /* NULL: none */
  int is_e8m0;         /* d is a power of two in a byte */
  uint32_t d;
  int32_t min; /* -1: none */
  nabla_ggml_sub sub;
  uint32_t sub_at;
} nabla_ggml_layout;

/* Where the lower bits of the code of an element lie: a byte, and a shift. */
static inline uint32_t nabla_ggml_code_byte(const nabla_ggml_layout *l,
                                            uint32_t element) {
  if (!l->run) return l->codes + element;
  return l->codes + element / (2 * l->run) * l->run + element % l->run;
}
static inline uint32_t nabla_ggml_code_shift(const nabla_ggml_layout *l,
                                             uint32_t element) {
  return l->run ? element / l->run % 2 * 4 : 0;
}

/* The same for the upper bits, of a layout that has such. */
static inline uint32_t nabla_ggml_high_byte(const nabla_ggml_layout *l,
                                            uint32_t element) {
  return l->high + element * l->bits / 8 / l->part * l->part +
         element % l->part;
}
static inline uint32_t nabla_ggml_high_shift(const nabla_ggml_layout *l,
                                             uint32_t element) {
  return element / l->part % (8 / l->bits) * l->bits;
}

/* 2^(e - 128): half of what E8M0 says, for values that are doubled. Unlike the
 * encoding mxfp4, 255 is no NaN here. */
static inline uint32_t nabla_ggml_e8m0_bits(uint8_t e) {
  return e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23;
}

/* The codec of one block, as f32. Encoding gives 0 when the factor or minimum
 * is infinite in f16; the values are finite. */
void nabla_ggml_decode_block(const nabla_ggml *format, const uint8_t *in,
                             float *out);
int nabla_ggml_encode_block(const nabla_ggml *format, const float *in,
                            uint8_t *out);

#endif
