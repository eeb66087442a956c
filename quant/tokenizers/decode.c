/* Ids to text: pieces, bytes that become characters, spaces that a beginning
 * leaves out. */
#include <string.h>

#include "lib/base/require.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/tokenizer_internal.h"

#define MAX_DECODED ((size_t)1 << 30)
enum { REPLACEMENT_SIZE = 3, HELD_MAX = 4 };

/* Text that is being written; there is always space, see
 * nabla_tokenizer_stream_capacity. */
typedef struct writer {
  const nabla_tokenizer *tokenizer;
  nabla_token_stream *stream;
  char *out;
  size_t size;
} writer;

static void put(writer *w, const void *text, size_t size) {
  const nabla_decode_rules *rules = &w->tokenizer->decode;
  const char *from = text;
  if (rules->strip == NABLA_STRIP_TEXT)
    for (; size && !w->stream->has_text && *from == ' ' &&
           w->stream->stripped < rules->strip_count;
         from++, size--)
      w->stream->stripped++;
  if (!size) return;
  memcpy(w->out + w->size, from, size);
  w->size += size;
  w->stream->has_text = 1;
}

/* The bytes at the beginning of `held` that can be written: a character, or
 * those that can no longer become one; 0 while more bytes may complete it. */
static size_t ready(const uint8_t *held, size_t size, int is_maximal,
                    int *out_is_valid) {
  const size_t whole = nabla_utf8_length(held, size);
  *out_is_valid = whole != 0;
  if (whole) return whole;
  const size_t need = nabla_utf8_need(held[0]);
  size_t good = 1; /* bytes that a character may begin with */
  static const uint8_t fill[2][3] = {{0x80, 0x80, 0x80}, {0xbf, 0xbf, 0xbf}};
  for (; need && good < size; good++) {
    uint8_t trial[2][HELD_MAX];
    int is_possible = 0;
    for (int i = 0; i < 2; i++) {
      memcpy(trial[i], held, good + 1);
      memcpy(trial[i] + good + 1, fill[i], HELD_MAX - good - 1);
      is_possible |= nabla_utf8_length(trial[i], need) != 0;
    }
    if (!is_possible) break;
  }
  if (need && good == size) return 0;
  return is_maximal ? good : 1;
}

static void drop_held(nabla_token_stream *stream, size_t count) {
  stream->held_count = (uint8_t)(stream->held_count - count);
  memmove(stream->held, stream->held + count, stream->held_count);
}

/* Writes what of the held bytes can be; at the end all of them. */
static void settle(writer *w, int is_end) {
  nabla_token_stream *stream = w->stream;
  const int is_maximal = w->tokenizer->decode.is_bytes;
  while (stream->held_count) {
    int is_valid;
    size_t count =
        ready(stream->held, stream->held_count, is_maximal, &is_valid);
    if (!count && !is_end) return;
    if (!count) count = is_maximal ? stream->held_count : 1;
    if (is_valid)
      put(w, stream->held, count);
    else
      put(w, NABLA_REPLACEMENT, REPLACEMENT_SIZE);
    drop_held(stream, count);
  }
}

static void put_bytes(writer *w, const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    w->stream->held[w->stream->held_count++] = bytes[i];
    settle(w, 0);
  }
}

/* The text of a piece without the marks that the rules leave out of the first
 * token. */
static void put_first(writer *w, const uint8_t *piece, size_t size) {
  const size_t mark = w->tokenizer->space_size;
  for (size_t at = 0; at < size;) {
    if (size - at >= mark && !memcmp(piece + at, w->tokenizer->space, mark)) {
      at += mark;
      continue;
    }
    put(w, piece + at++, 1);
  }
}

/* Whether the mark at the beginning of `piece` is left out. */
static int leaves_mark(writer *w, const nabla_piece *piece) {
  const nabla_strip strip = w->tokenizer->decode.strip;
  const nabla_vocabulary *vocabulary = &w->tokenizer->vocabulary;
  const size_t mark = w->tokenizer->space_size;
  nabla_token_stream *stream = w->stream;
  if (strip != NABLA_STRIP_PIECE && strip != NABLA_STRIP_PIECES) return 0;
  if (stream->stripped || stream->has_text) return 0;
  if (piece->kind == NABLA_PIECE_CONTROL || piece->kind == NABLA_PIECE_UNKNOWN)
    return 0;
  const int has_mark =
      piece->length >= mark &&
      !memcmp(vocabulary->bytes.data + piece->at, w->tokenizer->space, mark);
  stream->stripped = strip == NABLA_STRIP_PIECE && has_mark;
  return has_mark;
}

