/* Along one dimension: argmax, argmin, cumsum, logsumexp, softmax. */
#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula.h"
#include "transforms/lower/list.h"

/* The loops: all dimensions but `dim`, then `dim`. */
typedef struct along {
  intptr_t dim;
  nabla_ssa_tensor in;
  intptr_t in_map[NABLA_MAX_RANK];
  nabla_ssa_tensor line; /* the shape without `dim` */
  bool keep_dims;
} along;

static along open(nabla_template *t) {
  nabla_template_open(t);
  along a = {.in = nabla_template_operand(t, 0)};
  a.dim = (intptr_t)nabla_op_integer(t->op, "dim", 0);
  a.line = (nabla_ssa_tensor){.element = a.in.element};
  for (intptr_t i = 0; i < a.in.rank; i++) {
    if (nabla_is_dynamic(a.in.dims[i])) nabla_ssa_tensor_size(t, &a.in, i);
    a.in_map[i] = i == a.dim ? a.in.rank - 1 : a.line.rank;
    if (i == a.dim) continue;
    a.line.dims[a.line.rank] = a.in.dims[i];
    a.line.sizes[a.line.rank++] = a.in.sizes[i];
  }
  return a;
}

/* `line`, of a result that may keep the dimension as 1. */
static bool close_line(nabla_template *t, const along *a,
                       nabla_ssa_tensor line) {
  nabla_ssa_tensor shape = nabla_template_result(t);
  intptr_t map[NABLA_MAX_RANK];
  if (shape.rank == line.rank) return nabla_template_close(t, line.value);
  for (intptr_t i = 0; i < shape.rank; i++) {
    map[i] = i == a->dim ? NABLA_AT(0) : i - (i > a->dim);
    if (nabla_is_dynamic(shape.dims[i])) shape.sizes[i] = a->in.sizes[i];
  }
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, line.element->name);
  nabla_generic g = {.loops = line.rank};
  nabla_generic_add(&g, &line, NULL);
  nabla_generic_add(&g, &out, map);
  nabla_generic_begin(t, &g);
  out = nabla_generic_end(t, &g, g.operands[0].element);
  return nabla_template_close(t, out.value);
}

/* A reduction of the dimension: begins with the elements of up to two inputs
 * loaded (the second of the line's shape), ends with nabla_generic_end. */
static void reduce(nabla_template *t, const along *a,
                   const nabla_ssa_tensor *line, const nabla_ssa_tensor *out,
                   nabla_generic *g) {
  *g = (nabla_generic){.loops = a->in.rank, .reductions = 1};
  nabla_generic_add(g, &a->in, a->in_map);
  if (line) nabla_generic_add(g, line, NULL);
  nabla_generic_add(g, out, NULL);
  nabla_generic_begin(t, g);
}

/* The largest or smallest of each line, of the work type. */
static nabla_ssa_tensor extreme(nabla_template *t, along *a, bool is_max) {
  const nabla_element *e = a->in.element;
  nabla_generic g;
  nabla_ssa_tensor out = nabla_ssa_tensor_full(
      t, &a->line, e->work, is_max ? e->least : nabla_element_greatest(e));
  const char *operation = e->is_float      ? is_max ? "maximumf" : "minimumf"
                          : e->is_unsigned ? is_max ? "maxui" : "minui"
                          : is_max         ? "maxsi"
                                           : "minsi";
  reduce(t, a, NULL, &out, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0);
  nabla_ssa y = nabla_emit_two(t, operation, g.operands[1].element, x, e->work);
  return nabla_generic_end(t, &g, y);
}

/* The first index with the extreme value; or with NaN, if that is it. */
static bool lower_arg(nabla_template *t, bool is_max) {
  along a = open(t);
  const nabla_element *e = a.in.element;
  if (nabla_is_dynamic(a.in.dims[a.dim])) {
    nabla_ssa one = nabla_emit_index(t, 1);
    nabla_ssa least =
        nabla_emit_two(t, "minsi", a.in.sizes[a.dim], one, "index");
    nabla_template_require(t, least, one);
  }
  nabla_ssa_tensor best = extreme(t, &a, is_max);
  nabla_ssa_tensor out =
      nabla_ssa_tensor_full(t, &a.line, "i64", "9223372036854775807");
  nabla_generic g;
  reduce(t, &a, &best, &out, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0), m = g.operands[1].element;
  nabla_ssa is_best =
      nabla_emit_two(t, e->is_float ? "cmpf oeq," : "cmpi eq,", x, m, e->work);
  if (e->is_float)
    is_best = nabla_emit_two(
        t, "ori", is_best, nabla_emit_two(t, "cmpf uno,", x, x, e->work), "i1");
  nabla_ssa index = nabla_generic_index(t, a.in.rank - 1);
  index = k_op(&t->emit, "arith.index_cast %%v%u : index to i64", index);
  nabla_ssa old = g.operands[2].element;
  index = nabla_emit_select(t, is_best, index, old, "i64");
  index = nabla_emit_two(t, "minsi", old, index, "i64");
  return close_line(t, &a, nabla_generic_end(t, &g, index));
}
bool nabla_lower_argmax(nabla_template *t) { return lower_arg(t, true); }
bool nabla_lower_argmin(nabla_template *t) { return lower_arg(t, false); }

