/* See transpose_tiles.h. Loops over rows of tiles, then over the tiles of a
 * unit, so that as many bytes of a row of x are read one after the other as the
 * unit has columns; what is no whole tile is moved element by element. */
#include "lib/kernels/transpose_tiles.h"

#define MOST_TILE 16u

typedef struct tile {
  nabla_text *text;
  unsigned bytes, size; /* of an element, in bytes; of a tile, in elements */
  int streams;
} tile;

/* Loops and edges. Blocks: units, rows of tiles, tiles, and rows and columns of
 * an edge. %T is the size of a tile. */
static const char opening[] =
    "  %one = llvm.mlir.constant(1 : i64) : i64\n"
    "  %width = llvm.mlir.constant(64 : i64) : i64\n"
    "  %pw = llvm.getelementptr %args[0] : (!llvm.ptr) -> !llvm.ptr, i64\n"
    "  %xi = llvm.load %pw {alignment = 8 : i64} : !llvm.ptr -> i64\n"
    "  %x = llvm.inttoptr %xi : i64 to !llvm.ptr\n"
    "  %qw = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64\n"
    "  %yi = llvm.load %qw {alignment = 8 : i64} : !llvm.ptr -> i64\n"
    "  %y = llvm.inttoptr %yi : i64 to !llvm.ptr\n"
    "  %rw = llvm.getelementptr %args[2] : (!llvm.ptr) -> !llvm.ptr, i64\n"
    "  %R = llvm.load %rw {alignment = 8 : i64} : !llvm.ptr -> i64\n"
    "  %cw = llvm.getelementptr %args[3] : (!llvm.ptr) -> !llvm.ptr, i64\n"
    "  %C = llvm.load %cw {alignment = 8 : i64} : !llvm.ptr -> i64\n"
    "  %zero = llvm.mlir.constant(0 : i64) : i64\n"
    "  llvm.br ^units(%begin : i64)\n"
    "^units(%u: i64):\n"
    "  %more_u = llvm.icmp \"slt\" %u, %end : i64\n"
    "  llvm.cond_br %more_u, ^unit, ^done\n"
    "^unit:\n"
    "  %c0 = llvm.mul %u, %width : i64\n"
    "  %c0w = llvm.add %c0, %width : i64\n"
    "  %ce = llvm.intr.smin(%c0w, %C) : (i64, i64) -> i64\n"
    "  %u1 = llvm.add %u, %one : i64\n"
    "  llvm.br ^rows(%zero : i64)\n"
    "^rows(%i: i64):\n"
    "  %more_i = llvm.icmp \"slt\" %i, %R : i64\n"
    "  llvm.cond_br %more_i, ^row, ^units(%u1 : i64)\n"
    "^row:\n"
    "  %iT = llvm.add %i, %T : i64\n"
    "  %whole_i = llvm.icmp \"sle\" %iT, %R : i64\n"
    "  %ie = llvm.intr.smin(%iT, %R) : (i64, i64) -> i64\n"
    "  llvm.br ^cols(%c0 : i64)\n"
    "^cols(%c: i64):\n"
    "  %more_c = llvm.icmp \"slt\" %c, %ce : i64\n"
    "  llvm.cond_br %more_c, ^col, ^rows(%iT : i64)\n"
    "^col:\n"
    "  %cT = llvm.add %c, %T : i64\n"
    "  %whole_c = llvm.icmp \"sle\" %cT, %ce : i64\n"
    "  %whole = llvm.and %whole_i, %whole_c : i1\n"
    "  llvm.cond_br %whole, ^tile, ^edge\n"
    "^edge:\n"
    "  %ee = llvm.intr.smin(%cT, %ce) : (i64, i64) -> i64\n"
    "  llvm.br ^edge_rows(%i : i64)\n"
    "^edge_rows(%r: i64):\n"
    "  %more_r = llvm.icmp \"slt\" %r, %ie : i64\n"
    "  llvm.cond_br %more_r, ^edge_row, ^cols(%cT : i64)\n"
    "^edge_row:\n"
    "  %r1 = llvm.add %r, %one : i64\n"
    "  %xr = llvm.mul %r, %C : i64\n"
    "  llvm.br ^edge_cols(%c : i64)\n"
    "^edge_cols(%k: i64):\n"
    "  %more_k = llvm.icmp \"slt\" %k, %ee : i64\n"
    "  llvm.cond_br %more_k, ^edge_col, ^edge_rows(%r1 : i64)\n"
    "^edge_col:\n"
    "  %xk = llvm.add %xr, %k : i64\n"
    "  %yk = llvm.mul %k, %R : i64\n"
    "  %yr = llvm.add %yk, %r : i64\n"
    "  %k1 = llvm.add %k, %one : i64\n";

