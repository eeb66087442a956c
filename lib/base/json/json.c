/* The grammar half of the JSON parser: tokens into events. Its whole state is
 * one bit per open container. */
#include "lib/base/json/json.h"

#include <assert.h>

#include "lib/base/json/json_lex.h"

typedef enum state {
  VALUE,     /* a value must follow */
  KEY,       /* a key must follow */
  COLON,     /* a key was read */
  FIRST,     /* a container was opened: its first item or its end */
  AFTER_ITEM /* a value was read: a comma or the container's end */
} state;

struct nabla_json {
  const nabla_allocator *allocator;
  nabla_json_lexer lexer;
  state state;
  uint32_t depth;
  uint32_t objects; /* bit d: the container at depth d + 1 is an object */
  int nonfinite;    /* NaN, Infinity and -Infinity are numbers */
  nabla_status failed;
};

_Static_assert(NABLA_JSON_MAX_DEPTH <= 32, "nabla_json.objects has 32 bits");

static nabla_status create(const nabla_allocator *allocator, nabla_json **out,
                           nabla_diag *diag) {
  void *memory;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_json), &memory, diag));
  nabla_json *json = memory;
  json->allocator = allocator;
  nabla_buffer_init(&json->lexer.text, allocator, "a JSON string",
                    NABLA_JSON_MAX_STRING + 1);
  *out = json;
  return NABLA_OK;
}

nabla_status nabla_json_create(const nabla_allocator *allocator,
                               nabla_json_source source, uint64_t origin,
                               nabla_json **out, nabla_diag *diag) {
  nabla_json *json;
  NABLA_TRY(create(allocator, &json, diag));
  void *window;
  const nabla_status status =
      nabla_alloc(allocator, NABLA_JSON_WINDOW, 1, &window, diag);
  if (status) {
    nabla_json_destroy(json);
    return status;
  }
  json->lexer.source = source;
  json->lexer.window = window;
  json->lexer.data = window;
  json->lexer.base = origin;
  *out = json;
  return NABLA_OK;
}

nabla_status nabla_json_create_span(const nabla_allocator *allocator,
                                    const void *data, size_t size,
                                    uint64_t origin, nabla_json **out,
                                    nabla_diag *diag) {
  nabla_json *json;
  NABLA_TRY(create(allocator, &json, diag));
  json->lexer.data = data;
  json->lexer.end = size;
  json->lexer.base = origin;
  *out = json;
  return NABLA_OK;
}

void nabla_json_destroy(nabla_json *json) {
  if (!json) return;
  nabla_buffer_deinit(&json->lexer.text);
  nabla_free(json->allocator, json->lexer.window, NABLA_JSON_WINDOW, 1);
  nabla_free(json->allocator, json, 1, sizeof *json);
}

void nabla_json_allow_nonfinite(nabla_json *json) {
  assert(!json->lexer.window);
  json->nonfinite = 1;
}

uint64_t nabla_json_offset(const nabla_json *json) {
  return nabla_json_lex_offset(&json->lexer);
}

static int in_object(const nabla_json *json) {
  return json->depth > 0 && (json->objects >> (json->depth - 1) & 1);
}

static nabla_status open_container(nabla_json *json, int is_object,
                                   nabla_json_event *event, nabla_diag *diag) {
  if (json->depth == NABLA_JSON_MAX_DEPTH) {
    const nabla_status status =
        nabla_fail(diag, NABLA_TOO_LARGE, "JSON is nested deeper than %d",
                   NABLA_JSON_MAX_DEPTH);
    nabla_diag_set_offset(diag, event->offset);
    return status;
  }
  const uint32_t bit = 1u << json->depth++;
  json->objects = is_object ? json->objects | bit : json->objects & ~bit;
  json->lexer.at++;
  json->state = FIRST;
  event->kind = is_object ? NABLA_JSON_OBJECT_BEGIN : NABLA_JSON_ARRAY_BEGIN;
  return NABLA_OK;
}

static void close_container(nabla_json *json, nabla_json_event *event) {
  event->kind = in_object(json) ? NABLA_JSON_OBJECT_END : NABLA_JSON_ARRAY_END;
  json->depth--;
  json->lexer.at++;
  json->state = AFTER_ITEM;
}

static void set_text(const nabla_json *json, nabla_json_event *event) {
  event->text = json->lexer.token;
  event->length = json->lexer.length;
}

static nabla_status read_key(nabla_json *json, int byte,
                             nabla_json_event *event, nabla_diag *diag) {
  if (byte != '"')
    return nabla_json_lex_unexpected(&json->lexer, byte, "a key in quotes",
                                     diag);
  NABLA_TRY(nabla_json_lex_string(&json->lexer, diag));
  set_text(json, event);
  event->kind = NABLA_JSON_KEY;
  json->state = COLON;
  return NABLA_OK;
}

