/* argmax and argmin: the first row with the largest value, or with the first
 * NaN; argmin negates what it reads. Of one column the largest of a chunk of
 * rows is found first, and where it is only if it is above all before. Of
 * several columns a unit holds the largest value of each, and its row, in
 * memory of the stack. */
#include "transforms/cluster/along_unit.h"

enum {
  CHUNK = 4096, /* rows of one column that are read twice, from the caches */
  STEP = 4,     /* vectors, or rows, at a time */
  ROWS_AT = NABLA_ALONG_NUMBERS, /* bytes of the stack before rows */
};

#define F32   nabla_type_f32[NABLA_VECTOR]
#define I32   nabla_type_i32[NABLA_VECTOR]
#define SPOT  "vector<16xi1>"
#define NEVER 0x7FFFFFFFu /* a row behind all of a chunk */

static nabla_ssa two(nabla_emitter *e, const char *operation, const char *type,
                     nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b, type);
}

/* Elements in which the largest is sought. */
static nabla_ssa taken(const nabla_along_unit *u, nabla_shape shape,
                       nabla_ssa x) {
  if (u->a->kind == NABLA_ALONG_LARGEST) return x;
  return k_op(u->e, "arith.negf %%v%u : %s", x, nabla_type_f32[shape]);
}

static nabla_ssa read_lanes(const nabla_along_unit *u, nabla_ssa at) {
  return taken(u, NABLA_VECTOR, k_read_lanes(u->e, u->x, at, NABLA_LANES));
}

static nabla_ssa choose(const nabla_along_unit *u, const char *type,
                        nabla_ssa spots, nabla_ssa yes, nabla_ssa no) {
  return k_op(u->e, "arith.select %%v%u, %%v%u, %%v%u : " SPOT ", %s", spots,
              yes, no, type);
}

/* Whether `x`, of a later row, takes the place of `best`. */
static nabla_ssa is_better(const nabla_along_unit *u, nabla_shape shape,
                           nabla_ssa x, nabla_ssa best) {
  const char *type = nabla_type_f32[shape];
  nabla_ssa above = two(u->e, "cmpf ugt,", type, x, best);
  nabla_ssa number = two(u->e, "cmpf ord,", type, best, best);
  return two(u->e, "andi", shape == NABLA_SCALAR ? "i1" : SPOT, above, number);
}

/* Writes i64 number `at` of the result. */
static void give(const nabla_along_unit *u, nabla_ssa at, nabla_ssa row) {
  k_store(u->e, "i64", row, u->y, k_multiply(u->e, at, 8), 8);
}

/* ---- element by element -------------------------------------------------- */

static nabla_array_ref best_value(const nabla_along_unit *u) {
  return nabla_floats_at(u->e->scratch);
}

static nabla_ssa best_row(const nabla_along_unit *u) {
  return k_load(u->e, "i64", u->e->scratch, k_i64(u->e, ROWS_AT), 8);
}

static void set_best_row(const nabla_along_unit *u, nabla_ssa row) {
  k_store(u->e, "i64", row, u->e->scratch, k_i64(u->e, ROWS_AT), 8);
}

static void begin_best(nabla_along_unit *u) {
  u->values.shape = NABLA_SCALAR;
  k_write(u->e, best_value(u), k_i64(u->e, 0),
          nabla_cluster_initial(&u->values, NABLA_CLUSTER_max));
  set_best_row(u, k_i64(u->e, 0));
}

/* The columns of a unit, if `condition` holds. */
static void by_elements(nabla_along_unit *u, nabla_ssa condition) {
  nabla_emitter *e = u->e;
  nabla_loop columns, rows;
  nabla_ssa zero = k_i64(e, 0);
  nabla_along_each_column(u, condition, &columns);
  begin_best(u);
  k_loop_begin(e, &rows, zero, u->rows, 1, 0, NULL);
  nabla_ssa at =
      k_add(e, nabla_along_row(u, rows.induction), columns.induction);
  nabla_ssa x = taken(u, NABLA_SCALAR, k_read(e, u->x, at));
  nabla_ssa best = k_read(e, best_value(u), zero);
  nabla_ssa better = is_better(u, NABLA_SCALAR, x, best);
  k_write(e, best_value(u), zero, k_select(e, NABLA_SCALAR, better, x, best));
  set_best_row(u, k_choice(e, better, rows.induction, best_row(u)));
  k_loop_end(e, &rows, NULL);
  give(u, k_add(e, u->result, columns.induction), best_row(u));
  k_loop_end(e, &columns, NULL);
}

