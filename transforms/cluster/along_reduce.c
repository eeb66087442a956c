/* Reductions of rows. A unit holds an accumulator of each of its columns in
 * memory of the stack, reads eight rows at a time, joins them as a tree and
 * adds the result: eight streams of memory in order. */
#include "transforms/cluster/along_unit.h"

enum { STEP = 8 };

static nabla_ssa combine(nabla_along_unit *u, nabla_ssa a, nabla_ssa b) {
  return nabla_cluster_combine(&u->values, u->a->how, a, b);
}

static nabla_ssa initial(nabla_along_unit *u) {
  return nabla_cluster_initial(&u->values, u->a->how);
}

/* A result: divided by the number of rows for a mean, and rounded. */
static nabla_ssa finish(nabla_along_unit *u, nabla_ssa value) {
  nabla_emitter *e = u->e;
  const nabla_shape shape = u->values.shape;
  const char *const *types = u->values.lane->type;
  if (u->a->is_mean) {
    nabla_ssa count =
        k_op(e, "arith.sitofp %%v%u : i64 to %s", u->rows, types[0]);
    if (shape == NABLA_VECTOR) count = k_broadcast(e, types[0], count);
    value = k_op(e, "arith.divf %%v%u, %%v%u : %s", value, count, types[shape]);
  }
  return nabla_cluster_is_f32(u->a->dtype)
             ? k_round(e, shape, u->a->dtype, value)
             : value;
}

static nabla_ssa load(const nabla_along_unit *u, nabla_ssa number) {
  return nabla_along_load(u, u->values.lane, 0, number);
}

static void store(const nabla_along_unit *u, nabla_ssa number,
                  nabla_ssa value) {
  nabla_along_store(u, u->values.lane, 0, number, value);
}

static void clear(nabla_along_unit *u) {
  nabla_loop loop;
  nabla_ssa none = initial(u);
  k_loop_begin(u->e, &loop, k_i64(u->e, 0), u->steps, 1, 0, NULL);
  store(u, loop.induction, none);
  k_loop_end(u->e, &loop, NULL);
}

/* Adds rows [from, to) to the accumulators, `count` at a time. */
static void add_rows(nabla_along_unit *u, nabla_ssa from, nabla_ssa to,
                     unsigned count) {
  nabla_loop rows, vectors;
  nabla_ssa starts[STEP], x[STEP];
  k_loop_begin(u->e, &rows, from, to, count, 0, NULL);
  for (unsigned i = 0; i < count; i++)
    starts[i] = nabla_along_row(u, k_add_constant(u->e, rows.induction, i));
  k_loop_begin(u->e, &vectors, k_i64(u->e, 0), u->steps, 1, 0, NULL);
  nabla_ssa column = nabla_along_column(u, vectors.induction);
  for (unsigned i = 0; i < count; i++)
    x[i] = nabla_along_read(u, NABLA_VECTOR, k_add(u->e, starts[i], column));
  for (unsigned half = count / 2; half; half /= 2)
    for (unsigned i = 0; i < half; i++) x[i] = combine(u, x[i], x[i + half]);
  nabla_ssa sum = load(u, vectors.induction);
  store(u, vectors.induction, combine(u, sum, x[0]));
  k_loop_end(u->e, &vectors, NULL);
  k_loop_end(u->e, &rows, NULL);
}

static void store_results(nabla_along_unit *u) {
  nabla_loop loop;
  k_loop_begin(u->e, &loop, k_i64(u->e, 0), u->steps, 1, 0, NULL);
  nabla_ssa value = finish(u, load(u, loop.induction));
  nabla_ssa at = k_add(u->e, u->result, nabla_along_column(u, loop.induction));
  nabla_along_write(u, NABLA_VECTOR, at, value);
  k_loop_end(u->e, &loop, NULL);
}

static void by_vectors(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  u->values.shape = NABLA_VECTOR;
  nabla_along_find_vectors(u);
  nabla_ssa whole = k_multiply(e, k_divide(e, u->joined, STEP), STEP);
  clear(u);
  add_rows(u, k_i64(e, 0), whole, STEP);
  add_rows(u, whole, u->joined, 1);
  store_results(u);
}

/* The accumulator is in memory, since loops carry vectors only. */
static void by_elements(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  nabla_loop columns, rows;
  nabla_ssa zero = k_i64(e, 0);
  u->values.shape = NABLA_SCALAR;
  nabla_ssa none = initial(u);
  nabla_along_each_column(u, nabla_along_compare(e, "eq", u->steps, zero),
                          &columns);
  nabla_along_keep(u, none);
  k_loop_begin(e, &rows, zero, u->rows, 1, 0, NULL);
  nabla_ssa at =
      k_add(e, nabla_along_row(u, rows.induction), columns.induction);
  nabla_ssa x = nabla_along_read(u, NABLA_SCALAR, at);
  nabla_along_keep(u, combine(u, nabla_along_recall(u), x));
  k_loop_end(e, &rows, NULL);
  nabla_ssa value = finish(u, nabla_along_recall(u));
  nabla_along_write(u, NABLA_SCALAR, k_add(e, u->result, columns.induction),
                    value);
  k_loop_end(e, &columns, NULL);
}

void nabla_along_reduce(nabla_along_unit *u) {
  by_vectors(u);
  by_elements(u);
}
