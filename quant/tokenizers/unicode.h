/* What tokenizers ask of characters: letters, numbers, white space, and
 * normalization form C. The tables are made by scripts/make_unicode_tables,
 * which says their versions of Unicode. Normalization is in nfc.c. */
#ifndef NABLA_QUANT_TOKENIZERS_UNICODE_H
#define NABLA_QUANT_TOKENIZERS_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/memory.h"

typedef enum nabla_letter {
  NABLA_LETTER_OTHER,
  NABLA_LETTER_L,     /* \p{L}                                  */
  NABLA_LETTER_N,     /* \p{N}                                  */
  NABLA_LETTER_SPACE, /* \s: the property White_Space           */
} nabla_letter;

nabla_letter nabla_letter_of(uint32_t code);

/* Appends `text`, which is UTF-8, in normalization form C. */
NABLA_MUST_USE nabla_status nabla_nfc_append(nabla_buffer *out,
                                             const uint8_t *text, size_t size,
                                             nabla_diag *diag);

#endif
