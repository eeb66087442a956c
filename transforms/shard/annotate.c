/* See annotate.h. */
#include "transforms/shard/annotate.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/shard/layout.h"
#include "transforms/state/state.h"

#define MESH_NAME "mesh"

/* ---- meshes ---- */

static MlirBlock body_of(MlirOperation module) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0));
}

/* Reads "data=2,model=4". */
static bool read_axes(MlirOperation module, const char *text, nabla_mesh *out) {
  *out = (nabla_mesh){.devices = 1};
  for (const char *at = text; *at;) {
    const size_t length = strcspn(at, ",");
    const char *equals = memchr(at, '=', length);
    nabla_axis_ref axis = {.size = 0};
    char *end = NULL;
    const long long size = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || end != at + length || size < 1 ||
        size > NABLA_MESH_MAX_DEVICES || out->count == NABLA_MESH_MAX_AXES ||
        !nabla_axis_parse(at, (size_t)(equals - at), &axis) || axis.size ||
        nabla_mesh_axis(out, axis.name) >= 0) {
      nabla_error_at(module,
                     "--mesh '%s' does not read AXIS=SIZE,...: axes with "
                     "different names and sizes of at least 1",
                     text);
      return false;
    }
    memcpy(out->axes[out->count], axis.name, NABLA_AXIS_NAME);
    out->sizes[out->count++] = size;
    at += length + (at[length] == ',');
  }
  return true;
}

static MlirOperation find_mesh(MlirOperation module) {
  MlirOperation op = mlirBlockGetFirstOperation(body_of(module));
  while (!mlirOperationIsNull(op) && !nabla_is(op, "nabla.mesh"))
    op = mlirOperationGetNextInBlock(op);
  return op;
}

static bool add_mesh(MlirOperation module, const nabla_mesh *mesh) {
  nabla_text text = {0};
  nabla_text_add(&text, "nabla.mesh @" MESH_NAME " <[");
  for (uint32_t i = 0; i < mesh->count; i++)
    nabla_text_add(&text, "%s\"%s\"=%" PRId64, i ? ", " : "", mesh->axes[i],
                   mesh->sizes[i]);
  nabla_text_add(&text, "]>\n");
  MlirOperation first = mlirBlockGetFirstOperation(body_of(module));
  const bool good = nabla_module_add(first, &text);
  nabla_text_deinit(&text);
  return good;
}

/* Other sizes of the axes that the module's mesh has. */
static bool set_sizes(MlirOperation op, const nabla_mesh *sizes) {
  MlirAttribute list[2 * NABLA_MESH_MAX_AXES];
  char message[NABLA_MESSAGE_SIZE];
  MlirContext context = nabla_op_context(op);
  nabla_mesh own;
  if (!nabla_mesh_read(op, &own, message)) return false;
  for (uint32_t i = 0; i < sizes->count; i++) {
    const int axis = nabla_mesh_axis(&own, sizes->axes[i]);
    if (axis < 0) {
      nabla_error_at(op, "has no axis \"%s\", which --mesh gives a size",
                     sizes->axes[i]);
      return false;
    }
    own.sizes[axis] = sizes->sizes[i];
  }
  for (uint32_t i = 0; i < own.count; i++) {
    list[2 * i] = mlirStringAttrGet(context, nabla_ref(own.axes[i]));
    list[2 * i + 1] =
        mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), own.sizes[i]);
  }
  mlirOperationSetAttributeByName(
      op, nabla_ref("axes"),
      mlirArrayAttrGet(context, 2 * (intptr_t)own.count, list));
  return true;
}

static bool set_mesh(MlirOperation module, const char *text) {
  nabla_mesh mesh;
  if (!*text) return true;
  if (!read_axes(module, text, &mesh)) return false;
  MlirOperation op = find_mesh(module);
  return mlirOperationIsNull(op) ? add_mesh(module, &mesh)
                                 : set_sizes(op, &mesh);
}

/* ---- patterns ---- */

