/* Encoding attributes: their parameters checked, filled in and read. */
#include "dialect/encoding.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/checks.h"

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *name,
                     const char *what) {
  snprintf(message, NABLA_MESSAGE_SIZE, "#nabla.%s: %s", name, what);
  return false;
}

/* What the lowerings can decode: tables of 16 values with the first code in the
 * high half of its byte, and int8. */
static bool compiles(const nabla_encoding *row) {
  return row->bits == 4 ? row->high_first : !strcmp(row->name, "int8");
}

/* The names of all encodings, for errors. */
static void list_names(char *out, size_t size) {
  size_t count, at = 0;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count && at < size; i++)
    if (compiles(&rows[i]))
      at += (size_t)snprintf(out + at, size - at, "%s, ", rows[i].name);
  if (at < size) snprintf(out + at, size - at, "splat");
}

static bool check_splat(MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute value = nabla_attribute(parameters, "value");
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAFloat(value) ||
      mlirDictionaryAttrGetNumElements(parameters) != 1)
    return complain(message, "splat",
                    "takes one float: #nabla.splat<0.5 : f32>");
  return true;
}

/* Every key is known; `block` says so itself. */
static bool check_keys(const char *name, MlirAttribute parameters,
                       char message[NABLA_MESSAGE_SIZE]) {
  intptr_t count = mlirDictionaryAttrGetNumElements(parameters);
  for (intptr_t i = 0; i < count; i++) {
    MlirStringRef key =
        mlirIdentifierStr(mlirDictionaryAttrGetElement(parameters, i).name);
    if (nabla_text_equals(key, "block") || nabla_text_equals(key, "blocks") ||
        nabla_text_equals(key, "scale"))
      continue;
    char text[160];
    snprintf(text, sizeof text,
             "unknown parameter '%.*s'; legal: block, blocks, scale",
             (int)(key.length < 64 ? key.length : 64), key.data);
    return complain(message, name, text);
  }
  return true;
}

/* An integer that fits in an int64_t. */
static bool is_number(MlirAttribute value) {
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAInteger(value))
    return false;
  MlirType type = mlirAttributeGetType(value);
  return mlirTypeIsAIndex(type) || (mlirIntegerTypeIsSignless(type) &&
                                    mlirIntegerTypeGetWidth(type) <= 64);
}

/* `blocks` (flat or leading) and `block` fit each other and the encoding. */
static bool check_block(const nabla_encoding *row, MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute blocks = nabla_attribute(parameters, "blocks");
  MlirAttribute block = nabla_attribute(parameters, "block");
  bool leading = false;
  if (!mlirAttributeIsNull(blocks)) {
    if (!mlirAttributeIsAString(blocks) ||
        (!nabla_text_equals(mlirStringAttrGetValue(blocks), "flat") &&
         !nabla_text_equals(mlirStringAttrGetValue(blocks), "leading")))
      return complain(message, row->name, "blocks is one of flat, leading");
    leading = nabla_text_equals(mlirStringAttrGetValue(blocks), "leading");
  }
  if (!is_number(block))
    return complain(
        message, row->name,
        "needs block, the number of elements per scale: block = 64");
  int64_t size = mlirIntegerAttrGetValueInt(block);
  if (leading) {
    if (!row->has_rows)
      return complain(message, row->name,
                      "has no scales per row: leave blocks = leading out");
    if (size != 0)
      return complain(message, row->name,
                      "blocks = leading has one scale for each index of the "
                      "first dimension: block = 0");
    return true;
  }
  if (size < NABLA_BLOCK_MIN || size > NABLA_BLOCK_MAX || (size & (size - 1))) {
    char text[160];
    snprintf(text, sizeof text,
             "block = %lld is not legal: a power of two from %d to %d%s",
             (long long)size, NABLA_BLOCK_MIN, NABLA_BLOCK_MAX,
             row->has_rows ? ", or block = 0 with blocks = leading" : "");
    return complain(message, row->name, text);
  }
  return true;
}

static bool check_scale(const nabla_encoding *row, MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute scale = nabla_attribute(parameters, "scale");
  if (mlirAttributeIsNull(scale)) return true;
  if (mlirAttributeIsAType(scale) &&
      mlirTypeIsAF32(mlirTypeAttrGetValue(scale)))
    return true;
  return complain(message, row->name, "scale is f32 in this version");
}

