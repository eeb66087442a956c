/* See gather.h. */
#include "dialect/gather.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Support.h>

typedef struct list {
  intptr_t count;
  int64_t items[NABLA_MAX_RANK];
} list;

typedef struct lists {
  list offset, collapsed, batching, index_batching, map;
} lists;

static MlirAttribute find(MlirOperation op, MlirAttribute dictionary,
                          const char *key) {
  if (mlirOperationIsNull(op)) return nabla_attribute(dictionary, key);
  return mlirOperationGetAttributeByName(op,
                                         mlirStringRefCreateFromCString(key));
}

static list read(MlirOperation op, MlirAttribute dictionary, const char *key) {
  list l = {0, {0}};
  l.count = mlirOperationIsNull(op) ? nabla_integers(dictionary, key, l.items)
                                    : nabla_op_integers(op, key, l.items);
  return l;
}

static bool rises(const list *l) {
  for (intptr_t i = 1; i < l->count; i++)
    if (l->items[i] <= l->items[i - 1]) return false;
  return true;
}

static bool contains(const list *l, int64_t item) {
  for (intptr_t i = 0; i < l->count; i++)
    if (l->items[i] == item) return true;
  return false;
}

/* Distinct among themselves and from those of `other`, and less than `rank`. */
static bool fit(const list *l, const list *other, intptr_t rank) {
  if (!nabla_dims_valid(l->count, l->items, rank)) return false;
  for (intptr_t i = 0; i < l->count; i++)
    if (contains(other, l->items[i])) return false;
  return true;
}

static const char *check(const lists *l, const nabla_gather_numbers *g) {
  const list none = {0, {0}};
  if (g->vector_dim < 0 || g->vector_dim > g->index_rank)
    return "vector_dim is at most the rank of the indices, and not negative";
  if (!fit(&l->collapsed, &none, g->rank) || !rises(&l->collapsed))
    return "collapsed_dims are dimensions of the array, rising";
  if (!fit(&l->batching, &l->collapsed, g->rank) || !rises(&l->batching))
    return "batching dimensions of the array are rising, and not in "
           "collapsed_dims";
  if (l->batching.count != l->index_batching.count)
    return "the lists of batching dimensions differ in length";
  const list vector = {1, {g->vector_dim}};
  if (!fit(&l->index_batching, &vector, g->index_rank))
    return "batching dimensions of the indices are distinct, and not "
           "vector_dim";
  if (!fit(&l->map, &l->batching, g->rank))
    return "index_map names distinct dimensions of the array that are not "
           "batching";
  if (l->offset.count + l->collapsed.count + l->batching.count != g->rank)
    return "each dimension of the array is either in collapsed_dims, or in "
           "batching, or has an entry in offset_dims";
  if (g->result_rank > NABLA_MAX_RANK)
    return "the result has more than 16 dimensions";
  if (!fit(&l->offset, &none, g->result_rank) || !rises(&l->offset))
    return "offset_dims are dimensions of the result, rising";
  return NULL;
}

static void place(const lists *l, nabla_gather_numbers *g) {
  intptr_t offset = 0, free = 0;
  for (intptr_t d = 0; d < g->rank; d++) {
    bool inside = !contains(&l->collapsed, d) && !contains(&l->batching, d);
    g->offset_of[d] = inside ? (intptr_t)l->offset.items[offset++] : -1;
    g->start_of[d] = g->batch_of[d] = -1;
  }
  for (intptr_t i = 0; i < l->map.count; i++) g->start_of[l->map.items[i]] = i;
  for (intptr_t i = 0; i < l->batching.count; i++)
    g->batch_of[l->batching.items[i]] = (intptr_t)l->index_batching.items[i];
  for (intptr_t i = 0; i < g->index_rank; i++) {
    g->result_of[i] = -1;
    if (i == g->vector_dim) continue;
    while (contains(&l->offset, free)) free++;
    g->result_of[i] = free++;
  }
}

const char *nabla_gather_read(MlirOperation op, MlirAttribute dictionary,
                              intptr_t rank, intptr_t index_rank,
                              nabla_gather_numbers *out) {
  lists l = {read(op, dictionary, "offset_dims"),
             read(op, dictionary, "collapsed_dims"),
             read(op, dictionary, "input_batching"),
             read(op, dictionary, "indices_batching"),
             read(op, dictionary, "index_map")};
  MlirAttribute vector = find(op, dictionary, "vector_dim");
  *out = (nabla_gather_numbers){.rank = rank, .index_rank = index_rank};
  int64_t dim = mlirAttributeIsNull(vector) || !mlirAttributeIsAInteger(vector)
                    ? -1
                    : mlirIntegerAttrGetValueInt(vector);
  out->vector_dim = dim > index_rank ? -1 : (intptr_t)dim;
  out->components = l.map.count;
  out->result_rank =
      index_rank - (out->vector_dim < index_rank) + l.offset.count;
  const char *wrong = check(&l, out);
  if (!wrong) place(&l, out);
  return wrong;
}