static void put_piece(writer *w, const nabla_piece *piece) {
  const nabla_tokenizer *tokenizer = w->tokenizer;
  const uint8_t *bytes = tokenizer->vocabulary.bytes.data;
  nabla_token_stream *stream = w->stream;
  const int is_first = !stream->has_begun;
  stream->has_begun = 1;
  if (tokenizer->decode.is_bytes || piece->kind == NABLA_PIECE_BYTE) {
    put_bytes(w, bytes + piece->text_at, piece->text_length);
    return;
  }
  settle(w, 1);
  if (!is_first && tokenizer->decode.is_spaced) put(w, " ", 1);
  if (is_first && tokenizer->decode.strip == NABLA_STRIP_FIRST) {
    put_first(w, bytes + piece->at, piece->length);
    return;
  }
  const uint32_t left = leaves_mark(w, piece) ? 1 : 0;
  put(w, bytes + piece->text_at + left, piece->text_length - left);
}

/* NULL if there is none, or if flags are unknown: the diag says which. */
static const nabla_piece *find_piece(const nabla_tokenizer *tokenizer,
                                     uint32_t id, unsigned flags,
                                     nabla_diag *diag) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  const uint32_t size = nabla_vocabulary_size(vocabulary);
  const nabla_piece *piece =
      id < size ? nabla_vocabulary_at(vocabulary, id) : NULL;
  if (flags & ~NABLA_DECODE_SKIP_SPECIAL) {
    (void)!nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "flags %#x; NABLA_DECODE_ lists them", flags);
    return NULL;
  }
  if (piece && piece->kind != NABLA_PIECE_ABSENT) return piece;
  (void)!nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "no piece has the id %u; the ids end at %u", id, size);
  return NULL;
}

size_t nabla_tokenizer_stream_capacity(const nabla_tokenizer *tokenizer) {
  const size_t wrong = (HELD_MAX + (size_t)1) * REPLACEMENT_SIZE;
  return wrong + (size_t)tokenizer->vocabulary.longest_text * REPLACEMENT_SIZE;
}

static nabla_status check_capacity(const nabla_tokenizer *tokenizer,
                                   size_t capacity, nabla_diag *diag) {
  const size_t need = nabla_tokenizer_stream_capacity(tokenizer);
  if (capacity >= need) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "space for %zu bytes; nabla_tokenizer_stream_capacity says "
                    "%zu",
                    capacity, need);
}

