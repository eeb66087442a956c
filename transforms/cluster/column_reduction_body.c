/* Kernels of column reductions. A unit holds an accumulator of each of its
 * columns in memory of the stack, reads eight rows at a time, joins them as a
 * tree and adds the result: eight streams of memory in order. The last vector
 * of a unit ends at its last column, and may compute columns of the one before
 * it again. Arrays of fewer than 16 columns are reduced element by element. */
#include <string.h>

#include "lib/kernels/builder/vector_function.h"
#include "transforms/cluster/body.h"
#include "transforms/cluster/column_reduction.h"

enum { STEP = 8, ACCUMULATOR_BYTES = 4 * 2 * NABLA_COLUMN_BLOCK };

typedef struct kernel {
  nabla_emitter *e;
  const nabla_column_reduction *r;
  nabla_cluster_body values; /* for operations of elements.c */
  nabla_array_ref x, y;
  nabla_ssa rows, columns;
  nabla_ssa start;  /* element of x in which the matrix of the unit begins */
  nabla_ssa result; /* and of y */
  nabla_ssa first, end, last, steps; /* columns, last vector, vectors */
} kernel;

static nabla_ssa subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.subi %%v%u, %%v%u : i64", a, b);
}

static nabla_ssa combine(kernel *k, nabla_ssa a, nabla_ssa b) {
  return nabla_cluster_combine(&k->values, k->r->how, a, b);
}

static nabla_ssa initial(kernel *k) {
  return nabla_cluster_f32(&k->values, nabla_cluster_initial(k->r->how));
}

/* A result: divided by the number of rows for a mean, and rounded. */
static nabla_ssa finish(kernel *k, nabla_ssa value) {
  nabla_emitter *e = k->e;
  const nabla_shape shape = k->values.shape;
  if (k->r->is_mean) {
    nabla_ssa count = k_op(e, "arith.sitofp %%v%u : i64 to f32", k->rows);
    if (shape == NABLA_VECTOR) count = k_broadcast(e, "f32", count);
    value = k_op(e, "arith.divf %%v%u, %%v%u : %s", value, count,
                 nabla_type_f32[shape]);
  }
  return k_round(e, shape, k->r->dtype, value);
}

/* The first column of vector `number` of the unit. */
static nabla_ssa column_of(const kernel *k, nabla_ssa number) {
  nabla_ssa at = k_add(k->e, k->first, k_multiply(k->e, number, NABLA_LANES));
  return k_minimum(k->e, at, k->last);
}

static nabla_ssa row_start(const kernel *k, nabla_ssa row) {
  return k_add(k->e, k->start, k_product(k->e, row, k->columns));
}

static nabla_ssa accumulator_byte(const kernel *k, nabla_ssa number) {
  return k_multiply(k->e, number, 4 * NABLA_LANES);
}

static nabla_ssa load_accumulator(const kernel *k, nabla_ssa number) {
  return k_load(k->e, nabla_type_f32[NABLA_VECTOR], k->e->scratch,
                accumulator_byte(k, number), 64);
}

static void store_accumulator(const kernel *k, nabla_ssa number,
                              nabla_ssa value) {
  k_store(k->e, nabla_type_f32[NABLA_VECTOR], value, k->e->scratch,
          accumulator_byte(k, number), 64);
}

static void clear(kernel *k) {
  nabla_loop loop;
  nabla_ssa none = initial(k);
  k_loop_begin(k->e, &loop, k_i64(k->e, 0), k->steps, 1, 0, NULL);
  store_accumulator(k, loop.induction, none);
  k_loop_end(k->e, &loop, NULL);
}

/* Adds rows [from, to) to the accumulators, `count` at a time. */
static void add_rows(kernel *k, nabla_ssa from, nabla_ssa to, unsigned count) {
  nabla_loop rows, vectors;
  nabla_ssa starts[STEP], x[STEP];
  k_loop_begin(k->e, &rows, from, to, count, 0, NULL);
  for (unsigned i = 0; i < count; i++)
    starts[i] = row_start(k, k_add_constant(k->e, rows.induction, i));
  k_loop_begin(k->e, &vectors, k_i64(k->e, 0), k->steps, 1, 0, NULL);
  nabla_ssa column = column_of(k, vectors.induction);
  for (unsigned i = 0; i < count; i++)
    x[i] =
        k_read_lanes(k->e, k->x, k_add(k->e, starts[i], column), NABLA_LANES);
  for (unsigned half = count / 2; half; half /= 2)
    for (unsigned i = 0; i < half; i++) x[i] = combine(k, x[i], x[i + half]);
  nabla_ssa sum = load_accumulator(k, vectors.induction);
  store_accumulator(k, vectors.induction, combine(k, sum, x[0]));
  k_loop_end(k->e, &vectors, NULL);
  k_loop_end(k->e, &rows, NULL);
}

