/* See copy_rows.h. A row is copied in steps of four lines, then in lines; the
 * same lines of the row that comes next are prefetched meanwhile, since its
 * address depends on an index. Runs that stay in the caches are copied by
 * memcpy, which is faster there: x is read in order. */
#include "lib/kernels/copy_rows.h"

#include <stdio.h>

#define LINE NABLA_COPY_ROWS_LINE
#define STEP 4u /* lines */

/* Blocks: rows of the result, steps and lines of a row, and its last bytes. */
static const char opening[] =
    "  %one = llvm.mlir.constant(1 : i64) : i64\n"
    "  %zero = llvm.mlir.constant(0 : i64) : i64\n"
    "  %final = llvm.sub %end, %one : i64\n"
    "  llvm.br ^rows(%begin : i64)\n"
    "^rows(%u: i64):\n"
    "  %more = llvm.icmp \"slt\" %u, %end : i64\n"
    "  llvm.cond_br %more, ^row, ^done\n"
    "^row:\n"
    "  %u1 = llvm.add %u, %one : i64\n"
    "  %un = llvm.intr.smin(%u1, %final) : (i64, i64) -> i64\n";

/* Rows of a table: %bytes is one of the arguments. */
static const char row_of_result[] =
    "  %ub = llvm.mul %u, %bytes : i64\n"
    "  %to = llvm.getelementptr %y[%ub] : (!llvm.ptr, i64) -> !llvm.ptr, i8\n";

/* Runs: all have %row bytes but the last; x is read in order. */
static const char run_of_part[] =
    "  %is_last = llvm.icmp \"eq\" %u, %last : i64\n"
    "  %bytes = llvm.select %is_last, %last_bytes, %row : i1, i64\n"
    "  %ub = llvm.mul %u, %stride : i64\n"
    "  %to = llvm.getelementptr %y[%ub] : (!llvm.ptr, i64) -> !llvm.ptr, i8\n"
    "  %xb = llvm.mul %u, %row : i64\n"
    "  %from = llvm.getelementptr %x[%xb] : (!llvm.ptr, i64) -> !llvm.ptr, i8\n"
    "  %next = llvm.getelementptr %from[1024] : (!llvm.ptr) -> !llvm.ptr, i8\n";

static const char loops[] =
    "  llvm.br ^steps(%zero : i64)\n"
    "^steps(%o: i64):\n"
    "  %oe = llvm.add %o, %step : i64\n"
    "  %more_o = llvm.icmp \"sle\" %oe, %bytes : i64\n"
    "  llvm.cond_br %more_o, ^step, ^lines(%o : i64)\n"
    "^lines(%l: i64):\n"
    "  %le = llvm.add %l, %line : i64\n"
    "  %more_l = llvm.icmp \"sle\" %le, %bytes : i64\n"
    "  llvm.cond_br %more_l, ^line, ^rest\n"
    "^rest:\n"
    "  %more_r = llvm.icmp \"slt\" %l, %bytes : i64\n"
    "  llvm.cond_br %more_r, ^tail, ^rows(%u1 : i64)\n";

static void add_word(nabla_text *text, int word, const char *name,
                     int is_address) {
  nabla_text_add(text,
                 "  %%w%d = llvm.getelementptr %%args[%d] : (!llvm.ptr) -> "
                 "!llvm.ptr, i64\n"
                 "  %%%s%s = llvm.load %%w%d {alignment = 8 : i64} : !llvm.ptr "
                 "-> i64\n",
                 word, word, name, is_address ? "_i" : "", word);
  if (is_address)
    nabla_text_add(text, "  %%%s = llvm.inttoptr %%%s_i : i64 to !llvm.ptr\n",
                   name, name);
}

/* %NAME, the address of the row that index %UNIT selects. */
static void add_source(nabla_text *text, unsigned bits, const char *name,
                       const char *unit) {
  nabla_text_add(text,
                 "  %%%s_p = llvm.getelementptr %%indices[%%%s] : (!llvm.ptr, "
                 "i64) -> !llvm.ptr, i%u\n"
                 "  %%%s_%s = llvm.load %%%s_p {alignment = %u : i64} : "
                 "!llvm.ptr -> i%u\n",
                 name, unit, bits, name, bits == 64 ? "v" : "n", name, bits / 8,
                 bits);
  if (bits != 64)
    nabla_text_add(text, "  %%%s_v = llvm.sext %%%s_n : i%u to i64\n", name,
                   name, bits);
  nabla_text_add(text,
                 "  %%%s_m = llvm.intr.smin(%%%s_v, %%last) : (i64, i64) -> "
                 "i64\n"
                 "  %%%s_r = llvm.intr.smax(%%%s_m, %%zero) : (i64, i64) -> "
                 "i64\n"
                 "  %%%s_b = llvm.mul %%%s_r, %%bytes : i64\n"
                 "  %%%s = llvm.getelementptr %%x[%%%s_b] : (!llvm.ptr, i64) "
                 "-> !llvm.ptr, i8\n",
                 name, name, name, name, name, name, name, name);
}

