/* See along.h: which operations, and the call of their kernels. */
#include "transforms/cluster/along.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "nabla/services.h"
#include "transforms/cluster/body.h"
#include "transforms/cluster/call.h"

enum { WIDE = 64 };                           /* lanes of vectors of bytes */
enum { SUM, MAX, PROD, MIN, MEAN, ANY, ALL }; /* of Nabla_ReduceKind */

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
static bool read_dims(nabla_along *a) {
  int64_t dims[NABLA_MAX_RANK];
  const intptr_t count = nabla_op_integers(a->op, "dims", dims);
  uint32_t bits = 0;
  for (intptr_t i = 0; i < count; i++) bits |= 1u << dims[i];
  if (!bits) return false;
  a->first = __builtin_ctz(bits);
  a->end = a->first + (int)count;
  return a->end < a->rank && bits >> a->first == (1u << count) - 1;
}

/* A call, and the memory of its result, cost more than a small loop. */
static bool is_worth(const nabla_along *a, MlirType type) {
  int64_t all = a->cost, columns = 1;
  bool is_open = false, has_columns = true;
  for (int d = 0; d < a->rank; d++) {
    const int64_t size = mlirShapedTypeGetDimSize(type, d);
    if (nabla_is_dynamic(size)) {
      is_open = true;
      has_columns = has_columns && d < a->end;
      continue;
    }
    if (__builtin_mul_overflow(all, size, &all) || !all ||
        all > NABLA_CLUSTER_MOST)
      return false;
    if (d >= a->end) columns *= size;
  }
  if (has_columns && columns == 1) has_columns = a->kind == NABLA_ALONG_REDUCE;
  return all > 0 && (!has_columns || columns >= 16) &&
         (is_open || all >= NABLA_CLUSTER_LEAST);
}

static bool is_reduction(MlirOperation op, nabla_along *out) {
  static const nabla_cluster_reduction kinds[] = {
      NABLA_CLUSTER_sum, NABLA_CLUSTER_max, NABLA_CLUSTER_prod,
      NABLA_CLUSTER_min, NABLA_CLUSTER_sum, NABLA_CLUSTER_max,
      NABLA_CLUSTER_min};
  if (!nabla_is(op, "nabla.reduce")) return false;
  const int64_t kind = nabla_op_integer(op, "kind", 0);
  out->how = kinds[kind];
  if (out->dtype == NABLA_DTYPE_BOOL && kind == PROD)
    out->how = NABLA_CLUSTER_min;
  out->is_mean = kind == MEAN;
  out->cost = 2 + nabla_cluster_reduction_cost(out->how);
  return read_dims(out) && is_in_memory(mlirOperationGetOperand(op, 0));
}

/* argmax, argmin, cumsum: loops read their operand more than once, or one
 * element after the other, so that it is worth memory. */
static bool is_along_one(MlirOperation op, nabla_along *out) {
  static const struct {
    const char *name;
    nabla_along_kind kind;
  } rows[] = {{"nabla.argmax", NABLA_ALONG_LARGEST},
              {"nabla.argmin", NABLA_ALONG_SMALLEST},
              {"nabla.cumsum", NABLA_ALONG_SUMS}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!nabla_is(op, rows[i].name)) continue;
    out->kind = rows[i].kind;
    out->first = (int)nabla_op_integer(op, "dim", 0);
    out->end = out->first + 1;
    out->cost = 4;
    return true;
  }
  return false;
}

/* Vectors of 64 bytes are for at least as many columns. */
static unsigned lanes_of(const nabla_along *a, MlirType type) {
  int64_t columns = 1;
  if ((a->kind != NABLA_ALONG_REDUCE && a->kind != NABLA_ALONG_SUMS) ||
      nabla_cluster_lane_of(a->dtype)->bytes > 1)
    return NABLA_LANES;
  for (int d = a->end; d < a->rank; d++) {
    const int64_t size = mlirShapedTypeGetDimSize(type, d);
    if (nabla_is_dynamic(size)) return WIDE;
    columns *= size; /* is_worth has found the product small enough */
  }
  return columns < WIDE ? NABLA_LANES : WIDE;
}

