/* The JSON parser: what RFC 8259 allows and forbids, exact offsets, the same
 * events however the bytes arrive, limits, and nothing lost on failure. */
#include "lib/base/json/json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

/* A source that hands out `chunk` bytes at a time and fails at `fail_at`. */
typedef struct slow_source {
  const char *data;
  size_t size, at, chunk, fail_at;
} slow_source;

static nabla_status slow_read(void *self, void *out, size_t size, size_t *got,
                              nabla_diag *diag) {
  slow_source *source = self;
  size_t count = source->size - source->at;
  if (source->at >= source->fail_at)
    return nabla_fail(diag, NABLA_IO, "the disk is gone");
  if (count > source->chunk) count = source->chunk;
  if (count > size) count = size;
  memcpy(out, source->data + source->at, count);
  source->at += count;
  *got = count;
  return NABLA_OK;
}

/* Everything that a parser says about a document. */
typedef struct trace {
  nabla_status status;
  nabla_diag diag;
  char events[4000]; /* one letter, offset and text for each event */
} trace;

static void note(trace *out, const nabla_json_event *event) {
  static const char letters[] = "E{}[]ksntf0";
  const size_t used = strlen(out->events);
  snprintf(out->events + used, sizeof out->events - used, "%c%d%s%s ",
           letters[event->kind], (int)event->offset, event->text ? ":" : "",
           event->text ? event->text : "");
  if (event->text) cr_assert_eq(strlen(event->text), event->length);
}

/* chunk 0: from a span. */
static void parse(const nabla_allocator *allocator, const char *data,
                  size_t size, size_t chunk, trace *out) {
  slow_source source = {data, size, 0, chunk, SIZE_MAX};
  nabla_json *json = NULL;
  *out = (trace){.diag = NABLA_DIAG_INIT};
  out->status =
      chunk == 0
          ? nabla_json_create_span(allocator, data, size, 0, &json, &out->diag)
          : nabla_json_create(allocator,
                              (nabla_json_source){&source, slow_read}, 0, &json,
                              &out->diag);
  nabla_json_event event = {.kind = NABLA_JSON_NULL};
  while (!out->status && event.kind != NABLA_JSON_END) {
    out->status = nabla_json_next(json, &event, &out->diag);
    if (!out->status) note(out, &event);
  }
  nabla_json_destroy(json);
}

/* A copy without room behind it, for a sanitizer to see reads beyond. */
static void parse_exactly(const char *data, size_t size, size_t chunk,
                          trace *out) {
  char *copy = malloc(size > 0 ? size : 1);
  memcpy(copy, data, size);
  parse(NULL, copy, size, chunk, out);
  free(copy);
}

#define TEXT(literal) literal, sizeof literal - 1

