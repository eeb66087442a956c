/* Adding an operation to a cluster; see join.h. */
#include "transforms/cluster/join.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"

/* The cluster that an operation is added to, and the operation. */
typedef struct joining {
  const nabla_cluster_forming *f;
  nabla_cluster *c;
  int cluster;
  MlirOperation op;
} joining;

/* ---- nodes --------------------------------------------------------------- */

static int add_node(nabla_cluster *c, const nabla_cluster_node *node) {
  if (c->node_count == NABLA_CLUSTER_NODES ||
      !nabla_cluster_reserve(c, c->node_count + 1, 0, 0, 0))
    return -1;
  c->nodes[c->node_count] = *node;
  return c->node_count++;
}

static int add_number(nabla_cluster *c, nabla_cluster_shape shape,
                      nabla_dtype dtype, double value) {
  const nabla_cluster_node node = {.kind = NABLA_CLUSTER_NUMBER,
                                   .shape = shape,
                                   .dtype = dtype,
                                   .number = value};
  return add_node(c, &node);
}

static int add_element(nabla_cluster *c, nabla_cluster_shape shape,
                       nabla_dtype dtype, const char *name, int x, int y) {
  nabla_cluster_node node = {
      .kind = NABLA_CLUSTER_ELEMENT,
      .shape = shape,
      .dtype = dtype,
      .element = nabla_cluster_element_named(nabla_ref(name)),
      .operands = {x, y}};
  node.operand_count = node.element->operands;
  return x < 0 || y < 0 ? -1 : add_node(c, &node);
}

static int add_reduction(nabla_cluster *c, nabla_cluster_shape shape,
                         nabla_dtype dtype, nabla_cluster_reduction how,
                         int x) {
  int count = 0;
  for (int i = 0; i < c->node_count; i++)
    count += c->nodes[i].kind == NABLA_CLUSTER_REDUCE;
  const nabla_cluster_node node = {.kind = NABLA_CLUSTER_REDUCE,
                                   .shape = shape,
                                   .dtype = dtype,
                                   .reduction = how,
                                   .operands = {x},
                                   .operand_count = 1};
  return x < 0 || count == NABLA_CLUSTER_REDUCTIONS ? -1 : add_node(c, &node);
}

/* ---- operands ------------------------------------------------------------ */

static bool same_dims(const nabla_cluster *c, MlirType type) {
  if (mlirShapedTypeGetRank(type) != c->rank) return false;
  for (int d = 0; d < c->rank; d++)
    if (mlirShapedTypeGetDimSize(type, d) != c->dims[d]) return false;
  return true;
}

/* As the shape that it is given, in any mixture of known and unknown sizes. */
static bool fits(const nabla_cluster *c, MlirType type,
                 nabla_cluster_shape shape) {
  const int rank = shape == NABLA_CLUSTER_ROWS ? c->split : c->rank;
  if (mlirShapedTypeGetRank(type) != rank) return false;
  for (int d = 0; d < rank; d++) {
    const int64_t have = mlirShapedTypeGetDimSize(type, d);
    const int64_t want =
        shape != NABLA_CLUSTER_FULL && d >= c->split ? 1 : c->dims[d];
    if (have != want && !nabla_is_dynamic(have) && !nabla_is_dynamic(want))
      return false;
  }
  return true;
}

static int add_input(joining *j, MlirValue value, nabla_cluster_shape shape,
                     const int *map) {
  nabla_cluster *c = j->c;
  nabla_cluster_input input = {.value = value};
  if (!nabla_cluster_dtype(mlirValueGetType(value), &input.dtype)) return -1;
  for (int d = 0; d < c->rank; d++) input.map[d] = map[d];
  nabla_cluster_node node = {.kind = NABLA_CLUSTER_INPUT,
                             .shape = shape,
                             .dtype = input.dtype,
                             .input = c->input_count};
  for (int i = 0; i < c->node_count; i++) {
    const nabla_cluster_node *n = &c->nodes[i];
    if (n->kind == NABLA_CLUSTER_INPUT && n->shape == shape &&
        mlirValueEqual(c->inputs[n->input].value, value) &&
        !memcmp(c->inputs[n->input].map, map, (size_t)c->rank * sizeof *map))
      return i;
  }
  if (c->input_count == NABLA_CLUSTER_INPUTS ||
      !nabla_cluster_reserve(c, 0, c->input_count + 1, 0, 0))
    return -1;
  input.name = nabla_op_find(j->op)->name;
  c->inputs[c->input_count++] = input;
  if (c->split >= 0 && !nabla_cluster_splits(c, c->split)) return -1;
  return add_node(c, &node);
}

