/* See call.h. */
#include "transforms/cluster/call.h"

#include <inttypes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "nabla/services.h"

void nabla_cluster_add_memref(nabla_text *text, MlirType tensor) {
  nabla_text_add(text, "memref<");
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(tensor); i++) {
    const int64_t dim = mlirShapedTypeGetDimSize(tensor, i);
    if (nabla_is_dynamic(dim))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%" PRId64 "x", dim);
  }
  nabla_text_add_type(text, mlirShapedTypeGetElementType(tensor));
  nabla_text_add(text, ">");
}

/* Whether an element of an input is read where the element of a result at the
 * same place is written, and nowhere else. */
static bool is_in_place(const nabla_cluster *c, const nabla_cluster_input *in) {
  if (nabla_cluster_reduces(c) ||
      mlirShapedTypeGetRank(mlirValueGetType(in->value)) != c->rank)
    return false;
  for (int d = 0; d < c->rank; d++)
    if (in->map[d] != d) return false;
  return true;
}

/* The inputs in whose memory a result may be (NABLA_CLUSTER_IN_PLACE). */
static void add_in_place(const nabla_cluster *c, nabla_text *text) {
  bool has_any = false;
  for (int i = 0; i < c->input_count; i++) {
    if (!is_in_place(c, &c->inputs[i])) continue;
    nabla_text_add(text, "%s%d",
                   has_any ? ", "
                           : " attributes {" NABLA_CLUSTER_IN_PLACE
                             " = array<i64: ",
                   i);
    has_any = true;
  }
  if (has_any) nabla_text_add(text, ">}");
}

static void add_signature(const nabla_cluster *c, nabla_text *text) {
  for (int i = 0; i < c->input_count; i++) {
    nabla_text_add(text, "%s%%a%d: ", i ? ", " : "", i);
    nabla_text_add_type(text, mlirValueGetType(c->inputs[i].value));
  }
  for (int i = 0; i < c->check_count; i++)
    nabla_text_add(text, "%s%%s%d: index", i || c->input_count ? ", " : "", i);
  nabla_text_add(text, ") -> (");
  for (int i = 0; i < c->output_count; i++) {
    if (i) nabla_text_add(text, ", ");
    nabla_text_add_type(text, mlirValueGetType(c->outputs[i].value));
  }
  nabla_text_add(text, ")");
  add_in_place(c, text);
  nabla_text_add(text, " {\n");
}

/* Size of a dimension of an input, as the i64 %NAME. */
static void add_size(const nabla_cluster *c, nabla_text *text, const char *name,
                     int input, int dim) {
  MlirType type = mlirValueGetType(c->inputs[input].value);
  const int64_t size = mlirShapedTypeGetDimSize(type, dim);
  if (!nabla_is_dynamic(size)) {
    nabla_text_add(text, "  %%%s = arith.constant %" PRId64 " : i64\n", name,
                   size);
    return;
  }
  nabla_text_add(text,
                 "  %%%s_c = arith.constant %d : index\n"
                 "  %%%s_d = tensor.dim %%a%d, %%%s_c : ",
                 name, dim, name, input, name);
  nabla_text_add_type(text, type);
  nabla_text_add(text, "\n  %%%s = arith.index_cast %%%s_d : index to i64\n",
                 name, name);
}

/* %dN, the size of dimension N of the space: that of the type, of an input, or
 * of a check. */
static bool add_dim(const nabla_cluster *c, nabla_text *text, int dim) {
  char name[16];
  (void)snprintf(name, sizeof name, "d%d", dim);
  if (!nabla_is_dynamic(c->dims[dim])) {
    nabla_text_add(text, "  %%d%d = arith.constant %" PRId64 " : i64\n", dim,
                   c->dims[dim]);
    return true;
  }
  for (int i = 0; i < c->input_count; i++) {
    if (c->inputs[i].map[dim] < 0) continue;
    add_size(c, text, name, i, c->inputs[i].map[dim]);
    return true;
  }
  for (int i = 0; i < c->check_count; i++) {
    if (c->checks[i].dim != dim) continue;
    nabla_text_add(text, "  %%d%d = arith.index_cast %%s%d : index to i64\n",
                   dim, i);
    return true;
  }
  return false;
}

/* Symbols of operations: "nabla.add" is @nabla_where_add. */
static void add_where(nabla_text *text, const char *name) {
  nabla_text_add(text,
                 "  %%w_%s = llvm.mlir.addressof @nabla_where_%s : "
                 "!llvm.ptr\n",
                 name + 6, name + 6);
}

static void add_required(nabla_text *text, const char *size, int dim,
                         const char *name) {
  nabla_text_add(text,
                 "  func.call @nabla_require_equal(%%d%d, %%%s, %%w_%s) : "
                 "(i64, i64, !llvm.ptr) -> ()\n",
                 dim, size, name + 6);
}

static bool is_known(const nabla_cluster *c, int input, int dim) {
  const int64_t size = mlirShapedTypeGetDimSize(
      mlirValueGetType(c->inputs[input].value), c->inputs[input].map[dim]);
  return !nabla_is_dynamic(size) && !nabla_is_dynamic(c->dims[dim]);
}

