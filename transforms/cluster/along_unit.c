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
  nabla_ssa lanes = k_i64(e, NABLA_LANES);
  nabla_ssa width = nabla_along_subtract(e, u->end, u->first);
  nabla_ssa wide = nabla_along_compare(e, "uge", width, lanes);
  u->last = nabla_along_subtract(e, u->end, lanes);
  u->steps =
      k_divide(e, k_add_constant(e, width, NABLA_LANES - 1), NABLA_LANES);
  u->steps = k_choice(e, wide, u->steps, k_i64(e, 0));
}

nabla_ssa nabla_along_column(const nabla_along_unit *u, nabla_ssa number) {
  nabla_ssa at = k_add(u->e, u->first, k_multiply(u->e, number, NABLA_LANES));
  return k_minimum(u->e, at, u->last);
}

nabla_ssa nabla_along_row(const nabla_along_unit *u, nabla_ssa row) {
  return k_add(u->e, u->start, k_product(u->e, row, u->columns));
}

static nabla_ssa byte_of(const nabla_along_unit *u, uint64_t from,
                         nabla_ssa number) {
  return k_add_constant(u->e, k_multiply(u->e, number, 4 * NABLA_LANES), from);
}

nabla_ssa nabla_along_load(const nabla_along_unit *u, const char *type,
                           uint64_t from, nabla_ssa number) {
  return k_load(u->e, type, u->e->scratch, byte_of(u, from, number), 64);
}

void nabla_along_store(const nabla_along_unit *u, const char *type,
                       uint64_t from, nabla_ssa number, nabla_ssa value) {
  k_store(u->e, type, value, u->e->scratch, byte_of(u, from, number), 64);
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

static void write_body(nabla_emitter *e, void *self) {
  static void (*const bodies[])(nabla_along_unit *) = {
      nabla_along_reduce, nabla_along_arg, nabla_along_arg, nabla_along_sums};
  nabla_loop units;
  nabla_along_unit u = {.e = e, .a = self, .values = {.e = e}};
  u.values.lanes_of_vectors = NABLA_LANES;
  u.values.lane = nabla_cluster_lane_of(NABLA_DTYPE_F32);
  u.x = (nabla_array_ref){nabla_vector_function_pointer(e, NABLA_ALONG_X),
                          u.a->dtype};
  u.y = nabla_vector_function_pointer(e, NABLA_ALONG_Y);
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
  nabla_vector_function_emit(features, name, 2 * NABLA_ALONG_NUMBERS,
                             write_body, &copy, text);
}
