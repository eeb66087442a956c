/* Kernels of clusters: loops over units, passes over the columns of a row. A
 * pass computes the reductions that need no other one of its own pass, and
 * stores the results that can be. Sums have 64 lanes, whatever the CPU, which
 * are joined by a fixed tree: the bytes depend neither on it nor on threads. */
#include "transforms/cluster/body.h"

#include <stdlib.h>
#include <string.h>

#include "lib/kernels/builder/vector_function.h"

/* ---- values -------------------------------------------------------------- */

static nabla_ssa vector_of(nabla_cluster_body *b, int node);

/* An element, rounded to the type of its operation. */
static nabla_ssa element(nabla_cluster_body *b, int node,
                         nabla_ssa (*operand)(nabla_cluster_body *, int)) {
  const nabla_cluster_node *n = &b->c->nodes[node];
  nabla_ssa x[NABLA_CLUSTER_OPERANDS] = {0};
  int last = 0;
  for (int i = 0; i < n->operand_count; i++) {
    last = n->operands[i];
    x[i] = operand(b, last);
  }
  b->lane = nabla_cluster_lane_of(b->c->nodes[last].dtype);
  nabla_ssa y = n->element->emit(b, n, x);
  /* bytes are exact in 16 bits */
  return nabla_cluster_is_f32(n->dtype) &&
                 (b->lane->is_float || b->lane->bytes > 1)
             ? k_round(b->e, b->shape, n->dtype, y)
             : y;
}

static nabla_ssa known_scalar(nabla_cluster_body *b, int node) {
  return b->scalars[node];
}

/* The number of columns as a float. */
static nabla_ssa column_count(nabla_cluster_body *b) {
  return k_op(b->e, "arith.sitofp %%v%u : i64 to %s", b->columns,
              nabla_cluster_type(b));
}

static nabla_ssa number_of(nabla_cluster_body *b, const nabla_cluster_node *n) {
  return b->lane->is_float ? nabla_cluster_number(b, n->number)
                           : nabla_cluster_integer(b, n->attribute);
}

/* Numbers of columns, or that of the row, along a dimension. */
static nabla_ssa place_of(nabla_cluster_body *b, const nabla_cluster_node *n) {
  const nabla_cluster_lane *lane = nabla_cluster_lane_of(n->dtype);
  const nabla_cluster_lane *i64 = nabla_cluster_lane_of(NABLA_DTYPE_I64);
  const char *type = i64->type[NABLA_VECTOR];
  if (b->shape == NABLA_SCALAR)
    return nabla_cluster_convert(b, b->index[n->attribute], i64, lane);
  nabla_ssa lanes = k_op(b->e,
                         "arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "
                         "10, 11, 12, 13, 14, 15]> : %s",
                         type);
  nabla_ssa at = k_op(b->e, "arith.addi %%v%u, %%v%u : %s",
                      k_broadcast(b->e, "i64", b->column), lanes, type);
  return nabla_cluster_convert(b, at, i64, lane);
}

static nabla_ssa scalar_of(nabla_cluster_body *b, int node) {
  const nabla_cluster_node *n = &b->c->nodes[node];
  b->lane = nabla_cluster_lane_of(n->dtype);
  switch (n->kind) {
    case NABLA_CLUSTER_INPUT:
      return nabla_cluster_load_row(b, n->input);
    case NABLA_CLUSTER_NUMBER:
      return number_of(b, n);
    case NABLA_CLUSTER_PLACE:
      return place_of(b, n);
    case NABLA_CLUSTER_COLUMNS:
      return column_count(b);
    case NABLA_CLUSTER_ELEMENT:
      return element(b, node, known_scalar);
    case NABLA_CLUSTER_REDUCE:
      break;
  }
  return b->scalars[node]; /* set at the end of its pass */
}

/* The uniform values of a level, outside of loops over columns. */
static void emit_uniform(nabla_cluster_body *b, int level) {
  for (int i = 0; i < b->c->node_count; i++) {
    const nabla_cluster_node *n = &b->c->nodes[i];
    if (!n->is_uniform || n->level != level) continue;
    b->shape = NABLA_SCALAR;
    b->scalars[i] = scalar_of(b, i);
    b->shape = NABLA_VECTOR;
    b->lane = nabla_cluster_lane_of(n->dtype);
    b->lanes[i] =
        n->kind == NABLA_CLUSTER_NUMBER
            ? number_of(b, n)
            : k_op(b->e, "vector.broadcast %%v%u : %s to %s", b->scalars[i],
                   b->lane->type[NABLA_SCALAR], nabla_cluster_type(b));
  }
}

