/* The JSON writer: exact bytes, escapes that the parser reads back, and misuse
 * that is reported instead of written. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json/json.h"
#include "lib/base/utf8.h"

typedef struct sink {
  char text[8 * NABLA_JSON_OUT_BUFFER];
  size_t size, writes, fail_at; /* the write that fails, from 1; 0: none */
} sink;

static nabla_status sink_write(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  sink *to = self;
  cr_assert_gt(size, 0);
  if (++to->writes == to->fail_at)
    return nabla_fail(diag, NABLA_IO, "write %zu failed", to->writes);
  cr_assert_lt(to->size + size, sizeof to->text);
  memcpy(to->text + to->size, data, size);
  to->size += size;
  to->text[to->size] = '\0';
  return NABLA_OK;
}

static void write_sample(nabla_json_out *out) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "a");
  nabla_json_out_u64(out, UINT64_MAX);
  nabla_json_out_key_n(out, "bcd", 2);
  nabla_json_out_array(out);
  nabla_json_out_array(out);
  nabla_json_out_array_end(out);
  nabla_json_out_object(out);
  nabla_json_out_object_end(out);
  nabla_json_out_bool(out, 1);
  nabla_json_out_bool(out, 0);
  nabla_json_out_null(out);
  nabla_json_out_string(out, "s");
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "e");
  nabla_json_out_double(out, 0.5);
  nabla_json_out_object_end(out);
}

Test(json_out, commas_and_nesting) {
  static const char *const expected[] = {
      "{\"a\":18446744073709551615,\"bc\":[[],{},true,false,null,\"s\"],"
      "\"e\":0.5}",
      "{\"a\": 18446744073709551615, \"bc\": [[], {}, true, false, null, "
      "\"s\"], \"e\": 0.5}"};
  for (int spaced = 0; spaced < 2; spaced++) {
    sink to = {.size = 0};
    nabla_json_out out = {.self = &to, .write = sink_write, .spaced = spaced};
    write_sample(&out);
    cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
    cr_assert_str_eq(to.text, expected[spaced]);
  }
}

#define SAMPLES 400 /* more than six buffers */

static void write_samples(nabla_json_out *out) {
  nabla_json_out_array(out);
  for (int i = 0; i < SAMPLES; i++) write_sample(out);
  nabla_json_out_array_end(out);
}

Test(json_out, each_write_failing_stops_it) {
  size_t failed = 0;
  for (size_t n = 1;; n++) {
    sink to = {.fail_at = n};
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_json_out out = {.self = &to, .write = sink_write, .diag = &diag};
    write_samples(&out);
    const nabla_status status = nabla_json_out_finish(&out);
    if (to.writes < n) {
      cr_assert_eq(status, NABLA_OK);
      break;
    }
    failed++;
    cr_assert_eq(status, NABLA_IO);
    cr_assert_eq(to.writes, n);
    cr_assert_eq(strncmp(diag.what, "write ", 6), 0);
  }
  cr_assert_gt(failed, 6);
}

Test(json_out, few_writes_for_much_text) {
  sink to = {.size = 0};
  nabla_json_out out = {.self = &to, .write = sink_write};
  write_samples(&out);
  cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
  cr_assert_gt(to.size, 6 * NABLA_JSON_OUT_BUFFER);
  /* a piece that no longer fits leaves less than its length unused */
  cr_assert_leq(to.writes, to.size / (NABLA_JSON_OUT_BUFFER - 200) + 1);
}

/* What was written reaches the sink when it is finished: lines of progress are
 * seen as they come. */
Test(json_out, finish_leaves_nothing_behind) {
  sink to = {.size = 0};
  nabla_json_out out = {.self = &to, .write = sink_write};
  nabla_json_out_null(&out);
  cr_assert_eq(to.size, 0);
  cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
  cr_assert_str_eq(to.text, "null");
  cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
  cr_assert_eq(to.writes, 1);
}

/* Strings around the size of the buffer, plain and escaped, behind others. */
Test(json_out, strings_of_any_length) {
  static char text[NABLA_JSON_OUT_BUFFER + 64], expected[3 * sizeof text];
  for (size_t first = 0; first < 200; first += 33)
    for (size_t n = NABLA_JSON_OUT_BUFFER - 260; n < sizeof text; n++) {
      sink to = {.size = 0};
      nabla_json_out out = {.self = &to, .write = sink_write};
      memset(text, 'a', sizeof text);
      if (first % 2) text[n / 2] = '\n';
      nabla_json_out_array(&out);
      nabla_json_out_string_n(&out, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
                              first % 40);
      nabla_json_out_string_n(&out, text, n);
      nabla_json_out_u64(&out, 10);
      nabla_json_out_array_end(&out);
      cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
      const int head =
          snprintf(expected, sizeof expected, "[\"%.*s\",\"", (int)(first % 40),
                   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
      size_t at = (size_t)head;
      for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') expected[at++] = '\\';
        expected[at++] = text[i] == '\n' ? 'n' : text[i];
      }
      memcpy(expected + at, "\",10]", 6);
      cr_assert_str_eq(to.text, expected);
    }
}

static void quoted(const char *text, size_t length, const char *expected) {
  sink to = {.size = 0};
  nabla_json_out out = {.self = &to, .write = sink_write};
  nabla_json_out_string_n(&out, text, length);
  cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
  cr_assert_str_eq(to.text, expected);
}

#define FFFD "\xef\xbf\xbd"

