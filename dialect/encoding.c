/* Encoding attributes: their parameters checked, filled in and read. */
#include "dialect/encoding.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/checks.h"
#include "dialect/custom_encoding.h"

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *name,
                     const char *what) {
  snprintf(message, NABLA_MESSAGE_SIZE, "#nabla.%s: %s", name, what);
  return false;
}

/* The names of all encodings, for errors. */
static void list_names(char *out, size_t size) {
  size_t count, at = 0;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count && at < size; i++)
    at += (size_t)snprintf(out + at, size - at, "%s, ", rows[i].name);
  if (at < size) snprintf(out + at, size - at, "custom, splat");
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

/* What shares a scale, as `blocks` says; false when it says something else. */
static bool granularity_of(MlirAttribute parameters, nabla_granularity *out) {
  static const struct {
    const char *name;
    nabla_granularity granularity;
  } words[] = {{"flat", NABLA_PER_BLOCK},
               {"leading", NABLA_PER_ROW},
               {"tensor", NABLA_PER_TENSOR}};
  MlirAttribute blocks = nabla_attribute(parameters, "blocks");
  *out = NABLA_PER_BLOCK;
  if (mlirAttributeIsNull(blocks)) return true;
  if (!mlirAttributeIsAString(blocks)) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!nabla_text_equals(mlirStringAttrGetValue(blocks), words[i].name))
      continue;
    *out = words[i].granularity;
    return true;
  }
  return false;
}

/* A whole row or all of the storage has one scale: block = 0. */
static bool check_whole(const nabla_encoding *row, nabla_granularity whole,
                        int64_t block, char message[NABLA_MESSAGE_SIZE]) {
  bool rows = whole == NABLA_PER_ROW;
  if (!(rows ? row->has_rows : row->has_tensor))
    return complain(message, row->name,
                    rows ? "has no scales per row: leave blocks = leading out"
                         : "has no form with one scale: leave blocks = tensor "
                           "out");
  if (block != 0)
    return complain(message, row->name,
                    rows ? "blocks = leading has one scale for each index of "
                           "the first dimension: block = 0"
                         : "blocks = tensor has one scale: block = 0");
  return true;
}

/* `blocks` and `block` fit each other and the encoding. */
static bool check_block(const nabla_encoding *row, MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute block = nabla_attribute(parameters, "block");
  nabla_granularity granularity;
  if (!granularity_of(parameters, &granularity))
    return complain(message, row->name,
                    "blocks is one of flat, leading, tensor");
  if (row->is_mx && mlirAttributeIsNull(block) &&
      granularity == NABLA_PER_BLOCK)
    return true;
  if (!is_number(block))
    return complain(
        message, row->name,
        "needs block, the number of elements per scale: block = 64");
  int64_t size = mlirIntegerAttrGetValueInt(block);
  if (granularity != NABLA_PER_BLOCK)
    return check_whole(row, granularity, size, message);
  if (row->is_mx && size != NABLA_BLOCK_MX)
    return complain(message, row->name, "has blocks of 32: leave block out");
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

/* The scale type that `parameters` ask for; false when they ask for another
 * than is compiled. */
static bool scale_of(MlirAttribute parameters, nabla_scale_type *out) {
  MlirAttribute scale = nabla_attribute(parameters, "scale");
  *out = NABLA_SCALE_F32;
  if (mlirAttributeIsNull(scale)) return true;
  if (!mlirAttributeIsAType(scale)) return false;
  MlirType type = mlirTypeAttrGetValue(scale);
  if (mlirTypeIsAF16(type)) *out = NABLA_SCALE_F16;
  if (mlirTypeIsABF16(type)) *out = NABLA_SCALE_BF16;
  return *out != NABLA_SCALE_F32 || mlirTypeIsAF32(type);
}

static bool check_scale(const nabla_encoding *row, MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  nabla_scale_type ignored;
  if (row->is_mx)
    return mlirAttributeIsNull(nabla_attribute(parameters, "scale")) ||
           complain(message, row->name,
                    "has powers of two as scales: leave scale out");
  return scale_of(parameters, &ignored) ||
         complain(message, row->name, "scale is f32, f16 or bf16");
}

static MlirNamedAttribute keep(MlirContext context, const char *key,
                               MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(context, ref(key)), value);
}

