/* See reshard.h. Slices come first, since they make values smaller, then what
 * moves an axis from one dimension to another, then gathers. */
#include "transforms/shard/reshard.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "transforms/ir/build.h"

/* `axes = [...]` of atoms. */
static MlirNamedAttribute axes_of(const nabla_grid *shard, MlirContext context,
                                  const nabla_atom_list *atoms) {
  MlirAttribute names[NABLA_MESH_MAX_AXES];
  nabla_axis_list axes;
  (void)nabla_atoms_axes(&shard->atoms, &shard->mesh, atoms, &axes);
  for (uint32_t i = 0; i < axes.count; i++) {
    char text[NABLA_AXIS_NAME + 48];
    const nabla_axis_ref *at = &axes.at[i];
    if (at->size)
      snprintf(text, sizeof text, "%s:(%" PRId64 ")%" PRId64, at->name,
               at->before, at->size);
    else
      snprintf(text, sizeof text, "%s", at->name);
    names[i] = mlirStringAttrGet(context, nabla_ref(text));
  }
  return nabla_named(context, "axes",
                     mlirArrayAttrGet(context, (intptr_t)axes.count, names));
}

typedef struct resharding {
  const nabla_grid *shard;
  MlirOperation before, first;
  MlirValue value;
  nabla_division at;
} resharding;

static bool create(resharding *r, const char *name,
                   const nabla_atom_list *atoms, intptr_t dim, intptr_t other) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType type;
  MlirContext context = nabla_op_context(r->before);
  const nabla_builder b = {r->before};
  const bool moves = other >= 0;
  if (!nabla_layout_local(r->shard, &r->at, &type, message)) {
    nabla_error_at(r->before, "%s", message);
    return false;
  }
  const MlirNamedAttribute attributes[] = {
      axes_of(r->shard, context, atoms),
      nabla_build_integer(&b, moves ? "split" : "dim", 64, dim),
      nabla_build_integer(&b, "concat", 64, other)};
  const nabla_op_spec spec = {name,          1,         &r->value, 1, &type,
                              moves ? 3 : 2, attributes};
  MlirOperation op = nabla_op_create(r->before, &spec);
  if (mlirOperationIsNull(op)) return false;
  if (mlirOperationIsNull(r->first)) r->first = op;
  r->value = mlirOperationGetResult(op, 0);
  return true;
}

static uint32_t common(const nabla_atom_list *a, const nabla_atom_list *b) {
  uint32_t i = 0;
  while (i < a->count && i < b->count && a->at[i] == b->at[i]) i++;
  return i;
}

/* The atoms behind the first `from`. */
static nabla_atom_list rest(const nabla_atom_list *list, uint32_t from) {
  nabla_atom_list out = {.count = list->count - from};
  memcpy(out.at, list->at + from, out.count);
  return out;
}

/* Slices each dimension whose new atoms are free. */
static bool slice(resharding *r, const nabla_division *to) {
  for (intptr_t d = 0; d < to->rank; d++) {
    nabla_atom_list *now = &r->at.dims[d];
    const nabla_atom_list *then = &to->dims[d];
    if (now->count == then->count || common(now, then) < now->count) continue;
    const nabla_atom_list more = rest(then, now->count);
    const uint64_t used = nabla_layout_used(&r->at);
    bool free = true;
    for (uint32_t i = 0; i < more.count; i++)
      free = free && !(used >> more.at[i] & 1);
    if (!free) continue;
    *now = *then;
    if (!create(r, "nabla.all_slice", &more, d, -1)) return false;
  }
  return true;
}

/* Moves the last atoms of one dimension to the end of another. */
static bool move(resharding *r, const nabla_division *to) {
  for (intptr_t d = 0; d < to->rank; d++)
    for (intptr_t e = 0; e < to->rank; e++) {
      nabla_atom_list *from = &r->at.dims[d], *into = &r->at.dims[e];
      const uint32_t kept = common(from, &to->dims[d]);
      if (d == e || kept != to->dims[d].count || kept == from->count ||
          common(into, &to->dims[e]) != into->count ||
          into->count == to->dims[e].count)
        continue;
      const nabla_atom_list moved = rest(from, kept);
      const nabla_atom_list wanted = rest(&to->dims[e], into->count);
      if (!nabla_atoms_equal(&moved, &wanted)) continue;
      from->count = kept;
      *into = to->dims[e];
      if (!create(r, "nabla.all_to_all", &moved, e, d)) return false;
    }
  return true;
}

static bool gather(resharding *r, const nabla_division *to) {
  for (intptr_t d = 0; d < to->rank; d++) {
    nabla_atom_list *now = &r->at.dims[d];
    const uint32_t kept = common(now, &to->dims[d]);
    if (kept == now->count) continue;
    const nabla_atom_list gone = rest(now, kept);
    now->count = kept;
    if (!create(r, "nabla.all_gather", &gone, d, -1)) return false;
  }
  return true;
}

MlirValue nabla_reshard(const nabla_grid *shard, MlirOperation before,
                        MlirValue value, const nabla_division *from,
                        const nabla_division *to, MlirOperation *first) {
  resharding r = {shard, before, {NULL}, value, *from};
  *first = (MlirOperation){NULL};
  if (nabla_layout_equal(from, to)) return value;
  if (nablaTypeIsAImplicit(from->type)) {
    nabla_error_at(before,
                   "needs a packed array divided as %s, which is divided as "
                   "%s: packed arrays are not exchanged; annotate it "
                   "otherwise",
                   nabla_layout_format(shard, to).data,
                   nabla_layout_format(shard, from).data);
    return (MlirValue){NULL};
  }
  const bool good =
      slice(&r, to) && move(&r, to) && gather(&r, to) && slice(&r, to);
  *first = r.first;
  return good ? r.value : (MlirValue){NULL};
}

MlirValue nabla_reshard_join(const nabla_grid *shard, MlirOperation before,
                             MlirValue value, int join,
                             const nabla_atom_list *atoms) {
  MlirType type = mlirValueGetType(value);
  const nabla_builder b = {before};
  const MlirNamedAttribute attributes[] = {
      axes_of(shard, nabla_op_context(before), atoms),
      nabla_build_integer(&b, "kind", 32, join)};
  const nabla_op_spec spec = {"nabla.all_reduce", 1, &value, 1, &type, 2,
                              attributes};
  return nabla_build_op(&b, &spec);
}

MlirValue nabla_reshard_scatter(const nabla_grid *shard, MlirOperation before,
                                MlirValue value, int join, intptr_t dim,
                                const nabla_atom_list *atoms, MlirType type) {
  const nabla_builder b = {before};
  const MlirNamedAttribute attributes[] = {
      axes_of(shard, nabla_op_context(before), atoms),
      nabla_build_integer(&b, "kind", 32, join),
      nabla_build_integer(&b, "dim", 64, dim)};
  const nabla_op_spec spec = {
      "nabla.reduce_scatter", 1, &value, 1, &type, 3, attributes};
  return nabla_build_op(&b, &spec);
}