/* A value that an earlier pass has left in the memory of a result. */
static int spill_of(const nabla_cluster_body *b, int node) {
  for (int i = 0; i < b->c->output_count; i++)
    if (b->spilled[i] == node) return i;
  return -1;
}

static nabla_ssa vector_of(nabla_cluster_body *b, int node) {
  const nabla_cluster_node *n = &b->c->nodes[node];
  if (n->is_uniform) return b->lanes[node];
  if (b->values[node]) return b->values[node];
  const int spilled = spill_of(b, node);
  b->values[node] =
      spilled >= 0                     ? nabla_cluster_reload(b, spilled)
      : n->kind == NABLA_CLUSTER_INPUT ? nabla_cluster_load(b, n->input)
      : n->kind == NABLA_CLUSTER_PLACE ? place_of(b, n)
                                       : element(b, node, vector_of);
  return b->values[node];
}

/* ---- passes -------------------------------------------------------------- */

/* What a pass computes. */
typedef struct pass {
  int level, reductions[NABLA_CLUSTER_REDUCTIONS], reduction_count;
  int stores[NABLA_CLUSTER_OUTPUTS], store_count;
  struct {
    int output, node;
  } spills[NABLA_CLUSTER_OUTPUTS];
  int spill_count;
  unsigned unroll;
} pass;

static bool is_vector_output(const nabla_cluster *c, int output) {
  return c->nodes[c->outputs[output].node].shape == NABLA_CLUSTER_FULL;
}

/* Whether the value of `node` is made of `part`, in columns. */
static bool is_made_of(const nabla_cluster *c, int node, int part) {
  bool made[NABLA_CLUSTER_NODES] = {false};
  made[part] = true;
  for (int i = part + 1; i <= node; i++)
    for (int j = 0; !c->nodes[i].is_uniform && j < c->nodes[i].operand_count;
         j++)
      made[i] = made[i] || made[c->nodes[i].operands[j]];
  return made[node];
}

/* Whether values of a type are kept in memory of another without a loss. */
static bool can_hold(nabla_dtype memory, nabla_dtype value) {
  return memory == NABLA_DTYPE_F32
             ? nabla_cluster_is_f32(value)
             : memory == NABLA_DTYPE_F64 && value == NABLA_DTYPE_F64;
}

/* An operand of a reduction of this pass that costs more than a load, and is a
 * part of a result of a later pass, waits in the memory of that result. */
static void plan_spill(nabla_cluster_body *b, pass *p, int output) {
  const nabla_cluster *c = b->c;
  const int node = c->outputs[output].node;
  if (!is_vector_output(c, output) || b->spilled[output] >= 0 ||
      c->nodes[node].level <= p->level)
    return;
  for (int i = 0; i < p->reduction_count; i++) {
    const int value = c->nodes[p->reductions[i]].operands[0];
    bool taken = spill_of(b, value) >= 0;
    for (int j = 0; j < p->spill_count; j++)
      taken = taken || p->spills[j].node == value;
    if (taken || nabla_cluster_cost(&c->nodes[value]) < NABLA_CLUSTER_DEAR ||
        !can_hold(c->nodes[node].dtype, c->nodes[value].dtype) ||
        !is_made_of(c, node, value))
      continue;
    p->spills[p->spill_count].output = output;
    p->spills[p->spill_count++].node = value;
    return;
  }
}

/* Additions that the values of a pass cost for each column. */
static int cost_of(const nabla_cluster *c, const pass *p) {
  bool used[NABLA_CLUSTER_NODES] = {false};
  int cost = 0;
  for (int i = 0; i < p->reduction_count; i++) used[p->reductions[i]] = true;
  for (int i = 0; i < p->store_count; i++)
    used[c->outputs[p->stores[i]].node] = true;
  for (int i = c->node_count; i-- > 0;) {
    const nabla_cluster_node *n = &c->nodes[i];
    bool stops = n->kind == NABLA_CLUSTER_REDUCE && n->level <= p->level;
    if (!used[i] || stops || (n->is_uniform && n->kind != NABLA_CLUSTER_REDUCE))
      continue;
    cost += nabla_cluster_cost(n);
    for (int j = 0; j < n->operand_count; j++) used[n->operands[j]] = true;
  }
  return cost;
}

