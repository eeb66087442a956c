/* The function around the kernels of attention: it checks the sizes that only
 * the run knows, chooses a kernel by the number of rows, splits keys where
 * heads are few, and spreads the items over threads. See lower_attention.h. */
#include "transforms/fused/lower_attention.h"

#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/verify/checks.h"
#include "transforms/fused/kernel_call.h"
#include "transforms/fused/slice_operand.h"
#include "transforms/ir/ir.h"
#include "transforms/ir/service_text.h"

/* Multiplications below which threads cost more than they save. */
#define WORTH_THREADS 65536

_Static_assert((int)NABLA_ATTENTION_Y == (int)NABLA_ARG_Y &&
                   (int)NABLA_ATTENTION_HEADS < (int)NABLA_KERNEL_ARGS,
               "nabla_kernel_args_result stores the address of y there");

/* Rows that a thread joins at least. */
#define JOIN_GRAIN 64

enum { Q, K, V, MASK }; /* operands */

typedef struct lowering {
  MlirOperation op;
  nabla_attention_spec spec;
  nabla_text text, name, function;
  nabla_kernel_args call;
  intptr_t rank, count; /* of q; of operands */
  bool has_mask, has_keys;
  uint64_t rows; /* of a head of k; 0: not known */
} lowering;

/* ---- the spec ------------------------------------------------------------
 */

static bool float_dtype(MlirType type, nabla_dtype *out) {
  if (nablaTypeIsAImplicit(type)) return false;
  MlirType element = nabla_array_element(type);
  if (mlirTypeIsAF32(element))
    *out = NABLA_DTYPE_F32;
  else if (mlirTypeIsAF16(element))
    *out = NABLA_DTYPE_F16;
  else if (mlirTypeIsABF16(element))
    *out = NABLA_DTYPE_BF16;
  else
    return false;
  return true;
}

static int64_t dim_at(MlirOperation op, intptr_t operand, intptr_t from_end) {
  MlirType type = nabla_operand_type(op, operand);
  return nabla_array_dim(type, nabla_array_rank(type) - from_end);
}

static nabla_attention_mask mask_of(MlirOperation op) {
  if (!nabla_op_segment(op, 3)) return NABLA_ATTENTION_NO_MASK;
  MlirType element = nabla_array_element(nabla_operand_type(op, MASK));
  return mlirTypeIsAInteger(element) ? NABLA_ATTENTION_TRUTH
                                     : NABLA_ATTENTION_ADDED;
}

const char *nabla_attention_spec_of(MlirOperation op, nabla_features features,
                                    nabla_attention_spec *out) {
  *out = (nabla_attention_spec){.features = features, .mask = mask_of(op)};
  if (!float_dtype(nabla_operand_type(op, Q), &out->q_type) ||
      !float_dtype(nabla_operand_type(op, K), &out->kv_type) ||
      nablaTypeIsAImplicit(nabla_operand_type(op, V)))
    return "q, k and v are not tensors of f32, f16 or bf16";
  if (out->mask && nablaTypeIsAImplicit(nabla_operand_type(op, MASK)))
    return "the mask is not a tensor";
  int64_t head = dim_at(op, Q, 1), value_head = dim_at(op, V, 1);
  if (nabla_is_dynamic(head)) head = dim_at(op, K, 1);
  if (nabla_is_dynamic(head) || nabla_is_dynamic(value_head))
    return "the size of a head is not known";
  out->head = (uint64_t)head;
  out->value_head = (uint64_t)value_head;
  out->causal = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(op, nabla_ref("causal")));
  return nabla_attention_objection(out);
}

/* R where types tell it. */
static uint64_t known_rows(MlirOperation op, intptr_t rank) {
  int64_t queries = dim_at(op, Q, 2), heads = 1, shared = 1;
  uint64_t rows;
  if (rank > 2) heads = dim_at(op, Q, 3), shared = dim_at(op, K, 3);
  if (nabla_is_dynamic(queries) || nabla_is_dynamic(heads) ||
      nabla_is_dynamic(shared) || shared < 1 ||
      __builtin_mul_overflow((uint64_t)queries, (uint64_t)(heads / shared),
                             &rows))
    return 0;
  return rows;
}