static const struct {
  const char *data;
  size_t size;
  const char *events;
} accepted[] = {
    {TEXT("null"), "00 E4 "},
    {TEXT(" \t\r\n true \n"), "t5 E11 "},
    {TEXT("false"), "f0 E5 "},
    {TEXT("{}"), "{0 }1 E2 "},
    {TEXT("[ ]"), "[0 ]2 E3 "},
    {TEXT("[[],{}]"), "[0 [1 ]2 {4 }5 ]6 E7 "},
    {TEXT("{\"a\" : 1 , \"\":[true,null]}"),
     "{0 k1:a n7:1 k11: [14 t15 020 ]24 }25 E26 "},
    {TEXT("[1,-0,0.5,-1.25e+10,2E-3,1e5,10,9]"),
     "[0 n1:1 n3:-0 n6:0.5 n10:-1.25e+10 n20:2E-3 n25:1e5 n29:10 n32:9 ]33 "
     "E34 "},
    {TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "s0:\"\\/\b\f\n\r\t E18 "},
    {TEXT("\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\""),
     "s0:A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 E32 "},
    {TEXT("\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\\udbff\\udfff\""),
     "s0:\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf "
     "E50 "},
    {TEXT("\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80"
          "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""),
     "s0:\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80"
     "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf E24 "},
    {TEXT("\"\\ud87e\\udc00\""), "s0:\xf0\xaf\xa0\x80 E14 "},
    {TEXT("{\"a\":1,\"a\":2}"), "{0 k1:a n5:1 k7:a n11:2 }12 E13 "},
    {TEXT("[\"a long run of plain text, longer than a word\",            "
          "          1]"),
     "[0 s1:a long run of plain text, longer than a word n70:1 ]71 E72 "},
};

static const struct {
  const char *data;
  size_t size, offset;
  nabla_status status;
} refused[] = {
    {TEXT(""), 0, NABLA_CORRUPT},
    {TEXT("  "), 2, NABLA_CORRUPT},
    {TEXT("\xef\xbb\xbfnull"), 0, NABLA_CORRUPT}, /* byte order mark */
    {TEXT("nul"), 3, NABLA_CORRUPT},
    {TEXT("nulL"), 3, NABLA_CORRUPT},
    {TEXT("True"), 0, NABLA_CORRUPT},
    {TEXT("truex"), 4, NABLA_CORRUPT},
    {TEXT("null null"), 5, NABLA_CORRUPT},
    {TEXT("{} ,"), 3, NABLA_CORRUPT},
    {TEXT("[]]"), 2, NABLA_CORRUPT},
    {TEXT("null\0"), 4, NABLA_CORRUPT},
    {TEXT("]"), 0, NABLA_CORRUPT},
    {TEXT("[1,]"), 3, NABLA_CORRUPT},
    {TEXT("[,1]"), 1, NABLA_CORRUPT},
    {TEXT("[1 2]"), 3, NABLA_CORRUPT},
    {TEXT("[1,,2]"), 3, NABLA_CORRUPT},
    {TEXT("[1}"), 2, NABLA_CORRUPT},
    {TEXT("[1:2]"), 2, NABLA_CORRUPT},
    {TEXT("{\"a\":1,}"), 7, NABLA_CORRUPT},
    {TEXT("{,}"), 1, NABLA_CORRUPT},
    {TEXT("{\"a\"}"), 4, NABLA_CORRUPT},
    {TEXT("{\"a\",1}"), 4, NABLA_CORRUPT},
    {TEXT("{\"a\":}"), 5, NABLA_CORRUPT},
    {TEXT("{\"a\":1]"), 6, NABLA_CORRUPT},
    {TEXT("{\"a\":1 \"b\":2}"), 7, NABLA_CORRUPT},
    {TEXT("{a:1}"), 1, NABLA_CORRUPT},
    {TEXT("{1:1}"), 1, NABLA_CORRUPT},
    {TEXT("{'a':1}"), 1, NABLA_CORRUPT},
    {TEXT("[1]//x"), 3, NABLA_CORRUPT},
    {TEXT("[/**/1]"), 1, NABLA_CORRUPT},
    {TEXT("\f1"), 0, NABLA_CORRUPT},
    {TEXT("\xc2\xa0"
          "1"),
     0, NABLA_CORRUPT},
    /* numbers */
    {TEXT("01"), 1, NABLA_CORRUPT},
    {TEXT("-01"), 2, NABLA_CORRUPT},
    {TEXT("00"), 1, NABLA_CORRUPT},
    {TEXT("-"), 1, NABLA_CORRUPT},
    {TEXT("[-]"), 2, NABLA_CORRUPT},
    {TEXT("+1"), 0, NABLA_CORRUPT},
    {TEXT(".5"), 0, NABLA_CORRUPT},
    {TEXT("1."), 2, NABLA_CORRUPT},
    {TEXT("1.e5"), 2, NABLA_CORRUPT},
    {TEXT("-.5"), 1, NABLA_CORRUPT},
    {TEXT("1e"), 2, NABLA_CORRUPT},
    {TEXT("1e+"), 3, NABLA_CORRUPT},
    {TEXT("1e+-5"), 3, NABLA_CORRUPT},
    {TEXT("1e5.5"), 3, NABLA_CORRUPT},
    {TEXT("1.2.3"), 3, NABLA_CORRUPT},
    {TEXT("1-2"), 1, NABLA_CORRUPT},
    {TEXT("--1"), 1, NABLA_CORRUPT},
    {TEXT("0x10"), 1, NABLA_CORRUPT},
    {TEXT("1a"), 1, NABLA_CORRUPT},
    {TEXT("NaN"), 0, NABLA_CORRUPT},
    {TEXT("Infinity"), 0, NABLA_CORRUPT},
    {TEXT("-Infinity"), 1, NABLA_CORRUPT},
    /* strings */
    {TEXT("\"abc"), 4, NABLA_CORRUPT},
    {TEXT("\""), 1, NABLA_CORRUPT},
    {TEXT("\"a\nb\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\tb\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\0b\""), 2, NABLA_CORRUPT},
    {TEXT("\"0123456789abcdef\x1f\""), 17, NABLA_CORRUPT},
    {TEXT("\"\\x41\""), 2, NABLA_CORRUPT},
    {TEXT("\"\\a\""), 2, NABLA_CORRUPT},
    {TEXT("\"\\\0\""), 2, NABLA_CORRUPT},
    {TEXT("\"\\"), 2, NABLA_CORRUPT},
    {TEXT("\"\\u12"), 5, NABLA_CORRUPT},
    {TEXT("\"\\u12g4\""), 5, NABLA_CORRUPT},
    {TEXT("\"\\u12\x10\x34\""), 5, NABLA_CORRUPT},
    {TEXT("\"\\u 123\""), 3, NABLA_CORRUPT},
    {TEXT("\"ab\\u0000\""), 3, NABLA_CORRUPT},
    {TEXT("\"\\ud800\""), 1, NABLA_CORRUPT},
    {TEXT("\"\\ud800x\""), 1, NABLA_CORRUPT},
    {TEXT("\"\\ud800\\n\""), 1, NABLA_CORRUPT},
    {TEXT("\"\\ud800\\u0041\""), 1, NABLA_CORRUPT},
    {TEXT("\"\\ud800\\ud800\""), 1, NABLA_CORRUPT},
    {TEXT("\"\\ud800\\ue000\""), 1, NABLA_CORRUPT},
    {TEXT("\"a\\udc00\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\\udfff\\ud800\""), 2, NABLA_CORRUPT},
    /* UTF-8 */
    {TEXT("\"a\x80\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\xff\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\xc0\x80\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\xc1\xbf\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\xc3\""), 2, NABLA_CORRUPT},
    {TEXT("\"a\xc3("), 2, NABLA_CORRUPT},
    {TEXT("\"\xe0\x9f\xbf\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xed\xa0\x80\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xe2\x82\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xe2\x28\xa1\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xe2\x82"), 1, NABLA_CORRUPT},
    {TEXT("\"\xf0\x8f\xbf\xbf\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xf4\x90\x80\x80\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xf5\x80\x80\x80\""), 1, NABLA_CORRUPT},
    {TEXT("\"\xf0\x9f\x98\""), 1, NABLA_CORRUPT},
    {TEXT("\"0123456789\xc3\xa9\x80\""), 13, NABLA_CORRUPT},
    /* limits */
    {TEXT("[1234567890123456789012345678901234567890123456789012345678901234"
          "5]"),
     1, NABLA_TOO_LARGE},
};

static const size_t chunks[] = {0, 1, 2, 3, 7, 8, 64};
#define CHUNKS (sizeof chunks / sizeof chunks[0])

Test(json, accepts_what_the_standard_allows) {
  for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++)
    for (size_t c = 0; c < CHUNKS; c++) {
      trace got;
      parse_exactly(accepted[i].data, accepted[i].size, chunks[c], &got);
      cr_expect_eq(got.status, NABLA_OK, "%s: %s", accepted[i].data,
                   got.diag.what);
      cr_expect_str_eq(got.events, accepted[i].events, "row %zu chunk %zu", i,
                       chunks[c]);
    }
}

