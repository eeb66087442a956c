/* argmax and argmin: the first row with the largest value, or with the first
 * NaN; argmin negates what it reads, of integers each bit. Of one column
 * vectors hold the largest value of each lane and its row; where a NaN is, is
 * searched for only if there is one. Of several columns a unit holds the
 * largest value of each, and its row, in memory of the stack. */
#include <math.h>
#include <string.h>

#include "transforms/cluster/along_unit.h"

enum {
  CHUNK = 1 << 16, /* rows of one column, counted in 32 bits */
  STEP = 4,        /* vectors, or rows, at a time */
};

#define I32   nabla_type_i32[NABLA_VECTOR]
#define SPOT  "vector<16xi1>"
#define NEVER 0x7FFFFFFFu /* a row behind all of a chunk */

static nabla_ssa two(nabla_emitter *e, const char *operation, const char *type,
                     nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b, type);
}

/* An element, or a vector: the largest of them is sought. */
static nabla_ssa read(nabla_along_unit *u, nabla_shape shape, nabla_ssa at) {
  nabla_ssa x = nabla_along_read(u, shape, at);
  const char *type = nabla_along_type(u, shape);
  if (u->a->kind == NABLA_ALONG_LARGEST) return x;
  if (u->values.lane->is_float)
    return k_op(u->e, "arith.negf %%v%u : %s", x, type);
  return two(u->e, "xori", type, x, nabla_cluster_integer(&u->values, -1));
}

static const nabla_cluster_lane *rows_lane(void) {
  return nabla_cluster_lane_of(NABLA_DTYPE_I32);
}

/* Bytes of the stack in front of rows. */
static uint64_t rows_at(const nabla_along_unit *u) {
  return NABLA_ALONG_NUMBERS(u->values.lane->bytes);
}

static nabla_ssa choose(const nabla_along_unit *u, const char *type,
                        nabla_ssa spots, nabla_ssa yes, nabla_ssa no) {
  return k_op(u->e, "arith.select %%v%u, %%v%u, %%v%u : " SPOT ", %s", spots,
              yes, no, type);
}

/* Whether `x`, of a later row, takes the place of `best`. */
static nabla_ssa is_better(nabla_along_unit *u, nabla_shape shape, nabla_ssa x,
                           nabla_ssa best) {
  const nabla_cluster_lane *lane = u->values.lane;
  const char *type = nabla_along_type(u, shape);
  if (!lane->is_float)
    return two(u->e, lane->is_unsigned ? "cmpi ugt," : "cmpi sgt,", type, x,
               best);
  nabla_ssa above = two(u->e, "cmpf ugt,", type, x, best);
  nabla_ssa number = two(u->e, "cmpf ord,", type, best, best);
  return two(u->e, "andi", shape == NABLA_SCALAR ? "i1" : SPOT, above, number);
}

/* Writes i64 number `at` of the result. */
static void give(const nabla_along_unit *u, nabla_ssa at, nabla_ssa row) {
  k_store(u->e, "i64", row, u->y.base, k_multiply(u->e, at, 8), 8);
}

/* ---- element by element -------------------------------------------------- */

static nabla_ssa best_row(const nabla_along_unit *u) {
  return k_load(u->e, "i64", u->e->scratch, k_i64(u->e, rows_at(u)), 8);
}

static void set_best_row(const nabla_along_unit *u, nabla_ssa row) {
  k_store(u->e, "i64", row, u->e->scratch, k_i64(u->e, rows_at(u)), 8);
}

static void begin_best(nabla_along_unit *u) {
  u->values.shape = NABLA_SCALAR;
  nabla_along_keep(u, nabla_cluster_initial(&u->values, NABLA_CLUSTER_max));
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
  nabla_ssa x = read(u, NABLA_SCALAR, at);
  nabla_ssa best = nabla_along_recall(u);
  nabla_ssa better = is_better(u, NABLA_SCALAR, x, best);
  nabla_along_keep(u, nabla_cluster_choose(&u->values, better, x, best));
  set_best_row(u, k_choice(e, better, rows.induction, best_row(u)));
  k_loop_end(e, &rows, NULL);
  give(u, k_add(e, u->result, columns.induction), best_row(u));
  k_loop_end(e, &columns, NULL);
}

/* ---- one column ---------------------------------------------------------- */

typedef struct chunk {
  nabla_ssa begin, end, last; /* rows; the last vector of rows */
} chunk;

/* Vectors that loops carry: the largest numbers so far, for each the step that
 * it is of, i32 counted from the begin of the chunk, and for floats NaN in the
 * lanes where one was. */
