/* Reading what gradients are asked for; see derive.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "transforms/autodiff/calls.h"
#include "transforms/autodiff/rules.h"
#include "transforms/state/state.h"

MlirOperation nabla_derive_find(MlirOperation module, const char *name) {
  MlirOperation function = nabla_function_named(module, nabla_ref(name));
  if (mlirOperationIsNull(function)) {
    nabla_error_at(module, "there is no function @%s to differentiate", name);
    return function;
  }
  MlirRegion body = mlirOperationGetRegion(function, 0);
  MlirBlock entry = mlirRegionGetFirstBlock(body);
  if (!mlirBlockIsNull(entry) &&
      mlirBlockIsNull(mlirBlockGetNextInRegion(entry)))
    return function;
  nabla_error_at(function,
                 "cannot be differentiated: a function with %s; branches are "
                 "nabla.cond, loops nabla.scan",
                 mlirBlockIsNull(entry) ? "one block is, this one has no body"
                                        : "several blocks has no derivative");
  return (MlirOperation){NULL};
}

typedef struct reading {
  MlirOperation function;
  MlirBlock entry;
  nabla_wrt *out;
  size_t count;
} reading;

/* The argument with this name or number; -1: none. */
static intptr_t find_argument(const reading *r, MlirStringRef name) {
  char fallback[32];
  const intptr_t count = mlirBlockGetNumArguments(r->entry);
  intptr_t number = 0;
  for (intptr_t i = 0; i < count; i++)
    if (mlirStringRefEqual(nabla_argument_name(r->function, i, fallback), name))
      return i;
  for (size_t i = 0; i < name.length; i++) {
    if (name.data[i] < '0' || name.data[i] > '9' || i > 8) return -1;
    number = 10 * number + (name.data[i] - '0');
  }
  return name.length && number < count ? number : -1;
}

static bool refuse(const reading *r, MlirStringRef name, const char *why) {
  nabla_error_at(r->function,
                 "cannot be differentiated with respect to '%.*s': %s",
                 (int)name.length, name.data, why);
  return false;
}

static MlirType argument_type(const reading *r, intptr_t index) {
  return mlirValueGetType(mlirBlockGetArgument(r->entry, index));
}

static bool check_packed(const reading *r, MlirStringRef name, MlirType type) {
  switch (nabla_implicit_encoding(type).kind) {
    case NABLA_KIND_LORA:
      return refuse(r, name,
                    "it is a #nabla.lora, whose base has no gradient; name its "
                    "components, as in wrt=w.a,w.b");
    case NABLA_KIND_SPLAT:
    case NABLA_KIND_IDENTITY:
      return refuse(r, name, "it is a constant that is not stored");
    default:
      return refuse(
          r, name,
          "it is packed, and packed values have no derivative. Either keep a "
          "dense master and pass it through nabla.quantize, whose derivative "
          "is the identity; or add a #nabla.lora and differentiate with "
          "respect to its a and b; or decode a copy with nabla.materialize "
          "outside and pass the copy");
  }
}

static bool check_type(const reading *r, MlirStringRef name, MlirType type) {
  if (nablaTypeIsAImplicit(type)) return check_packed(r, name, type);
  if (nabla_diff_has(type)) return true;
  return refuse(r, name, "it is no array of floats");
}

static bool add(reading *r, MlirStringRef name, nabla_wrt wrt) {
  for (size_t i = 0; i < r->count; i++)
    if (r->out[i].argument == wrt.argument &&
        r->out[i].component == wrt.component)
      return refuse(r, name, "it is named twice");
  r->out[r->count++] = wrt;
  return true;
}

/* "w.a": an argument and the number of its component. */
static bool read_component(reading *r, MlirStringRef name) {
  const size_t skip = name.length < 2 ? 0 : name.length - 2;
  const char last = name.length ? name.data[name.length - 1] : 0;
  if (!skip || name.data[skip] != '.' || (last != 'a' && last != 'b'))
    return refuse(r, name, "no argument has this name or number");
  const intptr_t at = find_argument(r, mlirStringRefCreate(name.data, skip));
  if (at < 0) return refuse(r, name, "no argument has this name or number");
  MlirType type = argument_type(r, at);
  if (!nablaTypeIsAImplicit(type) ||
      nabla_implicit_encoding(type).kind != NABLA_KIND_LORA)
    return refuse(r, name, "its argument is no #nabla.lora");
  return add(r, name, (nabla_wrt){at, last == 'a' ? 1 : 2});
}

static bool read_name(reading *r, MlirStringRef name) {
  const intptr_t at = find_argument(r, name);
  if (at < 0) return read_component(r, name);
  return check_type(r, name, argument_type(r, at)) &&
         add(r, name, (nabla_wrt){at, 0});
}

static bool read_all(reading *r) {
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(r->entry); i++) {
    MlirType type = argument_type(r, i);
    if (!nablaTypeIsAImplicit(type) && nabla_diff_has(type))
      r->out[r->count++] = (nabla_wrt){i, 0};
  }
  if (r->count) return true;
  nabla_error_at(r->function,
                 "cannot be differentiated: it has no argument that is a "
                 "tensor of floats");
  return false;
}

static bool read_names(reading *r, const char *text) {
  for (const char *at = text;;) {
    const size_t length = strcspn(at, ",");
    if (!read_name(r, mlirStringRefCreate(at, length))) return false;
    if (!at[length]) return true;
    at += length + 1;
  }
}

nabla_wrt *nabla_wrt_read(MlirOperation function, const char *text,
                          size_t *out_count) {
  reading r = {.function = function, .entry = nabla_region_block(function, 0)};
  size_t most = (size_t)mlirBlockGetNumArguments(r.entry) + 1;
  for (const char *at = text; *at; at++) most += *at == ',';
  r.out = calloc(most, sizeof *r.out);
  const bool good = r.out && (*text ? read_names(&r, text) : read_all(&r));
  *out_count = r.count;
  if (good) return r.out;
  free(r.out);
  return NULL;
}
