/* The text of shardings: a cursor over a grammar without lookahead. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dialect/shard/sharding.h"
#include "nabla/status.h"

/* How partial values are joined, by number of Nabla_ReduceKind. */
static const char *const kinds[] = {"sum", "max", "prod", "min",
                                    NULL,  "any", "all"};
#define KINDS (sizeof kinds / sizeof *kinds)

typedef struct cursor {
  const char *at, *end;
  char *message;
} cursor;

static void skip_space(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
    c->at++;
}

static bool accept(cursor *c, char byte) {
  skip_space(c);
  if (c->at == c->end || *c->at != byte) return false;
  c->at++;
  return true;
}

static bool fail(cursor *c, const char *what) {
  if (c->message)
    snprintf(c->message, NABLA_MESSAGE_SIZE,
             "a sharding is written <@mesh, [{\"axis\"}, {?}]>: expected %s%s"
             "%.*s%s",
             what, c->at < c->end ? ", found '" : "",
             (int)(c->end - c->at < 12 ? c->end - c->at : 12), c->at,
             c->at < c->end ? "'" : "");
  return false;
}

static bool expect(cursor *c, char byte, const char *what) {
  return accept(c, byte) || fail(c, what);
}

static bool is_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' ||
         byte == '-';
}

static bool take_word(cursor *c, char *out, size_t room, const char *what) {
  size_t size = 0;
  while (c->at + size < c->end && is_word(c->at[size])) size++;
  if (!size || size >= room) return fail(c, what);
  memcpy(out, c->at, size);
  out[size] = 0;
  c->at += size;
  return true;
}

static bool take_number(cursor *c, int64_t *out, const char *what) {
  skip_space(c);
  const char *from = c->at;
  for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    if (*out > NABLA_MESH_MAX_DEVICES) return fail(c, "a smaller number");
    *out = *out * 10 + (*c->at - '0');
  }
  return c->at > from || fail(c, what);
}

/* `:(2)4` behind the name of an axis, if it is there. */
static bool take_part(cursor *c, nabla_axis_ref *out) {
  out->before = 1;
  out->size = 0;
  const char *from = c->at; /* a ':' and a word are how values are joined */
  if (!accept(c, ':')) return true;
  skip_space(c);
  if (c->at < c->end && *c->at != '(') return c->at = from, true;
  if (!expect(c, '(', "'(' of a sub-axis, as \"axis\":(2)4") ||
      !take_number(c, &out->before, "the size before a sub-axis") ||
      !expect(c, ')', "')'") ||
      !take_number(c, &out->size, "the size of a sub-axis"))
    return false;
  return (out->before >= 1 && out->size >= 2) ||
         fail(c, "a sub-axis of at least 2 behind at least 1");
}

static bool take_axis(cursor *c, nabla_axis_ref *out) {
  return expect(c, '"', "the name of an axis in quotes") &&
         take_word(c, out->name, sizeof out->name,
                   "a name of letters, digits, '_', '.' and '-'") &&
         expect(c, '"', "'\"'") && take_part(c, out);
}

static bool add_axis(cursor *c, nabla_axis_list *list) {
  if (list->count == NABLA_MESH_MAX_AXES) return fail(c, "at most 8 axes");
  return take_axis(c, &list->at[list->count]) && ++list->count;
}

static bool take_dim(cursor *c, nabla_sharding_dim *out) {
  out->priority = -1;
  if (!expect(c, '{', "'{' of a dimension")) return false;
  while (!accept(c, '}')) {
    if (out->is_open) return fail(c, "'}' behind '?'");
    if (out->axes.count && !expect(c, ',', "',' or '}'")) return false;
    out->is_open = accept(c, '?');
    if (!out->is_open && !add_axis(c, &out->axes)) return false;
  }
  if (c->at == c->end || *c->at != 'p') return true;
  c->at++;
  int64_t priority = 0;
  if (!take_number(c, &priority, "a number behind 'p'")) return false;
  out->priority = (int)priority;
  return true;
}

static bool take_dims(cursor *c, nabla_sharding *out) {
  if (!expect(c, '[', "'[' of the dimensions")) return false;
  while (!accept(c, ']')) {
    if (out->rank && !expect(c, ',', "',' or ']'")) return false;
    if (out->rank == NABLA_MAX_RANK) return fail(c, "at most 16 dimensions");
    if (!take_dim(c, &out->dims[out->rank++])) return false;
  }
  return true;
}