enum { STEPS = STEP, NANS = 2 * STEP, CARRIED };

static unsigned carried_by(const nabla_along_unit *u) {
  return u->values.lane->is_float ? CARRIED : NANS;
}

static void carry_types(nabla_along_unit *u, const char **types) {
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  for (unsigned i = 0; i < STEP; i++) types[i] = type;
  for (unsigned i = 0; i < STEP; i++) types[STEPS + i] = I32;
  types[NANS] = type;
}

static void carry_nothing(nabla_along_unit *u, nabla_ssa *v) {
  u->values.shape = NABLA_VECTOR;
  nabla_ssa least = nabla_cluster_initial(&u->values, NABLA_CLUSTER_max);
  for (unsigned i = 0; i < STEP; i++) v[i] = least;
  for (unsigned i = 0; i < STEP; i++)
    v[STEPS + i] = k_i32(u->e, NABLA_VECTOR, 0);
  v[NANS] = nabla_cluster_number(&u->values, 0);
}

/* Row `at`, counted from the begin of a chunk, in all lanes. */
static nabla_ssa counted(const nabla_along_unit *u, const chunk *c,
                         nabla_ssa at) {
  nabla_ssa inside = k_op(u->e, "arith.trunci %%v%u : i64 to i32",
                          nabla_along_subtract(u->e, at, c->begin));
  return k_broadcast(u->e, "i32", inside);
}

/* The lowest of rows in lanes. */
static nabla_ssa first_of(const nabla_along_unit *u, const chunk *c,
                          nabla_ssa rows) {
  nabla_ssa row = k_op(
      u->e, "vector.reduction <minsi>, %%v%u : vector<16xi32> into i32", rows);
  row = k_op(u->e, "arith.extsi %%v%u : i32 to i64", row);
  return k_add(u->e, c->begin, row);
}

/* Whether lanes of x are above those of y; not where one is NaN. */
static nabla_ssa are_above(nabla_along_unit *u, nabla_ssa x, nabla_ssa y) {
  const nabla_cluster_lane *lane = u->values.lane;
  return two(u->e,
             lane->is_float      ? "cmpf ogt,"
             : lane->is_unsigned ? "cmpi ugt,"
                                 : "cmpi sgt,",
             nabla_along_type(u, NABLA_VECTOR), x, y);
}

/* Joins `count` vectors from row `at` on with the carried ones. */
static void join(nabla_along_unit *u, const chunk *c, nabla_ssa at,
                 unsigned count, nabla_ssa *v) {
  nabla_ssa x[STEP], start = k_add(u->e, u->start, at);
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  nabla_ssa step = counted(u, c, at);
  for (unsigned i = 0; i < count; i++)
    x[i] = read(u, NABLA_VECTOR, k_add_constant(u->e, start, i * NABLA_LANES));
  for (unsigned i = 0; u->values.lane->is_float && i < count; i += 2) {
    nabla_ssa other = x[i + 1 < count ? i + 1 : i];
    nabla_ssa nan = nabla_cluster_number(&u->values, NAN);
    v[NANS] = choose(u, type, two(u->e, "cmpf uno,", type, x[i], other), nan,
                     v[NANS]);
  }
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa above = are_above(u, x[i], v[i]);
    v[i] = choose(u, type, above, x[i], v[i]);
    v[STEPS + i] = choose(u, I32, above, step, v[STEPS + i]);
  }
}

/* The carried vectors of all of a chunk. */
static void join_chunk(nabla_along_unit *u, const chunk *c, nabla_ssa *v) {
  nabla_emitter *e = u->e;
  nabla_loop steps, rest;
  const char *types[CARRIED];
  const unsigned count = carried_by(u);
  nabla_ssa size = nabla_along_subtract(e, c->end, c->begin);
  nabla_ssa whole =
      k_multiply(e, k_divide(e, size, STEP * NABLA_LANES), STEP * NABLA_LANES);
  nabla_ssa middle = k_add(e, c->begin, whole);
  carry_types(u, types);
  carry_nothing(u, v);
  k_loop_begin_of(e, &steps, c->begin, middle, STEP * NABLA_LANES, count, v,
                  types);
  memcpy(v, steps.carried, count * sizeof *v);
  join(u, c, steps.induction, STEP, v);
  k_loop_end(e, &steps, v);
  k_loop_begin_of(e, &rest, middle, c->end, NABLA_LANES, count, steps.results,
                  types);
  memcpy(v, rest.carried, count * sizeof *v);
  join(u, c, k_minimum(e, rest.induction, c->last), 1, v);
  k_loop_end(e, &rest, v);
  memcpy(v, rest.results, count * sizeof *v);
}