nabla_status nabla_tokenizer_stream_next(const nabla_tokenizer *tokenizer,
                                         nabla_token_stream *stream,
                                         uint32_t id, unsigned flags, char *out,
                                         size_t capacity, size_t *out_size,
                                         nabla_diag *diag) {
  NABLA_REQUIRE(tokenizer, diag);
  NABLA_REQUIRE(stream, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE(out_size, diag);
  writer w = {tokenizer, stream, out, 0};
  NABLA_TRY(check_capacity(tokenizer, capacity, diag));
  const nabla_piece *piece = find_piece(tokenizer, id, flags, diag);
  if (!piece) return NABLA_INVALID_ARGUMENT;
  if (!(flags & NABLA_DECODE_SKIP_SPECIAL) || !piece->is_special)
    put_piece(&w, piece);
  *out_size = w.size;
  return NABLA_OK;
}

nabla_status nabla_tokenizer_stream_flush(const nabla_tokenizer *tokenizer,
                                          nabla_token_stream *stream, char *out,
                                          size_t capacity, size_t *out_size,
                                          nabla_diag *diag) {
  NABLA_REQUIRE(tokenizer, diag);
  NABLA_REQUIRE(stream, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE(out_size, diag);
  writer w = {tokenizer, stream, out, 0};
  NABLA_TRY(check_capacity(tokenizer, capacity, diag));
  settle(&w, 1);
  *stream = (nabla_token_stream){.held_count = 0};
  *out_size = w.size;
  return NABLA_OK;
}

/* A decoding of all ids. */
typedef struct whole {
  const nabla_tokenizer *tokenizer;
  nabla_token_stream stream;
  nabla_buffer text, run; /* `run`: bytes of byte pieces not yet written */
  nabla_diag *diag;
} whole;

/* Reserves space behind the text; the size stays. */
static nabla_status reserve(whole *all, size_t size, writer *out) {
  const size_t before = all->text.size;
  if (all->text.capacity - before < size) {
    NABLA_TRY(nabla_buffer_append(&all->text, NULL, size, all->diag));
    all->text.size = before;
  }
  *out = (writer){all->tokenizer, &all->stream, (char *)all->text.data + before,
                  0};
  return NABLA_OK;
}

/* Writes a run of byte pieces: its bytes if they are UTF-8, else as many
 * U+FFFD. */
static nabla_status end_run(whole *all) {
  const size_t size = all->run.size;
  size_t at = 0, step;
  writer w;
  if (!size) return NABLA_OK;
  NABLA_TRY(reserve(all, size * REPLACEMENT_SIZE, &w));
  while (at < size && (step = nabla_utf8_length(all->run.data + at, size - at)))
    at += step;
  if (at == size)
    put(&w, all->run.data, size);
  else
    for (size_t i = 0; i < size; i++)
      put(&w, NABLA_REPLACEMENT, REPLACEMENT_SIZE);
  all->text.size += w.size;
  all->run.size = 0;
  return NABLA_OK;
}

static nabla_status decode_one(whole *all, uint32_t id, unsigned flags) {
  const nabla_tokenizer *tokenizer = all->tokenizer;
  writer w;
  const nabla_piece *piece = find_piece(tokenizer, id, flags, all->diag);
  if (!piece) return NABLA_INVALID_ARGUMENT;
  if (flags & NABLA_DECODE_SKIP_SPECIAL && piece->is_special) return NABLA_OK;
  if (tokenizer->decode.whole_runs && piece->kind == NABLA_PIECE_BYTE) {
    all->stream.has_begun = 1;
    return nabla_buffer_append(&all->run, &piece->byte, 1, all->diag);
  }
  NABLA_TRY(end_run(all));
  NABLA_TRY(reserve(all, nabla_tokenizer_stream_capacity(tokenizer), &w));
  put_piece(&w, piece);
  all->text.size += w.size;
  return NABLA_OK;
}

static nabla_status decode_all(whole *all, const uint32_t *ids, size_t count,
                               unsigned flags, nabla_token_text *out) {
  writer w;
  for (size_t i = 0; i < count; i++) {
    const nabla_status status = decode_one(all, ids[i], flags);
    if (status == NABLA_INVALID_ARGUMENT)
      nabla_diag_set_next(all->diag, "look at id number %zu of %zu", i, count);
    if (status) return status;
  }
  NABLA_TRY(end_run(all));
  NABLA_TRY(reserve(all, nabla_tokenizer_stream_capacity(all->tokenizer), &w));
  settle(&w, 1);
  all->text.size += w.size;
  void *bytes;
  NABLA_TRY(nabla_alloc_raw(all->tokenizer->allocator, all->text.size + 1, 1,
                            &bytes, all->diag));
  memcpy(bytes, all->text.data, all->text.size);
  ((char *)bytes)[all->text.size] = '\0';
  *out = (nabla_token_text){bytes, all->text.size};
  return NABLA_OK;
}

nabla_status nabla_tokenizer_decode(const nabla_tokenizer *tokenizer,
                                    const uint32_t *ids, size_t count,
                                    unsigned flags, nabla_token_text *out,
                                    nabla_diag *diag) {
  NABLA_REQUIRE(tokenizer, diag);
  if (count) NABLA_REQUIRE(ids, diag);
  NABLA_REQUIRE(out, diag);
  whole all = {.tokenizer = tokenizer, .diag = diag};
  nabla_buffer_init(&all.text, tokenizer->allocator, "a decoded text",
                    MAX_DECODED);
  nabla_buffer_init(&all.run, tokenizer->allocator, "a decoded text",
                    MAX_DECODED);
  const nabla_status status = decode_all(&all, ids, count, flags, out);
  nabla_buffer_deinit(&all.run);
  nabla_buffer_deinit(&all.text);
  return status;
}

void nabla_token_text_release(const nabla_tokenizer *tokenizer,
                              nabla_token_text *text) {
  if (!tokenizer || !text) return;
  if (text->bytes)
    nabla_free(tokenizer->allocator, text->bytes, text->size + 1, 1);
  *text = (nabla_token_text){NULL, 0};
}
