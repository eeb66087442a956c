/* Packing of dense operands of bf16 to tiles of pairs; see dense_bf16.h. */
#include "lib/kernels/bf16/dense_bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/tile_util.h"

#define LINES NABLA_TILE_ROWS /* rows of x, columns of w */
#define PAIRS NABLA_TILE_ROWS /* in a tile: of elements of k */

/* Elements of k, a multiple of a tile's, that columns side by side are
 * prefetched ahead. */
#define AHEAD (2 * NABLA_DENSE_STEP)

#define DWORDS "vector<16xi32>"
#define WORDS  "vector<16xi16>"

/* An operand: its lines are rows of x or columns of w. */
typedef struct operand {
  nabla_ssa base;   /* address of its first element */
  nabla_ssa stride; /* elements between lines, or between elements of a line */
  nabla_ssa count;  /* of lines */
  int along_k;      /* lines are consecutive */
  int pairs_first;  /* tiles have a row for each pair, not for each line */
  uint64_t group;   /* lines that are packed at once: what follows is */
                    /* prefetched; 0: nothing is */
} operand;

/* A tile of it: 16 lines from `line` on, 32 elements from k on, to `out`, by
 * way of the tile `scratch`. */
typedef struct tile {
  const operand *of;
  nabla_ssa line, k, out, scratch;
  nabla_ssa ahead; /* address of what is prefetched with element k, or 0 */
} tile;

static nabla_ssa less_one(nabla_emitter *e, nabla_ssa value) {
  return k_op(e, "arith.subi %%v%u, %%v%u : i64", value, k_i64(e, 1));
}

static nabla_ssa is_at_most(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.cmpi ule, %%v%u, %%v%u : i64", a, b);
}

/* The address of element k of line `line`. */
static nabla_ssa element(nabla_emitter *e, const operand *o, nabla_ssa line,
                         nabla_ssa k) {
  nabla_ssa at = o->along_k ? k_add(e, k_product(e, line, o->stride), k)
                            : k_add(e, k_product(e, k, o->stride), line);
  return k_address(e, o->base, k_multiply(e, at, 2));
}

/* Whether K is a multiple of the elements of a tile. */
static int has_whole_steps(const nabla_fused_spec *spec) {
  return !(spec->open & NABLA_OPEN_K) && spec->k % NABLA_DENSE_STEP == 0;
}

/* ---- elements one by one ---------------------------------------------------
 */

static void clear(nabla_emitter *e, nabla_ssa out) {
  nabla_ssa zero = k_i32(e, NABLA_VECTOR, 0);
  for (unsigned i = 0; i < NABLA_TILE_ROWS; i++)
    k_store(e, DWORDS, zero, out, k_i64(e, (uint64_t)i * NABLA_TILE_ROW_BYTES),
            64);
}

/* The byte of a tile that element `k` of line `line` has. */
static nabla_ssa place(nabla_emitter *e, int pairs_first, nabla_ssa line,
                       nabla_ssa k) {
  if (!pairs_first)
    return k_add(e, k_multiply(e, line, NABLA_TILE_ROW_BYTES),
                 k_multiply(e, k, 2));
  nabla_ssa pair = k_divide(e, k, 2);
  nabla_ssa odd = k_op(e, "arith.andi %%v%u, %%v%u : i64", k, k_i64(e, 1));
  nabla_ssa at = k_add(e, k_multiply(e, pair, NABLA_TILE_ROW_BYTES),
                       k_multiply(e, line, 4));
  return k_add(e, at, k_multiply(e, odd, 2));
}

/* The lines and elements that exist, and zeros. */
static void copy_some(nabla_emitter *e, const tile *t) {
  nabla_loop lines, elements;
  nabla_ssa zero = k_i64(e, 0);
  clear(e, t->out);
  k_loop_begin(e, &lines, zero,
               nabla_emit_left(e, t->of->count, t->line, LINES), 1, 0, NULL);
  nabla_ssa line = k_add(e, t->line, lines.induction);
  k_loop_begin(e, &elements, zero,
               nabla_emit_left(e, e->k, t->k, NABLA_DENSE_STEP), 1, 0, NULL);
  nabla_ssa from = element(e, t->of, line, k_add(e, t->k, elements.induction));
  k_store(e, "i16", k_load(e, "i16", from, zero, 2), t->out,
          place(e, t->of->pairs_first, lines.induction, elements.induction), 2);
  k_loop_end(e, &elements, NULL);
  k_loop_end(e, &lines, NULL);
}

/* ---- whole tiles -----------------------------------------------------------
 */

