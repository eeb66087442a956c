/* See box.h. One function for each rank and element type takes buffers of any
 * strides: it finds at run time how much of the box is one run. */
#include "transforms/copies/box.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/copy_box.h"
#include "transforms/ir/service_text.h"

/* Bytes of a part that is worth a thread; from which an array does not stay in
 * the caches, and of runs that are then stored past them. */
#define PART        65536
#define PAST_CACHES (16 << 20)
#define PAST_RUN    1024

typedef struct box {
  nabla_text text;
  const char *element;
  unsigned bytes;
  intptr_t rank;
} box;

unsigned nabla_box_element_bytes(const char *element) {
  static const struct {
    const char *name;
    unsigned bytes;
  } known[] = {{"f64", 8},  {"i64", 8}, {"f32", 4}, {"i32", 4},
               {"bf16", 2}, {"f16", 2}, {"i8", 1},  {"ui8", 1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, element)) return known[i].bytes;
  return 0;
}

static unsigned bytes_of(MlirType memref, char name[16]) {
  MlirType type = mlirShapedTypeGetElementType(memref);
  nabla_text text = {0};
  nabla_text_add_type(&text, type);
  (void)snprintf(name, 16, "%s", text.data ? text.data : "");
  nabla_text_deinit(&text);
  return nabla_box_element_bytes(name);
}

bool nabla_box_copies(MlirType from, MlirType to) {
  char name[16];
  int64_t all = bytes_of(from, name);
  const intptr_t rank =
      mlirShapedTypeHasRank(from) ? mlirShapedTypeGetRank(from) : 0;
  if (all == 0 || rank < 1 || rank > NABLA_MAX_RANK) return false;
  for (intptr_t i = 0; i < rank; i++) {
    int64_t size = mlirShapedTypeGetDimSize(from, i);
    if (nabla_is_dynamic(size)) size = mlirShapedTypeGetDimSize(to, i);
    if (nabla_is_dynamic(size)) return true;
    if (__builtin_mul_overflow(all, size, &all)) return false;
  }
  return all >= NABLA_BOX_FEWEST;
}

/* The memref type that any buffer of this rank can be cast to. */
static void add_any(box *b) {
  nabla_text_add(&b->text, "memref<");
  for (intptr_t i = 0; i < b->rank; i++) nabla_text_add(&b->text, "?x");
  nabla_text_add(&b->text, "%s, strided<[", b->element);
  for (intptr_t i = 0; i < b->rank; i++)
    nabla_text_add(&b->text, "%s?", i ? ", " : "");
  nabla_text_add(&b->text, "], offset: ?>>");
}

static void add_word(box *b, unsigned word, const char *value, int number) {
  nabla_text_add(&b->text, "  %%w%u = arith.constant %u : index\n", word, word);
  if (number < 0)
    nabla_text_add(&b->text, "  %%q%u = arith.index_cast %%%s : index to i64\n",
                   word, value);
  else
    nabla_text_add(&b->text,
                   "  %%q%u = arith.index_cast %%%s%d : index to i64\n", word,
                   value, number);
  nabla_text_add(&b->text,
                 "  memref.store %%q%u, %%words[%%w%u] : memref<%tdxi64>\n",
                 word, word, NABLA_COPY_BOX_ARGS(b->rank));
}

/* Address, sizes and strides of argument %NAME: %NAMEp, %NAMEn#i, %NAMEs#i. */
static void add_metadata(box *b, const char *name) {
  nabla_text_add(&b->text,
                 "  %%%sb, %%%so, %%%sn:%td, %%%ss:%td = "
                 "memref.extract_strided_metadata %%%s : ",
                 name, name, name, b->rank, name, b->rank, name);
  add_any(b);
  nabla_text_add(&b->text, " -> memref<%s>, index", b->element);
  for (intptr_t i = 0; i < 2 * b->rank; i++)
    nabla_text_add(&b->text, ", index");
  nabla_text_add(&b->text,
                 "\n  %%%si = memref.extract_aligned_pointer_as_index %%%s : ",
                 name, name);
  add_any(b);
  nabla_text_add(&b->text,
                 " -> index\n"
                 "  %%%sob = arith.muli %%%so, %%bytes : index\n"
                 "  %%%sp = arith.addi %%%si, %%%sob : index\n",
                 name, name, name, name, name);
}

/* The run: the last dimension, where it is contiguous in the result, and those
 * before it that continue it in both buffers, become size 1 and its elements
 * %runI; %sI is a size that is left. */
