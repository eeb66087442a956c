/* Lowerings of concatenate and stack: parts are written in place by loops, or,
 * where they are large, copied in runs by a kernel (lib/kernels/copy_rows.h) on
 * the threads of the caller. */
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/copy_rows.h"
#include "transforms/ir/service_text.h"
#include "transforms/lower/list.h"
#include "transforms/lower/move/text.h"
#include "transforms/lower/region.h"

/* Dimension `i` of an operand is dimension i of the result, or, where a stack
 * has its new one before, i + 1. */
static intptr_t place_of(intptr_t i, intptr_t dim, bool is_stack) {
  return is_stack && i >= dim ? i + 1 : i;
}

/* The sizes of the result; those that all operands share are required to be
 * equal. */
static void join_sizes(nabla_template *t, nabla_ssa_tensor *parts, intptr_t dim,
                       bool is_stack, nabla_ssa_tensor *shape) {
  for (intptr_t i = 0; i < parts[0].rank; i++) {
    intptr_t to = place_of(i, dim, is_stack);
    bool sums = to == dim;
    nabla_ssa size = nabla_ssa_tensor_size(t, &parts[0], i);
    for (intptr_t n = 1; n < t->operand_count; n++) {
      if (sums)
        size = nabla_emit_index_op(t, "addi", size,
                                   nabla_ssa_tensor_size(t, &parts[n], i));
      else
        nabla_tensors_agree(t, &parts[0], i, &parts[n], i);
    }
    if (nabla_is_dynamic(shape->dims[to])) shape->sizes[to] = size;
  }
}

static bool lower_join(nabla_template *t, bool is_stack) {
  intptr_t dim = (intptr_t)nabla_op_integer(t->op, "dim", 0);
  intptr_t map[NABLA_MAX_RANK];
  nabla_ssa_tensor parts[NABLA_MAX_OPERANDS];
  nabla_template_open(t);
  for (intptr_t n = 0; n < t->operand_count; n++)
    parts[n] = nabla_template_operand(t, n);
  nabla_ssa_tensor shape = nabla_template_result(t);
  join_sizes(t, parts, dim, is_stack, &shape);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, shape.element->name);
  nabla_ssa zero = nabla_emit_index(t, 0), one = nabla_emit_index(t, 1);
  nabla_ssa at = zero;
  for (intptr_t n = 0; n < t->operand_count; n++) {
    nabla_region box;
    for (intptr_t i = 0; i < shape.rank; i++)
      box.first[i] = zero, box.count[i] = one, box.step[i] = 1;
    for (intptr_t i = 0; i < parts[n].rank; i++) {
      map[i] = place_of(i, dim, is_stack);
      box.count[map[i]] = nabla_ssa_tensor_size(t, &parts[n], i);
    }
    box.first[dim] = at;
    at = nabla_emit_index_op(t, "addi", at, box.count[dim]);
    out = nabla_region_insert(t, &out, &box, &parts[n], map);
  }
  return nabla_template_close(t, out.value);
}

/* ---- concatenate by a kernel ---- */

/* Bytes of a result below which loops are as fast; from which it does not stay
 * in the caches; of a part that is worth a thread. */
#define FEWEST      65536
#define PAST_CACHES (INT64_C(16) << 20)
#define PART        65536

typedef struct joined {
  nabla_ssa_tensor parts[NABLA_MAX_OPERANDS], result;
  intptr_t count;
  int64_t outer;                   /* runs of each part   */
  int64_t run[NABLA_MAX_OPERANDS]; /* bytes of each       */
  int64_t stride;                  /* the sum, in the result */
  bool streams;
} joined;

/* Reads the operands; whether the kernel copies them: static sizes, runs of
 * lines, a large result. */
