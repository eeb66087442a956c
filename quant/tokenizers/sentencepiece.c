/* Reading tokenizer.model of SentencePiece (sentencepiece_model.proto), and its
 * BPE. Functions of its header are in normalize.c and unigram.c too. */
#include "quant/tokenizers/sentencepiece.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "quant/tokenizers/proto.h"

enum { MAX_NAME = 256 };

/* Fields of ModelProto, SentencePiece, TrainerSpec and NormalizerSpec. */
enum {
  MODEL_PIECES = 1,
  MODEL_TRAINER,
  MODEL_NORMALIZER,
  MODEL_DENORMALIZER = 5
};
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum {
  TRAINER_TYPE = 3,
  TRAINER_SUFFIX = 24,
  TRAINER_BYTES = 35,
  TRAINER_UNKNOWN_TEXT = 44,
  TRAINER_BOS = 46,
  TRAINER_EOS = 47,
};
enum {
  NORMALIZER_MAP = 2,
  NORMALIZER_PREFIX,
  NORMALIZER_REMOVES,
  NORMALIZER_ESCAPES
};

/* Texts of the file's specification, shortened to none if longer. */
typedef struct name {
  char text[MAX_NAME];
  size_t size;
} name;

typedef struct reader {
  nabla_tokenizer *tokenizer;
  nabla_sentencepiece *own;
  uint32_t count; /* of pieces so far */
  name bos, eos, unknown_text;
  nabla_diag *diag;
} reader;

static nabla_status refuse(nabla_diag *diag, nabla_status status, size_t offset,
                           const char *what) {
  const nabla_status failed = nabla_fail(diag, status, "%s", what);
  nabla_diag_set_offset(diag, offset);
  return failed;
}

static int is_utf8(const uint8_t *text, size_t size) {
  for (size_t at = 0, step; at < size; at += step)
    if (!(step = nabla_utf8_length(text + at, size - at))) return 0;
  return 1;
}

static nabla_status take_name(const reader *r, const nabla_proto_field *field,
                              const char *what, name *out) {
  NABLA_TRY(nabla_proto_expect(field, NABLA_PROTO_BYTES, what, r->diag));
  if (field->contents.size > MAX_NAME)
    return refuse(r->diag, NABLA_TOO_LARGE, field->offset,
                  "a name of the trainer's has more than 256 bytes");
  if (!is_utf8(field->contents.data, field->contents.size))
    return refuse(r->diag, NABLA_CORRUPT, field->offset,
                  "a name of the trainer's is not UTF-8");
  out->size = field->contents.size;
  memcpy(out->text, field->contents.data, out->size);
  return NABLA_OK;
}

static nabla_status take_flag(const reader *r, const nabla_proto_field *field,
                              const char *what, int *out) {
  NABLA_TRY(nabla_proto_expect(field, NABLA_PROTO_VARINT, what, r->diag));
  *out = field->value != 0;
  return NABLA_OK;
}

static nabla_status take_type(const reader *r, const nabla_proto_field *field) {
  NABLA_TRY(
      nabla_proto_expect(field, NABLA_PROTO_VARINT, "model_type", r->diag));
  if (field->value != NABLA_SENTENCEPIECE_BPE &&
      field->value != NABLA_SENTENCEPIECE_UNIGRAM)
    return refuse(r->diag, NABLA_UNSUPPORTED, field->offset,
                  "trainer_spec.model_type is neither UNIGRAM nor BPE");
  r->own->type = (nabla_sentencepiece_type)field->value;
  return NABLA_OK;
}

static nabla_status read_trainer(reader *r, nabla_proto message) {
  nabla_proto_field field;
  for (int is_end;;) {
    NABLA_TRY(nabla_proto_next(&message, &field, &is_end, r->diag));
    if (is_end) return NABLA_OK;
    if (field.number == TRAINER_TYPE) NABLA_TRY(take_type(r, &field));
    if (field.number == TRAINER_SUFFIX)
      NABLA_TRY(take_flag(r, &field, "treat_whitespace_as_suffix",
                          &r->own->has_suffix));
    if (field.number == TRAINER_BYTES)
      NABLA_TRY(take_flag(r, &field, "byte_fallback", &r->own->falls_to_bytes));
    if (field.number == TRAINER_UNKNOWN_TEXT)
      NABLA_TRY(take_name(r, &field, "unk_surface", &r->unknown_text));
    if (field.number == TRAINER_BOS)
      NABLA_TRY(take_name(r, &field, "bos_piece", &r->bos));
    if (field.number == TRAINER_EOS)
      NABLA_TRY(take_name(r, &field, "eos_piece", &r->eos));
  }
}