Test(json, refuses_everything_else_at_its_offset) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    trace whole;
    parse_exactly(refused[i].data, refused[i].size, 0, &whole);
    cr_expect_eq(whole.status, refused[i].status, "%s", refused[i].data);
    cr_expect_eq(whole.diag.code, whole.status);
    cr_expect_eq(whole.diag.offset, refused[i].offset, "%s: at %d, not %zu",
                 refused[i].data, (int)whole.diag.offset, refused[i].offset);
    for (size_t c = 1; c < CHUNKS; c++) {
      trace got;
      parse_exactly(refused[i].data, refused[i].size, chunks[c], &got);
      cr_expect_eq(got.status, whole.status);
      cr_expect_eq(got.diag.offset, whole.diag.offset, "%s chunk %zu",
                   refused[i].data, chunks[c]);
      cr_expect_str_eq(got.diag.what, whole.diag.what);
      cr_expect_str_eq(got.events, whole.events);
    }
  }
}

static const char sample[] =
    " {\"__metadata__\":{\"format\":\"pt\",\"na\xc3\xafve \xf0\x9f\x98\x80\":"
    "\"\\u00e9\\ud83d\\ude00\\n\"},\n\"model.layers.0.weight\" :{\"dtype\":"
    "\"F32\",\"shape\":[16, 2],\"data_offsets\":[0,128]},\"e\":[],\"n\":[-1.5e"
    "-7,true,false,null]}";

