/* Rules of a precompiled_charsmap; see charsmap.h. A unit of the double array
 * has bits 0-7 label, 8 "has a leaf", 9 scale of the offset, 10-30 offset; a
 * leaf has bit 31 and its value (darts-clone, DoubleArrayUnit). */
#include "quant/tokenizers/charsmap.h"

#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/utf8.h"

/* Rules that SentencePiece looks at for one place, kMaxTrieResultsSize. */
enum { MAX_RESULTS = 32 };

nabla_status nabla_charsmap_read(const uint8_t *data, size_t size,
                                 nabla_charsmap *out, nabla_diag *diag) {
  nabla_cursor cursor = {data, size, 0};
  uint32_t bytes;
  const uint8_t *units;
  *out = (nabla_charsmap){NULL, 0, NULL, 0};
  if (!size) return NABLA_OK;
  if (!nabla_cursor_take_u32(&cursor, &bytes) || !bytes || bytes % 4 ||
      bytes >= nabla_cursor_left(&cursor) ||
      !nabla_cursor_take(&cursor, bytes, &units))
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the precompiled_charsmap has no table and texts");
  const uint8_t *texts = data + cursor.at;
  const size_t text_size = nabla_cursor_left(&cursor);
  for (size_t at = 0, step; at < text_size; at += step)
    if (!(step = nabla_utf8_length(texts + at, text_size - at)))
      return nabla_fail(diag, NABLA_CORRUPT,
                        "texts of the precompiled_charsmap are not UTF-8");
  *out = (nabla_charsmap){units, bytes / 4, texts, text_size};
  return NABLA_OK;
}

static size_t offset_of(uint32_t unit) {
  return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* A value that leads into the texts, to the beginning of a character. */
static int is_text(const nabla_charsmap *map, uint32_t value) {
  return value < map->text_size && (map->texts[value] & 0xc0) != 0x80;
}

size_t nabla_charsmap_find(const nabla_charsmap *map, const uint8_t *text,
                           size_t size, const uint8_t **out_text,
                           size_t *out_size) {
  size_t longest = 0, at, found = 0;
  if (!map->unit_count) return 0;
  if (size > NABLA_CHARSMAP_MAX_KEY) size = NABLA_CHARSMAP_MAX_KEY;
  at = offset_of(nabla_load_le32(map->units));
  for (size_t i = 0; i < size && found < MAX_RESULTS; i++) {
    at ^= text[i];
    if (at >= map->unit_count) break;
    const uint32_t unit = nabla_load_le32(map->units + 4 * at);
    if ((unit & (1u << 31 | 0xff)) != text[i]) break;
    at ^= offset_of(unit);
    if (!(unit >> 8 & 1)) continue;
    if (at >= map->unit_count) break;
    const uint32_t value = nabla_load_le32(map->units + 4 * at) & ~(1u << 31);
    found++;
    if (!is_text(map, value)) continue;
    longest = i + 1;
    *out_text = map->texts + value;
    *out_size = strnlen((const char *)*out_text, map->text_size - value);
  }
  /* Half a character would be left over. */
  return longest < size && (text[longest] & 0xc0) == 0x80 ? 0 : longest;
}
