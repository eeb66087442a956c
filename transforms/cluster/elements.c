/* Elementwise operations in kernels of clusters, and combinations of
 * reductions. All are written for scalars and for vectors. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "transforms/cluster/body.h"

static nabla_ssa two(nabla_cluster_body *b, const char *operation, nabla_ssa x,
                     nabla_ssa y) {
  return k_op(b->e, "arith.%s %%v%u, %%v%u : %s", operation, x, y,
              nabla_cluster_type(b));
}

#define ARGUMENTS \
  nabla_cluster_body *b, const nabla_cluster_node *node, const nabla_ssa *x

static nabla_ssa nabla_cluster_arith(ARGUMENTS) {
  char name[8];
  (void)snprintf(name, sizeof name, "%s%c", node->element->detail,
                 b->lane->is_float ? 'f' : 'i');
  return two(b, name, x[0], x[1]);
}

/* NaN where one is; 0 is above -0. */
static nabla_ssa extreme_of(nabla_cluster_body *b, const char *which,
                            nabla_ssa x, nabla_ssa y) {
  const char *type = nabla_cluster_type(b);
  if (!b->lane->is_float)
    return k_op(b->e, "arith.%s%s %%v%u, %%v%u : %s", which,
                b->lane->is_unsigned ? "ui" : "si", x, y, type);
  return k_op(b->e, "llvm.intr.%simum(%%v%u, %%v%u) : (%s, %s) -> %s", which, x,
              y, type, type, type);
}

static nabla_ssa nabla_cluster_extreme(ARGUMENTS) {
  return extreme_of(b, node->element->detail, x[0], x[1]);
}

static nabla_ssa nabla_cluster_negate(ARGUMENTS) {
  (void)node;
  if (!b->lane->is_float)
    return two(b, "subi", nabla_cluster_integer(b, 0), x[0]);
  return k_op(b->e, "arith.negf %%v%u : %s", x[0], nabla_cluster_type(b));
}

static nabla_ssa nabla_cluster_absolute(ARGUMENTS) {
  return b->lane->is_float
             ? nabla_cluster_size(b, x[0])
             : two(b, "maxsi", x[0], nabla_cluster_negate(b, node, x));
}

static nabla_ssa nabla_cluster_sqrt(ARGUMENTS) {
  (void)node;
  const char *type = nabla_cluster_type(b);
  return k_op(b->e, "llvm.intr.sqrt(%%v%u) : (%s) -> %s", x[0], type, type);
}

/* -0 is not above 0, which is given for it; NaN is. */
static nabla_ssa nabla_cluster_relu(ARGUMENTS) {
  (void)node;
  nabla_ssa zero = nabla_cluster_number(b, 0);
  return nabla_cluster_choose(b, two(b, "cmpf ugt,", x[0], zero), x[0], zero);
}

static nabla_ssa nabla_cluster_sign(ARGUMENTS) {
  (void)node;
  const bool is_float = b->lane->is_float;
  nabla_ssa zero = nabla_cluster_number(b, 0);
  nabla_ssa rest = nabla_cluster_choose(
      b, two(b, is_float ? "cmpf olt," : "cmpi slt,", x[0], zero),
      nabla_cluster_number(b, -1), x[0]);
  return nabla_cluster_choose(
      b, two(b, is_float ? "cmpf ogt," : "cmpi sgt,", x[0], zero),
      nabla_cluster_number(b, 1), rest);
}

static nabla_ssa nabla_cluster_cast(ARGUMENTS) {
  return nabla_cluster_convert(b, x[0], b->lane,
                               nabla_cluster_lane_of(node->dtype));
}

static nabla_ssa nabla_cluster_is_nan(ARGUMENTS) {
  (void)node;
  return two(b, "cmpf uno,", x[0], x[0]);
}

/* x - x is NaN where x is not finite. */
static nabla_ssa nabla_cluster_is_inf(ARGUMENTS) {
  (void)node;
  nabla_ssa rest = two(b, "subf", x[0], x[0]);
  return k_op(b->e, "arith.andi %%v%u, %%v%u : %s",
              two(b, "cmpf uno,", rest, rest), two(b, "cmpf ord,", x[0], x[0]),
              nabla_cluster_type_of(b, NABLA_DTYPE_BOOL));
}

static nabla_ssa nabla_cluster_compare(ARGUMENTS) {
  static const char *const kinds[][3] = {
      /* in the order of Nabla_CompareKind */
      {"cmpf oeq,", "cmpi eq,", "cmpi eq,"},
      {"cmpf une,", "cmpi ne,", "cmpi ne,"},
      {"cmpf olt,", "cmpi slt,", "cmpi ult,"},
      {"cmpf ole,", "cmpi sle,", "cmpi ule,"},
      {"cmpf ogt,", "cmpi sgt,", "cmpi ugt,"},
      {"cmpf oge,", "cmpi sge,", "cmpi uge,"}};
  return two(b,
             kinds[node->attribute][b->lane->is_float      ? 0
                                    : b->lane->is_unsigned ? 2
                                                           : 1],
             x[0], x[1]);
}

static nabla_ssa nabla_cluster_select(ARGUMENTS) {
  (void)node;
  return nabla_cluster_choose(b, x[0], x[1], x[2]);
}

static nabla_ssa nabla_cluster_logic(ARGUMENTS) {
  return two(b, node->element->detail, x[0], x[1]);
}

static nabla_ssa nabla_cluster_invert(ARGUMENTS) {
  (void)node;
  return two(b, "xori", x[0], nabla_cluster_integer(b, -1));
}

static nabla_ssa nabla_cluster_math(ARGUMENTS) {
  return nabla_cluster_function(b, node->element->detail, x);
}

static nabla_ssa nabla_cluster_gelu(ARGUMENTS) {
  enum { TANH = 1 }; /* of Nabla_GeluKind */
  return nabla_cluster_function(
      b, node->attribute == TANH ? "gelu_tanh" : "gelu", x);
}

static const nabla_cluster_element elements[] = {
#define ELEMENT(id, operands, function, detail, cost, types) \
  {"nabla." #id, nabla_cluster_##function, detail, operands, \
   cost,         NABLA_CLUSTER_##types},
#include "transforms/cluster/elements.def"
#undef ELEMENT
};

const nabla_cluster_element *nabla_cluster_element_named(MlirStringRef name) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (strlen(elements[i].name) == name.length &&
        !memcmp(elements[i].name, name.data, name.length))
      return &elements[i];
  return NULL;
}

nabla_ssa nabla_cluster_combine(nabla_cluster_body *b,
                                nabla_cluster_reduction reduction, nabla_ssa x,
                                nabla_ssa y) {
  const bool is_float = b->lane->is_float;
  switch (reduction) {
    case NABLA_CLUSTER_sum:
      return two(b, is_float ? "addf" : "addi", x, y);
    case NABLA_CLUSTER_prod:
      return two(b, is_float ? "mulf" : "muli", x, y);
    case NABLA_CLUSTER_max:
      return extreme_of(b, "max", x, y);
    case NABLA_CLUSTER_min:
      return extreme_of(b, "min", x, y);
    case NABLA_CLUSTER_largest:
      break;
  }
  return nabla_cluster_choose(b, two(b, "cmpf ogt,", y, x), y, x);
}

int nabla_cluster_reduction_cost(nabla_cluster_reduction reduction) {
  static const int costs[] = {
#define REDUCTION(id, initial, cost) cost,
#include "transforms/cluster/reductions.def"
#undef REDUCTION
  };
  return costs[reduction];
}