Test(json, a_document_cut_anywhere_is_an_error) {
  for (size_t size = 0; size < sizeof sample - 1; size++)
    for (size_t c = 0; c < CHUNKS; c++) {
      trace got;
      parse_exactly(sample, size, chunks[c], &got);
      cr_assert_eq(got.status, NABLA_CORRUPT, "%zu bytes", size);
      cr_assert_leq(got.diag.offset, size);
    }
  trace whole;
  parse_exactly(sample, sizeof sample - 1, 0, &whole);
  cr_assert_eq(whole.status, NABLA_OK);
}

/* Any one byte replaced: never a crash, and one answer for every chunking. */
Test(json, a_damaged_document_gets_one_answer) {
  static const char bytes[] = "\0\x1f \"\\{}[],:0-eu\x7f\x80\xc3\xe2\xf0\xff";
  char *copy = malloc(sizeof sample - 1);
  for (size_t at = 0; at < sizeof sample - 1; at++)
    for (size_t b = 0; b < sizeof bytes - 1; b++) {
      trace span, single;
      memcpy(copy, sample, sizeof sample - 1);
      copy[at] = bytes[b];
      parse(NULL, copy, sizeof sample - 1, 0, &span);
      parse(NULL, copy, sizeof sample - 1, 1, &single);
      cr_assert_eq(span.status, single.status);
      cr_assert_eq(span.diag.offset, single.diag.offset);
      cr_assert_str_eq(span.events, single.events);
    }
  free(copy);
}

Test(json, each_allocation_failing_once_loses_nothing) {
  for (size_t c = 0; c < 2; c++) {
    size_t failed = 0;
    for (size_t n = 1;; n++) {
      failing_allocator failing;
      failing_allocator_init(&failing, n);
      trace got;
      parse(&failing.allocator, sample, sizeof sample - 1, chunks[c], &got);
      cr_assert(failing_allocator_is_clean(&failing));
      cr_assert_eq(got.status, failing.failures ? NABLA_NO_MEMORY : NABLA_OK);
      if (!failing.failures) break;
      failed++;
    }
    cr_assert_geq(failed, 2 + c); /* parser, text, and a source's window */
  }
}

/* A document of `depth` arrays in each other, objects at every other level. */
static size_t nest(char *out, size_t depth) {
  size_t size = 0;
  for (size_t i = 0; i < depth; i++) {
    const char *open = i % 2 ? "{\"a\":" : "[";
    memcpy(out + size, open, strlen(open));
    size += strlen(open);
  }
  out[size++] = '1';
  for (size_t i = depth; i-- > 0;) out[size++] = i % 2 ? '}' : ']';
  return size;
}

