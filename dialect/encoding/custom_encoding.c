/* See custom_encoding.h. */
#include "dialect/encoding/custom_encoding.h"

#include <mlir-c/AffineExpr.h>
#include <mlir-c/AffineMap.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/attribute_to_tree.h"
#include "dialect/encoding/custom_registry.h"
#include "dialect/verify/checks.h"

#define MAX_EXPRESSION 64 /* depth of a count */
#define MOST_ELEMENTS  ((int64_t)1 << 62)

/* An attribute, read. */
typedef struct custom {
  MlirStringRef name;
  MlirAttribute values;                        /* null: none */
  const nabla_encoding_description *described; /* NULL: by `values` */
} custom;

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *format, ...)
    NABLA_PRINTF(2, 3);
static bool complain(char message[NABLA_MESSAGE_SIZE], const char *format,
                     ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, NABLA_MESSAGE_SIZE, format, list);
  va_end(list);
  return false;
}

static custom read_parameters(MlirAttribute parameters) {
  MlirAttribute name = nabla_attribute(parameters, "value");
  custom c = {.values = nabla_attribute(parameters, "values")};
  if (!mlirAttributeIsNull(name) && mlirAttributeIsAString(name)) {
    c.name = mlirStringAttrGetValue(name);
    c.described = nabla_custom_find(c.name.data, c.name.length);
  }
  return c;
}

static custom read_encoding(MlirAttribute encoding) {
  MlirAttribute parameters;
  (void)nablaEncodingAttrParts(encoding, &parameters);
  return read_parameters(parameters);
}

static MlirAttribute value_of(const custom *c, const char *key) {
  return mlirAttributeIsNull(c->values) ? c->values
                                        : nabla_attribute(c->values, key);
}

/* ---- counts as affine maps ---- */

/* The value of an expression over `dims`; false when it is negative, larger
 * than any storage, or no number. */
static bool evaluate(MlirAffineExpr e, const int64_t *dims, int depth,
                     int64_t *out) {
  if (depth > MAX_EXPRESSION) return false;
  if (mlirAffineExprIsAConstant(e)) {
    *out = mlirAffineConstantExprGetValue(e);
    return *out >= -MOST_ELEMENTS && *out <= MOST_ELEMENTS;
  }
  if (mlirAffineExprIsADim(e)) {
    *out = dims[mlirAffineDimExprGetPosition(e)];
    return true;
  }
  int64_t a, b;
  if (!mlirAffineExprIsABinary(e) ||
      !evaluate(mlirAffineBinaryOpExprGetLHS(e), dims, depth + 1, &a) ||
      !evaluate(mlirAffineBinaryOpExprGetRHS(e), dims, depth + 1, &b))
    return false;
  bool good = true;
  if (mlirAffineExprIsAAdd(e)) {
    good = !__builtin_add_overflow(a, b, out);
  } else if (mlirAffineExprIsAMul(e)) {
    good = !__builtin_mul_overflow(a, b, out);
  } else {
    if (b <= 0) return false;
    int64_t rest = a % b < 0 ? a % b + b : a % b;
    if (mlirAffineExprIsAMod(e)) *out = rest;
    if (mlirAffineExprIsAFloorDiv(e)) *out = (a - rest) / b;
    if (mlirAffineExprIsACeilDiv(e)) *out = (a - rest) / b + (rest > 0);
  }
  return good && *out >= -MOST_ELEMENTS && *out <= MOST_ELEMENTS;
}

static int64_t product(intptr_t rank, const int64_t *shape) {
  int64_t all = 1; /* the verifier of types has seen that it fits */
  for (intptr_t i = 0; i < rank; i++) all *= shape[i];
  return all;
}

