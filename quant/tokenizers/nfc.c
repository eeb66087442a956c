/* Normalization form C (Unicode Standard Annex 15): decompose, order marks by
 * their class, compose. */
#include "lib/base/controls.h"
#include "lib/base/sort.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/unicode.h"

/* No character below this one is changed or composed with what stands before
 * it. In UTF-8 it begins with SAFE_BYTE. */
enum { SAFE_END = 0x300, SAFE_BYTE = 0xcc };
enum { MAX_PARTS = 8 };

/* Hangul syllables by arithmetic (The Unicode Standard, 3.12). */
enum {
  S_BASE = 0xac00,
  L_BASE = 0x1100,
  V_BASE = 0x1161,
  T_BASE = 0x11a7,
  L_COUNT = 19,
  V_COUNT = 21,
  T_COUNT = 28,
  S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

typedef struct row {
  uint32_t key, second, value;
} row;

#define RANGE(first, last, value) {last, first, value},
static const row marks[] = {
#include "quant/tokenizers/unicode_marks.def"
};
#undef RANGE

#define PARTS(code, first, second) {code, first, second},
static const row parts[] = {
#include "quant/tokenizers/unicode_parts.def"
};
#undef PARTS

#define PAIR(first, second, code) {first, second, code},
static const row pairs[] = {
#include "quant/tokenizers/unicode_pairs.def"
};
#undef PAIR

/* A decomposed character. */
typedef struct letter {
  uint32_t code, class;
} letter;

/* The first row of `key` or more, in rows sorted by key; `count` if none. */
static size_t find(const row *rows, size_t count, uint32_t key) {
  size_t low = 0;
  while (low < count) {
    const size_t middle = (low + count) / 2;
    if (rows[middle].key < key)
      low = middle + 1;
    else
      count = middle;
  }
  return low;
}

static uint32_t class_of(uint32_t code) {
  const size_t count = sizeof marks / sizeof *marks;
  const size_t at = find(marks, count, code); /* by the last of each range */
  return at < count && code >= marks[at].second ? marks[at].value : 0;
}

/* Writes what a character decomposes to and returns the number. */
static size_t decompose(uint32_t code, uint32_t out[MAX_PARTS]) {
  const size_t count = sizeof parts / sizeof *parts;
  size_t at = find(parts, count, code), size = 0;
  const uint32_t syllable = code - S_BASE;
  if (syllable < S_COUNT) {
    out[0] = L_BASE + syllable / (V_COUNT * T_COUNT);
    out[1] = V_BASE + syllable % (V_COUNT * T_COUNT) / T_COUNT;
    out[2] = T_BASE + syllable % T_COUNT;
    return out[2] == T_BASE ? 2 : 3;
  }
  /* The second part never decomposes; the first may, again and again. */
  while (at < count && parts[at].key == code && size < MAX_PARTS - 1) {
    if (parts[at].value) out[size++] = parts[at].value;
    code = parts[at].second;
    at = find(parts, count, code);
  }
  out[size++] = code;
  for (size_t i = 0; i < size / 2; i++) {
    const uint32_t other = out[i];
    out[i] = out[size - 1 - i];
    out[size - 1 - i] = other;
  }
  return size;
}

/* The character that two become, or 0. */
static uint32_t compose(uint32_t first, uint32_t second) {
  const size_t count = sizeof pairs / sizeof *pairs;
  if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
    return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
  if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 &&
      second > T_BASE && second < T_BASE + T_COUNT)
    return first + (second - T_BASE);
  for (size_t at = find(pairs, count, first);
       at < count && pairs[at].key == first; at++)
    if (pairs[at].second == second) return pairs[at].value;
  return 0;
}

static int by_class(const void *a, const void *b, const void *context) {
  const letter *one = a, *two = b;
  (void)context;
  return (one->class > two->class) - (one->class < two->class);
}