Test(json, depth_has_a_limit) {
  char text[400];
  trace got;
  parse_exactly(text, nest(text, NABLA_JSON_MAX_DEPTH), 0, &got);
  cr_assert_eq(got.status, NABLA_OK, "%s", got.diag.what);
  parse_exactly(text, nest(text, NABLA_JSON_MAX_DEPTH + 1), 0, &got);
  cr_assert_eq(got.status, NABLA_TOO_LARGE);
  cr_assert_eq(got.diag.offset, NABLA_JSON_MAX_DEPTH / 2 * 6);
}

/* "[" + a string of `length` bytes + "]", as `unit` repeated. */
static char *long_string(size_t length, const char *unit, size_t *out_size) {
  const size_t step = strlen(unit);
  char *text = malloc(length + 4);
  memcpy(text, "[\"", 2);
  for (size_t i = 0; i < length; i += step) memcpy(text + 2 + i, unit, step);
  memcpy(text + 2 + length, "\"]", 2);
  *out_size = length + 4;
  return text;
}

static nabla_status parse_long(size_t length, const char *unit, size_t chunk,
                               nabla_diag *diag) {
  size_t size;
  char *text = long_string(length, unit, &size);
  slow_source source = {text, size, 0, chunk, SIZE_MAX};
  nabla_json *json;
  nabla_json_event event;
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  cr_assert_eq(nabla_json_create(&failing.allocator,
                                 (nabla_json_source){&source, slow_read}, 0,
                                 &json, diag),
               NABLA_OK);
  cr_assert_eq(nabla_json_next(json, &event, diag), NABLA_OK);
  const nabla_status status = nabla_json_next(json, &event, diag);
  if (!status) {
    cr_assert_eq(event.length, length);
    cr_assert_eq(memcmp(event.text, text + 2, length), 0);
  }
  nabla_json_destroy(json);
  /* One window, one string, and the string's old place while it grows. */
  cr_assert_leq(failing.peak_bytes,
                NABLA_JSON_WINDOW + 2 * NABLA_JSON_MAX_STRING + 1000);
  cr_assert(failing_allocator_is_clean(&failing));
  free(text);
  return status;
}

Test(json, strings_have_a_limit_and_cross_windows) {
  static const size_t steps[] = {1, 1000, 1 << 20};
  char limit[64];
  snprintf(limit, sizeof limit, "a string is longer than %d bytes",
           NABLA_JSON_MAX_STRING);
  for (size_t i = 0; i < 3; i++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_assert_eq(parse_long(NABLA_JSON_MAX_STRING, "x", steps[i], &diag), 0);
    cr_assert_eq(parse_long(NABLA_JSON_MAX_STRING, "\xc3\xa9", steps[i], &diag),
                 0);
    cr_assert_eq(parse_long(NABLA_JSON_MAX_STRING / 3 * 3, "\xe2\x82\xac",
                            steps[i], &diag),
                 0);
    cr_assert_eq(parse_long(NABLA_JSON_MAX_STRING + 1, "x", steps[i], &diag),
                 NABLA_TOO_LARGE);
    cr_assert_str_eq(diag.what, limit);
    cr_assert_eq(diag.offset, 1);
    cr_assert_eq(parse_long(2 * NABLA_JSON_MAX_STRING, "y", steps[i], &diag),
                 NABLA_TOO_LARGE);
  }
}

Test(json, the_origin_is_added_to_every_offset) {
  nabla_json *json;
  nabla_json_event event;
  nabla_diag diag = NABLA_DIAG_INIT;
  slow_source source = {TEXT("[1 ,x"), 0, 2, SIZE_MAX};
  cr_assert_eq(nabla_json_create(NULL, (nabla_json_source){&source, slow_read},
                                 8, &json, &diag),
               0);
  cr_assert_eq(nabla_json_next(json, &event, &diag), 0);
  cr_assert_eq(event.offset, 8);
  cr_assert_eq(nabla_json_next(json, &event, &diag), 0);
  cr_assert_eq(event.offset, 9);
  cr_assert_eq(nabla_json_next(json, &event, &diag), NABLA_CORRUPT);
  cr_assert_eq(diag.offset, 12);
  cr_assert_eq(event.offset, 9); /* an output is untouched on failure */
  nabla_json_destroy(json);
}

