/* Which operations of a block form clusters. Operations are taken in order; one
 * joins the cluster of an operand if its result has the cluster's shape, or is
 * a reduction of its last dimensions. All of a cluster is computed where its
 * last operation stands: it grows only as long as nothing before that uses one
 * of its results. Each element is read once: broadcasts, constants and `full`
 * are read where they are used. Where a cluster has too many results, an
 * operation of it begins another, and all clusters of the block are formed
 * again. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/cluster/cluster.h"
#include "transforms/cluster/join.h"
#include "transforms/ir/block_index.h"

/* Times that the clusters of a block are formed again; most need one. */
#define ROUNDS 64
/* Operations of a block in which clusters are cut. Beyond, loops compile faster
 * than many calls: bufferization takes quadratic time in the buffers of a
 * function, and transforms/fusion gives loops of large blocks one buffer. */
#define CUT_MOST 1024

/* Whether something outside of a cluster uses `value` before operation
 * `number`. Broadcasts are looked through: one that is still used is moved
 * behind the cluster. */
static bool is_used_early(const nabla_cluster_forming *f, int cluster,
                          MlirValue value, size_t number, bool is_broadcast) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    const size_t user = nabla_block_index_find(f->index, owner);
    if (user == SIZE_MAX || user >= number || f->cluster_of[user] == cluster)
      continue;
    if (is_broadcast || !mlirOperationEqual(owner, f->index->ops[user]) ||
        !nabla_is(owner, "nabla.broadcast_in_dim") ||
        is_used_early(f, cluster, mlirOperationGetResult(owner, 0), number,
                      true))
      return true;
  }
  return false;
}

static bool has_early_users(const nabla_cluster_forming *f, int cluster,
                            size_t number) {
  nabla_cluster *c = &f->clusters[cluster];
  for (int i = 0; i < c->member_count; i++) {
    nabla_cluster_redirect_sizes(f, c, i);
    if (is_used_early(
            f, cluster,
            mlirOperationGetResult(f->index->ops[c->members[i].number], 0),
            number, false))
      return true;
  }
  return false;
}

static bool grows(const nabla_cluster_forming *f, int cluster, size_t number) {
  if (!f->clusters) return false;
  nabla_cluster *c = &f->clusters[cluster];
  if (c->is_closed || c->member_count == NABLA_CLUSTER_OPS) return false;
  c->is_closed = has_early_users(f, cluster, number);
  return !c->is_closed;
}

/* There is room for it. */
static void add_member(nabla_cluster_forming *f, int cluster, size_t number,
                       int node) {
  nabla_cluster *c = &f->clusters[cluster];
  c->members[c->member_count++] = (nabla_cluster_member){number, node};
  f->cluster_of[number] = cluster;
  f->node_of[number] = node;
}

/* The cluster of a value, through a broadcast; -1. */
static int cluster_of(const nabla_cluster_forming *f, MlirValue value) {
  size_t number = nabla_block_index_definition(f->index, value);
  if (number == SIZE_MAX) return -1;
  if (f->cluster_of[number] < 0 &&
      nabla_is(f->index->ops[number], "nabla.broadcast_in_dim"))
    return cluster_of(f, mlirOperationGetOperand(f->index->ops[number], 0));
  return f->cluster_of[number];
}

/* An operation that takes its operands from other clusters ends these. */
static void close_others(nabla_cluster_forming *f, MlirOperation op,
                         int cluster) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    int other = cluster_of(f, mlirOperationGetOperand(op, i));
    if (other >= 0 && other != cluster) f->clusters[other].is_closed = true;
  }
}

static bool try_join(nabla_cluster_forming *f, int cluster, size_t number) {
  nabla_cluster *c = &f->clusters[cluster];
  const nabla_cluster before = {.node_count = c->node_count,
                                .input_count = c->input_count,
                                .check_count = c->check_count,
                                .split = c->split};
  const int node = nabla_cluster_reserve(c, 0, 0, 0, c->member_count + 1)
                       ? nabla_cluster_join(f, cluster, f->index->ops[number])
                       : -1;
  if (node < 0) {
    c->node_count = before.node_count;
    c->input_count = before.input_count;
    c->check_count = before.check_count;
    c->split = before.split;
    return false;
  }
  close_others(f, f->index->ops[number], cluster);
  add_member(f, cluster, number, node);
  return true;
}

/* Merges cluster `from` into `to`, where both can still grow. */
static bool merge(nabla_cluster_forming *f, int to, int from) {
  nabla_cluster *a = &f->clusters[to], *b = &f->clusters[from];
  const int nodes = a->node_count;
  if (a->is_cut || b->is_cut || !nabla_cluster_append(a, b)) return false;
  for (int i = 0; i < b->member_count; i++) {
    f->cluster_of[b->members[i].number] = to;
    f->node_of[b->members[i].number] += nodes;
  }
  b->member_count = 0;
  b->is_closed = true;
  return true;
}

