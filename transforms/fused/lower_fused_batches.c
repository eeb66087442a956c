/* Batches of a fused operation: for each function of a kernel one that is
 * called like it, for a range of all columns of all batches, and calls it with
 * the addresses of each batch; see lower_fused.h.
 *
 * Its arguments are an array of i64: the kernel's arguments for the first
 * batch, columns (or rows of x) per batch rounded up to the grain, how
 * many there are, the bytes between batches of y and of the workspace; then,
 * for each dimension of the batch, its size and the bytes between its elements
 * in x and in w. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "transforms/fused/lower_fused.h"
#include "transforms/ir/ir.h"

enum {
  BATCH_ARGS,
  BATCH_EACH,
  BATCH_LIMIT,
  BATCH_Y_STEP,
  BATCH_WORK_STEP,
  BATCH_DIMS,
  BATCH_DIM_WORDS = 3
};

static int words_of(const nabla_fused_lowering *l) {
  return BATCH_DIMS + BATCH_DIM_WORDS * (int)l->dims.batches;
}

/* ---- the function -----------------------------------------------------------
 */

/* %NAME: word `at` of the array %FROM. */
static void load_word(nabla_text *text, const char *from, int at,
                      const char *name) {
  nabla_text_add(text,
                 "  %%%s_at = llvm.getelementptr %%%s[%d] : (!llvm.ptr) -> "
                 "!llvm.ptr, i64\n"
                 "  %%%s = llvm.load %%%s_at : !llvm.ptr -> i64\n",
                 name, from, at, name, name);
}

/* Arguments of the kernel that are different in each batch. */
static const struct {
  const char *name, *step;
  int arg;
} moved[] = {
    {"x", "x_by", NABLA_ARG_X},
    {"w", "w_by", NABLA_ARG_CODES},
    {"y", "y_by", NABLA_ARG_Y},
    {"work", "work_by", NABLA_ARG_WORKSPACE},
};
#define MOVED (sizeof moved / sizeof *moved)

/* %x_by and %w_by, the bytes before batch %b, which is %b's index in each
 * dimension times the bytes between its elements. */
static void add_steps(nabla_text *text, int batches) {
  nabla_text_add(text,
                 "  %%x_by0 = llvm.mlir.constant(0 : i64) : i64\n"
                 "  %%w_by0 = llvm.mlir.constant(0 : i64) : i64\n"
                 "  %%rest0 = llvm.add %%b, %%x_by0 : i64\n");
  for (int i = 0; i < batches; i++) {
    int d = batches - 1 - i; /* the last one is the innermost */
    nabla_text_add(text,
                   "  %%at%d = llvm.urem %%rest%d, %%size%d : i64\n"
                   "  %%rest%d = llvm.udiv %%rest%d, %%size%d : i64\n",
                   i, i, d, i + 1, i, d);
    for (int side = 0; side < 2; side++) {
      const char *name = moved[side].name;
      nabla_text_add(text,
                     "  %%%s_in%d = llvm.mul %%at%d, %%%s_step%d : i64\n"
                     "  %%%s_by%d = llvm.add %%%s_by%d, %%%s_in%d : i64\n",
                     name, i, i, name, d, name, i + 1, name, i, name, i);
    }
  }
  nabla_text_add(text,
                 "  %%x_by = llvm.add %%x_by%d, %%x_by0 : i64\n"
                 "  %%w_by = llvm.add %%w_by%d, %%x_by0 : i64\n"
                 "  %%y_by = llvm.mul %%b, %%y_step : i64\n"
                 "  %%work_by = llvm.mul %%b, %%work_step : i64\n",
                 batches, batches);
}

/* Stores %NAME plus %STEP as word `arg` of %words. */
static void move_word(nabla_text *text, const char *name, const char *step,
                      int arg) {
  nabla_text_add(text,
                 "  %%%s_to = llvm.getelementptr %%words[%d] : (!llvm.ptr) -> "
                 "!llvm.ptr, i64\n"
                 "  %%%s_now = llvm.add %%%s, %%%s : i64\n"
                 "  llvm.store %%%s_now, %%%s_to : i64, !llvm.ptr\n",
                 name, arg, name, name, step, name, name);
}

