/* Exchanges of packed arrays: each component as an array of its own, whose last
 * dimension is what a row has of it; see reshard.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/ir/build.h"
#include "transforms/ir/components.h"
#include "transforms/shard/reshard.h"
#include "transforms/shard/shard_map.h"

typedef struct exchange {
  const nabla_grid *shard;
  MlirOperation before;
  const nabla_division *from, *to; /* of the array as it is stored in pieces */
  MlirType packed;                 /* after */
  nabla_implicit_component whole[NABLA_MAX_PARTS], had[NABLA_MAX_PARTS],
      has[NABLA_MAX_PARTS];
} exchange;

/* The division of a component that `layout` is: rows of blocks, or a list of
 * all blocks where only the first dimension is divided. False: there is none.
 */
static bool part_of(const exchange *e, const nabla_division *layout,
                    uint32_t part, bool flat, nabla_division *out) {
  const int64_t count = e->whole[part].count;
  int64_t shape[NABLA_MAX_RANK], rows = 1;
  const intptr_t last = layout->rank - 1;
  *out = *layout;
  for (intptr_t i = 0; i < last; i++) {
    shape[i] = nabla_array_dim(layout->type, i);
    rows *= shape[i];
    if (flat && i && layout->dims[i].count) return false;
  }
  if (flat && last && layout->dims[last].count) return false;
  if (!flat && (rows < 1 || count % rows)) return false;
  shape[last] = flat ? 0 : count / rows;
  if (flat) {
    out->rank = 1;
    shape[0] = count;
  }
  out->type = mlirRankedTensorTypeGet(out->rank, shape, e->whole[part].element,
                                      mlirAttributeGetNull());
  return true;
}

/* Whether the pieces that a division gives have so many elements. */
static bool gives(const exchange *e, const nabla_division *layout,
                  int64_t count) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  int64_t product = 1;
  if (!nabla_layout_local(e->shard, layout, &local, message)) return false;
  for (intptr_t i = 0; i < layout->rank; i++)
    product *= nabla_array_dim(local, i);
  return product == count;
}

static MlirValue reshape(const exchange *e, MlirValue value,
                         const nabla_division *layout) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  const nabla_builder b = {e->before};
  nabla_built_shape shape = {.rank = layout->rank};
  (void)nabla_layout_local(e->shard, layout, &local, message);
  for (intptr_t i = 0; i < layout->rank; i++)
    shape.dims[i] = nabla_array_dim(local, i);
  return nabla_build_reshape(&b, value, &shape);
}

/* One component; null where its pieces are no pieces of the array. */
static MlirValue exchange_part(const exchange *e, uint32_t part,
                               MlirValue value) {
  const nabla_builder b = {e->before};
  if (e->whole[part].count == e->had[part].count &&
      e->whole[part].count == e->has[part].count)
    return value;
  for (int flat = 0; flat < 2; flat++) {
    nabla_division from, to;
    MlirOperation first;
    if (!part_of(e, e->from, part, flat, &from) ||
        !part_of(e, e->to, part, flat, &to) ||
        !gives(e, &from, e->had[part].count) ||
        !gives(e, &to, e->has[part].count))
      continue;
    value = nabla_build_reshard(e->shard, e->before, reshape(e, value, &from),
                                &from, &to, &first);
    const nabla_built_shape list = {.rank = 1, .dims = {e->has[part].count}};
    return nabla_build_reshape(&b, value, &list);
  }
  return (MlirValue){NULL};
}

/* Finds the components of `value` before the op; packed scales of a whole array
 * are decoded to f32. */
static intptr_t split(const exchange *e, MlirValue value,
                      MlirValue parts[NABLA_MAX_PARTS]) {
  const nabla_builder b = {e->before};
  const intptr_t count = nabla_components_split(value, e->before, parts);
  for (intptr_t i = 0; i < count; i++) {
    if (!nablaTypeIsAImplicit(mlirValueGetType(parts[i]))) continue;
    const nabla_op_spec decode = {
        "nabla.materialize", 1, &parts[i], -1, NULL, 0, NULL};
    parts[i] = nabla_build_op(&b, &decode);
  }
  return count;
}

/* Whether the operation takes an array whose pieces are put together: decoded
 * scales are not packed again. */
static bool takes_whole(MlirOperation op, MlirType type) {
  if (!nabla_layout_packs_scales(type)) return true;
  return nabla_is_passing_note(op)
             ? nabla_layout_may_decode(mlirOperationGetResult(op, 0))
             : nabla_layout_takes_decoded(op);
}

/* The division of component `part` of a lora: its base is divided as it is, a
 * along rows, b across them. */
static nabla_division lora_part(const nabla_division *layout, intptr_t part,
                                MlirType type) {
  nabla_division out = *layout;
  out.type = type;
  if (part) out.dims[part == 1 ? 0 : 1].count = 0;
  return out;
}

/* A lora is exchanged by its components. */
static MlirValue exchange_lora(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, const nabla_division *from,
                               const nabla_division *to, MlirType packed) {
  nabla_implicit_component whole[NABLA_MAX_PARTS];
  MlirValue parts[NABLA_MAX_PARTS];
  MlirOperation first;
  const intptr_t count = (intptr_t)nabla_implicit_components(from->type, whole);
  if (nabla_components_split(value, before, parts) != count)
    return (MlirValue){NULL};
  for (intptr_t i = 0; i < count; i++) {
    const nabla_division has = lora_part(from, i, whole[i].type);
    const nabla_division wanted = lora_part(to, i, whole[i].type);
    parts[i] =
        nabla_build_reshard(shard, before, parts[i], &has, &wanted, &first);
    if (mlirValueIsNull(parts[i])) return parts[i];
  }
  return nabla_components_pack(before, packed, parts);
}

MlirValue nabla_reshard_packed(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, const nabla_division *has,
                               const nabla_division *wanted) {
  const MlirValue none = {NULL};
  nabla_division from, to;
  MlirValue parts[NABLA_MAX_PARTS];
  char message[NABLA_MESSAGE_SIZE];
  exchange e = {.shard = shard, .before = before, .from = &from, .to = &to};
  if (!nabla_layout_storage(has, &from) || !nabla_layout_storage(wanted, &to))
    return none;
  from.type = to.type = nabla_layout_stored(from.type);
  if (nabla_layout_is_whole(wanted) && !takes_whole(before, has->type))
    return none;
  /* a view is packed as one: of the same storage */
  nabla_division packed = *wanted;
  packed.type = nabla_layout_stored(wanted->type);
  MlirType had = from.type;
  if (from.rank < 1 ||
      !nabla_layout_local(shard, &packed, &e.packed, message) ||
      !nabla_layout_local(shard, &from, &had, message))
    return none;
  if (nabla_layout_is_lora(from.type))
    return exchange_lora(shard, before, value, &from, &to, e.packed);
  const uint32_t count = nabla_implicit_components(from.type, e.whole);
  if (!count || nabla_implicit_components(had, e.had) != count ||
      nabla_implicit_components(e.packed, e.has) != count)
    return none;
  for (uint32_t i = 0; i < count; i++)
    if (!mlirTypeIsARankedTensor(nabla_component_type(&e.had[i]))) return none;
  if (split(&e, value, parts) != (intptr_t)count) return none;
  for (uint32_t i = 0; i < count; i++) {
    parts[i] =
        mlirValueIsNull(parts[i]) ? none : exchange_part(&e, i, parts[i]);
    if (mlirValueIsNull(parts[i])) return none;
  }
  return nabla_components_pack(before, e.packed, parts);
}