/* Sizes that a full value or a broadcast is given, against those of the
 * space. */
static bool add_checks(joining *j, MlirOperation made, intptr_t first,
                       nabla_cluster_shape shape) {
  nabla_cluster *c = j->c;
  MlirType type = nabla_result_type(made, 0);
  intptr_t operand = first;
  if (!fits(c, type, shape)) return false;
  for (int d = 0; d < (int)mlirShapedTypeGetRank(type); d++) {
    const int64_t dim = mlirShapedTypeGetDimSize(type, d);
    if (!nabla_is_dynamic(dim)) {
      if (dim != c->dims[d] && shape == NABLA_CLUSTER_FULL) return false;
      continue;
    }
    if (c->check_count == NABLA_CLUSTER_CHECKS ||
        !nabla_cluster_reserve(c, 0, 0, c->check_count + 1, 0))
      return false;
    if (shape != NABLA_CLUSTER_FULL && d >= c->split) return false;
    const nabla_cluster_check check = {
        .size = mlirOperationGetOperand(made, operand++),
        .dim = d,
        .name = nabla_op_find(j->op)->name};
    c->checks[c->check_count++] = check;
  }
  return true;
}

static bool read_value(MlirAttribute value, nabla_cluster_node *out) {
  if (mlirAttributeIsAFloat(value)) {
    out->number = mlirFloatAttrGetValueDouble(value);
    return true;
  }
  if (mlirAttributeIsAInteger(value)) {
    out->attribute = mlirIntegerTypeIsUnsigned(mlirAttributeGetType(value))
                         ? (int64_t)mlirIntegerAttrGetValueUInt(value)
                         : mlirIntegerAttrGetValueInt(value);
    return true;
  }
  return mlirAttributeIsADenseElements(value) &&
         mlirDenseElementsAttrIsSplat(value) &&
         read_value(mlirDenseElementsAttrGetSplatValue(value), out);
}

/* nabla.iota */
static int place_of(joining *j, MlirOperation made, nabla_cluster_shape shape) {
  nabla_cluster *c = j->c;
  nabla_cluster_node node = {.kind = NABLA_CLUSTER_PLACE,
                             .shape = shape,
                             .attribute = nabla_op_integer(made, "dim", 0)};
  if (shape == NABLA_CLUSTER_ROWS_KEPT ||
      !nabla_cluster_dtype(nabla_result_type(made, 0), &node.dtype) ||
      node.dtype == NABLA_DTYPE_BOOL || !add_checks(j, made, 0, shape))
    return -1;
  const int number = add_node(c, &node);
  return c->split >= 0 && !nabla_cluster_splits(c, c->split) ? -1 : number;
}

/* nabla.full, or a constant with one value. */
static int number_of(joining *j, MlirOperation made,
                     nabla_cluster_shape shape) {
  nabla_cluster_node node = {.kind = NABLA_CLUSTER_NUMBER, .shape = shape};
  const bool is_full = nabla_is(made, "nabla.full");
  if (!is_full && !nabla_is(made, "nabla.constant") &&
      !nabla_is(made, "arith.constant"))
    return -1;
  MlirAttribute attribute =
      mlirOperationGetAttributeByName(made, nabla_ref("value"));
  if (!nabla_cluster_dtype(nabla_result_type(made, 0), &node.dtype) ||
      !read_value(attribute, &node))
    return -1;
  if (is_full ? !add_checks(j, made, 0, shape)
              : !fits(j->c, nabla_result_type(made, 0), shape))
    return -1;
  return add_node(j->c, &node);
}

static int member_node(const joining *j, MlirValue value) {
  size_t number = nabla_block_index_definition(j->f->index, value);
  return number != SIZE_MAX && j->f->cluster_of[number] == j->cluster
             ? j->f->node_of[number]
             : -1;
}

/* Dimension i of a broadcast's operand is dims[i] of the space; -1 where it is
 * not known that it has its size. `map` gets the operand's dimensions. */
