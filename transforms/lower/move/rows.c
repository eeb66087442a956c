/* See rows.h. */
#include "transforms/lower/move/rows.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/copy_rows.h"
#include "transforms/ir/service_text.h"
#include "transforms/lower/move/text.h"

/* Bytes of a result below which loops are as fast; from which it does not stay
 * in the caches; of a part that is worth a thread. */
#define FEWEST      4096
#define PAST_CACHES (INT64_C(16) << 20)
#define PART        65536

/* Whether each index selects one row, whole, and rows are in order. */
static bool takes_rows(const nabla_gather_numbers *dims, const int64_t *sizes,
                       const nabla_row_copy *c) {
  const intptr_t before = dims->result_rank - dims->rank;
  if (dims->rank < 2 || dims->components != 1 || dims->start_of[0] != 0 ||
      dims->offset_of[0] >= 0 || sizes[0] != 1)
    return false;
  for (intptr_t d = 1; d < dims->rank; d++) {
    const int64_t size = c->table.dims[d];
    if (dims->offset_of[d] != before + d || nabla_is_dynamic(size) ||
        (sizes[d] >= 0 && sizes[d] != size))
      return false;
  }
  return dims->vector_dim == dims->index_rank ||
         c->indices.dims[dims->vector_dim] == 1;
}

/* Bytes of a row; false if that is not known or too large. */
static bool find_bytes(nabla_row_copy *c) {
  c->bytes = nabla_move_bytes(c->table.element);
  for (intptr_t d = 1; d < c->table.rank; d++)
    if (__builtin_mul_overflow(c->bytes, c->table.dims[d], &c->bytes))
      return false;
  return c->bytes >= NABLA_COPY_ROWS_LINE;
}

/* Bytes of the result; INT64_MAX beyond that, -1 if not known. */
static int64_t result_bytes(const nabla_row_copy *c) {
  int64_t all = c->bytes;
  for (intptr_t d = 0; d < c->indices.rank; d++) {
    if (nabla_is_dynamic(c->indices.dims[d])) return -1;
    if (__builtin_mul_overflow(all, c->indices.dims[d], &all)) all = INT64_MAX;
  }
  return all;
}

/* The result is known not to stay in the caches, and its rows are lines. */
static bool passes_caches(const nabla_row_copy *c) {
  return c->bytes % NABLA_COPY_ROWS_LINE == 0 && result_bytes(c) >= PAST_CACHES;
}

static void add_types(nabla_text *text, const nabla_row_copy *c,
                      const char *first, const char *second) {
  nabla_text_add(text, "(%s%s, %s%s) -> %s", first,
                 nabla_ssa_tensor_type(&c->table).data, second,
                 nabla_ssa_tensor_type(&c->indices).data,
                 nabla_ssa_tensor_type(&c->result).data);
}

/* %NAME: argument %ARG as a buffer; its address is word `word`. */
static void add_argument(nabla_text *text, const nabla_ssa_tensor *tensor,
                         const char *arg, const char *name) {
  nabla_text_add(text,
                 "  %%%s = bufferization.to_buffer %%%s read_only : %s to ",
                 name, arg, nabla_ssa_tensor_type(tensor).data);
  nabla_move_add_buffer(text, tensor);
  nabla_text_add(text, "\n");
}

static void add_word(nabla_text *text, int word, const char *index) {
  nabla_text_add(text,
                 "  %%w%d = arith.constant %d : index\n"
                 "  %%q%d = arith.index_cast %%%s : index to i64\n"
                 "  memref.store %%q%d, %%words[%%w%d] : memref<%dxi64>\n",
                 word, word, word, index, word, word, NABLA_COPY_ROWS_ARGS);
}

static void add_address(nabla_text *text, int word,
                        const nabla_ssa_tensor *tensor, const char *buffer) {
  char name[24];
  nabla_text_add(
      text, "  %%p%d = memref.extract_aligned_pointer_as_index %%%s : ", word,
      buffer);
  nabla_move_add_buffer(text, tensor);
  nabla_text_add(text, " -> index\n");
  (void)snprintf(name, sizeof name, "p%d", word);
  add_word(text, word, name);
}

/* Sizes of the indices, %d0 ..., and their product, %count. */
static void add_count(nabla_text *text, const nabla_row_copy *c) {
  nabla_text_add(text, "  %%n0 = arith.constant 1 : index\n");
  for (intptr_t d = 0; d < c->indices.rank; d++)
    nabla_text_add(text,
                   "  %%i%td = arith.constant %td : index\n"
                   "  %%d%td = tensor.dim %%a1, %%i%td : %s\n"
                   "  %%n%td = arith.muli %%n%td, %%d%td : index\n",
                   d, d, d, d, nabla_ssa_tensor_type(&c->indices).data, d + 1,
                   d, d);
}