/* The scale as an f32: 1 / sqrt(D) where none is given. */
static float scale_of(const lowering *l) {
  MlirAttribute given =
      mlirOperationGetAttributeByName(l->op, nabla_ref("scale"));
  return (float)(mlirAttributeIsNull(given)
                     ? 1 / sqrt((double)l->spec.head)
                     : mlirFloatAttrGetValueDouble(given));
}

/* ---- text ----------------------------------------------------------------
 */

#define ADD(l, ...) nabla_text_add(&(l)->text, __VA_ARGS__)

/* %NAME = arith.OPERATION %A, %B : i64 */
static void two(lowering *l, const char *name, const char *operation,
                const char *a, const char *b) {
  ADD(l, "  %%%s = arith.%s %%%s, %%%s : i64\n", name, operation, a, b);
}

static void constant(lowering *l, const char *name, uint64_t value) {
  ADD(l, "  %%%s = arith.constant %lld : i64\n", name, (long long)value);
}

/* %iI_D as an i64, and %dI_D as an index: dimension D of operand I. */
static void dimension(lowering *l, intptr_t operand, intptr_t dim) {
  const int i = (int)operand, d = (int)dim;
  ADD(l,
      "  %%c%d_%d = arith.constant %d : index\n"
      "  %%d%d_%d = tensor.dim %%a%d, %%c%d_%d : ",
      i, d, d, i, d, i, i, d);
  nabla_text_add_type(&l->text, l->call.types[operand]);
  ADD(l, "\n  %%i%d_%d = arith.index_cast %%d%d_%d : index to i64\n", i, d, i,
      d);
}

static intptr_t rank_at(const lowering *l, intptr_t operand) {
  return mlirShapedTypeGetRank(l->call.types[operand]);
}

static bool is_open(const lowering *l, intptr_t operand, intptr_t dim) {
  return nabla_is_dynamic(
      mlirShapedTypeGetDimSize(l->call.types[operand], dim));
}

/* Requires that %iA_X and %iB_Y are equal, unless types say so. */
static void require(lowering *l, intptr_t a, intptr_t x, intptr_t b,
                    intptr_t y) {
  if (!is_open(l, a, x) && !is_open(l, b, y)) return;
  ADD(l,
      "  func.call @nabla_require_equal(%%i%d_%d, %%i%d_%d, %%where) : (i64, "
      "i64, !llvm.ptr) -> ()\n",
      (int)a, (int)x, (int)b, (int)y);
}

/* %NAME: the product of the dimensions of an operand but for the last two. */
static void heads(lowering *l, const char *name, intptr_t operand) {
  constant(l, name, 1);
  char before[32], next[32], dim[32];
  snprintf(before, sizeof before, "%s", name);
  for (intptr_t i = 0; i + 2 < rank_at(l, operand); i++) {
    snprintf(next, sizeof next, "%s%d", name, (int)i);
    snprintf(dim, sizeof dim, "i%d_%d", (int)operand, (int)i);
    two(l, next, "muli", before, dim);
    snprintf(before, sizeof before, "%s", next);
  }
  ADD(l, "  %%%s_all = arith.maxui %%%s, %%%s : i64\n", name, before, before);
}

/* What types leave open is checked: H a multiple of h, all else equal. */
static void add_checks(lowering *l) {
  const intptr_t r = l->rank;
  for (intptr_t i = 0; i < 3 + l->has_mask; i++)
    for (intptr_t d = 0; d < rank_at(l, i); d++) dimension(l, i, d);
  require(l, Q, r - 1, K, r - 1);
  require(l, K, r - 2, V, r - 2);
  for (intptr_t d = 0; d + 2 < r; d++) {
    require(l, K, d, V, d);
    if (d + 3 < r) require(l, Q, d, K, d);
  }
  constant(l, "one", 1);
  constant(l, "zero", 0);
  if (r > 2 && (is_open(l, Q, r - 3) || is_open(l, K, r - 3))) {
    char heads_q[32], heads_k[32];
    snprintf(heads_q, sizeof heads_q, "i%d_%d", Q, (int)r - 3);
    snprintf(heads_k, sizeof heads_k, "i%d_%d", K, (int)r - 3);
    two(l, "some_heads", "maxui", heads_k, "one");
    two(l, "shares", "divui", heads_q, "some_heads");
    two(l, "shared", "muli", "shares", heads_k);
    ADD(l,
        "  func.call @nabla_require_equal(%%%s, %%shared, %%where) : (i64, "
        "i64, !llvm.ptr) -> ()\n",
        heads_q);
  }
  if (!l->has_mask) return;
  const intptr_t m = rank_at(l, MASK);
  require(l, MASK, m - 1, K, r - 2);
  for (intptr_t d = 2; d <= m; d++) require(l, MASK, m - d, Q, r - d);
}

