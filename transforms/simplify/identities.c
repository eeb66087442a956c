/* See identities.h. */
#include "transforms/simplify/identities.h"

#include <math.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding.h"
#include "dialect/ops.h"
#include "transforms/ir/ir.h"
#include "transforms/simplify/splats.h"

enum { EITHER = -1 };
enum { OTHER = -1, ITSELF = -2, NAUGHT = -3, UNIT = -4 };

typedef enum wanted {
  WANT_ZERO,
  WANT_MINUS_ZERO,
  WANT_ONE,
  WANT_ONES,
  WANT_LEAST,
  WANT_GREATEST,
} wanted;

typedef struct identity {
  const char *op;
  intptr_t where;
  wanted value;
  nabla_type_class types;
  intptr_t gives;
} identity;

static const identity table[] = {
#define IDENTITY(id, op, where, value, types, gives, says) \
  {op, where, WANT_##value, NABLA_TYPES_##types, gives},
#include "transforms/simplify/identities.def"
#undef IDENTITY
};
#define ROWS (sizeof table / sizeof *table)

static bool float_is(double x, wanted value) {
  switch (value) {
    case WANT_ZERO:
      return x == 0 && !signbit(x);
    case WANT_MINUS_ZERO:
      return x == 0 && signbit(x);
    case WANT_ONE:
      return x == 1;
    case WANT_LEAST:
      return x == -(double)INFINITY;
    case WANT_GREATEST:
      return x == (double)INFINITY;
    default:
      return false;
  }
}

static bool integer_is(const nabla_splat *x, wanted value) {
  unsigned width = nabla_splat_width(x->element);
  bool has_sign = !mlirIntegerTypeIsUnsigned(x->element) && width > 1;
  uint64_t ones = width < 64 ? ((uint64_t)1 << width) - 1 : UINT64_MAX;
  switch (value) {
    case WANT_ZERO:
      return x->integer == 0;
    case WANT_ONE:
      return x->integer == 1;
    case WANT_ONES:
      return x->integer == ones;
    case WANT_LEAST:
      return x->integer == (has_sign ? ones ^ ones >> 1 : 0);
    case WANT_GREATEST:
      return x->integer == (has_sign ? ones >> 1 : ones);
    default:
      return false;
  }
}

/* Returns whether operand `index` is the constant of the row. */
static bool takes(const identity *row, MlirOperation op, intptr_t index) {
  nabla_splat x;
  if (!nabla_splat_read(mlirOperationGetOperand(op, index), &x) ||
      !nabla_type_class_has(row->types, x.element))
    return false;
  return x.is_float ? float_is(x.number, row->value)
                    : integer_is(&x, row->value);
}

/* Replaces the op by a constant if the other operand has the type of the
 * result; otherwise the op compares sizes at run time and has to stay. */
static bool give_constant(const identity *row, MlirOperation op,
                          intptr_t index) {
  MlirType type = nabla_result_type(op, 0);
  MlirType element = nabla_array_element(type);
  if (!mlirTypeEqual(nabla_operand_type(op, 1 - index), type)) return false;
  nabla_splat x = {.element = element, .is_float = mlirTypeIsAFloat(element)};
  if (row->gives == UNIT) x.number = 1, x.integer = 1;
  MlirValue value = row->gives == ITSELF ? mlirOperationGetOperand(op, index)
                                         : nabla_splat_write(op, type, &x);
  if (mlirValueIsNull(value) || !mlirTypeEqual(mlirValueGetType(value), type))
    return false;
  nabla_op_replace(op, &value);
  return true;
}

static bool give(const identity *row, MlirOperation op, intptr_t index) {
  if (row->gives < OTHER) return give_constant(row, op, index);
  intptr_t at = row->gives == OTHER ? 1 - index : row->gives;
  MlirValue value = mlirOperationGetOperand(op, at);
  MlirType type = nabla_result_type(op, 0);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (i != index && !mlirTypeEqual(nabla_operand_type(op, i), type))
      return false; /* the result has more known sizes, or the op compares one
                     */
  nabla_op_replace(op, &value);
  return true;
}

bool nabla_has_identities(MlirOperation op) {
  for (size_t i = 0; i < ROWS; i++)
    if (nabla_is(op, table[i].op)) return true;
  return false;
}

bool nabla_fold_identities(MlirOperation op) {
  for (size_t i = 0; i < ROWS; i++) {
    if (!nabla_is(op, table[i].op)) continue;
    intptr_t first = table[i].where == EITHER ? 0 : table[i].where;
    intptr_t last = table[i].where == EITHER ? 1 : table[i].where;
    for (intptr_t at = first; at <= last; at++)
      if (takes(&table[i], op, at) && give(&table[i], op, at)) return true;
  }
  return false;
}
