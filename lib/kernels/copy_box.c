/* See copy_box.h. The place of a unit is found by divisions once, then by
 * counters, one for each dimension. A run that is contiguous in x too is copied
 * by memcpy, or, where it is short, by lines, of which the last overlaps; or
 * past the caches, where the array does not stay in them. */
#include "lib/kernels/copy_box.h"

#include <stdio.h>

#define LINE 64u
#define LONG 1024u /* bytes of a run from which memcpy is faster */
#define FAR  1024u /* bytes by which a prefetch is ahead */

typedef struct box {
  nabla_text *text;
  unsigned bytes, rank;
} box;

static void add_word(const box *b, unsigned word, const char *name,
                     unsigned number) {
  nabla_text_add(b->text,
                 "  %%p%u = llvm.getelementptr %%args[%u] : (!llvm.ptr) -> "
                 "!llvm.ptr, i64\n"
                 "  %%%s%u = llvm.load %%p%u {alignment = 8 : i64} : !llvm.ptr "
                 "-> i64\n",
                 word, word, name, number, word);
}

static void add_constants(const box *b) {
  const struct {
    const char *name;
    unsigned value;
  } all[] = {{"zero", 0},  {"one", 1},   {"line", LINE}, {"long", LONG},
             {"far", FAR}, {"half", 16}, {"e", b->bytes}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    nabla_text_add(b->text, "  %%%s = llvm.mlir.constant(%u : i64) : i64\n",
                   all[i].name, all[i].value);
}

/* ", %NAMEi" or ", %NAMEi: i64" for each dimension. */
static void add_counters(const box *b, const char *name, int types) {
  for (unsigned d = 0; d < b->rank; d++)
    nabla_text_add(b->text, ", %%%s%u%s", name, d, types ? ": i64" : "");
}

static void add_types(const box *b) {
  for (unsigned d = 0; d < 3 + b->rank; d++)
    nabla_text_add(b->text, "%si64", d ? ", " : "");
}

/* Words, and the place of the first unit. */
static void begin(const box *b, const char *name) {
  nabla_text_add(b->text,
                 "llvm.func internal @%s(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) attributes {nabla.kernel, passthrough = "
                 "[\"nounwind\", [\"prefer-vector-width\", \"512\"]]} {\n",
                 name);
  add_constants(b);
  for (unsigned w = 0; w < NABLA_COPY_BOX_DIMS; w++) add_word(b, w, "w", w);
  for (unsigned d = 0; d < b->rank; d++) {
    add_word(b, NABLA_COPY_BOX_WORD(d, NABLA_COPY_BOX_SIZE), "n", d);
    add_word(b, NABLA_COPY_BOX_WORD(d, NABLA_COPY_BOX_DX), "dx", d);
    add_word(b, NABLA_COPY_BOX_WORD(d, NABLA_COPY_BOX_DY), "dy", d);
    nabla_text_add(b->text,
                   "  %%wx%u = llvm.mul %%n%u, %%dx%u : i64\n"
                   "  %%wy%u = llvm.mul %%n%u, %%dy%u : i64\n",
                   d, d, d, d, d, d);
  }
  nabla_text_add(b->text,
                 "  %%dense = llvm.icmp \"eq\" %%w%d, %%e : i64\n"
                 "  %%past = llvm.icmp \"ne\" %%w%d, %%zero : i64\n"
                 "  %%any = llvm.icmp \"slt\" %%begin, %%end : i64\n"
                 "  llvm.cond_br %%any, ^first, ^done\n"
                 "^first:\n"
                 "  %%t%u = llvm.add %%begin, %%zero : i64\n"
                 "  %%x%u = llvm.add %%w%d, %%zero : i64\n"
                 "  %%y%u = llvm.add %%w%d, %%zero : i64\n",
                 NABLA_COPY_BOX_STEP, NABLA_COPY_BOX_PAST, b->rank, b->rank,
                 NABLA_COPY_BOX_X, b->rank, NABLA_COPY_BOX_Y);
  for (unsigned d = b->rank; d-- > 0;)
    nabla_text_add(b->text,
                   "  %%i%u = llvm.urem %%t%u, %%n%u : i64\n"
                   "  %%t%u = llvm.udiv %%t%u, %%n%u : i64\n"
                   "  %%ix%u = llvm.mul %%i%u, %%dx%u : i64\n"
                   "  %%iy%u = llvm.mul %%i%u, %%dy%u : i64\n"
                   "  %%x%u = llvm.add %%x%u, %%ix%u : i64\n"
                   "  %%y%u = llvm.add %%y%u, %%iy%u : i64\n",
                   d, d + 1, d, d, d + 1, d, d, d, d, d, d, d, d, d + 1, d, d,
                   d + 1, d);
  nabla_text_add(b->text, "  llvm.br ^rows(%%begin, %%x0, %%y0");
  add_counters(b, "i", 0);
  nabla_text_add(b->text, " : ");
  add_types(b);
  nabla_text_add(b->text, ")\n^rows(%%u: i64, %%x: i64, %%y: i64");
  add_counters(b, "c", 1);
  nabla_text_add(b->text,
                 "):\n"
                 "  %%more = llvm.icmp \"slt\" %%u, %%end : i64\n"
                 "  llvm.cond_br %%more, ^row, ^done\n"
                 "^row:\n"
                 "  %%is_short = llvm.icmp \"eq\" %%u, %%w%d : i64\n"
                 "  %%bytes = llvm.select %%is_short, %%w%d, %%w%d : i1, i64\n"
                 "  %%from = llvm.inttoptr %%x : i64 to !llvm.ptr\n"
                 "  %%to = llvm.inttoptr %%y : i64 to !llvm.ptr\n"
                 "  llvm.cond_br %%dense, ^run, ^apart(%%zero, %%x : i64, "
                 "i64)\n",
                 NABLA_COPY_BOX_SHORT, NABLA_COPY_BOX_SHORT_BYTES,
                 NABLA_COPY_BOX_RUN);
}

/* Copies a piece of TYPE at byte %AT of the run. */
static void add_piece(const box *b, const char *id, const char *type,
                      const char *at, int streams) {
  nabla_text_add(
      b->text,
      "  %%f_%s = llvm.getelementptr %%from[%%%s] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i8\n"
      "  %%t_%s = llvm.getelementptr %%to[%%%s] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i8\n"
      "  %%v_%s = llvm.load %%f_%s {alignment = 1 : i64} : !llvm.ptr -> %s\n"
      "  llvm.store %%v_%s, %%t_%s {alignment = %u : i64%s} : %s, "
      "!llvm.ptr\n",
      id, at, id, at, id, id, type, id, id, streams ? LINE : 1,
      streams ? ", nontemporal" : "", type);
}

/* A loop over pieces: ^NAME(%AT) until fewer than %SIZE bytes are left, then
 * ^REST. */
static void add_loop(const box *b, const char *name, const char *type,
                     const char *size, const char *rest, int streams) {
  nabla_text_add(b->text,
                 "^%s(%%a_%s: i64):\n"
                 "  %%e_%s = llvm.add %%a_%s, %%%s : i64\n"
                 "  %%m_%s = llvm.icmp \"sle\" %%e_%s, %%bytes : i64\n"
                 "  llvm.cond_br %%m_%s, ^%s_one, ^%s\n"
                 "^%s_one:\n",
                 name, name, name, name, size, name, name, name, name, rest,
                 name);
  char at[16] = "a_";
  for (unsigned i = 0; i < 12 && name[i]; i++)
    at[2 + i] = name[i], at[3 + i] = 0;
  if (streams)
    nabla_text_add(b->text,
                   "  %%ahead = llvm.add %%%s, %%far : i64\n"
                   "  %%next = llvm.getelementptr %%from[%%ahead] : "
                   "(!llvm.ptr, i64) -> !llvm.ptr, i8\n"
                   "  \"llvm.intr.prefetch\"(%%next) <{cache = 1 : i32, hint = "
                   "3 : i32, rw = 0 : i32}> : (!llvm.ptr) -> ()\n",
                   at);
  add_piece(b, name, type, at, streams);
  nabla_text_add(b->text, "  llvm.br ^%s(%%e_%s : i64)\n", name, name);
}

/* The last piece of %SIZE bytes, which overlaps the one before. */
static void add_last(const box *b, const char *name, const char *type,
                     const char *size, const char *loop) {
  nabla_text_add(b->text,
                 "^%s:\n"
                 "  %%left_%s = llvm.icmp \"slt\" %%a_%s, %%bytes : i64\n"
                 "  llvm.cond_br %%left_%s, ^%s_tail, ^next\n"
                 "^%s_tail:\n"
                 "  %%z_%s = llvm.sub %%bytes, %%%s : i64\n",
                 name, name, loop, name, name, name, name, size);
  char at[16] = "z_";
  for (unsigned i = 0; i < 12 && name[i]; i++)
    at[2 + i] = name[i], at[3 + i] = 0;
  add_piece(b, name, type, at, 0);
  nabla_text_add(b->text, "  llvm.br ^next\n");
}

/* Runs that are contiguous in x. */
static void add_dense(const box *b) {
  char element[8];
  nabla_text_add(b->text,
                 "^run:\n"
                 "  %%is_long = llvm.icmp \"sge\" %%bytes, %%long : i64\n"
                 "  llvm.cond_br %%is_long, ^large, ^small\n"
                 "^large:\n"
                 "  llvm.cond_br %%past, ^stream, ^whole\n"
                 "^whole:\n"
                 "  \"llvm.intr.memcpy\"(%%to, %%from, %%bytes) <{isVolatile = "
                 "false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()\n"
                 "  llvm.br ^next\n"
                 "^small:\n"
                 "  %%has_line = llvm.icmp \"sge\" %%bytes, %%line : i64\n"
                 "  llvm.cond_br %%has_line, ^lines(%%zero : i64), ^less\n"
                 "^less:\n"
                 "  %%has_half = llvm.icmp \"sge\" %%bytes, %%half : i64\n"
                 "  llvm.cond_br %%has_half, ^halves(%%zero : i64), "
                 "^each(%%zero : i64)\n"
                 "^stream:\n"
                 "  %%low = llvm.sub %%line, %%one : i64\n"
                 "  %%off = llvm.and %%y, %%low : i64\n"
                 "  %%head = llvm.sub %%line, %%off : i64\n");
  add_piece(b, "h", "vector<16xi32>", "zero", 0);
  nabla_text_add(b->text, "  llvm.br ^flow(%%head : i64)\n");
  add_loop(b, "flow", "vector<16xi32>", "line", "flow_end", 1);
  add_last(b, "flow_end", "vector<16xi32>", "line", "flow");
  add_loop(b, "lines", "vector<16xi32>", "line", "lines_end", 0);
  add_last(b, "lines_end", "vector<16xi32>", "line", "lines");
  add_loop(b, "halves", "vector<4xi32>", "half", "halves_end", 0);
  add_last(b, "halves_end", "vector<4xi32>", "half", "halves");
  (void)snprintf(element, sizeof element, "i%u", 8 * b->bytes);
  add_loop(b, "each", element, "e", "next", 0);
}

/* Elements of x that are %STEP bytes apart. */
static void add_apart(const box *b) {
  const unsigned bits = 8 * b->bytes;
  nabla_text_add(
      b->text,
      "^apart(%%at: i64, %%px: i64):\n"
      "  %%more_at = llvm.icmp \"slt\" %%at, %%bytes : i64\n"
      "  llvm.cond_br %%more_at, ^apart_one, ^next\n"
      "^apart_one:\n"
      "  %%at1 = llvm.add %%at, %%e : i64\n"
      "  %%px1 = llvm.add %%px, %%w%d : i64\n"
      "  %%fa = llvm.inttoptr %%px : i64 to !llvm.ptr\n"
      "  %%ta = llvm.getelementptr %%to[%%at] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i8\n"
      "  %%va = llvm.load %%fa {alignment = %u : i64} : !llvm.ptr -> i%u\n"
      "  llvm.store %%va, %%ta {alignment = %u : i64} : i%u, !llvm.ptr\n"
      "  llvm.br ^apart(%%at1, %%px1 : i64, i64)\n",
      NABLA_COPY_BOX_STEP, b->bytes, bits, b->bytes, bits);
}

/* "(%u1, x, y, counters : types)" after dimension `d` has counted: those behind
 * it begin again. */
static void add_state(const box *b, unsigned d) {
  nabla_text_add(b->text, "(%%u1, %%sx%u, %%sy%u", d, d);
  for (unsigned i = 0; i < b->rank; i++)
    if (i < d)
      nabla_text_add(b->text, ", %%c%u", i);
    else if (i == d)
      nabla_text_add(b->text, ", %%s%u", i);
    else
      nabla_text_add(b->text, ", %%zero");
  nabla_text_add(b->text, " : ");
  add_types(b);
  nabla_text_add(b->text, ")");
}

static void add_next(const box *b) {
  nabla_text_add(b->text,
                 "^next:\n"
                 "  %%u1 = llvm.add %%u, %%one : i64\n"
                 "  %%rx%u = llvm.add %%x, %%zero : i64\n"
                 "  %%ry%u = llvm.add %%y, %%zero : i64\n"
                 "  llvm.br ^count%u\n",
                 b->rank - 1, b->rank - 1, b->rank - 1);
  for (unsigned d = b->rank; d-- > 0;) {
    nabla_text_add(b->text,
                   "^count%u:\n"
                   "  %%s%u = llvm.add %%c%u, %%one : i64\n"
                   "  %%sx%u = llvm.add %%rx%u, %%dx%u : i64\n"
                   "  %%sy%u = llvm.add %%ry%u, %%dy%u : i64\n",
                   d, d, d, d, d, d, d, d, d);
    if (d == 0) {
      nabla_text_add(b->text, "  llvm.br ^rows");
      add_state(b, d);
      nabla_text_add(b->text, "\n");
      continue;
    }
    nabla_text_add(b->text,
                   "  %%l%u = llvm.icmp \"slt\" %%s%u, %%n%u : i64\n"
                   "  llvm.cond_br %%l%u, ^rows",
                   d, d, d, d);
    add_state(b, d);
    nabla_text_add(b->text,
                   ", ^wrap%u\n"
                   "^wrap%u:\n"
                   "  %%rx%u = llvm.sub %%sx%u, %%wx%u : i64\n"
                   "  %%ry%u = llvm.sub %%sy%u, %%wy%u : i64\n"
                   "  llvm.br ^count%u\n",
                   d, d, d - 1, d, d, d - 1, d, d, d - 1);
  }
}

void nabla_copy_box_emit(unsigned bytes, unsigned rank, const char *name,
                         nabla_text *text) {
  const box b = {text, bytes, rank};
  begin(&b, name);
  add_dense(&b);
  add_apart(&b);
  add_next(&b);
  nabla_text_add(text, "^done:\n  llvm.return\n}\n");
}
