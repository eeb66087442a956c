/* The JSON writer: nesting, commas and escapes. Bytes are collected in a buffer
 * and reach the sink when it is full, and when the text is finished. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/controls.h"
#include "lib/base/decimal.h"
#include "lib/base/json/json.h"
#include "lib/base/utf8.h"

/* nabla_json_out.has_item: what the container at each depth is and holds. */
#define IS_OBJECT 1
#define HAS_ITEM  2

static void fail(nabla_json_out *out, nabla_status code, const char *text) {
  if (!out->status) out->status = nabla_fail(out->diag, code, "%s", text);
}

static void flush(nabla_json_out *out) {
  const size_t held = out->held;
  out->held = 0;
  if (!out->status && held > 0)
    out->status = out->write(out->self, out->buffer, held, out->diag);
}

/* Makes space for `size` more bytes, which the buffer can hold.
 * @return where they go; they count when `held` has grown by them */
static inline char *reserve(nabla_json_out *out, size_t size) {
  if (size > sizeof out->buffer - out->held) flush(out);
  return out->buffer + out->held;
}

static void emit_long(nabla_json_out *out, const char *data, size_t size) {
  flush(out);
  if (!out->status) out->status = out->write(out->self, data, size, out->diag);
}

static inline void emit(nabla_json_out *out, const void *data, size_t size) {
  if (size > sizeof out->buffer) {
    emit_long(out, data, size);
    return;
  }
  if (size) memcpy(reserve(out, size), data, size);
  out->held += size;
}

static inline void emit_text(nabla_json_out *out, const char *text) {
  emit(out, text, strlen(text));
}

/* Writes the comma that the next item of the current container needs. */
static void separate(nabla_json_out *out) {
  if (out->depth == 0) return;
  uint8_t *flags = &out->has_item[out->depth - 1];
  if (*flags & HAS_ITEM) emit_text(out, out->spaced ? ", " : ",");
  *flags |= HAS_ITEM;
}

/* Comes before every value. */
static void begin_value(nabla_json_out *out) {
  if (out->after_key) {
    out->after_key = 0;
    return;
  }
  if (out->depth > 0 && (out->has_item[out->depth - 1] & IS_OBJECT))
    fail(out, NABLA_INVALID_ARGUMENT,
         "a JSON value was written into an object without a key");
  separate(out);
}

static void open_container(nabla_json_out *out, int is_object) {
  begin_value(out);
  if (out->depth >= NABLA_JSON_MAX_DEPTH)
    fail(out, NABLA_TOO_LARGE, "the JSON to write is nested too deeply");
  if (out->status || out->depth >= NABLA_JSON_MAX_DEPTH) return;
  out->has_item[out->depth++] = is_object ? IS_OBJECT : 0;
  emit_text(out, is_object ? "{" : "[");
}

static void close_container(nabla_json_out *out, int is_object) {
  if (out->depth == 0 || out->after_key ||
      (out->has_item[out->depth - 1] & IS_OBJECT) != is_object)
    fail(out, NABLA_INVALID_ARGUMENT,
         "a JSON container was ended where none of its kind can end");
  if (out->status) return;
  out->depth--;
  emit_text(out, is_object ? "}" : "]");
}

void nabla_json_out_object(nabla_json_out *out) {
  open_container(out, IS_OBJECT);
}

void nabla_json_out_object_end(nabla_json_out *out) {
  close_container(out, IS_OBJECT);
}

void nabla_json_out_array(nabla_json_out *out) { open_container(out, 0); }

void nabla_json_out_array_end(nabla_json_out *out) { close_container(out, 0); }

#define UNIT 16 /* two escapes of six bytes, and a NUL */

