/* What rope is made of: a table of cosines and sines, which ropes of the same
 * positions share once common subexpressions are removed, and turned pairs. */
#include <assert.h>
#include <math.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/composite/decompositions.h"

typedef struct rope {
  const nabla_builder *b;
  MlirOperation op;
  MlirType f64, i64, work;
  nabla_built_shape shape; /* of the input */
  intptr_t dim;            /* of the positions */
  bool halves;
  nabla_built_shape paired; /* the last dimension as two: D/2 x 2, or 2 x D/2 */
  intptr_t pair, index;     /* those of the 2, and of the D/2 */
} rope;

static rope read_rope(const nabla_builder *b, MlirOperation op) {
  rope r = {.b = b, .op = op};
  MlirContext context = nabla_op_context(op);
  MlirValue x = mlirOperationGetOperand(op, 0);
  r.f64 = mlirF64TypeGet(context);
  r.i64 = mlirIntegerTypeGet(context, 64);
  r.work = nabla_parts_work(nabla_array_element(mlirValueGetType(x)));
  r.shape = nabla_build_shape_of(b, x);
  r.dim = (intptr_t)nabla_parts_integer(op, "dim", 0);
  r.halves = nabla_parts_integer(op, "pairs", 0) != 0;
  assert(r.shape.rank >= 2 && r.shape.rank < NABLA_MAX_RANK); /* verified */
  intptr_t last = r.shape.rank - 1;
  for (intptr_t i = 0; i < last; i++)
    nabla_build_shape_add(&r.paired, &r.shape, i);
  r.pair = r.halves ? last : last + 1;
  r.index = r.halves ? last + 1 : last;
  for (intptr_t i = last; i < last + 2; i++) {
    if (i == r.pair)
      nabla_build_shape_add_size(&r.paired, 2);
    else if (!nabla_is_dynamic(r.shape.dims[last]))
      nabla_build_shape_add_size(&r.paired, r.shape.dims[last] / 2);
    else
      nabla_build_shape_add_value(
          &r.paired, nabla_build_arith(b, "divui", r.shape.sizes[last],
                                       nabla_build_index(b, 2)));
  }
  return r;
}

/* D as an array of f64 of rank 0: the sum of D/2 times 2. */
static MlirValue width(const rope *r, const nabla_built_shape *line) {
  MlirValue twos = nabla_build_full(r->b, 2, line, r->f64);
  return nabla_build_reduce(r->b, NABLA_BUILD_SUM, twos, 0);
}

/* theta^(-2i / D) of each pair i, f64. */
static MlirValue frequencies(const rope *r) {
  const nabla_builder *b = r->b;
  nabla_built_shape line = {0};
  nabla_build_shape_add(&line, &r->paired, r->index);
  double rate = -2 * log(nabla_parts_float(r->op, "theta", 10000));
  int64_t size = line.dims[0];
  MlirValue i = nabla_build_iota(b, 0, &line, r->f64), x;
  if (nabla_is_dynamic(size)) {
    MlirValue all = nabla_build_broadcast(b, width(r, &line), NULL, &line);
    x = nabla_build_full(b, rate, &line, r->f64);
    x = nabla_build_two(b, "div", x, all);
  } else {
    x = nabla_build_full(b, size ? rate / (2 * (double)size) : 0, &line,
                         r->f64);
  }
  return nabla_build_one(b, "exp", nabla_build_two(b, "mul", i, x));
}

/* The position of each index along `dim`, f64. */
static MlirValue positions(const rope *r) {
  const nabla_builder *b = r->b;
  if (mlirOperationGetNumOperands(r->op) > 1) {
    MlirValue given = mlirOperationGetOperand(r->op, 1);
    given = nabla_build_vector_of(b, given, &r->shape, r->dim);
    return nabla_build_convert(b, given, r->f64);
  }
  nabla_built_shape line = {0};
  nabla_build_shape_add(&line, &r->shape, r->dim);
  MlirValue p = nabla_build_iota(b, 0, &line, r->i64);
  int64_t offset = nabla_parts_integer(r->op, "offset", 0);
  if (offset)
    p = nabla_build_two(b, "add", p,
                        nabla_build_full_integer(b, offset, &line, r->i64));
  return nabla_build_convert(b, p, r->f64);
}

/* Angles of positions x pairs. */
static MlirValue angles(const rope *r) {
  static const int64_t rows = 0, columns = 1;
  nabla_built_shape table = {0};
  nabla_build_shape_add(&table, &r->shape, r->dim);
  nabla_build_shape_add(&table, &r->paired, r->index);
  return nabla_build_two(
      r->b, "mul", nabla_build_broadcast(r->b, positions(r), &rows, &table),
      nabla_build_broadcast(r->b, frequencies(r), &columns, &table));
}

/* "cos" or "sin" of the angles in the shape of one element of each pair. */
static MlirValue table_of(const rope *r, const char *name, MlirValue angle,
                          const nabla_built_shape *shape) {
  int64_t dims[2] = {r->dim, r->index};
  MlirValue y = nabla_build_one(r->b, name, angle);
  return nabla_build_broadcast(r->b, nabla_build_convert(r->b, y, r->work),
                               dims, shape);
}

MlirValue nabla_parts_rope(const nabla_builder *b, MlirOperation op) {
  rope r = read_rope(b, op);
  MlirValue x = mlirOperationGetOperand(op, 0);
  MlirType element = nabla_array_element(mlirValueGetType(x));
  x = nabla_build_reshape(b, x, &r.paired);
  x = nabla_build_convert(b, x, r.work);
  nabla_built_shape one = r.paired;
  assert(r.pair >= 1 && r.pair < one.rank);
  one.dims[r.pair] = 1;
  MlirValue first = nabla_build_slice(b, x, r.pair, 0, 1);
  MlirValue second = nabla_build_slice(b, x, r.pair, 1, 2);
  MlirValue angle = angles(&r);
  MlirValue cosine = table_of(&r, "cos", angle, &one);
  MlirValue sine = table_of(&r, "sin", angle, &one);
  MlirValue a =
      nabla_build_two(b, "sub", nabla_build_two(b, "mul", first, cosine),
                      nabla_build_two(b, "mul", second, sine));
  MlirValue c =
      nabla_build_two(b, "add", nabla_build_two(b, "mul", first, sine),
                      nabla_build_two(b, "mul", second, cosine));
  MlirValue y = nabla_build_concatenate(b, a, c, r.pair);
  return nabla_build_reshape(b, nabla_build_convert(b, y, element), &r.shape);
}