/* The largest lane of carried vectors, a scalar. */
static nabla_ssa largest_lane(nabla_along_unit *u, const nabla_ssa *v) {
  nabla_ssa x[STEP];
  const nabla_cluster_reduction how =
      u->values.lane->is_float ? NABLA_CLUSTER_largest : NABLA_CLUSTER_max;
  u->values.shape = NABLA_VECTOR;
  memcpy(x, v, sizeof x);
  for (unsigned half = STEP / 2; half; half /= 2)
    for (unsigned i = 0; i < half; i++)
      x[i] = nabla_cluster_combine(&u->values, how, x[i], x[i + half]);
  return nabla_cluster_lanes(&u->values, how, x[0]);
}

static nabla_ssa order_of_lanes(nabla_emitter *e, unsigned first) {
  uint32_t lanes[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) lanes[i] = first + i;
  return k_i32_lanes(e, lanes);
}

/* The first row of a chunk with its largest value, a scalar. Rows before the
 * chunk, which its last vector may have, are below. */
static nabla_ssa first_row(nabla_along_unit *u, const chunk *c,
                           const nabla_ssa *v, nabla_ssa largest) {
  nabla_emitter *e = u->e;
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  const char *equal = u->values.lane->is_float ? "cmpf oeq," : "cmpi eq,";
  nabla_ssa first = 0, never = k_i32(e, NABLA_VECTOR, NEVER);
  nabla_ssa wanted =
      k_broadcast(e, u->values.lane->type[NABLA_SCALAR], largest);
  for (unsigned i = 0; i < STEP; i++) {
    nabla_ssa rows =
        two(e, "addi", I32, v[STEPS + i], order_of_lanes(e, i * NABLA_LANES));
    rows = choose(u, I32, two(e, equal, type, v[i], wanted), rows, never);
    first = i ? two(e, "minsi", I32, first, rows) : rows;
  }
  return first_of(u, c, first);
}

/* The first NaN of a chunk that has one. */
static nabla_ssa first_nan(nabla_along_unit *u, const chunk *c) {
  nabla_emitter *e = u->e;
  nabla_loop loop;
  nabla_ssa never = k_i32(e, NABLA_VECTOR, NEVER);
  const char *type = I32;
  k_loop_begin_of(e, &loop, c->begin, c->end, NABLA_LANES, 1, &never, &type);
  nabla_ssa at = k_minimum(e, loop.induction, c->last);
  nabla_ssa x = read(u, NABLA_VECTOR, k_add(e, u->start, at));
  nabla_ssa rows = two(e, "addi", I32, counted(u, c, at), order_of_lanes(e, 0));
  nabla_ssa nans = two(e, "cmpf uno,", nabla_along_type(u, NABLA_VECTOR), x, x);
  rows = choose(u, I32, nans, rows, never);
  nabla_ssa next = two(e, "minsi", I32, loop.carried[0], rows);
  k_loop_end(e, &loop, &next);
  return first_of(u, c, loop.results[0]);
}

/* The row of a chunk whose carried vectors have NaN, if no NaN is before. */
static void find_nan(nabla_along_unit *u, const chunk *c, nabla_ssa nans) {
  nabla_emitter *e = u->e;
  nabla_loop once;
  u->values.shape = NABLA_VECTOR;
  const char *scalar = u->values.lane->type[NABLA_SCALAR];
  nabla_ssa nan = nabla_cluster_lanes(&u->values, NABLA_CLUSTER_sum, nans);
  nabla_ssa best = nabla_along_recall(u);
  nabla_ssa is_new = two(e, "andi", "i1", two(e, "cmpf uno,", scalar, nan, nan),
                         two(e, "cmpf ord,", scalar, best, best));
  k_loop_begin(e, &once, k_i64(e, 0),
               k_choice(e, is_new, k_i64(e, 1), k_i64(e, 0)), 1, 0, NULL);
  nabla_along_keep(u, nan);
  set_best_row(u, first_nan(u, c));
  k_loop_end(e, &once, NULL);
}

static void join_best(nabla_along_unit *u, const chunk *c) {
  nabla_emitter *e = u->e;
  nabla_ssa v[CARRIED];
  join_chunk(u, c, v);
  nabla_ssa value = largest_lane(u, v);
  nabla_ssa row = first_row(u, c, v, value);
  nabla_ssa best = nabla_along_recall(u);
  nabla_ssa better = is_better(u, NABLA_SCALAR, value, best);
  nabla_along_keep(u, nabla_cluster_choose(&u->values, better, value, best));
  set_best_row(u, k_choice(e, better, row, best_row(u)));
  if (u->values.lane->is_float) find_nan(u, c, v[NANS]);
}

