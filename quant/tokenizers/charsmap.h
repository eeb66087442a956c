/* SentencePiece's precompiled_charsmap: rules that replace what a text has, as
 * a double array (darts-clone) and the texts that it leads to. The bytes are a
 * file's, and not trusted. */
#ifndef NABLA_QUANT_TOKENIZERS_CHARSMAP_H
#define NABLA_QUANT_TOKENIZERS_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

/* Bytes of a text that one rule replaces, at most; those of SentencePiece's own
 * normalizers have less than 50. It bounds the time for each character. */
#define NABLA_CHARSMAP_MAX_KEY 256

typedef struct nabla_charsmap {
  const uint8_t *units; /* u32 each, little-endian */
  size_t unit_count;    /* 0: no rules             */
  const uint8_t *texts; /* each ends with a NUL    */
  size_t text_size;
} nabla_charsmap;

/* Finds the parts of `data`, which must outlive it; `size` 0 is no rules.
 * @return NABLA_CORRUPT when the parts do not fit or texts are not UTF-8 */
NABLA_MUST_USE nabla_status nabla_charsmap_read(const uint8_t *data,
                                                size_t size,
                                                nabla_charsmap *out,
                                                nabla_diag *diag);

/* Finds the longest rule for what `text` begins with.
 * @param out_text  what replaces it
 * @return how many bytes it replaces; 0 when there is no rule */
size_t nabla_charsmap_find(const nabla_charsmap *map, const uint8_t *text,
                           size_t size, const uint8_t **out_text,
                           size_t *out_size);

#endif