/* Orders each run of marks. */
static nabla_status order(nabla_buffer *letters, nabla_diag *diag) {
  letter *all = (void *)letters->data;
  const size_t count = letters->size / sizeof *all;
  for (size_t i = 0; i < count; i++) {
    const size_t begin = i;
    while (i < count && all[i].class) i++;
    if (i - begin > 1)
      NABLA_TRY(nabla_sort(letters->allocator, all + begin, i - begin,
                           sizeof *all, by_class, NULL, diag));
  }
  return NABLA_OK;
}

/* Composes in place and returns how many are left. */
static size_t compose_all(letter *all, size_t count) {
  size_t to = 0, starter = SIZE_MAX;
  uint32_t last = 0; /* class of what was kept since the starter */
  for (size_t i = 0; i < count; i++) {
    const letter here = all[i];
    const int is_next = starter != SIZE_MAX && starter + 1 == to;
    const int is_open =
        starter != SIZE_MAX && (is_next || (last && last < here.class));
    const uint32_t both = is_open ? compose(all[starter].code, here.code) : 0;
    if (both) {
      all[starter].code = both;
      continue;
    }
    if (!here.class) starter = to;
    last = here.class;
    all[to++] = here;
  }
  return to;
}

static nabla_status add_letters(nabla_buffer *letters, uint32_t code,
                                nabla_diag *diag) {
  uint32_t codes[MAX_PARTS];
  const size_t count = decompose(code, codes);
  for (size_t i = 0; i < count; i++) {
    const letter one = {codes[i], class_of(codes[i])};
    NABLA_TRY(nabla_buffer_append(letters, &one, sizeof one, diag));
  }
  return NABLA_OK;
}

/* Normalizes a part of a text that nothing around it changes. */
static nabla_status append_part(nabla_buffer *out, nabla_buffer *letters,
                                const uint8_t *text, size_t size,
                                nabla_diag *diag) {
  letters->size = 0;
  for (size_t at = 0, step; at < size; at += step) {
    step = nabla_utf8_length(text + at, size - at);
    NABLA_TRY(add_letters(letters, nabla_utf8_code(text + at, step), diag));
  }
  NABLA_TRY(order(letters, diag));
  letter *all = (void *)letters->data;
  const size_t count = compose_all(all, letters->size / sizeof *all);
  for (size_t i = 0; i < count; i++) {
    uint8_t bytes[4];
    const size_t length = nabla_utf8_encode(all[i].code, bytes);
    NABLA_TRY(nabla_buffer_append(out, bytes, length, diag));
  }
  return NABLA_OK;
}

static nabla_status append_parts(nabla_buffer *out, nabla_buffer *letters,
                                 const uint8_t *text, size_t size,
                                 nabla_diag *diag) {
  for (size_t at = 0; at < size;) {
    size_t safe = at; /* characters that stay, but perhaps the last */
    while (safe < size && text[safe] < SAFE_BYTE) safe++;
    size_t begin = safe;
    while (begin > at && (text[begin - 1] & 0xc0) == 0x80) begin--;
    if (begin > at && safe < size) begin--;
    if (safe == size) begin = size;
    if (begin > at)
      NABLA_TRY(nabla_buffer_append(out, text + at, begin - at, diag));
    size_t end = safe; /* of those from SAFE_END on */
    while (end < size && (text[end] >= SAFE_BYTE || (text[end] & 0xc0) == 0x80))
      end++;
    if (end > begin)
      NABLA_TRY(append_part(out, letters, text + begin, end - begin, diag));
    at = end;
  }
  return NABLA_OK;
}

nabla_status nabla_nfc_append(nabla_buffer *out, const uint8_t *text,
                              size_t size, nabla_diag *diag) {
  nabla_buffer letters;
  nabla_buffer_init(&letters, out->allocator, "letters of a text", SIZE_MAX);
  const nabla_status status = append_parts(out, &letters, text, size, diag);
  nabla_buffer_deinit(&letters);
  return status;
}
