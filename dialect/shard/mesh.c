/* Meshes, and what makes axes of one legal. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dialect/shard/sharding.h"
#include "dialect/verify/checks.h"

#define SHARDING_TEXT 4096 /* bytes of the longest text of a sharding */

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

static bool fail(char message[NABLA_MESSAGE_SIZE], const char *format, ...)
    NABLA_PRINTF(2, 3);
static bool fail(char message[NABLA_MESSAGE_SIZE], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, NABLA_MESSAGE_SIZE, format, arguments);
  va_end(arguments);
  return false;
}

/* ---- attributes ---- */

bool nabla_sharding_is(MlirAttribute attribute) {
  MlirAttribute parameters;
  return !mlirAttributeIsNull(attribute) &&
         nabla_text_equals(nablaEncodingAttrParts(attribute, &parameters),
                           "sharding");
}

nabla_sharding nabla_sharding_read(MlirAttribute attribute) {
  nabla_sharding out;
  MlirAttribute parameters;
  char message[NABLA_MESSAGE_SIZE];
  (void)nablaEncodingAttrParts(attribute, &parameters);
  MlirStringRef text =
      mlirStringAttrGetValue(nabla_attribute(parameters, "text"));
  (void)nabla_sharding_parse(text.data, text.length, &out, message);
  return out;
}

static MlirAttribute dictionary_of(MlirContext context,
                                   const nabla_sharding *sharding) {
  char text[SHARDING_TEXT];
  const size_t size = nabla_sharding_print(sharding, text, sizeof text);
  if (size >= sizeof text) return mlirAttributeGetNull();
  MlirNamedAttribute entry = mlirNamedAttributeGet(
      mlirIdentifierGet(context, ref("text")),
      mlirStringAttrGet(context, mlirStringRefCreate(text, size)));
  return mlirDictionaryAttrGet(context, 1, &entry);
}

MlirAttribute nabla_sharding_get(MlirContext context,
                                 const nabla_sharding *sharding) {
  return nablaEncodingAttrGet(context, ref("sharding"),
                              dictionary_of(context, sharding));
}

bool nabla_sharding_hook(MlirContext context, MlirAttribute parameters,
                         MlirAttribute *out_parameters,
                         char message[NABLA_MESSAGE_SIZE]) {
  nabla_sharding sharding;
  MlirAttribute given = nabla_attribute(parameters, "text");
  if (mlirAttributeIsNull(given))
    return fail(message, "a sharding is written <@mesh, [{\"axis\"}, {?}]>");
  MlirStringRef text = mlirStringAttrGetValue(given);
  const size_t size = text.length ? text.length - 1 : 0; /* without the '>' */
  if (!nabla_sharding_parse(text.data, size, &sharding, message)) return false;
  *out_parameters = dictionary_of(context, &sharding);
  return !mlirAttributeIsNull(*out_parameters) ||
         fail(message, "the sharding has more than %d bytes", SHARDING_TEXT);
}

bool nabla_axes_read(MlirAttribute list, nabla_axis_list *out) {
  *out = (nabla_axis_list){0};
  if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return false;
  const intptr_t count = mlirArrayAttrGetNumElements(list);
  if (count > NABLA_MESH_MAX_AXES) return false;
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute name = mlirArrayAttrGetElement(list, i);
    if (!mlirAttributeIsAString(name)) return false;
    MlirStringRef text = mlirStringAttrGetValue(name);
    if (!nabla_axis_parse(text.data, text.length, &out->at[out->count++]))
      return false;
  }
  return true;
}

/* ---- meshes ---- */

