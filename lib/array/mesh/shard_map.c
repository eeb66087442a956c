/* nabla_shard_map: a callback that is traced into the region of an operation
 * nabla.shard_map. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/emit_mesh.h"
#include "lib/array/function/body.h"
#include "lib/array/mesh/partition.h"
#include "lib/array/packed.h"
#include "transforms/shard/layout.h"

enum { MOST = NABLA_BUILD_MAX_CARRIES };

/* A call. */
typedef struct mapping {
  const nabla_array_call *site;
  nabla_scope *scope;
  const nabla_partition *in, *out;
  size_t in_count, out_count;
  const nabla_mesh *mesh;
  nabla_body body;
  nabla_array *operands[MOST];
  nabla_array_type pieces[MOST], results[MOST]; /* local; global */
} mapping;

/* ---- types ---- */

static nabla_status check_partition(const mapping *m,
                                    const nabla_partition *partition,
                                    const nabla_array_type *type,
                                    const char *noun, size_t index,
                                    nabla_diag *diag) {
  nabla_sharding sharding;
  NABLA_TRY(nabla_partition_read(partition, &sharding, diag));
  if (strcmp(partition->mesh->name, m->mesh->name) != 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the partition of %s %zu is of another mesh", noun,
                      index);
  if (sharding.rank != type->rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s %zu of rank %" PRIu32 ", its partition of %" PRIu32,
                      noun, index, type->rank, sharding.rank);
  return NABLA_OK;
}

/* Sizes that are not known stay so: they have to divide evenly when the program
 * runs. */
static nabla_status find_shape(const nabla_partition *partition,
                               const int64_t *shape, uint32_t rank,
                               nabla_status (*convert)(const nabla_partition *,
                                                       const int64_t *,
                                                       int64_t *, nabla_diag *),
                               int64_t *out, nabla_diag *diag) {
  int64_t known[NABLA_ARRAY_MAX_RANK] = {0};
  for (uint32_t d = 0; d < rank; d++) known[d] = shape[d] < 0 ? 0 : shape[d];
  NABLA_TRY(convert(partition, known, out, diag));
  for (uint32_t d = 0; d < rank; d++)
    if (shape[d] < 0) out[d] = shape[d];
  return NABLA_OK;
}

static MlirType type_of(const mapping *m, const nabla_array *array) {
  return nabla_recorder_type(nabla_recorder_context(m->scope->recorder),
                             &array->dense);
}

/* The type of the pieces of a packed array; false: why not is in `message`. */
static bool piece_of(const mapping *m, const nabla_partition *partition,
                     MlirType whole, MlirType *out,
                     char message[NABLA_MESSAGE_SIZE]) {
  nabla_sharding sharding;
  nabla_grid grid = {.mesh = *m->mesh};
  nabla_division layout = nabla_layout_whole(whole);
  (void)snprintf(message, NABLA_MESSAGE_SIZE, "its axes have too many factors");
  return !nabla_partition_read(partition, &sharding, NULL) &&
         nabla_atoms_of(&grid.mesh, &grid.atoms) &&
         nabla_layout_read(&grid, &sharding, &layout) &&
         nabla_layout_local(&grid, &layout, out, message);
}

static nabla_status find_packed(const mapping *m, size_t i, nabla_diag *diag) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  if (piece_of(m, &m->in[i], type_of(m, m->operands[i]), &local, message))
    return nabla_packed_intern(local, (nabla_dense *)&m->pieces[i], diag);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "operand %zu is packed: %s",
                    i, message);
}

/* The packed array that pieces make; those of an array with packed scales have
 * decoded ones, and make none. */
