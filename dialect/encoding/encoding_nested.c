/* See encoding_nested.h. */
#include "dialect/encoding/encoding_nested.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/verify/checks.h"

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *name,
                     const char *what) {
  snprintf(message, NABLA_MESSAGE_SIZE, "#nabla.%s: %s", name, what);
  return false;
}

/* The encoding inside of another: that of its scales, or its base; null when
 * there is none. */
static MlirAttribute inner_of(MlirAttribute encoding) {
  nabla_encoding_info info = nabla_encoding_read(encoding);
  return info.kind == NABLA_KIND_LORA ? info.base : info.nested;
}

static int nesting(MlirAttribute encoding) {
  int count = 1;
  for (MlirAttribute inner = inner_of(encoding); !mlirAttributeIsNull(inner);
       inner = inner_of(inner))
    count++;
  return count;
}

int nabla_encoding_depth(MlirAttribute encoding) {
  int depth = 0;
  for (MlirAttribute at = encoding; !mlirAttributeIsNull(at); at = inner_of(at))
    depth += nabla_encoding_read(at).kind != NABLA_KIND_LORA;
  return depth;
}

/* `encoding` with another value under `key`, or, for null, without. */
static MlirAttribute with(MlirAttribute encoding, const char *key,
                          MlirAttribute value) {
  MlirAttribute parameters;
  MlirStringRef name = nablaEncodingAttrParts(encoding, &parameters);
  MlirContext context = mlirAttributeGetContext(encoding);
  MlirNamedAttribute kept[8];
  intptr_t count = 0;
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(parameters); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(parameters, i);
    bool same = nabla_text_equals(mlirIdentifierStr(entry.name), key);
    if (same && mlirAttributeIsNull(value)) continue;
    if (same) entry.attribute = value;
    kept[count++] = entry;
  }
  return nablaEncodingAttrGet(context, name,
                              mlirDictionaryAttrGet(context, count, kept));
}

MlirAttribute nabla_encoding_peel(MlirAttribute encoding) {
  nabla_encoding_info info = nabla_encoding_read(encoding);
  MlirAttribute none = {NULL}, inner = inner_of(encoding);
  if (info.kind == NABLA_KIND_LORA)
    return with(encoding, "base", nabla_encoding_peel(inner));
  return with(
      encoding, "scale",
      nabla_encoding_depth(inner) > 1 ? nabla_encoding_peel(inner) : none);
}

MlirAttribute nabla_encoding_of_pieces(MlirAttribute encoding) {
  if (nabla_encoding_read(encoding).kind == NABLA_KIND_PACKED)
    while (nabla_encoding_depth(encoding) > 1)
      encoding = nabla_encoding_peel(encoding);
  return encoding;
}

uint32_t nabla_implicit_leaves(MlirType type, MlirType out[NABLA_MAX_LEAVES]) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts), leaves = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (nablaTypeIsAImplicit(parts[i].type))
      leaves += nabla_implicit_leaves(parts[i].type, out + leaves);
    else
      out[leaves++] = parts[i].type;
  }
  return leaves;
}

static bool check_nesting(const char *name, MlirAttribute inner,
                          char message[NABLA_MESSAGE_SIZE]) {
  char text[96];
  snprintf(text, sizeof text, "at most %d encodings stand in each other",
           NABLA_MAX_NESTING);
  return nesting(inner) < NABLA_MAX_NESTING || complain(message, name, text);
}

bool nabla_scales_check(const char *name, MlirAttribute scale,
                        char message[NABLA_MESSAGE_SIZE]) {
  nabla_encoding_info info = nabla_encoding_read(scale);
  if (info.kind != NABLA_KIND_PACKED && info.kind != NABLA_KIND_DYNAMIC8)
    return complain(message, name,
                    "scales are packed in an encoding that stores them: scale "
                    "= #nabla.dynamic8<block = 256>");
  if (info.granularity == NABLA_PER_ROW)
    return complain(message, name,
                    "scales are a list without rows: leave blocks = leading "
                    "out of their encoding");
  return check_nesting(name, scale, message);
}