static void plan(nabla_cluster_body *b, int level, pass *p) {
  const nabla_cluster *c = b->c;
  *p = (pass){.level = level};
  for (int i = 0; i < c->node_count; i++)
    if (c->nodes[i].kind == NABLA_CLUSTER_REDUCE &&
        c->nodes[i].level == level + 1)
      p->reductions[p->reduction_count++] = i;
  for (int i = 0; i < c->output_count; i++)
    if (is_vector_output(c, i) && c->nodes[c->outputs[i].node].level == level)
      p->stores[p->store_count++] = i;
  for (int i = 0; i < c->output_count; i++) plan_spill(b, p, i);
  const int cost = cost_of(c, p);
  p->unroll = !p->reduction_count ? (cost <= 8 ? 2 : 1) : cost <= 24 ? 4 : 2;
}

/* A vector of columns, with one accumulator of each reduction. */
static void step(nabla_cluster_body *b, const pass *p, nabla_ssa *sums) {
  const nabla_cluster *c = b->c;
  b->shape = NABLA_VECTOR;
  memset(b->values, 0, sizeof b->values);
  for (int i = 0; i < p->reduction_count; i++) {
    const nabla_cluster_node *n = &c->nodes[p->reductions[i]];
    nabla_ssa x = vector_of(b, n->operands[0]);
    b->lane = nabla_cluster_lane_of(n->dtype);
    if (b->mask)
      x = nabla_cluster_choose(b, b->mask, x,
                               nabla_cluster_initial(b, n->reduction));
    sums[i] = nabla_cluster_combine(b, n->reduction, sums[i], x);
  }
  for (int i = 0; i < p->spill_count; i++)
    nabla_cluster_store(b, p->spills[i].output, vector_of(b, p->spills[i].node),
                        false);
  /* all that is read is read before: a result may be in an input's memory */
  for (int i = 0; i < p->store_count; i++)
    (void)vector_of(b, c->outputs[p->stores[i]].node);
  for (int i = 0; i < p->store_count; i++) {
    const int node = c->outputs[p->stores[i]].node;
    nabla_cluster_store(b, p->stores[i], vector_of(b, node),
                        c->nodes[node].kind == NABLA_CLUSTER_ELEMENT);
  }
}

/* The mask of a tail: `width` columns of a vector. */
static void set_tail(nabla_cluster_body *b) {
  nabla_emitter *e = b->e;
  nabla_text line = {0};
  const unsigned count = b->lanes_of_vectors;
  const nabla_dtype dtype =
      count == NABLA_LANES ? NABLA_DTYPE_I32 : NABLA_DTYPE_I8;
  const char *element = nabla_cluster_lane_of(dtype)->type[NABLA_SCALAR];
  const char *type = nabla_cluster_type_of(b, dtype);
  b->width = k_op(e, "arith.subi %%v%u, %%v%u : i64", b->end, b->column);
  nabla_ssa width =
      k_op(e, "arith.trunci %%v%u : i64 to %s", b->width, element);
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < count; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "", i);
  nabla_text_add(&line, "]> : %s", type);
  nabla_ssa numbers = k_taken(e, &line);
  b->mask = k_op(
      e, "arith.cmpi ult, %%v%u, %%v%u : %s", numbers,
      k_op(e, "vector.broadcast %%v%u : %s to %s", width, element, type), type);
}

static const nabla_cluster_lane *lane_of(const nabla_cluster_body *b,
                                         const pass *p, int reduction) {
  return nabla_cluster_lane_of(b->c->nodes[p->reductions[reduction]].dtype);
}

/* Steps of `unroll` vectors in [from, to), each with accumulators of its own;
 * `sums` are replaced. */
static void loop_over(nabla_cluster_body *b, const pass *p, nabla_ssa from,
                      nabla_ssa to, unsigned unroll, bool is_tail,
                      nabla_ssa *sums) {
  nabla_loop loop;
  const unsigned count = (unsigned)p->reduction_count;
  nabla_ssa next[NABLA_CLUSTER_REDUCTIONS * NABLA_CLUSTER_UNROLL];
  const char *types[NABLA_CLUSTER_REDUCTIONS * NABLA_CLUSTER_UNROLL];
  for (unsigned i = 0; i < count * unroll; i++)
    types[i] = nabla_cluster_type_of(b, lane_of(b, p, (int)(i % count))->dtype);
  k_loop_begin_of(b->e, &loop, from, to, (uint64_t)unroll * b->lanes_of_vectors,
                  count * unroll, sums, types);
  memcpy(next, loop.carried, count * unroll * sizeof *next);
  for (unsigned i = 0; i < unroll; i++) {
    b->column =
        k_add_constant(b->e, loop.induction, (uint64_t)i * b->lanes_of_vectors);
    b->mask = 0;
    b->shape = NABLA_VECTOR;
    if (is_tail) set_tail(b);
    step(b, p, next + (size_t)i * count);
  }
  b->mask = 0;
  k_loop_end(b->e, &loop, next);
  memcpy(sums, loop.results, count * unroll * sizeof *next);
}