static bool read_axis(const nabla_mesh *mesh, MlirAttribute name,
                      MlirAttribute size, char out[NABLA_AXIS_NAME],
                      int64_t *out_size, char message[NABLA_MESSAGE_SIZE]) {
  nabla_axis_ref axis;
  MlirStringRef text = mlirStringAttrGetValue(name);
  if (!nabla_axis_parse(text.data, text.length, &axis) || axis.size)
    return fail(message,
                "an axis has a name of at most %d letters, digits, '_', '.' "
                "and '-', not '%.*s'",
                NABLA_AXIS_NAME - 1, (int)(text.length < 40 ? text.length : 40),
                text.data);
  if (nabla_mesh_axis(mesh, axis.name) >= 0)
    return fail(message, "has the axis '%s' twice", axis.name);
  *out_size = mlirIntegerAttrGetValueInt(size);
  if (*out_size < 1)
    return fail(message, "axis '%s' has the size %" PRId64 ", at least 1",
                axis.name, *out_size);
  memcpy(out, axis.name, NABLA_AXIS_NAME);
  return true;
}

static bool is_size(MlirAttribute attribute) {
  if (!mlirAttributeIsAInteger(attribute)) return false;
  MlirType type = mlirAttributeGetType(attribute);
  return mlirTypeIsAInteger(type) && mlirIntegerTypeIsSignless(type) &&
         mlirIntegerTypeGetWidth(type) == 64;
}

bool nabla_mesh_read(MlirOperation op, nabla_mesh *out,
                     char message[NABLA_MESSAGE_SIZE]) {
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(op, ref("sym_name")));
  MlirAttribute axes = mlirOperationGetAttributeByName(op, ref("axes"));
  const intptr_t count = mlirArrayAttrGetNumElements(axes) / 2;
  *out = (nabla_mesh){.devices = 1};
  if (!nabla_mesh_name_parse(name.data, name.length, out->name))
    return fail(message,
                "is named '%.*s'; shardings name meshes by at most %d letters, "
                "digits, '_', '.' and '-'",
                (int)(name.length < 40 ? name.length : 40), name.data,
                NABLA_MESH_NAME - 1);
  if (mlirArrayAttrGetNumElements(axes) % 2)
    return fail(message, "has an axis without a size");
  if (count > NABLA_MESH_MAX_AXES)
    return fail(message, "has %td axes, at most %d", count,
                NABLA_MESH_MAX_AXES);
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute text = mlirArrayAttrGetElement(axes, 2 * i);
    MlirAttribute size = mlirArrayAttrGetElement(axes, 2 * i + 1);
    if (!mlirAttributeIsAString(text) || !is_size(size))
      return fail(message, "has axes that are no names with sizes");
    if (!read_axis(out, text, size, out->axes[i], &out->sizes[i], message))
      return false;
    out->count++;
    if (__builtin_mul_overflow(out->devices, out->sizes[i], &out->devices) ||
        out->devices > NABLA_MESH_MAX_DEVICES)
      return fail(message, "has more than %" PRId64 " devices",
                  NABLA_MESH_MAX_DEVICES);
  }
  return true;
}

bool nabla_mesh_find(MlirOperation op, const char *name, nabla_mesh *out) {
  char message[NABLA_MESSAGE_SIZE];
  while (!mlirOperationIsNull(op) &&
         !nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(op)),
                            "builtin.module"))
    op = mlirOperationGetParentOperation(op);
  if (mlirOperationIsNull(op)) return false;
  MlirOperation at = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
  for (; !mlirOperationIsNull(at); at = mlirOperationGetNextInBlock(at))
    if (nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(at)),
                          "nabla.mesh") &&
        nabla_mesh_read(at, out, message) && !strcmp(out->name, name))
      return true;
  return false;
}

int nabla_mesh_axis(const nabla_mesh *mesh, const char *name) {
  for (uint32_t i = 0; i < mesh->count; i++)
    if (!strcmp(mesh->axes[i], name)) return (int)i;
  return -1;
}

int64_t nabla_axes_size(const nabla_mesh *mesh, const nabla_axis_list *axes) {
  int64_t size = 1;
  for (uint32_t i = 0; i < axes->count; i++) {
    const int axis = nabla_mesh_axis(mesh, axes->at[i].name);
    if (axis < 0) continue;
    size *= axes->at[i].size ? axes->at[i].size : mesh->sizes[axis];
  }
  return size;
}