/* %n: the keys that count. */
static void add_count(lowering *l) {
  char room[32];
  const intptr_t at = 3 + l->has_mask;
  snprintf(room, sizeof room, "i%d_%d", K, (int)l->rank - 2);
  two(l, "room", "maxui", room, "zero");
  if (!l->has_keys) {
    two(l, "n", "maxui", "room", "zero");
    return;
  }
  MlirType type = l->call.types[at];
  const bool is_wide =
      mlirIntegerTypeGetWidth(mlirShapedTypeGetElementType(type)) == 64;
  ADD(l, "  %%%s = tensor.extract %%a%d[] : ", is_wide ? "keys" : "keys_of",
      (int)at);
  nabla_text_add_type(&l->text, type);
  ADD(l, "\n");
  if (!is_wide) ADD(l, "  %%keys = arith.extsi %%keys_of : i32 to i64\n");
  two(l, "some", "maxsi", "keys", "zero");
  two(l, "n", "minsi", "some", "room");
}

/* %rows, %blocks of them, %pieces of %length keys, %items. */
static void add_sizes(lowering *l) {
  char queries[32];
  snprintf(queries, sizeof queries, "i%d_%d", Q, (int)l->rank - 2);
  heads(l, "qh", Q);
  heads(l, "kh", K);
  two(l, "t", "maxui", queries, "zero");
  two(l, "kh_some", "maxui", "kh_all", "one");
  two(l, "group", "divui", "qh_all", "kh_some");
  two(l, "rows", "muli", "group", "t");
  constant(l, "few_rows", NABLA_ATTENTION_FEW);
  constant(l, "block_rows", NABLA_ATTENTION_BLOCK);
  constant(l, "block_keys", NABLA_ATTENTION_KEYS);
  constant(l, "least_items", NABLA_ATTENTION_ITEMS);
  constant(l, "least_keys", NABLA_ATTENTION_PIECE);
  ADD(l, "  %%is_few = arith.cmpi ule, %%rows, %%few_rows : i64\n");
  two(l, "many_blocks", "ceildivui", "rows", "block_rows");
  ADD(l, "  %%blocks = arith.select %%is_few, %%one, %%many_blocks : i64\n");
  two(l, "heads", "muli", "kh_all", "blocks");
  two(l, "heads_some", "maxui", "heads", "one");
  two(l, "wanted", "ceildivui", "least_items", "heads_some");
  two(l, "possible", "divui", "n", "least_keys");
  two(l, "possible_some", "maxui", "possible", "one");
  two(l, "parts", "minui", "wanted", "possible_some");
  two(l, "part", "ceildivui", "n", "parts");
  two(l, "part_blocks", "ceildivui", "part", "block_keys");
  two(l, "part_some", "maxui", "part_blocks", "one");
  two(l, "length", "muli", "part_some", "block_keys");
  two(l, "pieces_of", "ceildivui", "n", "length");
  two(l, "pieces", "maxui", "pieces_of", "one");
  two(l, "all_items", "muli", "heads", "pieces");
  ADD(l,
      "  %%none = arith.cmpi eq, %%rows, %%zero : i64\n"
      "  %%items = arith.select %%none, %%zero, %%all_items : i64\n");
}