static nabla_status read_literal(nabla_json *json, int byte,
                                 nabla_json_event *event, nabla_diag *diag) {
  if (byte == 't') {
    event->kind = NABLA_JSON_TRUE;
    return nabla_json_lex_literal(&json->lexer, "true", diag);
  }
  if (byte == 'f') {
    event->kind = NABLA_JSON_FALSE;
    return nabla_json_lex_literal(&json->lexer, "false", diag);
  }
  if (byte == 'n') {
    event->kind = NABLA_JSON_NULL;
    return nabla_json_lex_literal(&json->lexer, "null", diag);
  }
  return nabla_json_lex_unexpected(&json->lexer, byte, "a value", diag);
}

/* Whether what stands here begins like a number that is not finite. */
static int is_nonfinite(const nabla_json *json, int byte) {
  const nabla_json_lexer *lexer = &json->lexer;
  if (!json->nonfinite) return 0;
  if (byte == 'N' || byte == 'I') return 1;
  return byte == '-' && lexer->end - lexer->at > 1 &&
         lexer->data[lexer->at + 1] == 'I';
}

static nabla_status read_nonfinite(nabla_json *json, int byte,
                                   nabla_json_event *event, nabla_diag *diag) {
  event->kind = NABLA_JSON_NUMBER;
  event->text = "";
  if (byte == '-') json->lexer.at++;
  return nabla_json_lex_literal(&json->lexer, byte == 'N' ? "NaN" : "Infinity",
                                diag);
}

static nabla_status read_value(nabla_json *json, int byte,
                               nabla_json_event *event, nabla_diag *diag) {
  if (byte == '{') return open_container(json, 1, event, diag);
  if (byte == '[') return open_container(json, 0, event, diag);
  json->state = AFTER_ITEM;
  if (byte == '"') {
    NABLA_TRY(nabla_json_lex_string(&json->lexer, diag));
    event->kind = NABLA_JSON_STRING;
    set_text(json, event);
    return NABLA_OK;
  }
  if (is_nonfinite(json, byte)) return read_nonfinite(json, byte, event, diag);
  if (byte == '-' || (byte >= '0' && byte <= '9')) {
    NABLA_TRY(nabla_json_lex_number(&json->lexer, diag));
    event->kind = NABLA_JSON_NUMBER;
    set_text(json, event);
    return NABLA_OK;
  }
  return read_literal(json, byte, event, diag);
}

/* Passes what stands between two items, up to the first byte of the next one.
 * Sets *ends where the container, or the document, ends instead. */
static nabla_status separator(nabla_json *json, int *byte, int *ends,
                              nabla_diag *diag) {
  nabla_json_lexer *lexer = &json->lexer;
  const int inside = in_object(json);
  const int closing = inside ? '}' : ']';
  NABLA_TRY(nabla_json_lex_space(lexer, byte, diag));
  *ends = 0;
  if (json->state == COLON) {
    if (*byte != ':')
      return nabla_json_lex_unexpected(lexer, *byte, "':' after a key", diag);
    lexer->at++;
    json->state = VALUE;
    return nabla_json_lex_space(lexer, byte, diag);
  }
  if (json->state == AFTER_ITEM && json->depth == 0) {
    if (*byte != NABLA_JSON_NO_BYTE)
      return nabla_json_lex_unexpected(lexer, *byte,
                                       "nothing more after the document", diag);
    *ends = 1;
    return NABLA_OK;
  }
  if (json->state == VALUE) return NABLA_OK;
  if (*byte == closing) {
    *ends = 1;
    return NABLA_OK;
  }
  if (json->state == AFTER_ITEM) {
    if (*byte != ',')
      return nabla_json_lex_unexpected(
          lexer, *byte, inside ? "',' or '}'" : "',' or ']'", diag);
    lexer->at++;
    NABLA_TRY(nabla_json_lex_space(lexer, byte, diag));
  }
  json->state = inside ? KEY : VALUE;
  return NABLA_OK;
}

static nabla_status read_event(nabla_json *json, nabla_json_event *event,
                               nabla_diag *diag) {
  int byte, ends;
  NABLA_TRY(separator(json, &byte, &ends, diag));
  event->offset = nabla_json_lex_offset(&json->lexer);
  if (ends) {
    if (json->depth > 0) close_container(json, event);
    return NABLA_OK;
  }
  if (json->state == KEY) return read_key(json, byte, event, diag);
  return read_value(json, byte, event, diag);
}