/* Entry `index` of `components`; false when it is none. */
static bool read_component(const custom *c, intptr_t index, MlirStringRef *name,
                           MlirType *element, MlirAffineMap *count) {
  MlirAttribute all = value_of(c, "components");
  MlirAttribute entry = mlirArrayAttrGetElement(all, index);
  if (!mlirAttributeIsAArray(entry) || mlirArrayAttrGetNumElements(entry) != 3)
    return false;
  MlirAttribute parts[3];
  for (int i = 0; i < 3; i++) parts[i] = mlirArrayAttrGetElement(entry, i);
  if (!mlirAttributeIsAString(parts[0]) || !mlirAttributeIsAType(parts[1]) ||
      !mlirAttributeIsAAffineMap(parts[2]))
    return false;
  *name = mlirStringAttrGetValue(parts[0]);
  *element = mlirTypeAttrGetValue(parts[1]);
  *count = mlirAffineMapAttrGetValue(parts[2]);
  return true;
}

/* ---- the attribute ---- */

static bool is_element(MlirType type) {
  if (mlirTypeIsAF32(type) || mlirTypeIsAF16(type) || mlirTypeIsABF16(type) ||
      mlirTypeIsAF64(type))
    return true;
  if (!mlirTypeIsAInteger(type) || !mlirIntegerTypeIsSignless(type))
    return false;
  unsigned width = mlirIntegerTypeGetWidth(type);
  return width == 8 || width == 32 || width == 64;
}

static bool check_components(const custom *c,
                             char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute all = value_of(c, "components");
  MlirAttribute decode = value_of(c, "decode");
  if (mlirAttributeIsNull(all) || mlirAttributeIsNull(decode) ||
      !mlirAttributeIsAFlatSymbolRef(decode))
    return complain(message,
                    "#nabla.custom: nobody has added an encoding '%.*s' "
                    "(nabla_add_encoding), and components and decode = @f are "
                    "not given",
                    (int)c->name.length, c->name.data);
  if (!mlirAttributeIsAArray(all) || mlirArrayAttrGetNumElements(all) < 1 ||
      mlirArrayAttrGetNumElements(all) > NABLA_ENCODING_MAX_COMPONENTS)
    return complain(message, "#nabla.custom: components is a list of 1 to %d",
                    NABLA_ENCODING_MAX_COMPONENTS);
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(all); i++) {
    MlirStringRef name;
    MlirType element;
    MlirAffineMap count;
    if (!read_component(c, i, &name, &element, &count) ||
        !nabla_custom_name_good(name.data, name.length) ||
        !is_element(element) || mlirAffineMapGetNumResults(count) != 1 ||
        mlirAffineMapGetNumSymbols(count) != 0 ||
        mlirAffineMapGetNumDims(count) < 1)
      return complain(message,
                      "#nabla.custom: component %d is no [\"name\", type, "
                      "affine_map<(n) -> (count)>] of f64, f32, f16, bf16, "
                      "i64, i32 or i8",
                      (int)i);
  }
  return true;
}

static bool check_cut(const custom *c, char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute cut = value_of(c, "cut");
  if (mlirAttributeIsNull(cut)) return true;
  MlirType type = mlirAttributeIsAInteger(cut) ? mlirAttributeGetType(cut)
                                               : (MlirType){NULL};
  if (mlirTypeIsNull(type) || !mlirTypeIsAInteger(type) ||
      !mlirIntegerTypeIsSignless(type) || mlirIntegerTypeGetWidth(type) > 64 ||
      mlirIntegerAttrGetValueInt(cut) < 0)
    return complain(message, "#nabla.custom: cut is a number of elements");
  return true;
}

static const char *const fallbacks[] = {"report", "silent", "never"};

/* The index of a text in `fallbacks`, or -1. */
static int fallback_of(MlirAttribute text) {
  for (int i = 0; i < 3 && mlirAttributeIsAString(text); i++)
    if (mlirStringRefEqual(mlirStringAttrGetValue(text),
                           mlirStringRefCreateFromCString(fallbacks[i])))
      return i;
  return -1;
}

static bool check_fallback(const custom *c, char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute fallback = value_of(c, "fallback");
  if (mlirAttributeIsNull(fallback) || fallback_of(fallback) >= 0) return true;
  return complain(message,
                  "#nabla.custom: fallback is \"report\", \"silent\" or "
                  "\"never\"");
}