static void transpose(nabla_emitter *e, nabla_ssa from, nabla_ssa out) {
  nabla_ssa v[NABLA_TILE_ROWS];
  for (unsigned i = 0; i < NABLA_TILE_ROWS; i++)
    v[i] = k_load(e, DWORDS, from, k_i64(e, (uint64_t)i * NABLA_TILE_ROW_BYTES),
                  64);
  k_transpose(e, "i32", v);
  for (unsigned i = 0; i < NABLA_TILE_ROWS; i++)
    k_store(e, DWORDS, v[i], out, k_i64(e, (uint64_t)i * NABLA_TILE_ROW_BYTES),
            64);
}

/* 32 elements of 16 lines that are consecutive; lines beyond the last are the
 * last one. */
static void copy_lines(nabla_emitter *e, const tile *t, nabla_ssa out) {
  nabla_loop lines;
  nabla_ssa last = less_one(e, t->of->count);
  k_loop_begin(e, &lines, k_i64(e, 0), k_i64(e, LINES), 1, 0, NULL);
  nabla_ssa line = k_add(e, t->line, lines.induction);
  nabla_ssa from = element(e, t->of, k_minimum(e, line, last), t->k);
  k_store(e, DWORDS, k_load(e, DWORDS, from, k_i64(e, 0), 2), out,
          k_multiply(e, lines.induction, NABLA_TILE_ROW_BYTES), 64);
  if (t->of->group)
    k_prefetch_far(
        e,
        element(e, t->of, k_add_constant(e, line, NABLA_DENSE_COLUMNS), t->k));
  k_loop_end(e, &lines, NULL);
}

/* Element k + `more` of 16 lines, as the lower or upper halves of dwords. */
static nabla_ssa halves(nabla_emitter *e, const tile *t, nabla_ssa more,
                        int upper) {
  nabla_ssa from = element(e, t->of, t->line, k_add(e, t->k, more));
  if (t->ahead)
    k_prefetch(e, t->ahead,
               k_multiply(e, k_product(e, more, t->of->stride), 2));
  nabla_ssa words = k_op(e, "arith.extui %%v%u : " WORDS " to " DWORDS,
                         k_load(e, WORDS, from, k_i64(e, 0), 2));
  return upper ? k_i32_with(e, NABLA_VECTOR, "shli", words, 16) : words;
}

static void store_pair(nabla_emitter *e, nabla_ssa pair, nabla_ssa values,
                       nabla_ssa out) {
  k_store(e, DWORDS, values, out, k_multiply(e, pair, NABLA_TILE_ROW_BYTES),
          64);
}

/* Pairs of elements of 16 lines that lie side by side, all of which exist; of
 * the last pair there may be one element. */
static void copy_pairs(nabla_emitter *e, const tile *t, nabla_ssa out) {
  nabla_loop pairs, one, none;
  const int is_whole = has_whole_steps(e->spec);
  nabla_ssa left = nabla_emit_left(e, e->k, t->k, NABLA_DENSE_STEP);
  nabla_ssa most = k_i64(e, PAIRS);
  nabla_ssa whole = is_whole ? most : k_divide(e, left, 2);
  k_loop_begin(e, &pairs, k_i64(e, 0), whole, 1, 0, NULL);
  nabla_ssa k = k_multiply(e, pairs.induction, 2);
  nabla_ssa low = halves(e, t, k, 0);
  nabla_ssa high = halves(e, t, k_add_constant(e, k, 1), 1);
  store_pair(e, pairs.induction,
             k_i32_binary(e, NABLA_VECTOR, "ori", low, high), out);
  k_loop_end(e, &pairs, NULL);
  if (is_whole) return;
  nabla_ssa some = k_divide(e, k_add_constant(e, left, 1), 2);
  k_loop_begin(e, &one, whole, some, 1, 0, NULL);
  store_pair(e, one.induction, halves(e, t, k_multiply(e, one.induction, 2), 0),
             out);
  k_loop_end(e, &one, NULL);
  k_loop_begin(e, &none, some, most, 1, 0, NULL);
  store_pair(e, none.induction, k_i32(e, NABLA_VECTOR, 0), out);
  k_loop_end(e, &none, NULL);
}

static void copy_whole(nabla_emitter *e, const tile *t) {
  const int turns = t->of->along_k == t->of->pairs_first;
  nabla_ssa out = turns ? t->scratch : t->out;
  if (t->of->along_k)
    copy_lines(e, t, out);
  else
    copy_pairs(e, t, out);
  if (turns) transpose(e, out, t->out);
}

/* Lines that are consecutive need all of their elements, others need 16 lines
 * side by side. */
static void pack_tile(nabla_emitter *e, const tile *t) {
  const operand *o = t->of;
  if (o->along_k && has_whole_steps(e->spec)) {
    copy_whole(e, t);
    return;
  }
  nabla_ssa end = o->along_k ? k_add_constant(e, t->k, NABLA_DENSE_STEP)
                             : k_add_constant(e, t->line, LINES);
  k_line(e, "scf.if %%v%u {", is_at_most(e, end, o->along_k ? e->k : o->count));
  copy_whole(e, t);
  k_line(e, "} else {");
  copy_some(e, t);
  k_line(e, "}");
}