static nabla_ssa formula(nabla_template *t, const char *name, nabla_ssa x,
                         nabla_ssa y) {
  nabla_ssa arguments[] = {x, y};
  return nabla_formula_emit(t, nabla_formula_find(name), arguments);
}

/* Sums of a formula of x and the largest in f64. */
static nabla_ssa_tensor sum_exp(nabla_template *t, along *a,
                                const nabla_ssa_tensor *largest,
                                const char *name) {
  nabla_generic g;
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &a->line, "f64", "0.0");
  reduce(t, a, largest, &out, &g);
  nabla_ssa x =
      nabla_emit_to_f64(t, a->in.element, nabla_generic_load(t, &g, 0));
  nabla_ssa m = nabla_emit_to_f64(t, a->in.element, g.operands[1].element);
  nabla_ssa y = formula(t, name, x, m);
  return nabla_generic_end(
      t, &g, nabla_emit_two(t, "addf", g.operands[2].element, y, "f64"));
}

bool nabla_lower_logsumexp(nabla_template *t) {
  along a = open(t);
  nabla_ssa_tensor largest = extreme(t, &a, true);
  nabla_ssa_tensor sum = sum_exp(t, &a, &largest, "exp_below");
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &a.line, a.in.element->name);
  nabla_generic g = {.loops = out.rank};
  nabla_generic_add(&g, &largest, NULL);
  nabla_generic_add(&g, &sum, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa m = nabla_emit_to_f64(t, a.in.element, g.operands[0].element);
  nabla_ssa y = formula(t, "log_sum", m, g.operands[1].element);
  y = nabla_emit_from_f64(t, a.in.element, y);
  y = nabla_element_store(t, a.in.element, y);
  return close_line(t, &a, nabla_generic_end(t, &g, y));
}

static bool lower_softmax(nabla_template *t, bool is_log) {
  along a = open(t);
  const nabla_element *e = a.in.element;
  nabla_ssa_tensor largest = extreme(t, &a, true);
  nabla_ssa_tensor sum = sum_exp(t, &a, &largest, "exp_minus");
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &a.in, e->name);
  nabla_generic g = {.loops = out.rank};
  nabla_generic_add(&g, &a.in, a.in_map);
  nabla_generic_add(&g, &largest, NULL);
  nabla_generic_add(&g, &sum, NULL);
  nabla_generic_add(&g, &out, a.in_map);
  nabla_generic_begin(t, &g);
  nabla_ssa x = nabla_emit_to_f64(t, e, nabla_generic_load(t, &g, 0));
  nabla_ssa m = nabla_emit_to_f64(t, e, g.operands[1].element);
  nabla_ssa s = g.operands[2].element, y;
  if (is_log) {
    y = nabla_emit_two(t, "subf", x, m, "f64");
    y = nabla_emit_two(t, "subf", y, formula(t, "log", s, 0), "f64");
  } else {
    y = nabla_emit_two(t, "subf", x, m, "f64");
    y = nabla_emit_two(t, "divf", formula(t, "exp", y, 0), s, "f64");
  }
  y = nabla_element_store(t, e, nabla_emit_from_f64(t, e, y));
  out = nabla_generic_end(t, &g, y);
  return nabla_template_close(t, out.value);
}
bool nabla_lower_softmax(nabla_template *t) { return lower_softmax(t, false); }
bool nabla_lower_log_softmax(nabla_template *t) {
  return lower_softmax(t, true);
}

/* The sum so far is a second output, which nothing uses. */
bool nabla_lower_cumsum(nabla_template *t) {
  along a = open(t);
  const nabla_element *e = a.in.element;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &a.in, e->name);
  nabla_ssa_tensor sum =
      nabla_ssa_tensor_full(t, &a.line, e->work, e->is_float ? "-0.0" : "0");
  nabla_generic g = {.loops = a.in.rank, .reductions = 1};
  nabla_generic_add(&g, &a.in, a.in_map);
  nabla_generic_add(&g, &out, a.in_map);
  nabla_generic_add(&g, &sum, NULL);
  g.output--;
  nabla_generic_begin(t, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0);
  nabla_ssa next = nabla_emit_two(t, e->is_float ? "addf" : "addi",
                                  g.operands[2].element, x, e->work);
  nabla_ssa y = nabla_element_store(t, e, next);
  return nabla_template_close(t, nabla_generic_end_two(t, &g, y, next).value);
}
