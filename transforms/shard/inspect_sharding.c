/* nabla.inspect_sharding, and nabla-inspect-sharding: how values are divided.
 */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/encoding/custom_registry.h"
#include "lib/base/require.h"
#include "nabla/shard.h"
#include "transforms/passes.h"
#include "transforms/shard/shard_map.h"
#include "transforms/state/state.h"

#define MAX_CALLBACKS 64
#define NAME_SIZE     64

typedef struct callback {
  char name[NAME_SIZE];
  void (*report)(void *self, const nabla_sharding_report *report);
  void *self;
} callback;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static callback callbacks[MAX_CALLBACKS]; /* under `lock`; never removed */
static size_t callback_count;

static const callback *find(const char *name, size_t length) {
  for (size_t i = 0; i < callback_count; i++)
    if (strlen(callbacks[i].name) == length &&
        !memcmp(callbacks[i].name, name, length))
      return &callbacks[i];
  return NULL;
}

nabla_status nabla_add_sharding_callback(
    const char *name,
    void (*report)(void *self, const nabla_sharding_report *report), void *self,
    nabla_diag *diag) {
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(report, diag);
  if (!nabla_custom_name_good(name, strlen(name)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the name of a callback has letters, digits, '_' and "
                      "'.', at most %d",
                      NAME_SIZE - 1);
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&lock);
  if (find(name, strlen(name))) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "there is a callback '%s' already", name);
  } else if (callback_count == MAX_CALLBACKS) {
    status = nabla_fail(diag, NABLA_TOO_LARGE, "there are %d callbacks already",
                        MAX_CALLBACKS);
  } else {
    callback *made = &callbacks[callback_count++];
    snprintf(made->name, sizeof made->name, "%s", name);
    made->report = report;
    made->self = self;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

bool nabla_inspect_is_used(void) {
  pthread_mutex_lock(&lock);
  const bool used = callback_count > 0;
  pthread_mutex_unlock(&lock);
  return used;
}

/* The type of each device's piece; that of the whole where there is none. */
static MlirType piece_of(const nabla_grid *shard,
                         const nabla_division *layout) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local;
  return shard && nabla_layout_local(shard, layout, &local, message)
             ? local
             : layout->type;
}

void nabla_inspect(const nabla_grid *shard, MlirOperation op,
                   const nabla_division *layout) {
  nabla_text sharding = {0}, type = {0}, piece = {0};
  MlirStringRef name = mlirFlatSymbolRefAttrGetValue(
      mlirOperationGetAttributeByName(op, nabla_ref("callback")));
  if (shard)
    nabla_text_add(&sharding, "%s", nabla_layout_format(shard, layout).data);
  nabla_text_add_type(&type, layout->type);
  nabla_text_add_type(&piece, piece_of(shard, layout));
  callback found = {.report = NULL};
  pthread_mutex_lock(&lock);
  const callback *added = find(name.data, name.length);
  if (added) found = *added;
  pthread_mutex_unlock(&lock);
  if (type.failed || piece.failed || sharding.failed) found.report = NULL;
  if (found.report) {
    const nabla_sharding_report report = {
        .struct_size = sizeof report,
        .name = found.name,
        .sharding = sharding.data ? sharding.data : "",
        .type = type.data,
        .piece = piece.data,
        .devices = shard ? (uint32_t)shard->mesh.devices : 0};
    found.report(found.self, &report);
  } else {
    nabla_text all = {0};
    nabla_text_add(&all, "@%.*s: %s, each device has %s", (int)name.length,
                   name.data, sharding.data ? sharding.data : "no mesh",
                   piece.data ? piece.data : "");
    nablaOptimizationRemark(mlirOperationGetLocation(op), false, "Sharding",
                            "nabla-partition", all.data ? all.data : "");
    nabla_text_deinit(&all);
  }
  nabla_text_deinit(&sharding);
  nabla_text_deinit(&type);
  nabla_text_deinit(&piece);
}

/* ---- nabla-inspect-sharding ---- */

typedef struct printer {
  const nabla_grid *shard;
  nabla_text text;
} printer;

/* "  argument #0 "up": [{"model"}, {}] tensor<8x4xf32> -> tensor<2x4xf32>" */
static void print_value(printer *p, const nabla_division *layout) {
  if (!nabla_layout_takes(layout->type)) return;
  nabla_text_add(&p->text, ": %s ", nabla_layout_format(p->shard, layout).data);
  nabla_text_add_type(&p->text, layout->type);
  if (!nabla_layout_is_whole(layout)) {
    nabla_text_add(&p->text, " -> ");
    nabla_text_add_type(&p->text, piece_of(p->shard, layout));
  }
  nabla_text_add(&p->text, "\n");
}

static void print_op(printer *p, MlirOperation op) {
  MlirAttribute list =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_SHARDINGS));
  MlirStringRef name = nabla_name(op);
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    nabla_division layout = nabla_layout_whole(nabla_result_type(op, r));
    if (!nabla_layout_takes(layout.type)) continue;
    if (!mlirAttributeIsNull(list) && mlirAttributeIsAArray(list) &&
        r < mlirArrayAttrGetNumElements(list)) {
      const nabla_sharding sharding =
          nabla_sharding_read(mlirArrayAttrGetElement(list, r));
      if (!nabla_layout_read(p->shard, &sharding, &layout))
        layout = nabla_layout_whole(layout.type);
    }
    nabla_text_add(&p->text, "  %.*s", (int)name.length, name.data);
    if (r) nabla_text_add(&p->text, " #%td", r);
    print_value(p, &layout);
  }
}

static bool print_function(MlirOperation function, void *self) {
  printer *p = self;
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
  nabla_text_add(&p->text, "@%.*s on mesh @%s, %d devices\n", (int)name.length,
                 name.data, p->shard->mesh.name, (int)p->shard->mesh.devices);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
    const nabla_division layout = nabla_layout_of_argument(
        p->shard, function, i, mlirValueGetType(mlirBlockGetArgument(body, i)));
    MlirAttribute label =
        nabla_state_attribute(function, NABLA_ARGUMENTS, i, "nabla.name");
    if (!nabla_layout_takes(layout.type)) continue;
    nabla_text_add(&p->text, "  argument #%td", i);
    if (!mlirAttributeIsNull(label) && mlirAttributeIsAString(label)) {
      nabla_text_add(&p->text, " ");
      nabla_text_add_attribute(&p->text, label);
    }
    print_value(p, &layout);
  }
  MlirOperation op = mlirBlockGetFirstOperation(body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    print_op(p, op);
  return true;
}

static bool is_function(MlirOperation op) {
  return nabla_is(op, "func.func") &&
         mlirAttributeIsNull(mlirOperationGetAttributeByName(
             op, nabla_ref(NABLA_PARTITIONED))) &&
         !mlirBlockIsNull(
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
}

MlirLogicalResult nabla_run_inspect_sharding(MlirOperation op,
                                             const nablaPassValue *values,
                                             void *prepared) {
  (void)values, (void)prepared;
  nabla_grid shard;
  size_t meshes = 0;
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  if (!meshes) return mlirLogicalResultSuccess();
  printer p = {.shard = &shard};
  const MlirLogicalResult result =
      nabla_ops_each(op, is_function, print_function, &p);
  if (p.text.data && !p.text.failed) (void)fputs(p.text.data, stderr);
  nabla_text_deinit(&p.text);
  return result;
}