nabla_ssa nabla_emit_dense_steps(nabla_emitter *e, nabla_ssa count) {
  return k_divide(e, k_add_constant(e, count, NABLA_DENSE_STEP - 1),
                  NABLA_DENSE_STEP);
}

/* ---- x ---------------------------------------------------------------------
 */

void nabla_emit_dense_pack_a(nabla_emitter *e) {
  const int by_columns = nabla_spec_x_layout(e->spec) == NABLA_X_COLUMNS;
  const operand x = {.base = e->x,
                     .stride = by_columns ? e->m : e->x_stride,
                     .count = e->m,
                     .along_k = !by_columns};
  nabla_loop rows, steps;
  nabla_ssa all = nabla_emit_dense_steps(e, e->k);
  k_loop_begin(e, &rows, e->begin, e->end, LINES, 0, NULL);
  nabla_ssa first = k_product(e, k_divide(e, rows.induction, LINES), all);
  k_loop_begin(e, &steps, k_i64(e, 0), all, 1, 0, NULL);
  nabla_ssa at = k_add(e, first, steps.induction);
  const tile t = {
      .of = &x,
      .line = rows.induction,
      .k = k_multiply(e, steps.induction, NABLA_DENSE_STEP),
      .out = k_address(e, e->workspace, k_multiply(e, at, NABLA_TILE_BYTES)),
      .scratch = e->scratch};
  pack_tile(e, &t);
  k_loop_end(e, &steps, NULL);
  k_loop_end(e, &rows, NULL);
}

/* ---- w ---------------------------------------------------------------------
 */

/* Elements between columns, or where these are side by side between elements
 * of one. */
static nabla_ssa stride_of(nabla_emitter *e, int along_k) {
  const nabla_fused_spec *spec = e->spec;
  if (e->w_stride) return e->w_stride;
  if (along_k) return k_i64(e, nabla_spec_row_stride(spec));
  return k_i64(e, spec->k == 1 ? 0 : spec->stride_k);
}

/* The address of elements AHEAD later of the lines of `t`, or where there are
 * none the first ones of the next group. */
static nabla_ssa ahead_of(nabla_emitter *e, const tile *t) {
  nabla_ssa k = k_add_constant(e, t->k, AHEAD);
  nabla_ssa exists = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", k, e->k);
  nabla_ssa first =
      k_op(e, "arith.remui %%v%u, %%v%u : i64", t->k, k_i64(e, AHEAD));
  return element(
      e, t->of,
      k_choice(e, exists, t->line, k_add_constant(e, t->line, t->of->group)),
      k_choice(e, exists, k, first));
}

/* The tile of half panel `half` and step `step`. */
static void pack_step(nabla_emitter *e, const operand *w,
                      const nabla_dense_panel *panel, nabla_ssa half,
                      nabla_ssa step) {
  nabla_ssa at = k_add(e, k_multiply(e, half, NABLA_DENSE_HALF),
                       k_multiply(e, step, NABLA_TILE_BYTES));
  tile t = {.of = w,
            .line = k_add(e, panel->column, k_multiply(e, half, LINES)),
            .k = k_add(e, panel->k, k_multiply(e, step, NABLA_DENSE_STEP)),
            .out = k_address(e, panel->out, at),
            .scratch = panel->scratch};
  if (!w->along_k) t.ahead = ahead_of(e, &t);
  pack_tile(e, &t);
}

/* Tiles that lie side by side in memory follow each other. */
void nabla_emit_dense_pack_b(nabla_emitter *e, const nabla_dense_panel *panel) {
  const int along_k = nabla_spec_is_row(e->spec);
  const operand w = {
      .base = k_address(e, e->codes, k_i64(e, e->spec->offset * 2)),
      .stride = stride_of(e, along_k),
      .count = e->n,
      .along_k = along_k,
      .pairs_first = 1,
      .group = panel->most};
  nabla_loop outer, inner;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa count =
      k_divide(e, k_add_constant(e, panel->columns, LINES - 1), LINES);
  nabla_ssa steps = nabla_emit_dense_steps(e, panel->count);
  k_loop_begin(e, &outer, zero, along_k ? count : steps, 1, 0, NULL);
  k_loop_begin(e, &inner, zero, along_k ? steps : count, 1, 0, NULL);
  if (along_k)
    pack_step(e, &w, panel, outer.induction, inner.induction);
  else
    pack_step(e, &w, panel, inner.induction, outer.induction);
  k_loop_end(e, &inner, NULL);
  k_loop_end(e, &outer, NULL);
}