static nabla_status find_packed_result(mapping *m, size_t i, nabla_diag *diag) {
  char message[NABLA_MESSAGE_SIZE];
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  const nabla_array *piece = m->body.results[i];
  const MlirType type = type_of(m, piece);
  const nablaImplicit parts = nablaImplicitTypeParts(type);
  const nablaImplicitType grown = {
      parts.rank, 0, shape, NULL, parts.elementType, parts.encoding};
  NABLA_TRY(nabla_global_shape(&m->out[i], piece->dense.shape, shape, diag));
  if (parts.storageRank >= 0)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "result %zu is a view of a packed array", i);
  if (nablaHookImplicitVerify(&grown, message)) {
    const MlirType whole =
        nablaImplicitTypeGet(mlirTypeGetContext(type), &grown);
    MlirType local;
    if (piece_of(m, &m->out[i], whole, &local, message) &&
        mlirTypeEqual(local, type))
      return nabla_packed_intern(whole, (nabla_dense *)&m->results[i], diag);
    if (nabla_layout_packs_scales(whole))
      (void)snprintf(message, sizeof message,
                     "its scales are packed, and would be others in pieces");
  }
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "result %zu is packed: %s", i,
                    message);
}

static nabla_status find_pieces(mapping *m, nabla_diag *diag) {
  for (size_t i = 0; i < m->in_count; i++) {
    const nabla_dense *whole = &m->operands[i]->dense;
    int64_t back[NABLA_ARRAY_MAX_RANK];
    NABLA_TRY(check_partition(m, &m->in[i], whole, "operand", i, diag));
    nabla_array_type *piece = &m->pieces[i];
    *piece = *whole;
    piece->data = NULL;
    if (nabla_dtype_is_packed(whole->dtype)) {
      NABLA_TRY(find_packed(m, i, diag));
      continue;
    }
    NABLA_TRY(find_shape(&m->in[i], whole->shape, whole->rank,
                         nabla_local_shape, piece->shape, diag));
    NABLA_TRY(find_shape(&m->in[i], piece->shape, whole->rank,
                         nabla_global_shape, back, diag));
    for (uint32_t d = 0; d < whole->rank; d++)
      if (back[d] != whole->shape[d])
        return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                          "operand %zu: its axes do not divide dimension "
                          "%" PRIu32 " of size %" PRId64,
                          i, d, whole->shape[d]);
  }
  return NABLA_OK;
}

static nabla_status find_results(mapping *m, nabla_diag *diag) {
  if (m->body.result_count != m->out_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%zu results, and %zu partitions of them",
                      m->body.result_count, m->out_count);
  for (size_t i = 0; i < m->out_count; i++) {
    const nabla_dense *piece = &m->body.results[i]->dense;
    NABLA_TRY(check_partition(m, &m->out[i], piece, "result", i, diag));
    m->results[i] = *piece;
    m->results[i].data = NULL;
    if (nabla_dtype_is_packed(piece->dtype)) {
      NABLA_TRY(find_packed_result(m, i, diag));
      continue;
    }
    NABLA_TRY(find_shape(&m->out[i], piece->shape, piece->rank,
                         nabla_global_shape, m->results[i].shape, diag));
  }
  return NABLA_OK;
}

/* ---- operation ---- */

static MlirAttribute shardings(MlirContext context, size_t count,
                               const nabla_partition *list) {
  MlirAttribute out[MOST];
  for (size_t i = 0; i < count; i++) {
    nabla_sharding sharding;
    if (nabla_partition_read(&list[i], &sharding, NULL))
      return mlirAttributeGetNull();
    out[i] = nabla_sharding_get(context, &sharding);
    if (mlirAttributeIsNull(out[i])) return out[i];
  }
  return mlirArrayAttrGet(context, (intptr_t)count, out);
}