static void add_run(box *b) {
  const intptr_t last = b->rank - 1;
  nabla_text_add(&b->text,
                 "  %%on = arith.cmpi eq, %%bs#%td, %%one : index\n"
                 "  %%on_a = arith.cmpi eq, %%as#%td, %%one : index\n"
                 "  %%run%td = arith.select %%on, %%an#%td, %%one : index\n"
                 "  %%s%td = arith.select %%on, %%one, %%an#%td : index\n"
                 "  %%step = arith.select %%on, %%as#%td, %%one : index\n"
                 "  %%m%td = arith.andi %%on, %%on_a : i1\n",
                 last, last, last, last, last, last, last, last);
  for (intptr_t i = last; i-- > 0;)
    nabla_text_add(
        &b->text,
        "  %%ca%td = arith.cmpi eq, %%as#%td, %%run%td : index\n"
        "  %%cb%td = arith.cmpi eq, %%bs#%td, %%run%td : index\n"
        "  %%cc%td = arith.andi %%ca%td, %%cb%td : i1\n"
        "  %%m%td = arith.andi %%cc%td, %%m%td : i1\n"
        "  %%more%td = arith.muli %%run%td, %%an#%td : index\n"
        "  %%run%td = arith.select %%m%td, %%more%td, %%run%td : index\n"
        "  %%s%td = arith.select %%m%td, %%one, %%an#%td : index\n",
        i, i, i + 1, i, i, i + 1, i, i, i, i, i, i + 1, i, i + 1, i, i, i, i,
        i + 1, i, i, i);
}

/* A box of one run is cut into pieces, which take the place of the last
 * dimension. */
static void add_pieces(box *b) {
  const intptr_t last = b->rank - 1;
  nabla_text_add(&b->text, "  %%u0 = arith.constant 1 : index\n");
  for (intptr_t i = 0; i < b->rank; i++)
    nabla_text_add(&b->text, "  %%u%td = arith.muli %%u%td, %%s%td : index\n",
                   i + 1, i, i);
  nabla_text_add(&b->text,
                 "  %%single = arith.cmpi eq, %%u%td, %%one : index\n"
                 "  %%piece = arith.constant %u : index\n"
                 "  %%pieces = arith.ceildivui %%run0, %%piece : index\n"
                 "  %%before = arith.subi %%pieces, %%one : index\n"
                 "  %%covered = arith.muli %%before, %%piece : index\n"
                 "  %%rest = arith.subi %%run0, %%covered : index\n"
                 "  %%units = arith.select %%single, %%pieces, %%u%td : index\n"
                 "  %%run = arith.select %%single, %%piece, %%run0 : index\n"
                 "  %%none = arith.constant -1 : index\n"
                 "  %%short = arith.select %%single, %%before, %%none : index\n"
                 "  %%piece_x = arith.muli %%piece, %%step : index\n"
                 "  %%size = arith.select %%single, %%pieces, %%s%td : index\n"
                 "  %%dx = arith.select %%single, %%piece_x, %%as#%td : index\n"
                 "  %%dy = arith.select %%single, %%piece, %%bs#%td : index\n"
                 "  %%run_b = arith.muli %%run, %%bytes : index\n"
                 "  %%rest_b = arith.muli %%rest, %%bytes : index\n"
                 "  %%step_b = arith.muli %%step, %%bytes : index\n",
                 b->rank, NABLA_COPY_BOX_PIECE / b->bytes, b->rank, last, last,
                 last);
}

/* Whether lines go past the caches; the fewest units that are worth a thread.
 */
static void add_plan(box *b) {
  nabla_text_add(&b->text,
                 "  %%all = arith.muli %%units, %%run_b : index\n"
                 "  %%large = arith.constant %d : index\n"
                 "  %%long = arith.constant %d : index\n"
                 "  %%is_large = arith.cmpi sge, %%all, %%large : index\n"
                 "  %%is_long = arith.cmpi sge, %%run_b, %%long : index\n"
                 "  %%is_past = arith.andi %%is_large, %%is_long : i1\n"
                 "  %%past = arith.select %%is_past, %%one, %%zero : index\n"
                 "  %%part = arith.constant %d : index\n"
                 "  %%run_1 = arith.maxsi %%run_b, %%one : index\n"
                 "  %%grain = arith.ceildivui %%part, %%run_1 : index\n",
                 PAST_CACHES, PAST_RUN, PART);
}