/* %rows_all of y, of all heads; %joined of them, 0 where there is one piece. */
static void add_workspace(lowering *l) {
  constant(l, "state", nabla_attention_state_bytes(&l->spec));
  two(l, "rows_all", "muli", "kh_all", "rows");
  ADD(l,
      "  %%single = arith.cmpi eq, %%pieces, %%one : i64\n"
      "  %%joined = arith.select %%single, %%zero, %%rows_all : i64\n");
  two(l, "states", "muli", "joined", "pieces");
  two(l, "work_bytes", "muli", "states", "state");
  ADD(l,
      "  %%work_size = arith.index_cast %%work_bytes : i64 to index\n"
      "  %%work = memref.alloc(%%work_size) {alignment = 64 : i64} : "
      "memref<?xi8>\n"
      "  %%work_i = memref.extract_aligned_pointer_as_index %%work : "
      "memref<?xi8> -> index\n"
      "  %%work_q = arith.index_cast %%work_i : index to i64\n");
}

/* Whether k and v are read with the strides that they have: batches of more
 * than one dimension are not, nor heads of one element, whose stride upstream's
 * reshapes do not keep as 1. */
static bool has_strides(const lowering *l) {
  return l->rank >= 2 && l->rank <= 4 && l->spec.head > 1 &&
         l->spec.value_head > 1;
}

/* The words of the strides of k or v, from `word` on. */
static void add_steps(lowering *l, int arg, intptr_t operand, int word) {
  const intptr_t r = l->rank;
  for (int i = 0; i < 3; i++) { /* batch, head, row */
    const intptr_t dim = r - 4 + i;
    if (has_strides(l) && dim >= 0)
      nabla_kernel_args_stride(&l->call, arg, operand, dim, word + i);
    else if (has_strides(l) || i == 0)
      nabla_kernel_args_store(&l->call, word + i, "zero");
  }
  if (has_strides(l)) return;
  char row[32], head[32];
  snprintf(row, sizeof row, "row_of%d", arg);
  snprintf(head, sizeof head, "head_of%d", arg);
  constant(l, row, operand == K ? l->spec.head : l->spec.value_head);
  two(l, head, "muli", row, "room");
  nabla_kernel_args_store(&l->call, word + 1, head);
  nabla_kernel_args_store(&l->call, word + 2, row);
}

/* %batch_heads: heads of k in a batch; of all, where strides are not read. */
static void add_batch_heads(lowering *l) {
  char heads[32] = "kh_all";
  if (has_strides(l) && l->rank == 4) snprintf(heads, sizeof heads, "i%d_1", K);
  two(l, "batch_heads", "maxui", heads, "one");
  nabla_kernel_args_store(&l->call, NABLA_ATTENTION_HEADS, "batch_heads");
}