Test(json, an_error_ends_the_parser) {
  nabla_json *json;
  nabla_json_event event;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("x[1]"), 0, &json, &diag), 0);
  cr_assert_eq(nabla_json_next(json, &event, &diag), NABLA_CORRUPT);
  for (int i = 0; i < 6; i++)
    cr_assert_eq(nabla_json_next(json, &event, &diag), NABLA_CORRUPT);
  cr_assert_neq(diag.offset, NABLA_NO_OFFSET);
  nabla_json_destroy(json);
}

Test(json, an_error_at_the_end_stays_inside_the_input) {
  nabla_json *json;
  nabla_json_event event;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("\"\xe2"), 0, &json, &diag),
               0);
  cr_assert_eq(nabla_json_next(json, &event, &diag), NABLA_CORRUPT);
  cr_assert_eq(diag.offset, 1);
  cr_assert_eq(nabla_json_next(json, &event, &diag), NABLA_CORRUPT);
  cr_assert_eq(diag.offset, 2);
  nabla_json_destroy(json);
}

Test(json, the_end_repeats) {
  nabla_json *json;
  nabla_json_event event;
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("1 "), 0, &json, NULL), 0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
    cr_assert_eq(event.kind, NABLA_JSON_END);
    cr_assert_eq(event.offset, 2);
  }
  nabla_json_destroy(json);
}

Test(json, the_sources_error_is_passed_on) {
  for (size_t fail_at = 0; fail_at < sizeof sample; fail_at++) {
    slow_source source = {TEXT(sample), 0, 1, fail_at};
    nabla_json *json;
    nabla_json_event event = {.kind = NABLA_JSON_NULL};
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status = nabla_json_create(
        NULL, (nabla_json_source){&source, slow_read}, 0, &json, &diag);
    while (!status && event.kind != NABLA_JSON_END)
      status = nabla_json_next(json, &event, &diag);
    cr_assert_eq(status, NABLA_IO);
    cr_assert_str_eq(diag.what, "the disk is gone");
    cr_assert_eq(diag.offset, fail_at);
    nabla_json_destroy(json);
  }
}

Test(json, skip_forgets_one_value) {
  nabla_json *json;
  nabla_json_event event;
  static const char text[] =
      "[[1,{\"a\":[2,{}]},[]],\"s\",{\"b\":[]},{\"c\":3}]";
  cr_assert_eq(nabla_json_create_span(NULL, TEXT(text), 0, &json, NULL), 0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
    cr_assert_eq(nabla_json_skip(json, &event, NULL), 0);
  }
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(event.kind, NABLA_JSON_OBJECT_BEGIN);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_str_eq(event.text, "c");
  nabla_json_destroy(json);
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("[[1,}]"), 0, &json, NULL), 0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(nabla_json_skip(json, &event, NULL), NABLA_CORRUPT);
  nabla_json_destroy(json);
}

Test(json, expect_says_what_was_found) {
  static const struct {
    const char *text, *what;
  } rows[] = {
      {"[1]", "expected an object, found an array"},
      {"\"ab\"", "expected an object, found the string 'ab'"},
      {"12", "expected an object, found the number '12'"},
      {"null", "expected an object, found null"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    nabla_json *json;
    nabla_json_event event = {.offset = 77};
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_assert_eq(nabla_json_create_span(NULL, rows[i].text,
                                        strlen(rows[i].text), 5, &json, &diag),
                 0);
    cr_assert_eq(nabla_json_expect(json, NABLA_JSON_OBJECT_BEGIN, "an object",
                                   &event, &diag),
                 NABLA_CORRUPT);
    cr_assert_eq(diag.offset, 5);
    cr_assert_eq(event.offset, 77);
    cr_assert_str_eq(diag.what, rows[i].what);
    nabla_json_destroy(json);
  }
  nabla_json *json;
  nabla_json_event event;
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("{}"), 0, &json, NULL), 0);
  cr_assert_eq(nabla_json_expect(json, NABLA_JSON_OBJECT_BEGIN, "an object",
                                 &event, NULL),
               0);
  cr_assert_eq(event.kind, NABLA_JSON_OBJECT_BEGIN);
  nabla_json_destroy(json);
}

