/* Characters that change what a terminal or a page shows around them: controls
 * (Unicode's categories Cc, Zl, Zp), and format characters (Cf), which turn the
 * direction of text or take no space. What shows text from outside escapes
 * them. */
#ifndef NABLA_BASE_CONTROLS_H
#define NABLA_BASE_CONTROLS_H

#include <stddef.h>
#include <stdint.h>

/* The character of the well-formed UTF-8 sequence `text` of `length` bytes. */
static inline uint32_t nabla_utf8_code(const uint8_t *text, size_t length) {
  static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = text[0] & masks[length];
  for (size_t i = 1; i < length; i++) code = code << 6 | (text[i] & 0x3f);
  return code;
}

/* First and last of each range above ASCII; Unicode 16, with code points that
 * it keeps for format characters (U+2065, U+FFF0, U+E0000 to U+E0FFF). */
static const uint32_t nabla_control_ranges[][2] = {
    {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
    {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
    {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
    {0xfeff, 0xfeff},   {0xfff0, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

static inline int nabla_is_control(uint32_t code) {
  if (code < 0x20) return 1;
  if (code < 0x7f) return 0;
  const size_t count =
      sizeof nabla_control_ranges / sizeof *nabla_control_ranges;
  for (size_t i = 0; i < count && nabla_control_ranges[i][0] <= code; i++)
    if (code <= nabla_control_ranges[i][1]) return 1;
  return 0;
}

/* Bytes at `text`, at most `length`, that are shown as they are everywhere:
 * printable ASCII but '"' and '\\', which JSON escapes. */
static inline size_t nabla_plain_length(const uint8_t *text, size_t length) {
  size_t at = 0;
  while (at < length && (uint8_t)(text[at] - 0x20) < 0x7f - 0x20 &&
         text[at] != '"' && text[at] != '\\')
    at++;
  return at;
}

#endif
