/* Inside quant/: the signatures that encodings implement, and the pieces that
 * the tile runner needs when one row is larger than a tile. */
#ifndef NABLA_QUANT_CODEC_H
#define NABLA_QUANT_CODEC_H

#include "nabla/encoding.h"

/* Values of a 4-bit code. */
#define NABLA_TABLE_VALUES 16

/* What the codes 0 to 15 of a 4-bit encoding decode to with scale 1. */
void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]);

/* Largest |x| by the bits without sign, so that NaN counts as larger than
 * infinity and wins; 0 for count 0. */
float nabla_absmax(nabla_isa isa, const float *in, size_t count);

/* Codes of part of a row whose absmax (finite) is already known; the encoding
 * has rows. */
void nabla_encode_scaled(const nabla_encoding *encoding, nabla_isa isa,
                         const float *in, size_t count, float absmax,
                         uint8_t *codes);

#endif