static void store_results(kernel *k) {
  nabla_loop loop;
  k_loop_begin(k->e, &loop, k_i64(k->e, 0), k->steps, 1, 0, NULL);
  nabla_ssa value = finish(k, load_accumulator(k, loop.induction));
  nabla_ssa at = k_add(k->e, k->result, column_of(k, loop.induction));
  k_write_lanes(k->e, k->y, at, value);
  k_loop_end(k->e, &loop, NULL);
}

/* The columns of a unit of an array of at least 16: no vectors for others. */
static void by_vectors(kernel *k) {
  nabla_emitter *e = k->e;
  nabla_ssa lanes = k_i64(e, NABLA_LANES);
  nabla_ssa width = subtract(e, k->end, k->first);
  nabla_ssa wide = k_op(e, "arith.cmpi uge, %%v%u, %%v%u : i64", width, lanes);
  k->values.shape = NABLA_VECTOR;
  k->last = subtract(e, k->end, lanes);
  k->steps =
      k_divide(e, k_add_constant(e, width, NABLA_LANES - 1), NABLA_LANES);
  k->steps = k_choice(e, wide, k->steps, k_i64(e, 0));
  nabla_ssa whole = k_multiply(e, k_divide(e, k->rows, STEP), STEP);
  clear(k);
  add_rows(k, k_i64(e, 0), whole, STEP);
  add_rows(k, whole, k->rows, 1);
  store_results(k);
}

/* The columns of an array of fewer than 16, one after the other; the
 * accumulator is in memory, since loops carry vectors only. */
static void by_elements(kernel *k) {
  nabla_emitter *e = k->e;
  nabla_loop columns, rows;
  const nabla_array_ref sum = {e->scratch, NABLA_DTYPE_F32};
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa width = subtract(e, k->end, k->first);
  nabla_ssa narrow = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", width,
                          k_i64(e, NABLA_LANES));
  k->values.shape = NABLA_SCALAR;
  nabla_ssa none = initial(k);
  k_loop_begin(e, &columns, k->first, k_choice(e, narrow, k->end, k->first), 1,
               0, NULL);
  k_write(e, sum, zero, none);
  k_loop_begin(e, &rows, zero, k->rows, 1, 0, NULL);
  nabla_ssa at = k_add(e, row_start(k, rows.induction), columns.induction);
  k_write(e, sum, zero, combine(k, k_read(e, sum, zero), k_read(e, k->x, at)));
  k_loop_end(e, &rows, NULL);
  nabla_ssa value = finish(k, k_read(e, sum, zero));
  k_write(e, k->y, k_add(e, k->result, columns.induction), value);
  k_loop_end(e, &columns, NULL);
}

/* Unit number u is block u % blocks of the columns of matrix u / blocks. */
static void set_unit(kernel *k, nabla_ssa unit) {
  nabla_emitter *e = k->e;
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa blocks = k_divide(e, k->columns, NABLA_COLUMN_BLOCK);
  blocks = k_op(e, "arith.maxui %%v%u, %%v%u : i64", blocks, one);
  nabla_ssa matrix = k_op(e, "arith.divui %%v%u, %%v%u : i64", unit, blocks);
  nabla_ssa block = k_op(e, "arith.remui %%v%u, %%v%u : i64", unit, blocks);
  nabla_ssa next = k_add(e, block, one);
  nabla_ssa is_last =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", next, blocks);
  k->result = k_product(e, matrix, k->columns);
  k->start = k_product(e, k->result, k->rows);
  k->first = k_multiply(e, block, NABLA_COLUMN_BLOCK);
  k->end =
      k_choice(e, is_last, k->columns, k_multiply(e, next, NABLA_COLUMN_BLOCK));
}

static void write_body(nabla_emitter *e, void *self) {
  nabla_loop units;
  kernel k = {.e = e, .r = self, .values = {.e = e}};
  k.x = (nabla_array_ref){nabla_vector_function_pointer(e, NABLA_COLUMN_X),
                          k.r->dtype};
  k.y = (nabla_array_ref){nabla_vector_function_pointer(e, NABLA_COLUMN_Y),
                          k.r->dtype};
  k.rows = nabla_vector_function_word(e, NABLA_COLUMN_ROWS);
  k.columns = nabla_vector_function_word(e, NABLA_COLUMN_COLUMNS);
  k_loop_begin(e, &units, e->begin, e->end, 1, 0, NULL);
  set_unit(&k, units.induction);
  by_vectors(&k);
  by_elements(&k);
  k_loop_end(e, &units, NULL);
}

void nabla_column_reduction_emit(const nabla_column_reduction *r,
                                 nabla_features features, const char *name,
                                 nabla_text *text) {
  nabla_column_reduction copy = *r;
  nabla_vector_function_emit(features, name, ACCUMULATOR_BYTES, write_body,
                             &copy, text);
}