static bool read_joined(nabla_template *t, intptr_t dim, joined *j) {
  int64_t all;
  *j = (joined){.result = nabla_template_result(t),
                .count = t->operand_count,
                .outer = 1,
                .streams = true};
  for (intptr_t n = 0; n < j->count; n++) {
    nabla_ssa_tensor *part = &j->parts[n];
    *part = nabla_template_operand(t, n);
    j->run[n] = nabla_move_bytes(part->element);
    for (intptr_t i = 0; i < part->rank; i++) {
      int64_t *product = i < dim ? &j->outer : &j->run[n];
      if (nabla_is_dynamic(part->dims[i])) return false;
      if ((i >= dim || n == 0) &&
          __builtin_mul_overflow(*product, part->dims[i], product))
        return false;
    }
    if (j->run[n] < NABLA_COPY_ROWS_LINE ||
        __builtin_add_overflow(j->stride, j->run[n], &j->stride))
      return false;
    j->streams = j->streams && j->run[n] % NABLA_COPY_ROWS_LINE == 0;
  }
  for (intptr_t i = 0; i < j->result.rank; i++)
    if (nabla_is_dynamic(j->result.dims[i])) return false;
  if (__builtin_mul_overflow(j->stride, j->outer, &all)) return false;
  j->streams = j->streams && all >= PAST_CACHES;
  return all >= FEWEST;
}

static void add_types(nabla_text *text, const joined *j, bool names) {
  nabla_text_add(text, "(");
  for (intptr_t n = 0; n < j->count; n++) {
    nabla_text_add(text, "%s", n ? ", " : "");
    if (names) nabla_text_add(text, "%%a%td: ", n);
    nabla_text_add(text, "%s", nabla_ssa_tensor_type(&j->parts[n]).data);
  }
  nabla_text_add(text, ") -> %s", nabla_ssa_tensor_type(&j->result).data);
}

static void add_word(nabla_text *text, const joined *j, intptr_t n, int word,
                     const char *value) {
  const long long at = n * NABLA_COPY_RUNS_ARGS + word;
  nabla_text_add(text,
                 "  %%w%lld = arith.constant %lld : index\n"
                 "  memref.store %%%s%td, %%words[%%w%lld] : memref<%tdxi64>\n",
                 at, at, value, n, at, j->count * NABLA_COPY_RUNS_ARGS);
}

static void add_constant(nabla_text *text, const joined *j, intptr_t n,
                         int word, const char *name, int64_t value) {
  nabla_text_add(text, "  %%%s%td = arith.constant %lld : i64\n", name, n,
                 (long long)value);
  add_word(text, j, n, word, name);
}

/* Runs of part `n`; where it has one, that is cut into several. */
static void add_runs(nabla_text *text, const joined *j, intptr_t n,
                     int64_t *out_count, int64_t *out_grain) {
  int64_t count = j->outer, run = j->run[n], last = run, stride = j->stride;
  if (count == 1 && run >= 2 * PART) {
    count = run / PART;
    last = run - (count - 1) * PART;
    stride = run = PART;
  }
  add_constant(text, j, n, NABLA_COPY_RUNS_BYTES, "run", run);
  add_constant(text, j, n, NABLA_COPY_RUNS_STRIDE, "stride", stride);
  add_constant(text, j, n, NABLA_COPY_RUNS_LAST, "last", count - 1);
  add_constant(text, j, n, NABLA_COPY_RUNS_LAST_BYTES, "rest", last);
  *out_count = count;
  *out_grain = run >= PART ? 1 : (PART - 1) / run + 1;
}

