/* Recording of shardings: nabla_sharding_constraint, nabla_shard,
 * nabla_reshard. The mesh is added to the module of the recorder. */
#include "lib/array/record.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "lib/array/emit.h"
#include "lib/array/mesh/partition.h"
#include "transforms/ir/ir.h"

/* An operation with the attribute `sharding`. */
typedef struct sharded_op {
  const char *op;
  const nabla_mesh *mesh;
  const nabla_sharding *sharding;
} sharded_op;

void nabla_mesh_add(MlirOperation before, const nabla_mesh *mesh) {
  nabla_mesh found;
  if (nabla_mesh_find(before, mesh->name, &found)) return;
  const MlirContext context = nabla_op_context(before);
  MlirAttribute axes[2 * NABLA_MESH_MAX_AXES];
  for (uint32_t i = 0; i < mesh->count; i++) {
    axes[2 * i] = mlirStringAttrGet(context, nabla_ref(mesh->axes[i]));
    axes[2 * i + 1] =
        mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), mesh->sizes[i]);
  }
  const MlirNamedAttribute attributes[2] = {
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(mesh->name))),
      nabla_named(context, "axes",
                  mlirArrayAttrGet(context, 2 * (intptr_t)mesh->count, axes))};
  const nabla_op_spec spec = {"nabla.mesh", 0, NULL, 0, NULL, 2, attributes};
  (void)nabla_op_create(before, &spec);
}

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  const sharded_op *s = self;
  const MlirContext context = nabla_op_context(before);
  nabla_mesh_add(before, s->mesh);
  const MlirNamedAttribute sharding = nabla_named(
      context, "sharding", nabla_sharding_get(context, s->sharding));
  if (mlirAttributeIsNull(sharding.attribute)) return (MlirOperation){NULL};
  const MlirType type = mlirValueGetType(operands[0]);
  const nabla_op_spec spec = {s->op, 1, operands, 1, &type, 1, &sharding};
  return nabla_op_create(before, &spec);
}

/* Appends what tells the kind apart: operation, type, sharding. The name of the
 * mesh says all of it. */
static nabla_status add_key(nabla_buffer *key, const sharded_op *s,
                            const nabla_array *x, nabla_diag *diag) {
  char text[4096];
  const uint32_t head[2] = {(uint32_t)x->dense.dtype, x->dense.rank};
  const size_t size = nabla_sharding_print(s->sharding, text, sizeof text);
  if (size >= sizeof text)
    return nabla_fail(diag, NABLA_TOO_LARGE, "a partition of %zu bytes", size);
  NABLA_TRY(nabla_buffer_append(key, s->op, strlen(s->op) + 1, diag));
  NABLA_TRY(nabla_buffer_append(key, head, sizeof head, diag));
  if (x->dense.rank)
    NABLA_TRY(nabla_buffer_append(
        key, x->dense.shape, x->dense.rank * sizeof x->dense.shape[0], diag));
  return nabla_buffer_append(key, text, size, diag);
}

static nabla_status find(nabla_scope *scope, sharded_op *s,
                         const nabla_array *x, const nabla_recorded **out,
                         nabla_diag *diag) {
  const nabla_array_type *type = &x->dense;
  nabla_buffer key;
  nabla_buffer_init(&key, nabla_engine_allocator(scope->engine), "a sharding",
                    SIZE_MAX / 2);
  nabla_status status = add_key(&key, s, x, diag);
  const nabla_built built = {.key = key.data,
                             .key_size = key.size,
                             .operand_count = 1,
                             .direct_count = 1,
                             .operands = &type,
                             .build = build,
                             .self = s};
  if (!status)
    status = nabla_recorder_find_built(scope->recorder, &built, out, diag);
  nabla_buffer_deinit(&key);
  return status;
}

static nabla_array *record(const nabla_array_call *site, const char *op,
                           nabla_array *x, const nabla_partition *partition) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_sharding sharding;
  const nabla_recorded *recorded;
  nabla_array *out;
  nabla_scope *scope = nabla_call_begin(site);
  if (!scope) return NULL;
  sharded_op s = {op, partition->mesh, &sharding};
  nabla_status status = nabla_partition_read(partition, &sharding, &diag);
  if (!status && sharding.rank != x->dense.rank)
    status = nabla_fail(&diag, NABLA_INVALID_ARGUMENT,
                        "a partition of %" PRIu32
                        " dimensions, the array has %" PRIu32,
                        partition->rank, x->dense.rank);
  if (!status) status = find(scope, &s, x, &recorded, &diag);
  if (status) {
    nabla_call_fail(site, scope, status, "%s", diag.what);
    return NULL;
  }
  if (!nabla_record_recorded(site, scope, recorded, &x, 1, &out)) return NULL;
  /* an unknown size is that of the operand */
  for (uint32_t d = 0; d < x->dense.rank; d++)
    out->dense.shape[d] = x->dense.shape[d];
  return out;
}

nabla_array *nabla_sharding_constraint(nabla_array *x,
                                       nabla_partition partition) {
  const nabla_array_call site = NABLA_ARRAY_CALL(sharding_constraint, 1, &x);
  return record(&site, "nabla.sharding_constraint", x, &partition);
}

nabla_array *nabla_shard(nabla_array *x, nabla_partition partition) {
  const nabla_array_call site = NABLA_ARRAY_CALL(shard, 1, &x);
  return record(&site, "nabla.sharding_constraint", x, &partition);
}

nabla_array *nabla_reshard(nabla_array *x, nabla_partition partition) {
  const nabla_array_call site = NABLA_ARRAY_CALL(reshard, 1, &x);
  return record(&site, "nabla.reshard", x, &partition);
}
