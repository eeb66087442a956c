/* Rewriting operations to the LLVM dialect; see to_llvm_dialect.h. */
#include "lib/kernels/builder/to_llvm_dialect.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A piece of a line. */
typedef struct piece {
  const char *at;
  size_t size;
} piece;

/* "RESULT = FROM OPERANDS : TYPES" */
typedef struct line {
  piece result, operands, types;
} line;

typedef struct row {
  const char *from, *to;
  void (*write)(const line *l, const char *to, nabla_text *out);
} row;

#define PIECE(p) (int)(p).size, (p).at

static piece cut(const char *from, const char *to) {
  return (piece){from, (size_t)(to - from)};
}

/* The first `text` in a piece, or NULL. */
static const char *find(piece in, const char *text) {
  const size_t size = strlen(text);
  for (size_t i = 0; i + size <= in.size; i++)
    if (!memcmp(in.at + i, text, size)) return in.at + i;
  return NULL;
}

/* The part before the first `text`; the whole piece where there is none. */
static piece before(piece in, const char *text) {
  const char *at = find(in, text);
  return at ? cut(in.at, at) : in;
}

/* The part after the first `text`; empty where there is none. */
static piece behind(piece in, const char *text) {
  const char *end = in.at + in.size, *at = find(in, text);
  return at ? cut(at + strlen(text), end) : cut(end, end);
}

/* N of "vector<NxT>". */
static unsigned lanes_of(piece type) {
  return (unsigned)strtoul(behind(type, "<").at, NULL, 10);
}

/* ---- how each is written ------------------------------------------------- */

static void rename_only(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s %.*s : %.*s\n", PIECE(l->result), to,
                 PIECE(l->operands), PIECE(l->types));
}

static void constant(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s(%.*s : %.*s) : %.*s\n", PIECE(l->result), to,
                 PIECE(l->operands), PIECE(l->types), PIECE(l->types));
}

/* "slt, %a, %b" */
static void comparison(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s \"%.*s\" %.*s : %.*s\n", PIECE(l->result),
                 to, PIECE(before(l->operands, ", ")),
                 PIECE(behind(l->operands, ", ")), PIECE(l->types));
}

/* Where one type is given, the condition is an i1. */
static void selection(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s %.*s : %s%.*s\n", PIECE(l->result), to,
                 PIECE(l->operands), find(l->types, ", ") ? "" : "i1, ",
                 PIECE(l->types));
}

static void call_of_two(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s(%.*s) : (%.*s, %.*s) -> %.*s\n",
                 PIECE(l->result), to, PIECE(l->operands), PIECE(l->types),
                 PIECE(l->types), PIECE(l->types));
}

/* The type of both operands is given once. */
static void shuffle(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out, "  %.*s = %s %.*s : %.*s\n", PIECE(l->result), to,
                 PIECE(l->operands), PIECE(before(l->types, ", ")));
}

/* "%a, %b : vector<NxT> -> vector<2NxT>": interleaved lanes. */
static void interleave(const line *l, const char *to, nabla_text *out) {
  const piece from = before(l->types, " -> ");
  const unsigned lanes = lanes_of(from);
  nabla_text_add(out, "  %.*s = %s %.*s [", PIECE(l->result), to,
                 PIECE(l->operands));
  for (unsigned i = 0; i < lanes; i++)
    nabla_text_add(out, "%s%u, %u", i ? ", " : "", i, lanes + i);
  nabla_text_add(out, "] : %.*s\n", PIECE(from));
}

/* "%a {offsets = [N], ...} : T to vector<...>" */
static void slice(const line *l, const char *to, nabla_text *out) {
  const piece operand = before(l->operands, " ");
  const unsigned first =
      (unsigned)strtoul(behind(l->operands, "[").at, NULL, 10);
  const unsigned lanes = lanes_of(behind(l->types, " to "));
  nabla_text_add(out, "  %.*s = %s %.*s, %.*s [", PIECE(l->result), to,
                 PIECE(operand), PIECE(operand));
  for (unsigned i = 0; i < lanes; i++)
    nabla_text_add(out, "%s%u", i ? ", " : "", first + i);
  nabla_text_add(out, "] : %.*s\n", PIECE(before(l->types, " to ")));
}

/* "%a : T to vector<NxT>" */
static void broadcast(const line *l, const char *to, nabla_text *out) {
  const piece type = behind(l->types, " to ");
  const unsigned lanes = lanes_of(type);
  nabla_text_add(out,
                 "  %.*s_p = llvm.mlir.poison : %.*s\n"
                 "  %.*s_z = llvm.mlir.constant(0 : i64) : i64\n"
                 "  %.*s_i = llvm.insertelement %.*s, %.*s_p[%.*s_z : i64] : "
                 "%.*s\n"
                 "  %.*s = %s %.*s_i, %.*s_p [",
                 PIECE(l->result), PIECE(type), PIECE(l->result),
                 PIECE(l->result), PIECE(l->operands), PIECE(l->result),
                 PIECE(l->result), PIECE(type), PIECE(l->result), to,
                 PIECE(l->result), PIECE(l->result));
  for (unsigned i = 0; i < lanes; i++)
    nabla_text_add(out, "%s0", i ? ", " : "");
  nabla_text_add(out, "] : %.*s\n", PIECE(type));
}