static nabla_status take_map(const reader *r, const nabla_proto_field *field) {
  nabla_sentencepiece *own = r->own;
  const nabla_cursor *bytes = &field->contents;
  NABLA_TRY(nabla_proto_expect(field, NABLA_PROTO_BYTES, "precompiled_charsmap",
                               r->diag));
  own->rules.size = 0;
  if (bytes->size)
    NABLA_TRY(
        nabla_buffer_append(&own->rules, bytes->data, bytes->size, r->diag));
  const nabla_status status = nabla_charsmap_read(
      own->rules.data, own->rules.size, &own->charsmap, r->diag);
  if (status) nabla_diag_set_offset(r->diag, field->offset);
  return status;
}

static nabla_status read_normalizer(const reader *r, nabla_proto message) {
  nabla_sentencepiece *own = r->own;
  nabla_proto_field field;
  for (int is_end;;) {
    NABLA_TRY(nabla_proto_next(&message, &field, &is_end, r->diag));
    if (is_end) return NABLA_OK;
    if (field.number == NORMALIZER_MAP) NABLA_TRY(take_map(r, &field));
    if (field.number == NORMALIZER_PREFIX)
      NABLA_TRY(take_flag(r, &field, "add_dummy_prefix", &own->adds_prefix));
    if (field.number == NORMALIZER_REMOVES)
      NABLA_TRY(take_flag(r, &field, "remove_extra_whitespaces",
                          &own->removes_spaces));
    if (field.number == NORMALIZER_ESCAPES)
      NABLA_TRY(
          take_flag(r, &field, "escape_whitespaces", &own->escapes_spaces));
  }
}

static nabla_status read_denormalizer(const reader *r, nabla_proto message) {
  nabla_proto_field field;
  for (int is_end;;) {
    NABLA_TRY(nabla_proto_next(&message, &field, &is_end, r->diag));
    if (is_end) return NABLA_OK;
    if (field.number == NORMALIZER_MAP && field.contents.size)
      return refuse(r->diag, NABLA_UNSUPPORTED, field.offset,
                    "denormalizer_spec.precompiled_charsmap: decoded text that "
                    "is changed once more is not supported");
  }
}

static nabla_status add_piece(reader *r, nabla_piece_source piece,
                              size_t offset) {
  if (!piece.length)
    return refuse(r->diag, NABLA_CORRUPT, offset, "a piece is empty");
  if (!is_utf8((const uint8_t *)piece.bytes, piece.length))
    return refuse(r->diag, NABLA_CORRUPT, offset, "a piece is not UTF-8");
  if (isnan(piece.score))
    return refuse(r->diag, NABLA_CORRUPT, offset,
                  "the score of a piece is not a number");
  const uint32_t id = r->count++;
  NABLA_TRY(
      nabla_vocabulary_put(&r->tokenizer->vocabulary, id, piece, r->diag));
  if (piece.kind == NABLA_PIECE_UNKNOWN) {
    if (r->tokenizer->roles.unk != NABLA_TOKEN_NONE)
      return refuse(r->diag, NABLA_CORRUPT, offset,
                    "two pieces are of the type UNKNOWN");
    r->tokenizer->roles.unk = id;
  }
  nabla_vocabulary_at(&r->tokenizer->vocabulary, id)->is_special =
      piece.kind == NABLA_PIECE_UNKNOWN || piece.kind == NABLA_PIECE_CONTROL;
  return NABLA_OK;
}

static nabla_status read_piece(reader *r, nabla_proto message, size_t offset) {
  nabla_piece_source piece = {"", 0, 0, NABLA_PIECE_NORMAL};
  nabla_proto_field field;
  for (int is_end;;) {
    NABLA_TRY(nabla_proto_next(&message, &field, &is_end, r->diag));
    if (is_end) return add_piece(r, piece, offset);
    if (field.number == PIECE_TEXT) {
      NABLA_TRY(
          nabla_proto_expect(&field, NABLA_PROTO_BYTES, "piece", r->diag));
      piece.bytes = (const char *)field.contents.data;
      piece.length = field.contents.size;
    }
    if (field.number == PIECE_SCORE) {
      NABLA_TRY(
          nabla_proto_expect(&field, NABLA_PROTO_FIXED32, "score", r->diag));
      piece.score = nabla_f32_of_bits((uint32_t)field.value);
    }
    if (field.number == PIECE_TYPE) {
      NABLA_TRY(
          nabla_proto_expect(&field, NABLA_PROTO_VARINT, "type", r->diag));
      if (!field.value || field.value > NABLA_PIECE_BYTE)
        return refuse(r->diag, NABLA_CORRUPT, field.offset,
                      "a piece is of no type that is known");
      piece.kind = (nabla_piece_kind)field.value;
    }
  }
}