static void add_result(nabla_text *text, const nabla_row_copy *c) {
  const char *comma = "";
  nabla_text_add(text, "  %%y = memref.alloc(");
  for (intptr_t d = 0; d < c->indices.rank; d++) {
    if (!nabla_is_dynamic(c->indices.dims[d])) continue;
    nabla_text_add(text, "%s%%d%td", comma, d);
    comma = ", ";
  }
  nabla_text_add(text, ") : ");
  nabla_move_add_buffer(text, &c->result);
  nabla_text_add(text, "\n");
}

/* A table without rows has failed a check by now: nothing is read of it. */
static void add_call(nabla_text *text, const nabla_row_copy *c,
                     const char *kernel) {
  const int64_t grain = c->bytes >= PART ? 1 : (PART - 1) / c->bytes + 1;
  nabla_text_add(text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%dxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
                 "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
                 "  %%empty = arith.cmpi eq, %%r, %%zero : index\n"
                 "  %%units = arith.select %%empty, %%zero, %%n%td : index\n"
                 "  %%n = arith.index_cast %%units : index to i64\n"
                 "  %%grain = arith.constant %lld : i64\n"
                 "  func.call @nabla_parallel(%%kernel, %%wp, %%n, %%grain) : "
                 "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
                 NABLA_COPY_ROWS_ARGS, kernel, c->indices.rank,
                 (long long)grain);
}

static void add_body(nabla_text *text, const nabla_row_copy *c,
                     const char *kernel) {
  nabla_text_add(text,
                 " {\n  %%words = %s() : memref<%dxi64>\n"
                 "  %%zero = arith.constant 0 : index\n"
                 "  %%one = arith.constant 1 : index\n"
                 "  %%r = tensor.dim %%a0, %%zero : %s\n"
                 "  %%last = arith.subi %%r, %%one : index\n"
                 "  %%bytes = arith.constant %lld : index\n",
                 "memref.alloca", NABLA_COPY_ROWS_ARGS,
                 nabla_ssa_tensor_type(&c->table).data, (long long)c->bytes);
  add_count(text, c);
  add_argument(text, &c->table, "a0", "x");
  add_argument(text, &c->indices, "a1", "places");
  add_result(text, c);
  add_address(text, NABLA_COPY_ROWS_X, &c->table, "x");
  add_address(text, NABLA_COPY_ROWS_INDICES, &c->indices, "places");
  add_address(text, NABLA_COPY_ROWS_Y, &c->result, "y");
  add_word(text, NABLA_COPY_ROWS_LAST, "last");
  add_word(text, NABLA_COPY_ROWS_BYTES, "bytes");
  add_call(text, c, kernel);
  nabla_text_add(text,
                 "  %%out = bufferization.to_tensor %%y restrict writable : ");
  nabla_move_add_buffer(text, &c->result);
  nabla_text_add(text, " to %s\n  return %%out : %s\n}\n",
                 nabla_ssa_tensor_type(&c->result).data,
                 nabla_ssa_tensor_type(&c->result).data);
}

bool nabla_row_copy_begin(nabla_template *t, const nabla_gather_numbers *dims,
                          const int64_t *sizes, nabla_row_copy *out) {
  nabla_row_copy *c = out;
  *c = (nabla_row_copy){.table = nabla_template_operand(t, 0),
                        .indices = nabla_template_operand(t, 1),
                        .result = nabla_template_result(t),
                        .vector_dim = dims->vector_dim};
  if (!takes_rows(dims, sizes, c) || !find_bytes(c)) return false;
  const int64_t all = result_bytes(c);
  if (all >= 0 && all < FEWEST) return false;
  const unsigned bits = strcmp(c->indices.element->name, "i64") ? 32 : 64;
  const bool past = passes_caches(c);
  char kernel[48];
  (void)snprintf(kernel, sizeof kernel, "nabla_copy_rows_kernel_i%u%s", bits,
                 past ? "_past" : "");
  if (nabla_module_has(t->op, kernel))
    nabla_text_add(&t->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  else
    nabla_copy_rows_emit(bits, past, kernel, &t->text);
  nabla_text_add(&c->name, "nabla_copy_rows");
  nabla_move_add_name(&c->name, &c->table);
  nabla_text_add(&c->name, "_by");
  nabla_move_add_name(&c->name, &c->indices);
  nabla_text_add(&c->name, "_at%td", c->vector_dim);
  nabla_text_add(&t->text, NABLA_PARALLEL_TEXT "func.func private @%s",
                 c->name.data ? c->name.data : "");
  add_types(&t->text, c, "%a0: ", "%a1: ");
  add_body(&t->text, c, kernel);
  return true;
}

nabla_ssa nabla_row_copy_call(nabla_template *t, const nabla_row_copy *copy) {
  const nabla_ssa value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = func.call @%s(%%v%u, %%v%u) : ", value,
                 copy->name.data ? copy->name.data : "",
                 nabla_template_operand(t, 0).value,
                 nabla_template_operand(t, 1).value);
  add_types(&t->text, copy, "", "");
  nabla_text_add(&t->text, "\n");
  return value;
}

void nabla_row_copy_deinit(nabla_row_copy *copy) {
  nabla_text_deinit(&copy->name);
}
