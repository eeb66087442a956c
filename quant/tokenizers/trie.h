/* A tree of pieces by their bytes, for finding those that a text begins with.
 * The children of a node lie side by side, in order. */
#ifndef NABLA_QUANT_TOKENIZERS_TRIE_H
#define NABLA_QUANT_TOKENIZERS_TRIE_H

#include "quant/tokenizers/vocabulary.h"

#define NABLA_TRIE_ROOT 0u
#define NABLA_TRIE_NONE UINT32_MAX

typedef struct nabla_trie_node {
  uint32_t first; /* child                                 */
  uint32_t id;    /* of the piece that ends here, or NABLA_TOKEN_NONE */
  uint16_t count; /* of children, 0 to 256                 */
  uint8_t byte;   /* that leads here                       */
} nabla_trie_node;

typedef struct nabla_trie {
  nabla_buffer nodes; /* nabla_trie_node; empty: no pieces */
} nabla_trie;

/* Makes the tree of `count` different pieces, none empty; sorts `ids`. */
NABLA_MUST_USE nabla_status nabla_trie_build(nabla_trie *trie,
                                             const nabla_vocabulary *vocabulary,
                                             uint32_t *ids, size_t count,
                                             nabla_diag *diag);

/* Of a zeroed one too. */
void nabla_trie_deinit(nabla_trie *trie);

/* Returns the child of `node` by `byte`, or NABLA_TRIE_NONE. */
uint32_t nabla_trie_child(const nabla_trie *trie, uint32_t node, uint8_t byte);

static inline uint32_t nabla_trie_id(const nabla_trie *trie, uint32_t node) {
  return ((const nabla_trie_node *)(const void *)trie->nodes.data)[node].id;
}

/* Returns the length of the longest piece that `text` begins with, and its id;
 * 0 when there is none. */
size_t nabla_trie_longest(const nabla_trie *trie, const uint8_t *text,
                          size_t size, uint32_t *out_id);

#endif
