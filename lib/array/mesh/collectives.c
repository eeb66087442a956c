/* Collectives: recorded in the callback of nabla_shard_map. Their kinds stand
 * in a partitioned function of the recorder's module, where the verifier
 * accepts them; their copies stand in the region of the nabla.shard_map. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/emit.h"
#include "lib/array/emit_mesh.h"
#include "lib/array/mesh/partition.h"
#include "lib/array/record.h"
#include "transforms/ir/ir.h"

#define HOLDER "nabla.collectives"

/* An integer of a collective; `key` NULL: none. */
typedef struct integer {
  const char *key;
  unsigned width;
  int64_t value;
} integer;

/* A collective to record. */
typedef struct collective {
  const nabla_array_call *site;
  const char *op, *axes_text;
  integer integers[2];
  const int64_t *pairs; /* NULL: none */
  uint32_t pair_count;
  const nabla_mesh *mesh;
  nabla_axis_list axes;
  int64_t devices; /* that exchange values */
  nabla_array_type result;
} collective;

/* ---- operations ---- */

/* The block of the function in which kinds stand. */
static MlirBlock holder(MlirOperation before, const nabla_mesh *mesh) {
  const MlirContext context = nabla_op_context(before);
  const MlirOperation known = nabla_mesh_holder(before, mesh);
  if (!mlirOperationIsNull(known))
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(known, 0));
  MlirRegion region = mlirRegionCreate();
  const MlirBlock block = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(region, block);
  const MlirNamedAttribute attributes[4] = {
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(HOLDER))),
      nabla_named(context, "sym_visibility",
                  mlirStringAttrGet(context, nabla_ref("private"))),
      nabla_named(
          context, "function_type",
          mlirTypeAttrGet(mlirFunctionTypeGet(context, 0, NULL, 0, NULL))),
      nabla_named(context, "nabla.partitioned",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref(mesh->name)))};
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.func"), mlirLocationUnknownGet(context));
  mlirOperationStateAddAttributes(&state, 4, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                      mlirOperationCreate(&state));
  return block;
}

static MlirAttribute axes_attribute(MlirContext context,
                                    const nabla_axis_list *axes) {
  MlirAttribute list[NABLA_MESH_MAX_AXES];
  for (uint32_t i = 0; i < axes->count; i++) {
    const nabla_axis_ref *axis = &axes->at[i];
    char text[NABLA_AXIS_NAME + 48];
    (void)snprintf(text, sizeof text,
                   axis->size ? "%s:(%" PRId64 ")%" PRId64 : "%s", axis->name,
                   axis->before, axis->size);
    list[i] = mlirStringAttrGet(context, nabla_ref(text));
  }
  return mlirArrayAttrGet(context, (intptr_t)axes->count, list);
}

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  const collective *c = self;
  const MlirContext context = nabla_op_context(before);
  MlirNamedAttribute attributes[4];
  intptr_t count = 0;
  const MlirType type = nabla_recorder_type(context, &c->result);
  if (mlirTypeIsNull(type)) return (MlirOperation){NULL};
  nabla_mesh_add(before, c->mesh);
  for (int i = 0; i < 2 && c->integers[i].key; i++)
    attributes[count++] = nabla_named(
        context, c->integers[i].key,
        mlirIntegerAttrGet(mlirIntegerTypeGet(context, c->integers[i].width),
                           c->integers[i].value));
  if (c->pairs)
    attributes[count++] = nabla_named(
        context, "pairs",
        mlirDenseI64ArrayGet(context, 2 * (intptr_t)c->pair_count, c->pairs));
  attributes[count++] =
      nabla_named(context, "axes", axes_attribute(context, &c->axes));
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref(c->op), mlirLocationUnknownGet(context));
  mlirOperationStateAddOperands(&state, (intptr_t)c->site->count, operands);
  mlirOperationStateAddResults(&state, 1, &type);
  mlirOperationStateAddAttributes(&state, count, attributes);
  const MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockAppendOwnedOperation(holder(before, c->mesh), op);
  return op;
}

/* ---- recording ---- */