static bool map_broadcast(const nabla_cluster *c, MlirOperation made,
                          int *map) {
  int64_t dims[NABLA_MAX_RANK];
  const intptr_t count = nabla_op_integers(made, "dims", dims);
  MlirType from = nabla_operand_type(made, 0);
  int64_t last = -1; /* the dimension before that is not of size 1 */
  for (int d = 0; d < c->rank; d++) map[d] = -1;
  for (intptr_t i = 0; i < count; i++) {
    const int64_t size = mlirShapedTypeGetDimSize(from, i);
    if (size == 1) continue;
    if (nabla_is_dynamic(size) || size != c->dims[dims[i]] || dims[i] <= last)
      return false;
    last = dims[i];
    map[dims[i]] = (int)i;
  }
  return true;
}

/* Whether a size is that of dimension `dim` of an input of the cluster. */
static bool is_size_of(const nabla_cluster *c, MlirValue size, int dim) {
  MlirOperation made = nabla_defining_op(size);
  if (mlirOperationIsNull(made) || !nabla_is(made, "tensor.dim")) return false;
  MlirOperation index = nabla_defining_op(mlirOperationGetOperand(made, 1));
  if (mlirOperationIsNull(index) || !nabla_is(index, "arith.constant"))
    return false;
  MlirAttribute value =
      mlirOperationGetAttributeByName(index, nabla_ref("value"));
  const int full = nabla_cluster_full_input(c);
  return full >= 0 && mlirIntegerAttrGetValueInt(value) == dim &&
         mlirValueEqual(mlirOperationGetOperand(made, 0),
                        c->inputs[full].value);
}

/* A broadcast of values of rows to the whole space. */
static int row_broadcast(const joining *j, MlirOperation made, int node) {
  const nabla_cluster *c = j->c;
  int64_t dims[NABLA_MAX_RANK];
  MlirType to = nabla_result_type(made, 0);
  const intptr_t count = nabla_op_integers(made, "dims", dims);
  intptr_t operand = 1;
  if (c->nodes[node].shape == NABLA_CLUSTER_FULL || !same_dims(c, to))
    return -1;
  for (intptr_t i = 0; i < count; i++)
    if (dims[i] != i) return -1;
  for (int d = 0; d < c->rank; d++)
    if (nabla_is_dynamic(mlirShapedTypeGetDimSize(to, d)) &&
        !is_size_of(c, mlirOperationGetOperand(made, operand++), d))
      return -1;
  return node;
}

static int broadcast_of(joining *j, MlirOperation made,
                        nabla_cluster_shape shape) {
  int map[NABLA_CLUSTER_RANK];
  MlirValue from = mlirOperationGetOperand(made, 0);
  if (shape != NABLA_CLUSTER_FULL ||
      !fits(j->c, nabla_result_type(made, 0), shape) ||
      !mlirTypeIsARankedTensor(mlirValueGetType(from)))
    return -1;
  const int node = member_node(j, from);
  if (node >= 0) return row_broadcast(j, made, node);
  if (!map_broadcast(j->c, made, map) ||
      !add_checks(j, made, 1, NABLA_CLUSTER_FULL))
    return -1;
  return add_input(j, from, shape, map);
}

/* The node of an operand of this shape, or -1. */
static int operand_of(joining *j, MlirValue value, nabla_cluster_shape shape) {
  nabla_cluster *c = j->c;
  int map[NABLA_CLUSTER_RANK], node = member_node(j, value);
  if (node >= 0) return c->nodes[node].shape == shape ? node : -1;
  if (!mlirTypeIsARankedTensor(mlirValueGetType(value))) return -1;
  MlirOperation made = nabla_defining_op(value);
  if (!mlirOperationIsNull(made)) {
    const int checks = c->check_count, inputs = c->input_count;
    const int nodes = c->node_count;
    node = nabla_is(made, "nabla.broadcast_in_dim")
               ? broadcast_of(j, made, shape)
           : nabla_is(made, "nabla.iota") ? place_of(j, made, shape)
                                          : number_of(j, made, shape);
    if (node >= 0) return node;
    c->check_count = checks;
    c->input_count = inputs;
    c->node_count = nodes;
    /* a broadcast of a member that cannot be read here needs the member first
     */
    if (nabla_is(made, "nabla.broadcast_in_dim") &&
        member_node(j, mlirOperationGetOperand(made, 0)) >= 0)
      return -1;
  }
  if (!fits(c, mlirValueGetType(value), shape)) return -1;
  for (int d = 0; d < c->rank; d++)
    map[d] = shape == NABLA_CLUSTER_FULL || d < c->split ? d : -1;
  return add_input(j, value, shape, map);
}

