/* See attribute_tree.h. The text: i<number>; b<0 or 1>; f<hexadecimal float>;
 * s<bytes>:<hex digits> a<count>:<values> d<count>:<name as s><value>... */
#include "lib/base/attribute_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/checked.h"

/* ---- memory ---- */

struct nabla_arena_block {
  struct nabla_arena_block *next;
  max_align_t data[];
};

void nabla_arena_clear(nabla_arena *arena) {
  while (arena->blocks) {
    struct nabla_arena_block *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
}

void *nabla_arena_take(nabla_arena *arena, size_t count, size_t size) {
  uint64_t bytes;
  if (!nabla_mul_u64(count, size, &bytes) || bytes > SIZE_MAX / 2) return NULL;
  struct nabla_arena_block *block =
      calloc(1, sizeof *block + (size_t)bytes + 1);
  if (!block) return NULL;
  block->next = arena->blocks;
  arena->blocks = block;
  return block->data;
}

char *nabla_arena_copy(nabla_arena *arena, const char *text, size_t length) {
  char *copy = nabla_arena_take(arena, length + 1, 1);
  if (copy) memcpy(copy, text, length);
  return copy;
}

/* ---- looking ---- */

const nabla_attribute_tree *nabla_attribute_tree_find(
    const nabla_attribute_tree *from, const char *name) {
  if (!from || from->kind != NABLA_ATTRIBUTE_DICTIONARY) return NULL;
  for (size_t i = 0; i < from->count; i++)
    if (!strcmp(from->elements[i].name, name)) return &from->elements[i];
  return NULL;
}

int64_t nabla_attribute_tree_integer(const nabla_attribute_tree *from,
                                     const char *name, int64_t otherwise) {
  const nabla_attribute_tree *at = nabla_attribute_tree_find(from, name);
  return at && at->kind == NABLA_ATTRIBUTE_INTEGER ? at->integer : otherwise;
}

const char *nabla_attribute_tree_kind_name(nabla_attribute_tree_kind kind) {
  static const char *const names[] = {
      [NABLA_ATTRIBUTE_BOOL] = "a bool",
      [NABLA_ATTRIBUTE_INTEGER] = "an integer",
      [NABLA_ATTRIBUTE_FLOAT] = "a float",
      [NABLA_ATTRIBUTE_STRING] = "a string",
      [NABLA_ATTRIBUTE_ARRAY] = "an array",
      [NABLA_ATTRIBUTE_DICTIONARY] = "a dictionary"};
  return (unsigned)kind < sizeof names / sizeof *names ? names[kind]
                                                       : "nothing known";
}

/* ---- writing ---- */

static nabla_status put(nabla_buffer *to, nabla_diag *diag, const char *format,
                        ...) {
  char text[64];
  va_list list;
  va_start(list, format);
  int length = nabla_c_vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return nabla_buffer_append(to, text, (size_t)length, diag);
}

static nabla_status put_text(const char *text, size_t length, nabla_buffer *to,
                             nabla_diag *diag) {
  NABLA_TRY(put(to, diag, "s%zu:", length));
  for (size_t i = 0; i < length; i++)
    NABLA_TRY(put(to, diag, "%02x", (unsigned)(unsigned char)text[i]));
  return NABLA_OK;
}

static nabla_status write_at(const nabla_attribute_tree *from, int depth,
                             nabla_buffer *to, nabla_diag *diag) {
  if (depth > NABLA_ATTRIBUTE_TREE_MAX_DEPTH)
    return nabla_fail(diag, NABLA_TOO_LARGE, "attributes are nested too deep");
  bool named = from->kind == NABLA_ATTRIBUTE_DICTIONARY;
  switch (from->kind) {
    case NABLA_ATTRIBUTE_BOOL:
      return put(to, diag, "b%d;", from->integer != 0);
    case NABLA_ATTRIBUTE_INTEGER:
      return put(to, diag, "i%" PRId64 ";", from->integer);
    case NABLA_ATTRIBUTE_FLOAT:
      return put(to, diag, "f%a;", from->number);
    case NABLA_ATTRIBUTE_STRING:
      return put_text(from->text, from->count, to, diag);
    case NABLA_ATTRIBUTE_ARRAY:
    case NABLA_ATTRIBUTE_DICTIONARY:
      break;
  }
  NABLA_TRY(put(to, diag, "%c%zu:", named ? 'd' : 'a', from->count));
  for (size_t i = 0; i < from->count; i++) {
    const nabla_attribute_tree *at = &from->elements[i];
    if (named) NABLA_TRY(put_text(at->name, strlen(at->name), to, diag));
    NABLA_TRY(write_at(at, depth + 1, to, diag));
  }
  return NABLA_OK;
}

nabla_status nabla_attribute_tree_write(const nabla_attribute_tree *from,
                                        nabla_buffer *to, nabla_diag *diag) {
  return write_at(from, 0, to, diag);
}

/* ---- reading ---- */

typedef struct reader {
  const char *at;
  nabla_arena *arena;
  size_t values;
  nabla_diag *diag;
} reader;

static nabla_status broken(const reader *r) {
  return nabla_fail(r->diag, NABLA_CORRUPT,
                    "the attributes of a custom call are damaged");
}

static nabla_status no_memory(const reader *r) {
  return nabla_fail(r->diag, NABLA_NO_MEMORY, "no memory for attributes");
}

/* A number that ends with `end`. */
static nabla_status read_count(reader *r, char end, size_t *out) {
  char *stop;
  if (*r->at < '0' || *r->at > '9') return broken(r);
  errno = 0;
  unsigned long long count = strtoull(r->at, &stop, 10);
  if (errno || *stop != end || count > NABLA_ATTRIBUTE_TREE_MAX_COUNT)
    return broken(r);
  r->at = stop + 1;
  *out = (size_t)count;
  return NABLA_OK;
}

static int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

/* What stands behind the 's'. */
static nabla_status read_text(reader *r, const char **out, size_t *out_length) {
  size_t length;
  NABLA_TRY(read_count(r, ':', &length));
  char *text = nabla_arena_take(r->arena, length + 1, 1);
  if (!text) return no_memory(r);
  for (size_t i = 0; i < length; i++) {
    int high = digit(r->at[0]);
    int low = high < 0 ? -1 : digit(r->at[1]);
    if (low < 0) return broken(r);
    text[i] = (char)(16 * high + low);
    r->at += 2;
  }
  *out = text;
  *out_length = length;
  return NABLA_OK;
}

static nabla_status read_number(reader *r, nabla_attribute_tree *out) {
  char *stop;
  errno = 0;
  if (out->kind == NABLA_ATTRIBUTE_FLOAT)
    out->number = nabla_c_strtod(r->at, &stop);
  else
    out->integer = strtoll(r->at, &stop, 10);
  bool wrong = stop == r->at || *stop != ';' ||
               (errno && out->kind != NABLA_ATTRIBUTE_FLOAT);
  if (out->kind == NABLA_ATTRIBUTE_BOOL && (out->integer & ~1)) wrong = true;
  if (wrong) return broken(r);
  r->at = stop + 1;
  return NABLA_OK;
}

static nabla_status read_at(reader *r, int depth, nabla_attribute_tree *out);

static nabla_status read_elements(reader *r, int depth,
                                  nabla_attribute_tree *out) {
  NABLA_TRY(read_count(r, ':', &out->count));
  nabla_attribute_tree *all =
      nabla_arena_take(r->arena, out->count, sizeof *all);
  if (!all) return no_memory(r);
  out->elements = all;
  for (size_t i = 0; i < out->count; i++) {
    const char *name = "";
    size_t length = 0;
    if (out->kind == NABLA_ATTRIBUTE_DICTIONARY) {
      if (*r->at++ != 's') return broken(r);
      NABLA_TRY(read_text(r, &name, &length));
      if (strlen(name) != length) return broken(r);
    }
    NABLA_TRY(read_at(r, depth + 1, &all[i]));
    all[i].name = name;
  }
  return NABLA_OK;
}

static nabla_status read_at(reader *r, int depth, nabla_attribute_tree *out) {
  static const char letters[] = "bifsad";
  const char *letter = *r->at ? strchr(letters, *r->at) : NULL;
  *out = (nabla_attribute_tree){.name = ""};
  if (!letter || depth > NABLA_ATTRIBUTE_TREE_MAX_DEPTH ||
      ++r->values > NABLA_ATTRIBUTE_TREE_MAX_COUNT)
    return broken(r);
  r->at++;
  out->kind = (nabla_attribute_tree_kind)(letter - letters);
  if (out->kind <= NABLA_ATTRIBUTE_FLOAT) return read_number(r, out);
  if (out->kind == NABLA_ATTRIBUTE_STRING)
    return read_text(r, &out->text, &out->count);
  return read_elements(r, depth, out);
}

nabla_status nabla_attribute_tree_read(const char *text, nabla_arena *arena,
                                       nabla_attribute_tree *out,
                                       nabla_diag *diag) {
  reader r = {text, arena, 0, diag};
  NABLA_TRY(read_at(&r, 0, out));
  return *r.at ? broken(&r) : NABLA_OK;
}