bool nabla_along_of(MlirOperation op, nabla_along *out) {
  *out = (nabla_along){.op = op};
  if (mlirOperationGetNumOperands(op) != 1) return false;
  const MlirType type = nabla_operand_type(op, 0);
  if (!mlirTypeIsARankedTensor(type) || !nabla_cluster_dtype(type, &out->dtype))
    return false;
  out->rank = (int)mlirShapedTypeGetRank(type);
  if ((!is_reduction(op, out) && !is_along_one(op, out)) ||
      !is_worth(out, type))
    return false;
  out->lanes = lanes_of(out, type);
  return true;
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

static void add_sizes(const nabla_along *a, nabla_text *text, MlirType type) {
  nabla_text_add(text,
                 "  %%zero = arith.constant 0 : i64\n"
                 "  %%one = arith.constant 1 : i64\n");
  for (int d = 0; d < a->rank; d++) {
    nabla_text_add(text,
                   "  %%i%d = arith.constant %d : index\n"
                   "  %%x%d = tensor.dim %%x, %%i%d : ",
                   d, d, d, d);
    nabla_text_add_type(text, type);
    nabla_text_add(text, "\n  %%d%d = arith.index_cast %%x%d : index to i64\n",
                   d, d);
  }
  add_product(text, "outer", 0, a->first);
  add_product(text, "rows", a->first, a->end);
  add_product(text, "columns", a->end, a->rank);
}

static void add_buffers(const nabla_along *a, nabla_text *text, MlirType type,
                        MlirType result) {
  const char *comma = "";
  nabla_text_add(text, "  %%bx = bufferization.to_buffer %%x read_only : ");
  nabla_text_add_type(text, type);
  nabla_text_add(text, " to ");
  nabla_cluster_add_memref(text, type);
  nabla_text_add(text, "\n  %%by = memref.alloc(");
  for (int d = 0; d < a->rank; d++) {
    const bool is_left_out =
        a->kind != NABLA_ALONG_SUMS && d >= a->first && d < a->end;
    if (is_left_out || !nabla_is_dynamic(mlirShapedTypeGetDimSize(type, d)))
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
static void add_units(const nabla_along *a, nabla_text *text) {
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
                 NABLA_ALONG_BLOCK, NABLA_CLUSTER_TASK_COST / a->cost + 1,
                 (int64_t)NABLA_PARALLEL_WHOLE);
}

/* Whether a row is picked of an unknown number of them, which may be none. */
static bool may_lack_rows(const nabla_along *a) {
  return (a->kind == NABLA_ALONG_LARGEST || a->kind == NABLA_ALONG_SMALLEST) &&
         nabla_is_dynamic(
             mlirShapedTypeGetDimSize(nabla_operand_type(a->op, 0), a->first));
}

static const char *picker(const nabla_along *a) {
  return a->kind == NABLA_ALONG_LARGEST ? "argmax" : "argmin";
}

static void add_requirement(const nabla_along *a, nabla_text *text) {
  nabla_text_add(text,
                 "  %%where = llvm.mlir.addressof @nabla_where_%s : !llvm.ptr\n"
                 "  %%some = arith.minui %%rows, %%one : i64\n"
                 "  func.call @nabla_require_equal(%%some, %%one, %%where) : "
                 "(i64, i64, !llvm.ptr) -> ()\n",
                 picker(a));
}

void nabla_along_write_call(const nabla_along *a, const char *name,
                            const char *kernel, nabla_text *text) {
  static const char *const words[] = {"bx_q", "by_q", "rows", "columns"};
  const MlirType type = nabla_operand_type(a->op, 0);
  const MlirType result = nabla_result_type(a->op, 0);
  nabla_text_add(text, "func.func private @%s(%%x: ", name);
  nabla_text_add_type(text, type);
  nabla_text_add(text, ") -> ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, " {\n  %%words = %s() : memref<%dxi64>\n",
                 "memref.alloca", NABLA_ALONG_WORDS);
  add_sizes(a, text, type);
  if (may_lack_rows(a)) add_requirement(a, text);
  add_buffers(a, text, type, result);
  for (int i = 0; i < NABLA_ALONG_WORDS; i++)
    nabla_cluster_add_word(text, NABLA_ALONG_WORDS, i, words[i]);
  add_units(a, text);
  nabla_cluster_add_parallel(text, NABLA_ALONG_WORDS, kernel);
  nabla_text_add(text,
                 "  %%y = bufferization.to_tensor %%by restrict writable : ");
  nabla_cluster_add_memref(text, result);
  nabla_text_add(text, " to ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, "\n  return %%y : ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, "\n}\n");
  if (may_lack_rows(a))
    nabla_text_add(text,
                   "llvm.mlir.global internal constant @nabla_where_%s("
                   "\"nabla.%s\\00\") {addr_space = 0 : i32}\n",
                   picker(a), picker(a));
}
