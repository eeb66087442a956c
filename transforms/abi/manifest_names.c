/* See manifest_names.h. */
#include "transforms/abi/manifest_names.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "transforms/state/state.h"

#define NAME_SHOWN 100 /* bytes of a name in an error */

static int shown(MlirStringRef name) {
  return name.length < NAME_SHOWN ? (int)name.length : NAME_SHOWN;
}

/* ---- functions ---- */

static MlirStringRef symbol(MlirOperation function) {
  return mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
}

/* Names that objects have for themselves. */
static bool is_reserved(MlirStringRef name) {
  static const char *const names[] = {"malloc", "free", "aligned_alloc"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (name.length == strlen(names[i]) &&
        !memcmp(name.data, names[i], name.length))
      return true;
  return name.length >= 6 &&
         (!memcmp(name.data, "nabla_", 6) || !memcmp(name.data, "_mlir_", 6));
}

/* Well-formed UTF-8 without control characters, at which C ends a text, and
 * without '@', behind which object files have a version. */
static bool can_be_symbol(MlirStringRef name) {
  size_t at = 0;
  while (at < name.length) {
    const uint8_t *c = (const uint8_t *)name.data + at;
    size_t length = nabla_utf8_length(c, name.length - at);
    if (length == 0 || *c < ' ' || *c == 0x7f || *c == '@') return false;
    at += length;
  }
  return name.length > 0;
}

/* The name as MLIR writes it. */
static void refuse(MlirOperation function) {
  nabla_text text = {0};
  nabla_text_add_attribute(
      &text, mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
  nabla_error_at(function,
                 "has the name %.100s: a name is text in UTF-8 without '@' and "
                 "control characters, and not empty; rename it",
                 text.data ? text.data : "");
  nabla_text_deinit(&text);
}

bool nabla_manifest_check_function(MlirOperation function) {
  MlirStringRef name = symbol(function);
  if (is_reserved(name)) {
    nabla_error_at(function,
                   "has the name '%.*s', which compiled code has for itself; "
                   "rename it",
                   shown(name), name.data);
    return false;
  }
  if (can_be_symbol(name)) return true;
  refuse(function);
  return false;
}

/* ---- arguments ---- */

typedef struct named {
  MlirStringRef name;
  intptr_t index;
} named;

static int compare(const void *a, const void *b) {
  const named *l = a, *r = b;
  size_t least =
      l->name.length < r->name.length ? l->name.length : r->name.length;
  int by = memcmp(l->name.data, r->name.data, least);
  if (by) return by;
  if (l->name.length != r->name.length)
    return l->name.length < r->name.length ? -1 : 1;
  return l->index < r->index ? -1 : 1;
}

static bool is_text(MlirOperation function, intptr_t index) {
  return nabla_name_check(
      function,
      nabla_state_attribute(function, NABLA_ARGUMENTS, index, "nabla.name"),
      "nabla.name", "argument", index, "x");
}

/* Reports the first name that two of them have. */
static bool are_distinct(MlirOperation function, intptr_t count,
                         const named *sorted) {
  for (intptr_t i = 1; i < count; i++) {
    MlirStringRef a = sorted[i - 1].name, b = sorted[i].name;
    if (a.length != b.length || memcmp(a.data, b.data, a.length)) continue;
    nabla_error_at(function,
                   "has two arguments of the name '%.*s', #%d and #%d: give "
                   "each a nabla.name of its own",
                   shown(a), a.data, (int)sorted[i - 1].index,
                   (int)sorted[i].index);
    return false;
  }
  return true;
}

bool nabla_manifest_check_arguments(MlirOperation function) {
  intptr_t count = mlirFunctionTypeGetNumInputs(mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type"))));
  named *all = calloc((size_t)count + 1, sizeof *all);
  char (*fallbacks)[32] = calloc((size_t)count + 1, sizeof *fallbacks);
  bool good = all && fallbacks;
  for (intptr_t i = 0; i < count && good; i++) {
    good = is_text(function, i);
    all[i].index = i;
    all[i].name = nabla_argument_name(function, i, fallbacks[i]);
  }
  if (good) {
    qsort(all, (size_t)count, sizeof *all, compare);
    good = are_distinct(function, count, all);
  }
  free(fallbacks);
  free(all);
  return good;
}