/* The region, whose block has the pieces as arguments; null after an error. */
static MlirRegion build_region(mapping *m, MlirOperation before) {
  const MlirContext context = nabla_op_context(before);
  const MlirLocation location = mlirLocationUnknownGet(context);
  const nabla_built_region how = nabla_body_region(&m->body);
  MlirValue arguments[MOST], results[MOST] = {{NULL}};
  const MlirBlock block = mlirBlockCreate(0, NULL, NULL);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, block);
  for (size_t i = 0; i < m->in_count; i++)
    arguments[i] = mlirBlockAddArgument(
        block, nabla_recorder_type(context, &m->pieces[i]), location);
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("nabla.yield"), location);
  const MlirOperation last = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(block, last);
  const nabla_builder inside = {last};
  how.write(&inside, arguments, results, how.data);
  state = mlirOperationStateGet(nabla_ref("nabla.yield"), location);
  mlirOperationDestroy(last);
  if (m->body.failed) {
    mlirRegionDestroy(region);
    return (MlirRegion){NULL};
  }
  mlirOperationStateAddOperands(&state, (intptr_t)m->out_count, results);
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&state));
  return region;
}

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  mapping *m = self;
  const MlirContext context = nabla_op_context(before);
  const MlirOperation none = {NULL};
  nabla_mesh_add(before, m->mesh);
  const MlirNamedAttribute attributes[2] = {
      nabla_named(context, "in", shardings(context, m->in_count, m->in)),
      nabla_named(context, "out", shardings(context, m->out_count, m->out))};
  if (mlirAttributeIsNull(attributes[0].attribute) ||
      mlirAttributeIsNull(attributes[1].attribute))
    return none;
  MlirRegion region = build_region(m, before);
  if (mlirRegionIsNull(region)) return none;
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("nabla.shard_map"), mlirLocationUnknownGet(context));
  mlirOperationStateAddOperands(&state, (intptr_t)m->in_count, operands);
  for (size_t i = 0; i < m->out_count; i++) {
    const MlirType type = nabla_recorder_type(context, &m->results[i]);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  mlirOperationStateAddAttributes(&state, 2, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  const MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        op);
  return op;
}

/* ---- recording ---- */

static nabla_status add_key(const mapping *m, nabla_buffer *key,
                            nabla_diag *diag) {
  static const char label[] = "nabla.shard_map";
  NABLA_TRY(nabla_buffer_append(key, label, sizeof label, diag));
  for (size_t i = 0; i < m->in_count + m->out_count; i++) {
    const bool is_in = i < m->in_count;
    char text[4096];
    NABLA_TRY(nabla_partition_text(is_in ? &m->in[i] : &m->out[i - m->in_count],
                                   text, sizeof text, diag));
    NABLA_TRY(nabla_buffer_append(key, text, strlen(text) + 1, diag));
    if (is_in) /* pieces of arrays with other scales may be alike */
      NABLA_TRY(nabla_buffer_append(key, &m->operands[i]->dense.dtype,
                                    sizeof m->operands[i]->dense.dtype, diag));
  }
  return nabla_body_add_key(&m->body, key, diag); /* with types of arguments */
}

static nabla_status find(mapping *m, nabla_buffer *key,
                         const nabla_recorded **out, nabla_diag *diag) {
  const nabla_array_type *types[MOST];
  for (size_t i = 0; i < m->in_count; i++) types[i] = &m->operands[i]->dense;
  NABLA_TRY(add_key(m, key, diag));
  m->body.first_capture = (uint32_t)m->in_count;
  const size_t captured = nabla_body_capture_count(&m->body);
  if (m->in_count + captured > NABLA_MAX_RECORDED)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%zu operands and captured arrays; at most %d",
                      m->in_count + captured, NABLA_MAX_RECORDED);
  const nabla_built built = {
      .key = key->data,
      .key_size = key->size,
      .operand_count = (uint32_t)(m->in_count + captured),
      .direct_count = (uint32_t)m->in_count,
      .operands = types,
      .build = build,
      .self = m};
  return nabla_recorder_find_built(m->scope->recorder, &built, out, diag);
}