/* The end of the last whole step of `unroll` vectors from `from` on. */
static nabla_ssa whole_steps(nabla_cluster_body *b, nabla_ssa from,
                             unsigned unroll) {
  const uint64_t step = (uint64_t)unroll * b->lanes_of_vectors;
  nabla_ssa count = k_op(b->e, "arith.subi %%v%u, %%v%u : i64", b->end, from);
  count = k_multiply(b->e, k_divide(b->e, count, step), step);
  return k_add(b->e, from, count);
}

/* Joins the accumulators of each reduction: pairs of vectors, then lanes. */
static void join(nabla_cluster_body *b, const pass *p, nabla_ssa *sums) {
  const int count = p->reduction_count;
  for (int i = 0; i < count; i++) {
    const int node = p->reductions[i];
    const nabla_cluster_reduction how = b->c->nodes[node].reduction;
    b->shape = NABLA_VECTOR;
    b->lane = lane_of(b, p, i);
    for (unsigned half = p->unroll / 2; half; half /= 2)
      for (unsigned j = 0; j < half; j++)
        sums[(int)j * count + i] =
            nabla_cluster_combine(b, how, sums[(int)j * count + i],
                                  sums[(int)(j + half) * count + i]);
    b->scalars[node] = nabla_cluster_lanes(b, how, sums[i]);
    b->shape = NABLA_SCALAR;
    if (nabla_cluster_is_f32(b->lane->dtype))
      b->scalars[node] =
          k_round(b->e, NABLA_SCALAR, b->lane->dtype, b->scalars[node]);
  }
}

static void run_pass(nabla_cluster_body *b, int level) {
  pass p;
  nabla_ssa sums[NABLA_CLUSTER_REDUCTIONS * NABLA_CLUSTER_UNROLL];
  plan(b, level, &p);
  b->shape = NABLA_VECTOR;
  for (unsigned i = 0; i < p.unroll; i++)
    for (int j = 0; j < p.reduction_count; j++) {
      b->lane = lane_of(b, &p, j);
      sums[(int)i * p.reduction_count + j] =
          nabla_cluster_initial(b, b->c->nodes[p.reductions[j]].reduction);
    }
  nabla_ssa at = b->first;
  if (p.unroll > 1) {
    nabla_ssa to = whole_steps(b, at, p.unroll);
    loop_over(b, &p, at, to, p.unroll, false, sums);
    at = to;
  }
  nabla_ssa to = whole_steps(b, at, 1);
  loop_over(b, &p, at, to, 1, false, sums);
  loop_over(b, &p, to, b->end, 1, true, sums);
  join(b, &p, sums);
  /* where a result is stored, nothing waits any longer */
  for (int i = 0; i < p.store_count; i++) b->spilled[p.stores[i]] = -1;
  for (int i = 0; i < p.spill_count; i++)
    b->spilled[p.spills[i].output] = p.spills[i].node;
}

/* ---- units --------------------------------------------------------------- */

/* Where the row begins in an input: the sum over its dimensions of the rows,
 * each with its stride. */
static nabla_ssa start_of(nabla_cluster_body *b, const nabla_ssa *index,
                          const nabla_cluster_input *input) {
  nabla_ssa at = k_i64(b->e, 0);
  nabla_ssa stride = k_i64(b->e, 1);
  for (int d = b->c->rank - 1; d >= 0; d--) {
    if (input->map[d] < 0) continue;
    if (d < b->c->split)
      at = k_add(b->e, at, k_product(b->e, index[d], stride));
    stride = k_product(b->e, stride, b->dims[d]);
  }
  return at;
}

static bool is_full(const nabla_cluster *c, const nabla_cluster_input *input) {
  for (int d = 0; d < c->rank; d++)
    if (input->map[d] < 0 && c->dims[d] != 1) return false;
  return true;
}

static bool has_rows(const nabla_cluster *c, const nabla_cluster_input *input) {
  for (int d = 0; d < c->split; d++)
    if (input->map[d] >= 0) return true;
  return false;
}