/* The words of the kernels. */
static void add_words(lowering *l) {
  static const struct {
    int arg;
    const char *value;
  } words[] = {
      {NABLA_ATTENTION_QUERIES, "t"},     {NABLA_ATTENTION_ROWS, "rows"},
      {NABLA_ATTENTION_ROOM, "room"},     {NABLA_ATTENTION_COUNT, "n"},
      {NABLA_ATTENTION_GROUP, "group"},   {NABLA_ATTENTION_SCALE, "scale"},
      {NABLA_ATTENTION_BLOCKS, "blocks"}, {NABLA_ATTENTION_PIECES, "pieces"},
      {NABLA_ATTENTION_LENGTH, "length"}, {NABLA_ATTENTION_WORK, "work_q"}};
  const float scale = scale_of(l);
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  constant(l, "scale", bits);
  nabla_kernel_args_input(&l->call, NABLA_ATTENTION_Q, Q);
  nabla_kernel_args_input(&l->call, NABLA_ATTENTION_K, K);
  nabla_kernel_args_input(&l->call, NABLA_ATTENTION_V, V);
  add_steps(l, NABLA_ATTENTION_K, K, NABLA_ATTENTION_K_STEPS);
  add_steps(l, NABLA_ATTENTION_V, V, NABLA_ATTENTION_V_STEPS);
  add_batch_heads(l);
  if (l->has_mask) {
    nabla_kernel_args_input(&l->call, NABLA_ATTENTION_MASK, MASK);
    heads(l, "mh", MASK);
    two(l, "mh_some", "maxui", "mh_all", "one");
    nabla_kernel_args_store(&l->call, NABLA_ATTENTION_MASK_HEADS, "mh_some");
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    nabla_kernel_args_store(&l->call, words[i].arg, words[i].value);
  nabla_kernel_args_pointer(&l->call);
}

/* Which of the kernels a module needs. */
static bool may_be_few(const lowering *l) {
  return l->rows <= NABLA_ATTENTION_FEW;
}
static bool may_be_many(const lowering *l) {
  return !l->rows || l->rows > NABLA_ATTENTION_FEW;
}

/* Runs the kernels. */
static void add_runs(lowering *l) {
  const bool both = may_be_few(l) && may_be_many(l);
  if (may_be_few(l))
    ADD(l, "  %%%s = llvm.mlir.addressof @%s_few : !llvm.ptr\n",
        both ? "few" : "kernel", l->name.data);
  if (may_be_many(l))
    ADD(l, "  %%%s = llvm.mlir.addressof @%s_many : !llvm.ptr\n",
        both ? "many" : "kernel", l->name.data);
  if (both)
    ADD(l, "  %%kernel = arith.select %%is_few, %%few, %%many : !llvm.ptr\n");
  constant(l, "worth", WORTH_THREADS / (l->spec.head + l->spec.value_head));
  constant(l, "whole", NABLA_PARALLEL_WHOLE);
  constant(l, "join_grain", NABLA_PARALLEL_WHOLE | JOIN_GRAIN);
  two(l, "scores", "muli", "rows_all", "n");
  two(l, "items_some", "maxui", "items", "one");
  ADD(l,
      "  %%is_small = arith.cmpi ult, %%scores, %%worth : i64\n"
      "  %%unit = arith.select %%is_small, %%items_some, %%one : i64\n"
      "  %%grain = arith.ori %%unit, %%whole : i64\n"
      "  %%join = llvm.mlir.addressof @%s_join : !llvm.ptr\n"
      "  func.call @nabla_parallel(%%kernel, %%wp, %%items, %%grain) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
      "  func.call @nabla_parallel(%%join, %%wp, %%joined, %%join_grain) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
      l->name.data);
}

/* The sizes of the result that its type leaves open, as memref.alloc takes
 * them: "a, %b". */
static void add_result(lowering *l) {
  char sizes[NABLA_MAX_RANK * 16] = "";
  size_t used = 0;
  for (intptr_t i = 0; i < l->rank; i++)
    if (nabla_is_dynamic(mlirShapedTypeGetDimSize(l->call.result, i)))
      used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%sd%d_%d",
                               used ? ", %" : "", Q, (int)i);
  nabla_kernel_args_result(&l->call, sizes);
}

/* ---- the module ----------------------------------------------------------
 */

static void add_kernels(lowering *l) {
  static const char *const suffixes[] = {"_few", "_many", "_join"};
  const bool wanted[] = {may_be_few(l), may_be_many(l), true};
  for (int i = 0; i < 3; i++) {
    nabla_text name = {0};
    if (!wanted[i]) continue;
    nabla_text_add(&name, "%s%s", l->name.data, suffixes[i]);
    if (name.failed)
      l->text.failed = 1;
    else if (nabla_module_has(l->op, name.data))
      ADD(l, "llvm.func @%s(!llvm.ptr, i64, i64)\n", name.data);
    else if (i == 0)
      nabla_attention_emit_few(&l->spec, l->name.data, l->rows, &l->text);
    else if (i == 1)
      nabla_attention_emit_many(&l->spec, l->name.data, &l->text);
    else
      nabla_attention_emit_join(&l->spec, l->name.data, &l->text);
    nabla_text_deinit(&name);
  }
}

static void add_function(lowering *l) {
  add_kernels(l);
  ADD(l, "func.func private @%s", l->function.data);
  if (nabla_module_has(l->op, l->function.data)) {
    nabla_kernel_args_signature(&l->call, false, false);
    ADD(l, "\n");
    return;
  }
  nabla_kernel_args_signature(&l->call, true, true);
  ADD(l,
      " {\n  %%where = llvm.mlir.addressof @nabla_where_attention : "
      "!llvm.ptr\n");
  nabla_kernel_args_open(&l->call);
  add_checks(l);
  add_count(l);
  add_sizes(l);
  add_workspace(l);
  add_result(l);
  add_words(l);
  add_runs(l);
  nabla_kernel_args_return(&l->call);
}

