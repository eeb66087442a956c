/* Any text as JSON: the same events in one piece and in small ones, and again
 * after writing them. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/json/json.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "J";

/* Two parsers: a window and a string each. */
enum { FIXED_PEAK = 1 << 20 };

/* A source that gives 1 to 7 bytes at a time. */
typedef struct drip {
  fuzz_span left;
  size_t turn;
} drip;

static nabla_status read_drip(void *self, void *out, size_t size,
                              size_t *out_got, nabla_diag *diag) {
  (void)diag;
  drip *from = self;
  size_t got = from->turn++ % 7 + 1;
  if (got > size) got = size;
  if (got > from->left.size) got = from->left.size;
  if (got > 0) memcpy(out, from->left.data, got);
  from->left = (fuzz_span){from->left.data + got, from->left.size - got};
  *out_got = got;
  return NABLA_OK;
}

typedef struct text {
  uint8_t *data;
  size_t size, room;
} text;

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  (void)diag;
  text *out = self;
  fuzz_require(size <= out->room - out->size, "escapes at most sixfold");
  if (size > 0) memcpy(out->data + out->size, data, size);
  out->size += size;
  return NABLA_OK;
}

static int has_text(nabla_json_kind kind) {
  return kind == NABLA_JSON_KEY || kind == NABLA_JSON_STRING ||
         kind == NABLA_JSON_NUMBER;
}

static int same_event(const nabla_json_event *a, const nabla_json_event *b) {
  return a->kind == b->kind &&
         (!has_text(a->kind) ||
          (a->length == b->length && !memcmp(a->text, b->text, a->length + 1)));
}

static void check_number(const nabla_json_event *event) {
  nabla_diag diag = NABLA_DIAG_INIT;
  uint64_t value = 7;
  nabla_status status = nabla_json_u64(event, "a number", &value, &diag);
  fuzz_check_diag(status, &diag);
  char *end = NULL;
  size_t digits = strspn(event->text, "0123456789");
  if (!status)
    fuzz_require(
        digits == event->length && value == strtoull(event->text, &end, 10),
        "the value of an integer");
  else
    fuzz_require(value == 7, "outputs stay as they were");
}

/* Numbers are written as strings: the writer has no form for their text. */
static void write_event(nabla_json_out *out, const nabla_json_event *event) {
  switch (event->kind) {
    case NABLA_JSON_OBJECT_BEGIN:
      nabla_json_out_object(out);
      break;
    case NABLA_JSON_OBJECT_END:
      nabla_json_out_object_end(out);
      break;
    case NABLA_JSON_ARRAY_BEGIN:
      nabla_json_out_array(out);
      break;
    case NABLA_JSON_ARRAY_END:
      nabla_json_out_array_end(out);
      break;
    case NABLA_JSON_KEY:
      nabla_json_out_key_n(out, event->text, event->length);
      break;
    case NABLA_JSON_STRING:
    case NABLA_JSON_NUMBER:
      nabla_json_out_string_n(out, event->text, event->length);
      break;
    case NABLA_JSON_TRUE:
    case NABLA_JSON_FALSE:
      nabla_json_out_bool(out, event->kind == NABLA_JSON_TRUE);
      break;
    case NABLA_JSON_NULL:
      nabla_json_out_null(out);
      break;
    case NABLA_JSON_END:
      break;
  }
}

/* Reads both to the end, which must be the same one; writes to `out`. */
static nabla_status read_both(nabla_json *whole, nabla_json *pieces,
                              nabla_json_out *out) {
  for (;;) {
    nabla_json_event a = {0}, b = {0};
    nabla_diag diag_a = NABLA_DIAG_INIT, diag_b = NABLA_DIAG_INIT;
    nabla_status status = nabla_json_next(whole, &a, &diag_a);
    fuzz_require(nabla_json_next(pieces, &b, &diag_b) == status,
                 "pieces do not matter");
    fuzz_check_diag(status, &diag_a);
    if (status) {
      fuzz_require(diag_a.offset == diag_b.offset, "errors are at one place");
      return status;
    }
    fuzz_require(a.offset == b.offset && same_event(&a, &b),
                 "pieces do not matter to events");
    if (a.kind == NABLA_JSON_END) return NABLA_OK;
    if (a.kind == NABLA_JSON_NUMBER) check_number(&a);
    write_event(out, &a);
  }
}

/* What was written reads as what was read, numbers aside. */
static void read_again(const nabla_allocator *allocator, fuzz_span input,
                       fuzz_span written) {
  nabla_json *first = NULL, *second = NULL;
  fuzz_require(!nabla_json_create_span(allocator, input.data, input.size, 0,
                                       &first, NULL) &&
                   !nabla_json_create_span(allocator, written.data,
                                           written.size, 0, &second, NULL),
               "parsers can be made");
  nabla_json_event a = {0}, b = {0};
  do {
    fuzz_require(!nabla_json_next(first, &a, NULL), "it was right before");
    fuzz_require(!nabla_json_next(second, &b, NULL), "the writer writes JSON");
    if (a.kind == NABLA_JSON_NUMBER) a.kind = NABLA_JSON_STRING;
    fuzz_require(same_event(&a, &b), "what was written is read");
  } while (a.kind != NABLA_JSON_END);
  nabla_json_destroy(first);
  nabla_json_destroy(second);
}

/* Skipping the whole value succeeds when reading it does. */
static void skip(const nabla_allocator *allocator, fuzz_span input,
                 nabla_status expected) {
  nabla_json *json = NULL;
  nabla_json_event event;
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_require(!nabla_json_create_span(allocator, input.data, input.size, 0,
                                       &json, &diag),
               "parsers can be made");
  nabla_status status = nabla_json_next(json, &event, &diag);
  if (!status) status = nabla_json_skip(json, &event, &diag);
  if (!status)
    status = nabla_json_expect(json, NABLA_JSON_END, "end", &event, &diag);
  fuzz_require(status == expected, "skipping checks as reading does");
  fuzz_check_diag(status, &diag);
  nabla_json_destroy(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_span input = {data, size};
  fuzz_world world;
  fuzz_world_init(&world, 0);
  const nabla_allocator *allocator = &world.memory.allocator;
  drip from = {input, 0};
  nabla_json *whole = NULL, *pieces = NULL;
  fuzz_require(
      !nabla_json_create_span(allocator, data, size, 0, &whole, NULL) &&
          !nabla_json_create(allocator, (nabla_json_source){&from, read_drip},
                             0, &pieces, NULL),
      "parsers can be made");
  text written = {malloc(size * 8 + 16), 0, size * 8 + 16};
  fuzz_require(written.data != NULL, "memory for the output");
  nabla_json_out out = {.self = &written, .write = append};
  nabla_status status = read_both(whole, pieces, &out);
  nabla_json_destroy(whole);
  nabla_json_destroy(pieces);
  if (!status) {
    fuzz_require(!nabla_json_out_finish(&out), "writing succeeds");
    read_again(allocator, input, (fuzz_span){written.data, written.size});
  }
  skip(allocator, input, status);
  free(written.data);
  fuzz_world_end(&world, FIXED_PEAK);
  return 0;
}