static nabla_status add_key(nabla_buffer *key, const collective *c,
                            nabla_diag *diag) {
  NABLA_TRY(nabla_buffer_append(key, c->op, strlen(c->op) + 1, diag));
  NABLA_TRY(
      nabla_buffer_append(key, c->mesh->name, strlen(c->mesh->name) + 1, diag));
  for (uint32_t i = 0; i < c->axes.count; i++) {
    const nabla_axis_ref *axis = &c->axes.at[i];
    const int64_t part[2] = {axis->before, axis->size};
    NABLA_TRY(
        nabla_buffer_append(key, axis->name, strlen(axis->name) + 1, diag));
    NABLA_TRY(nabla_buffer_append(key, part, sizeof part, diag));
  }
  for (int i = 0; i < 2; i++)
    NABLA_TRY(nabla_buffer_append(key, &c->integers[i].value,
                                  sizeof c->integers[i].value, diag));
  if (c->pair_count)
    NABLA_TRY(nabla_buffer_append(
        key, c->pairs, 2 * c->pair_count * sizeof c->pairs[0], diag));
  for (uint32_t i = 0; i < c->site->count; i++) {
    const nabla_dense *x = &c->site->arrays[i]->dense;
    const uint32_t head[2] = {(uint32_t)x->dtype, x->rank};
    NABLA_TRY(nabla_buffer_append(key, head, sizeof head, diag));
    if (x->rank)
      NABLA_TRY(nabla_buffer_append(key, x->shape, x->rank * sizeof x->shape[0],
                                    diag));
  }
  return NABLA_OK;
}

/* Reads the axes: all of the mesh if there is no text. */
static nabla_status read_axes(collective *c, nabla_diag *diag) {
  nabla_sharding sharding;
  c->mesh = nabla_mesh_current();
  if (!c->mesh)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a collective stands in a callback of nabla_shard_map");
  if (c->axes_text) {
    const nabla_partition one = nabla_partition_of(c->mesh, 1, &c->axes_text);
    NABLA_TRY(nabla_partition_read(&one, &sharding, diag));
    c->axes = sharding.dims[0].axes;
  } else {
    c->axes.count = c->mesh->count;
    for (uint32_t i = 0; i < c->mesh->count; i++) {
      c->axes.at[i].before = 1;
      memcpy(c->axes.at[i].name, c->mesh->axes[i], NABLA_AXIS_NAME);
    }
  }
  c->devices = nabla_axes_size(c->mesh, &c->axes);
  for (uint32_t i = 0; i < c->site->count; i++) {
    const nabla_dense *x = &c->site->arrays[i]->dense;
    for (uint32_t d = 0; d < x->rank; d++)
      if (x->shape[d] < 0)
        return nabla_fail(diag, NABLA_UNSUPPORTED, "an unknown size");
  }
  return NABLA_OK;
}

/* Multiplies or divides a dimension of the result; `dim` may be negative. */
static nabla_status scale(collective *c, integer *dim, int64_t times,
                          int64_t by, nabla_diag *diag) {
  const int64_t rank = c->result.rank;
  if (dim->value < -rank || dim->value >= rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "dimension %" PRId64 " of an array of rank %" PRId64,
                      dim->value, rank);
  if (dim->value < 0) dim->value += rank;
  int64_t *size = &c->result.shape[dim->value];
  if (*size % by)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "dimension %" PRId64 " of size %" PRId64
                      " is not divided by %" PRId64 " devices",
                      dim->value, *size, by);
  return __builtin_mul_overflow(*size / by, times, size)
             ? nabla_fail(diag, NABLA_TOO_LARGE, "the sizes overflow")
             : NABLA_OK;
}

static nabla_status infer(collective *c, nabla_diag *diag) {
  NABLA_TRY(read_axes(c, diag));
  if (c->pair_count && !c->pairs)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "pairs is NULL");
  if (c->pair_count > c->devices)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%" PRIu32 " pairs of %" PRId64
                      " devices: each sends to one at most",
                      c->pair_count, c->devices);
  if (!c->site->count) {
    c->result = (nabla_array_type){.dtype = NABLA_DTYPE_I64};
    return NABLA_OK;
  }
  c->result = c->site->arrays[0]->dense;
  c->result.data = NULL;
  for (int i = 0; i < 2 && c->integers[i].key; i++) {
    integer *at = &c->integers[i];
    if (!strcmp(at->key, "kind") && at->value == NABLA_SHARD_SUM &&
        c->result.dtype == NABLA_DTYPE_BOOL) {
      const nabla_status status =
          nabla_fail(diag, NABLA_UNSUPPORTED, "a sum of truth values");
      nabla_diag_set_next(diag, "convert them to numbers, or join by any");
      return status;
    }
    const bool is_dim = !strcmp(at->key, "dim"),
               grows = !strcmp(at->key, "concat") ||
                       !strcmp(c->op, "nabla.all_gather");
    if (is_dim || grows || !strcmp(at->key, "split"))
      NABLA_TRY(
          scale(c, at, grows ? c->devices : 1, grows ? 1 : c->devices, diag));
  }
  return NABLA_OK;
}