static nabla_status to_u64(const char *text, uint64_t *out, nabla_diag *diag) {
  const nabla_json_event event = {NABLA_JSON_NUMBER, 9, text, strlen(text)};
  return nabla_json_u64(&event, "a dimension", out, diag);
}

Test(json, unsigned_integers) {
  uint64_t value = 5;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(to_u64("0", &value, &diag), 0);
  cr_assert_eq(value, 0);
  cr_assert_eq(to_u64("18446744073709551615", &value, &diag), 0);
  cr_assert_eq(value, UINT64_MAX);
  value = 5;
  static const char *const wrong[] = {"-1", "-0", "1.0", "1e3", "01", "", "00"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    cr_assert_eq(to_u64(wrong[i], &value, &diag), NABLA_CORRUPT, "%s",
                 wrong[i]);
    cr_assert_eq(diag.offset, 9);
  }
  static const char *const large[] = {"18446744073709551616",
                                      "18446744073709551620",
                                      "99999999999999999999999999"};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
    cr_assert_eq(to_u64(large[i], &value, &diag), NABLA_TOO_LARGE, "%s",
                 large[i]);
  cr_assert_eq(to_u64("99999999999999999999999999.5", &value, &diag),
               NABLA_CORRUPT);
  const nabla_json_event string = {NABLA_JSON_STRING, 9, "1", 1};
  cr_assert_eq(nabla_json_u64(&string, "a dimension", &value, &diag),
               NABLA_CORRUPT);
  cr_assert_not_null(strstr(diag.what, "a dimension"));
  cr_assert_eq(value, 5);
}

/* An array that is taken at once says what its events say, however the bytes
 * arrive; what is not taken is left to the events. */
static const struct {
  const char *text;
  int count; /* of a span; -1: not taken */
  uint64_t values[4];
} arrays[] = {
    {"{\"a\":[]}", 0, {0}},
    {"{\"a\": [7]}", 1, {7}},
    {"{\"a\":[0,18, 9999999999999999999]}", 3, {0, 18, 9999999999999999999u}},
    {"{\"a\":[1,2,3,4]}", 4, {1, 2, 3, 4}},
    {"{\"a\":[1,2,3,4,5]}", -1, {0}},
    {"{\"a\":[18446744073709551615]}", -1, {0}},
    {"{\"a\":[18446744073709551616]}", -1, {0}},
    {"{\"a\":[01]}", -1, {0}},
    {"{\"a\":[-1]}", -1, {0}},
    {"{\"a\":[1.5]}", -1, {0}},
    {"{\"a\":[1e2]}", -1, {0}},
    {"{\"a\":[1,]}", -1, {0}},
    {"{\"a\":[,1]}", -1, {0}},
    {"{\"a\":[ 1]}", -1, {0}},
    {"{\"a\":[1 ]}", -1, {0}},
    {"{\"a\":[1,  2]}", -1, {0}},
    {"{\"a\" :[1]}", -1, {0}},
    {"{\"a\":  [1]}", -1, {0}},
    {"{\"a\":[1,\"2\"]}", -1, {0}},
    {"{\"a\":[[1]]}", -1, {0}},
    {"{\"a\":1}", -1, {0}},
    {"{\"a\":[1", -1, {0}},
    {"{\"a\":[1,", -1, {0}},
    {"{\"a\":[", -1, {0}},
    {"{\"a\":", -1, {0}},
    {"{\"a\"", -1, {0}},
};

/* Reads a document with the arrays taken where they can be, or not. Offsets of
 * numbers and of the end of an array, in which the two differ, are left out. */
