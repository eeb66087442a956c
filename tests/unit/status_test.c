/* The diag: texts stay short, terminated and harmless, whatever they hold. */
#include "nabla/status.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "nabla/version.h"

Test(status, names_and_numbers_are_pinned) {
  cr_assert_eq(NABLA_OK, 0);
  cr_assert_eq(NABLA_CORRUPT, 2);
  cr_assert_eq(NABLA_EXISTS, 9);
  cr_assert_str_eq(nabla_status_name(NABLA_CORRUPT), "CORRUPT");
  cr_assert_str_eq(nabla_status_text(NABLA_NO_MEMORY), "an allocation failed");
  cr_assert_str_eq(nabla_status_name((nabla_status)999), "UNKNOWN");
  cr_assert_str_eq(nabla_status_text((nabla_status)999), "an unknown status");
}

Test(status, fail_fills_code_and_text_and_clears_the_rest) {
  nabla_diag diag;
  memset(&diag, 'x', sizeof diag);
  cr_assert_eq(nabla_fail(&diag, NABLA_IO, "read %d of %s", 3, "file"),
               NABLA_IO);
  cr_assert_eq(diag.code, NABLA_IO);
  cr_assert_eq(diag.offset, NABLA_NO_OFFSET);
  cr_assert_str_eq(diag.what, "read 3 of file");
  cr_assert_str_empty(diag.file);
  cr_assert_str_empty(diag.tensor);
  cr_assert_str_empty(diag.next);
}

Test(status, a_missing_diag_is_fine) {
  cr_assert_eq(nabla_fail(NULL, NABLA_IO, "%s", "x"), NABLA_IO);
  nabla_diag_set_file(NULL, "f");
  nabla_diag_set_tensor(NULL, "t", 1);
  nabla_diag_set_offset(NULL, 1);
  nabla_diag_set_next(NULL, "%s", "n");
}

Test(status, arguments_may_point_into_the_diag) {
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_fail(&diag, NABLA_IO, "inner"), NABLA_IO);
  cr_assert_eq(nabla_fail(&diag, NABLA_IO, "outer: %s", diag.what), NABLA_IO);
  cr_assert_str_eq(diag.what, "outer: inner");
  nabla_diag_set_next(&diag, "try");
  nabla_diag_set_next(&diag, "%s again", diag.next);
  cr_assert_str_eq(diag.next, "try again");
}

Test(status, the_innermost_file_and_tensor_win) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_diag_set_file(&diag, "inner");
  nabla_diag_set_file(&diag, "outer");
  nabla_diag_set_tensor(&diag, "abc", 2);
  nabla_diag_set_tensor(&diag, "z", 1);
  cr_assert_str_eq(diag.file, "inner");
  cr_assert_str_eq(diag.tensor, "ab");
}

/* Texts and how they are shown. */
static const struct {
  const char *text;
  size_t size;
  const char *shown;
} texts[] = {
    {"plain", 5, "plain"},
    {"a\nb\x1b[0m", 7, "a\\x0ab\\x1b[0m"},
    {"\x7f\0\x01", 3, "\\x7f\\x00\\x01"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
     "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xff\xc3(", 3, "\\xff\\xc3("},
    {"\xc0\xaf", 2, "\\xc0\\xaf"},                   /* overlong */
    {"\xe0\x9f\xbf", 3, "\\xe0\\x9f\\xbf"},          /* overlong */
    {"\xf0\x8f\xbf\xbf", 4, "\\xf0\\x8f\\xbf\\xbf"}, /* overlong */
    {"\xed\xa0\x80", 3, "\\xed\\xa0\\x80"},          /* a surrogate */
    {"\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"}, /* above U+10FFFF */
    {"\xe2\x82", 2, "\\xe2\\x82"},                   /* cut short */
    {"\xc2\x9b", 2, "\\xc2\\x9b"},                   /* CSI, a C1 control */
    {"\xc2\xa0", 2, "\xc2\xa0"},
    {"\xe2\x80\xae", 3, "\\xe2\\x80\\xae"}, /* reverses what follows */
    {"\xe2\x81\xa6", 3, "\\xe2\\x81\\xa6"},
    {"\xe2\x80\xa7", 3, "\xe2\x80\xa7"},
};