/* The first that has dimension `dim` is the one that the others are compared
 * with. */
static void add_checks(const nabla_cluster *c, nabla_text *text) {
  char size[24];
  bool has_first[NABLA_CLUSTER_RANK];
  for (int d = 0; d < c->rank; d++)
    has_first[d] = !nabla_is_dynamic(c->dims[d]);
  for (int i = 0; i < c->input_count; i++)
    for (int d = 0; d < c->rank; d++) {
      if (c->inputs[i].map[d] < 0) continue;
      const bool is_first = !has_first[d];
      has_first[d] = true;
      if (is_first || is_known(c, i, d)) continue;
      (void)snprintf(size, sizeof size, "r%d_%d", i, d);
      add_size(c, text, size, i, c->inputs[i].map[d]);
      add_required(text, size, d, c->inputs[i].name);
    }
  for (int i = 0; i < c->check_count; i++) {
    (void)snprintf(size, sizeof size, "k%d", i);
    nabla_text_add(text, "  %%k%d = arith.index_cast %%s%d : index to i64\n", i,
                   i);
    add_required(text, size, c->checks[i].dim, c->checks[i].name);
  }
}

void nabla_cluster_add_word(nabla_text *text, int words, int word,
                            const char *value) {
  nabla_text_add(text,
                 "  %%n%d = arith.constant %d : index\n"
                 "  memref.store %%%s, %%words[%%n%d] : memref<%dxi64>\n",
                 word, word, value, word, words);
}

static void add_word(nabla_text *text, int words, int word, const char *format,
                     int number) {
  char value[24];
  (void)snprintf(value, sizeof value, format, number);
  nabla_cluster_add_word(text, words, word, value);
}

void nabla_cluster_add_address(nabla_text *text, const char *buffer,
                               MlirType type) {
  nabla_text_add(text,
                 "  %%%s_p = memref.extract_aligned_pointer_as_index %%%s : ",
                 buffer, buffer);
  nabla_cluster_add_memref(text, type);
  nabla_text_add(text,
                 " -> index\n"
                 "  %%%s_q = arith.index_cast %%%s_p : index to i64\n",
                 buffer, buffer);
}

static void add_inputs(const nabla_cluster *c, nabla_text *text, int words) {
  char name[16];
  for (int i = 0; i < c->input_count; i++) {
    MlirType type = mlirValueGetType(c->inputs[i].value);
    nabla_text_add(
        text, "  %%b%d = bufferization.to_buffer %%a%d read_only : ", i, i);
    nabla_text_add_type(text, type);
    nabla_text_add(text, " to ");
    nabla_cluster_add_memref(text, type);
    nabla_text_add(text, "\n");
    (void)snprintf(name, sizeof name, "b%d", i);
    nabla_cluster_add_address(text, name, type);
    add_word(text, words, i, "b%d_q", i);
  }
}

static void add_outputs(const nabla_cluster *c, nabla_text *text, int words) {
  char name[16];
  for (int i = 0; i < c->output_count; i++) {
    MlirType type = mlirValueGetType(c->outputs[i].value);
    bool first = true;
    nabla_text_add(text, "  %%y%d = memref.alloc(", i);
    for (intptr_t d = 0; d < mlirShapedTypeGetRank(type); d++) {
      if (!nabla_is_dynamic(mlirShapedTypeGetDimSize(type, d))) continue;
      nabla_text_add(text, "%s%%x%d", first ? "" : ", ", (int)d);
      first = false;
    }
    nabla_text_add(text, ") : ");
    nabla_cluster_add_memref(text, type);
    nabla_text_add(text, "\n");
    (void)snprintf(name, sizeof name, "y%d", i);
    nabla_cluster_add_address(text, name, type);
    add_word(text, words, c->input_count + i, "y%d_q", i);
  }
}

static void add_product(nabla_text *text, const char *name, int first,
                        int end) {
  nabla_text_add(text, "  %%%s_0 = arith.constant 1 : i64\n", name);
  for (int d = first; d < end; d++)
    nabla_text_add(text, "  %%%s_%d = arith.muli %%%s_%d, %%d%d : i64\n", name,
                   d - first + 1, name, d - first, d);
}