static void add_words(box *b) {
  static const struct {
    unsigned word;
    const char *value;
  } first[] = {{NABLA_COPY_BOX_X, "ap"},
               {NABLA_COPY_BOX_Y, "bp"},
               {NABLA_COPY_BOX_RUN, "run_b"},
               {NABLA_COPY_BOX_SHORT, "short"},
               {NABLA_COPY_BOX_SHORT_BYTES, "rest_b"},
               {NABLA_COPY_BOX_STEP, "step_b"},
               {NABLA_COPY_BOX_PAST, "past"}};
  for (size_t i = 0; i < sizeof first / sizeof *first; i++)
    add_word(b, first[i].word, first[i].value, -1);
  for (int d = 0; d < b->rank; d++) {
    const bool is_last = d == b->rank - 1;
    char x[16], y[16];
    (void)snprintf(x, sizeof x, is_last ? "dx" : "as#%d", d);
    (void)snprintf(y, sizeof y, is_last ? "dy" : "bs#%d", d);
    nabla_text_add(&b->text,
                   "  %%dx_%d = arith.muli %%%s, %%bytes : index\n"
                   "  %%dy_%d = arith.muli %%%s, %%bytes : index\n",
                   d, x, d, y);
    add_word(b, NABLA_COPY_BOX_WORD((unsigned)d, NABLA_COPY_BOX_SIZE),
             is_last ? "size" : "s", is_last ? -1 : d);
    add_word(b, NABLA_COPY_BOX_WORD((unsigned)d, NABLA_COPY_BOX_DX), "dx_", d);
    add_word(b, NABLA_COPY_BOX_WORD((unsigned)d, NABLA_COPY_BOX_DY), "dy_", d);
  }
}

static void add_function(box *b, const char *name, const char *kernel) {
  nabla_text_add(&b->text, "func.func private @%s(%%a: ", name);
  add_any(b);
  nabla_text_add(&b->text, ", %%b: ");
  add_any(b);
  nabla_text_add(&b->text,
                 ") {\n  %%words = %s() : memref<%tdxi64>\n"
                 "  %%zero = arith.constant 0 : index\n"
                 "  %%one = arith.constant 1 : index\n"
                 "  %%bytes = arith.constant %u : index\n",
                 "memref.alloca", NABLA_COPY_BOX_ARGS(b->rank), b->bytes);
  add_metadata(b, "a");
  add_metadata(b, "b");
  add_run(b);
  add_pieces(b);
  add_plan(b);
  add_words(b);
  nabla_text_add(&b->text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%tdxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
                 "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
                 "  %%n = arith.index_cast %%units : index to i64\n"
                 "  %%g = arith.index_cast %%grain : index to i64\n"
                 "  func.call @nabla_parallel(%%kernel, %%wp, %%n, %%g) : "
                 "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
                 "  return\n}\n",
                 NABLA_COPY_BOX_ARGS(b->rank), kernel);
}

static void add_call(box *b, const MlirType types[2], const char *name) {
  nabla_text_add(&b->text, "func.func @t(%%a: ");
  nabla_text_add_type(&b->text, types[0]);
  nabla_text_add(&b->text, ", %%b: ");
  nabla_text_add_type(&b->text, types[1]);
  nabla_text_add(&b->text, ") {\n");
  for (int i = 0; i < 2; i++) {
    nabla_text_add(&b->text, "  %%c%d = memref.cast %%%c : ", i, "ab"[i]);
    nabla_text_add_type(&b->text, types[i]);
    nabla_text_add(&b->text, " to ");
    add_any(b);
    nabla_text_add(&b->text, "\n");
  }
  nabla_text_add(&b->text, "  func.call @%s(%%c0, %%c1) : (", name);
  add_any(b);
  nabla_text_add(&b->text, ", ");
  add_any(b);
  nabla_text_add(&b->text, ") -> ()\n  return\n}\n");
}

bool nabla_box_replace(MlirOperation op) {
  char element[16], name[64], kernel[64];
  const MlirType types[2] = {nabla_operand_type(op, 0),
                             nabla_operand_type(op, 1)};
  const MlirValue operands[2] = {mlirOperationGetOperand(op, 0),
                                 mlirOperationGetOperand(op, 1)};
  box b = {.element = element,
           .bytes = bytes_of(types[0], element),
           .rank = mlirShapedTypeGetRank(types[0])};
  (void)snprintf(name, sizeof name, "nabla_copy_box_%td_%s", b.rank, element);
  (void)snprintf(kernel, sizeof kernel, "nabla_copy_box_kernel_%td_%u", b.rank,
                 8 * b.bytes);
  add_call(&b, types, name);
  if (!nabla_module_has(op, kernel))
    nabla_copy_box_emit(b.bytes, (unsigned)b.rank, kernel, &b.text);
  else if (!nabla_module_has(op, name))
    nabla_text_add(&b.text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  if (nabla_module_has(op, name)) {
    nabla_text_add(&b.text, "func.func private @%s(", name);
    add_any(&b);
    nabla_text_add(&b.text, ", ");
    add_any(&b);
    nabla_text_add(&b.text, ")\n");
  } else {
    nabla_text_add(&b.text, NABLA_PARALLEL_TEXT);
    add_function(&b, name, kernel);
  }
  const bool done = nabla_template_replace(op, 2, operands, &b.text);
  nabla_text_deinit(&b.text);
  return done;
}
