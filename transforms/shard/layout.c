/* See layout.h. */
#include "transforms/shard/layout.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/encoding/encoding_nested.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/shard/shard_map.h"
#include "transforms/state/state.h"

static bool is_mesh(MlirOperation op) { return nabla_is(op, "nabla.mesh"); }

bool nabla_shard_begin(MlirOperation module, nabla_grid *out,
                       size_t *out_count) {
  char message[NABLA_MESSAGE_SIZE];
  nabla_op_list meshes = nabla_ops_collect(module, is_mesh);
  bool good = !meshes.failed;
  *out_count = meshes.count;
  if (meshes.count > 1) {
    nabla_error_at(meshes.ops[1],
                   "is a second mesh: programs are divided over one");
    good = false;
  } else if (meshes.count == 1) {
    MlirOperation op = out->op = meshes.ops[0];
    if (!nabla_mesh_read(op, &out->mesh, message)) {
      nabla_error_at(op, "%s", message);
      good = false;
    } else if (!nabla_atoms_of(&out->mesh, &out->atoms)) {
      nabla_error_at(op, "has axes with more than %d prime factors",
                     NABLA_MAX_ATOMS);
      good = false;
    }
  }
  nabla_op_list_deinit(&meshes);
  return good;
}

bool nabla_layout_takes(MlirType type) {
  return (nablaTypeIsAImplicit(type) || mlirTypeIsARankedTensor(type)) &&
         nabla_array_rank(type) <= NABLA_MAX_RANK;
}

nabla_division nabla_layout_whole(MlirType type) {
  nabla_division layout;
  memset(&layout, 0, sizeof layout);
  layout.type = type;
  if (nabla_layout_takes(type)) layout.rank = nabla_array_rank(type);
  return layout;
}

bool nabla_layout_is_whole(const nabla_division *layout) {
  for (intptr_t i = 0; i < layout->rank; i++)
    if (layout->dims[i].count) return false;
  return true;
}

bool nabla_atoms_equal(const nabla_atom_list *a, const nabla_atom_list *b) {
  return a->count == b->count && !memcmp(a->at, b->at, a->count);
}

bool nabla_layout_equal(const nabla_division *a, const nabla_division *b) {
  for (intptr_t i = 0; i < a->rank; i++)
    if (!nabla_atoms_equal(&a->dims[i], &b->dims[i])) return false;
  return a->rank == b->rank;
}

uint64_t nabla_layout_used(const nabla_division *layout) {
  uint64_t used = 0;
  for (intptr_t i = 0; i < layout->rank; i++)
    for (uint32_t k = 0; k < layout->dims[i].count; k++)
      used |= (uint64_t)1 << layout->dims[i].at[k];
  return used;
}

/* ---- local types ---- */

#define REFUSE(...) \
  return snprintf(message, NABLA_MESSAGE_SIZE, __VA_ARGS__), false

static bool check_packed(MlirType type, const nablaImplicit *p,
                         const nabla_division *layout, const int64_t *local,
                         char message[NABLA_MESSAGE_SIZE]);

/* Whether a lora can be divided so: its base can. Its factors are dense. */
static bool check_lora(MlirType type, const nabla_division *layout,
                       const int64_t *local, char message[NABLA_MESSAGE_SIZE]) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  (void)nabla_implicit_components(type, parts);
  const nablaImplicit base = nablaImplicitTypeParts(parts[0].type);
  if (nabla_layout_packs_scales(parts[0].type))
    REFUSE("a lora of an array with packed scales is not divided");
  return check_packed(parts[0].type, &base, layout, local, message);
}

/* Whether a packed array can be divided so: pieces of rows are whole blocks, or
 * pieces are whole rows that begin with one. */