/* ---- operations ---------------------------------------------------------- */

static bool takes_element(MlirOperation op,
                          const nabla_cluster_element *element) {
  nabla_dtype dtype;
  if (!nabla_cluster_dtype(nabla_result_type(op, 0), &dtype)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const unsigned types = nabla_is(op, "nabla.select") && i == 0
                               ? NABLA_CLUSTER_TRUTHS
                               : element->types;
    if (!nabla_cluster_dtype(nabla_operand_type(op, i), &dtype) ||
        !(nabla_cluster_types_of(dtype) & types))
      return false;
  }
  return mlirOperationGetNumOperands(op) == element->operands;
}

enum { SUM, MAX, PROD, MIN, MEAN }; /* of Nabla_ReduceKind */

/* The first of the reduced dimensions, which are all from it on; -1. */
static int reduced_from(MlirOperation op) {
  int64_t dims[NABLA_MAX_RANK];
  const intptr_t rank = mlirShapedTypeGetRank(nabla_operand_type(op, 0));
  const intptr_t count = nabla_op_integers(op, "dims", dims);
  uint32_t bits = 0;
  for (intptr_t i = 0; i < count; i++) bits |= 1u << dims[i];
  for (intptr_t i = 0; i < rank; i++)
    if ((bits >> i & 1u) != (i >= rank - count)) return -1;
  return count ? (int)(rank - count) : -1;
}

static bool is_softmax(MlirOperation op) {
  return nabla_is(op, "nabla.softmax") || nabla_is(op, "nabla.log_softmax");
}

static bool takes_rows(MlirOperation op) {
  nabla_dtype dtype;
  MlirType type = nabla_operand_type(op, 0);
  if (!nabla_cluster_dtype(type, &dtype) || dtype == NABLA_DTYPE_BOOL)
    return false;
  if (is_softmax(op))
    return nabla_op_integer(op, "dim", 0) == mlirShapedTypeGetRank(type) - 1;
  return nabla_is(op, "nabla.reduce") &&
         nabla_op_integer(op, "kind", 0) <= MEAN && reduced_from(op) >= 0;
}

/* Whether the kernels of the target compute values of a type well. */
static bool takes_type(const nabla_cluster_forming *f, MlirType type) {
  nabla_dtype dtype;
  return nabla_cluster_dtype(type, &dtype) &&
         (f->takes_all || dtype == NABLA_DTYPE_BOOL ||
          nabla_cluster_is_f32(dtype));
}

bool nabla_cluster_takes(const nabla_cluster_forming *f, MlirOperation op) {
  if (mlirOperationGetNumResults(op) != 1 ||
      mlirOperationGetNumOperands(op) < 1 || !nabla_op_find(op) ||
      !takes_type(f, nabla_result_type(op, 0)))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (!takes_type(f, nabla_operand_type(op, i))) return false;
  const nabla_cluster_element *element =
      nabla_cluster_element_named(nabla_name(op));
  return element ? takes_element(op, element) : takes_rows(op);
}

bool nabla_cluster_space_of(MlirOperation op, MlirType *out) {
  *out = nabla_cluster_element_named(nabla_name(op))
             ? nabla_result_type(op, 0)
             : nabla_operand_type(op, 0);
  const intptr_t rank = mlirShapedTypeGetRank(*out);
  return rank >= 1 && rank <= NABLA_CLUSTER_RANK;
}

/* That of values between those in memory. */
static nabla_dtype work_type(nabla_dtype dtype) {
  return nabla_cluster_is_f32(dtype) ? NABLA_DTYPE_F32 : dtype;
}

