/* See nesting.h. The scan recognizes words and brackets as MLIR's lexer does;
 * where the two could differ, the scan counts more. */
#include "lib/base/nesting.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/aliases.h"

static const char magic[] = {'M', 'L', '\xef', 'R'};

typedef struct scan {
  const char *text;
  size_t size, at, line;
  size_t open;      /* brackets */
  size_t operators; /* of the expression that is read */
  size_t expansion; /* bytes of aliases, where their names stand */
  nabla_aliases aliases;
  /* The alias whose value is read; no name: none. */
  nabla_alias alias;
  size_t outside; /* brackets around it */
  int expects;    /* the value goes on with the next word */
} scan;

/* ---- refusing ---- */

static nabla_status refuse(const scan *s, const char *what, size_t most,
                           nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_TOO_LARGE, "line %zu: %s, more than %zu", s->line,
                 what, most);
  nabla_diag_set_next(diag, "write the program with less nesting");
  return status;
}

int nabla_is_bytecode(const char *text, size_t size) {
  return size >= sizeof magic && !memcmp(text, magic, sizeof magic);
}

/* Searches for bytecode everywhere, since a program also begins after each mark
 * of --split-input-file. */
static int has_bytecode(const char *text, size_t size) {
  const char *at = text, *end = text + size;
  while (at < end && (at = memchr(at, magic[2], (size_t)(end - at)))) {
    if (at - text >= 2 && nabla_is_bytecode(at - 2, (size_t)(end - at) + 2))
      return 1;
    at++;
  }
  return 0;
}

/* ---- characters ---- */

static char next(const scan *s, size_t ahead) {
  return s->at + ahead < s->size ? s->text[s->at + ahead] : '\0';
}

static int is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

static int is_prefix(char c) {
  return c == '#' || c == '!' || c == '@' || c == '%' || c == '^';
}

static int is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

/* Returns the change of depth at this character. Arrows and comparisons are no
 * brackets. */
static int step_of(const scan *s) {
  const char c = s->text[s->at];
  const char before = s->at ? s->text[s->at - 1] : '\0';
  if (c == '(' || c == '[' || c == '{') return 1;
  if (c == ')' || c == ']' || c == '}') return -1;
  if (c == '<' && next(s, 1) != '=') return 1;
  if (c == '>' && before != '-' && next(s, 1) != '=') return -1;
  return 0;
}

/* ---- aliases ---- */

static nabla_status end_alias(scan *s, nabla_diag *diag) {
  if (!s->alias.name) return NABLA_OK;
  s->alias.bytes += (size_t)(s->text + s->at - s->alias.name);
  const nabla_status status = nabla_aliases_add(&s->aliases, &s->alias, diag);
  s->alias.name = NULL;
  return status;
}

/* Called where a word or string begins. Unless a token such as `:` connects it
 * to the value of the current alias, it ends that value. */
static nabla_status enter_word(scan *s, nabla_diag *diag) {
  if (!s->alias.name || s->open > s->outside) return NABLA_OK;
  if (!s->expects) return end_alias(s, diag);
  s->expects = 0;
  return NABLA_OK;
}

/* Called where `depth` brackets are open in total. */
static nabla_status deepen(scan *s, size_t depth, nabla_diag *diag) {
  if (depth > NABLA_NESTING_MAX)
    return refuse(s, "brackets are nested too deep", NABLA_NESTING_MAX, diag);
  if (s->alias.name && depth > s->outside &&
      depth - s->outside > s->alias.depth)
    s->alias.depth = depth - s->outside;
  return NABLA_OK;
}

/* Called at a name of `length` bytes, which may be that of an alias. */
static nabla_status name_alias(scan *s, size_t length, nabla_diag *diag) {
  const char *name = s->text + s->at;
  size_t behind = length;
  while (s->at + behind < s->size && is_blank(next(s, behind))) behind++;
  if (next(s, behind) == '=' && next(s, behind + 1) != '=') {
    NABLA_TRY(end_alias(s, diag));
    s->alias = (nabla_alias){.name = name, .length = length};
    s->outside = s->open;
    s->expects = 1;
    return NABLA_OK;
  }
  NABLA_TRY(enter_word(s, diag));
  const nabla_alias *alias = nabla_aliases_find(&s->aliases, name, length);
  if (!alias) return NABLA_OK;
  NABLA_TRY(deepen(s, s->open + alias->depth, diag));
  s->expansion += alias->bytes;
  if (s->alias.name) s->alias.bytes += alias->bytes;
  if (s->expansion > NABLA_EXPANSION_MAX)
    return refuse(s,
                  "the program has too many bytes with its aliases written "
                  "out",
                  NABLA_EXPANSION_MAX, diag);
  return NABLA_OK;
}

