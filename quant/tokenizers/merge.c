/* The heap of pairs and the list of symbols; see merge.h. */
#include "quant/tokenizers/merge.h"

#include "nabla/tokenizer.h"

/* A pair that could be joined when it was found. It no longer can if the two
 * are not `length` bytes together. */
typedef struct pair {
  uint32_t key, left, id, length;
} pair;

/* A symbol has at least one byte, and each join leaves at most one pair more
 * than there was. */
#define MAX_SYMBOLS ((size_t)NABLA_TOKENIZER_MAX_TEXT * 4)

void nabla_merger_init(nabla_merger *merger, const nabla_allocator *allocator) {
  nabla_buffer_init(&merger->symbols, allocator, "symbols of a text",
                    MAX_SYMBOLS * sizeof(nabla_symbol));
  nabla_buffer_init(&merger->heap, allocator, "pairs of symbols of a text",
                    2 * MAX_SYMBOLS * sizeof(pair));
}

void nabla_merger_deinit(nabla_merger *merger) {
  nabla_buffer_deinit(&merger->heap);
  nabla_buffer_deinit(&merger->symbols);
}

void nabla_merger_clear(nabla_merger *merger) {
  merger->symbols.size = 0;
  merger->heap.size = 0;
}

nabla_status nabla_merger_add(nabla_merger *merger, uint32_t at,
                              uint32_t length, uint32_t id, int is_frozen,
                              nabla_diag *diag) {
  const int32_t count = (int32_t)(merger->symbols.size / sizeof(nabla_symbol));
  const nabla_symbol symbol = {at,        length, id, (uint32_t)is_frozen,
                               count - 1, -1};
  NABLA_TRY(
      nabla_buffer_append(&merger->symbols, &symbol, sizeof symbol, diag));
  if (count)
    ((nabla_symbol *)(void *)merger->symbols.data)[count - 1].next = count;
  return NABLA_OK;
}

static int is_before(const pair *a, const pair *b) {
  return a->key != b->key ? a->key < b->key : a->left < b->left;
}

static void sift_up(pair *heap, size_t at) {
  const pair item = heap[at];
  while (at && is_before(&item, &heap[(at - 1) / 2])) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = item;
}

static void sift_down(pair *heap, size_t count, size_t at) {
  const pair item = heap[at];
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_before(&heap[child + 1], &heap[child])) child++;
    if (!is_before(&heap[child], &item)) break;
    heap[at] = heap[child];
  }
  heap[at] = item;
}

/* What one run works on. */
typedef struct run {
  nabla_merger *merger;
  nabla_symbol *symbols;
  const uint8_t *text;
  nabla_merge_rule rule;
  nabla_diag *diag;
} run;

/* Appends the pair that begins at `left` if it can be joined. */
static nabla_status find_pair(const run *r, int32_t left) {
  const int32_t right = left < 0 ? -1 : r->symbols[left].next;
  if (right < 0) return NABLA_OK;
  const nabla_symbol *a = &r->symbols[left], *b = &r->symbols[right];
  pair found = {.left = (uint32_t)left, .length = a->length + b->length};
  if (a->is_frozen || b->is_frozen ||
      !r->rule.join(r->rule.self, r->text, a, b, &found.key, &found.id))
    return NABLA_OK;
  return nabla_buffer_append(&r->merger->heap, &found, sizeof found, r->diag);
}

static nabla_status push_pair(const run *r, int32_t left) {
  nabla_buffer *heap = &r->merger->heap;
  const size_t before = heap->size;
  NABLA_TRY(find_pair(r, left));
  if (heap->size != before)
    sift_up((pair *)(void *)heap->data, before / sizeof(pair));
  return NABLA_OK;
}

static pair pop_pair(nabla_buffer *heap) {
  pair *pairs = (void *)heap->data;
  const pair best = pairs[0];
  heap->size -= sizeof(pair);
  const size_t count = heap->size / sizeof(pair);
  pairs[0] = pairs[count];
  if (count) sift_down(pairs, count, 0);
  return best;
}

/* Joins the pair unless one of the two has changed since it was found. */
static nabla_status join(const run *r, const pair *best) {
  nabla_symbol *left = &r->symbols[best->left];
  if (!left->length || left->next < 0) return NABLA_OK;
  nabla_symbol *right = &r->symbols[left->next];
  if (left->length + right->length != best->length) return NABLA_OK;
  left->length = best->length;
  left->id = best->id;
  right->length = 0;
  left->next = right->next;
  if (right->next >= 0) r->symbols[right->next].previous = (int32_t)best->left;
  NABLA_TRY(push_pair(r, left->previous));
  return push_pair(r, (int32_t)best->left);
}

nabla_status nabla_merger_run(nabla_merger *merger, const uint8_t *text,
                              nabla_merge_rule rule, nabla_diag *diag) {
  const run r = {merger, (void *)merger->symbols.data, text, rule, diag};
  const size_t count = merger->symbols.size / sizeof(nabla_symbol);
  for (size_t i = 0; i + 1 < count; i++) NABLA_TRY(find_pair(&r, (int32_t)i));
  const size_t pairs = merger->heap.size / sizeof(pair);
  for (size_t i = pairs / 2; i-- > 0;)
    sift_down((pair *)(void *)merger->heap.data, pairs, i);
  while (merger->heap.size) {
    const pair best = pop_pair(&merger->heap);
    NABLA_TRY(join(&r, &best));
  }
  return NABLA_OK;
}