/* ---- one column ---------------------------------------------------------- */

typedef struct chunk {
  nabla_ssa begin, end, last; /* rows; the last vector of rows */
} chunk;

/* The larger number; where one is NaN, `b`. */
static nabla_ssa larger(const nabla_along_unit *u, nabla_ssa a, nabla_ssa b) {
  return choose(u, F32, two(u->e, "cmpf ogt,", F32, a, b), a, b);
}

/* `count` vectors from row `at` on: joins each with the largest numbers so far,
 * v[i], and makes v[STEP] NaN where one of them is. */
static void join(const nabla_along_unit *u, const nabla_ssa *at, unsigned count,
                 const nabla_ssa *carried, nabla_ssa *v) {
  nabla_emitter *e = u->e;
  nabla_ssa x[STEP];
  nabla_ssa nan = k_op(e, "arith.constant dense<0x7FC00000> : vector<16xf32>");
  v[STEP] = carried[STEP];
  for (unsigned i = 0; i < STEP; i++) v[i] = carried[i];
  for (unsigned i = 0; i < count; i++)
    x[i] = read_lanes(u, k_add(e, u->start, at[i]));
  for (unsigned i = 0; i < count; i += 2) {
    nabla_ssa other = x[i + 1 < count ? i + 1 : i];
    v[STEP] =
        choose(u, F32, two(e, "cmpf uno,", F32, x[i], other), nan, v[STEP]);
  }
  for (unsigned i = 0; i < count; i++) v[i] = larger(u, x[i], carried[i]);
}

/* The largest of a chunk, f32; NaN if one is. */
static nabla_ssa largest(nabla_along_unit *u, const chunk *c) {
  nabla_emitter *e = u->e;
  nabla_loop steps, rest;
  nabla_ssa at[STEP], v[STEP + 1];
  nabla_ssa size = nabla_along_subtract(e, c->end, c->begin);
  nabla_ssa whole =
      k_multiply(e, k_divide(e, size, STEP * NABLA_LANES), STEP * NABLA_LANES);
  nabla_ssa middle = k_add(e, c->begin, whole);
  u->values.shape = NABLA_VECTOR;
  for (unsigned i = 0; i < STEP; i++)
    v[i] = nabla_cluster_initial(&u->values, NABLA_CLUSTER_max);
  v[STEP] = nabla_cluster_number(&u->values, 0);
  k_loop_begin(e, &steps, c->begin, middle, STEP * NABLA_LANES, STEP + 1, v);
  for (unsigned i = 0; i < STEP; i++)
    at[i] = k_add_constant(e, steps.induction, i * NABLA_LANES);
  join(u, at, STEP, steps.carried, v);
  k_loop_end(e, &steps, v);
  k_loop_begin(e, &rest, middle, c->end, NABLA_LANES, STEP + 1, steps.results);
  at[0] = k_minimum(e, rest.induction, c->last);
  join(u, at, 1, rest.carried, v);
  k_loop_end(e, &rest, v);
  for (unsigned i = 0; i < STEP; i++) v[i] = rest.results[i];
  for (unsigned half = STEP / 2; half; half /= 2)
    for (unsigned i = 0; i < half; i++) v[i] = larger(u, v[i], v[i + half]);
  nabla_ssa value =
      nabla_cluster_lanes(&u->values, NABLA_CLUSTER_largest, v[0]);
  return k_binary(e, NABLA_SCALAR, "addf", value, k_sum(e, rest.results[STEP]));
}