/* `*` is any text, also none, and `?` any byte. */
static bool matches(const char *pattern, size_t size, MlirStringRef name) {
  size_t p = 0, n = 0, star = SIZE_MAX, from = 0;
  while (n < name.length) {
    if (p < size && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < size && (pattern[p] == '?' || pattern[p] == name.data[n])) {
      p++, n++;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (p < size && pattern[p] == '*') p++;
  return p == size;
}

typedef struct request {
  MlirOperation module;
  const char *pattern;
  size_t pattern_size;
  MlirAttribute sharding;
  bool is_met; /* an argument matches */
} request;

/* `nabla.name` of an argument, or "arg3". */
static MlirStringRef name_of(MlirOperation function, intptr_t index,
                             char fallback[32]) {
  MlirAttribute name =
      nabla_state_attribute(function, NABLA_ARGUMENTS, index, "nabla.name");
  if (!mlirAttributeIsNull(name) && mlirAttributeIsAString(name))
    return mlirStringAttrGetValue(name);
  snprintf(fallback, 32, "arg%td", index);
  return nabla_ref(fallback);
}

static void annotate_function(request *r, MlirOperation function) {
  MlirType type = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
  const intptr_t count = mlirFunctionTypeGetNumInputs(type);
  MlirAttribute *kept = calloc((size_t)count + 1, sizeof *kept);
  for (intptr_t i = 0; kept && i < count; i++) {
    char fallback[32];
    kept[i] =
        nabla_state_attribute(function, NABLA_ARGUMENTS, i, NABLA_SHARDING);
    if (!matches(r->pattern, r->pattern_size, name_of(function, i, fallback)))
      continue;
    kept[i] = r->sharding;
    r->is_met = true;
  }
  if (kept && r->is_met) {
    nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_SHARDING);
    nabla_arguments_set(function, NABLA_SHARDING, kept);
  }
  free(kept);
}

/* "[{...}]..." as a sharding of the module's mesh; "@m, [...]" as it is. */
static bool read_sharding(request *r, const char *text, size_t size) {
  char message[NABLA_MESSAGE_SIZE], whole[2048], name[NABLA_MESH_NAME] = "";
  nabla_sharding sharding;
  MlirOperation op = find_mesh(r->module);
  if (!mlirOperationIsNull(op)) {
    MlirStringRef symbol = mlirStringAttrGetValue(
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name")));
    snprintf(name, sizeof name, "%.*s", (int)symbol.length, symbol.data);
  }
  const int length = snprintf(whole, sizeof whole, "%s%s%s%.*s",
                              *text == '@' ? "" : "@", *text == '@' ? "" : name,
                              *text == '@' ? "" : ", ", (int)size, text);
  if (mlirOperationIsNull(op))
    snprintf(message, sizeof message,
             "the program has no mesh: give one with --mesh AXIS=SIZE,...");
  else if (length < 0 || (size_t)length >= sizeof whole)
    snprintf(message, sizeof message, "it is too long");
  else if (nabla_sharding_parse(whole, (size_t)length, &sharding, message)) {
    r->sharding = nabla_sharding_get(nabla_op_context(r->module), &sharding);
    return true;
  }
  nabla_error_at(r->module, "--shard '%.*s': %s", (int)size, text, message);
  return false;
}

static bool annotate(MlirOperation module, const char *text, size_t size) {
  const char *equals = memchr(text, '=', size);
  request r = {.module = module, .pattern = text};
  if (!equals || equals == text) {
    nabla_error_at(module, "--shard '%.*s' does not read PATTERN=SHARDING",
                   (int)size, text);
    return false;
  }
  r.pattern_size = (size_t)(equals - text);
  if (!read_sharding(&r, equals + 1, size - r.pattern_size - 1)) return false;
  MlirOperation op = mlirBlockGetFirstOperation(body_of(module));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func")) annotate_function(&r, op);
  if (r.is_met) return true;
  nabla_error_at(module, "--shard '%.*s': no argument has such a name",
                 (int)r.pattern_size, text);
  return false;
}

bool nabla_shard_annotate(MlirOperation module, const char *mesh,
                          const char *shard) {
  if (!set_mesh(module, mesh)) return false;
  for (const char *at = shard; *at;) {
    const size_t length = strcspn(at, ";");
    if (length && !annotate(module, at, length)) return false;
    at += length + (at[length] == ';');
  }
  return true;
}
