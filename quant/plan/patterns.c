/* Regular expressions through <regex.h> of the C library. Expressions that
 * would take unlimited time or memory are refused beforehand: glibc's regcomp
 * implements repetition by copies, one for "x+" and m for "x{n,m}", so that a
 * few nested ones take all memory, or exponential time if "x" may be empty.
 * Back-references take exponential time too. */
#include "quant/plan/patterns.h"

#include <errno.h>
#include <regex.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/memory.h"
#include "nabla/quantize.h"

/* Limits: positions of an expression after its repetitions are copied, nesting
 * of groups, and copies of expressions that may match nothing (each adds all
 * paths around it). Names of tensors need far less; time and memory suffer only
 * far above. */
enum { MAX_POSITIONS = 1100, MAX_GROUPS = 32, MAX_EMPTY_COPIES = 4 };

struct nabla_patterns {
  const nabla_allocator *allocator;
  size_t count;
  struct item {
    regex_t regex;
    char *text;
  } items[];
};

/* State of the count of an expression's positions. */
typedef struct counter {
  const char *text, *at;
  unsigned sums[MAX_GROUPS + 1]; /* positions so far, of each open group */
  int copies[MAX_GROUPS + 1];    /* whether the group contains "+" or "{}" */
  unsigned depth;                /* number of open groups */
  unsigned last;                 /* positions of the last atom or group  */
  int last_copies;               /* whether that contains "+" or "{}" */
  int empties[MAX_GROUPS + 1];   /* whether the group contains an expression
                                  * that may match nothing */
  int last_empties;              /* whether the last atom or group may match
                                  * nothing */
  int quantified;                /* whether the last byte was a quantifier */
} counter;

/* Skips "[...]" up to its last byte. If it does not end, `at` is the end, and
 * regcomp refuses the expression. A "]" directly after "[" is a member of the
 * set, and so are the bytes of "[:name:]", "[=x=]" and "[.x.]". */
static void skip_bracket(counter *c) {
  const char *at = c->at + 1;
  if (*at == '^') at++;
  if (*at == ']') at++;
  while (*at && *at != ']') {
    if (*at == '[' && at[1] && strchr(":=.", at[1])) {
      const char end[] = {at[1], ']', 0};
      at = strstr(at + 2, end);
      if (!at)
        at = c->at + strlen(c->at) - 1;
      else
        at++;
    }
    at++;
  }
  c->at = *at ? at : at - 1;
}

/* Returns the number of copies that "{n,m}" makes, and moves `at` to its last
 * byte. */
static unsigned read_copies(counter *c) {
  unsigned largest = 1, number = 0;
  const char *at = c->at + 1;
  for (; *at && *at != '}'; at++) {
    number = *at >= '0' && *at <= '9' ? number * 10 + (unsigned)(*at - '0') : 0;
    if (number > MAX_POSITIONS) number = MAX_POSITIONS;
    if (number > largest) largest = number;
  }
  c->at = *at ? at : at - 1;
  return largest + 1; /* "{n,}" is n copies and one more */
}

static const char *repeat(counter *c, unsigned copies) {
  if (c->last_empties && copies > MAX_EMPTY_COPIES)
    return "repeats too often what may match nothing";
  if (c->last_copies) return "has a + or {} inside what a + or {} repeats";
  c->sums[c->depth] += c->last * (copies - 1);
  c->last *= copies;
  c->last_copies = c->copies[c->depth] = 1;
  return NULL;
}

/* "^", "$" and an empty alternative match nothing. */
static int matches_nothing(const counter *c) {
  if (*c->at != '|') return *c->at == '^' || *c->at == '$';
  return c->at == c->text || strchr("(|", c->at[-1]) || strchr("|)", c->at[1]);
}

/* Both factors of the product stay below MAX_POSITIONS + 2: no overflow. */
static const char *count_one(counter *c) {
  const char byte = *c->at;
  const char *why = NULL;
  const int quantifier = strchr("*+?{", byte) != NULL;
  /* POSIX leaves "a??" undefined; the time that glibc takes for it grows with
   * the fourth power. */
  if (quantifier && c->quantified) return "has two of * + ? {} in a row";
  c->quantified = quantifier;
  if (byte == '\\') {
    c->at++;
    if (*c->at >= '1' && *c->at <= '9') return "has a back-reference";
    if (!*c->at) return "ends in a backslash";
  }
  if (byte == '(') {
    if (c->depth == MAX_GROUPS) return "nests too many groups";
    c->sums[++c->depth] = 1;
    c->copies[c->depth] = c->empties[c->depth] = 0;
  } else if (byte == ')' && c->depth) {
    c->last_copies = c->copies[c->depth];
    c->last_empties = c->empties[c->depth];
    c->last = c->sums[c->depth--];
    c->sums[c->depth] += c->last;
    c->copies[c->depth] |= c->last_copies;
    c->empties[c->depth] |= c->last_empties;
  } else if (byte == '{') {
    const int from_none = c->at[1] == '0' || c->at[1] == ',';
    why = repeat(c, read_copies(c));
    if (from_none) c->last_empties = c->empties[c->depth] = 1;
  } else if (byte == '+') {
    why = repeat(c, 2);
  } else if (byte == '*' || byte == '?') {
    c->last_empties = c->empties[c->depth] = 1;
  } else {
    if (byte == '[') skip_bracket(c);
    if (matches_nothing(c)) c->empties[c->depth] = 1;
    c->last = 1;
    c->last_copies = c->last_empties = 0;
    c->sums[c->depth]++;
  }
  if (why) return why;
  return c->sums[c->depth] > MAX_POSITIONS ? "repeats too often" : NULL;
}

