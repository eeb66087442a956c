/* Any bytes as each kind of tokenizer: what can be read encodes a text, and
 * decodes its ids at once and as a stream to the same. */
#include <string.h>

#include "quant/tokenizers/tokenizer_internal.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "bB";

/* The rows of all pieces up to the greatest id, which a tokenizer.json may
 * choose as it likes, while they grow; a tree, 24 bytes for each byte of a
 * piece; the symbols of a text. */
enum {
  FIXED_PEAK = 3 * (int)sizeof(nabla_piece) * (int)NABLA_TOKENIZER_MAX_PIECES,
  PEAK_PER_BYTE = 512
};

#define TOKENIZER(id, file, suffix, what) &nabla_##id##_tokenizer,
static const nabla_tokenizer_calls *const kinds[] = {
#include "quant/tokenizers/tokenizers.def"
};
#undef TOKENIZER

static void stream(const nabla_tokenizer *tokenizer,
                   const nabla_token_list *list, nabla_buffer *out) {
  const size_t capacity = nabla_tokenizer_stream_capacity(tokenizer);
  nabla_token_stream state = {.held_count = 0};
  for (size_t i = 0; i <= list->count; i++) {
    const size_t before = out->size;
    size_t got;
    fuzz_require(!nabla_buffer_append(out, NULL, capacity, NULL), "memory");
    char *to = (char *)out->data + before;
    fuzz_require(
        !(i < list->count
              ? nabla_tokenizer_stream_next(tokenizer, &state, list->ids[i], 0,
                                            to, capacity, &got, NULL)
              : nabla_tokenizer_stream_flush(tokenizer, &state, to, capacity,
                                             &got, NULL)),
        "ids that were encoded are decoded");
    fuzz_require(got <= capacity, "the capacity suffices");
    out->size = before + got;
  }
}

static void use(const nabla_tokenizer *tokenizer, const char *text) {
  nabla_token_list list;
  nabla_token_text decoded;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = nabla_tokenizer_encode(
      tokenizer, text, strlen(text),
      NABLA_ENCODE_ADD_SPECIAL | NABLA_ENCODE_PARSE_SPECIAL, &list, &diag);
  fuzz_check_diag(status, &diag);
  if (status) return;
  for (size_t i = 0; i < list.count; i++)
    fuzz_require(nabla_tokenizer_piece(tokenizer, list.ids[i], NULL) != NULL,
                 "ids have pieces");
  fuzz_require(!nabla_tokenizer_decode(tokenizer, list.ids, list.count, 0,
                                       &decoded, NULL),
               "ids that were encoded are decoded");
  nabla_buffer streamed;
  nabla_buffer_init(&streamed, NULL, "text", (size_t)1 << 26);
  stream(tokenizer, &list, &streamed);
  fuzz_require(memmem(decoded.bytes, decoded.size, NABLA_REPLACEMENT, 3) ||
                   (streamed.size == decoded.size &&
                    (!decoded.size ||
                     !memcmp(streamed.data, decoded.bytes, decoded.size))),
               "a stream is the text");
  nabla_buffer_deinit(&streamed);
  nabla_token_text_release(tokenizer, &decoded);
  nabla_token_list_release(tokenizer, &list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world;
  nabla_tokenizer *tokenizer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (size < FUZZ_OPTIONS) return 0;
  fuzz_world_init(&world, 0);
  const nabla_tokenizer_calls *calls =
      kinds[data[0] % (sizeof kinds / sizeof *kinds)];
  const nabla_status status =
      nabla_tokenizer_read(&world.memory.allocator, calls, data + FUZZ_OPTIONS,
                           size - FUZZ_OPTIONS, &tokenizer, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(!tokenizer, "outputs stay as they were");
  } else {
    use(tokenizer, "");
    use(tokenizer, "a");
    use(tokenizer,
        " ab  bc<s>\xc3\xa9'S 12345\r\n \xe2\x96\x81 B[x] \xcc\x81"
        "e");
  }
  nabla_tokenizer_close(tokenizer);
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