/* The first row of a chunk that is `value`, or NaN if that is. Rows before the
 * chunk, which its last vector may have, are below. */
static nabla_ssa find(nabla_along_unit *u, const chunk *c, nabla_ssa value) {
  static const uint32_t lanes[NABLA_LANES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                              8, 9, 10, 11, 12, 13, 14, 15};
  nabla_emitter *e = u->e;
  nabla_loop loop;
  nabla_ssa never = k_i32(e, NABLA_VECTOR, NEVER);
  nabla_ssa first = k_bitcast(e, I32, F32, never);
  nabla_ssa wanted = k_broadcast(e, "f32", value);
  nabla_ssa order = k_i32_lanes(e, lanes);
  k_loop_begin(e, &loop, c->begin, c->end, NABLA_LANES, 1, &first);
  nabla_ssa at = k_minimum(e, loop.induction, c->last);
  nabla_ssa x = read_lanes(u, k_add(e, u->start, at));
  nabla_ssa is_it = two(e, "ori", SPOT, two(e, "cmpf oeq,", F32, x, wanted),
                        two(e, "cmpf uno,", F32, x, x));
  nabla_ssa inside = k_op(e, "arith.trunci %%v%u : i64 to i32",
                          nabla_along_subtract(e, at, c->begin));
  nabla_ssa rows = two(e, "addi", I32, k_broadcast(e, "i32", inside), order);
  rows = choose(u, I32, is_it, rows, never);
  nabla_ssa old = k_bitcast(e, F32, I32, loop.carried[0]);
  nabla_ssa next = k_bitcast(e, I32, F32, two(e, "minsi", I32, old, rows));
  k_loop_end(e, &loop, &next);
  nabla_ssa row = k_op(e,
                       "vector.reduction <minsi>, %%v%u : vector<16xi32> into "
                       "i32",
                       k_bitcast(e, F32, I32, loop.results[0]));
  return k_add(e, c->begin, k_op(e, "arith.extsi %%v%u : i32 to i64", row));
}

/* The one column of at least 16 rows, if `condition` holds. */
static void of_one_column(nabla_along_unit *u, nabla_ssa condition) {
  nabla_emitter *e = u->e;
  nabla_loop once, chunks, better;
  nabla_ssa zero = k_i64(e, 0), one = k_i64(e, 1);
  k_loop_begin(e, &once, zero, k_choice(e, condition, one, zero), 1, 0, NULL);
  begin_best(u);
  k_loop_begin(e, &chunks, zero, u->rows, CHUNK, 0, NULL);
  chunk c = {.begin = chunks.induction};
  c.end = k_minimum(e, k_add_constant(e, c.begin, CHUNK), u->rows);
  c.last = nabla_along_subtract(e, c.end, k_i64(e, NABLA_LANES));
  nabla_ssa value = largest(u, &c);
  nabla_ssa good =
      is_better(u, NABLA_SCALAR, value, k_read(e, best_value(u), zero));
  k_loop_begin(e, &better, zero, k_choice(e, good, one, zero), 1, 0, NULL);
  k_write(e, best_value(u), zero, value);
  set_best_row(u, find(u, &c, value));
  k_loop_end(e, &better, NULL);
  k_loop_end(e, &chunks, NULL);
  give(u, u->result, best_row(u));
  k_loop_end(e, &once, NULL);
}

/* ---- vectors of columns -------------------------------------------------- */

static void clear(nabla_along_unit *u) {
  nabla_loop loop;
  u->values.shape = NABLA_VECTOR;
  nabla_ssa least = nabla_cluster_initial(&u->values, NABLA_CLUSTER_max);
  nabla_ssa zero = k_i32(u->e, NABLA_VECTOR, 0);
  k_loop_begin(u->e, &loop, k_i64(u->e, 0), u->steps, 1, 0, NULL);
  nabla_along_store(u, F32, 0, loop.induction, least);
  nabla_along_store(u, I32, ROWS_AT, loop.induction, zero);
  k_loop_end(u->e, &loop, NULL);
}

