/* See manifest_components.h. */
#include "transforms/abi/manifest_components.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

bool nabla_manifest_is_dynamic8(const nabla_encoding_info *info) {
  if (mlirAttributeIsNull(info->nested)) return false;
  nabla_encoding_info inner = nabla_encoding_read(info->nested);
  return inner.kind == NABLA_KIND_DYNAMIC8 && mlirAttributeIsNull(inner.nested);
}

bool nabla_manifest_can_bind(MlirType type) {
  nabla_encoding_info info = nabla_implicit_encoding(type);
  return info.kind == NABLA_KIND_SPLAT || info.kind == NABLA_KIND_CUSTOM ||
         info.kind == NABLA_KIND_GGML ||
         (info.kind == NABLA_KIND_PACKED &&
          (mlirAttributeIsNull(info.nested) ||
           nabla_manifest_is_dynamic8(&info)));
}

static void put(nabla_json_out *out, const char *key, const char *value) {
  nabla_json_out_key(out, key);
  nabla_json_out_string(out, value);
}

/* Bytes of one stored element, and its name in files. */
static uint64_t width_of(MlirType element, const char **name) {
  *name = mlirTypeIsAF32(element)    ? "F32"
          : mlirTypeIsAF16(element)  ? "F16"
          : mlirTypeIsABF16(element) ? "BF16"
                                     : "U8";
  if (mlirTypeIsAInteger(element)) return 1;
  return mlirTypeIsAF32(element) ? 4 : 2;
}

void nabla_manifest_components(nabla_json_out *out, MlirType type,
                               const char *prefix) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++) {
    char name[NABLA_MAX_NESTING * 8 + 16];
    const char *dtype;
    (void)snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "",
                   parts[i].name);
    if (nablaTypeIsAImplicit(parts[i].type)) {
      nabla_manifest_components(out, parts[i].type, name);
      continue;
    }
    uint64_t width = width_of(parts[i].element, &dtype);
    nabla_json_out_object(out);
    put(out, "name", name);
    put(out, "dtype", dtype);
    nabla_json_out_key(out, "bytes");
    nabla_json_out_u64(out, (uint64_t)parts[i].count * width);
    nabla_json_out_object_end(out);
  }
}