static int softmax(joining *j, int x, nabla_dtype dtype) {
  const nabla_cluster_shape full = NABLA_CLUSTER_FULL;
  const nabla_cluster_shape rows = NABLA_CLUSTER_ROWS;
  const nabla_dtype work = work_type(dtype);
  nabla_cluster *c = j->c;
  const int m = add_reduction(c, rows, work, NABLA_CLUSTER_largest, x);
  const int d = add_element(c, full, work, "nabla.sub", x, m);
  const int e = add_element(c, full, work, "nabla.exp", d, 0);
  const int s = add_reduction(c, rows, work, NABLA_CLUSTER_sum, e);
  if (nabla_is(j->op, "nabla.log_softmax"))
    return add_element(c, full, dtype, "nabla.sub", d,
                       add_element(c, rows, work, "nabla.log", s, 0));
  const int one = add_number(c, rows, work, 1);
  return add_element(c, full, dtype, "nabla.mul", e,
                     add_element(c, rows, work, "nabla.div", one, s));
}

static int reduce(joining *j, int x, nabla_dtype dtype) {
  static const nabla_cluster_reduction kinds[] = {
      NABLA_CLUSTER_sum, NABLA_CLUSTER_max, NABLA_CLUSTER_prod,
      NABLA_CLUSTER_min, NABLA_CLUSTER_sum};
  const int64_t kind = nabla_op_integer(j->op, "kind", 0);
  const bool keeps = !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(j->op, nabla_ref("keep_dims")));
  const nabla_cluster_shape shape =
      keeps ? NABLA_CLUSTER_ROWS_KEPT : NABLA_CLUSTER_ROWS;
  if (kind != MEAN) return add_reduction(j->c, shape, dtype, kinds[kind], x);
  const nabla_dtype work = work_type(dtype);
  const nabla_cluster_node columns = {
      .kind = NABLA_CLUSTER_COLUMNS, .shape = shape, .dtype = work};
  const int sum = add_reduction(j->c, shape, work, kinds[kind], x);
  return add_element(j->c, shape, dtype, "nabla.div", sum,
                     add_node(j->c, &columns));
}

static int join_rows(joining *j) {
  nabla_cluster *c = j->c;
  nabla_dtype dtype = NABLA_DTYPE_F32;
  MlirValue value = mlirOperationGetOperand(j->op, 0);
  if (!same_dims(c, mlirValueGetType(value))) return -1;
  const int split = is_softmax(j->op) ? c->rank - 1 : reduced_from(j->op);
  if (c->split >= 0 ? c->split != split : !nabla_cluster_splits(c, split))
    return -1;
  c->split = split;
  const int x = operand_of(j, value, NABLA_CLUSTER_FULL);
  (void)nabla_cluster_dtype(nabla_result_type(j->op, 0), &dtype);
  if (x < 0) return -1;
  return is_softmax(j->op) ? softmax(j, x, dtype) : reduce(j, x, dtype);
}

static int try_shape(joining *j, const nabla_cluster_element *element,
                     nabla_cluster_shape shape) {
  nabla_dtype dtype = NABLA_DTYPE_F32;
  if (shape != NABLA_CLUSTER_FULL && j->c->split < 0) return -1;
  if (shape == NABLA_CLUSTER_FULL
          ? !same_dims(j->c, nabla_result_type(j->op, 0))
          : !fits(j->c, nabla_result_type(j->op, 0), shape))
    return -1;
  (void)nabla_cluster_dtype(nabla_result_type(j->op, 0), &dtype);
  nabla_cluster_node node = {.kind = NABLA_CLUSTER_ELEMENT,
                             .shape = shape,
                             .dtype = dtype,
                             .element = element,
                             .operand_count = element->operands};
  const char *key = nabla_is(j->op, "nabla.gelu") ? "approximate" : "kind";
  node.attribute = nabla_op_integer(j->op, key, 0);
  for (int i = 0; i < element->operands; i++) {
    node.operands[i] = operand_of(j, mlirOperationGetOperand(j->op, i), shape);
    if (node.operands[i] < 0) return -1;
  }
  return add_node(j->c, &node);
}

/* Values of rows are joined only to rows of the cluster. */
static bool has_member_rows(const joining *j, nabla_cluster_shape shape) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(j->op); i++) {
    const int node = member_node(j, mlirOperationGetOperand(j->op, i));
    if (node >= 0 && j->c->nodes[node].shape == shape) return true;
  }
  return false;
}