static nabla_status read_model(reader *r, nabla_proto message) {
  nabla_proto_field field;
  for (int is_end;;) {
    NABLA_TRY(nabla_proto_next(&message, &field, &is_end, r->diag));
    if (is_end) return NABLA_OK;
    if (field.number < MODEL_PIECES || field.number > MODEL_DENORMALIZER ||
        field.number == MODEL_DENORMALIZER - 1)
      continue; /* test data, extensions */
    NABLA_TRY(
        nabla_proto_expect(&field, NABLA_PROTO_BYTES, "ModelProto", r->diag));
    const nabla_proto inner = nabla_proto_inner(&message, &field);
    if (field.number == MODEL_PIECES)
      NABLA_TRY(read_piece(r, inner, field.offset));
    if (field.number == MODEL_TRAINER) NABLA_TRY(read_trainer(r, inner));
    if (field.number == MODEL_NORMALIZER) NABLA_TRY(read_normalizer(r, inner));
    if (field.number == MODEL_DENORMALIZER)
      NABLA_TRY(read_denormalizer(r, inner));
  }
}

static nabla_status check_bytes(const reader *r) {
  const uint32_t *ids = r->tokenizer->vocabulary.byte_ids;
  int count = 0;
  for (int i = 0; i < 256; i++) count += ids[i] != NABLA_TOKEN_NONE;
  if (count == (r->own->falls_to_bytes ? 256 : 0)) return NABLA_OK;
  return nabla_fail(r->diag, NABLA_CORRUPT,
                    "byte_fallback is %s, but %d pieces are bytes",
                    r->own->falls_to_bytes ? "true" : "false", count);
}

/* Makes a tree of the pieces of some kinds; `kinds` has a bit for each. */
static nabla_status build_tree(const reader *r, unsigned kinds,
                               nabla_trie *out) {
  const nabla_vocabulary *vocabulary = &r->tokenizer->vocabulary;
  nabla_buffer ids;
  nabla_status status = NABLA_OK;
  nabla_buffer_init(&ids, r->tokenizer->allocator, "pieces of a tokenizer",
                    sizeof(uint32_t) * NABLA_TOKENIZER_MAX_PIECES);
  for (uint32_t id = 0; id < r->count && !status; id++)
    if (kinds >> nabla_vocabulary_at(vocabulary, id)->kind & 1)
      status = nabla_buffer_append(&ids, &id, sizeof id, r->diag);
  if (!status)
    status = nabla_trie_build(out, vocabulary, (void *)ids.data,
                              ids.size / sizeof(uint32_t), r->diag);
  nabla_buffer_deinit(&ids);
  return status;
}

/* What depends on all pieces. The tree of a unigram model needs pieces that
 * differ, which nabla_vocabulary_finish checks. */
static nabla_status prepare(reader *r) {
  nabla_tokenizer *tokenizer = r->tokenizer;
  nabla_sentencepiece *own = r->own;
  int unused = 0;
  own->least = FLT_MAX;
  own->most = FLT_MIN; /* as SentencePiece has it: the least positive */
  for (uint32_t id = 0; id < r->count; id++) {
    const nabla_piece *piece = nabla_vocabulary_at(&tokenizer->vocabulary, id);
    unused |= piece->kind == NABLA_PIECE_UNUSED;
    if (piece->kind != NABLA_PIECE_NORMAL) continue;
    if (piece->score < own->least) own->least = piece->score;
    if (piece->score > own->most) own->most = piece->score;
  }
  if (unused && own->type == NABLA_SENTENCEPIECE_BPE)
    return nabla_fail(r->diag, NABLA_UNSUPPORTED,
                      "a BPE model with pieces of the type UNUSED");
  if (tokenizer->roles.unk == NABLA_TOKEN_NONE)
    return nabla_fail(r->diag, NABLA_CORRUPT,
                      "no piece is of the type UNKNOWN");
  NABLA_TRY(check_bytes(r));
  NABLA_TRY(build_tree(r, 1u << NABLA_PIECE_USER, &own->users));
  if (own->type == NABLA_SENTENCEPIECE_BPE) return NABLA_OK;
  return build_tree(r, 1u << NABLA_PIECE_USER | 1u << NABLA_PIECE_NORMAL,
                    &own->pieces);
}