/* Keeps what is not a default, with `block` as an i64. */
static MlirAttribute canonical(MlirContext context, MlirAttribute parameters) {
  MlirNamedAttribute kept[2];
  intptr_t count = 0;
  MlirAttribute block = nabla_attribute(parameters, "block");
  MlirType i64 = mlirIntegerTypeGet(context, 64);
  kept[count++] = mlirNamedAttributeGet(
      mlirIdentifierGet(context, ref("block")),
      mlirIntegerAttrGet(i64, mlirIntegerAttrGetValueInt(block)));
  MlirAttribute blocks = nabla_attribute(parameters, "blocks");
  if (!mlirAttributeIsNull(blocks) &&
      nabla_text_equals(mlirStringAttrGetValue(blocks), "leading"))
    kept[count++] = mlirNamedAttributeGet(
        mlirIdentifierGet(context, ref("blocks")), blocks);
  return mlirDictionaryAttrGet(context, count, kept);
}

bool nablaHookEncoding(MlirContext context, MlirStringRef name,
                       MlirAttribute parameters, MlirAttribute *outParameters,
                       char message[NABLA_MESSAGE_SIZE]) {
  char text[64], names[128];
  snprintf(text, sizeof text, "%.*s",
           (int)(name.length < 60 ? name.length : 60), name.data);
  *outParameters = parameters;
  if (nabla_text_equals(name, "splat")) return check_splat(parameters, message);
  const nabla_encoding *row = nabla_encoding_find(text);
  if (!row || !compiles(row)) {
    list_names(names, sizeof names);
    snprintf(message, NABLA_MESSAGE_SIZE,
             row ? "'%s' is not compiled yet, only %s: decode its weights first"
                 : "unknown encoding '%s'; this version has %s",
             text, names);
    return false;
  }
  if (!check_keys(text, parameters, message) ||
      !check_block(row, parameters, message) ||
      !check_scale(row, parameters, message))
    return false;
  *outParameters = canonical(context, parameters);
  return true;
}

/* A parameter as it is written: numbers without a type, keywords bare. */
static void print_value(MlirAttribute value, MlirStringCallback print,
                        void *self) {
  if (mlirAttributeIsAString(value)) {
    print(mlirStringAttrGetValue(value), self);
  } else if (mlirAttributeIsAInteger(value)) {
    char text[32];
    snprintf(text, sizeof text, "%lld",
             (long long)mlirIntegerAttrGetValueInt(value));
    print(ref(text), self);
  } else {
    mlirAttributePrint(value, print, self);
  }
}

void nablaHookEncodingPrint(MlirAttribute attribute, MlirStringCallback print,
                            void *self) {
  MlirAttribute parameters;
  print(nablaEncodingAttrParts(attribute, &parameters), self);
  intptr_t count = mlirDictionaryAttrGetNumElements(parameters);
  for (intptr_t i = 0; i < count; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(parameters, i);
    MlirStringRef key = mlirIdentifierStr(entry.name);
    print(ref(i ? ", " : "<"), self);
    if (!nabla_text_equals(key, "value")) {
      print(key, self);
      print(ref(" = "), self);
    }
    print_value(entry.attribute, print, self);
  }
  if (count) print(ref(">"), self);
}

nabla_encoding_info nabla_encoding_read(MlirAttribute attribute) {
  nabla_encoding_info info = {NABLA_KIND_SPLAT, NULL, NABLA_PER_BLOCK, 0, 0.0};
  MlirAttribute parameters;
  MlirStringRef name = nablaEncodingAttrParts(attribute, &parameters);
  if (nabla_text_equals(name, "splat")) {
    info.value =
        mlirFloatAttrGetValueDouble(nabla_attribute(parameters, "value"));
    return info;
  }
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)name.length, name.data);
  info.kind = NABLA_KIND_PACKED;
  info.row = nabla_encoding_find(text);
  info.block = (uint64_t)mlirIntegerAttrGetValueInt(
      nabla_attribute(parameters, "block"));
  if (info.block == 0) info.granularity = NABLA_PER_ROW;
  return info;
}

nabla_encoding_info nabla_implicit_encoding(MlirType type) {
  return nabla_encoding_read(nablaImplicitTypeParts(type).encoding);
}