/* The operands of epilogue steps that have a row for each row of y. */
static uint32_t operands_moved(const nabla_fused_lowering *l) {
  uint32_t mask = 0, at = 0;
  for (uint32_t i = 0; i < l->spec.step_count; i++) {
    if (l->spec.steps[i] == NABLA_STEP_ADD) mask |= 1u << at;
    at += l->spec.steps[i] == NABLA_STEP_ADD ||
          l->spec.steps[i] == NABLA_STEP_BIAS;
  }
  return mask;
}

static void add_loads(const nabla_fused_lowering *l, nabla_text *text) {
  char name[32];
  load_word(text, "args", BATCH_ARGS, "base_i");
  load_word(text, "args", BATCH_EACH, "each");
  load_word(text, "args", BATCH_LIMIT, "limit");
  load_word(text, "args", BATCH_Y_STEP, "y_step");
  load_word(text, "args", BATCH_WORK_STEP, "work_step");
  for (int i = 0; i < (int)l->dims.batches; i++) {
    static const char *const names[] = {"size", "x_step", "w_step"};
    for (int j = 0; j < BATCH_DIM_WORDS; j++) {
      (void)snprintf(name, sizeof name, "%s%d", names[j], i);
      load_word(text, "args", BATCH_DIMS + BATCH_DIM_WORDS * i + j, name);
    }
  }
  nabla_text_add(
      text,
      "  %%base = llvm.inttoptr %%base_i : i64 to !llvm.ptr\n"
      "  %%count = llvm.mlir.constant(%d : i64) : i64\n"
      "  %%words = llvm.alloca %%count x i64 {alignment = 8 : i64} : "
      "(i64) -> !llvm.ptr\n",
      NABLA_KERNEL_ARGS);
  for (int i = 0; i < NABLA_KERNEL_ARGS; i++) {
    (void)snprintf(name, sizeof name, "word%d", i);
    load_word(text, "base", i, name);
    nabla_text_add(text,
                   "  %%word%d_to = llvm.getelementptr %%words[%d] : "
                   "(!llvm.ptr) -> !llvm.ptr, i64\n"
                   "  llvm.store %%word%d, %%word%d_to : i64, !llvm.ptr\n",
                   i, i, i, i);
  }
  for (size_t i = 0; i < MOVED; i++)
    load_word(text, "base", moved[i].arg, moved[i].name);
}

static void add_loop(const nabla_fused_lowering *l, nabla_text *text,
                     const char *kernel) {
  char name[32];
  nabla_text_add(text,
                 "  %%one = llvm.mlir.constant(1 : i64) : i64\n"
                 "  %%zero = llvm.mlir.constant(0 : i64) : i64\n"
                 "  %%less = llvm.sub %%each, %%one : i64\n"
                 "  %%first = llvm.udiv %%begin, %%each : i64\n"
                 "  %%above = llvm.add %%end, %%less : i64\n"
                 "  %%last = llvm.udiv %%above, %%each : i64\n"
                 "  scf.for %%b = %%first to %%last step %%one : i64 {\n"
                 "  %%from = llvm.mul %%b, %%each : i64\n"
                 "  %%low_any = llvm.sub %%begin, %%from : i64\n"
                 "  %%low = llvm.intr.smax(%%low_any, %%zero) : (i64, i64) -> "
                 "i64\n"
                 "  %%high_any = llvm.sub %%end, %%from : i64\n"
                 "  %%high = llvm.intr.smin(%%high_any, %%limit) : (i64, i64) "
                 "-> i64\n");
  add_steps(text, (int)l->dims.batches);
  for (size_t i = 0; i < MOVED; i++)
    move_word(text, moved[i].name, moved[i].step, moved[i].arg);
  uint32_t mask = operands_moved(l);
  for (int i = 0; mask >> i; i++) {
    if (!(mask >> i & 1u)) continue;
    (void)snprintf(name, sizeof name, "word%d", NABLA_ARG_EPILOGUE + i);
    nabla_text_add(text,
                   "  %%%s_now = llvm.add %%%s, %%y_by : i64\n"
                   "  llvm.store %%%s_now, %%%s_to : i64, !llvm.ptr\n",
                   name, name, name, name);
  }
  nabla_text_add(text,
                 "  %%some = llvm.icmp \"slt\" %%low, %%high : i64\n"
                 "  scf.if %%some {\n"
                 "  llvm.call @%s(%%words, %%low, %%high) : (!llvm.ptr, i64, "
                 "i64) -> ()\n  }\n  }\n",
                 kernel);
}

