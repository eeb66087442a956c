/* The assembly of encodings, of implicit types and of keys of operations. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>

#include "dialect/verify/checks.h"

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

/* A parameter as it is written: numbers without a type, keywords bare. */
static void print_value(MlirAttribute value, MlirStringCallback print,
                        void *self) {
  if (mlirAttributeIsAString(value)) {
    print(mlirStringAttrGetValue(value), self);
  } else if (mlirAttributeIsABool(value)) {
    print(ref(mlirBoolAttrGetValue(value) ? "true" : "false"), self);
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
  bool plain = nabla_text_equals(name, "custom");
  print(name, self);
  if (nabla_text_equals(name, "sharding")) {
    print(ref("<"), self);
    print(mlirStringAttrGetValue(nabla_attribute(parameters, "text")), self);
    print(ref(">"), self);
    return;
  }
  intptr_t count = mlirDictionaryAttrGetNumElements(parameters);
  for (intptr_t i = 0; i < count; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(parameters, i);
    MlirStringRef key = mlirIdentifierStr(entry.name);
    print(ref(i ? ", " : "<"), self);
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

static void print_list(intptr_t count, const int64_t *list, const char *between,
                       MlirStringCallback print, void *self) {
  for (intptr_t i = 0; i < count; i++) {
    char text[40];
    int length = snprintf(text, sizeof text, "%s%lld", i ? between : "",
                          (long long)list[i]);
    print(mlirStringRefCreate(text, (size_t)length), self);
  }
}

void nablaHookKeyPrint(const nablaKey *key, MlirAttribute value,
                       MlirStringCallback print, void *self) {
  if (mlirAttributeIsNull(value)) return;
  const bool is_list = mlirAttributeIsADenseI64Array(value);
  const intptr_t count = is_list ? mlirDenseArrayGetNumElements(value) : 1;
  if (key->isOptional && !count) return;
  print(ref(" "), self);
  print(ref(key->name), self);
  print(ref(is_list ? " = [" : " = "), self);
  for (intptr_t i = 0; i < count; i++) {
    const int64_t number = is_list ? mlirDenseI64ArrayGetElement(value, i)
                                   : mlirIntegerAttrGetValueInt(value);
    print_list(1, &number, "", print, self);
    if (i + 1 < count) print(ref(", "), self);
  }
  if (is_list) print(ref("]"), self);
}

void nablaHookImplicitPrint(MlirType type, MlirStringCallback print,
                            void *self) {
#define PRINT(text) print(mlirStringRefCreateFromCString(text), self)
  nablaImplicit p = nablaImplicitTypeParts(type);
  PRINT("<");
  print_list(p.rank, p.shape, "x", print, self);
  if (p.rank) PRINT("x");
  mlirTypePrint(p.elementType, print, self);
  PRINT(", ");
  mlirAttributePrint(p.encoding, print, self);
  if (p.storageRank >= 0) {
    PRINT(", view<");
    print_list(p.storageRank, p.storage, "x", print, self);
    PRINT(", strides = [");
    print_list(p.rank, p.strides, ", ", print, self);
    PRINT("], offset = ");
    print_list(1, &p.offset, "", print, self);
    PRINT(">");
  }
  PRINT(">");
#undef PRINT
}
