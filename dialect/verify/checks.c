/* See checks.h. */
#include "dialect/verify/checks.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dialect/ops.h"

MlirLogicalResult nabla_op_error_list(MlirLocation location, MlirStringRef op,
                                      const char *format, va_list arguments) {
  char text[512];
  int at = snprintf(text, sizeof text, "'%.*s' op ",
                    (int)(op.length < 64 ? op.length : 64), op.data);
  vsnprintf(text + at, sizeof text - (size_t)at, format, arguments);
  mlirEmitError(location, text);
  return mlirLogicalResultFailure();
}

MlirLogicalResult nabla_op_error(MlirLocation location, MlirStringRef op,
                                 const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  nabla_op_error_list(location, op, format, arguments);
  va_end(arguments);
  return mlirLogicalResultFailure();
}

MlirAttribute nabla_attribute(MlirAttribute attributes, const char *key) {
  if (mlirAttributeIsNull(attributes)) return attributes;
  return mlirDictionaryAttrGetElementByName(
      attributes, mlirStringRefCreateFromCString(key));
}

static intptr_t read_integers(MlirAttribute array,
                              int64_t out[NABLA_MAX_RANK]) {
  if (mlirAttributeIsNull(array) || !mlirAttributeIsADenseI64Array(array))
    return 0;
  intptr_t count = mlirDenseArrayGetNumElements(array);
  for (intptr_t i = 0; i < count && i < NABLA_MAX_RANK; i++)
    out[i] = mlirDenseI64ArrayGetElement(array, i);
  return count;
}

intptr_t nabla_integers(MlirAttribute attributes, const char *key,
                        int64_t out[NABLA_MAX_RANK]) {
  return read_integers(nabla_attribute(attributes, key), out);
}

intptr_t nabla_op_integers(MlirOperation op, const char *key,
                           int64_t out[NABLA_MAX_RANK]) {
  return read_integers(
      mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString(key)),
      out);
}

int64_t nabla_op_integer(MlirOperation op, const char *key, int64_t missing) {
  MlirAttribute value =
      mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString(key));
  return mlirAttributeIsNull(value) || !mlirAttributeIsAInteger(value)
             ? missing
             : mlirIntegerAttrGetValueInt(value);
}

intptr_t nabla_op_segment(MlirOperation op, intptr_t index) {
  MlirAttribute sizes = mlirOperationGetAttributeByName(
      op, mlirStringRefCreateFromCString("operandSegmentSizes"));
  if (mlirAttributeIsNull(sizes) || !mlirAttributeIsADenseI32Array(sizes) ||
      index >= mlirDenseArrayGetNumElements(sizes))
    return 0;
  return mlirDenseI32ArrayGetElement(sizes, index);
}

nabla_shape_text nabla_shape_format(intptr_t rank, const int64_t *shape) {
  nabla_shape_text text = {{0}};
  size_t at = 0;
  if (rank == 0) snprintf(text.data, sizeof text.data, "a scalar");
  for (intptr_t i = 0; i < rank && at < sizeof text.data; i++) {
    const char *cross = i ? "x" : "";
    int length =
        nabla_is_dynamic(shape[i])
            ? snprintf(text.data + at, sizeof text.data - at, "%s?", cross)
            : snprintf(text.data + at, sizeof text.data - at, "%s%lld", cross,
                       (long long)shape[i]);
    at += (size_t)length;
  }
  return text;
}

bool nabla_dims_valid(intptr_t count, const int64_t *dims, intptr_t rank) {
  uint32_t seen = 0;
  if (count > NABLA_MAX_RANK) return false;
  for (intptr_t i = 0; i < count; i++) {
    if (dims[i] < 0 || dims[i] >= rank || seen >> dims[i] & 1u) return false;
    seen |= 1u << dims[i];
  }
  return true;
}

bool nabla_dims_compatible(int64_t a, int64_t b) {
  return a == b || nabla_is_dynamic(a) || nabla_is_dynamic(b);
}

bool nabla_text_equals(MlirStringRef text, const char *other) {
  return text.length == strlen(other) && !memcmp(text.data, other, text.length);
}

bool nabla_types_check(MlirLocation location, MlirStringRef op, MlirType type) {
  const nabla_op_row *row = nabla_op_named(op);
  if (!row || (!nablaTypeIsAImplicit(type) && !mlirTypeIsARankedTensor(type)) ||
      nabla_type_class_has(row->types, nabla_array_element(type)))
    return true;
  nabla_op_error(location, op,
                 "takes elements of types %s; nabla.convert makes them",
                 nabla_type_class_types(row->types));
  return false;
}