static void add_edge(const tile *t) {
  const unsigned bits = 8 * t->bytes;
  nabla_text_add(
      t->text,
      "  %%from = llvm.getelementptr %%x[%%xk] : (!llvm.ptr, i64) -> "
      "!llvm.ptr, i%u\n"
      "  %%v = llvm.load %%from {alignment = %u : i64} : !llvm.ptr -> i%u\n"
      "  %%to = llvm.getelementptr %%y[%%yr] : (!llvm.ptr, i64) -> !llvm.ptr, "
      "i%u\n"
      "  llvm.store %%v, %%to {alignment = %u : i64} : i%u, !llvm.ptr\n"
      "  llvm.br ^edge_cols(%%k1 : i64)\n",
      bits, t->bytes, bits, bits, t->bytes, bits);
}

static void add_loads(const tile *t) {
  const unsigned bits = 8 * t->bytes;
  nabla_text_add(t->text,
                 "^tile:\n"
                 "  %%l0 = llvm.mul %%i, %%C : i64\n"
                 "  %%a0 = llvm.add %%l0, %%c : i64\n"
                 "  %%down = llvm.mul %%T, %%C : i64\n");
  for (unsigned r = 0; r < t->size; r++) {
    nabla_text_add(
        t->text,
        "  %%p%u = llvm.getelementptr %%x[%%a%u] : (!llvm.ptr, i64) -> "
        "!llvm.ptr, i%u\n"
        "  %%r0_%u = llvm.load %%p%u {alignment = %u : i64} : !llvm.ptr -> "
        "vector<%uxi%u>\n"
        "  %%n%u = llvm.getelementptr %%p%u[%%down] : (!llvm.ptr, i64) -> "
        "!llvm.ptr, i%u\n"
        "  \"llvm.intr.prefetch\"(%%n%u) <{cache = 1 : i32, hint = 3 : i32, "
        "rw = 0 : i32}> : (!llvm.ptr) -> ()\n",
        r, r, bits, r, r, t->bytes, t->size, bits, r, r, bits, r);
    if (r + 1 < t->size)
      nabla_text_add(t->text, "  %%a%u = llvm.add %%a%u, %%C : i64\n", r + 1,
                     r);
  }
}

/* Row `row` of stage `stage`: lanes with the bit `distance` of both halves. */
static void add_shuffle(const tile *t, unsigned stage, unsigned row,
                        unsigned distance) {
  const unsigned low = row & ~distance, high = row | distance;
  nabla_text_add(t->text,
                 "  %%r%u_%u = llvm.shufflevector %%r%u_%u, %%r%u_%u [",
                 stage + 1, row, stage, low, stage, high);
  for (unsigned lane = 0; lane < t->size; lane++) {
    const unsigned of_high = (lane & distance) != 0;
    const unsigned from = (lane & ~distance) | (row & distance);
    nabla_text_add(t->text, "%s%u", lane ? ", " : "", from + of_high * t->size);
  }
  nabla_text_add(t->text, "] : vector<%uxi%u>\n", t->size, 8 * t->bytes);
}

static void add_stores(const tile *t, unsigned stage) {
  const unsigned bits = 8 * t->bytes;
  nabla_text_add(t->text,
                 "  %%m0 = llvm.mul %%c, %%R : i64\n"
                 "  %%b0 = llvm.add %%m0, %%i : i64\n");
  for (unsigned r = 0; r < t->size; r++) {
    nabla_text_add(
        t->text,
        "  %%s%u = llvm.getelementptr %%y[%%b%u] : (!llvm.ptr, i64) -> "
        "!llvm.ptr, i%u\n"
        "  llvm.store %%r%u_%u, %%s%u {alignment = %u : i64%s} : "
        "vector<%uxi%u>, !llvm.ptr\n",
        r, r, bits, stage, r, r, t->streams ? t->bytes * t->size : t->bytes,
        t->streams ? ", nontemporal" : "", t->size, bits);
    if (r + 1 < t->size)
      nabla_text_add(t->text, "  %%b%u = llvm.add %%b%u, %%R : i64\n", r + 1,
                     r);
  }
  nabla_text_add(t->text, "  llvm.br ^cols(%%cT : i64)\n");
}

void nabla_transpose_tiles_emit(unsigned bytes, int streams, const char *name,
                                nabla_text *text) {
  const tile t = {text, bytes, bytes == 8 ? 8 : MOST_TILE, streams};
  unsigned stage = 0;
  nabla_text_add(text,
                 "llvm.func internal @%s(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) attributes {nabla.kernel, passthrough = "
                 "[\"nounwind\", [\"prefer-vector-width\", \"512\"]]} {\n"
                 "  %%T = llvm.mlir.constant(%u : i64) : i64\n%s",
                 name, t.size, opening);
  add_edge(&t);
  add_loads(&t);
  for (unsigned distance = 1; distance < t.size; distance *= 2, stage++)
    for (unsigned row = 0; row < t.size; row++)
      add_shuffle(&t, stage, row, distance);
  add_stores(&t, stage);
  nabla_text_add(text, "^done:\n  llvm.return\n}\n");
}
