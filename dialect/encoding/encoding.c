/* Encoding attributes: checks and reads their parameters, and fills in
 * defaults. */
#include "dialect/encoding/encoding.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "dialect/encoding/encoding_nested.h"
#include "dialect/shard/sharding.h"
#include "dialect/verify/checks.h"
#include "quant/codec/codec.h"

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *name,
                     const char *what) {
  snprintf(message, NABLA_MESSAGE_SIZE, "#nabla.%s: %s", name, what);
  return false;
}

/* Lists the names of all encodings, for errors. */
static void list_names(char *out, size_t size) {
  size_t count, at = 0;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count && at < size; i++)
    at += (size_t)snprintf(out + at, size - at, "%s, ", rows[i].name);
  if (at < size)
    snprintf(out + at, size - at,
             "ggml, dynamic8, lora, splat, identity, custom");
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

static bool check_identity(MlirAttribute parameters,
                           char message[NABLA_MESSAGE_SIZE]) {
  return mlirDictionaryAttrGetNumElements(parameters) == 0 ||
         complain(message, "identity", "has no parameters: #nabla.identity");
}

/* Returns the row that a ggml attribute names, NULL if there is none. */
static const nabla_ggml *ggml_of(MlirAttribute parameters) {
  char name[16];
  MlirAttribute value = nabla_attribute(parameters, "value");
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAString(value) ||
      mlirDictionaryAttrGetNumElements(parameters) != 1)
    return NULL;
  MlirStringRef text = mlirStringAttrGetValue(value);
  if (text.length >= sizeof name) return NULL;
  snprintf(name, sizeof name, "%.*s", (int)text.length, text.data);
  return nabla_ggml_find(name);
}

static bool check_ggml(MlirAttribute parameters,
                       char message[NABLA_MESSAGE_SIZE]) {
  char text[160] = "takes the name of a format: ";
  size_t count, at = strlen(text);
  const nabla_ggml *rows = nabla_ggml_formats(&count);
  if (ggml_of(parameters)) return true;
  for (size_t i = 0; i < count && at < sizeof text; i++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? ", " : "",
                           rows[i].name);
  return complain(message, "ggml", text);
}

/* Checks that every key is known; does not check the values. */
static bool check_keys(const char *name, MlirAttribute parameters,
                       char message[NABLA_MESSAGE_SIZE]) {
  intptr_t count = mlirDictionaryAttrGetNumElements(parameters);
  for (intptr_t i = 0; i < count; i++) {
    MlirStringRef key =
        mlirIdentifierStr(mlirDictionaryAttrGetElement(parameters, i).name);
    if (nabla_text_equals(key, "block") || nabla_text_equals(key, "blocks") ||
        nabla_text_equals(key, "scale") || nabla_text_equals(key, "zero_point"))
      continue;
    char text[160];
    snprintf(text, sizeof text,
             "unknown parameter '%.*s'; legal: block, blocks, scale, "
             "zero_point",
             (int)(key.length < 64 ? key.length : 64), key.data);
    return complain(message, name, text);
  }
  return true;
}

/* Returns whether `value` is an integer that fits in an int64_t. */
bool nabla_parameter_is_number(MlirAttribute value) {
  if (mlirAttributeIsNull(value) || !mlirAttributeIsAInteger(value))
    return false;
  MlirType type = mlirAttributeGetType(value);
  return mlirTypeIsAIndex(type) || (mlirIntegerTypeIsSignless(type) &&
                                    mlirIntegerTypeGetWidth(type) <= 64);
}

bool nabla_parameter_is_block(int64_t block) {
  return block >= NABLA_BLOCK_MIN && block <= NABLA_BLOCK_MAX &&
         (block & (block - 1)) == 0;
}

/* Reads `blocks`, the granularity of the scales; false for an unknown value. */
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

/* Checks the granularity of one scale per row, or for the whole storage, for
 * which block must be 0. */
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