Test(status, what_a_terminal_obeys_is_escaped) {
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_diag_set_tensor(&diag, texts[i].text, texts[i].size);
    cr_expect_str_eq(diag.tensor, texts[i].shown, "row %zu", i);
  }
}

/* Every length around the limit, of text made of units of 1, 2 and 4 bytes. */
static void shorten(const char *unit, const char *shown) {
  char text[300] = "", expected[1300] = "";
  const size_t room = sizeof((nabla_diag *)0)->tensor;
  for (size_t count = 0; strlen(text) + strlen(unit) < sizeof text; count++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_diag_set_tensor(&diag, text, strlen(text));
    if (strlen(expected) < room) {
      cr_assert_str_eq(diag.tensor, expected, "%zu x %s", count, shown);
    } else {
      const size_t kept = (room - 4) / strlen(shown) * strlen(shown);
      cr_assert_eq(strlen(diag.tensor), kept + 3, "%zu x %s", count, shown);
      cr_assert_eq(memcmp(diag.tensor, expected, kept), 0);
      cr_assert_str_eq(diag.tensor + kept, "...");
    }
    memcpy(text + strlen(text), unit, strlen(unit) + 1);
    memcpy(expected + strlen(expected), shown, strlen(shown) + 1);
  }
}

Test(status, long_text_keeps_its_start_and_whole_characters) {
  shorten("a", "a");
  shorten("\xc3\xa9", "\xc3\xa9");
  shorten("\xe2\x82\xac", "\xe2\x82\xac");
  shorten("\x01", "\\x01");
}

Test(status, long_formatted_text_is_shortened_too) {
  char text[5000];
  memset(text, 'y', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  nabla_diag diag;
  cr_assert_eq(nabla_fail(&diag, NABLA_IO, "%s", text), NABLA_IO);
  cr_assert_eq(strlen(diag.what), sizeof diag.what - 1);
  cr_assert_str_eq(diag.what + sizeof diag.what - 4, "...");
  nabla_diag_set_next(&diag, "%s", text);
  cr_assert_str_eq(diag.next + sizeof diag.next - 4, "...");
  nabla_diag_set_file(&diag, text);
  cr_assert_str_eq(diag.file + sizeof diag.file - 4, "...");
}

Test(status, the_line_leaves_out_what_is_empty) {
  nabla_diag diag = NABLA_DIAG_INIT;
  char line[200];
  cr_assert_eq(nabla_fail(&diag, NABLA_CORRUPT, "bad"), NABLA_CORRUPT);
  nabla_diag_format(&diag, line, sizeof line);
  cr_assert_str_eq(line, "bad");
  nabla_diag_set_tensor(&diag, "w", 1);
  nabla_diag_format(&diag, line, sizeof line);
  cr_assert_str_eq(line, "tensor 'w': bad");
  nabla_diag_set_file(&diag, "f");
  nabla_diag_set_offset(&diag, 0);
  nabla_diag_set_next(&diag, "retry");
  const char *whole = "f: tensor 'w': bad (at byte 0); retry";
  cr_assert_eq(nabla_diag_format(&diag, line, sizeof line), (int)strlen(whole));
  cr_assert_str_eq(line, whole);
}

Test(status, a_short_line_is_cut_and_terminated) {
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_fail(&diag, NABLA_IO, "abcdef"), NABLA_IO);
  char line[8] = "#######";
  cr_assert_eq(nabla_diag_format(&diag, line, 4), 6);
  cr_assert_str_eq(line, "abc");
  cr_assert_eq(line[4], '#');
  cr_assert_eq(nabla_diag_format(&diag, NULL, 0), 6);
}

Test(status, the_version_is_that_of_the_headers) {
  char text[32];
  (void)snprintf(text, sizeof text, "%d.%d.%d", NABLA_VERSION_MAJOR,
                 NABLA_VERSION_MINOR, NABLA_VERSION_PATCH);
  cr_expect_str_eq(nabla_version(), text);
  cr_expect_str_eq(NABLA_VERSION, text);
}