/* The number of the row along each dimension. */
static void split_row(nabla_cluster_body *b, nabla_ssa *index) {
  nabla_ssa rest = b->row;
  for (int d = b->c->split; d-- > 0;) {
    nabla_ssa size = b->dims[d];
    index[d] =
        d ? k_op(b->e, "arith.remui %%v%u, %%v%u : i64", rest, size) : rest;
    rest = k_op(b->e, "arith.divui %%v%u, %%v%u : i64", rest, size);
  }
}

static void set_starts(nabla_cluster_body *b) {
  const nabla_cluster *c = b->c;
  b->begin = k_product(b->e, b->row, b->columns);
  split_row(b, b->index);
  for (int i = 0; i < c->input_count; i++)
    b->starts[i] = is_full(c, &c->inputs[i]) ? b->begin
                   : has_rows(c, &c->inputs[i])
                       ? start_of(b, b->index, &c->inputs[i])
                       : k_i64(b->e, 0);
}

/* A unit is a row, or a block of the columns of a row. */
static void set_columns(nabla_cluster_body *b, nabla_ssa unit) {
  const uint64_t block = NABLA_CLUSTER_BLOCK;
  if (nabla_cluster_reduces(b->c)) {
    b->row = unit;
    b->first = k_i64(b->e, 0);
    b->end = b->columns;
    return;
  }
  nabla_ssa blocks =
      k_divide(b->e, k_add_constant(b->e, b->columns, block - 1), block);
  b->row = k_op(b->e, "arith.divui %%v%u, %%v%u : i64", unit, blocks);
  nabla_ssa number = k_op(b->e, "arith.remui %%v%u, %%v%u : i64", unit, blocks);
  b->first = k_multiply(b->e, number, block);
  b->end = k_minimum(b->e, b->columns, k_add_constant(b->e, b->first, block));
}

static void load_words(nabla_cluster_body *b) {
  const nabla_cluster *c = b->c;
  unsigned word = 0;
  for (int i = 0; i < c->input_count; i++)
    b->inputs[i] = nabla_vector_function_pointer(b->e, word++);
  for (int i = 0; i < c->output_count; i++)
    b->outputs[i] = nabla_vector_function_pointer(b->e, word++);
  b->columns = k_i64(b->e, 1);
  for (int d = 0; d < c->rank; d++, word++) {
    b->dims[d] = nabla_is_dynamic(c->dims[d])
                     ? nabla_vector_function_word(b->e, word)
                     : k_i64(b->e, (uint64_t)c->dims[d]);
    if (d >= c->split) b->columns = k_product(b->e, b->columns, b->dims[d]);
  }
}

/* Vectors of 64 where all values are bytes or truth values, of rows that have
 * many of them. */
static unsigned lanes_of_vectors(const nabla_cluster *c) {
  enum { WIDE = 64, FEWEST = 4 * WIDE };
  int64_t columns = 1;
  for (int i = 0; i < c->node_count; i++)
    if (nabla_cluster_lane_of(c->nodes[i].dtype)->bytes != 1 ||
        c->nodes[i].kind == NABLA_CLUSTER_PLACE)
      return NABLA_LANES;
  for (int d = c->split; d < c->rank; d++) {
    if (nabla_is_dynamic(c->dims[d])) return WIDE;
    columns *= c->dims[d];
  }
  return columns < FEWEST ? NABLA_LANES : WIDE;
}

static void write_body(nabla_emitter *e, void *self) {
  const nabla_cluster *c = self;
  nabla_cluster_body *b = calloc(1, sizeof *b);
  nabla_loop units;
  if (!b) {
    e->text->failed = 1;
    return;
  }
  b->e = e;
  b->c = c;
  b->scratch = e->scratch;
  b->lanes_of_vectors = lanes_of_vectors(c);
  load_words(b);
  k_loop_begin(e, &units, e->begin, e->end, 1, 0, NULL);
  set_columns(b, units.induction);
  set_starts(b);
  for (int i = 0; i < NABLA_CLUSTER_OUTPUTS; i++) b->spilled[i] = -1;
  for (int level = 0; level < c->passes; level++) {
    emit_uniform(b, level);
    run_pass(b, level);
  }
  emit_uniform(b, c->passes);
  for (int i = 0; i < c->output_count; i++)
    if (!is_vector_output(c, i))
      nabla_cluster_store_row(b, i, b->scalars[c->outputs[i].node]);
  k_loop_end(e, &units, NULL);
  free(b);
}

void nabla_cluster_emit(const nabla_cluster *c, nabla_features features,
                        const char *name, nabla_text *text) {
  nabla_cluster copy = *c;
  nabla_vector_function_emit(features, name, 64, write_body, &copy, text);
}