/* %units, %grain */
static void add_units(const nabla_cluster *c, nabla_text *text) {
  int64_t cost = 2;
  for (int i = 0; i < c->node_count; i++)
    cost += nabla_cluster_cost(&c->nodes[i]);
  const int rows = c->split, columns = c->rank - c->split;
  const bool reduces = nabla_cluster_reduces(c);
  add_product(text, "rows", 0, c->split);
  add_product(text, "columns", c->split, c->rank);
  nabla_text_add(text,
                 "  %%one = arith.constant 1 : i64\n"
                 "  %%zero = arith.constant 0 : i64\n"
                 "  %%block = arith.constant %u : i64\n"
                 "  %%task = arith.constant %" PRId64
                 " : i64\n"
                 "  %%whole = arith.constant %" PRId64 " : i64\n",
                 NABLA_CLUSTER_BLOCK, NABLA_CLUSTER_TASK_COST / cost + 1,
                 (int64_t)NABLA_PARALLEL_WHOLE);
  if (reduces)
    nabla_text_add(text, "  %%blocks = arith.constant 1 : i64\n");
  else
    nabla_text_add(text,
                   "  %%blocks = arith.ceildivui %%columns_%d, %%block : i64\n",
                   columns);
  nabla_text_add(text,
                 "  %%units_0 = arith.muli %%rows_%d, %%blocks : i64\n"
                 "  %%size_0 = arith.%s %%columns_%d, %%%s : i64\n"
                 "  %%size = arith.maxui %%size_0, %%one : i64\n"
                 "  %%grain_0 = arith.ceildivui %%task, %%size : i64\n"
                 "  %%grain = arith.ori %%grain_0, %%whole : i64\n",
                 rows, reduces ? "ori" : "minui", columns,
                 reduces ? "zero" : "block");
  bool has_rows = false;
  for (int i = 0; i < c->output_count; i++)
    has_rows = has_rows || c->nodes[c->outputs[i].node].shape != 0;
  if (has_rows) {
    nabla_text_add(text, "  %%units = arith.ori %%units_0, %%zero : i64\n");
    return;
  }
  nabla_text_add(text,
                 "  %%empty = arith.cmpi eq, %%columns_%d, %%zero : i64\n"
                 "  %%units = arith.select %%empty, %%zero, %%units_0 : i64\n",
                 columns);
}

void nabla_cluster_add_parallel(nabla_text *text, int words,
                                const char *kernel) {
  nabla_text_add(
      text,
      "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
      "memref<%dxi64> -> index\n"
      "  %%wq = arith.index_cast %%wi : index to i64\n"
      "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
      "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
      "  func.call @nabla_parallel(%%kernel, %%wp, %%units, %%grain) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
      words, kernel);
}

static void add_run(const nabla_cluster *c, nabla_text *text,
                    const char *kernel) {
  const int words = nabla_cluster_words(c);
  nabla_text_add(text, "  %%words = %s() : memref<%dxi64>\n", "memref.alloca",
                 words);
  add_inputs(c, text, words);
  add_outputs(c, text, words);
  for (int d = 0; d < c->rank; d++)
    add_word(text, words, c->input_count + c->output_count + d, "d%d", d);
  add_units(c, text);
  nabla_cluster_add_parallel(text, words, kernel);
}

static void add_return(const nabla_cluster *c, nabla_text *text) {
  for (int i = 0; i < c->output_count; i++) {
    MlirType type = mlirValueGetType(c->outputs[i].value);
    nabla_text_add(
        text, "  %%o%d = bufferization.to_tensor %%y%d restrict writable : ", i,
        i);
    nabla_cluster_add_memref(text, type);
    nabla_text_add(text, " to ");
    nabla_text_add_type(text, type);
    nabla_text_add(text, "\n");
  }
  nabla_text_add(text, "  return ");
  for (int i = 0; i < c->output_count; i++)
    nabla_text_add(text, "%s%%o%d", i ? ", " : "", i);
  nabla_text_add(text, " : ");
  for (int i = 0; i < c->output_count; i++) {
    if (i) nabla_text_add(text, ", ");
    nabla_text_add_type(text, mlirValueGetType(c->outputs[i].value));
  }
  nabla_text_add(text, "\n}\n");
}

/* The names of the operations that compare sizes, each once. */
static void each_name(const nabla_cluster *c, nabla_text *text,
                      void (*add)(nabla_text *text, const char *name)) {
  const char *names[NABLA_CLUSTER_INPUTS + NABLA_CLUSTER_CHECKS];
  int count = 0;
  for (int i = 0; i < c->input_count + c->check_count; i++) {
    const char *name = i < c->input_count ? c->inputs[i].name
                                          : c->checks[i - c->input_count].name;
    bool is_new = true;
    for (int j = 0; j < count; j++)
      is_new = is_new && strcmp(names[j], name) != 0;
    if (!is_new) continue;
    names[count++] = name;
    add(text, name);
  }
}

static void add_name(nabla_text *text, const char *name) {
  nabla_text_add(text,
                 "llvm.mlir.global internal constant @nabla_where_%s("
                 "\"%s\\00\") {addr_space = 0 : i32}\n",
                 name + 6, name);
}

bool nabla_cluster_write_call(const nabla_cluster *c, const char *name,
                              const char *kernel, nabla_text *text) {
  each_name(c, text, add_name);
  nabla_text_add(text, "func.func private @%s(", name);
  add_signature(c, text);
  each_name(c, text, add_where);
  for (int d = 0; d < c->rank; d++) {
    if (!add_dim(c, text, d)) return false;
    nabla_text_add(text, "  %%x%d = arith.index_cast %%d%d : i64 to index\n", d,
                   d);
  }
  add_checks(c, text);
  add_run(c, text, kernel);
  add_return(c, text);
  return true;
}