static uint32_t role(const reader *r, const name *piece) {
  const uint32_t id = nabla_vocabulary_find(&r->tokenizer->vocabulary,
                                            piece->text, piece->size);
  return id == r->tokenizer->roles.unk ? NABLA_TOKEN_NONE : id;
}

static nabla_status finish(reader *r) {
  nabla_tokenizer *tokenizer = r->tokenizer;
  const nabla_sentencepiece *own = r->own;
  NABLA_TRY(nabla_vocabulary_finish(&tokenizer->vocabulary, r->diag));
  NABLA_TRY(prepare(r));
  tokenizer->roles.bos = role(r, &r->bos);
  tokenizer->roles.eos = role(r, &r->eos);
  tokenizer->falls_to_bytes = own->falls_to_bytes;
  tokenizer->decode.strip = own->removes_spaces ? NABLA_STRIP_PIECES
                            : own->adds_prefix  ? NABLA_STRIP_PIECE
                                                : NABLA_STRIP_NONE;
  nabla_tokenizer_set_space(tokenizer, NABLA_SPACE_MARK);
  NABLA_TRY(nabla_tokenizer_set_texts(tokenizer, r->diag));
  return nabla_vocabulary_set_text(&tokenizer->vocabulary, tokenizer->roles.unk,
                                   r->unknown_text.text, r->unknown_text.size,
                                   r->diag);
}

static nabla_status read_file(nabla_tokenizer *tokenizer, const uint8_t *data,
                              size_t size, nabla_diag *diag) {
  void *memory;
  reader r = {.tokenizer = tokenizer,
              .bos = {"<s>", 3},
              .eos = {"</s>", 4},
              .unknown_text = {" \xe2\x81\x87 ", 5},
              .diag = diag};
  NABLA_TRY(nabla_alloc(tokenizer->allocator, 1, sizeof *r.own, &memory, diag));
  tokenizer->own = r.own = memory;
  *r.own = (nabla_sentencepiece){.type = NABLA_SENTENCEPIECE_UNIGRAM,
                                 .adds_prefix = 1,
                                 .removes_spaces = 1,
                                 .escapes_spaces = 1};
  nabla_buffer_init(&r.own->rules, tokenizer->allocator,
                    "rules of a precompiled_charsmap",
                    NABLA_TOKENIZER_MAX_FILE);
  NABLA_TRY(read_model(&r, (nabla_proto){{data, size, 0}, 0}));
  return finish(&r);
}

static void deinit(nabla_tokenizer *tokenizer) {
  nabla_sentencepiece *own = tokenizer->own;
  if (!own) return;
  nabla_trie_deinit(&own->pieces);
  nabla_trie_deinit(&own->users);
  nabla_buffer_deinit(&own->rules);
  nabla_free(tokenizer->allocator, own, 1, sizeof *own);
}

static nabla_status add_symbols(nabla_encode_run *run, const uint8_t *text,
                                size_t size) {
  const nabla_sentencepiece *own = run->tokenizer->own;
  const nabla_vocabulary *vocabulary = &run->tokenizer->vocabulary;
  for (size_t at = 0; at < size;) {
    uint32_t id;
    size_t length = nabla_trie_longest(&own->users, text + at, size - at, &id);
    const int is_user = length != 0;
    if (!is_user) {
      length = nabla_utf8_length(text + at, size - at);
      id = nabla_vocabulary_find(vocabulary, text + at, length);
      if (id != NABLA_TOKEN_NONE &&
          nabla_vocabulary_at(vocabulary, id)->kind != NABLA_PIECE_NORMAL)
        id = NABLA_TOKEN_NONE;
    }
    NABLA_TRY(nabla_merger_add(&run->merger, (uint32_t)at, (uint32_t)length, id,
                               is_user, run->diag));
    at += length;
  }
  return NABLA_OK;
}

static nabla_status encode(nabla_encode_run *run, const uint8_t *text,
                           size_t size) {
  const nabla_sentencepiece *own = run->tokenizer->own;
  if (run->flags & NABLA_ENCODE_ADD_SPECIAL &&
      run->tokenizer->roles.bos != NABLA_TOKEN_NONE)
    NABLA_TRY(nabla_encode_id(run, run->tokenizer->roles.bos));
  NABLA_TRY(nabla_sentencepiece_normalize(run, text, size));
  if (own->type == NABLA_SENTENCEPIECE_UNIGRAM)
    return nabla_unigram_encode(run, run->text.data, run->text.size);
  return nabla_encode_scored(run, run->text.data, run->text.size, add_symbols);
}

const nabla_tokenizer_calls nabla_sentencepiece_tokenizer = {read_file, encode,
                                                             deinit};