/* "%a[N] : T from vector<...>" */
static void extraction(const line *l, const char *to, nabla_text *out) {
  nabla_text_add(out,
                 "  %.*s_l = llvm.mlir.constant(%.*s : i64) : i64\n"
                 "  %.*s = %s %.*s[%.*s_l : i64] : %.*s\n",
                 PIECE(l->result), PIECE(before(behind(l->operands, "["), "]")),
                 PIECE(l->result), to, PIECE(before(l->operands, "[")),
                 PIECE(l->result), PIECE(behind(l->types, " from ")));
}

/* "%a, %b, ... : vector<NxT>": inserted one after the other. */
static void elements(const line *l, const char *to, nabla_text *out) {
  piece rest = l->operands;
  const unsigned lanes = lanes_of(l->types);
  nabla_text_add(out, "  %.*s_v0 = llvm.mlir.poison : %.*s\n", PIECE(l->result),
                 PIECE(l->types));
  for (unsigned i = 0; i < lanes; i++) {
    nabla_text_add(out,
                   "  %.*s_l%u = llvm.mlir.constant(%u : i64) : i64\n"
                   "  %.*s",
                   PIECE(l->result), i, i, PIECE(l->result));
    if (i + 1 < lanes) nabla_text_add(out, "_v%u", i + 1);
    nabla_text_add(out, " = %s %.*s, %.*s_v%u[%.*s_l%u : i64] : %.*s\n", to,
                   PIECE(before(rest, ", ")), PIECE(l->result), i,
                   PIECE(l->result), i, PIECE(l->types));
    rest = behind(rest, ", ");
  }
}

/* "<add>, %a : vector<NxT> into T" */
static void reduction(const line *l, const char *to, nabla_text *out) {
  static const char *const names[][2] = {{"maxsi", "smax"},
                                         {"maxui", "umax"},
                                         {"minsi", "smin"},
                                         {"minui", "umin"}};
  piece how = before(behind(l->operands, "<"), ">");
  const piece vector = before(l->types, " into ");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (find(how, names[i][0])) how = (piece){names[i][1], strlen(names[i][1])};
  nabla_text_add(out, "  %.*s = \"%s.%.*s\"(%.*s) : (%.*s) -> %.*s\n",
                 PIECE(l->result), to, PIECE(how),
                 PIECE(behind(l->operands, ", ")), PIECE(vector),
                 PIECE(behind(l->types, " into ")));
}

/* ---- all ------------------------------------------------------------------
 */

/* Sorted by `from`. */
static const row rows[] = {
    {"arith.addf", "llvm.fadd", rename_only},
    {"arith.addi", "llvm.add", rename_only},
    {"arith.andi", "llvm.and", rename_only},
    {"arith.bitcast", "llvm.bitcast", rename_only},
    {"arith.cmpf", "llvm.fcmp", comparison},
    {"arith.cmpi", "llvm.icmp", comparison},
    {"arith.constant", "llvm.mlir.constant", constant},
    {"arith.divf", "llvm.fdiv", rename_only},
    {"arith.divui", "llvm.udiv", rename_only},
    {"arith.extf", "llvm.fpext", rename_only},
    {"arith.extsi", "llvm.sext", rename_only},
    {"arith.extui", "llvm.zext", rename_only},
    {"arith.fptosi", "llvm.fptosi", rename_only},
    {"arith.maxsi", "llvm.intr.smax", call_of_two},
    {"arith.maxui", "llvm.intr.umax", call_of_two},
    {"arith.minsi", "llvm.intr.smin", call_of_two},
    {"arith.minui", "llvm.intr.umin", call_of_two},
    {"arith.mulf", "llvm.fmul", rename_only},
    {"arith.muli", "llvm.mul", rename_only},
    {"arith.negf", "llvm.fneg", rename_only},
    {"arith.ori", "llvm.or", rename_only},
    {"arith.remui", "llvm.urem", rename_only},
    {"arith.select", "llvm.select", selection},
    {"arith.shli", "llvm.shl", rename_only},
    {"arith.shrsi", "llvm.ashr", rename_only},
    {"arith.shrui", "llvm.lshr", rename_only},
    {"arith.sitofp", "llvm.sitofp", rename_only},
    {"arith.subf", "llvm.fsub", rename_only},
    {"arith.subi", "llvm.sub", rename_only},
    {"arith.truncf", "llvm.fptrunc", rename_only},
    {"arith.trunci", "llvm.trunc", rename_only},
    {"arith.uitofp", "llvm.uitofp", rename_only},
    {"arith.xori", "llvm.xor", rename_only},
    {"vector.bitcast", "llvm.bitcast", rename_only},
    {"vector.broadcast", "llvm.shufflevector", broadcast},
    {"vector.extract", "llvm.extractelement", extraction},
    {"vector.extract_strided_slice", "llvm.shufflevector", slice},
    {"vector.from_elements", "llvm.insertelement", elements},
    {"vector.interleave", "llvm.shufflevector", interleave},
    {"vector.reduction", "llvm.intr.vector.reduce", reduction},
    {"vector.shuffle", "llvm.shufflevector", shuffle},
};

