/* See along_unit.h; and the kernel that runs over the units. */
#include "transforms/cluster/along_unit.h"

#include "lib/kernels/builder/vector_function.h"

nabla_ssa nabla_along_subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.subi %%v%u, %%v%u : i64", a, b);
}

nabla_ssa nabla_along_compare(nabla_emitter *e, const char *how, nabla_ssa a,
                              nabla_ssa b) {
  return k_op(e, "arith.cmpi %s, %%v%u, %%v%u : i64", how, a, b);
}

void nabla_along_find_vectors(nabla_along_unit *u) {
  nabla_emitter *e = u->e;
  const unsigned count = u->values.lanes_of_vectors;
  nabla_ssa lanes = k_i64(e, count);
  nabla_ssa width = nabla_along_subtract(e, u->end, u->first);
  nabla_ssa wide = nabla_along_compare(e, "uge", width, lanes);
  u->last = nabla_along_subtract(e, u->end, lanes);
  u->steps = k_divide(e, k_add_constant(e, width, count - 1), count);
  u->steps = k_choice(e, wide, u->steps, k_i64(e, 0));
  u->joined = k_choice(e, wide, u->rows, k_i64(e, 0));
}

nabla_ssa nabla_along_column(const nabla_along_unit *u, nabla_ssa number) {
  const unsigned lanes = u->values.lanes_of_vectors;
  nabla_ssa at = k_add(u->e, u->first, k_multiply(u->e, number, lanes));
  return k_minimum(u->e, at, u->last);
}

nabla_ssa nabla_along_row(const nabla_along_unit *u, nabla_ssa row) {
  return k_add(u->e, u->start, k_product(u->e, row, u->columns));
}

const char *nabla_along_type(nabla_along_unit *u, nabla_shape shape) {
  u->values.shape = shape;
  return nabla_cluster_type(&u->values);
}

/* Truth values are bytes, 0 or 1; sums of them are odd or even. */
static nabla_ssa as_truth(nabla_along_unit *u, const char *operation,
                          nabla_ssa value) {
  if (u->a->dtype != NABLA_DTYPE_BOOL) return value;
  return k_op(u->e, "arith.%s %%v%u, %%v%u : %s", operation, value,
              nabla_cluster_integer(&u->values, 1),
              nabla_cluster_type(&u->values));
}

nabla_ssa nabla_along_read(nabla_along_unit *u, nabla_shape shape,
                           nabla_ssa at) {
  return as_truth(u, "minui", nabla_cluster_read(&u->values, shape, u->x, at));
}

void nabla_along_write(nabla_along_unit *u, nabla_shape shape, nabla_ssa at,
                       nabla_ssa value) {
  u->values.shape = shape;
  nabla_cluster_write(&u->values, shape, u->y, at, as_truth(u, "andi", value));
}

/* Of a vector of numbers on the stack. */
static const char *type_of(const nabla_along_unit *u,
                           const nabla_cluster_lane *of) {
  return of->type[u->values.lanes_of_vectors == NABLA_LANES ? 1 : 2];
}

static unsigned alignment_of(const nabla_along_unit *u,
                             const nabla_cluster_lane *of) {
  const unsigned bytes = of->bytes * u->values.lanes_of_vectors;
  return bytes < 64 ? bytes : 64;
}

static nabla_ssa byte_of(const nabla_along_unit *u,
                         const nabla_cluster_lane *of, uint64_t from,
                         nabla_ssa number) {
  const uint64_t bytes = (uint64_t)of->bytes * u->values.lanes_of_vectors;
  return k_add_constant(u->e, k_multiply(u->e, number, bytes), from);
}

nabla_ssa nabla_along_load(const nabla_along_unit *u,
                           const nabla_cluster_lane *of, uint64_t from,
                           nabla_ssa number) {
  return k_load(u->e, type_of(u, of), u->e->scratch,
                byte_of(u, of, from, number), alignment_of(u, of));
}

