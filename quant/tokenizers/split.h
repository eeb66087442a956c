/* Words of a text, as the regular expressions of patterns.def find them. */
#ifndef NABLA_QUANT_TOKENIZERS_SPLIT_H
#define NABLA_QUANT_TOKENIZERS_SPLIT_H

#include <stddef.h>
#include <stdint.h>

typedef struct nabla_split_pattern nabla_split_pattern;

/* Returns the pattern whose text that is, or NULL. */
const nabla_split_pattern *nabla_split_find(const char *text, size_t size);

/* Returns the pattern of GPT-2, which ByteLevel uses. */
const nabla_split_pattern *nabla_split_gpt2(void);

/* Returns the size of the word that `text` begins with; `size` is not 0. Every
 * character belongs to a word. */
size_t nabla_split_word(const nabla_split_pattern *pattern, const uint8_t *text,
                        size_t size);

#endif