static nabla_array *record(collective *c) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_array_type *types[1] = {NULL};
  const nabla_recorded *recorded;
  nabla_buffer key;
  nabla_array *out;
  nabla_scope *scope = nabla_call_begin(c->site);
  if (!scope) return NULL;
  nabla_buffer_init(&key, nabla_engine_allocator(scope->engine), "a collective",
                    SIZE_MAX / 2);
  nabla_status status = infer(c, &diag);
  if (!status) status = add_key(&key, c, &diag);
  if (c->site->count) types[0] = &c->site->arrays[0]->dense;
  const nabla_built built = {.key = key.data,
                             .key_size = key.size,
                             .operand_count = c->site->count,
                             .direct_count = c->site->count,
                             .operands = types,
                             .build = build,
                             .self = c};
  if (!status)
    status =
        nabla_recorder_find_built(scope->recorder, &built, &recorded, &diag);
  nabla_buffer_deinit(&key);
  if (!status)
    return nabla_record_recorded(c->site, scope, recorded, c->site->arrays, 1,
                                 &out)
               ? out
               : NULL;
  nabla_call_fail(c->site, scope, status, "%s", diag.what);
  return NULL;
}

/* ---- functions ---- */

nabla_array *nabla_all_reduce(nabla_array *x, nabla_shard_join join,
                              const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(all_reduce, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.all_reduce",
                  .axes_text = axes,
                  .integers = {{"kind", 32, join}}};
  return record(&c);
}

nabla_array *nabla_all_mean(nabla_array *x, const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(all_mean, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.all_reduce",
                  .axes_text = axes,
                  .integers = {{"kind", 32, NABLA_SHARD_SUM}}};
  nabla_array *sum = record(&c);
  return sum ? nabla_div(sum, nabla_scalar(nabla_scope_innermost(),
                                           (double)c.devices))
             : NULL;
}

nabla_array *nabla_all_gather(nabla_array *x, int64_t dim, const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(all_gather, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.all_gather",
                  .axes_text = axes,
                  .integers = {{"dim", 64, dim}}};
  return record(&c);
}

nabla_array *nabla_all_slice(nabla_array *x, int64_t dim, const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(all_slice, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.all_slice",
                  .axes_text = axes,
                  .integers = {{"dim", 64, dim}}};
  return record(&c);
}

nabla_array *nabla_reduce_scatter(nabla_array *x, nabla_shard_join join,
                                  int64_t dim, const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(reduce_scatter, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.reduce_scatter",
                  .axes_text = axes,
                  .integers = {{"kind", 32, join}, {"dim", 64, dim}}};
  return record(&c);
}

nabla_array *nabla_all_to_all(nabla_array *x, int64_t split, int64_t concat,
                              const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(all_to_all, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.all_to_all",
                  .axes_text = axes,
                  .integers = {{"split", 64, split}, {"concat", 64, concat}}};
  return record(&c);
}

nabla_array *nabla_permute(nabla_array *x, uint32_t count, const int64_t *pairs,
                           const char *axes) {
  static const int64_t none[1] = {0};
  const nabla_array_call site = NABLA_ARRAY_CALL(permute, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.permute",
                  .axes_text = axes,
                  .pairs = count ? pairs : none,
                  .pair_count = count};
  return record(&c);
}

nabla_array *nabla_broadcast(nabla_array *x, int64_t from, const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(broadcast, 1, &x);
  collective c = {.site = &site,
                  .op = "nabla.broadcast",
                  .axes_text = axes,
                  .integers = {{"from", 64, from}}};
  return record(&c);
}

nabla_array *nabla_axis_index(const char *axes) {
  const nabla_array_call site = NABLA_ARRAY_CALL(axis_index, 0, NULL);
  collective c = {.site = &site, .op = "nabla.axis_index", .axes_text = axes};
  return record(&c);
}