static bool check_packed(MlirType type, const nablaImplicit *p,
                         const nabla_division *layout, const int64_t *local,
                         char message[NABLA_MESSAGE_SIZE]) {
  const nabla_encoding_info info = nabla_implicit_encoding(type);
  if (info.kind == NABLA_KIND_LORA)
    return check_lora(type, layout, local, message);
  if (info.kind != NABLA_KIND_PACKED && info.kind != NABLA_KIND_GGML)
    REFUSE("arrays of this encoding are not divided");
  const nabla_format format = nabla_implicit_format(type);
  if (info.kind == NABLA_KIND_PACKED && format.granularity == NABLA_PER_TENSOR)
    REFUSE("an array with one scale is not divided");
  const int64_t block =
      (int64_t)(info.kind == NABLA_KIND_GGML ? info.ggml->elements
                                             : format.block);
  const intptr_t last = p->rank - 1;
  if (block < 1 || p->rank < 1) REFUSE("it has no blocks");
  if (p->shape[last] % block == 0 && local[last] % block == 0) return true;
  int64_t piece = local[0];
  for (intptr_t i = 1; i < p->rank; i++) {
    if (layout->dims[i].count)
      REFUSE("pieces of rows of %" PRId64 " are no whole blocks of %" PRId64,
             p->shape[last], block);
    piece *= p->shape[i];
  }
  if (piece % block)
    REFUSE("pieces of %" PRId64 " rows are no whole blocks of %" PRId64,
           local[0], block);
  return true;
}

bool nabla_layout_is_lora(MlirType type) {
  return nablaTypeIsAImplicit(type) &&
         nabla_implicit_encoding(type).kind == NABLA_KIND_LORA;
}

bool nabla_layout_packs_scales(MlirType type) {
  return !mlirTypeEqual(nabla_layout_stored(type), type);
}

MlirType nabla_layout_stored(MlirType type) {
  if (!nablaTypeIsAImplicit(type)) return type;
  nablaImplicit p = nablaImplicitTypeParts(type);
  const MlirAttribute own = p.encoding;
  p.encoding = nabla_encoding_of_pieces(own);
  if (p.storageRank >= 0 || mlirAttributeEqual(own, p.encoding)) return type;
  const nablaImplicitType stored = {p.rank,        0,         p.shape, NULL,
                                    p.elementType, p.encoding};
  return nablaImplicitTypeGet(mlirTypeGetContext(type), &stored);
}

bool nabla_layout_takes_decoded(MlirOperation op) {
  if (!nabla_op_find(op) || mlirOperationGetNumRegions(op) ||
      nabla_is(op, "nabla.custom_call") || nabla_is(op, "nabla.implicit_depth"))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (nablaTypeIsAImplicit(nabla_result_type(op, i))) return false;
  return true;
}

/* Whether a shard_map takes an operand in pieces. */
static bool takes_piece(MlirOperation op, unsigned operand) {
  if (!nabla_is(op, "nabla.shard_map")) return false;
  const MlirType piece = mlirValueGetType(mlirBlockGetArgument(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)),
      (intptr_t)operand));
  return !nabla_layout_packs_scales(piece);
}

/* The longest chain of notes that is followed, a bound of the C stack. */
#define NOTES_MAX 16

/* Whether `notes` notes behind an argument a value may be divided. */
static bool may_decode(MlirValue value, int notes) {
  if (notes > NOTES_MAX) return false;
  MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op) ? !nabla_is(mlirBlockGetParentOperation(
                                              mlirBlockArgumentGetOwner(value)),
                                          "func.func")
                              : !nabla_is_passing_note(op))
    return false;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    if (takes_piece(owner, mlirOpOperandGetOperandNumber(use))) continue;
    if (nabla_is_passing_note(owner)
            ? !may_decode(mlirOperationGetResult(owner, 0), notes + 1)
            : !nabla_layout_takes_decoded(owner))
      return false;
  }
  return true;
}

bool nabla_layout_may_decode(MlirValue value) {
  return !nabla_layout_packs_scales(mlirValueGetType(value)) ||
         may_decode(value, 0);
}

/* The dimension of the storage that each dimension of a view is, -1 for those
 * of size 1. False: the view is no permutation of all of its storage. */
static bool storage_dims(const nablaImplicit *p,
                         intptr_t order[NABLA_MAX_RANK]) {
  int64_t stride = 1;
  intptr_t left = 0;
  for (intptr_t i = 0; i < p->rank; i++) {
    order[i] = -1;
    left += p->shape[i] != 1;
  }
  for (intptr_t d = p->storageRank; d-- > 0; stride *= p->storage[d]) {
    intptr_t i = 0;
    if (p->storage[d] == 1) continue;
    while (i < p->rank &&
           (p->shape[i] != p->storage[d] || p->strides[i] != stride))
      i++;
    if (i == p->rank) return false;
    order[i] = d;
    left--;
  }
  return !left && !p->offset;
}

