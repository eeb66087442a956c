/* Building the tree breadth first from sorted pieces, and walking it; see
 * trie.h. */
#include "quant/tokenizers/trie.h"

#include <string.h>

#include "lib/base/sort.h"

#define MAX_NODES ((size_t)1 << 27)

/* The pieces below a node, while the tree is being built. */
typedef struct range {
  uint32_t begin, end, depth;
} range;

typedef struct builder {
  nabla_trie *trie;
  const nabla_vocabulary *vocabulary;
  const uint32_t *ids;
  nabla_buffer ranges; /* range, one for each node */
  nabla_diag *diag;
} builder;

static int compare(const void *a, const void *b, const void *context) {
  const nabla_vocabulary *vocabulary = context;
  const nabla_piece *one =
      nabla_vocabulary_at(vocabulary, *(const uint32_t *)a);
  const nabla_piece *two =
      nabla_vocabulary_at(vocabulary, *(const uint32_t *)b);
  const uint8_t *bytes = vocabulary->bytes.data;
  const uint32_t least = one->length < two->length ? one->length : two->length;
  const int order = memcmp(bytes + one->at, bytes + two->at, least);
  return order ? order
               : (one->length > two->length) - (one->length < two->length);
}

static const uint8_t *bytes_of(const builder *b, uint32_t index,
                               uint32_t *out_length) {
  const nabla_piece *piece = nabla_vocabulary_at(b->vocabulary, b->ids[index]);
  *out_length = piece->length;
  return b->vocabulary->bytes.data + piece->at;
}

static nabla_trie_node *node_at(const nabla_trie *trie, size_t index) {
  return (nabla_trie_node *)(void *)trie->nodes.data + index;
}

static nabla_status add_node(builder *b, range pieces, uint8_t byte) {
  const nabla_trie_node node = {0, NABLA_TOKEN_NONE, 0, byte};
  NABLA_TRY(nabla_buffer_append(&b->trie->nodes, &node, sizeof node, b->diag));
  return nabla_buffer_append(&b->ranges, &pieces, sizeof pieces, b->diag);
}

/* Appends the children of a node. */
static nabla_status grow(builder *b, size_t index) {
  range pieces = ((const range *)(const void *)b->ranges.data)[index];
  uint32_t length;
  (void)bytes_of(b, pieces.begin, &length);
  if (length == pieces.depth)
    node_at(b->trie, index)->id = b->ids[pieces.begin++];
  const size_t first = b->trie->nodes.size / sizeof(nabla_trie_node);
  for (uint32_t i = pieces.begin; i < pieces.end;) {
    const uint8_t byte = bytes_of(b, i, &length)[pieces.depth];
    const uint32_t begin = i;
    while (i < pieces.end && bytes_of(b, i, &length)[pieces.depth] == byte) i++;
    NABLA_TRY(add_node(b, (range){begin, i, pieces.depth + 1}, byte));
  }
  nabla_trie_node *node = node_at(b->trie, index);
  node->first = (uint32_t)first;
  node->count =
      (uint16_t)(b->trie->nodes.size / sizeof(nabla_trie_node) - first);
  return NABLA_OK;
}

static nabla_status build(builder *b, size_t count) {
  NABLA_TRY(add_node(b, (range){0, (uint32_t)count, 0}, 0));
  for (size_t i = 0; i < b->trie->nodes.size / sizeof(nabla_trie_node); i++)
    NABLA_TRY(grow(b, i));
  return NABLA_OK;
}

nabla_status nabla_trie_build(nabla_trie *trie,
                              const nabla_vocabulary *vocabulary, uint32_t *ids,
                              size_t count, nabla_diag *diag) {
  builder b = {
      .trie = trie, .vocabulary = vocabulary, .ids = ids, .diag = diag};
  nabla_buffer_init(&trie->nodes, vocabulary->allocator,
                    "bytes of a tokenizer's pieces",
                    MAX_NODES * sizeof(nabla_trie_node));
  nabla_buffer_init(&b.ranges, vocabulary->allocator,
                    "bytes of a tokenizer's pieces", MAX_NODES * sizeof(range));
  if (!count) return NABLA_OK;
  nabla_status status = nabla_sort(vocabulary->allocator, ids, count,
                                   sizeof *ids, compare, vocabulary, diag);
  if (!status) status = build(&b, count);
  nabla_buffer_deinit(&b.ranges);
  return status;
}

void nabla_trie_deinit(nabla_trie *trie) { nabla_buffer_deinit(&trie->nodes); }

uint32_t nabla_trie_child(const nabla_trie *trie, uint32_t node, uint8_t byte) {
  const nabla_trie_node *parent = node_at(trie, node);
  uint32_t low = parent->first, count = parent->count;
  while (count) {
    const uint32_t half = count / 2;
    const uint8_t other = node_at(trie, low + half)->byte;
    if (other == byte) return low + half;
    if (other < byte) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return NABLA_TRIE_NONE;
}

size_t nabla_trie_longest(const nabla_trie *trie, const uint8_t *text,
                          size_t size, uint32_t *out_id) {
  size_t longest = 0;
  uint32_t node = NABLA_TRIE_ROOT;
  if (!trie->nodes.size) return 0;
  for (size_t i = 0; i < size; i++) {
    node = nabla_trie_child(trie, node, text[i]);
    if (node == NABLA_TRIE_NONE) break;
    if (nabla_trie_id(trie, node) == NABLA_TOKEN_NONE) continue;
    longest = i + 1;
    *out_id = nabla_trie_id(trie, node);
  }
  return longest;
}
