/* See annotate.h. */
#include "transforms/shard/annotate.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "nabla/comm.h"
#include "transforms/shard/layout.h"
#include "transforms/state/state.h"

#define MESH_NAME "mesh"

/* ---- meshes ---- */

static MlirBlock body_of(MlirOperation module) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0));
}

/* Every device of a program that is compiled is a rank. */
static bool check_devices(MlirOperation module, const char *text,
                          const nabla_mesh *mesh) {
  int64_t devices = 1;
  for (uint32_t i = 0; i < mesh->count; i++)
    if (devices <= NABLA_COMM_MAX_RANKS) devices *= mesh->sizes[i];
  if (devices <= NABLA_COMM_MAX_RANKS) return true;
  nabla_error_at(module,
                 "--mesh '%s' has more devices than a program runs on: at "
                 "most %u",
                 text, NABLA_COMM_MAX_RANKS);
  return false;
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
        !nabla_axis_parse(at, (size_t)(equals - at), &axis) || axis.size) {
      nabla_error_at(module,
                     "--mesh '%s' does not read AXIS=SIZE,...: axes with "
                     "different names and sizes of at least 1",
                     text);
      return false;
    }
    if (nabla_mesh_axis(out, axis.name) >= 0) {
      nabla_error_at(module, "--mesh '%s' has the axis '%s' twice", text,
                     axis.name);
      return false;
    }
    memcpy(out->axes[out->count], axis.name, NABLA_AXIS_NAME);
    out->sizes[out->count++] = size;
    at += length + (at[length] == ',');
  }
  return check_devices(module, text, out);
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

/* "PATTERN=SHARDING" of --shard. */
typedef struct request {
  MlirOperation module;
  const char *text;
  size_t size, pattern_size;
  MlirAttribute sharding;
  bool is_met; /* an argument matches */
  bool failed; /* after an error */
} request;

/* Whether the pattern means an argument, by its name or by that of its state.
 */
static bool is_meant(const request *r, MlirOperation function, intptr_t index) {
  char fallback[32];
  const MlirStringRef state =
      nabla_state_name(function, NABLA_ARGUMENTS, index);
  return matches(r->text, r->pattern_size,
                 nabla_argument_name(function, index, fallback)) ||
         (state.length && matches(r->text, r->pattern_size, state));
}

static MlirType type_of(MlirOperation function) {
  return mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
}

/* Checks that the sharding is one of argument `index`; an array of any size. */
static bool check_argument(request *r, MlirOperation function, intptr_t index) {
  char message[NABLA_MESSAGE_SIZE], fallback[32];
  const nabla_sharding sharding = nabla_sharding_read(r->sharding);
  const MlirType type = mlirFunctionTypeGetInput(type_of(function), index);
  const MlirStringRef name = nabla_argument_name(function, index, fallback);
  nabla_mesh mesh;
  if (!nabla_mesh_read(find_mesh(r->module), &mesh, message)) return true;
  if (strcmp(sharding.mesh, mesh.name) ||
      (!nablaTypeIsAImplicit(type) && !mlirTypeIsARankedTensor(type)) ||
      nabla_sharding_check(&mesh, &sharding, nabla_array_rank(type), message))
    return true; /* what else is wrong is reported by nabla-propagate-sharding
                  */
  nabla_error_at(function, "--shard '%.*s': argument '%.*s': %s", (int)r->size,
                 r->text, (int)name.length, name.data, message);
  r->failed = true;
  return false;
}

static void annotate_function(request *r, MlirOperation function) {
  const intptr_t count = mlirFunctionTypeGetNumInputs(type_of(function));
  MlirAttribute *kept = calloc(2 * (size_t)count + 1, sizeof *kept);
  const MlirAttribute option = mlirStringAttrGet(
      nabla_op_context(function), mlirStringRefCreate(r->text, r->size));
  bool is_met = false;
  for (intptr_t i = 0; kept && i < count; i++) {
    kept[i] =
        nabla_state_attribute(function, NABLA_ARGUMENTS, i, NABLA_SHARDING);
    kept[count + i] =
        nabla_state_attribute(function, NABLA_ARGUMENTS, i, NABLA_SHARD_OPTION);
    if (!is_meant(r, function, i) || !check_argument(r, function, i)) continue;
    kept[i] = r->sharding;
    kept[count + i] = option;
    is_met = true;
  }
  if (is_met) {
    nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_SHARDING);
    nabla_state_strip(function, NABLA_ARGUMENTS, NABLA_SHARD_OPTION);
    nabla_arguments_set(function, NABLA_SHARDING, kept);
    nabla_arguments_set(function, NABLA_SHARD_OPTION, kept + count);
  }
  r->is_met = r->is_met || is_met;
  free(kept);
}

#define MOST_NAMES 8 /* that an error lists */

/* Reports that no argument is meant, with the names that there are. */
static void fail_unmet(const request *r) {
  nabla_text names = {0};
  size_t count = 0;
  MlirOperation op = mlirBlockGetFirstOperation(body_of(r->module));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    const intptr_t inputs = nabla_is(op, "func.func")
                                ? mlirFunctionTypeGetNumInputs(type_of(op))
                                : 0;
    for (intptr_t i = 0; i < inputs; i++, count++) {
      char fallback[32];
      const MlirStringRef name = nabla_argument_name(op, i, fallback),
                          state = nabla_state_name(op, NABLA_ARGUMENTS, i),
                          *shown = state.length ? &state : &name;
      if (count < MOST_NAMES)
        nabla_text_add(&names, "%s'%.*s'", count ? ", " : "",
                       (int)(shown->length < 100 ? shown->length : 100),
                       shown->data);
    }
  }
  nabla_error_at(r->module,
                 "--shard '%.*s': no argument and no state has such a name; "
                 "there are %s%s",
                 (int)r->pattern_size, r->text,
                 names.data && count ? names.data : "no arguments",
                 count > MOST_NAMES ? ", ..." : "");
  nabla_text_deinit(&names);
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
  nabla_error_at(r->module, "--shard '%.*s': %s", (int)r->size, r->text,
                 message);
  return false;
}

static bool annotate(MlirOperation module, const char *text, size_t size) {
  const char *equals = memchr(text, '=', size);
  request r = {.module = module, .text = text, .size = size};
  if (!equals || equals == text) {
    nabla_error_at(module, "--shard '%.*s' does not read PATTERN=SHARDING",
                   (int)size, text);
    return false;
  }
  r.pattern_size = (size_t)(equals - text);
  if (!read_sharding(&r, equals + 1, size - r.pattern_size - 1)) return false;
  MlirOperation op = mlirBlockGetFirstOperation(body_of(module));
  for (; !r.failed && !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func")) annotate_function(&r, op);
  if (!r.failed && !r.is_met) fail_unmet(&r);
  return r.is_met && !r.failed;
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
