/* The normalizers of a tokenizer.json, one after the other. */
#include <string.h>

#include "quant/tokenizers/huggingface.h"
#include "quant/tokenizers/unicode.h"

nabla_status nabla_hf_replace(const uint8_t *text, size_t size,
                              const uint8_t *pattern, size_t pattern_size,
                              const uint8_t *content, size_t content_size,
                              nabla_buffer *out, nabla_diag *diag) {
  for (size_t at = 0; at < size;) {
    const uint8_t *found = memmem(text + at, size - at, pattern, pattern_size);
    const size_t end = found ? (size_t)(found - text) : size;
    if (end > at)
      NABLA_TRY(nabla_buffer_append(out, text + at, end - at, diag));
    if (found && content_size)
      NABLA_TRY(nabla_buffer_append(out, content, content_size, diag));
    at = found ? end + pattern_size : size;
  }
  return NABLA_OK;
}

static nabla_status apply(const nabla_hf_tokenizer *own,
                          const nabla_hf_step *step, const uint8_t *text,
                          size_t size, nabla_buffer *out, nabla_diag *diag) {
  const uint8_t *content = nabla_hf_bytes(own, step->content);
  if (!size) return NABLA_OK;
  if (step->kind == NABLA_HF_NFC)
    return nabla_nfc_append(out, text, size, diag);
  if (step->kind == NABLA_HF_REPLACE)
    return nabla_hf_replace(text, size, nabla_hf_bytes(own, step->pattern),
                            step->pattern.size, content, step->content.size,
                            out, diag);
  if (step->content.size)
    NABLA_TRY(nabla_buffer_append(out, content, step->content.size, diag));
  return nabla_buffer_append(out, text, size, diag);
}

nabla_status nabla_hf_normalize(const nabla_hf_tokenizer *own,
                                const uint8_t *text, size_t size,
                                nabla_buffer *out, nabla_diag *diag) {
  nabla_buffer other;
  nabla_status status = NABLA_OK;
  nabla_buffer_init(&other, out->allocator, out->what, out->limit);
  if (size) status = nabla_buffer_append(out, text, size, diag);
  for (size_t i = 0; i < own->normalizer_count && !status; i++) {
    const nabla_buffer swap = other;
    other = *out;
    *out = swap;
    out->size = 0;
    status =
        apply(own, &own->normalizers[i], other.data, other.size, out, diag);
  }
  nabla_buffer_deinit(&other);
  return status;
}
