/* SentencePiece's unigram model: the path through the text whose pieces have
 * the greatest sum of scores. Sums are rounded as there (unigram_model.cc,
 * EncodeOptimized), so that equal paths are decided alike. */
#include "lib/base/utf8.h"
#include "quant/tokenizers/sentencepiece.h"

#define UNKNOWN_PENALTY 10.0f /* kUnkPenalty */
#define USER_PENALTY    0.1f

/* The best path that ends at a byte. */
typedef struct place {
  uint32_t id;    /* of its last piece                          */
  float score;    /* its sum                                    */
  uint32_t begin; /* of its last piece; NO_PATH: no path so far */
} place;

#define NO_PATH UINT32_MAX

static void offer(place *to, uint32_t id, float score, size_t begin) {
  if (to->begin != NO_PATH && !(score > to->score)) return;
  *to = (place){id, score, (uint32_t)begin};
}

/* Tries all pieces that begin at `begin`, where a character of `length` bytes
 * does. */
static void try_pieces(const nabla_tokenizer *tokenizer, const uint8_t *text,
                       size_t size, size_t begin, place *places) {
  const nabla_sentencepiece *own = tokenizer->own;
  const size_t character = nabla_utf8_length(text + begin, size - begin);
  const float here = places[begin].score;
  uint32_t node = own->pieces.nodes.size ? NABLA_TRIE_ROOT : NABLA_TRIE_NONE;
  int is_known = 0;
  for (size_t at = begin; at < size && node != NABLA_TRIE_NONE; at++) {
    node = nabla_trie_child(&own->pieces, node, text[at]);
    if (node == NABLA_TRIE_NONE) break;
    const uint32_t id = nabla_trie_id(&own->pieces, node);
    if (id == NABLA_TOKEN_NONE) continue;
    const nabla_piece *piece = nabla_vocabulary_at(&tokenizer->vocabulary, id);
    const size_t length = at + 1 - begin;
    const float score = piece->kind == NABLA_PIECE_USER
                            ? (float)length * own->most - USER_PENALTY
                            : piece->score;
    offer(&places[at + 1], id, score + here, begin);
    is_known |= length == character;
  }
  if (!is_known)
    offer(&places[begin + character], tokenizer->roles.unk,
          own->least - UNKNOWN_PENALTY + here, begin);
}

/* Turns the path around: `begin` of each place on it becomes the end of the
 * piece that begins there. */
static void turn(place *places, size_t size) {
  uint32_t end = (uint32_t)size, id = NABLA_TOKEN_NONE;
  uint32_t next = NO_PATH; /* end of the piece that begins at `end` */
  for (;;) {
    const place here = places[end];
    places[end].begin = next;
    places[end].id = id;
    if (here.begin == NO_PATH) return;
    next = end;
    id = here.id;
    end = here.begin;
  }
}

static nabla_status put_path(nabla_encode_run *run, const uint8_t *text,
                             size_t size, const place *places) {
  for (size_t at = 0; at < size;) {
    const size_t end = places[at].begin;
    if (places[at].id == run->tokenizer->roles.unk)
      NABLA_TRY(nabla_encode_unknown(run, text + at, end - at, 1));
    else
      NABLA_TRY(nabla_encode_id(run, places[at].id));
    at = end;
  }
  return NABLA_OK;
}

nabla_status nabla_unigram_encode(nabla_encode_run *run, const uint8_t *text,
                                  size_t size) {
  const nabla_tokenizer *tokenizer = run->tokenizer;
  void *memory;
  if (!size) return NABLA_OK;
  NABLA_TRY(nabla_alloc_raw(tokenizer->allocator, size + 1, sizeof(place),
                            &memory, run->diag));
  place *places = memory;
  for (size_t i = 0; i <= size; i++)
    places[i] = (place){NABLA_TOKEN_NONE, 0, NO_PATH};
  for (size_t at = 0; at < size; at += nabla_utf8_length(text + at, size - at))
    try_pieces(tokenizer, text, size, at, places);
  turn(places, size);
  const nabla_status status = put_path(run, text, size, places);
  nabla_free(tokenizer->allocator, places, size + 1, sizeof(place));
  return status;
}