int nabla_cluster_join(const nabla_cluster_forming *f, int cluster,
                       MlirOperation op) {
  joining j = {f, &f->clusters[cluster], cluster, op};
  const nabla_cluster_element *element =
      nabla_cluster_element_named(nabla_name(op));
  if (!element) return join_rows(&j);
  if (has_member_rows(&j, NABLA_CLUSTER_ROWS))
    return try_shape(&j, element, NABLA_CLUSTER_ROWS);
  if (has_member_rows(&j, NABLA_CLUSTER_ROWS_KEPT))
    return try_shape(&j, element, NABLA_CLUSTER_ROWS_KEPT);
  return try_shape(&j, element, NABLA_CLUSTER_FULL);
}

/* ---- whole clusters ------------------------------------------------------ */

static bool can_append(const nabla_cluster *a, const nabla_cluster *b) {
  int reductions = 0;
  if (a->rank != b->rank ||
      memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0 ||
      a->node_count + b->node_count > NABLA_CLUSTER_NODES ||
      a->member_count + b->member_count >= NABLA_CLUSTER_OPS ||
      a->input_count + b->input_count > NABLA_CLUSTER_INPUTS ||
      a->check_count + b->check_count > NABLA_CLUSTER_CHECKS)
    return false;
  for (int i = 0; i < a->node_count; i++)
    reductions += a->nodes[i].kind == NABLA_CLUSTER_REDUCE;
  for (int i = 0; i < b->node_count; i++)
    reductions += b->nodes[i].kind == NABLA_CLUSTER_REDUCE;
  const int split = a->split >= 0 ? a->split : b->split;
  return reductions <= NABLA_CLUSTER_REDUCTIONS &&
         (b->split < 0 || b->split == split) &&
         (split < 0 ||
          (nabla_cluster_splits(a, split) && nabla_cluster_splits(b, split)));
}

static void merge_members(nabla_cluster *to, const nabla_cluster *from,
                          int nodes) {
  int i = to->member_count, j = from->member_count;
  to->member_count += from->member_count;
  for (int at = to->member_count; at-- > 0;) {
    const bool mine = j == 0 || (i > 0 && to->members[i - 1].number >
                                              from->members[j - 1].number);
    to->members[at] = mine ? to->members[i - 1] : from->members[j - 1];
    if (!mine) to->members[at].node += nodes;
    i -= mine;
    j -= !mine;
  }
}

bool nabla_cluster_append(nabla_cluster *to, const nabla_cluster *from) {
  if (!can_append(to, from) ||
      !nabla_cluster_reserve(to, to->node_count + from->node_count,
                             to->input_count + from->input_count,
                             to->check_count + from->check_count,
                             to->member_count + from->member_count))
    return false;
  const int nodes = to->node_count;
  if (to->split < 0) to->split = from->split;
  for (int i = 0; i < from->node_count; i++) {
    nabla_cluster_node node = from->nodes[i];
    node.input += to->input_count;
    for (int j = 0; j < node.operand_count; j++) node.operands[j] += nodes;
    to->nodes[to->node_count++] = node;
  }
  for (int i = 0; i < from->input_count; i++)
    to->inputs[to->input_count + i] = from->inputs[i];
  to->input_count += from->input_count;
  for (int i = 0; i < from->check_count; i++)
    to->checks[to->check_count++] = from->checks[i];
  merge_members(to, from, nodes);
  return true;
}

int nabla_cluster_full_input(const nabla_cluster *c) {
  for (int i = 0; i < c->input_count; i++) {
    bool is_full =
        mlirShapedTypeGetRank(mlirValueGetType(c->inputs[i].value)) == c->rank;
    for (int d = 0; d < c->rank; d++)
      is_full = is_full && c->inputs[i].map[d] == d;
    if (is_full) return i;
  }
  return -1;
}

static bool is_size_op(MlirOperation op) { return nabla_is(op, "tensor.dim"); }

void nabla_cluster_redirect_sizes(const nabla_cluster_forming *f,
                                  const nabla_cluster *c, int member) {
  const int full = nabla_cluster_full_input(c);
  MlirOperation op = f->index->ops[c->members[member].number];
  if (full < 0 || c->nodes[c->members[member].node].shape != NABLA_CLUSTER_FULL)
    return;
  MlirValue input = c->inputs[full].value;
  const size_t made = nabla_block_index_definition(f->index, input);
  if (made != SIZE_MAX && made > c->members[member].number) return;
  MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(op, 0));
  while (!mlirOpOperandIsNull(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    use = mlirOpOperandGetNextUse(use);
    if (is_size_op(owner)) mlirOperationSetOperand(owner, 0, input);
  }
}
