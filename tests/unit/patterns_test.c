/* The user's regular expressions: which one matches, and that none can take
 * all memory or time. */
#include "quant/plan/patterns.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/quantize.h"
#include "tests/support/failing_allocator.h"

static nabla_diag diag;

static nabla_patterns *create(const char *const *texts, size_t count) {
  nabla_patterns *patterns = NULL;
  cr_assert_eq(
      nabla_patterns_create(NULL, "skip", texts, count, &patterns, &diag),
      NABLA_OK, "%s", diag.what);
  return patterns;
}

static size_t match(const nabla_patterns *patterns, const char *name) {
  size_t index = 12345;
  cr_assert_eq(nabla_patterns_match(patterns, name, &index, &diag), NABLA_OK);
  return index;
}

static nabla_status try_one(const char *text) {
  nabla_patterns *patterns = NULL;
  nabla_status status =
      nabla_patterns_create(NULL, "rule", &text, 1, &patterns, &diag);
  if (status)
    cr_expect_null(patterns);
  else
    nabla_patterns_destroy(patterns);
  return status;
}

Test(patterns, first_match_wins_and_matches_anywhere) {
  static const char *const texts[] = {"^a", "mlp", "b$", "mlp|x"};
  nabla_patterns *patterns = create(texts, 4);
  cr_expect_eq(nabla_patterns_count(patterns), 4);
  cr_expect_str_eq(nabla_patterns_text(patterns, 2), "b$");
  cr_expect_eq(match(patterns, "abb"), 0);
  cr_expect_eq(match(patterns, "layer.mlp.weight"), 1);
  cr_expect_eq(match(patterns, "bab"), 2);
  cr_expect_eq(match(patterns, "x"), 3);
  cr_expect_eq(match(patterns, "MLP"), SIZE_MAX);
  nabla_patterns_destroy(patterns);
}

Test(patterns, no_patterns_match_nothing) {
  nabla_patterns *patterns = create(NULL, 0);
  cr_expect_eq(nabla_patterns_count(patterns), 0);
  cr_expect_eq(match(patterns, ""), SIZE_MAX);
  nabla_patterns_destroy(patterns);
  nabla_patterns_destroy(NULL);
}

/* What people write, and what only looks dangerous. */
static const char *const good[] = {
    "layers\\.[0-9]+\\.(self_attn|mlp)\\.[a-z_]+\\.weight$",
    "^(model|encoder)\\.layers\\.([0-9]|1[0-5])\\.",
    "a{1000}",
    "[0-9]{1,3}",
    "(a|b){2,30}",
    "(layers\\.[0-9]+\\.)?mlp", /* "?" and "*" do not copy */
    "(a+b{2})*c+",
    "[{(+*]{3}",           /* in brackets they are themselves      */
    "[](){+]+",            /* a "]" that comes first is a member   */
    "[^]+]+x",             /* also behind "^"                      */
    "[[:digit:]]+[[.-.]]", /* classes and collating symbols        */
    "\\(\\(\\(\\{9999",    /* escaped                              */
    "((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))",
    "(((((a*)*)*)*)*)*",
    "a)b", /* an unmatched ")" is itself */
};

ParameterizedTestParameters(patterns, good_is_taken) {
  static size_t rows[sizeof good / sizeof *good];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, sizeof good / sizeof *good);
}

ParameterizedTest(size_t *row, patterns, good_is_taken) {
  cr_expect_eq(try_one(good[*row]), NABLA_OK, "%s: %s", good[*row], diag.what);
}