/* The one column of at least 16 rows, if `condition` holds. */
static void of_one_column(nabla_along_unit *u, nabla_ssa condition) {
  nabla_emitter *e = u->e;
  nabla_loop once, chunks;
  nabla_ssa zero = k_i64(e, 0), one = k_i64(e, 1);
  k_loop_begin(e, &once, zero, k_choice(e, condition, one, zero), 1, 0, NULL);
  begin_best(u);
  k_loop_begin(e, &chunks, zero, u->rows, CHUNK, 0, NULL);
  chunk c = {.begin = chunks.induction};
  c.end = k_minimum(e, k_add_constant(e, c.begin, CHUNK), u->rows);
  c.last = nabla_along_subtract(e, c.end, k_i64(e, NABLA_LANES));
  join_best(u, &c);
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
  nabla_along_store(u, u->values.lane, 0, loop.induction, least);
  nabla_along_store(u, rows_lane(), rows_at(u), loop.induction, zero);
  k_loop_end(u->e, &loop, NULL);
}

/* Joins rows [from, to), `count` at a time; neighbours first, so that of equal
 * values the first stays. */
static void join_rows(nabla_along_unit *u, nabla_ssa from, nabla_ssa to,
                      unsigned count) {
  nabla_emitter *e = u->e;
  nabla_loop rows, vectors;
  nabla_ssa starts[STEP], x[STEP], row[STEP];
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  k_loop_begin(e, &rows, from, to, count, 0, NULL);
  nabla_ssa base = k_broadcast(
      e, "i32", k_op(e, "arith.trunci %%v%u : i64 to i32", rows.induction));
  for (unsigned i = 0; i < count; i++)
    starts[i] = nabla_along_row(u, k_add_constant(e, rows.induction, i));
  k_loop_begin(e, &vectors, k_i64(e, 0), u->steps, 1, 0, NULL);
  nabla_ssa column = nabla_along_column(u, vectors.induction);
  for (unsigned i = 0; i < count; i++) {
    x[i] = read(u, NABLA_VECTOR, k_add(e, starts[i], column));
    row[i] = k_i32(e, NABLA_VECTOR, i);
  }
  for (unsigned apart = 1; apart < count; apart *= 2)
    for (unsigned i = 0; i < count; i += 2 * apart) {
      nabla_ssa later = is_better(u, NABLA_VECTOR, x[i + apart], x[i]);
      x[i] = choose(u, type, later, x[i + apart], x[i]);
      row[i] = choose(u, I32, later, row[i + apart], row[i]);
    }
  nabla_ssa best = nabla_along_load(u, u->values.lane, 0, vectors.induction);
  nabla_ssa where =
      nabla_along_load(u, rows_lane(), rows_at(u), vectors.induction);
  nabla_ssa later = is_better(u, NABLA_VECTOR, x[0], best);
  best = choose(u, type, later, x[0], best);
  where = choose(u, I32, later, two(e, "addi", I32, base, row[0]), where);
  nabla_along_store(u, u->values.lane, 0, vectors.induction, best);
  nabla_along_store(u, rows_lane(), rows_at(u), vectors.induction, where);
  k_loop_end(e, &vectors, NULL);
  k_loop_end(e, &rows, NULL);
}

static void store_results(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0), u->steps, 1, 0, NULL);
  nabla_ssa rows =
      k_op(e, "arith.extsi %%v%u : vector<16xi32> to vector<16xi64>",
           nabla_along_load(u, rows_lane(), rows_at(u), loop.induction));
  nabla_ssa at = k_add(e, u->result, nabla_along_column(u, loop.induction));
  k_store(e, "vector<16xi64>", rows, u->y.base, k_multiply(e, at, 8), 8);
  k_loop_end(e, &loop, NULL);
}

/* Rows are counted in 32 bits. */
static void of_vectors(nabla_along_unit *u, nabla_ssa few_rows) {
  nabla_emitter *e = u->e;
  nabla_ssa zero = k_i64(e, 0);
  nabla_along_find_vectors(u);
  u->steps = k_choice(e, few_rows, u->steps, zero);
  u->joined = k_choice(e, few_rows, u->joined, zero);
  nabla_ssa whole = k_multiply(e, k_divide(e, u->joined, STEP), STEP);
  clear(u);
  join_rows(u, zero, whole, STEP);
  join_rows(u, whole, u->joined, 1);
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