/* Copies part `n` to byte `offset` of the first run of the result. */
static void add_part(nabla_text *text, const joined *j, intptr_t n,
                     int64_t offset) {
  int64_t count, grain;
  nabla_text_add(text,
                 "  %%b%td = bufferization.to_buffer %%a%td read_only : %s to ",
                 n, n, nabla_ssa_tensor_type(&j->parts[n]).data);
  nabla_move_add_buffer(text, &j->parts[n]);
  nabla_text_add(
      text, "\n  %%p%td = memref.extract_aligned_pointer_as_index %%b%td : ", n,
      n);
  nabla_move_add_buffer(text, &j->parts[n]);
  nabla_text_add(text,
                 " -> index\n"
                 "  %%x%td = arith.index_cast %%p%td : index to i64\n"
                 "  %%o%td = arith.constant %lld : i64\n"
                 "  %%y%td = arith.addi %%to, %%o%td : i64\n",
                 n, n, n, (long long)offset, n, n);
  add_word(text, j, n, NABLA_COPY_RUNS_X, "x");
  add_word(text, j, n, NABLA_COPY_RUNS_Y, "y");
  add_runs(text, j, n, &count, &grain);
  nabla_text_add(text,
                 "  %%g%td = arith.constant %lld : i64\n"
                 "  %%n%td = arith.constant %lld : i64\n"
                 "  %%s%td = arith.constant %lld : i64\n"
                 "  %%q%td = arith.addi %%from, %%s%td : i64\n"
                 "  %%wp%td = llvm.inttoptr %%q%td : i64 to !llvm.ptr\n"
                 "  func.call @nabla_parallel(%%kernel, %%wp%td, %%n%td, "
                 "%%g%td) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
                 n, (long long)grain, n, (long long)count, n,
                 (long long)(n * NABLA_COPY_RUNS_ARGS * 8), n, n, n, n, n, n,
                 n);
}

static void add_body(nabla_text *text, const joined *j, const char *kernel) {
  const intptr_t words = j->count * NABLA_COPY_RUNS_ARGS;
  int64_t offset = 0;
  nabla_text_add(text,
                 " {\n  %%words = %s() : memref<%tdxi64>\n"
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%tdxi64> -> index\n"
                 "  %%from = arith.index_cast %%wi : index to i64\n"
                 "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
                 "  %%y = memref.alloc() : ",
                 "memref.alloca", words, words, kernel);
  nabla_move_add_buffer(text, &j->result);
  nabla_text_add(text,
                 "\n  %%yi = memref.extract_aligned_pointer_as_index %%y : ");
  nabla_move_add_buffer(text, &j->result);
  nabla_text_add(text,
                 " -> index\n  %%to = arith.index_cast %%yi : index to i64\n");
  for (intptr_t n = 0; n < j->count; n++) {
    add_part(text, j, n, offset);
    offset += j->run[n];
  }
  nabla_text_add(text,
                 "  %%out = bufferization.to_tensor %%y restrict writable : ");
  nabla_move_add_buffer(text, &j->result);
  nabla_text_add(text, " to %s\n  return %%out : %s\n}\n",
                 nabla_ssa_tensor_type(&j->result).data,
                 nabla_ssa_tensor_type(&j->result).data);
}

static bool join_by_kernel(nabla_template *t, intptr_t dim, const joined *j) {
  nabla_text name = {0};
  const char *kernel =
      j->streams ? "nabla_copy_runs_kernel_past" : "nabla_copy_runs_kernel";
  nabla_text_add(&name, "nabla_concatenate_at%td", dim);
  for (intptr_t n = 0; n < j->count; n++)
    nabla_move_add_name(&name, &j->parts[n]);
  const char *function = name.data ? name.data : "";
  if (nabla_module_has(t->op, kernel))
    nabla_text_add(&t->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  else
    nabla_copy_runs_emit(j->streams, kernel, &t->text);
  nabla_text_add(&t->text, NABLA_PARALLEL_TEXT "func.func private @%s",
                 function);
  add_types(&t->text, j, true);
  add_body(&t->text, j, kernel);
  nabla_template_open(t);
  const nabla_ssa value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = func.call @%s(", value, function);
  for (intptr_t n = 0; n < j->count; n++)
    nabla_text_add(&t->text, "%s%%v%u", n ? ", " : "", j->parts[n].value);
  nabla_text_add(&t->text, ") : ");
  add_types(&t->text, j, false);
  nabla_text_add(&t->text, "\n");
  nabla_text_deinit(&name);
  return nabla_template_close(t, value);
}

bool nabla_lower_concatenate(nabla_template *t) {
  joined j;
  const intptr_t dim = (intptr_t)nabla_op_integer(t->op, "dim", 0);
  if (read_joined(t, dim, &j)) return join_by_kernel(t, dim, &j);
  return lower_join(t, false);
}

bool nabla_lower_stack(nabla_template *t) { return lower_join(t, true); }
