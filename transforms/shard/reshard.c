/* See reshard.h. Slices come first, since they make values smaller, then what
 * moves an axis from one dimension to another, then gathers. */
#include "transforms/shard/reshard.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
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

/* nabla.pad with zeros, or nabla.slice: dimension `dim` as `size` elements. */
MlirValue nabla_reshard_resize(MlirOperation before, MlirValue value,
                               intptr_t dim, int64_t size) {
  int64_t low[NABLA_MAX_RANK] = {0}, high[NABLA_MAX_RANK] = {0};
  const nabla_builder b = {before};
  MlirType type = mlirValueGetType(value);
  const int64_t now = nabla_array_dim(type, dim);
  if (nabla_is_dynamic(now) || nabla_is_dynamic(size) || now == size)
    return value;
  if (now > size) return nabla_build_slice(&b, value, dim, 0, size);
  const nabla_built_shape none = {.rank = 0};
  MlirType element = mlirShapedTypeGetElementType(type);
  MlirValue zero = mlirTypeIsAInteger(element)
                       ? nabla_build_full_integer(&b, 0, &none, element)
                       : nabla_build_full(&b, 0, &none, element);
  MlirValue operands[] = {value, zero};
  high[dim] = size - now;
  const intptr_t rank = nabla_array_rank(type);
  const MlirNamedAttribute attributes[] = {
      nabla_build_list(&b, "low", rank, low),
      nabla_build_list(&b, "high", rank, high)};
  const nabla_op_spec spec = {"nabla.pad", 2, operands,  -1,
                              NULL,        2, attributes};
  return nabla_build_op(&b, &spec);
}

typedef struct resharding {
  const nabla_grid *shard;
  MlirOperation before, first;
  MlirValue value;
  nabla_division at;
  const nabla_exchange_visitor *visitor; /* NULL: operations are created */
  MlirType type;                         /* of the value, with a visitor */
} resharding;

/* A size of `n` pieces; `?` stays one. */
static int64_t times(int64_t size, int64_t n) {
  return nabla_is_dynamic(size) ? size : n * size;
}

/* The piece that `type` is with its dimension `dim` of `size` elements. */
static MlirType with_size(MlirType type, intptr_t dim, int64_t size) {
  int64_t shape[NABLA_MAX_RANK];
  const intptr_t rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  if (!nabla_is_dynamic(shape[dim])) shape[dim] = size;
  return mlirRankedTensorTypeGet(rank, shape,
                                 mlirShapedTypeGetElementType(type),
                                 mlirRankedTensorTypeGetEncoding(type));
}

static MlirType type_of(const resharding *r) {
  return r->visitor ? r->type : mlirValueGetType(r->value);
}

/* Notes the operation that made `value` as the first one. */
static bool note(resharding *r, MlirValue value) {
  if (mlirValueIsNull(value)) return false;
  if (!mlirValueEqual(value, r->value) && mlirOperationIsNull(r->first))
    r->first = nabla_defining_op(value);
  r->value = value;
  return true;
}

/* Dimension `dim` as `size` elements. */
static bool resize(resharding *r, intptr_t dim, int64_t size) {
  if (!r->visitor)
    return note(r, nabla_reshard_resize(r->before, r->value, dim, size));
  if (!nabla_is_dynamic(size)) r->type = with_size(r->type, dim, size);
  return true;
}

/* Creates a collective with a result of type `type`, or visits it. */
static bool make(resharding *r, const char *name, const nabla_atom_list *atoms,
                 intptr_t shrinks, intptr_t grows, MlirType type) {
  const bool moves = shrinks >= 0 && grows >= 0;
  if (r->visitor) {
    r->visitor->visit(r->visitor->self, name, atoms, r->type, type);
    r->type = type;
    return true;
  }
  MlirContext context = nabla_op_context(r->before);
  const nabla_builder b = {r->before};
  const MlirNamedAttribute attributes[] = {
      axes_of(r->shard, context, atoms),
      nabla_build_integer(&b, moves ? "split" : "dim", 64,
                          shrinks >= 0 ? shrinks : grows),
      nabla_build_integer(&b, "concat", 64, grows)};
  const nabla_op_spec spec = {name,          1,         &r->value, 1, &type,
                              moves ? 3 : 2, attributes};
  return note(r, nabla_build_op(&b, &spec));
}

/* A collective over `atoms`: dimension `grows` is then that of all pieces
 * together, `shrinks` that of one; -1: none. Padding is added before, and
 * removed after, where dimensions of the layout `at` lack it. */
static bool create(resharding *r, const char *name,
                   const nabla_atom_list *atoms, intptr_t shrinks,
                   intptr_t grows) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType type;
  const int64_t n = nabla_atoms_product(&r->shard->atoms, atoms);
  if (!nabla_layout_local(r->shard, &r->at, &type, message)) {
    if (!r->visitor) nabla_error_at(r->before, "%s", message);
    return false;
  }
  int64_t size = 0;
  if (shrinks >= 0) {
    size = nabla_array_dim(type, shrinks);
    if (!nabla_is_dynamic(size) && !resize(r, shrinks, n * size)) return false;
  }
  if (grows >= 0) {
    size = nabla_array_dim(type_of(r), grows);
    type = with_size(type, grows, times(size, n));
  }
  if (!make(r, name, atoms, shrinks, grows, type)) return false;
  (void)nabla_layout_local(r->shard, &r->at, &type, message);
  return grows < 0 || resize(r, grows, nabla_array_dim(type, grows));
}

