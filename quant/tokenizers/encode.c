/* nabla_tokenizer_encode, and appending ids. */
#include <string.h>

#include "lib/base/require.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/tokenizer_internal.h"

/* Bytes of ids: a text gives at most one for each byte of its normalized form,
 * and a few around it. */
#define MAX_IDS ((size_t)NABLA_TOKENIZER_MAX_TEXT * 4 * sizeof(uint32_t))

nabla_status nabla_encode_id(nabla_encode_run *run, uint32_t id) {
  run->after_unknown = 0;
  return nabla_buffer_append(&run->ids, &id, sizeof id, run->diag);
}

nabla_status nabla_encode_unknown(nabla_encode_run *run, const uint8_t *text,
                                  size_t size, int is_fused) {
  const nabla_tokenizer *tokenizer = run->tokenizer;
  const uint32_t *bytes = tokenizer->vocabulary.byte_ids;
  size_t known = 0;
  if (tokenizer->falls_to_bytes)
    while (known < size && bytes[text[known]] != NABLA_TOKEN_NONE) known++;
  if (size && known == size) {
    for (size_t i = 0; i < size; i++)
      NABLA_TRY(nabla_encode_id(run, bytes[text[i]]));
    return NABLA_OK;
  }
  if (tokenizer->roles.unk == NABLA_TOKEN_NONE) {
    const nabla_status status =
        nabla_fail(run->diag, NABLA_UNSUPPORTED,
                   "no piece has the character \"%.*s\", nor its bytes, and "
                   "there is no token for unknown ones",
                   size < 8 ? (int)size : 8, (const char *)text);
    nabla_diag_set_next(run->diag, "leave the character out");
    return status;
  }
  if (!is_fused || !run->after_unknown)
    NABLA_TRY(nabla_encode_id(run, tokenizer->roles.unk));
  run->after_unknown = 1;
  return NABLA_OK;
}

size_t nabla_encode_word(const nabla_tokenizer *tokenizer, const uint8_t *text,
                         size_t size) {
  const size_t mark = tokenizer->space_size;
  int in_word = 0;
  if (!tokenizer->has_words_apart) return size;
  for (size_t at = 0; at < size;) {
    const int is_space = size - at >= mark &&
                         text[at] == (uint8_t)*tokenizer->space &&
                         !memcmp(text + at, tokenizer->space, mark);
    if (is_space && in_word) return at;
    in_word |= !is_space;
    at += is_space ? mark : 1;
  }
  return size;
}

static nabla_status check_text(const uint8_t *text, size_t size,
                               nabla_diag *diag) {
  if (size > NABLA_TOKENIZER_MAX_TEXT) {
    const nabla_status status = nabla_fail(
        diag, NABLA_TOO_LARGE, "a text of %zu bytes; at most %u are encoded",
        size, NABLA_TOKENIZER_MAX_TEXT);
    nabla_diag_set_next(diag, "encode it in parts");
    return status;
  }
  for (size_t at = 0; at < size;) {
    const size_t length = nabla_utf8_length(text + at, size - at);
    if (!length) {
      const nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the text is not UTF-8");
      nabla_diag_set_offset(diag, at);
      return status;
    }
    at += length;
  }
  return NABLA_OK;
}

/* Gives the ids to the caller in memory of their exact size. */
static nabla_status give(nabla_encode_run *run, nabla_token_list *out) {
  const size_t count = run->ids.size / sizeof(uint32_t);
  void *ids = NULL;
  NABLA_TRY(nabla_alloc_raw(run->tokenizer->allocator, count, sizeof(uint32_t),
                            &ids, run->diag));
  if (count) memcpy(ids, run->ids.data, run->ids.size);
  *out = (nabla_token_list){ids, count};
  return NABLA_OK;
}

nabla_status nabla_tokenizer_encode(const nabla_tokenizer *tokenizer,
                                    const char *text, size_t size,
                                    unsigned flags, nabla_token_list *out,
                                    nabla_diag *diag) {
  NABLA_REQUIRE(tokenizer, diag);
  if (size) NABLA_REQUIRE(text, diag);
  NABLA_REQUIRE(out, diag);
  if (flags & ~(NABLA_ENCODE_ADD_SPECIAL | NABLA_ENCODE_PARSE_SPECIAL))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "flags %#x; NABLA_ENCODE_ lists them", flags);
  NABLA_TRY(check_text((const uint8_t *)text, size, diag));
  nabla_encode_run run = {.tokenizer = tokenizer, .flags = flags, .diag = diag};
  nabla_buffer_init(&run.ids, tokenizer->allocator, "ids of a text", MAX_IDS);
  nabla_buffer_init(&run.text, tokenizer->allocator, "a normalized text",
                    (size_t)NABLA_TOKENIZER_MAX_TEXT * 4);
  nabla_merger_init(&run.merger, tokenizer->allocator);
  nabla_status status =
      tokenizer->calls->encode(&run, (const uint8_t *)text, size);
  if (!status) status = give(&run, out);
  nabla_merger_deinit(&run.merger);
  nabla_buffer_deinit(&run.text);
  nabla_buffer_deinit(&run.ids);
  return status;
}

void nabla_token_list_release(const nabla_tokenizer *tokenizer,
                              nabla_token_list *list) {
  if (!tokenizer || !list) return;
  nabla_free(tokenizer->allocator, list->ids, list->count, sizeof(uint32_t));
  *list = (nabla_token_list){NULL, 0};
}