/* Checks that `blocks` and `block` fit each other and the encoding. */
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
  if (!nabla_parameter_is_number(block))
    return complain(
        message, row->name,
        "needs block, the number of elements per scale: block = 64");
  int64_t size = mlirIntegerAttrGetValueInt(block);
  if (granularity != NABLA_PER_BLOCK)
    return check_whole(row, granularity, size, message);
  if (row->is_mx && size != NABLA_BLOCK_MX)
    return complain(message, row->name, "has blocks of 32: leave block out");
  if (!nabla_parameter_is_block(size)) {
    char text[160];
    snprintf(text, sizeof text,
             "block = %lld is not legal: a power of two from %d to %d%s",
             (long long)size, NABLA_BLOCK_MIN, NABLA_BLOCK_MAX,
             row->has_rows ? ", or block = 0 with blocks = leading" : "");
    return complain(message, row->name, text);
  }
  return true;
}

/* Reads the scale type from `parameters`, F32 for packed scales; false if the
 * name is unknown. */
static bool scale_of(MlirAttribute parameters, nabla_scale_type *out) {
  MlirAttribute scale = nabla_attribute(parameters, "scale");
  *out = NABLA_SCALE_F32;
  if (mlirAttributeIsNull(scale) || nablaAttributeIsAEncoding(scale))
    return true;
  if (!mlirAttributeIsAType(scale)) return false;
  MlirType type = mlirTypeAttrGetValue(scale);
  if (mlirTypeIsAF16(type)) *out = NABLA_SCALE_F16;
  if (mlirTypeIsABF16(type)) *out = NABLA_SCALE_BF16;
  return *out != NABLA_SCALE_F32 || mlirTypeIsAF32(type);
}

static bool check_scale(const nabla_encoding *row, MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  nabla_scale_type ignored;
  MlirAttribute scale = nabla_attribute(parameters, "scale");
  if (row->is_mx)
    return mlirAttributeIsNull(scale) ||
           complain(message, row->name,
                    "has powers of two as scales: leave scale out");
  if (!scale_of(parameters, &ignored))
    return complain(message, row->name,
                    "scale is f32, f16, bf16 or an encoding, as "
                    "#nabla.dynamic8<block = 256>");
  if (mlirAttributeIsNull(scale) || !nablaAttributeIsAEncoding(scale))
    return true;
  nabla_granularity granularity = NABLA_PER_BLOCK;
  (void)granularity_of(parameters, &granularity);
  if (nabla_encoding_is_int8(row) && granularity == NABLA_PER_ROW)
    return complain(message, row->name, /* F32 would mean LLM.int8 */
                    "rows have scales of f32, f16 or bf16; blocks have packed "
                    "ones: block = 64, without blocks = leading");
  return nabla_scales_check(row->name, scale, message);
}

static bool has_zero_point(MlirAttribute parameters) {
  MlirAttribute zero = nabla_attribute(parameters, "zero_point");
  return !mlirAttributeIsNull(zero) && mlirBoolAttrGetValue(zero);
}

static bool check_zero_point(const nabla_encoding *row,
                             MlirAttribute parameters,
                             char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute zero = nabla_attribute(parameters, "zero_point");
  nabla_granularity granularity = NABLA_PER_BLOCK;
  if (mlirAttributeIsNull(zero)) return true;
  if (!mlirAttributeIsABool(zero))
    return complain(message, row->name, "zero_point is true or false");
  if (!mlirBoolAttrGetValue(zero)) return true;
  if (!row->has_zero_point)
    return complain(message, row->name,
                    "has no zero points: int4 and int8 have them");
  (void)granularity_of(parameters, &granularity);
  return granularity == NABLA_PER_BLOCK ||
         complain(message, row->name,
                  "has zero points with blocks only: block = 64, without "
                  "blocks = leading");
}

MlirNamedAttribute nabla_parameter(MlirContext context, const char *key,
                                   MlirAttribute value) {
  return mlirNamedAttributeGet(mlirIdentifierGet(context, ref(key)), value);
}

