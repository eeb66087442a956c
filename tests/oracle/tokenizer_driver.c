/* Encodes and decodes what it reads, for tokenizer_oracle.py.
 *   tokenizer_driver PATH
 * A request: 'e' or 'd', a byte of flags, a u32 count, then that many bytes of
 * text or u32 ids. The answer: a u32 status, a u32 count, then that many u32
 * ids or bytes of text. For 'd' the text of a stream follows in the same form.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/tokenizer.h"

static void answer(nabla_status status, const void *data, size_t count,
                   size_t size) {
  const uint32_t head[2] = {(uint32_t)status, (uint32_t)count};
  fwrite(head, sizeof head, 1, stdout);
  if (count) fwrite(data, size, count, stdout);
}

static void encode(const nabla_tokenizer *tokenizer, const char *text,
                   size_t size, unsigned flags) {
  nabla_token_list list = {NULL, 0};
  const nabla_status status =
      nabla_tokenizer_encode(tokenizer, text, size, flags, &list, NULL);
  answer(status, list.ids, list.count, sizeof *list.ids);
  nabla_token_list_release(tokenizer, &list);
}

static void stream(const nabla_tokenizer *tokenizer, const uint32_t *ids,
                   size_t count, unsigned flags) {
  const size_t capacity = nabla_tokenizer_stream_capacity(tokenizer);
  char *text = malloc(capacity * (count + 1));
  nabla_token_stream state = {.held_count = 0};
  nabla_status status = NABLA_OK;
  size_t size = 0, got = 0;
  for (size_t i = 0; i < count && !status; i++, size += got)
    status = nabla_tokenizer_stream_next(tokenizer, &state, ids[i], flags,
                                         text + size, capacity, &got, NULL);
  if (!status)
    status = nabla_tokenizer_stream_flush(tokenizer, &state, text + size,
                                          capacity, &got, NULL);
  answer(status, text, status ? 0 : size + got, 1);
  free(text);
}

static void decode(const nabla_tokenizer *tokenizer, const uint32_t *ids,
                   size_t count, unsigned flags) {
  nabla_token_text text = {NULL, 0};
  const nabla_status status =
      nabla_tokenizer_decode(tokenizer, ids, count, flags, &text, NULL);
  answer(status, text.bytes, text.size, 1);
  nabla_token_text_release(tokenizer, &text);
  stream(tokenizer, ids, count, flags);
}

static int serve(const nabla_tokenizer *tokenizer) {
  uint8_t head[6];
  while (fread(head, sizeof head, 1, stdin) == 1) {
    uint32_t count;
    memcpy(&count, head + 2, sizeof count);
    const size_t size = head[0] == 'e' ? 1 : 4;
    void *data = malloc(count * size + 1);
    if (!data || fread(data, size, count, stdin) != count) return 1;
    if (head[0] == 'e')
      encode(tokenizer, data, count, head[1]);
    else
      decode(tokenizer, data, count, head[1]);
    free(data);
    if (fflush(stdout)) return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  nabla_tokenizer *tokenizer;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc != 2) return 2;
  if (nabla_tokenizer_open(argv[1], NULL, &tokenizer, &diag)) {
    char text[1024];
    (void)nabla_diag_format(&diag, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return 1;
  }
  const int failed = serve(tokenizer);
  nabla_tokenizer_close(tokenizer);
  return failed;
}
