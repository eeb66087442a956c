/* See column_reduction.h: which operations, and the call of their kernels. */
#include "transforms/cluster/column_reduction.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "nabla/services.h"
#include "transforms/cluster/call.h"

enum { SUM, MAX, PROD, MIN, MEAN }; /* of Nabla_ReduceKind */

/* ---- which operations ---------------------------------------------------- */

/* Whether an array is in memory anyway. Others may be computed where they are
 * read, by loops that do not keep them. */
static bool is_in_memory(MlirValue value) {
  static const char *const names[] = {"func.call",         "nabla.transpose",
                                      "nabla.dot_general", "nabla.conv_general",
                                      "nabla.reduce",      "nabla.constant"};
  MlirOperation made = nabla_defining_op(value);
  while (!mlirOperationIsNull(made) && nabla_is(made, "nabla.reshape"))
    made = nabla_defining_op(mlirOperationGetOperand(made, 0));
  if (mlirOperationIsNull(made)) return true;
  if (nabla_is(made, "nabla.constant")) {
    MlirAttribute all =
        mlirOperationGetAttributeByName(made, nabla_ref("value"));
    return mlirAttributeIsADenseElements(all) &&
           !mlirDenseElementsAttrIsSplat(all);
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (nabla_is(made, names[i])) return true;
  return false;
}

/* The reduced dimensions, if they are neighbours and the last is not one. */
static bool read_dims(nabla_column_reduction *r) {
  int64_t dims[NABLA_MAX_RANK];
  const intptr_t count = nabla_op_integers(r->op, "dims", dims);
  uint32_t bits = 0;
  for (intptr_t i = 0; i < count; i++) bits |= 1u << dims[i];
  if (!bits) return false;
  r->first = __builtin_ctz(bits);
  r->end = r->first + (int)count;
  return r->end < r->rank && bits >> r->first == (1u << count) - 1;
}

/* A call, and the memory of its result, cost more than a small loop. */
static bool is_worth(const nabla_column_reduction *r, MlirType type) {
  int64_t all = 2 + nabla_cluster_reduction_cost(r->how), columns = 1;
  bool is_open = false, has_columns = true;
  for (int d = 0; d < r->rank; d++) {
    const int64_t size = mlirShapedTypeGetDimSize(type, d);
    if (nabla_is_dynamic(size)) {
      is_open = true;
      has_columns = has_columns && d < r->end;
      continue;
    }
    if (__builtin_mul_overflow(all, size, &all) || all > NABLA_CLUSTER_MOST)
      return false;
    if (d >= r->end) columns *= size;
  }
  return all > 0 && (!has_columns || columns >= 16) &&
         (is_open || all >= NABLA_CLUSTER_LEAST);
}

bool nabla_column_reduction_of(MlirOperation op, nabla_column_reduction *out) {
  static const nabla_cluster_reduction kinds[] = {
      NABLA_CLUSTER_sum, NABLA_CLUSTER_max, NABLA_CLUSTER_prod,
      NABLA_CLUSTER_min, NABLA_CLUSTER_sum};
  if (!nabla_is(op, "nabla.reduce")) return false;
  const MlirType type = nabla_operand_type(op, 0);
  const int64_t kind = nabla_op_integer(op, "kind", 0);
  *out = (nabla_column_reduction){.op = op};
  if (kind > MEAN || !nabla_cluster_dtype(type, &out->dtype) ||
      out->dtype == NABLA_DTYPE_BOOL)
    return false;
  out->how = kinds[kind];
  out->is_mean = kind == MEAN;
  out->rank = (int)mlirShapedTypeGetRank(type);
  out->keeps = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref("keep_dims")));
  return read_dims(out) && is_worth(out, type) &&
         is_in_memory(mlirOperationGetOperand(op, 0));
}

/* ---- the call ------------------------------------------------------------ */

/* %NAME, an i64: the product of dimensions [first, end) of %x. */
static void add_product(nabla_text *text, const char *name, int first,
                        int end) {
  nabla_text_add(text, "  %%%s_%d = arith.constant 1 : i64\n", name, first);
  for (int d = first; d < end; d++)
    nabla_text_add(text, "  %%%s_%d = arith.muli %%%s_%d, %%d%d : i64\n", name,
                   d + 1, name, d, d);
  nabla_text_add(text, "  %%%s = arith.addi %%%s_%d, %%zero : i64\n", name,
                 name, end);
}