bool nabla_custom_check(MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]) {
  custom c = read_parameters(parameters);
  bool has_values = !mlirAttributeIsNull(c.values);
  nabla_arena arena = {0};
  if (!nabla_custom_name_good(c.name.data, c.name.length) ||
      mlirDictionaryAttrGetNumElements(parameters) != 1 + has_values ||
      (has_values && !mlirAttributeIsADictionary(c.values)))
    return complain(message,
                    "#nabla.custom takes a name of letters, digits, '_' and "
                    "'.', and a dictionary: #nabla.custom<\"name\", {k = 1}>");
  if (!c.described)
    return check_components(&c, message) && check_cut(&c, message) &&
           check_fallback(&c, message);
  nabla_attribute_tree ignored;
  const char *why =
      has_values ? nabla_attribute_to_tree(c.values, &arena, &ignored) : NULL;
  nabla_arena_clear(&arena);
  return !why || complain(message, "#nabla.custom<\"%s\">: a parameter %s",
                          c.described->name, why);
}

uint64_t nabla_custom_cut(MlirAttribute encoding) {
  custom c = read_encoding(encoding);
  if (c.described) return c.described->cut;
  MlirAttribute cut = value_of(&c, "cut");
  return mlirAttributeIsNull(cut) ? 0
                                  : (uint64_t)mlirIntegerAttrGetValueInt(cut);
}

nabla_encoding_fallback nabla_custom_fallback(MlirAttribute encoding) {
  custom c = read_encoding(encoding);
  if (c.described) return c.described->fallback;
  MlirAttribute fallback = value_of(&c, "fallback");
  const int index = mlirAttributeIsNull(fallback) ? 0 : fallback_of(fallback);
  return index < 0 ? NABLA_FALLBACK_REPORT : (nabla_encoding_fallback)index;
}

MlirAttribute nabla_custom_function(MlirAttribute encoding) {
  custom c = read_encoding(encoding);
  return c.described ? mlirAttributeGetNull() : value_of(&c, "decode");
}

/* ---- storages ---- */

/* Fills what a function from C is asked about. */
static bool describe_storage(const custom *c, intptr_t rank,
                             const int64_t *shape, nabla_arena *arena,
                             nabla_attribute_tree *parameters,
                             nabla_encoding_storage *out) {
  *parameters =
      (nabla_attribute_tree){.name = "", .kind = NABLA_ATTRIBUTE_DICTIONARY};
  *out = (nabla_encoding_storage){.struct_size = sizeof *out,
                                  .rank = (uint32_t)rank,
                                  .shape = shape,
                                  .elements = (uint64_t)product(rank, shape),
                                  .parameters = parameters};
  return mlirAttributeIsNull(c->values) ||
         !nabla_attribute_to_tree(c->values, arena, parameters);
}

static bool counts_from_c(const custom *c, intptr_t rank, const int64_t *shape,
                          int64_t *counts, char message[NABLA_MESSAGE_SIZE]) {
  nabla_arena arena = {0};
  nabla_attribute_tree parameters;
  nabla_encoding_storage storage;
  const char *why = "no memory for its parameters";
  if (describe_storage(c, rank, shape, &arena, &parameters, &storage))
    why = c->described->count(c->described->self, &storage, counts);
  nabla_arena_clear(&arena);
  if (why)
    return complain(message, "#nabla.custom<\"%s\">: %.160s",
                    c->described->name, why);
  return true;
}

static bool counts_from_maps(const custom *c, intptr_t rank,
                             const int64_t *shape, int64_t *counts,
                             char message[NABLA_MESSAGE_SIZE]) {
  MlirAttribute all = value_of(c, "components");
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(all); i++) {
    MlirStringRef name;
    MlirType element;
    MlirAffineMap map;
    (void)read_component(c, i, &name, &element, &map);
    int64_t elements = product(rank, shape);
    intptr_t dims = mlirAffineMapGetNumDims(map);
    if (dims != 1 && dims != rank)
      return complain(message,
                      "#nabla.custom<\"%.*s\">: the count of '%.*s' takes %d "
                      "dimensions, the storage has %d",
                      (int)c->name.length, c->name.data, (int)name.length,
                      name.data, (int)dims, (int)rank);
    if (!evaluate(mlirAffineMapGetResult(map, 0), dims == 1 ? &elements : shape,
                  0, &counts[i]))
      return complain(message,
                      "#nabla.custom<\"%.*s\">: the count of '%.*s' is no "
                      "number of elements",
                      (int)c->name.length, c->name.data, (int)name.length,
                      name.data);
  }
  return true;
}

