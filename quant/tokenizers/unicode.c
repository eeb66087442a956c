/* Letters, numbers and white space by binary search; see unicode.h. */
#include "quant/tokenizers/unicode.h"

typedef struct range {
  uint32_t first, last;
  nabla_letter letter;
} range;

#define RANGE(first, last, letter) {first, last, NABLA_LETTER_##letter},
static const range ranges[] = {
#include "quant/tokenizers/unicode_letters.def"
};
#undef RANGE
#define RANGES (sizeof ranges / sizeof *ranges)

static int is_space(uint32_t code) {
  return (code >= 0x9 && code <= 0xd) || code == 0x20 || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
         code == 0x3000;
}

nabla_letter nabla_letter_of(uint32_t code) {
  if (code < 0x80) {
    if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return NABLA_LETTER_L;
    if (code >= '0' && code <= '9') return NABLA_LETTER_N;
    return is_space(code) ? NABLA_LETTER_SPACE : NABLA_LETTER_OTHER;
  }
  if (is_space(code)) return NABLA_LETTER_SPACE;
  size_t low = 0, high = RANGES;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (code > ranges[middle].last)
      low = middle + 1;
    else
      high = middle;
  }
  return low < RANGES && code >= ranges[low].first ? ranges[low].letter
                                                   : NABLA_LETTER_OTHER;
}
