/* Exchanges of packed arrays: each component as an array of its own, whose last
 * dimension is what a row has of it; see reshard.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/ir/build.h"
#include "transforms/shard/reshard.h"

typedef struct exchange {
  const nabla_grid *shard;
  MlirOperation before;
  const nabla_division *from, *to; /* of the packed array */
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

/* `value`, which is whole, with packed scales as f32; null if out of memory. */
static MlirValue decode_scales(MlirOperation before, MlirValue value,
                               MlirType stored) {
  const nabla_builder b = {before};
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  MlirValue values[NABLA_MAX_PARTS];
  MlirType types[NABLA_MAX_PARTS];
  const uint32_t count =
      nabla_implicit_components(mlirValueGetType(value), parts);
  for (uint32_t i = 0; i < count; i++)
    types[i] = nabla_component_type(&parts[i]);
  const nabla_op_spec unpack = {"nabla.unpack", 1, &value, count,
                                types,          0, NULL};
  MlirOperation op = nabla_op_create(before, &unpack);
  if (mlirOperationIsNull(op)) return (MlirValue){NULL};
  for (uint32_t i = 0; i < count; i++) {
    values[i] = mlirOperationGetResult(op, i);
    if (!nablaTypeIsAImplicit(types[i])) continue;
    const nabla_op_spec decode = {
        "nabla.materialize", 1, &values[i], -1, NULL, 0, NULL};
    values[i] = nabla_build_op(&b, &decode);
  }
  const nabla_op_spec pack = {"nabla.pack", count, values, 1, &stored, 0, NULL};
  return nabla_build_op(&b, &pack);
}

MlirValue nabla_reshard_packed(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, const nabla_division *has,
                               const nabla_division *wanted) {
  nabla_division from_stored = *has, to_stored = *wanted;
  const nabla_division *from = &from_stored, *to = &to_stored;
  from_stored.type = to_stored.type = nabla_layout_stored(has->type);
  if (nabla_layout_is_whole(has) &&
      !mlirTypeEqual(from->type, mlirValueGetType(value))) {
    value = decode_scales(before, value, from->type);
    if (mlirValueIsNull(value)) return value;
  }
  const MlirValue none = {NULL};
  if (nabla_layout_is_whole(wanted) && !nabla_layout_decodes(value, before))
    return none;
  char message[NABLA_MESSAGE_SIZE];
  MlirType types[NABLA_MAX_PARTS];
  MlirValue parts[NABLA_MAX_PARTS];
  exchange e = {.shard = shard, .before = before, .from = from, .to = to};
  if (!nabla_layout_local(shard, to, &e.packed, message)) return none;
  const uint32_t count = nabla_implicit_components(from->type, e.whole);
  if (!count || from->rank < 1 ||
      nabla_implicit_components(mlirValueGetType(value), e.had) != count ||
      nabla_implicit_components(e.packed, e.has) != count)
    return none;
  for (uint32_t i = 0; i < count; i++) {
    types[i] = nabla_component_type(&e.had[i]);
    if (!mlirTypeIsARankedTensor(types[i])) return none;
  }
  const nabla_op_spec unpack = {"nabla.unpack", 1, &value, count,
                                types,          0, NULL};
  MlirOperation op = nabla_op_create(before, &unpack);
  for (uint32_t i = 0; !mlirOperationIsNull(op) && i < count; i++) {
    parts[i] = exchange_part(&e, i, mlirOperationGetResult(op, i));
    if (mlirValueIsNull(parts[i])) return none;
  }
  const nabla_builder b = {before};
  const nabla_op_spec pack = {"nabla.pack", count, parts, 1,
                              &e.packed,    0,     NULL};
  return mlirOperationIsNull(op) ? none : nabla_build_op(&b, &pack);
}