static bool has_known_sizes(const nabla_cluster *c) {
  for (int d = 0; d < c->rank; d++)
    if (nabla_is_dynamic(c->dims[d])) return false;
  return true;
}

/* Dimensions of a cluster's space, from the first on, that the operation's
 * result has because the operation takes `value` of it: of rows, the columns
 * are not among them. -1 through a broadcast, which may put it along other
 * dimensions, where sizes are unknown. */
static int given_dims(const nabla_cluster_forming *f, int cluster,
                      MlirValue value) {
  const nabla_cluster *c = &f->clusters[cluster];
  const size_t number = nabla_block_index_definition(f->index, value);
  if (number == SIZE_MAX || f->cluster_of[number] != cluster)
    return has_known_sizes(c) ? c->rank : -1;
  const nabla_cluster_node *node = &c->nodes[f->node_of[number]];
  return node->shape == NABLA_CLUSTER_FULL ? c->rank : c->split;
}

/* Whether an array that both clusters read has dimension `dim` of them. */
static bool read_alike(const nabla_cluster *a, const nabla_cluster *b,
                       int dim) {
  for (int i = 0; i < a->input_count; i++)
    for (int j = 0; j < b->input_count; j++)
      if (a->inputs[i].map[dim] >= 0 &&
          a->inputs[i].map[dim] == b->inputs[j].map[dim] &&
          mlirValueEqual(a->inputs[i].value, b->inputs[j].value))
        return true;
  return false;
}

/* Whether two clusters have the same unknown sizes, if they have those of the
 * first `given` dimensions. */
static bool same_sizes(const nabla_cluster *a, const nabla_cluster *b,
                       int given) {
  if (a->rank != b->rank || given < 0) return false;
  for (int d = given; d < a->rank; d++)
    if (nabla_is_dynamic(a->dims[d]) && !read_alike(a, b, d)) return false;
  return true;
}

/* Merges the other clusters of operands into cluster `best`, of which the
 * operation gives `given` dimensions, where that is possible. */
static void merge_others(nabla_cluster_forming *f, MlirOperation op,
                         size_t number, int best, int given) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    const int one = cluster_of(f, value);
    if (one < 0 || one == best) continue;
    const int dims = given_dims(f, one, value);
    if (same_sizes(&f->clusters[best], &f->clusters[one],
                   dims < given ? dims : given) &&
        grows(f, one, number))
      (void)merge(f, best, one);
  }
}

/* The youngest cluster of an operand that can grow; the others are merged into
 * it where that is possible. */
static bool join_any(nabla_cluster_forming *f, size_t number) {
  MlirOperation op = f->index->ops[number];
  int best = -1, given = -1;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    int one = cluster_of(f, value);
    if (one < 0 || one < best || !grows(f, one, number)) continue;
    const int dims = given_dims(f, one, value);
    given = one == best && given > dims ? given : dims;
    best = one;
  }
  if (best < 0) return false;
  merge_others(f, op, number, best, given);
  return try_join(f, best, number);
}

static bool begin(nabla_cluster_forming *f, size_t number) {
  MlirType space;
  if (!nabla_cluster_space_of(f->index->ops[number], &space)) return true;
  if (f->count == f->capacity) {
    size_t capacity = f->capacity ? 2 * f->capacity : 16;
    nabla_cluster *all = realloc(f->clusters, capacity * sizeof *f->clusters);
    if (!all) return false;
    f->clusters = all;
    f->capacity = capacity;
  }
  nabla_cluster *c = &f->clusters[f->count];
  memset(c, 0, sizeof *c);
  c->split = -1;
  c->is_cut = f->begins[number];
  c->rank = (int)mlirShapedTypeGetRank(space);
  for (int d = 0; d < c->rank; d++)
    c->dims[d] = mlirShapedTypeGetDimSize(space, d);
  if (try_join(f, (int)f->count, number))
    f->count++;
  else
    nabla_cluster_deinit(c);
  return true;
}

/* Whether each use of `value` is by a member in front of operation `end`, or by
 * a broadcast for these. */
static bool is_inside(const nabla_cluster_forming *f, int cluster, size_t end,
                      MlirValue value, bool is_broadcast) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    const size_t user = nabla_block_index_find(f->index, owner);
    if (user != SIZE_MAX && user < end && f->cluster_of[user] == cluster)
      continue;
    if (is_broadcast || !nabla_is(owner, "nabla.broadcast_in_dim") ||
        !is_inside(f, cluster, end, mlirOperationGetResult(owner, 0), true))
      return false;
  }
  return true;
}