static nabla_status record(mapping *m, nabla_array **out, nabla_diag *diag) {
  nabla_array *operands[NABLA_MAX_RECORDED];
  const nabla_recorded *recorded = NULL;
  nabla_buffer key;
  NABLA_TRY(find_results(m, diag));
  nabla_buffer_init(&key, nabla_engine_allocator(m->scope->engine),
                    "a shard_map", SIZE_MAX / 2);
  const nabla_status status = find(m, &key, &recorded, diag);
  nabla_buffer_deinit(&key);
  if (status || !recorded) return status;
  for (size_t i = 0; i < recorded->operand_count; i++)
    operands[i] = i < m->in_count
                      ? m->operands[i]
                      : nabla_body_capture(&m->body, i - m->in_count);
  return nabla_record_recorded(m->site, m->scope, recorded, operands,
                               (uint32_t)m->out_count, out)
             ? NABLA_OK
             : nabla_scope_status(m->scope, diag);
}

/* ---- calls ---- */

static nabla_status take(mapping *m, const nabla_tree *tree, nabla_diag *diag) {
  size_t count = 0;
  if (m->in_count > MOST || m->out_count > MOST)
    return nabla_fail(diag, NABLA_TOO_LARGE, "more than %d partitions", MOST);
  if (!m->out_count || !m->out || (m->in_count && !m->in))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a list of partitions is NULL or empty");
  if (nabla_mesh_current())
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "in the callback of another nabla_shard_map");
  m->mesh = m->out[0].mesh;
  if (!m->mesh)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a partition: its mesh is NULL");
  NABLA_TRY(nabla_tree_flatten(tree, MOST, m->operands, &count, diag));
  if (count != m->in_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%zu operands, and %zu partitions of them", count,
                      m->in_count);
  for (size_t i = 0; i < count; i++)
    if (!m->operands[i])
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "operand %zu is NULL", i);
  return NABLA_OK;
}

static nabla_status map(mapping *m, const nabla_body_source *source,
                        nabla_array **out, nabla_diag *diag) {
  NABLA_TRY(take(m, source->shape, diag));
  const nabla_array_call checked = {m->site->function, m->site->place,
                                    (uint32_t)m->in_count, m->operands};
  if (!nabla_call_begin(&checked)) return nabla_scope_status(m->scope, diag);
  NABLA_TRY(find_pieces(m, diag));
  nabla_body_init(&m->body, m->site, m->scope, m->in_count, m->operands);
  m->body.types = m->pieces;
  nabla_mesh_set_current(m->mesh);
  const bool is_traced = nabla_body_trace(&m->body, source);
  nabla_mesh_set_current(NULL);
  if (!is_traced) return nabla_scope_status(m->scope, diag);
  return record(m, out, diag);
}

static nabla_status put_null(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  (void)self, (void)name, (void)diag;
  *place = NULL;
  return NABLA_OK;
}

void nabla_shard_map(nabla_function_callback callback, void *self,
                     const nabla_tree *operands, size_t in_count,
                     const nabla_partition *in, nabla_tree *results,
                     size_t out_count, const nabla_partition *out) {
  const nabla_array_call site = NABLA_ARRAY_CALL(shard_map, 0, NULL);
  const nabla_tree none = {.kind = NABLA_TREE_NONE};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_array *arrays[MOST];
  nabla_scope *scope = nabla_scope_innermost();
  if (!results) return;
  mapping m = {.site = &site,
               .scope = scope,
               .in = in,
               .out = out,
               .in_count = in_count,
               .out_count = out_count};
  const nabla_body_source source = {callback, self, NULL,
                                    operands ? operands : &none, results};
  nabla_status status = NABLA_INVALID_ARGUMENT;
  if (scope) status = map(&m, &source, arrays, &diag);
  (void)!nabla_tree_visit(results, put_null, NULL, NULL);
  if (status && scope)
    nabla_call_fail(&site, scope, status, "%s", diag.what);
  else if (!status)
    (void)!nabla_tree_unflatten(results, out_count, arrays, NULL);
  if (m.body.site) nabla_body_deinit(&m.body);
}
