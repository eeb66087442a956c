/* The merges of a tokenizer.json: pairs of pieces, the earliest first. */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "quant/tokenizers/huggingface.h"

#define MAX_MERGES ((size_t)4 * NABLA_TOKENIZER_MAX_PIECES)

/* Hashes are seeded as those of the pieces are, at random. */
static size_t slot_of(const nabla_tokenizer *tokenizer, uint32_t left,
                      uint32_t right) {
  const nabla_hf_tokenizer *own = tokenizer->own;
  const uint64_t key = (uint64_t)left << 32 | right;
  const uint64_t hash =
      XXH3_64bits_withSeed(&key, sizeof key, tokenizer->vocabulary.index.seed);
  size_t at = (size_t)hash & (own->merge_slots - 1);
  while (own->merges[at].left != NABLA_TOKEN_NONE &&
         (own->merges[at].left != left || own->merges[at].right != right))
    at = (at + 1) & (own->merge_slots - 1);
  return at;
}

const nabla_merge *nabla_hf_find_merge(const nabla_tokenizer *tokenizer,
                                       uint32_t left, uint32_t right) {
  const nabla_hf_tokenizer *own = tokenizer->own;
  if (!own->merge_slots) return NULL;
  const nabla_merge *merge = &own->merges[slot_of(tokenizer, left, right)];
  return merge->left == NABLA_TOKEN_NONE ? NULL : merge;
}

/* Of a repeated pair the last counts, as for the reference. */
static nabla_status build_table(nabla_tokenizer *tokenizer,
                                const nabla_merge *merges, size_t count,
                                nabla_diag *diag) {
  nabla_hf_tokenizer *own = tokenizer->own;
  size_t slots = 16;
  void *memory;
  while (slots / 2 < count) slots *= 2;
  NABLA_TRY(nabla_alloc_raw(tokenizer->allocator, slots, sizeof(nabla_merge),
                            &memory, diag));
  nabla_free(tokenizer->allocator, own->merges, own->merge_slots,
             sizeof(nabla_merge)); /* of a list that stood before */
  own->merges = memory;
  own->merge_slots = slots;
  for (size_t i = 0; i < slots; i++) own->merges[i].left = NABLA_TOKEN_NONE;
  for (size_t i = 0; i < count; i++)
    own->merges[slot_of(tokenizer, merges[i].left, merges[i].right)] =
        merges[i];
  return NABLA_OK;
}

static nabla_status corrupt(nabla_diag *diag, uint64_t offset,
                            const char *what) {
  const nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "model.merges: %s", what);
  nabla_diag_set_offset(diag, offset);
  return status;
}

/* Finds the pieces of a merge: the first `left` bytes of `pair`, and the rest.
 */
static nabla_status resolve(const nabla_tokenizer *tokenizer, const char *pair,
                            size_t left, size_t size, uint64_t offset,
                            nabla_merge *out, nabla_diag *diag) {
  out->left = nabla_hf_find(tokenizer, pair, left);
  out->right = nabla_hf_find(tokenizer, pair + left, size - left);
  out->id = nabla_hf_find(tokenizer, pair, size);
  if (out->left == NABLA_TOKEN_NONE || out->right == NABLA_TOKEN_NONE ||
      out->id == NABLA_TOKEN_NONE)
    return corrupt(diag, offset, "a pair of which the vocabulary lacks a part");
  return NABLA_OK;
}

/* "a b": `pair` gets both without the blank. */
static nabla_status from_line(const nabla_json_event *event, nabla_buffer *pair,
                              size_t *out_left, nabla_diag *diag) {
  const char *blank = memchr(event->text, ' ', event->length);
  if (!blank ||
      memchr(blank + 1, ' ', event->length - (size_t)(blank + 1 - event->text)))
    return corrupt(diag, event->offset, "a line that is not two pieces");
  *out_left = (size_t)(blank - event->text);
  NABLA_TRY(nabla_buffer_append(pair, event->text, event->length, diag));
  memmove(pair->data + *out_left, pair->data + *out_left + 1,
          event->length - *out_left - 1);
  pair->size--;
  return NABLA_OK;
}

/* ["a", "b"], whose beginning has been read. */
static nabla_status from_array(nabla_json *json, nabla_buffer *pair,
                               size_t *out_left, nabla_diag *diag) {
  nabla_json_event event;
  for (int i = 0; i < 2; i++) {
    NABLA_TRY(
        nabla_json_expect(json, NABLA_JSON_STRING, "a piece", &event, diag));
    if (event.length)
      NABLA_TRY(nabla_buffer_append(pair, event.text, event.length, diag));
    if (!i) *out_left = pair->size;
  }
  return nabla_json_expect(json, NABLA_JSON_ARRAY_END, "the end of a pair",
                           &event, diag);
}

static nabla_status read_all(const nabla_tokenizer *tokenizer, nabla_json *json,
                             nabla_buffer *merges, nabla_buffer *pair,
                             nabla_diag *diag) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(json, NABLA_JSON_ARRAY_BEGIN, "the merges",
                              &event, diag));
  for (uint32_t rank = 0;;) {
    nabla_merge merge = {.rank = rank};
    size_t left = 0;
    pair->size = 0;
    NABLA_TRY(nabla_json_next(json, &event, diag));
    const uint64_t offset = event.offset;
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind == NABLA_JSON_STRING) {
      if (!strncmp(event.text, "#version", 8)) continue;
      NABLA_TRY(from_line(&event, pair, &left, diag));
    } else if (event.kind == NABLA_JSON_ARRAY_BEGIN) {
      NABLA_TRY(from_array(json, pair, &left, diag));
    } else {
      return corrupt(diag, offset, "neither a line nor a pair");
    }
    NABLA_TRY(resolve(tokenizer, (const char *)pair->data, left, pair->size,
                      offset, &merge, diag));
    NABLA_TRY(nabla_buffer_append(merges, &merge, sizeof merge, diag));
    rank++;
  }
}

nabla_status nabla_hf_read_merges(nabla_tokenizer *tokenizer, nabla_json *json,
                                  nabla_diag *diag) {
  nabla_buffer merges, pair;
  nabla_buffer_init(&merges, tokenizer->allocator, "merges of a tokenizer",
                    MAX_MERGES * sizeof(nabla_merge));
  nabla_buffer_init(&pair, tokenizer->allocator, "a merge of a tokenizer",
                    (size_t)2 * NABLA_JSON_MAX_STRING);
  nabla_status status = read_all(tokenizer, json, &merges, &pair, diag);
  if (!status)
    status = build_table(tokenizer, (const void *)merges.data,
                         merges.size / sizeof(nabla_merge), diag);
  nabla_buffer_deinit(&pair);
  nabla_buffer_deinit(&merges);
  return status;
}