static uint32_t component_count(const custom *c) {
  if (c->described) return c->described->component_count;
  return (uint32_t)mlirArrayAttrGetNumElements(value_of(c, "components"));
}

static bool counts_of(const custom *c, intptr_t rank, const int64_t *shape,
                      int64_t *counts, char message[NABLA_MESSAGE_SIZE]) {
  memset(counts, 0, NABLA_ENCODING_MAX_COMPONENTS * sizeof *counts);
  bool good = c->described ? counts_from_c(c, rank, shape, counts, message)
                           : counts_from_maps(c, rank, shape, counts, message);
  for (uint32_t i = 0; good && i < component_count(c); i++)
    if (counts[i] < 0 || counts[i] >= MOST_ELEMENTS)
      good = complain(
          message, "#nabla.custom<\"%.*s\">: component %u has %lld elements",
          (int)c->name.length, c->name.data, i, (long long)counts[i]);
  return good;
}

bool nabla_custom_check_storage(MlirAttribute encoding, intptr_t rank,
                                const int64_t *shape,
                                char message[NABLA_MESSAGE_SIZE]) {
  int64_t counts[NABLA_ENCODING_MAX_COMPONENTS];
  custom c = read_encoding(encoding);
  return counts_of(&c, rank, shape, counts, message);
}

static MlirType element_of(MlirContext context, nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F64) return mlirF64TypeGet(context);
  if (dtype == NABLA_DTYPE_F32) return mlirF32TypeGet(context);
  if (dtype == NABLA_DTYPE_F16) return mlirF16TypeGet(context);
  if (dtype == NABLA_DTYPE_BF16) return mlirBF16TypeGet(context);
  return mlirIntegerTypeGet(context, dtype == NABLA_DTYPE_I64   ? 64
                                     : dtype == NABLA_DTYPE_I32 ? 32
                                                                : 8);
}

_Static_assert(NABLA_ENCODING_MAX_COMPONENTS <= NABLA_MAX_PARTS,
               "components of a custom encoding are components");

uint32_t nabla_custom_components(MlirAttribute encoding, intptr_t rank,
                                 const int64_t *shape,
                                 nabla_implicit_component out[]) {
  int64_t counts[NABLA_ENCODING_MAX_COMPONENTS];
  char message[NABLA_MESSAGE_SIZE];
  custom c = read_encoding(encoding);
  uint32_t count = component_count(&c);
  (void)counts_of(&c, rank, shape, counts, message); /* it is verified */
  for (uint32_t i = 0; i < count; i++) {
    MlirStringRef name;
    MlirAffineMap map;
    out[i].count = counts[i];
    if (c.described) {
      out[i].name = c.described->components[i].name;
      out[i].element = element_of(mlirAttributeGetContext(encoding),
                                  c.described->components[i].dtype);
    } else { /* texts of attributes end with a NUL */
      (void)read_component(&c, i, &name, &out[i].element, &map);
      out[i].name = name.data;
    }
    out[i].type = mlirRankedTensorTypeGet(1, &counts[i], out[i].element,
                                          mlirAttributeGetNull());
  }
  return count;
}

nabla_status nabla_custom_decode(MlirType type, const char *name,
                                 const nabla_sink *to, nabla_diag *diag) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  custom c = read_encoding(p.encoding);
  nabla_arena arena = {0};
  nabla_attribute_tree parameters;
  nabla_encoding_storage storage;
  bool whole = p.storageRank < 0;
  nabla_status status = NABLA_NO_MEMORY;
  if (c.described && describe_storage(&c, whole ? p.rank : p.storageRank,
                                      whole ? p.shape : p.storage, &arena,
                                      &parameters, &storage))
    status = c.described->decode(c.described->self, &storage, name, to, diag);
  nabla_arena_clear(&arena);
  return status;
}