/* ---- checks ---- */

static void list_axes(const nabla_mesh *mesh, char *out, size_t room) {
  size_t used = 0;
  *out = 0;
  for (uint32_t i = 0; i < mesh->count && used < room; i++)
    used += (size_t)snprintf(out + used, room - used, "%s\"%s\"",
                             used ? ", " : "", mesh->axes[i]);
}

/* The bits [first, end) of an axis that has one for each factor of 2 at least:
 * positions are logarithms of the size before, which keep the order. */
static uint64_t bits_of(int64_t before, int64_t size) {
  const int first = 63 - __builtin_clzll((uint64_t)before);
  const int end = 63 - __builtin_clzll((uint64_t)(before * size));
  const uint64_t below_end =
      ((uint64_t)1 << (end > first ? end : first + 1)) - 1;
  return below_end & ~(((uint64_t)1 << first) - 1);
}

static bool check_part(const nabla_mesh *mesh, int axis,
                       const nabla_axis_ref *ref,
                       char message[NABLA_MESSAGE_SIZE]) {
  if (!ref->size) return true;
  const int64_t whole = mesh->sizes[axis];
  if (whole % (ref->before * ref->size))
    return fail(message,
                "sub-axis \"%s\":(%" PRId64 ")%" PRId64
                " does not divide its axis, of size %" PRId64,
                ref->name, ref->before, ref->size, whole);
  if (ref->before == 1 && ref->size == whole)
    return fail(message,
                "sub-axis \"%s\":(1)%" PRId64
                " is the whole axis: write "
                "\"%s\"",
                ref->name, ref->size, ref->name);
  return true;
}

bool nabla_axes_check(const nabla_mesh *mesh, const nabla_axis_list *axes,
                      uint64_t used[NABLA_MESH_MAX_AXES],
                      char message[NABLA_MESSAGE_SIZE]) {
  char names[120];
  for (uint32_t i = 0; i < axes->count; i++) {
    const nabla_axis_ref *at = &axes->at[i], *last = i ? at - 1 : NULL;
    const int axis = nabla_mesh_axis(mesh, at->name);
    if (axis < 0) {
      list_axes(mesh, names, sizeof names);
      return fail(message, "mesh @%.30s has no axis \"%s\": it has %s",
                  mesh->name, at->name, names);
    }
    if (!check_part(mesh, axis, at, message)) return false;
    const uint64_t bits =
        bits_of(at->before, at->size ? at->size : mesh->sizes[axis]);
    if (used[axis] & bits)
      return fail(message, "axis \"%s\" is used twice", at->name);
    used[axis] |= bits;
    if (last && !strcmp(last->name, at->name) &&
        last->before * last->size == at->before)
      return fail(message,
                  "sub-axes \"%s\":(%" PRId64 ")%" PRId64 " and (%" PRId64
                  ")%" PRId64 " are one: write (%" PRId64 ")%" PRId64,
                  at->name, last->before, last->size, at->before, at->size,
                  last->before, last->size * at->size);
  }
  return true;
}

bool nabla_sharding_check(const nabla_mesh *mesh,
                          const nabla_sharding *sharding, int64_t rank,
                          char message[NABLA_MESSAGE_SIZE]) {
  uint64_t used[NABLA_MESH_MAX_AXES] = {0};
  if (sharding->rank != rank)
    return fail(message,
                "the sharding has %u dimensions, the array has %" PRId64,
                sharding->rank, rank);
  for (uint32_t i = 0; i < sharding->rank; i++)
    if (!nabla_axes_check(mesh, &sharding->dims[i].axes, used, message))
      return false;
  return nabla_axes_check(mesh, &sharding->replicated, used, message) &&
         nabla_axes_check(mesh, &sharding->partial, used, message);
}
