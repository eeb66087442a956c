/* The regular expressions of patterns.def by hand: each function is one of
 * their alternatives, tried in their order; see split.h. */
#include "quant/tokenizers/split.h"

#include <string.h>

#include "lib/base/controls.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/unicode.h"

enum { EXACT, ANY_CASE };

struct nabla_split_pattern {
  int contractions;     /* EXACT or ANY_CASE                              */
  int takes_sign;       /* letters may follow any sign, not only a space  */
  unsigned most_digits; /* 0: any number, and a space before them         */
  int takes_new_lines;  /* after signs, and white space up to them        */
  const char *text;
};

#define PATTERN(id, contractions, sign, digits, lines, text) \
  {contractions, sign, digits, lines, text},
static const nabla_split_pattern patterns[] = {
#include "quant/tokenizers/patterns.def"
};
#undef PATTERN
#define PATTERNS (sizeof patterns / sizeof *patterns)

const nabla_split_pattern *nabla_split_find(const char *text, size_t size) {
  for (size_t i = 0; i < PATTERNS; i++)
    if (strlen(patterns[i].text) == size &&
        !memcmp(patterns[i].text, text, size))
      return &patterns[i];
  return NULL;
}

const nabla_split_pattern *nabla_split_gpt2(void) { return patterns; }

/* A place in a text, and the character there. */
typedef struct place {
  const uint8_t *text;
  size_t size, at, length; /* length 0 at the end */
  nabla_letter letter;
} place;

static void look(place *p) {
  p->length =
      p->at < p->size ? nabla_utf8_length(p->text + p->at, p->size - p->at) : 0;
  if (p->length)
    p->letter = nabla_letter_of(nabla_utf8_code(p->text + p->at, p->length));
}

static void step(place *p) {
  p->at += p->length;
  look(p);
}

static int is(const place *p, nabla_letter letter) {
  return p->length && p->letter == letter;
}

static int is_line(const place *p) {
  return p->length && (p->text[p->at] == '\n' || p->text[p->at] == '\r');
}

/* Whether `text` begins with the letters of `word`; U+017F is an s in any case.
 * Returns how many bytes those are. */
static size_t begins(const uint8_t *text, size_t size, const char *word,
                     int contractions) {
  size_t at = 0;
  for (; *word; word++) {
    if (at >= size) return 0;
    const int is_equal =
        text[at] == (uint8_t)*word ||
        (contractions == ANY_CASE && text[at] == (uint8_t)(*word - 'a' + 'A'));
    if (is_equal) {
      at++;
    } else if (contractions == ANY_CASE && *word == 's' && size - at >= 2 &&
               text[at] == 0xc5 && text[at + 1] == 0xbf) {
      at += 2;
    } else {
      return 0;
    }
  }
  return at;
}

static size_t contraction(const place *p, int contractions) {
  static const char *const words[] = {"s", "t", "re", "ve", "m", "ll", "d"};
  if (!p->length || p->text[p->at] != '\'') return 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const size_t size = begins(p->text + p->at + 1, p->size - p->at - 1,
                               words[i], contractions);
    if (size) return size + 1;
  }
  return 0;
}

/* A run of one kind of character, after a space if there is one. */
static size_t run(place p, nabla_letter letter) {
  if (p.length && p.text[p.at] == ' ') step(&p);
  if (!is(&p, letter)) return 0;
  while (is(&p, letter)) step(&p);
  return p.at;
}

/* Letters, after any one character but a number or the end of a line. */
static size_t letters(place p) {
  if (!is(&p, NABLA_LETTER_L) && !is(&p, NABLA_LETTER_N) && !is_line(&p))
    step(&p);
  if (!is(&p, NABLA_LETTER_L)) return 0;
  while (is(&p, NABLA_LETTER_L)) step(&p);
  return p.at;
}

static size_t digits(place p, unsigned most) {
  for (unsigned i = 0; i < most && is(&p, NABLA_LETTER_N); i++) step(&p);
  return p.at;
}

/* Signs, and the ends of lines behind them. */
static size_t signs(place p, int takes_lines) {
  p.at = run(p, NABLA_LETTER_OTHER);
  if (!p.at || !takes_lines) return p.at;
  look(&p);
  while (is_line(&p)) step(&p);
  return p.at;
}

/* White space: up to its last end of a line where these count, else all of it
 * but the last character if a word follows. */
static size_t spaces(place p, int takes_lines) {
  size_t last = 0, line_end = 0, count = 0;
  while (is(&p, NABLA_LETTER_SPACE)) {
    const int ends_line = is_line(&p);
    last = p.at;
    step(&p);
    if (ends_line) line_end = p.at;
    count++;
  }
  if (takes_lines && line_end) return line_end;
  return p.length && count > 1 ? last : p.at;
}

size_t nabla_split_word(const nabla_split_pattern *pattern, const uint8_t *text,
                        size_t size) {
  place p = {.text = text, .size = size};
  size_t end;
  look(&p);
  if ((end = contraction(&p, pattern->contractions))) return end;
  end = pattern->takes_sign ? letters(p) : run(p, NABLA_LETTER_L);
  if (end) return end;
  end = pattern->most_digits ? digits(p, pattern->most_digits)
                             : run(p, NABLA_LETTER_N);
  if (end) return end;
  if ((end = signs(p, pattern->takes_new_lines))) return end;
  return spaces(p, pattern->takes_new_lines);
}