/* Removes parameters with default values, and makes `block` an i64. */
static MlirAttribute canonical(MlirContext context, const nabla_encoding *row,
                               MlirAttribute parameters) {
  MlirNamedAttribute kept[4];
  nabla_scale_type scale;
  nabla_granularity granularity;
  intptr_t count = 0;
  MlirAttribute block = nabla_attribute(parameters, "block");
  if (!row->is_mx)
    kept[count++] =
        nabla_parameter(context, "block",
                        mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64),
                                           mlirIntegerAttrGetValueInt(block)));
  if (granularity_of(parameters, &granularity) &&
      granularity != NABLA_PER_BLOCK)
    kept[count++] = nabla_parameter(context, "blocks",
                                    nabla_attribute(parameters, "blocks"));
  MlirAttribute given = nabla_attribute(parameters, "scale");
  if (scale_of(parameters, &scale) &&
      (scale != NABLA_SCALE_F32 ||
       (!mlirAttributeIsNull(given) && nablaAttributeIsAEncoding(given))))
    kept[count++] = nabla_parameter(context, "scale", given);
  if (has_zero_point(parameters))
    kept[count++] =
        nabla_parameter(context, "zero_point", mlirBoolAttrGet(context, 1));
  return mlirDictionaryAttrGet(context, count, kept);
}

bool nablaHookEncoding(MlirContext context, MlirStringRef name,
                       MlirAttribute parameters, MlirAttribute *outParameters,
                       char message[NABLA_MESSAGE_SIZE]) {
  char text[64], names[150];
  snprintf(text, sizeof text, "%.*s",
           (int)(name.length < 60 ? name.length : 60), name.data);
  *outParameters = parameters;
  if (nabla_text_equals(name, "sharding"))
    return nabla_sharding_hook(context, parameters, outParameters, message);
  if (nabla_text_equals(name, "splat")) return check_splat(parameters, message);
  if (nabla_text_equals(name, "identity"))
    return check_identity(parameters, message);
  if (nabla_text_equals(name, "dynamic8"))
    return nabla_dynamic8_check(context, parameters, outParameters, message);
  if (nabla_text_equals(name, "lora"))
    return nabla_lora_check(context, parameters, outParameters, message);
  if (nabla_text_equals(name, "custom"))
    return nabla_custom_check(parameters, message);
  if (nabla_text_equals(name, "ggml")) return check_ggml(parameters, message);
  const nabla_encoding *row = nabla_encoding_find(text);
  if (!row) {
    list_names(names, sizeof names);
    snprintf(message, NABLA_MESSAGE_SIZE,
             "unknown encoding '%s'; this version has %s", text, names);
    return false;
  }
  if (!check_keys(text, parameters, message) ||
      !check_block(row, parameters, message) ||
      !check_scale(row, parameters, message) ||
      !check_zero_point(row, parameters, message))
    return false;
  *outParameters = canonical(context, row, parameters);
  return true;
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
  if (nabla_text_equals(name, "identity")) {
    info.kind = NABLA_KIND_IDENTITY;
    return info;
  }
  if (nabla_text_equals(name, "custom")) {
    info.kind = NABLA_KIND_CUSTOM;
    info.block = nabla_custom_cut(attribute);
    return info;
  }
  if (nabla_text_equals(name, "ggml")) {
    info.kind = NABLA_KIND_GGML;
    info.ggml = ggml_of(parameters);
    info.block = info.ggml->elements;
    return info;
  }
  info.nested = nabla_attribute(parameters, "scale");
  if (!mlirAttributeIsNull(info.nested) &&
      !nablaAttributeIsAEncoding(info.nested))
    info.nested = (MlirAttribute){NULL};
  if (nabla_text_equals(name, "lora")) {
    info.kind = NABLA_KIND_LORA;
    info.base = nabla_attribute(parameters, "base");
    info.rank = mlirIntegerAttrGetValueInt(nabla_attribute(parameters, "rank"));
    return info;
  }
  if (nabla_text_equals(name, "dynamic8")) {
    info.kind = NABLA_KIND_DYNAMIC8;
    info.block = (uint64_t)mlirIntegerAttrGetValueInt(
        nabla_attribute(parameters, "block"));
    return info;
  }
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)name.length, name.data);
  info.kind = NABLA_KIND_PACKED;
  info.zero_point = has_zero_point(parameters);
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

bool nabla_encoding_is_stored(nabla_encoding_kind kind) {
  return kind != NABLA_KIND_SPLAT && kind != NABLA_KIND_IDENTITY;
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