/* Copies the line at byte %AT of the row; `id` makes names of values. */
static void add_line(nabla_text *text, const char *id, const char *at,
                     int streams) {
  nabla_text_add(
      text,
      "  %%f_%s = llvm.getelementptr %%from[%%%s] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i8\n"
      "  %%t_%s = llvm.getelementptr %%to[%%%s] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i8\n"
      "  %%v_%s = llvm.load %%f_%s {alignment = 1 : i64} : !llvm.ptr -> "
      "vector<16xi32>\n"
      "  llvm.store %%v_%s, %%t_%s {alignment = %u : i64%s} : "
      "vector<16xi32>, !llvm.ptr\n",
      id, at, id, at, id, id, id, id, streams ? LINE : 1,
      streams ? ", nontemporal" : "");
}

static void add_step(nabla_text *text, int streams) {
  char id[16], at[16];
  nabla_text_add(text, "^step:\n");
  for (unsigned i = 0; i < STEP; i++) {
    nabla_text_add(text,
                   "  %%c%u = llvm.mlir.constant(%u : i64) : i64\n"
                   "  %%o%u = llvm.add %%o, %%c%u : i64\n"
                   "  %%n%u = llvm.getelementptr %%next[%%o%u] : (!llvm.ptr, "
                   "i64) -> !llvm.ptr, i8\n"
                   "  \"llvm.intr.prefetch\"(%%n%u) <{cache = 1 : i32, hint = "
                   "3 : i32, rw = 0 : i32}> : (!llvm.ptr) -> ()\n",
                   i, i * LINE, i, i, i, i, i);
    (void)snprintf(id, sizeof id, "s%u", i);
    (void)snprintf(at, sizeof at, "o%u", i);
    add_line(text, id, at, streams);
  }
  nabla_text_add(text, "  llvm.br ^steps(%%oe : i64)\n");
}

static void begin(const char *name, nabla_text *text) {
  nabla_text_add(text,
                 "llvm.func internal @%s(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) attributes {nabla.kernel, passthrough = "
                 "[\"nounwind\", [\"prefer-vector-width\", \"512\"]]} {\n"
                 "  %%line = llvm.mlir.constant(%u : i64) : i64\n"
                 "  %%step = llvm.mlir.constant(%u : i64) : i64\n",
                 name, LINE, STEP * LINE);
}

static void end(int streams, nabla_text *text) {
  nabla_text_add(text, "%s", loops);
  add_step(text, streams);
  nabla_text_add(text, "^line:\n");
  add_line(text, "l", "l", streams);
  nabla_text_add(text,
                 "  llvm.br ^lines(%%le : i64)\n"
                 "^tail:\n"
                 "  %%z = llvm.sub %%bytes, %%line : i64\n");
  add_line(text, "z", "z", 0);
  nabla_text_add(text,
                 "  llvm.br ^rows(%%u1 : i64)\n"
                 "^done:\n  llvm.return\n}\n");
}

void nabla_copy_rows_emit(unsigned bits, int streams, const char *name,
                          nabla_text *text) {
  begin(name, text);
  add_word(text, NABLA_COPY_ROWS_X, "x", 1);
  add_word(text, NABLA_COPY_ROWS_INDICES, "indices", 1);
  add_word(text, NABLA_COPY_ROWS_Y, "y", 1);
  add_word(text, NABLA_COPY_ROWS_LAST, "last", 0);
  add_word(text, NABLA_COPY_ROWS_BYTES, "bytes", 0);
  nabla_text_add(text, "%s%s", opening, row_of_result);
  add_source(text, bits, "from", "u");
  add_source(text, bits, "next", "un");
  end(streams, text);
}

void nabla_copy_runs_emit(int streams, const char *name, nabla_text *text) {
  begin(name, text);
  add_word(text, NABLA_COPY_RUNS_X, "x", 1);
  add_word(text, NABLA_COPY_RUNS_Y, "y", 1);
  add_word(text, NABLA_COPY_RUNS_BYTES, "row", 0);
  add_word(text, NABLA_COPY_RUNS_STRIDE, "stride", 0);
  add_word(text, NABLA_COPY_RUNS_LAST, "last", 0);
  add_word(text, NABLA_COPY_RUNS_LAST_BYTES, "last_bytes", 0);
  nabla_text_add(text, "%s%s", opening, run_of_part);
  if (streams) {
    end(streams, text);
    return;
  }
  nabla_text_add(text,
                 "  \"llvm.intr.memcpy\"(%%to, %%from, %%bytes) <{isVolatile = "
                 "false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()\n"
                 "  llvm.br ^rows(%%u1 : i64)\n"
                 "^done:\n  llvm.return\n}\n");
}