void nabla_fused_batches_name(const nabla_fused_lowering *l, uint32_t class,
                              const char *suffix, nabla_text *out) {
  nabla_text_add(out, "%s%s", l->names[class].data, suffix);
  if (l->dims.batches)
    nabla_text_add(out, "_batches%d_%u", (int)l->dims.batches,
                   (unsigned)operands_moved(l));
}

/* The function for @KERNEL_SUFFIX of a class, or its declaration where the
 * module has it. */
static void add_function(nabla_fused_lowering *l, uint32_t class,
                         const char *suffix) {
  nabla_text name = {0}, kernel = {0};
  nabla_fused_batches_name(l, class, suffix, &name);
  nabla_text_add(&kernel, "%s%s", l->names[class].data, suffix);
  if (name.failed || kernel.failed) {
    l->text.failed = 1;
  } else if (nabla_module_has(l->op, name.data)) {
    nabla_text_add(&l->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", name.data);
  } else {
    nabla_text_add(&l->text,
                   "llvm.func internal @%s(%%args: !llvm.ptr, %%begin: i64, "
                   "%%end: i64) attributes {nabla.kernel, passthrough = "
                   "[\"nounwind\"]} {\n",
                   name.data);
    add_loads(l, &l->text);
    add_loop(l, &l->text, kernel.data);
    nabla_text_add(&l->text, "  llvm.return\n}\n");
  }
  nabla_text_deinit(&name);
  nabla_text_deinit(&kernel);
}

void nabla_fused_add_batches(nabla_fused_lowering *l, uint32_t class) {
  if (!l->dims.batches) return;
  add_function(l, class, "");
  if (nabla_fused_has_prepare(&l->classes[class]))
    add_function(l, class, "_prepare");
}

/* ---- its caller -------------------------------------------------------------
 */

static void store_word(nabla_fused_lowering *l, int at, const char *value) {
  unsigned id = l->serial++;
  nabla_text_add(&l->text,
                 "  %%bw%u = arith.constant %d : index\n"
                 "  memref.store %%%s, %%batch_words[%%bw%u] : "
                 "memref<%dxi64>\n",
                 id, at, value, id, words_of(l));
}

/* %NAME: the bytes between elements of dimension `dim` of argument `index`. */
static void add_step(nabla_fused_lowering *l, const char *name, intptr_t index,
                     int64_t dim, nabla_dtype dtype) {
  char elements[48];
  (void)snprintf(elements, sizeof elements, "%s_elements", name);
  nabla_fused_add_product(l, elements, index, dim + 1);
  nabla_text_add(&l->text,
                 "  %%%s_bytes = arith.constant %u : i64\n"
                 "  %%%s = arith.muli %%%s, %%%s_bytes : i64\n",
                 name, (unsigned)nabla_dtype_bits(dtype) / 8, name, elements,
                 name);
}

/* The elements between rows of x. */
static void add_stride(nabla_fused_lowering *l) {
  nabla_fused_add_product(l, "stride", 0, l->dims.x_free + 1);
  nabla_kernel_args_store(&l->call, NABLA_ARG_X_STRIDE, "stride");
}

void nabla_fused_add_batch_args(nabla_fused_lowering *l) {
  char name[32];
  if (!l->dims.batches) return;
  nabla_text_add(&l->text,
                 "  %%no = arith.constant 0 : i64\n"
                 "  %%batches_0 = arith.constant 1 : i64\n"
                 "  %%batch_words = %s() : memref<%dxi64>\n"
                 "  %%base_i = llvm.ptrtoint %%wp : !llvm.ptr to i64\n",
                 "memref.alloca", words_of(l));
  add_stride(l);
  store_word(l, BATCH_ARGS, "base_i");
  nabla_text_add(&l->text,
                 "  %%y_bytes = arith.constant %u : i64\n"
                 "  %%y_row = arith.muli %%n, %%y_bytes : i64\n"
                 "  %%y_step = arith.muli %%m, %%y_row : i64\n",
                 (unsigned)nabla_dtype_bits(l->spec.y_type) / 8);
  store_word(l, BATCH_Y_STEP, "y_step");
  store_word(l, BATCH_WORK_STEP, "no");
  for (int i = 0; i < (int)l->dims.batches; i++) {
    int at = BATCH_DIMS + BATCH_DIM_WORDS * i;
    (void)snprintf(name, sizeof name, "batch%d", i);
    store_word(l, at, name);
    nabla_text_add(&l->text,
                   "  %%batches_%d = arith.muli %%batches_%d, %%batch%d : "
                   "i64\n",
                   i + 1, i, i);
    (void)snprintf(name, sizeof name, "x_step%d", i);
    add_step(l, name, 0, l->dims.x_batch[i], l->spec.x_type);
    store_word(l, at + 1, name);
    (void)snprintf(name, sizeof name, "w_step%d", i);
    add_step(l, name, 1, l->dims.w_batch[i], l->spec.w_stored);
    store_word(l, at + 2, name);
  }
  nabla_text_add(&l->text,
                 "  %%batches = arith.addi %%batches_%d, %%no : i64\n"
                 "  %%bwi = memref.extract_aligned_pointer_as_index "
                 "%%batch_words : memref<%dxi64> -> index\n"
                 "  %%bwq = arith.index_cast %%bwi : index to i64\n"
                 "  %%bwp = llvm.inttoptr %%bwq : i64 to !llvm.ptr\n",
                 (int)l->dims.batches, words_of(l));
}

void nabla_fused_add_work_step(nabla_fused_lowering *l) {
  if (l->dims.batches) store_word(l, BATCH_WORK_STEP, "work_step");
}

/* The words of a function of the kernel are stored, and it runs for all
 * batches: `limit` of each, in units of `grain`. */
void nabla_fused_add_parallel(nabla_fused_lowering *l, const char *kernel,
                              const char *limit, const char *grain,
                              uint64_t flags) {
  nabla_text *text = &l->text;
  unsigned id = l->serial++;
  nabla_text_add(text,
                 "  %%flags%u = arith.constant %lld : i64\n"
                 "  %%grain_f%u = arith.ori %%%s, %%flags%u : i64\n",
                 id, (long long)flags, id, grain, id);
  if (!l->dims.batches) {
    nabla_text_add(text,
                   "  func.call @nabla_parallel(%%%s, %%wp, %%%s, %%grain_f%u) "
                   ": (!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
                   kernel, limit, id);
    return;
  }
  char value[32];
  nabla_text_add(text,
                 "  %%parts%u = arith.ceildivui %%%s, %%%s : i64\n"
                 "  %%each%u = arith.muli %%parts%u, %%%s : i64\n"
                 "  %%all%u = arith.muli %%batches, %%each%u : i64\n",
                 id, limit, grain, id, id, grain, id, id);
  (void)snprintf(value, sizeof value, "each%u", id);
  store_word(l, BATCH_EACH, value);
  store_word(l, BATCH_LIMIT, limit);
  nabla_text_add(text,
                 "  func.call @nabla_parallel(%%%s, %%bwp, %%all%u, "
                 "%%grain_f%u) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
                 kernel, id, id);
}