Test(json_out, escapes) {
  quoted("", 0, "\"\"");
  quoted("plain", 5, "\"plain\"");
  quoted("\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
  quoted("a\0b\x1f\x7f/", 6, "\"a\\u0000b\\u001f\\u007f/\"");
  quoted("\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\"");
  quoted(
      "a\xff"
      "b",
      3, "\"a" FFFD "b\"");
  quoted("\xc3", 1, "\"" FFFD "\"");
  quoted("\xed\xa0\x80", 3, "\"" FFFD FFFD FFFD "\"");
  quoted("x\xe2\x82", 3, "\"x" FFFD FFFD "\"");
}

static void is_escaped(uint32_t code) {
  uint8_t text[4];
  char expected[24];
  const size_t length = nabla_utf8_encode(code, text);
  if (code < 0x10000)
    snprintf(expected, sizeof expected, "\"\\u%04x\"", (unsigned)code);
  else
    snprintf(expected, sizeof expected, "\"\\u%04x\\u%04x\"",
             (unsigned)(0xd7c0 + (code >> 10)),
             (unsigned)(0xdc00 + (code & 0x3ff)));
  quoted((const char *)text, length, expected);
}

Test(json_out, escapes_controls_and_formats) {
  static const uint32_t some[] = {0x7f,   0x80,   0x9b,   0x9f,    0xad,
                                  0x61c,  0x200b, 0x200e, 0x2028,  0x202e,
                                  0x2066, 0xfeff, 0xfff9, 0x110bd, 0xe0001};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) is_escaped(some[i]);
  quoted("\xc2\xa0", 2, "\"\xc2\xa0\""); /* a space is none */
}

Test(json_out, the_parser_reads_every_character_back) {
  char text[256], copy[300];
  size_t size = 0;
  for (int c = 1; c < 128; c++) text[size++] = (char)c;
  memcpy(text + size, "\xc2\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf", 9);
  size += 9;
  sink to = {.size = 0};
  nabla_json_out out = {.self = &to, .write = sink_write};
  nabla_json_out_string_n(&out, text, size);
  cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
  nabla_json *json;
  nabla_json_event event;
  cr_assert_eq(nabla_json_create_span(NULL, to.text, to.size, 0, &json, NULL),
               0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(event.length, size);
  memcpy(copy, event.text, size);
  cr_assert_eq(memcmp(copy, text, size), 0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(event.kind, NABLA_JSON_END);
  nabla_json_destroy(json);
}

Test(json_out, doubles) {
  static const struct {
    double value;
    const char *text;
  } rows[] = {
      {0, "0"},
      {-0.0, "-0"},
      {1, "1"},
      {-1.5, "-1.5"},
      {1.0 / 3, "0.333333333"},
      {1e100, "1e+100"},
      {2.5e-7, "2.5e-07"},
      {123456789, "123456789"},
      {999999999, "999999999"},
      {-999999999, "-999999999"},
      {999999999.5, "1e+09"},
      {1e9, "1e+09"},
      {-7, "-7"},
      {-1.25e-300, "-1.25e-300"},
      {NAN, "null"},
      {INFINITY, "null"},
      {-INFINITY, "null"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    sink to = {.size = 0};
    nabla_json_out out = {.self = &to, .write = sink_write};
    nabla_json_out_double(&out, rows[i].value);
    cr_assert_eq(nabla_json_out_finish(&out), NABLA_OK);
    cr_assert_str_eq(to.text, rows[i].text);
  }
}

static void two_values_without_a_key(nabla_json_out *out) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "a");
  nabla_json_out_u64(out, 1);
  nabla_json_out_u64(out, 2);
  nabla_json_out_object_end(out);
}

static void wrong_end(nabla_json_out *out) {
  nabla_json_out_array(out);
  nabla_json_out_object_end(out);
  nabla_json_out_array_end(out);
}

static void end_of_nothing(nabla_json_out *out) {
  nabla_json_out_array_end(out);
}

static void end_after_key(nabla_json_out *out) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "a");
  nabla_json_out_object_end(out);
}

static void two_keys(nabla_json_out *out) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "a");
  nabla_json_out_key(out, "b");
  nabla_json_out_u64(out, 1);
  nabla_json_out_object_end(out);
}

static void key_in_array(nabla_json_out *out) {
  nabla_json_out_array(out);
  nabla_json_out_key(out, "a");
  nabla_json_out_array_end(out);
}

static void key_outside(nabla_json_out *out) { nabla_json_out_key(out, "a"); }

static void no_end(nabla_json_out *out) { nabla_json_out_array(out); }

Test(json_out, misuse_is_an_error) {
  static void (*const cases[])(nabla_json_out *) = {two_values_without_a_key,
                                                    wrong_end,
                                                    end_of_nothing,
                                                    end_after_key,
                                                    two_keys,
                                                    key_in_array,
                                                    key_outside,
                                                    no_end};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sink to = {.size = 0};
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_json_out out = {.self = &to, .write = sink_write, .diag = &diag};
    cases[i](&out);
    cr_expect_eq(nabla_json_out_finish(&out), NABLA_INVALID_ARGUMENT,
                 "case %zu", i);
    cr_expect_eq(diag.code, NABLA_INVALID_ARGUMENT);
    cr_expect_null(strpbrk(to.text, "]}"), "case %zu", i);
  }
}

Test(json_out, depth_has_a_limit) {
  for (uint32_t extra = 0; extra < 2; extra++) {
    sink to = {.size = 0};
    nabla_json_out out = {.self = &to, .write = sink_write};
    for (uint32_t i = 0; i < NABLA_JSON_MAX_DEPTH + extra; i++)
      nabla_json_out_array(&out);
    for (uint32_t i = 0; i < NABLA_JSON_MAX_DEPTH; i++)
      nabla_json_out_array_end(&out);
    cr_assert_eq(nabla_json_out_finish(&out),
                 extra ? NABLA_TOO_LARGE : NABLA_OK);
  }
}