/* Syntax errors, and what would take all memory or exponential time. */
static const struct {
  const char *text, *why;
} bad[] = {
    {"", "empty"},
    {"(", NULL},
    {"[a", NULL},
    {"[[:alpha:", NULL},
    {"*a", NULL},
    {"a{", NULL},
    {"a{2,1}", NULL},
    {"a\\", "backslash"},
    {"(a)\\1", "back-reference"},
    {"(ab{2,3}){4}", "repeats"},
    {"a++", "in a row"},
    {"(a?){0,255}", "nothing"}, /* took a gigabyte */
    {"(a|b?){9}", "nothing"},
    {"((a+)*){2}", "repeats"},
    {"(((((((((?a+)+)+)+)+)+)+)+", "repeats"}, /* took 16 s */
    {"(((((a){0,2}){2,3}){2,3}){2,3})+", "repeats"},
    {"((a{100}){100}){100}", "repeats"},
    {"a{40}{40}{40}", "in a row"},
    {"(a{0,50}){0,50}", "repeats"},
    {"a{99999999999999999999}", "repeats"},
    {"a++++++++++++++++++++++++++++++", "in a row"},
    {"x????????????????????????????????{2,}", "in a row"},
    {"(((((((((((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+"
     ")+)+",
     "repeats"},
    {"(x{200}[(]){200}", "repeats"}, /* a "(" in brackets opens nothing   */
    {"((x{200}[)]y){200})", "repeats"},
    {"([]x](x{200}){200})", "repeats"},
    {"(((((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))))))",
     "groups"},
};

ParameterizedTestParameters(patterns, bad_is_refused) {
  static size_t rows[sizeof bad / sizeof *bad];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, sizeof bad / sizeof *bad);
}

ParameterizedTest(size_t *row, patterns, bad_is_refused) {
  const char *text = bad[*row].text;
  cr_assert_eq(try_one(text), NABLA_INVALID_ARGUMENT, "%s", text);
  cr_expect(strstr(diag.what, "rule '"), "%s", diag.what);
  cr_expect(strstr(diag.next, "regex(7)"), "%s", diag.next);
  if (bad[*row].why)
    cr_expect(strstr(diag.what, bad[*row].why), "%s: %s", text, diag.what);
}

Test(patterns, limits_are_exact) {
  char text[NABLA_MAX_PATTERN_BYTES + 2];
  memset(text, 'a', sizeof text);
  text[NABLA_MAX_PATTERN_BYTES] = 0;
  cr_expect_eq(try_one(text), NABLA_OK);
  text[NABLA_MAX_PATTERN_BYTES] = 'a';
  text[NABLA_MAX_PATTERN_BYTES + 1] = 0;
  cr_expect_eq(try_one(text), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "too long"), "%s", diag.what);

  const char *many[NABLA_MAX_PATTERNS + 1];
  for (size_t i = 0; i < NABLA_MAX_PATTERNS + 1; i++) many[i] = "a";
  nabla_patterns *patterns = create(many, NABLA_MAX_PATTERNS);
  nabla_patterns_destroy(patterns);
  patterns = NULL;
  cr_expect_eq(nabla_patterns_create(NULL, "only", many, NABLA_MAX_PATTERNS + 1,
                                     &patterns, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(patterns);
  cr_expect(strstr(diag.what, "257"), "%s", diag.what);
}

/* A pattern at the limit against a name at the limit. */
Test(patterns, worst_case_ends) {
  static const char *const texts[] = {"(a*a*)*b$", "(a|b|ab){150}c$"};
  nabla_patterns *patterns = create(texts, 2);
  char name[4097];
  memset(name, 'a', sizeof name);
  name[4096] = 0;
  cr_expect_eq(match(patterns, name), SIZE_MAX);
  nabla_patterns_destroy(patterns);
}

Test(patterns, every_allocation_fails_once) {
  static const char *const texts[] = {"a", "b+", "[c]"};
  nabla_status status = NABLA_NO_MEMORY;
  size_t tries = 0;
  while (status) {
    failing_allocator failing;
    nabla_patterns *patterns = NULL;
    failing_allocator_init(&failing, ++tries);
    status = nabla_patterns_create(&failing.allocator, "skip", texts, 3,
                                   &patterns, &diag);
    if (status) cr_assert_eq(status, NABLA_NO_MEMORY);
    if (status) cr_expect_null(patterns);
    nabla_patterns_destroy(patterns);
    cr_assert(failing_allocator_is_clean(&failing));
  }
  cr_expect_geq(tries, 4);
}