/* Only the keys in `legal`, which ends with NULL, are there. */
static bool check_keys(const char *name, MlirAttribute parameters,
                       const char *const *legal, const char *list,
                       char message[NABLA_MESSAGE_SIZE]) {
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(parameters); i++) {
    MlirStringRef key =
        mlirIdentifierStr(mlirDictionaryAttrGetElement(parameters, i).name);
    const char *const *at = legal;
    while (*at && !nabla_text_equals(key, *at)) at++;
    if (*at) continue;
    char text[160];
    snprintf(text, sizeof text, "unknown parameter '%.*s'; legal: %s",
             (int)(key.length < 64 ? key.length : 64), key.data, list);
    return complain(message, name, text);
  }
  return true;
}

static MlirAttribute i64_of(MlirContext context, MlirAttribute number) {
  return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64),
                            mlirIntegerAttrGetValueInt(number));
}

bool nabla_dynamic8_check(MlirContext context, MlirAttribute parameters,
                          MlirAttribute *out,
                          char message[NABLA_MESSAGE_SIZE]) {
  static const char *const legal[] = {"block", "scale", NULL};
  MlirAttribute block = nabla_attribute(parameters, "block");
  MlirAttribute scale = nabla_attribute(parameters, "scale");
  if (!check_keys("dynamic8", parameters, legal, "block, scale", message))
    return false;
  if (!nabla_parameter_is_number(block) ||
      !nabla_parameter_is_block(mlirIntegerAttrGetValueInt(block)))
    return complain(message, "dynamic8",
                    "needs block, a power of two from 16 to 4096: block = 256");
  bool plain = mlirAttributeIsNull(scale) ||
               (mlirAttributeIsAType(scale) &&
                mlirTypeIsAF32(mlirTypeAttrGetValue(scale)));
  if (!plain && !nablaAttributeIsAEncoding(scale))
    return complain(message, "dynamic8", "scale is f32 or an encoding");
  if (!plain && !nabla_scales_check("dynamic8", scale, message)) return false;
  MlirNamedAttribute kept[2] = {
      nabla_parameter(context, "block", i64_of(context, block))};
  if (!plain) kept[1] = nabla_parameter(context, "scale", scale);
  *out = mlirDictionaryAttrGet(context, plain ? 1 : 2, kept);
  return true;
}

bool nabla_lora_check(MlirContext context, MlirAttribute parameters,
                      MlirAttribute *out, char message[NABLA_MESSAGE_SIZE]) {
  static const char *const legal[] = {"base", "rank", NULL};
  MlirAttribute base = nabla_attribute(parameters, "base");
  MlirAttribute rank = nabla_attribute(parameters, "rank");
  if (!check_keys("lora", parameters, legal, "base, rank", message))
    return false;
  if (mlirAttributeIsNull(base) || !nablaAttributeIsAEncoding(base))
    return complain(message, "lora",
                    "needs base, the encoding of the weight that it changes: "
                    "base = #nabla.nf4<block = 64>");
  nabla_encoding_kind kind = nabla_encoding_read(base).kind;
  if (!nabla_encoding_is_stored(kind) || kind == NABLA_KIND_CUSTOM)
    return complain(message, "lora", "base is an encoding that is stored");
  if (!nabla_parameter_is_number(rank) ||
      mlirIntegerAttrGetValueInt(rank) < 1 ||
      mlirIntegerAttrGetValueInt(rank) > NABLA_LORA_RANK_MAX)
    return complain(message, "lora", "needs rank, from 1 to 65536: rank = 8");
  if (!check_nesting("lora", base, message)) return false;
  MlirNamedAttribute kept[] = {
      nabla_parameter(context, "base", base),
      nabla_parameter(context, "rank", i64_of(context, rank))};
  *out = mlirDictionaryAttrGet(context, 2, kept);
  return true;
}
