/* See attribute_to_tree.h. */
#include "dialect/attribute_to_tree.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

typedef struct maker {
  nabla_arena *arena;
  size_t values;
} maker;

static const char no_memory[] = "takes more memory than there is";

static const char *of(maker *m, MlirAttribute from, int depth,
                      nabla_attribute_tree *out);

static const char *of_integer(MlirAttribute from, nabla_attribute_tree *out) {
  MlirType type = mlirAttributeGetType(from);
  if (!mlirTypeIsAIndex(type) &&
      (!mlirTypeIsAInteger(type) || mlirIntegerTypeGetWidth(type) > 64))
    return "has an integer of more than 64 bits";
  out->kind = NABLA_ATTRIBUTE_INTEGER;
  if (mlirTypeIsAInteger(type) && mlirIntegerTypeIsSigned(type)) {
    out->integer = mlirIntegerAttrGetValueSInt(from);
  } else if (mlirTypeIsAInteger(type) && mlirIntegerTypeIsUnsigned(type)) {
    uint64_t value = mlirIntegerAttrGetValueUInt(from);
    if (value > INT64_MAX) return "has an integer of more than 63 bits";
    out->integer = (int64_t)value;
  } else {
    out->integer = mlirIntegerAttrGetValueInt(from);
  }
  return NULL;
}

static nabla_attribute_tree *elements(maker *m, size_t count,
                                      nabla_attribute_tree *out) {
  nabla_attribute_tree *all = nabla_arena_take(m->arena, count, sizeof *all);
  out->count = count;
  out->elements = all;
  return all;
}

static const char *of_array(maker *m, MlirAttribute from, int depth,
                            nabla_attribute_tree *out) {
  intptr_t count = mlirArrayAttrGetNumElements(from);
  nabla_attribute_tree *all = elements(m, (size_t)count, out);
  if (!all) return no_memory;
  out->kind = NABLA_ATTRIBUTE_ARRAY;
  for (intptr_t i = 0; i < count; i++) {
    const char *why =
        of(m, mlirArrayAttrGetElement(from, i), depth + 1, &all[i]);
    if (why) return why;
  }
  return NULL;
}

static const char *of_dictionary(maker *m, MlirAttribute from, int depth,
                                 nabla_attribute_tree *out) {
  intptr_t count = mlirDictionaryAttrGetNumElements(from);
  nabla_attribute_tree *all = elements(m, (size_t)count, out);
  if (!all) return no_memory;
  out->kind = NABLA_ATTRIBUTE_DICTIONARY;
  for (intptr_t i = 0; i < count; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(from, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    const char *why = of(m, entry.attribute, depth + 1, &all[i]);
    if (why) return why;
    all[i].name = nabla_arena_copy(m->arena, name.data, name.length);
    if (!all[i].name) return no_memory;
  }
  return NULL;
}

static bool is_dense(MlirAttribute from) {
  return mlirAttributeIsADenseI64Array(from) ||
         mlirAttributeIsADenseI32Array(from) ||
         mlirAttributeIsADenseF64Array(from) ||
         mlirAttributeIsADenseF32Array(from) ||
         mlirAttributeIsADenseBoolArray(from);
}

static const char *of_dense(maker *m, MlirAttribute from,
                            nabla_attribute_tree *out) {
  intptr_t count = mlirDenseArrayGetNumElements(from);
  m->values += (size_t)count;
  nabla_attribute_tree *all = elements(m, (size_t)count, out);
  if (!all) return no_memory;
  out->kind = NABLA_ATTRIBUTE_ARRAY;
  for (intptr_t i = 0; i < count; i++) {
    all[i] =
        (nabla_attribute_tree){.name = "", .kind = NABLA_ATTRIBUTE_INTEGER};
    if (mlirAttributeIsADenseI64Array(from))
      all[i].integer = mlirDenseI64ArrayGetElement(from, i);
    else if (mlirAttributeIsADenseI32Array(from))
      all[i].integer = mlirDenseI32ArrayGetElement(from, i);
    else if (mlirAttributeIsADenseBoolArray(from))
      all[i].kind = NABLA_ATTRIBUTE_BOOL,
      all[i].integer = mlirDenseBoolArrayGetElement(from, i);
    else
      all[i].kind = NABLA_ATTRIBUTE_FLOAT,
      all[i].number = mlirAttributeIsADenseF64Array(from)
                          ? mlirDenseF64ArrayGetElement(from, i)
                          : (double)mlirDenseF32ArrayGetElement(from, i);
  }
  return NULL;
}

static const char *of(maker *m, MlirAttribute from, int depth,
                      nabla_attribute_tree *out) {
  *out = (nabla_attribute_tree){.name = ""};
  if (depth > NABLA_ATTRIBUTE_TREE_MAX_DEPTH) return "is nested too deep";
  if (++m->values > NABLA_ATTRIBUTE_TREE_MAX_COUNT)
    return "has too many values";
  if (mlirAttributeIsABool(from) || mlirAttributeIsAUnit(from)) {
    out->kind = NABLA_ATTRIBUTE_BOOL;
    out->integer = mlirAttributeIsAUnit(from) || mlirBoolAttrGetValue(from);
    return NULL;
  }
  if (mlirAttributeIsAInteger(from)) return of_integer(from, out);
  if (mlirAttributeIsAFloat(from)) {
    out->kind = NABLA_ATTRIBUTE_FLOAT;
    out->number = mlirFloatAttrGetValueDouble(from);
    return NULL;
  }
  if (mlirAttributeIsAString(from)) {
    MlirStringRef text = mlirStringAttrGetValue(from);
    if (text.length > NABLA_ATTRIBUTE_TREE_MAX_COUNT)
      return "has too long a string";
    out->kind = NABLA_ATTRIBUTE_STRING;
    out->count = text.length;
    out->text = nabla_arena_copy(m->arena, text.data, text.length);
    return out->text ? NULL : no_memory;
  }
  if (mlirAttributeIsAArray(from)) return of_array(m, from, depth, out);
  if (mlirAttributeIsADictionary(from))
    return of_dictionary(m, from, depth, out);
  if (is_dense(from)) return of_dense(m, from, out);
  return "is no bool, integer, float, string, array or dictionary";
}

const char *nabla_attribute_to_tree(MlirAttribute attribute, nabla_arena *arena,
                                    nabla_attribute_tree *out) {
  maker m = {arena, 0};
  return of(&m, attribute, 0, out);
}
