/* Elementwise operations in kernels of clusters, and combinations of
 * reductions. All are written for scalars and for vectors. */
#include <math.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "transforms/cluster/body.h"

const char *nabla_cluster_type(const nabla_cluster_body *b) {
  return nabla_type_f32[b->shape];
}

const char *nabla_cluster_truth(const nabla_cluster_body *b) {
  return b->shape == NABLA_SCALAR ? "i1" : "vector<16xi1>";
}

/* By its bits, which have infinities and signs of zeros. */
nabla_ssa nabla_cluster_f32(nabla_cluster_body *b, double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  return b->shape == NABLA_SCALAR
             ? k_op(b->e, "arith.constant 0x%08X : f32", bits)
             : k_op(b->e, "arith.constant dense<0x%08X> : vector<16xf32>",
                    bits);
}

nabla_ssa nabla_cluster_choose(nabla_cluster_body *b, nabla_ssa condition,
                               nabla_ssa yes, nabla_ssa no) {
  return b->shape == NABLA_SCALAR
             ? k_op(b->e, "arith.select %%v%u, %%v%u, %%v%u : f32", condition,
                    yes, no)
             : k_op(b->e,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xf32>",
                    condition, yes, no);
}

static nabla_ssa two(nabla_cluster_body *b, const char *operation, nabla_ssa x,
                     nabla_ssa y) {
  return k_op(b->e, "arith.%s %%v%u, %%v%u : %s", operation, x, y,
              nabla_cluster_type(b));
}

#define ARGUMENTS \
  nabla_cluster_body *b, const nabla_cluster_node *node, const nabla_ssa *x

static nabla_ssa nabla_cluster_arith(ARGUMENTS) {
  return two(b, node->element->detail, x[0], x[1]);
}

/* NaN where one is; 0 is above -0. */
static nabla_ssa extreme_of(nabla_cluster_body *b, const char *which,
                            nabla_ssa x, nabla_ssa y) {
  const char *type = nabla_cluster_type(b);
  return k_op(b->e, "llvm.intr.%s(%%v%u, %%v%u) : (%s, %s) -> %s", which, x, y,
              type, type, type);
}

static nabla_ssa nabla_cluster_extreme(ARGUMENTS) {
  return extreme_of(b, node->element->detail, x[0], x[1]);
}

static nabla_ssa nabla_cluster_negate(ARGUMENTS) {
  (void)node;
  return k_op(b->e, "arith.negf %%v%u : %s", x[0], nabla_cluster_type(b));
}

static nabla_ssa nabla_cluster_bits(ARGUMENTS) {
  (void)node;
  nabla_ssa bits = k_size_bits(b->e, b->shape, x[0]);
  return k_op(b->e, "arith.bitcast %%v%u : %s to %s", bits,
              nabla_type_i32[b->shape], nabla_cluster_type(b));
}

static nabla_ssa nabla_cluster_sqrt(ARGUMENTS) {
  (void)node;
  const char *type = nabla_cluster_type(b);
  return k_op(b->e, "llvm.intr.sqrt(%%v%u) : (%s) -> %s", x[0], type, type);
}

/* -0 is not above 0, which is given for it; NaN is. */
static nabla_ssa nabla_cluster_relu(ARGUMENTS) {
  (void)node;
  nabla_ssa zero = nabla_cluster_f32(b, 0);
  return nabla_cluster_choose(b, two(b, "cmpf ugt,", x[0], zero), x[0], zero);
}

static nabla_ssa nabla_cluster_sign(ARGUMENTS) {
  (void)node;
  nabla_ssa zero = nabla_cluster_f32(b, 0);
  nabla_ssa rest = nabla_cluster_choose(b, two(b, "cmpf olt,", x[0], zero),
                                        nabla_cluster_f32(b, -1), x[0]);
  return nabla_cluster_choose(b, two(b, "cmpf ogt,", x[0], zero),
                              nabla_cluster_f32(b, 1), rest);
}

static nabla_ssa nabla_cluster_same(ARGUMENTS) {
  (void)b, (void)node;
  return x[0];
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
              nabla_cluster_truth(b));
}

static nabla_ssa nabla_cluster_compare(ARGUMENTS) {
  static const char *const kinds[] = {/* in the order of Nabla_CompareKind */
                                      "cmpf oeq,", "cmpf une,", "cmpf olt,",
                                      "cmpf ole,", "cmpf ogt,", "cmpf oge,"};
  return two(b, kinds[node->attribute], x[0], x[1]);
}

static nabla_ssa nabla_cluster_select(ARGUMENTS) {
  (void)node;
  return nabla_cluster_choose(b, x[0], x[1], x[2]);
}

static nabla_ssa nabla_cluster_truths(ARGUMENTS) {
  return k_op(b->e, "arith.%s %%v%u, %%v%u : %s", node->element->detail, x[0],
              x[1], nabla_cluster_truth(b));
}

static nabla_ssa nabla_cluster_invert(ARGUMENTS) {
  (void)node;
  nabla_ssa ones =
      b->shape == NABLA_SCALAR
          ? k_op(b->e, "arith.constant true")
          : k_op(b->e, "arith.constant dense<true> : vector<16xi1>");
  return k_op(b->e, "arith.xori %%v%u, %%v%u : %s", x[0], ones,
              nabla_cluster_truth(b));
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
#define ELEMENT(id, operands, function, detail, cost) \
  {"nabla." #id, nabla_cluster_##function, detail, operands, cost},
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
  switch (reduction) {
    case NABLA_CLUSTER_sum:
      return two(b, "addf", x, y);
    case NABLA_CLUSTER_prod:
      return two(b, "mulf", x, y);
    case NABLA_CLUSTER_max:
      return extreme_of(b, "maximum", x, y);
    case NABLA_CLUSTER_min:
      return extreme_of(b, "minimum", x, y);
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