static const char *objection(const char *text) {
  counter c = {.text = text, .at = text};
  const char *why = NULL;
  for (; !why && *c.at; c.at++) why = count_one(&c);
  return why;
}

static nabla_status compile(struct item *item, const char *option,
                            const char *text, nabla_diag *diag) {
  const char *why = strlen(text) > NABLA_MAX_PATTERN_BYTES ? "is too long"
                    : *text                                ? objection(text)
                                                           : "is empty";
  char error[96] = "";
  if (!why) {
    const int code = regcomp(&item->regex, text, REG_EXTENDED | REG_NOSUB);
    if (!code) return NABLA_OK;
    if (code == REG_ESPACE)
      return nabla_fail(diag, NABLA_NO_MEMORY,
                        "no memory for a regular expression");
    regerror(code, &item->regex, error, sizeof error);
    why = error;
  }
  nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "%s '%.80s' is no usable regular expression: %s", option, text, why);
  nabla_diag_set_next(diag, "see regex(7) for the syntax");
  return status;
}

static size_t struct_size(size_t count) {
  return sizeof(nabla_patterns) + count * sizeof(struct item);
}

static nabla_status add(nabla_patterns *patterns, const char *option,
                        const char *text, nabla_diag *diag) {
  struct item *item = &patterns->items[patterns->count];
  NABLA_TRY(compile(item, option, text, diag));
  const size_t size = strlen(text) + 1;
  void *copy;
  nabla_status status = nabla_alloc(patterns->allocator, size, 1, &copy, diag);
  if (status) {
    regfree(&item->regex);
    return status;
  }
  memcpy(copy, text, size);
  item->text = copy;
  patterns->count++;
  return NABLA_OK;
}

nabla_status nabla_patterns_create(const nabla_allocator *allocator,
                                   const char *option, const char *const *texts,
                                   size_t count, nabla_patterns **out,
                                   nabla_diag *diag) {
  if (count > NABLA_MAX_PATTERNS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s is given %zu times, at most %u are allowed", option,
                      count, NABLA_MAX_PATTERNS);
  void *block;
  /* The maximum is allocated, so that the size is known when it is freed. */
  NABLA_TRY(
      nabla_alloc(allocator, struct_size(NABLA_MAX_PATTERNS), 1, &block, diag));
  nabla_patterns *patterns = block;
  patterns->allocator = allocator;
  for (size_t i = 0; i < count; i++) {
    nabla_status status = add(patterns, option, texts[i], diag);
    if (status) {
      nabla_patterns_destroy(patterns);
      return status;
    }
  }
  *out = patterns;
  return NABLA_OK;
}

void nabla_patterns_destroy(nabla_patterns *patterns) {
  if (!patterns) return;
  for (size_t i = 0; i < patterns->count; i++) {
    struct item *item = &patterns->items[i];
    regfree(&item->regex);
    nabla_free(patterns->allocator, item->text, strlen(item->text) + 1, 1);
  }
  nabla_free(patterns->allocator, patterns, struct_size(NABLA_MAX_PATTERNS), 1);
}

size_t nabla_patterns_count(const nabla_patterns *patterns) {
  return patterns->count;
}

nabla_status nabla_patterns_match(const nabla_patterns *patterns,
                                  const char *name, size_t *out,
                                  nabla_diag *diag) {
  for (size_t i = 0; i < patterns->count; i++) {
    errno = 0; /* glibc's regexec returns "no match" when out of memory */
    const int code = regexec(&patterns->items[i].regex, name, 0, NULL, 0);
    if (code == REG_ESPACE || (code && errno == ENOMEM))
      return nabla_fail(diag, NABLA_NO_MEMORY,
                        "no memory to match a regular expression");
    if (code) continue;
    *out = i;
    return NABLA_OK;
  }
  *out = SIZE_MAX;
  return NABLA_OK;
}

const char *nabla_patterns_text(const nabla_patterns *patterns, size_t index) {
  return patterns->items[index].text;
}