/* Finds the results that the first `count` members have, as a cluster of their
 * own; false where they are too many. */
static bool find_outputs(const nabla_cluster_forming *f, int cluster,
                         int count) {
  nabla_cluster *c = &f->clusters[cluster];
  const size_t end = count ? c->members[count - 1].number + 1 : 0;
  c->output_count = 0;
  for (int i = 0; i < count; i++) {
    MlirValue value =
        mlirOperationGetResult(f->index->ops[c->members[i].number], 0);
    nabla_cluster_redirect_sizes(f, c, i);
    if (is_inside(f, cluster, end, value, false)) continue;
    if (c->output_count == NABLA_CLUSTER_OUTPUTS) return false;
    c->outputs[c->output_count].value = value;
    c->outputs[c->output_count++].node = c->members[i].node;
  }
  return true;
}

/* Cuts each cluster with too many results behind as many members as it can
 * have: the next one begins another. Says whether there was one. */
static bool cut_clusters(const nabla_cluster_forming *f) {
  bool any = false;
  for (size_t i = 0; i < f->count; i++) {
    const nabla_cluster *c = &f->clusters[i];
    int count = c->member_count;
    while (!find_outputs(f, (int)i, count)) count--;
    if (count == c->member_count) continue;
    f->begins[c->members[count].number] = true;
    any = true;
  }
  return any;
}

/* What is too small stays a loop: a call and its result cost more. */
static bool is_worth(const nabla_cluster *c) {
  int64_t elements = 1, columns = 1, cost = 2;
  bool is_open = false;
  for (int d = 0; d < c->rank; d++) {
    is_open = is_open || nabla_is_dynamic(c->dims[d]);
    if (nabla_is_dynamic(c->dims[d])) continue;
    if (__builtin_mul_overflow(elements, c->dims[d], &elements) ||
        elements > NABLA_CLUSTER_MOST)
      return false;
    if (d >= c->split) columns *= c->dims[d];
  }
  for (int i = 0; i < c->node_count; i++)
    cost += nabla_cluster_cost(&c->nodes[i]);
  if (is_open) return true;
  if (columns < NABLA_CLUSTER_FEWEST && c->split > 0) return false;
  return elements > 0 && elements * cost >= NABLA_CLUSTER_LEAST;
}

static bool form(nabla_cluster_forming *f) {
  const nabla_block_index *index = f->index;
  for (size_t i = 0; i < f->count; i++) nabla_cluster_deinit(&f->clusters[i]);
  f->count = 0;
  for (size_t i = 0; i < index->count; i++) f->cluster_of[i] = -1;
  for (size_t i = 0; i < index->count; i++)
    if (nabla_cluster_takes(f, index->ops[i]) &&
        (f->begins[i] || !join_any(f, i)) && !begin(f, i))
      return false;
  return true;
}

/* Whether a cluster that is formed is kept, with its results. */
static bool is_kept(const nabla_cluster_forming *f, int cluster) {
  nabla_cluster *c = &f->clusters[cluster];
  if (!c->member_count) return false;
  if (!find_outputs(f, cluster, c->member_count)) {
    char text[96];
    (void)snprintf(text, sizeof text,
                   "is not clustered: %d operations have more than %d results",
                   c->member_count, NABLA_CLUSTER_OUTPUTS);
    nablaOptimizationRemark(
        mlirOperationGetLocation(f->index->ops[c->members[0].number]), true,
        "Cluster", "nabla-cluster", text);
    return false;
  }
  return c->output_count > 0 && nabla_cluster_finish(c) && is_worth(c);
}

bool nabla_clusters_form(const nabla_block_index *index,
                         nabla_features features, nabla_cluster **out,
                         size_t *out_count) {
  /* with 16 registers of 16 bytes vectors of f64 and i64 are spilled */
  nabla_cluster_forming f = {.index = index,
                             .takes_all = NABLA_HAS(features, AVX2)};
  f.cluster_of = malloc((index->count + 1) * sizeof *f.cluster_of);
  f.node_of = malloc((index->count + 1) * sizeof *f.node_of);
  f.begins = calloc(index->count + 1, sizeof *f.begins);
  bool good = f.cluster_of && f.node_of && f.begins && form(&f);
  const int rounds = index->count <= CUT_MOST ? ROUNDS : 0;
  for (int i = 0; good && i < rounds && cut_clusters(&f); i++) good = form(&f);
  size_t kept = 0;
  for (size_t i = 0; i < f.count; i++)
    if (good && is_kept(&f, (int)i))
      f.clusters[kept++] = f.clusters[i];
    else
      nabla_cluster_deinit(&f.clusters[i]);
  free(f.begins);
  free(f.cluster_of);
  free(f.node_of);
  *out = f.clusters;
  *out_count = kept;
  return good;
}
