/* Cumulative sums. Of one column they are computed 16 rows at a time: sums
 * within the vector as a tree, to which the sum of all rows before is added. Of
 * several columns a unit holds a sum of each in memory of the stack. Sums begin
 * with -0, which added to a value is that value. */
#include "transforms/cluster/along_unit.h"

/* Lanes of two vectors: -0 `distance` times, then those of `x` from the first
 * one on. */
static nabla_ssa shifted(nabla_along_unit *u, nabla_ssa x, unsigned distance) {
  nabla_text line = {0};
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  nabla_ssa none = nabla_cluster_number(&u->values, -0.0);
  nabla_text_add(&line, "vector.shuffle %%v%u, %%v%u [", none, x);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "",
                   i < distance ? i : NABLA_LANES + i - distance);
  nabla_text_add(&line, "] : %s, %s", type, type);
  return k_taken(u->e, &line);
}

/* The last lane of `x` in all lanes. */
static nabla_ssa last_lane(nabla_along_unit *u, nabla_ssa x) {
  nabla_text line = {0};
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  nabla_text_add(&line, "vector.shuffle %%v%u, %%v%u [", x, x);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "", NABLA_LANES - 1);
  nabla_text_add(&line, "] : %s, %s", type, type);
  return k_taken(u->e, &line);
}

static nabla_ssa add(nabla_along_unit *u, nabla_shape shape, nabla_ssa a,
                     nabla_ssa b) {
  u->values.shape = shape;
  return nabla_cluster_combine(&u->values, NABLA_CLUSTER_sum, a, b);
}

/* Adds element `at` to the sum in memory, which is its result. */
static void add_element(nabla_along_unit *u, nabla_ssa at) {
  nabla_ssa x = nabla_along_read(u, NABLA_SCALAR, at);
  nabla_ssa next = add(u, NABLA_SCALAR, nabla_along_recall(u), x);
  nabla_along_keep(u, next);
  nabla_along_write(u, NABLA_SCALAR, at, next);
}

/* The rows behind the last whole vector, each after the other; the sum before
 * them is in memory. */
static void add_rest(nabla_along_unit *u, nabla_ssa from, nabla_ssa to) {
  nabla_emitter *e = u->e;
  nabla_loop rest;
  k_loop_begin(e, &rest, from, to, 1, 0, NULL);
  add_element(u, k_add(e, u->start, rest.induction));
  k_loop_end(e, &rest, NULL);
}

/* The one column, if there is one only. */
static void of_one_column(nabla_along_unit *u, nabla_ssa is_one) {
  nabla_emitter *e = u->e;
  nabla_loop loop;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa rows = k_choice(e, is_one, u->rows, zero);
  nabla_ssa whole = k_multiply(e, k_divide(e, rows, NABLA_LANES), NABLA_LANES);
  u->values.lanes_of_vectors = NABLA_LANES;
  const char *type = nabla_along_type(u, NABLA_VECTOR);
  nabla_ssa none = nabla_cluster_number(&u->values, -0.0);
  k_loop_begin_of(e, &loop, zero, whole, NABLA_LANES, 1, &none, &type);
  nabla_ssa at = k_add(e, u->start, loop.induction);
  nabla_ssa x = nabla_along_read(u, NABLA_VECTOR, at);
  for (unsigned distance = 1; distance < NABLA_LANES; distance *= 2)
    x = add(u, NABLA_VECTOR, shifted(u, x, distance), x);
  nabla_along_write(u, NABLA_VECTOR, at,
                    add(u, NABLA_VECTOR, loop.carried[0], x));
  nabla_ssa next = add(u, NABLA_VECTOR, loop.carried[0], last_lane(u, x));
  k_loop_end(e, &loop, &next);
  nabla_along_store(u, u->values.lane, 0, zero, loop.results[0]);
  add_rest(u, whole, rows);
  u->values.lanes_of_vectors = u->a->lanes;
}

static void of_vectors(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  nabla_loop rows, vectors;
  nabla_ssa zero = k_i64(e, 0);
  u->values.shape = NABLA_VECTOR;
  nabla_ssa none = nabla_cluster_number(&u->values, -0.0);
  nabla_along_find_vectors(u);
  k_loop_begin(e, &vectors, zero, u->steps, 1, 0, NULL);
  nabla_along_store(u, u->values.lane, 0, vectors.induction, none);
  k_loop_end(e, &vectors, NULL);
  k_loop_begin(e, &rows, zero, u->joined, 1, 0, NULL);
  nabla_ssa start = nabla_along_row(u, rows.induction);
  k_loop_begin(e, &vectors, zero, u->steps, 1, 0, NULL);
  nabla_ssa at = k_add(e, start, nabla_along_column(u, vectors.induction));
  nabla_ssa sum = nabla_along_load(u, u->values.lane, 0, vectors.induction);
  sum = add(u, NABLA_VECTOR, sum, nabla_along_read(u, NABLA_VECTOR, at));
  nabla_along_store(u, u->values.lane, 0, vectors.induction, sum);
  nabla_along_write(u, NABLA_VECTOR, at, sum);
  k_loop_end(e, &vectors, NULL);
  k_loop_end(e, &rows, NULL);
}

static void of_elements(nabla_along_unit *u, nabla_ssa is_one) {
  nabla_emitter *e = u->e;
  nabla_loop columns, rows;
  nabla_ssa zero = k_i64(e, 0);
  u->values.shape = NABLA_SCALAR;
  nabla_ssa none = nabla_cluster_number(&u->values, -0.0);
  nabla_ssa narrow = nabla_along_compare(e, "eq", u->steps, zero);
  nabla_ssa several =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i1", is_one, narrow);
  nabla_along_each_column(u, several, &columns);
  nabla_along_keep(u, none);
  k_loop_begin(e, &rows, zero, u->rows, 1, 0, NULL);
  add_element(u,
              k_add(e, nabla_along_row(u, rows.induction), columns.induction));
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &columns, NULL);
}

void nabla_along_sums(nabla_along_unit *u) {
  nabla_ssa is_one =
      nabla_along_compare(u->e, "eq", u->columns, k_i64(u->e, 1));
  of_one_column(u, is_one);
  of_vectors(u);
  of_elements(u, is_one);
}