/* How many of the first atoms of a dimension may stay where they are: padding
 * belongs to all of its pieces together. */
static uint32_t common(const resharding *r, intptr_t dim,
                       const nabla_atom_list *a, const nabla_atom_list *b) {
  uint32_t i = 0;
  while (i < a->count && i < b->count && a->at[i] == b->at[i]) i++;
  if (i == a->count && i == b->count) return i;
  const int64_t size = nabla_array_dim(r->at.type, dim);
  nabla_atom_list kept = *a;
  kept.count = i;
  const int64_t padded = nabla_layout_padded(r->shard, size, &kept);
  return padded == nabla_layout_padded(r->shard, size, a) &&
                 padded == nabla_layout_padded(r->shard, size, b)
             ? i
             : 0;
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
    if (now->count == then->count || common(r, d, now, then) < now->count)
      continue;
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
      const uint32_t kept = common(r, d, from, &to->dims[d]);
      if (d == e || kept != to->dims[d].count || kept == from->count ||
          common(r, e, into, &to->dims[e]) != into->count ||
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
    const uint32_t kept = common(r, d, now, &to->dims[d]);
    if (kept == now->count) continue;
    const nabla_atom_list gone = rest(now, kept);
    now->count = kept;
    if (!create(r, "nabla.all_gather", &gone, -1, d)) return false;
  }
  return true;
}

static bool walk(resharding *r, const nabla_division *to) {
  return slice(r, to) && move(r, to) && gather(r, to) && slice(r, to);
}

MlirValue nabla_build_reshard(const nabla_grid *shard, MlirOperation before,
                              MlirValue value, const nabla_division *from,
                              const nabla_division *to, MlirOperation *first) {
  resharding r = {
      .shard = shard, .before = before, .value = value, .at = *from};
  *first = (MlirOperation){NULL};
  if (nabla_layout_equal(from, to)) return value;
  if (nablaTypeIsAImplicit(from->type)) {
    MlirValue made = nabla_reshard_packed(shard, before, value, from, to);
    if (mlirValueIsNull(made))
      nabla_error_at(before,
                     "needs a packed array divided as %s, which is divided as "
                     "%s: its components cannot be exchanged so; annotate it "
                     "otherwise",
                     nabla_layout_format(shard, to).data,
                     nabla_layout_format(shard, from).data);
    return made;
  }
  const bool good = walk(&r, to);
  *first = r.first;
  return good ? r.value : (MlirValue){NULL};
}

bool nabla_reshard_visit(const nabla_grid *shard, const nabla_division *from,
                         const nabla_division *to,
                         const nabla_exchange_visitor *visitor) {
  char message[NABLA_MESSAGE_SIZE];
  resharding r = {.shard = shard, .at = *from, .visitor = visitor};
  if (nabla_layout_equal(from, to)) return true;
  return !nablaTypeIsAImplicit(from->type) &&
         nabla_layout_local(shard, from, &r.type, message) && walk(&r, to);
}

intptr_t nabla_reshard_scatters(const nabla_grid *shard,
                                const nabla_division *now,
                                const nabla_division *to,
                                const nabla_atom_list *atoms) {
  for (intptr_t d = 0; d < to->rank; d++) {
    const nabla_atom_list *has = &now->dims[d], *then = &to->dims[d];
    if (then->count != has->count + atoms->count ||
        memcmp(has->at, then->at, has->count) ||
        memcmp(then->at + has->count, atoms->at, atoms->count))
      continue;
    const int64_t size = nabla_array_dim(to->type, d);
    if (has->count && nabla_layout_padded(shard, size, has) !=
                          nabla_layout_padded(shard, size, then))
      continue;
    return d;
  }
  return -1;
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

MlirValue nabla_reshard_gather(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, intptr_t dim,
                               const nabla_atom_list *atoms) {
  if (mlirValueIsNull(value)) return value;
  MlirType type = mlirValueGetType(value);
  const int64_t n = nabla_atoms_product(&shard->atoms, atoms);
  const nabla_builder b = {before};
  type = with_size(type, dim, times(nabla_array_dim(type, dim), n));
  const MlirNamedAttribute attributes[] = {
      axes_of(shard, nabla_op_context(before), atoms),
      nabla_build_integer(&b, "dim", 64, dim)};
  const nabla_op_spec spec = {"nabla.all_gather", 1, &value, 1, &type, 2,
                              attributes};
  return nabla_build_op(&b, &spec);
}

MlirValue nabla_reshard_index(const nabla_grid *shard, MlirOperation before,
                              const nabla_atom_list *atoms) {
  const nabla_builder b = {before};
  MlirContext context = nabla_op_context(before);
  MlirType type = mlirRankedTensorTypeGet(
      0, NULL, mlirIntegerTypeGet(context, 64), mlirAttributeGetNull());
  const MlirNamedAttribute attributes[] = {axes_of(shard, context, atoms)};
  const nabla_op_spec spec = {"nabla.axis_index", 0, NULL, 1, &type, 1,
                              attributes};
  return nabla_build_op(&b, &spec);
}