static nabla_status digest(nabla_json *json, int take, char out[200],
                           nabla_diag *diag) {
  nabla_json_event event = {.kind = NABLA_JSON_NULL};
  uint64_t values[4];
  size_t used = 0;
  out[0] = '\0';
  while (event.kind != NABLA_JSON_END) {
    nabla_json_u64s array = {.values = values, .most = 4};
    NABLA_TRY(nabla_json_next(json, &event, diag));
    if (event.kind == NABLA_JSON_NUMBER)
      used += (size_t)snprintf(out + used, 200 - used, "%s ", event.text);
    else if (event.kind != NABLA_JSON_ARRAY_END)
      used += (size_t)snprintf(out + used, 200 - used, "%d@%d%s ", event.kind,
                               (int)event.offset, event.text ? event.text : "");
    if (!take || event.kind != NABLA_JSON_KEY ||
        !nabla_json_take_u64s(json, &array))
      continue;
    used += (size_t)snprintf(out + used, 200 - used, "%d@%d ",
                             NABLA_JSON_ARRAY_BEGIN, (int)array.offset);
    for (uint32_t i = 0; i < array.count; i++)
      used += (size_t)snprintf(out + used, 200 - used, "%llu ",
                               (unsigned long long)values[i]);
  }
  return NABLA_OK;
}

Test(json, arrays_of_integers_are_taken_at_once) {
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    nabla_json *json;
    nabla_json_event event;
    uint64_t values[4] = {0};
    nabla_json_u64s array = {.values = values, .most = 4};
    const char *text = arrays[i].text;
    cr_assert_eq(
        nabla_json_create_span(NULL, text, strlen(text), 0, &json, NULL), 0);
    cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
    cr_assert_eq(nabla_json_take_u64s(json, &array), 0, "no key before");
    cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
    cr_assert_eq(nabla_json_take_u64s(json, &array), arrays[i].count >= 0, "%s",
                 text);
    if (arrays[i].count >= 0) {
      cr_assert_eq(array.count, (uint32_t)arrays[i].count);
      cr_assert_eq(memcmp(values, arrays[i].values, sizeof values), 0);
      cr_assert_eq(text[array.offset], '[');
      cr_assert_eq(text[nabla_json_offset(json) - 1], ']');
      cr_assert_eq(nabla_json_take_u64s(json, &array), 0, "the same again");
    }
    nabla_json_destroy(json);
  }
}

Test(json, an_array_taken_at_once_reads_as_its_events) {
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
    for (size_t chunk = 0; chunk < 40; chunk++) {
      char texts[2][200];
      nabla_status status[2];
      nabla_diag diags[2] = {NABLA_DIAG_INIT, NABLA_DIAG_INIT};
      const size_t size = strlen(arrays[i].text);
      for (int take = 0; take < 2; take++) {
        slow_source source = {arrays[i].text, size, 0, chunk, SIZE_MAX};
        nabla_json *json;
        cr_assert_eq(chunk ? nabla_json_create(
                                 NULL, (nabla_json_source){&source, slow_read},
                                 0, &json, NULL)
                           : nabla_json_create_span(NULL, arrays[i].text, size,
                                                    0, &json, NULL),
                     0);
        status[take] = digest(json, take, texts[take], &diags[take]);
        nabla_json_destroy(json);
      }
      cr_assert_eq(status[0], status[1], "%s", arrays[i].text);
      cr_assert_eq(diags[0].offset, diags[1].offset);
      cr_assert_str_eq(diags[0].what, diags[1].what);
      cr_assert_str_eq(texts[0], texts[1], "%s by %zu", arrays[i].text, chunk);
    }
}

Test(json, an_array_of_the_wrong_length_is_not_taken) {
  nabla_json *json;
  nabla_json_event event;
  uint64_t values[2];
  nabla_json_u64s array = {.values = values, .least = 2, .most = 2};
  cr_assert_eq(nabla_json_create_span(NULL, TEXT("{\"a\":[1],\"b\":[1,2]}"), 0,
                                      &json, NULL),
               0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(nabla_json_take_u64s(json, &array), 0);
  for (int i = 0; i < 4; i++)
    cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(event.kind, NABLA_JSON_KEY);
  cr_assert_eq(nabla_json_take_u64s(json, &array), 1);
  cr_assert_eq(array.offset, 13);
  cr_assert_eq(nabla_json_next(json, &event, NULL), 0);
  cr_assert_eq(event.kind, NABLA_JSON_OBJECT_END);
  nabla_json_destroy(json);
}