bool nabla_layout_storage(const nabla_division *layout, nabla_division *out) {
  intptr_t order[NABLA_MAX_RANK];
  *out = *layout;
  if (!nablaTypeIsAImplicit(layout->type)) return true;
  const nablaImplicit p = nablaImplicitTypeParts(layout->type);
  if (p.storageRank < 0) return true;
  if (!storage_dims(&p, order)) return false;
  const nablaImplicitType stored = {p.storageRank, 0,         p.storage, NULL,
                                    p.elementType, p.encoding};
  *out = nabla_layout_whole(
      nablaImplicitTypeGet(mlirTypeGetContext(layout->type), &stored));
  for (intptr_t i = 0; i < p.rank; i++) {
    if (layout->dims[i].count && order[i] < 0) return false;
    if (order[i] >= 0) out->dims[order[i]] = layout->dims[i];
  }
  return true;
}

/* The same view of the piece of the storage. */
static bool local_view(const nabla_grid *shard, const nabla_division *layout,
                       MlirType *out, char message[NABLA_MESSAGE_SIZE]) {
  intptr_t order[NABLA_MAX_RANK];
  nabla_division storage;
  const nablaImplicit p = nablaImplicitTypeParts(layout->type);
  if (!nabla_layout_storage(layout, &storage) || !storage_dims(&p, order))
    REFUSE("a view that is no permutation of its storage is not divided");
  if (nabla_layout_packs_scales(storage.type))
    REFUSE("a view of an array with packed scales is not divided");
  if (!nabla_layout_local(shard, &storage, out, message)) return false;
  const nabla_strided stored = nabla_implicit_strided(*out);
  nabla_strided view = {.rank = p.rank};
  for (intptr_t i = 0; i < p.rank; i++) {
    view.shape[i] = order[i] < 0 ? 1 : stored.shape[order[i]];
    view.strides[i] = order[i] < 0 ? 0 : stored.strides[order[i]];
  }
  *out = nabla_implicit_with_view(*out, &view);
  return true;
}

static bool local_implicit(MlirType type, const nabla_division *layout,
                           const int64_t *local, MlirType *out,
                           char message[NABLA_MESSAGE_SIZE]) {
  const nablaImplicit p = nablaImplicitTypeParts(nabla_layout_stored(type));
  if (!check_packed(type, &p, layout, local, message)) return false;
  const nablaImplicitType stored = {p.rank,        0,         local, NULL,
                                    p.elementType, p.encoding};
  if (!nablaHookImplicitVerify(&stored, message)) return false;
  *out = nablaImplicitTypeGet(mlirTypeGetContext(type), &stored);
  return true;
}

bool nabla_layout_local(const nabla_grid *shard, const nabla_division *layout,
                        MlirType *out, char message[NABLA_MESSAGE_SIZE]) {
  int64_t local[NABLA_MAX_RANK];
  MlirType type = layout->type;
  *out = type;
  if (nabla_layout_is_whole(layout)) return true;
  for (intptr_t i = 0; i < layout->rank; i++) {
    const int64_t n = nabla_atoms_product(&shard->atoms, &layout->dims[i]);
    local[i] = nabla_array_dim(type, i);
    if (n == 1 || nabla_is_dynamic(local[i])) continue;
    if (local[i] % n && nablaTypeIsAImplicit(type))
      REFUSE("dimension %td of size %" PRId64 " is not divided by %" PRId64, i,
             local[i], n);
    local[i] = (local[i] + n - 1) / n;
  }
  if (nablaTypeIsAImplicit(type))
    return nablaImplicitTypeParts(type).storageRank >= 0
               ? local_view(shard, layout, out, message)
               : local_implicit(type, layout, local, out, message);
  *out = mlirRankedTensorTypeGet(layout->rank, local,
                                 mlirShapedTypeGetElementType(type),
                                 mlirRankedTensorTypeGetEncoding(type));
  return true;
}

int64_t nabla_layout_padded(const nabla_grid *shard, int64_t size,
                            const nabla_atom_list *atoms) {
  const int64_t n = nabla_atoms_product(&shard->atoms, atoms);
  return nabla_is_dynamic(size) ? size : (size + n - 1) / n * n;
}

bool nabla_layout_is_even(const nabla_grid *shard,
                          const nabla_division *layout) {
  for (intptr_t d = 0; d < layout->rank; d++) {
    const int64_t size = nabla_array_dim(layout->type, d);
    if (nabla_layout_padded(shard, size, &layout->dims[d]) != size)
      return false;
  }
  return true;
}