nabla_status nabla_json_next(nabla_json *json, nabla_json_event *out,
                             nabla_diag *diag) {
  if (json->failed)
    return nabla_json_lex_fail(diag, json->failed,
                               nabla_json_lex_offset(&json->lexer),
                               "an earlier error ended this JSON");
  nabla_json_event event = {.kind = NABLA_JSON_END};
  json->failed = read_event(json, &event, diag);
  if (!json->failed) *out = event;
  return json->failed;
}

/* Passes digits without a leading zero that fit a uint64_t and end before
 * `end`. @return what follows them, or NULL */
static const uint8_t *take_digits(const uint8_t *at, const uint8_t *end,
                                  uint64_t *out) {
  const uint8_t *start = at;
  uint64_t value = 0;
  for (; at < end && *at >= '0' && *at <= '9'; at++)
    value = value * 10 + (uint64_t)(*at - '0');
  const ptrdiff_t length = at - start;
  if (length < 1 || length > 19 || at == end) return NULL; /* 10^19 < 2^64 */
  if (length > 1 && *start == '0') return NULL;
  *out = value;
  return at;
}

int nabla_json_take_u64s(nabla_json *json, nabla_json_u64s *array) {
  const nabla_json_lexer *lexer = &json->lexer;
  const uint8_t *at = lexer->data + lexer->at, *end = lexer->data + lexer->end;
  uint32_t count = 0;
  if (json->failed || json->state != COLON || end - at < 4 || *at++ != ':')
    return 0;
  if (*at == ' ') at++;
  const uint8_t *start = at;
  if (*at++ != '[') return 0;
  while (*at != ']') {
    if (count && *at++ != ',') return 0;
    if (count && at < end && *at == ' ') at++;
    if (count == array->most) return 0;
    at = take_digits(at, end, &array->values[count]);
    if (!at) return 0;
    count++;
  }
  if (count < array->least) return 0;
  array->count = count;
  array->offset = lexer->base + (uint64_t)(start - lexer->data);
  json->lexer.at = (size_t)(at + 1 - lexer->data);
  json->state = AFTER_ITEM;
  return 1;
}

nabla_status nabla_json_skip(nabla_json *json, const nabla_json_event *event,
                             nabla_diag *diag) {
  if (event->kind != NABLA_JSON_OBJECT_BEGIN &&
      event->kind != NABLA_JSON_ARRAY_BEGIN)
    return NABLA_OK;
  const uint32_t outside = json->depth - 1;
  while (json->depth > outside) {
    nabla_json_event skipped;
    NABLA_TRY(nabla_json_next(json, &skipped, diag));
  }
  return NABLA_OK;
}

static const char *describe(nabla_json_kind kind) {
  static const char *const names[] = {
      [NABLA_JSON_END] = "the end",
      [NABLA_JSON_OBJECT_BEGIN] = "an object",
      [NABLA_JSON_OBJECT_END] = "the end of an object",
      [NABLA_JSON_ARRAY_BEGIN] = "an array",
      [NABLA_JSON_ARRAY_END] = "the end of an array",
      [NABLA_JSON_KEY] = "the key",
      [NABLA_JSON_STRING] = "the string",
      [NABLA_JSON_NUMBER] = "the number",
      [NABLA_JSON_TRUE] = "true",
      [NABLA_JSON_FALSE] = "false",
      [NABLA_JSON_NULL] = "null",
  };
  return names[kind];
}

nabla_status nabla_json_expect(nabla_json *json, nabla_json_kind kind,
                               const char *what, nabla_json_event *out,
                               nabla_diag *diag) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(json, &event, diag));
  if (event.kind == kind) {
    *out = event;
    return NABLA_OK;
  }
  const nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "expected %s, found %s%s%s%s", what,
                 describe(event.kind), event.text ? " '" : "",
                 event.text ? event.text : "", event.text ? "'" : "");
  nabla_diag_set_offset(diag, event.offset);
  return status;
}

nabla_status nabla_json_u64(const nabla_json_event *event, const char *what,
                            uint64_t *out, nabla_diag *diag) {
  int wrong = event->kind != NABLA_JSON_NUMBER || event->length == 0 ||
              (event->length > 1 && event->text[0] == '0');
  int overflow = 0;
  uint64_t value = 0;
  for (size_t i = 0; !wrong && i < event->length; i++) {
    const char digit = event->text[i];
    wrong = digit < '0' || digit > '9';
    overflow |= __builtin_mul_overflow(value, 10u, &value);
    overflow |= __builtin_add_overflow(value, (uint64_t)(digit - '0'), &value);
  }
  if (!wrong && !overflow) {
    *out = value;
    return NABLA_OK;
  }
  const nabla_status status = nabla_fail(
      diag, wrong ? NABLA_CORRUPT : NABLA_TOO_LARGE,
      wrong ? "%s is not an unsigned integer" : "%s is larger than 2^64 - 1",
      what);
  nabla_diag_set_offset(diag, event->offset);
  return status;
}