static bool take_kind(cursor *c, int *out) {
  char word[8];
  skip_space(c);
  if (!take_word(c, word, sizeof word, "sum, prod, max, min, any or all"))
    return false;
  for (size_t i = 0; i < KINDS; i++)
    if (kinds[i] && !strcmp(kinds[i], word)) return *out = (int)i, true;
  return fail(c, "sum, prod, max, min, any or all");
}

/* `replicated = {...}` or `partial = {...}`. */
static bool take_axes(cursor *c, nabla_sharding *out) {
  char word[16];
  skip_space(c);
  if (!take_word(c, word, sizeof word, "'replicated' or 'partial'"))
    return false;
  const bool joins = !strcmp(word, "partial");
  nabla_axis_list *list = joins ? &out->partial : &out->replicated;
  if ((!joins && strcmp(word, "replicated") != 0) || list->count)
    return fail(c, "'replicated' or 'partial', each once");
  if (!expect(c, '=', "'='") || !expect(c, '{', "'{'")) return false;
  while (!accept(c, '}')) {
    if (list->count && !expect(c, ',', "',' or '}'")) return false;
    if (!add_axis(c, list)) return false;
    if (joins && (!expect(c, ':', "':' and how values are joined") ||
                  !take_kind(c, &out->partial_kind[list->count - 1])))
      return false;
  }
  return list->count || fail(c, "an axis");
}

bool nabla_sharding_parse(const char *text, size_t size, nabla_sharding *out,
                          char message[NABLA_MESSAGE_SIZE]) {
  cursor c = {text, text + size, message};
  memset(out, 0, sizeof *out);
  if (!expect(&c, '@', "'@' and the name of a mesh") ||
      !take_word(&c, out->mesh, sizeof out->mesh, "the name of a mesh") ||
      !expect(&c, ',', "','") || !take_dims(&c, out))
    return false;
  while (accept(&c, ','))
    if (!take_axes(&c, out)) return false;
  skip_space(&c);
  return c.at == c.end || fail(&c, "'>'");
}

bool nabla_axis_parse(const char *text, size_t size, nabla_axis_ref *out) {
  cursor c = {text, text + size, NULL};
  return take_word(&c, out->name, sizeof out->name, "") && take_part(&c, out) &&
         c.at == c.end;
}

bool nabla_mesh_name_parse(const char *text, size_t size,
                           char out[NABLA_MESH_NAME]) {
  if (!size) return false; /* `text` may be NULL then */
  cursor c = {text, text + size, NULL};
  return take_word(&c, out, NABLA_MESH_NAME, "") && c.at == c.end;
}

/* ---- printing ---- */

typedef struct writer {
  char *out;
  size_t room, used;
} writer;

static void put(writer *w, const char *format, ...) NABLA_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
  const size_t left = w->used < w->room ? w->room - w->used : 0;
  va_list arguments;
  va_start(arguments, format);
  const int length =
      vsnprintf(left ? w->out + w->used : NULL, left, format, arguments);
  va_end(arguments);
  w->used += length > 0 ? (size_t)length : 0;
}

static void put_axis(writer *w, const nabla_axis_ref *axis, bool first) {
  put(w, "%s\"%s\"", first ? "" : ", ", axis->name);
  if (axis->size) put(w, ":(%" PRId64 ")%" PRId64, axis->before, axis->size);
}

static void put_dim(writer *w, const nabla_sharding_dim *dim) {
  put(w, "{");
  for (uint32_t i = 0; i < dim->axes.count; i++)
    put_axis(w, &dim->axes.at[i], i == 0);
  if (dim->is_open) put(w, "%s?", dim->axes.count ? ", " : "");
  put(w, "}");
  if (dim->priority >= 0) put(w, "p%d", dim->priority);
}

size_t nabla_sharding_print(const nabla_sharding *s, char *out, size_t room) {
  writer w = {out, room, 0};
  put(&w, "@%s, [", s->mesh);
  for (uint32_t i = 0; i < s->rank; i++) {
    if (i) put(&w, ", ");
    put_dim(&w, &s->dims[i]);
  }
  put(&w, "]");
  for (uint32_t i = 0; i < s->replicated.count; i++) {
    if (!i) put(&w, ", replicated = {");
    put_axis(&w, &s->replicated.at[i], i == 0);
  }
  if (s->replicated.count) put(&w, "}");
  for (uint32_t i = 0; i < s->partial.count; i++) {
    if (!i) put(&w, ", partial = {");
    put_axis(&w, &s->partial.at[i], i == 0);
    put(&w, ": %s", kinds[s->partial_kind[i]]);
  }
  if (s->partial.count) put(&w, "}");
  return w.used;
}