/* ---- attributes ---- */

bool nabla_layout_read(const nabla_grid *shard, const nabla_sharding *sharding,
                       nabla_division *out) {
  if (out->rank != (intptr_t)sharding->rank) return false;
  for (uint32_t i = 0; i < sharding->rank; i++)
    if (!nabla_atoms_list(&shard->atoms, &shard->mesh, &sharding->dims[i].axes,
                          &out->dims[i]))
      return false;
  return true;
}

static nabla_sharding sharding_of(const nabla_grid *shard,
                                  const nabla_division *layout) {
  nabla_sharding sharding;
  memset(&sharding, 0, sizeof sharding);
  memcpy(sharding.mesh, shard->mesh.name, sizeof sharding.mesh);
  sharding.rank = (uint32_t)layout->rank;
  for (intptr_t i = 0; i < layout->rank; i++) {
    sharding.dims[i].priority = -1;
    (void)nabla_atoms_axes(&shard->atoms, &shard->mesh, &layout->dims[i],
                           &sharding.dims[i].axes);
  }
  return sharding;
}

MlirAttribute nabla_layout_attribute(const nabla_grid *shard,
                                     MlirContext context,
                                     const nabla_division *layout) {
  const nabla_sharding sharding = sharding_of(shard, layout);
  return nabla_sharding_get(context, &sharding);
}

nabla_layout_text nabla_layout_format(const nabla_grid *shard,
                                      const nabla_division *layout) {
  nabla_layout_text text;
  const nabla_sharding sharding = sharding_of(shard, layout);
  (void)nabla_sharding_print(&sharding, text.data, sizeof text.data);
  return text;
}

nabla_division nabla_layout_of_port(const nabla_grid *shard,
                                    MlirOperation function, const char *list,
                                    intptr_t index, MlirType type) {
  nabla_division layout = nabla_layout_whole(type);
  MlirAttribute attribute =
      nabla_state_attribute(function, list, index, NABLA_SHARDING);
  if (!nabla_sharding_is(attribute)) return layout;
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  if (!nabla_layout_read(shard, &sharding, &layout))
    layout = nabla_layout_whole(type);
  return layout;
}

nabla_division nabla_layout_of_argument(const nabla_grid *shard,
                                        MlirOperation function, intptr_t index,
                                        MlirType type) {
  return nabla_layout_of_port(shard, function, NABLA_ARGUMENTS, index, type);
}

/* ---- the map: open addressing ---- */

static size_t slot_of(const nabla_layout_map *map, const void *key) {
  size_t at = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u;
  at = (at >> 20) & (map->capacity - 1);
  while (map->keys[at] && map->keys[at] != key)
    at = (at + 1) & (map->capacity - 1);
  return at;
}

static bool grow(nabla_layout_map *map) {
  nabla_layout_map larger = {.capacity =
                                 map->capacity ? 2 * map->capacity : 256};
  larger.keys = calloc(larger.capacity, sizeof *larger.keys);
  larger.layouts = calloc(larger.capacity, sizeof *larger.layouts);
  if (!larger.keys || !larger.layouts) {
    nabla_layout_map_deinit(&larger);
    map->failed = true;
    return false;
  }
  for (size_t i = 0; i < map->capacity; i++) {
    if (!map->keys[i]) continue;
    const size_t at = slot_of(&larger, map->keys[i]);
    larger.keys[at] = map->keys[i];
    larger.layouts[at] = map->layouts[i];
    larger.count++;
  }
  nabla_layout_map_deinit(map);
  *map = larger;
  return true;
}

nabla_division *nabla_layout_at(nabla_layout_map *map, MlirValue value) {
  if (2 * (map->count + 1) > map->capacity && !grow(map)) return NULL;
  const size_t at = slot_of(map, value.ptr);
  if (!map->keys[at]) {
    map->keys[at] = value.ptr;
    map->layouts[at] = nabla_layout_whole(mlirValueGetType(value));
    map->count++;
  }
  return &map->layouts[at];
}

nabla_division nabla_layout_of(nabla_layout_map *map, MlirValue value) {
  const nabla_division *layout = nabla_layout_at(map, value);
  return layout ? *layout : nabla_layout_whole(mlirValueGetType(value));
}

void nabla_layout_map_deinit(nabla_layout_map *map) {
  free(map->keys);
  free(map->layouts);
  *map = (nabla_layout_map){0};
}