/* Keeps what is not a default, with `block` as an i64. */
static MlirAttribute canonical(MlirContext context, const nabla_encoding *row,
                               MlirAttribute parameters) {
  MlirNamedAttribute kept[3];
  nabla_scale_type scale;
  nabla_granularity granularity;
  intptr_t count = 0;
  MlirAttribute block = nabla_attribute(parameters, "block");
  if (!row->is_mx)
    kept[count++] = keep(context, "block",
                         mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64),
                                            mlirIntegerAttrGetValueInt(block)));
  if (granularity_of(parameters, &granularity) &&
      granularity != NABLA_PER_BLOCK)
    kept[count++] =
        keep(context, "blocks", nabla_attribute(parameters, "blocks"));
  if (scale_of(parameters, &scale) && scale != NABLA_SCALE_F32)
    kept[count++] =
        keep(context, "scale", nabla_attribute(parameters, "scale"));
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
  if (nabla_text_equals(name, "custom"))
    return nabla_custom_check(parameters, message);
  const nabla_encoding *row = nabla_encoding_find(text);
  if (!row) {
    list_names(names, sizeof names);
    snprintf(message, NABLA_MESSAGE_SIZE,
             "unknown encoding '%s'; this version has %s", text, names);
    return false;
  }
  if (!check_keys(text, parameters, message) ||
      !check_block(row, parameters, message) ||
      !check_scale(row, parameters, message))
    return false;
  *outParameters = canonical(context, row, parameters);
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
  MlirStringRef name = nablaEncodingAttrParts(attribute, &parameters);
  print(name, self);
  intptr_t count = mlirDictionaryAttrGetNumElements(parameters);
  for (intptr_t i = 0; i < count; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(parameters, i);
    MlirStringRef key = mlirIdentifierStr(entry.name);
    print(ref(i ? ", " : "<"), self);
    bool plain = nabla_text_equals(name, "custom");
    if (!plain && !nabla_text_equals(key, "value")) {
      print(key, self);
      print(ref(" = "), self);
    }
    if (plain)
      mlirAttributePrint(entry.attribute, print, self);
    else
      print_value(entry.attribute, print, self);
  }
  if (count) print(ref(">"), self);
}

nabla_encoding_info nabla_encoding_read(MlirAttribute attribute) {
  nabla_encoding_info info = {.kind = NABLA_KIND_SPLAT};
  MlirAttribute parameters;
  MlirStringRef name = nablaEncodingAttrParts(attribute, &parameters);
  if (nabla_text_equals(name, "splat")) {
    info.value =
        mlirFloatAttrGetValueDouble(nabla_attribute(parameters, "value"));
    return info;
  }
  if (nabla_text_equals(name, "custom")) {
    info.kind = NABLA_KIND_CUSTOM;
    info.block = nabla_custom_cut(attribute);
    return info;
  }
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)name.length, name.data);
  info.kind = NABLA_KIND_PACKED;
  info.row = nabla_encoding_find(text);
  if (info.row->is_mx) {
    info.block = NABLA_BLOCK_MX;
    info.scale = NABLA_SCALE_E8M0;
    return info;
  }
  info.block = (uint64_t)mlirIntegerAttrGetValueInt(
      nabla_attribute(parameters, "block"));
  (void)granularity_of(parameters, &info.granularity);
  (void)scale_of(parameters, &info.scale);
  return info;
}

nabla_encoding_info nabla_implicit_encoding(MlirType type) {
  return nabla_encoding_read(nablaImplicitTypeParts(type).encoding);
}

bool nabla_encoding_is_named(MlirAttribute attribute, const char *name) {
  MlirAttribute parameters;
  MlirStringRef own = nablaEncodingAttrParts(attribute, &parameters);
  if (!nabla_text_equals(own, "custom")) return nabla_text_equals(own, name);
  return nabla_text_equals(
      mlirStringAttrGetValue(nabla_attribute(parameters, "value")), name);
}
