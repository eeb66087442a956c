/* SentencePiece's normalization (its normalizer.cc): rules, spaces, marks. */
#include <string.h>

#include "lib/base/utf8.h"
#include "quant/tokenizers/sentencepiece.h"

/* What the text begins with: the bytes to take, and what stands for them. */
typedef struct step {
  size_t taken, size;
  const uint8_t *text;
} step;

static step next_step(const nabla_sentencepiece *own, const uint8_t *text,
                      size_t size) {
  uint32_t id;
  step s = {nabla_trie_longest(&own->users, text, size, &id), 0, text};
  if (!s.taken) {
    s.taken = nabla_charsmap_find(&own->charsmap, text, size, &s.text, &s.size);
    if (s.taken) return s;
    s.taken = nabla_utf8_length(text, size);
  }
  s.text = text;
  s.size = s.taken;
  return s;
}

/* Appends text with its spaces written as the model has them. */
static nabla_status append(nabla_encode_run *run, const uint8_t *text,
                           size_t size) {
  const nabla_sentencepiece *own = run->tokenizer->own;
  for (size_t at = 0; at < size;) {
    size_t end = at;
    while (end < size && (text[end] != ' ' || !own->escapes_spaces)) end++;
    if (end > at)
      NABLA_TRY(
          nabla_buffer_append(&run->text, text + at, end - at, run->diag));
    if (end < size)
      NABLA_TRY(nabla_buffer_append(&run->text, NABLA_SPACE_MARK,
                                    NABLA_SPACE_MARK_SIZE, run->diag));
    at = end + 1;
  }
  return NABLA_OK;
}

static size_t skip_spaces(const nabla_sentencepiece *own, const uint8_t *text,
                          size_t size) {
  size_t at = 0;
  while (own->removes_spaces && at < size) {
    const step s = next_step(own, text + at, size - at);
    if (s.size != 1 || *s.text != ' ') break;
    at += s.taken;
  }
  return at;
}

static void drop_spaces(nabla_encode_run *run) {
  const nabla_sentencepiece *own = run->tokenizer->own;
  const char *space = own->escapes_spaces ? NABLA_SPACE_MARK : " ";
  const size_t size = strlen(space);
  while (own->removes_spaces && run->text.size >= size &&
         !memcmp(run->text.data + run->text.size - size, space, size))
    run->text.size -= size;
}

nabla_status nabla_sentencepiece_normalize(nabla_encode_run *run,
                                           const uint8_t *text, size_t size) {
  static const uint8_t space[] = {' '};
  const nabla_sentencepiece *own = run->tokenizer->own;
  size_t at = skip_spaces(own, text, size);
  int after_space = own->removes_spaces;
  if (at == size) return NABLA_OK;
  if (own->adds_prefix && !own->has_suffix) NABLA_TRY(append(run, space, 1));
  while (at < size) {
    step s = next_step(own, text + at, size - at);
    at += s.taken;
    for (; after_space && s.size && *s.text == ' '; s.size--) s.text++;
    if (!s.size) continue;
    NABLA_TRY(append(run, s.text, s.size));
    after_space = own->removes_spaces && s.text[s.size - 1] == ' ';
  }
  drop_spaces(run);
  return own->adds_prefix && own->has_suffix ? append(run, space, 1) : NABLA_OK;
}