/* ---- words ---- */

static int is_operator(const char *word, size_t length) {
  return (length == 3 && !memcmp(word, "mod", 3)) ||
         (length == 7 && !memcmp(word, "ceildiv", 7)) ||
         (length == 8 && !memcmp(word, "floordiv", 8));
}

static nabla_status count_operator(scan *s, nabla_diag *diag) {
  if (++s->operators > NABLA_OPERATORS_MAX)
    return refuse(s, "an expression has too many operators",
                  NABLA_OPERATORS_MAX, diag);
  return NABLA_OK;
}

/* Reads the word that begins here and moves `at` to its last byte. */
static nabla_status read_word(scan *s, nabla_diag *diag) {
  const char first = s->text[s->at];
  const int prefixed = is_prefix(first);
  size_t length = 1;
  while (s->at + length < s->size &&
         (is_word(next(s, length)) || (prefixed && next(s, length) == '-')))
    length++;
  if (length > NABLA_WORD_MAX)
    return refuse(s, "a word has too many bytes", NABLA_WORD_MAX, diag);
  nabla_status status = NABLA_OK;
  if ((first == '#' || first == '!') && length > 1)
    status = name_alias(s, length, diag);
  else if (length > 1 || !prefixed) /* not the `@` of `@"name"` */
    status = enter_word(s, diag);
  if (!status && is_operator(s->text + s->at, length))
    status = count_operator(s, diag);
  s->at += length - 1;
  return status;
}

/* Skips the string that begins here and moves `at` to its last byte. */
static void skip_string(scan *s) {
  for (s->at++; s->at < s->size && s->text[s->at] != '"'; s->at++) {
    if (s->text[s->at] == '\n') { /* MLIR ends a string at the end of the line
                                   */
      s->at--;
      return;
    }
    if (s->text[s->at] == '\\' && next(s, 1) != '\n') s->at++;
  }
}

static void skip_comment(scan *s) {
  while (s->at + 1 < s->size && next(s, 1) != '\n' && next(s, 1) != '\r')
    s->at++;
}

static nabla_status read_mark(scan *s, nabla_diag *diag) {
  const char c = s->text[s->at];
  const int by = step_of(s);
  if (by > 0) {
    s->open++;
    NABLA_TRY(deepen(s, s->open, diag));
  }
  if (by < 0 && s->open > 0) s->open--;
  if (s->open == s->outside)
    s->expects = c == '=' || c == ':' || c == '-' || (c == '>' && !by);
  if (strchr(",=[]{}", c)) s->operators = 0;
  if (c == '+' || c == '*' || (c == '-' && next(s, 1) != '>'))
    return count_operator(s, diag);
  return NABLA_OK;
}

static nabla_status read_text(scan *s, nabla_diag *diag) {
  for (; s->at < s->size; s->at++) {
    const char c = s->text[s->at];
    nabla_status status = NABLA_OK;
    if (c == '\n') {
      s->line++;
    } else if (is_word(c) || is_prefix(c)) {
      status = read_word(s, diag);
    } else if (c == '"') {
      status = enter_word(s, diag);
      skip_string(s);
    } else if (c == '/' && next(s, 1) == '/') {
      skip_comment(s);
    } else if (!is_blank(c)) {
      status = read_mark(s, diag);
    }
    if (status) return status;
  }
  return NABLA_OK;
}

nabla_status nabla_nesting_check(const char *text, size_t size,
                                 nabla_diag *diag) {
  if (has_bytecode(text, size)) {
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "it is MLIR's bytecode, which is not read here");
    nabla_diag_set_next(
        diag, "make text of it: nabla-opt --allow-bytecode IN -o OUT.mlir");
    return status;
  }
  scan s = {.text = text, .size = size, .line = 1};
  const nabla_status status = read_text(&s, diag);
  nabla_aliases_deinit(&s.aliases);
  return status;
}
