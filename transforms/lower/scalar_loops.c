/* nabla-scalar-loops: marks loops that LLVM is not to vectorize. Its loop
 * vectorizer (LLVM 22) asks of each value whether it is the same in all
 * iterations, follows the operands of values that are, and remembers no answer:
 * the time grows with the number of paths through the expression, which doubles
 * where a value is used twice. The formula of gelu in f64, of a row that is
 * repeated, would be compiled for years. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

#include "transforms/ir/block_index.h"
#include "transforms/passes.h"

/* Paths from a value to what it is computed from, above which a loop is marked.
 * Each value of the loop is asked for, several times. */
#define MOST_PATHS 1024.0

/* A value in a loop: whether it is the same in all iterations, and how many
 * paths lead from it then. */
typedef struct expression {
  double paths;
  bool is_uniform;
} expression;

static bool is_loop(MlirOperation op) { return nabla_is(op, "scf.for"); }

/* An argument of the loop's own block changes; others may be those of a loop
 * inside that runs once. */
static expression operand_of(const nabla_block_index *index, MlirOperation loop,
                             const expression *made, MlirValue value) {
  if (mlirValueIsABlockArgument(value)) {
    const MlirBlock owner = mlirBlockArgumentGetOwner(value);
    return (expression){
        1, !mlirOperationEqual(mlirBlockGetParentOperation(owner), loop)};
  }
  const size_t number = nabla_block_index_definition(index, value);
  return number == SIZE_MAX ? (expression){1, true} : made[number];
}

/* The vectorizer returns from the first operand that is not uniform. */
static expression expression_of(const nabla_block_index *index,
                                MlirOperation loop, const expression *made,
                                MlirOperation op) {
  expression all = {1, mlirOperationGetNumRegions(op) == 0};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const expression x =
        operand_of(index, loop, made, mlirOperationGetOperand(op, i));
    all.is_uniform = all.is_uniform && x.is_uniform;
    all.paths += x.paths;
  }
  return all.is_uniform ? all : (expression){1, false};
}

/* Whether some value of the loop has too many paths; *out_good is false when
 * memory runs out. */
static bool has_many_paths(MlirOperation loop, bool *out_good) {
  nabla_block_index index;
  bool many = false;
  *out_good = nabla_block_index_init_inside(&index, loop);
  expression *made =
      *out_good ? malloc((index.count + 1) * sizeof *made) : NULL;
  if (!made) *out_good = false;
  for (size_t i = 0; made && i < index.count; i++) {
    made[i] = expression_of(&index, loop, made, index.ops[i]);
    many = many || made[i].paths > MOST_PATHS;
  }
  free(made);
  nabla_block_index_deinit(&index);
  return many;
}

static bool mark(MlirOperation loop, void *unused) {
  bool good;
  (void)unused;
  if (!has_many_paths(loop, &good)) {
    if (!good) nabla_error_at(loop, "needs more memory than there is");
    return good;
  }
  const MlirAttribute scalar = mlirAttributeParseGet(
      nabla_op_context(loop),
      nabla_ref("#llvm.loop_annotation<vectorize = <disable = true>>"));
  if (mlirAttributeIsNull(scalar)) return false;
  mlirOperationSetAttributeByName(loop, nabla_ref("loop_annotation"), scalar);
  return true;
}

MlirLogicalResult nabla_run_scalar_loops(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_loop, mark, NULL);
}