static void add_sizes(const nabla_column_reduction *r, nabla_text *text,
                      MlirType type) {
  nabla_text_add(text,
                 "  %%zero = arith.constant 0 : i64\n"
                 "  %%one = arith.constant 1 : i64\n");
  for (int d = 0; d < r->rank; d++) {
    nabla_text_add(text,
                   "  %%i%d = arith.constant %d : index\n"
                   "  %%x%d = tensor.dim %%x, %%i%d : ",
                   d, d, d, d);
    nabla_text_add_type(text, type);
    nabla_text_add(text, "\n  %%d%d = arith.index_cast %%x%d : index to i64\n",
                   d, d);
  }
  add_product(text, "outer", 0, r->first);
  add_product(text, "rows", r->first, r->end);
  add_product(text, "columns", r->end, r->rank);
}

static void add_buffers(const nabla_column_reduction *r, nabla_text *text,
                        MlirType type, MlirType result) {
  const char *comma = "";
  nabla_text_add(text, "  %%bx = bufferization.to_buffer %%x read_only : ");
  nabla_text_add_type(text, type);
  nabla_text_add(text, " to ");
  nabla_cluster_add_memref(text, type);
  nabla_text_add(text, "\n  %%by = memref.alloc(");
  for (int d = 0; d < r->rank; d++) {
    if ((d >= r->first && d < r->end) ||
        !nabla_is_dynamic(mlirShapedTypeGetDimSize(type, d)))
      continue;
    nabla_text_add(text, "%s%%x%d", comma, d);
    comma = ", ";
  }
  nabla_text_add(text, ") : ");
  nabla_cluster_add_memref(text, result);
  nabla_text_add(text, "\n");
  nabla_cluster_add_address(text, "bx", type);
  nabla_cluster_add_address(text, "by", result);
}

/* Blocks of columns of each matrix; none where there are no columns. */
static void add_units(const nabla_column_reduction *r, nabla_text *text) {
  const int cost = 2 + nabla_cluster_reduction_cost(r->how);
  nabla_text_add(text,
                 "  %%block = arith.constant %d : i64\n"
                 "  %%whole_blocks = arith.divui %%columns, %%block : i64\n"
                 "  %%blocks = arith.maxui %%whole_blocks, %%one : i64\n"
                 "  %%empty = arith.cmpi eq, %%columns, %%zero : i64\n"
                 "  %%all = arith.muli %%outer, %%blocks : i64\n"
                 "  %%units = arith.select %%empty, %%zero, %%all : i64\n"
                 "  %%width = arith.minui %%columns, %%block : i64\n"
                 "  %%work = arith.muli %%width, %%rows : i64\n"
                 "  %%size = arith.maxui %%work, %%one : i64\n"
                 "  %%task = arith.constant %d : i64\n"
                 "  %%least = arith.ceildivui %%task, %%size : i64\n"
                 "  %%flag = arith.constant %" PRId64
                 " : i64\n"
                 "  %%grain = arith.ori %%least, %%flag : i64\n",
                 NABLA_COLUMN_BLOCK, NABLA_CLUSTER_TASK_COST / cost + 1,
                 (int64_t)NABLA_PARALLEL_WHOLE);
}

void nabla_column_reduction_write_call(const nabla_column_reduction *r,
                                       const char *name, const char *kernel,
                                       nabla_text *text) {
  static const char *const words[] = {"bx_q", "by_q", "rows", "columns"};
  const MlirType type = nabla_operand_type(r->op, 0);
  const MlirType result = nabla_result_type(r->op, 0);
  nabla_text_add(text, "func.func private @%s(%%x: ", name);
  nabla_text_add_type(text, type);
  nabla_text_add(text, ") -> ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, " {\n  %%words = %s() : memref<%dxi64>\n",
                 "memref.alloca", NABLA_COLUMN_WORDS);
  add_sizes(r, text, type);
  add_buffers(r, text, type, result);
  for (int i = 0; i < NABLA_COLUMN_WORDS; i++)
    nabla_cluster_add_word(text, NABLA_COLUMN_WORDS, i, words[i]);
  add_units(r, text);
  nabla_cluster_add_parallel(text, NABLA_COLUMN_WORDS, kernel);
  nabla_text_add(text,
                 "  %%y = bufferization.to_tensor %%by restrict writable : ");
  nabla_cluster_add_memref(text, result);
  nabla_text_add(text, " to ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, "\n  return %%y : ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, "\n}\n");
}