static int compare(const void *key, const void *element) {
  const piece *name = key;
  const char *from = ((const row *)element)->from;
  const size_t size = strlen(from);
  const size_t least = size < name->size ? size : name->size;
  const int order = memcmp(name->at, from, least);
  return order ? order : (name->size > size) - (name->size < size);
}

static const row *row_of(piece name) {
  return bsearch(&name, rows, sizeof rows / sizeof *rows, sizeof *rows,
                 compare);
}

/* The row of a line, and the line; NULL: it stays as it is. */
static const row *read(piece text, line *out) {
  out->result = before(text, " = ");
  while (out->result.size && *out->result.at == ' ')
    out->result.at++, out->result.size--;
  const piece operation = behind(text, " = ");
  const row *found = row_of(before(operation, " "));
  if (!found) return NULL;
  out->operands = behind(operation, " ");
  out->types = behind(out->operands, " : ");
  out->operands = before(out->operands, " : ");
  return out->types.size ? found : NULL;
}

static void add(piece text, nabla_text *to) {
  line l;
  const row *found = read(text, &l);
  if (found)
    found->write(&l, found->to, to);
  else
    nabla_text_add(to, "%.*s\n", PIECE(text));
}

/* ---- what nothing uses ----------------------------------------------------
 */

/* Ops without side effects, which are removed if their results are unused. */
static bool is_pure(piece name) {
  static const char *const others[] = {"llvm.getelementptr", "llvm.inttoptr",
                                       "llvm.load"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (name.size == strlen(others[i]) &&
        !memcmp(name.at, others[i], name.size))
      return true;
  return row_of(name) != NULL;
}

/* The number of the value "%vN" at or behind `*at`, which moves behind it;
 * `count` where there is none. */
static size_t next_value(const char **at, const char *end, size_t count) {
  const char *p = *at;
  while (p + 2 < end && (p[0] != '%' || p[1] != 'v')) p++;
  if (p + 2 >= end) return count;
  char *behind_it;
  const size_t number = strtoul(p + 2, &behind_it, 10);
  *at = behind_it;
  return number < count ? number : 0;
}

/* Marks the operands of a line, unless its result is unused. */
static bool is_wanted(piece text, uint8_t *used, size_t count) {
  const char *end = text.at + text.size, *at = text.at;
  const piece operation = behind(text, " = ");
  if (text.size > 4 && !memcmp(text.at, "  %v", 4) && operation.size &&
      is_pure(before(operation, " "))) {
    if (!used[next_value(&at, end, count)]) return false;
    at = operation.at;
  }
  for (size_t i; (i = next_value(&at, end, count)) < count;) used[i] = 1;
  return true;
}

/* The lines of a text, in its order. NULL: no memory. */
static piece *lines_of(const nabla_text *text, size_t *out_count) {
  const char *at = text->data, *end = at + text->size;
  size_t count = 0;
  for (const char *p = at; p < end; p++) count += *p == '\n';
  piece *lines = calloc(count + 1, sizeof *lines);
  for (size_t i = 0; lines && i < count; i++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    lines[i] = cut(at, stop);
    at = stop + 1;
  }
  *out_count = count;
  return lines;
}

void nabla_to_llvm_dialect_add(const nabla_text *from, unsigned last,
                               nabla_text *to) {
  if (from->failed) to->failed = 1;
  if (!from->size || to->failed) return;
  const size_t values = (size_t)last + 1;
  size_t count = 0;
  piece *lines = lines_of(from, &count);
  uint8_t *used = calloc(values, 1);
  if (lines && used) {
    /* values are made in front of their uses */
    for (size_t i = count; i-- > 0;)
      if (!is_wanted(lines[i], used, values)) lines[i].size = 0;
    for (size_t i = 0; i < count; i++)
      if (lines[i].size) add(lines[i], to);
  } else {
    to->failed = 1;
  }
  free(lines);
  free(used);
}