/* Sets the escape of a character, if it needs one, and returns its length. */
static size_t escape(uint32_t code, char unit[UNIT]) {
  static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
  const char *found = code && code < 0x80 ? strchr(named, (int)code) : NULL;
  if (found) {
    unit[0] = '\\';
    unit[1] = names[found - named];
    return 2;
  }
  if (!nabla_is_control(code)) return 0;
  if (code < 0x10000)
    return (size_t)snprintf(unit, UNIT, "\\u%04x", (unsigned)code);
  code -= 0x10000; /* a pair of surrogates: RFC 8259, section 7 */
  return (size_t)snprintf(unit, UNIT, "\\u%04x\\u%04x",
                          0xd800u | (unsigned)(code >> 10),
                          0xdc00u | (unsigned)(code & 0x3ff));
}

#define SHORT 128 /* bytes of a text that is quoted in the buffer */

static void quote(nabla_json_out *out, const char *text, size_t length) {
  const uint8_t *bytes = (const uint8_t *)text;
  size_t written = 0, at = nabla_plain_length(bytes, length);
  if (at == length && length <= SHORT) {
    char *to = reserve(out, length + 2);
    to[0] = '"';
    if (length) memcpy(to + 1, text, length);
    to[length + 1] = '"';
    out->held += length + 2;
    return;
  }
  emit(out, "\"", 1);
  while (at < length) {
    char unit[UNIT];
    at += nabla_plain_length(bytes + at, length - at);
    if (at == length) break;
    size_t taken = nabla_utf8_length(bytes + at, length - at);
    size_t shown = taken ? escape(nabla_utf8_code(bytes + at, taken), unit) : 0;
    if (taken == 0) {
      taken = 1;
      shown = 3;
      memcpy(unit, "\xef\xbf\xbd", 3); /* U+FFFD */
    }
    if (shown > 0) {
      emit(out, text + written, at - written);
      emit(out, unit, shown);
      written = at + taken;
    }
    at += taken;
  }
  if (written < length) emit(out, text + written, length - written);
  emit(out, "\"", 1);
}

void nabla_json_out_key_n(nabla_json_out *out, const char *key, size_t length) {
  if (out->after_key || out->depth == 0 ||
      !(out->has_item[out->depth - 1] & IS_OBJECT))
    fail(out, NABLA_INVALID_ARGUMENT,
         "a JSON key was written where none can stand");
  if (out->status) return;
  separate(out);
  quote(out, key, length);
  emit_text(out, out->spaced ? ": " : ":");
  out->after_key = 1;
}

void nabla_json_out_key(nabla_json_out *out, const char *key) {
  nabla_json_out_key_n(out, key, strlen(key));
}

void nabla_json_out_string_n(nabla_json_out *out, const char *text,
                             size_t length) {
  begin_value(out);
  quote(out, text, length);
}

void nabla_json_out_string(nabla_json_out *out, const char *text) {
  nabla_json_out_string_n(out, text, strlen(text));
}

static void word(nabla_json_out *out, const char *text) {
  begin_value(out);
  emit_text(out, text);
}

static void emit_decimal(nabla_json_out *out, uint64_t value) {
  char text[NABLA_DECIMAL];
  emit(out, text, (size_t)(nabla_decimal_write(text, value) - text));
}

void nabla_json_out_u64(nabla_json_out *out, uint64_t value) {
  begin_value(out);
  emit_decimal(out, value);
}

void nabla_json_out_double(nabla_json_out *out, double value) {
  char text[48];
  if (!isfinite(value)) {
    word(out, "null");
    return;
  }
  if (value == trunc(value) && fabs(value) < 1e9) { /* %.9g prints all digits */
    begin_value(out);
    if (signbit(value)) emit(out, "-", 1);
    emit_decimal(out, (uint64_t)fabs(value));
    return;
  }
  nabla_c_snprintf(text, sizeof text, "%.9g", value);
  word(out, text);
}

void nabla_json_out_bool(nabla_json_out *out, int value) {
  word(out, value ? "true" : "false");
}

void nabla_json_out_null(nabla_json_out *out) { word(out, "null"); }

nabla_status nabla_json_out_finish(nabla_json_out *out) {
  if (out->depth > 0 || out->after_key)
    fail(out, NABLA_INVALID_ARGUMENT, "the JSON to write was not finished");
  flush(out);
  return out->status;
}