static void add_module(lowering *l) {
  ADD(l, NABLA_PARALLEL_TEXT NABLA_REQUIRE_EQUAL_TEXT
      "llvm.mlir.global internal constant @nabla_where_attention("
      "\"nabla.attention\\00\") {addr_space = 0 : i32}\n");
  add_function(l);
  ADD(l, "func.func @t");
  nabla_kernel_args_signature(&l->call, true, false);
  ADD(l, " {\n  %%y = func.call @%s(", l->function.data);
  for (intptr_t i = 0; i < l->count; i++)
    ADD(l, "%s%%a%d", i ? ", " : "", (int)i);
  ADD(l, ") : ");
  nabla_kernel_args_signature(&l->call, false, false);
  ADD(l, "\n  return %%y : ");
  nabla_text_add_type(&l->text, l->call.result);
  ADD(l, "\n}\n");
}

/* The kernels' name, R where code depends on it, and of the function the
 * types. */
static bool name_all(lowering *l) {
  nabla_attention_name(&l->spec, &l->name);
  if (l->rows && may_be_few(l))
    nabla_text_add(&l->name, l->rows == 1 ? "_one" : "_tile");
  nabla_text_add(&l->function, "%s_%08x", l->name.data ? l->name.data : "",
                 ((union {
                   float f;
                   uint32_t u;
                 }){scale_of(l)})
                     .u);
  for (intptr_t i = 0; i < l->count; i++) {
    MlirType type = l->call.types[i];
    nabla_text_add(&l->function, "_on");
    for (intptr_t d = 0; d < mlirShapedTypeGetRank(type); d++) {
      const int64_t dim = mlirShapedTypeGetDimSize(type, d);
      if (nabla_is_dynamic(dim))
        nabla_text_add(&l->function, "_d");
      else
        nabla_text_add(&l->function, "_%lld", (long long)dim);
    }
    if (mlirShapedTypeGetRank(type) == 0)
      nabla_text_add(
          &l->function, "_i%u",
          mlirIntegerTypeGetWidth(mlirShapedTypeGetElementType(type)));
  }
  return !l->name.failed && !l->function.failed;
}

static void report(const lowering *l) {
  const char *text = may_be_few(l) && may_be_many(l)
                         ? "kernel 'few' for at most 8 rows of a head of k, "
                           "'many' for more"
                     : may_be_few(l) ? "kernel 'few'"
                                     : "kernel 'many'";
  nablaOptimizationRemark(mlirOperationGetLocation(l->op), false,
                          "AttentionKernel", "nabla-lower-fused", text);
}

bool nabla_lower_attention_cpu(MlirOperation op,
                               const nabla_target_settings *settings) {
  lowering l = {.op = op, .count = mlirOperationGetNumOperands(op)};
  MlirValue operands[8];
  const char *why = nabla_attention_spec_of(op, settings->features, &l.spec);
  if (why) {
    nabla_error_at(op, "has no kernel: %s", why);
    return false;
  }
  l.has_mask = nabla_op_segment(op, 3) > 0;
  l.has_keys = nabla_op_segment(op, 4) > 0;
  l.rank = nabla_array_rank(nabla_operand_type(op, Q));
  l.rows = known_rows(op, l.rank);
  l.call.text = &l.text;
  l.call.is_strided[K] = l.call.is_strided[V] = has_strides(&l);
  l.call.result = nabla_result_type(op, 0);
  for (intptr_t i = 0; i < l.count; i++) {
    operands[i] = mlirOperationGetOperand(op, i);
    if (l.call.is_strided[i])
      operands[i] = nabla_slice_in_place(op, operands[i]);
    nabla_kernel_args_add(&l.call, mlirValueGetType(operands[i]));
  }
  bool done = name_all(&l);
  if (done) {
    report(&l);
    add_module(&l);
    done = nabla_template_replace(op, l.count, operands, &l.text);
  } else {
    nabla_error_at(op, "could not be named: out of memory");
  }
  nabla_text_deinit(&l.text);
  nabla_text_deinit(&l.name);
  nabla_text_deinit(&l.function);
  return done;
}
