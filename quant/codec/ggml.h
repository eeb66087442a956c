/* Byte layouts of the block formats of GGUF files, for use inside the
 * libraries. quant/codec/ggml.def documents the fields; the scalar codec, the
 * lowering of materialize and the kernels all read them. */
#ifndef NABLA_QUANT_CODEC_GGML_H
#define NABLA_QUANT_CODEC_GGML_H

#include "lib/base/bytes.h"
#include "nabla/ggml.h"

typedef enum nabla_ggml_sub {
  NABLA_GGML_SUB_NONE,
  NABLA_GGML_SUB_PACKED6,
  NABLA_GGML_SUB_BYTES,
} nabla_ggml_sub;

/* Number of elements that share a factor, of PACKED6 and of BYTES. */
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

/* Position of the lower bits of an element's code: a byte, and a shift. */
static inline uint32_t nabla_ggml_code_byte(const nabla_ggml_layout *l,
                                            uint32_t element) {
  if (!l->run) return l->codes + element;
  return l->codes + element / (2 * l->run) * l->run + element % l->run;
}
static inline uint32_t nabla_ggml_code_shift(const nabla_ggml_layout *l,
                                             uint32_t element) {
  return l->run ? element / l->run % 2 * 4 : 0;
}

/* Position of the upper bits, in layouts that have them. */
static inline uint32_t nabla_ggml_high_byte(const nabla_ggml_layout *l,
                                            uint32_t element) {
  return l->high + element * l->bits / 8 / l->part * l->part +
         element % l->part;
}
static inline uint32_t nabla_ggml_high_shift(const nabla_ggml_layout *l,
                                             uint32_t element) {
  return element / l->part % (8 / l->bits) * l->bits;
}

/* Returns the bits of 2^(e - 128), half of the E8M0 value, because table values
 * are doubled. Unlike in the encoding mxfp4, 255 is no NaN here. */
static inline uint32_t nabla_ggml_e8m0_bits(uint8_t e) {
  return e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23;
}

/* The codec of one block, to and from f32. Encoding returns 0 if the factor or
 * minimum is infinite in f16; the values must be finite. */
void nabla_ggml_decode_block(const nabla_ggml *format, const uint8_t *in,
                             float *out);
int nabla_ggml_encode_block(const nabla_ggml *format, const float *in,
                            uint8_t *out);

#endif