void nabla_along_store(const nabla_along_unit *u, const nabla_cluster_lane *of,
                       uint64_t from, nabla_ssa number, nabla_ssa value) {
  k_store(u->e, type_of(u, of), value, u->e->scratch,
          byte_of(u, of, from, number), alignment_of(u, of));
}

nabla_ssa nabla_along_recall(nabla_along_unit *u) {
  return nabla_cluster_read(&u->values, NABLA_SCALAR, u->value, k_i64(u->e, 0));
}

void nabla_along_keep(nabla_along_unit *u, nabla_ssa value) {
  nabla_cluster_write(&u->values, NABLA_SCALAR, u->value, k_i64(u->e, 0),
                      value);
}

void nabla_along_each_column(const nabla_along_unit *u, nabla_ssa condition,
                             nabla_loop *loop) {
  nabla_ssa end = k_choice(u->e, condition, u->end, u->first);
  k_loop_begin(u->e, loop, u->first, end, 1, 0, NULL);
}

/* Unit number n is block n % blocks of the columns of matrix n / blocks. */
static void set_unit(nabla_along_unit *u, nabla_ssa number) {
  nabla_emitter *e = u->e;
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa blocks = k_divide(e, u->columns, NABLA_ALONG_BLOCK);
  blocks = k_op(e, "arith.maxui %%v%u, %%v%u : i64", blocks, one);
  nabla_ssa matrix = k_op(e, "arith.divui %%v%u, %%v%u : i64", number, blocks);
  nabla_ssa block = k_op(e, "arith.remui %%v%u, %%v%u : i64", number, blocks);
  nabla_ssa next = k_add(e, block, one);
  nabla_ssa is_last = nabla_along_compare(e, "eq", next, blocks);
  u->result = k_product(e, matrix, u->columns);
  u->start = k_product(e, u->result, u->rows);
  u->first = k_multiply(e, block, NABLA_ALONG_BLOCK);
  u->end =
      k_choice(e, is_last, u->columns, k_multiply(e, next, NABLA_ALONG_BLOCK));
}

/* The types of memory, and that of values. */
static void set_types(nabla_along_unit *u) {
  const bool is_truth = u->a->dtype == NABLA_DTYPE_BOOL;
  const nabla_dtype in_memory = is_truth ? NABLA_DTYPE_U8 : u->a->dtype;
  const nabla_dtype dtype =
      nabla_cluster_is_f32(in_memory) ? NABLA_DTYPE_F32 : in_memory;
  u->values.lanes_of_vectors = u->a->lanes;
  u->values.lane = nabla_cluster_lane_of(dtype);
  u->x = (nabla_array_ref){nabla_vector_function_pointer(u->e, NABLA_ALONG_X),
                           in_memory};
  u->y = (nabla_array_ref){nabla_vector_function_pointer(u->e, NABLA_ALONG_Y),
                           in_memory};
  u->value = (nabla_array_ref){u->e->scratch, dtype};
}

static void write_body(nabla_emitter *e, void *self) {
  static void (*const bodies[])(nabla_along_unit *) = {
      nabla_along_reduce, nabla_along_arg, nabla_along_arg, nabla_along_sums};
  nabla_loop units;
  nabla_along_unit u = {.e = e, .a = self, .values = {.e = e}};
  set_types(&u);
  u.rows = nabla_vector_function_word(e, NABLA_ALONG_ROWS);
  u.columns = nabla_vector_function_word(e, NABLA_ALONG_COLUMNS);
  k_loop_begin(e, &units, e->begin, e->end, 1, 0, NULL);
  set_unit(&u, units.induction);
  bodies[u.a->kind](&u);
  k_loop_end(e, &units, NULL);
}

void nabla_along_emit(const nabla_along *a, nabla_features features,
                      const char *name, nabla_text *text) {
  nabla_along copy = *a;
  nabla_vector_function_emit(features, name,
                             NABLA_ALONG_NUMBERS(8) + NABLA_ALONG_NUMBERS(4),
                             write_body, &copy, text);
}
