/* What counts as well-formed UTF-8, for everything that reads or shows text. */
#ifndef NABLA_BASE_UTF8_H
#define NABLA_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes the sequence that starts with `lead` has (1 to 4), or
 * 0 when no sequence starts so (RFC 3629, section 4). */
static inline size_t nabla_utf8_need(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0; /* continuation bytes, overlong pairs */
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

/* Returns the length of the well-formed sequence at `text`, or 0 when there is
 * none: truncated, overlong, a surrogate, or above U+10FFFF. */
static inline size_t nabla_utf8_length(const uint8_t *text, size_t size) {
  if (size == 0) return 0;
  const size_t need = nabla_utf8_need(text[0]);
  if (need > size) return 0;
  for (size_t i = 1; i < need; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  if (text[0] == 0xe0 && text[1] < 0xa0) return 0;
  if (text[0] == 0xed && text[1] > 0x9f) return 0;
  if (text[0] == 0xf0 && text[1] < 0x90) return 0;
  if (text[0] == 0xf4 && text[1] > 0x8f) return 0;
  return need;
}

/* Writes the sequence of `code`, a Unicode scalar value, and returns its
 * length, 1 to 4. */
static inline size_t nabla_utf8_encode(uint32_t code, uint8_t out[4]) {
  const uint8_t last = (uint8_t)(0x80 | (code & 0x3f));
  const uint8_t second = (uint8_t)(0x80 | (code >> 6 & 0x3f));
  if (code < 0x80) {
    out[0] = (uint8_t)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (uint8_t)(0xc0 | code >> 6), out[1] = last;
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (uint8_t)(0xe0 | code >> 12), out[1] = second, out[2] = last;
    return 3;
  }
  out[0] = (uint8_t)(0xf0 | code >> 18);
  out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
  out[2] = second, out[3] = last;
  return 4;
}

#endif
