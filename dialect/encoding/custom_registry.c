/* nabla_add_encoding. What was added is never moved or freed: types refer to
 * it. */
#include "dialect/encoding/custom_registry.h"

#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "lib/base/require.h"

#define MAX_ADDED 256
#define MAX_NAME  63

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nabla_encoding_description added[MAX_ADDED]; /* under `lock` to grow */
static size_t added_count;

bool nabla_custom_name_good(const char *name, size_t length) {
  if (length < 1 || length > MAX_NAME) return false;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '.')
      return false;
  return true;
}

const nabla_encoding_description *nabla_custom_find(const char *name,
                                                    size_t length) {
  const nabla_encoding_description *found = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count && !found; i++)
    if (strlen(added[i].name) == length && !memcmp(added[i].name, name, length))
      found = &added[i];
  pthread_mutex_unlock(&lock);
  return found;
}

bool nabla_custom_describe(void (*line)(void *self, const char *name,
                                        const char *version),
                           void *self) {
  bool good = true;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count; i++) {
    good = good && added[i].version;
    line(self, added[i].name, added[i].version ? added[i].version : "");
  }
  pthread_mutex_unlock(&lock);
  return good;
}

static bool is_storable(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F64 || dtype == NABLA_DTYPE_F32 ||
         dtype == NABLA_DTYPE_F16 || dtype == NABLA_DTYPE_BF16 ||
         dtype == NABLA_DTYPE_I64 || dtype == NABLA_DTYPE_I32 ||
         dtype == NABLA_DTYPE_I8;
}

static nabla_status check(const nabla_encoding_description *e,
                          nabla_diag *diag) {
  NABLA_REQUIRE_SIZE(e, "a nabla_encoding_description", diag);
  if (!e->name || !nabla_custom_name_good(e->name, strlen(e->name)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the name of an encoding has letters, digits, '_' and "
                      "'.', at most %d",
                      MAX_NAME);
  if (!e->count || !e->decode || e->component_count < 1 ||
      e->component_count > NABLA_ENCODING_MAX_COMPONENTS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "encoding '%s' needs 1 to %d components, count and "
                      "decode",
                      e->name, NABLA_ENCODING_MAX_COMPONENTS);
  if ((unsigned)e->fallback > NABLA_FALLBACK_NEVER)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "encoding '%s': fallback is none of "
                      "nabla_encoding_fallback",
                      e->name);
  for (uint32_t i = 0; i < e->component_count; i++) {
    const nabla_encoding_component *c = &e->components[i];
    if (!c->name || !nabla_custom_name_good(c->name, strlen(c->name)))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "encoding '%s': component %u has no legal name",
                        e->name, i);
    if (!is_storable(c->dtype))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "encoding '%s': component '%s' is none of F64, F32, "
                        "F16, BF16, I64, I32, I8",
                        e->name, c->name);
  }
  return NABLA_OK;
}

/* A copy of a text that may be NULL; `*good` is cleared without memory. */
static const char *copy_text(const char *text, bool *good) {
  char *copy = text ? strdup(text) : NULL;
  if (text && !copy) *good = false;
  return copy;
}

static void free_text(const char *text) { free((char *)(uintptr_t)text); }

static bool copy(const nabla_encoding_description *e,
                 nabla_encoding_description *out) {
  bool good = true;
  *out = *e;
  out->name = copy_text(e->name, &good);
  out->version = copy_text(e->version, &good);
  for (uint32_t i = 0; i < e->component_count; i++)
    out->components[i].name = copy_text(e->components[i].name, &good);
  if (good) return true;
  free_text(out->name);
  free_text(out->version);
  for (uint32_t i = 0; i < e->component_count; i++)
    free_text(out->components[i].name);
  return false;
}

nabla_status nabla_add_encoding(const nabla_encoding_description *encoding,
                                nabla_diag *diag) {
  NABLA_REQUIRE(encoding, diag);
  NABLA_TRY(check(encoding, diag));
  if (nabla_custom_find(encoding->name, strlen(encoding->name)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is an encoding '%s' already", encoding->name);
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&lock);
  if (added_count == MAX_ADDED)
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "there are %d added encodings already", MAX_ADDED);
  else if (!copy(encoding, &added[added_count]))
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for an encoding");
  else
    added_count++;
  pthread_mutex_unlock(&lock);
  return status;
}