/* Joins rows [from, to), `count` at a time; neighbours first, so that of equal
 * values the first stays. */
static void join_rows(nabla_along_unit *u, nabla_ssa from, nabla_ssa to,
                      unsigned count) {
  nabla_emitter *e = u->e;
  nabla_loop rows, vectors;
  nabla_ssa starts[STEP], x[STEP], row[STEP];
  k_loop_begin(e, &rows, from, to, count, 0, NULL);
  nabla_ssa base = k_broadcast(
      e, "i32", k_op(e, "arith.trunci %%v%u : i64 to i32", rows.induction));
  for (unsigned i = 0; i < count; i++)
    starts[i] = nabla_along_row(u, k_add_constant(e, rows.induction, i));
  k_loop_begin(e, &vectors, k_i64(e, 0), u->steps, 1, 0, NULL);
  nabla_ssa column = nabla_along_column(u, vectors.induction);
  for (unsigned i = 0; i < count; i++) {
    x[i] = read_lanes(u, k_add(e, starts[i], column));
    row[i] = k_i32(e, NABLA_VECTOR, i);
  }
  for (unsigned apart = 1; apart < count; apart *= 2)
    for (unsigned i = 0; i < count; i += 2 * apart) {
      nabla_ssa later = is_better(u, NABLA_VECTOR, x[i + apart], x[i]);
      x[i] = choose(u, F32, later, x[i + apart], x[i]);
      row[i] = choose(u, I32, later, row[i + apart], row[i]);
    }
  nabla_ssa best = nabla_along_load(u, F32, 0, vectors.induction);
  nabla_ssa where = nabla_along_load(u, I32, ROWS_AT, vectors.induction);
  nabla_ssa later = is_better(u, NABLA_VECTOR, x[0], best);
  best = choose(u, F32, later, x[0], best);
  where = choose(u, I32, later, two(e, "addi", I32, base, row[0]), where);
  nabla_along_store(u, F32, 0, vectors.induction, best);
  nabla_along_store(u, I32, ROWS_AT, vectors.induction, where);
  k_loop_end(e, &vectors, NULL);
  k_loop_end(e, &rows, NULL);
}

static void store_results(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), u->steps, 1, 0, NULL);
  nabla_ssa rows =
      k_op(e, "arith.extsi %%v%u : vector<16xi32> to vector<16xi64>",
           nabla_along_load(u, I32, ROWS_AT, loop.induction));
  nabla_ssa at = k_add(e, u->result, nabla_along_column(u, loop.induction));
  k_store(e, "vector<16xi64>", rows, u->y, k_multiply(e, at, 8), 8);
  k_loop_end(e, &loop, NULL);
}

/* Rows are counted in 32 bits. */
static void of_vectors(nabla_along_unit *u, nabla_ssa few_rows) {
  nabla_emitter *e = u->e;
  nabla_ssa zero = k_i64(e, 0);
  nabla_along_find_vectors(u);
  u->steps = k_choice(e, few_rows, u->steps, zero);
  nabla_ssa whole = k_multiply(e, k_divide(e, u->rows, STEP), STEP);
  clear(u);
  join_rows(u, zero, whole, STEP);
  join_rows(u, whole, u->rows, 1);
  store_results(u);
}

void nabla_along_arg(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  nabla_ssa is_one = nabla_along_compare(e, "eq", u->columns, k_i64(e, 1));
  nabla_ssa many =
      nabla_along_compare(e, "uge", u->rows, k_i64(e, NABLA_LANES));
  nabla_ssa is_row = two(e, "andi", "i1", is_one, many);
  of_vectors(u, nabla_along_compare(e, "ult", u->rows, k_i64(e, NEVER)));
  nabla_ssa no_vectors = nabla_along_compare(e, "eq", u->steps, k_i64(e, 0));
  of_one_column(u, is_row);
  by_elements(u, two(e, "cmpi ult,", "i1", is_row, no_vectors));
}
