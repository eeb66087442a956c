/* See nesting.h. */
#include "lib/base/nesting.h"

#include <stdint.h>
#include <string.h>

typedef struct scan {
  const char *text;
  size_t size, at, line;
  size_t open, minus;
  size_t affine_at, affine_open; /* where an affine map began; 0: none */
} scan;

static char next(const scan *s, size_t ahead) {
  return s->at + ahead < s->size ? s->text[s->at + ahead] : '\0';
}

/* Behind a string or a comment that begins here. */
static void skip_quoted(scan *s) {
  for (s->at++; s->at < s->size && s->text[s->at] != '"'; s->at++) {
    if (s->text[s->at] == '\n') return;
    if (s->text[s->at] == '\\') s->at++;
  }
}

static void skip_line(scan *s) {
  while (s->at + 1 < s->size && s->text[s->at + 1] != '\n') s->at++;
}

/* Arrows and comparisons are no brackets. */
static int step_of(const scan *s) {
  const char c = s->text[s->at];
  const char before = s->at ? s->text[s->at - 1] : '\0';
  if (c == '(' || c == '[' || c == '{') return 1;
  if (c == ')' || c == ']' || c == '}') return -1;
  if (c == '<' && next(s, 1) != '=') return 1;
  if (c == '>' && before != '-' && next(s, 1) != '=') return -1;
  return 0;
}

static int begins(const scan *s, const char *word) {
  const size_t length = strlen(word);
  return s->size - s->at >= length && !memcmp(s->text + s->at, word, length);
}

static void step(scan *s) {
  const char c = s->text[s->at];
  if (c == '\n') s->line++;
  if (c == 'a' && !s->affine_at &&
      (begins(s, "affine_map<") || begins(s, "affine_set<"))) {
    s->affine_at = s->at + 1;
    s->affine_open = s->open;
  }
  const int by = step_of(s);
  if (by > 0) s->open++;
  if (by < 0 && s->open > 0) s->open--;
  if (by < 0 && s->open <= s->affine_open) s->affine_at = 0;
  if (c == '-' && next(s, 1) != '>')
    s->minus++;
  else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
    s->minus = 0;
}

static nabla_status refuse(const scan *s, const char *what, size_t most,
                           nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_TOO_LARGE, "line %zu: %s, more than %zu", s->line,
                 what, most);
  nabla_diag_set_next(diag, "write the program with less nesting");
  return status;
}

nabla_status nabla_nesting_check(const char *text, size_t size,
                                 nabla_diag *diag) {
  scan s = {.text = text, .size = size, .line = 1};
  if (size >= 4 && !memcmp(text, "ML\xefR", 4)) return NABLA_OK;
  for (; s.at < s.size; s.at++) {
    if (s.text[s.at] == '"') {
      skip_quoted(&s);
      s.at -= s.at < s.size && s.text[s.at] == '\n';
      continue;
    }
    if (s.text[s.at] == '/' && next(&s, 1) == '/') {
      skip_line(&s);
      continue;
    }
    step(&s);
    if (s.open > NABLA_NESTING_MAX)
      return refuse(&s, "brackets are nested too deep", NABLA_NESTING_MAX,
                    diag);
    if (s.minus > NABLA_NESTING_MAX)
      return refuse(&s, "there are too many minus signs in a row",
                    NABLA_NESTING_MAX, diag);
    if (s.affine_at && s.at + 1 - s.affine_at > NABLA_AFFINE_MAX)
      return refuse(&s, "an affine expression has too many bytes",
                    NABLA_AFFINE_MAX, diag);
  }
  return NABLA_OK;
}
