/* See machine.h. */
#include "transforms/shard/solve/machine.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file/file.h"
#include "lib/base/json/json.h"
#include "transforms/cost/cost_count.h"
#include "transforms/shard/reshard.h"

enum { MOST_BYTES = 1 << 20 }; /* of a file */

/* ---- the mesh ---- */

static bool is_mesh(MlirOperation op) { return nabla_is(op, "nabla.mesh"); }

static bool read_numbers(MlirOperation op, void *self) {
  nabla_shard_machine *m = self;
  const char *const keys[] = {"bandwidth", "latency"};
  for (int k = 0; k < 2; k++) {
    MlirAttribute list =
        mlirOperationGetAttributeByName(op, nabla_ref(keys[k]));
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) continue;
    for (intptr_t i = 0;
         i < mlirArrayAttrGetNumElements(list) && i < NABLA_MESH_MAX_AXES;
         i++) {
      MlirAttribute number = mlirArrayAttrGetElement(list, i);
      if (mlirAttributeIsAFloat(number))
        (k ? m->latency : m->bandwidth)[i] =
            mlirFloatAttrGetValueDouble(number);
    }
  }
  return true;
}

/* ---- the file ---- */

typedef struct reader {
  nabla_json *json;
  const nabla_mesh *mesh;
  nabla_shard_machine out;
  nabla_diag *diag;
  bool has_schema;
} reader;

static nabla_status read_number(reader *r, double *out) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_NUMBER, "a number", &event,
                              r->diag));
  *out = strtod(event.text, NULL);
  return *out >= 0 && *out < 1e30
             ? NABLA_OK
             : nabla_fail(r->diag, NABLA_CORRUPT, "%s is no rate", event.text);
}

/* { "name": "model", "bandwidth": 1e10, "latency": 1e-6 } */
static nabla_status read_axis(reader *r) {
  nabla_json_event event;
  char name[NABLA_AXIS_NAME] = "";
  double bandwidth = 0, latency = -1;
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    if (!strcmp(event.text, "bandwidth")) {
      NABLA_TRY(read_number(r, &bandwidth));
    } else if (!strcmp(event.text, "latency")) {
      NABLA_TRY(read_number(r, &latency));
    } else if (!strcmp(event.text, "name")) {
      NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_STRING, "a name", &event,
                                  r->diag));
      snprintf(name, sizeof name, "%s", event.text);
    } else {
      return nabla_fail(r->diag, NABLA_CORRUPT,
                        "an axis has a name, a bandwidth and a latency, no "
                        "'%s'",
                        event.text);
    }
  }
  if (!*name || bandwidth < 1 || latency < 0)
    return nabla_fail(r->diag, NABLA_CORRUPT,
                      "an axis has a name, a bandwidth of at least 1 and a "
                      "latency");
  const int axis = nabla_mesh_axis(r->mesh, name);
  if (axis < 0) return NABLA_OK; /* of another mesh of the machine */
  r->out.bandwidth[axis] = bandwidth;
  r->out.latency[axis] = latency;
  return NABLA_OK;
}

static nabla_status read_member(reader *r, const char *key) {
  nabla_json_event event;
  double *rate = !strcmp(key, "operations_per_second")
                     ? &r->out.operations_per_second
                 : !strcmp(key, "bytes_per_second") ? &r->out.bytes_per_second
                                                    : NULL;
  if (rate) {
    NABLA_TRY(read_number(r, rate));
    return *rate >= 1 ? NABLA_OK
                      : nabla_fail(r->diag, NABLA_CORRUPT,
                                   "a rate is less than 1 per second");
  }
  if (!strcmp(key, "schema")) {
    NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_STRING, "a schema", &event,
                                r->diag));
    r->has_schema = !strcmp(event.text, "nabla-machine/1");
    return NABLA_OK;
  }
  if (strcmp(key, "axes"))
    return nabla_fail(r->diag, NABLA_CORRUPT, "nabla-machine/1 has no '%s'",
                      key);
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_ARRAY_BEGIN, "a list of axes",
                              &event, r->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return nabla_fail(r->diag, NABLA_CORRUPT, "an axis is no object");
    NABLA_TRY(read_axis(r));
  }
}

static nabla_status read_object(reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN, "an object",
                              &event, r->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind != NABLA_JSON_KEY) break;
    char key[64];
    snprintf(key, sizeof key, "%s", event.text);
    NABLA_TRY(read_member(r, key));
  }
  return r->has_schema ? NABLA_OK
                       : nabla_fail(r->diag, NABLA_CORRUPT,
                                    "`schema` is not \"nabla-machine/1\"");
}

static nabla_status read_file(reader *r, const char *path) {
  nabla_file *file = NULL;
  nabla_buffer bytes;
  nabla_buffer_init(&bytes, NULL, "machine", MOST_BYTES);
  nabla_status status = nabla_file_open(NULL, NULL, path, &file, r->diag);
  if (!status) status = nabla_file_read_all(file, MOST_BYTES, &bytes, r->diag);
  if (!status)
    status = nabla_json_create_span(NULL, bytes.data, bytes.size, 0, &r->json,
                                    r->diag);
  if (!status) status = read_object(r);
  nabla_json_destroy(r->json);
  nabla_buffer_deinit(&bytes);
  nabla_file_close(file);
  return status;
}

bool nabla_shard_machine_read(MlirOperation module, const nabla_mesh *mesh,
                              const char *path, nabla_shard_machine *out) {
  *out = (nabla_shard_machine){.operations_per_second = 1e11,
                               .bytes_per_second = 1e10};
  for (int i = 0; i < NABLA_MESH_MAX_AXES; i++) {
    out->bandwidth[i] = 1e10;
    out->latency[i] = 2e-6;
  }
  (void)nabla_ops_each(module, is_mesh, read_numbers, out);
  if (!*path) return true;
  nabla_diag diag = NABLA_DIAG_INIT;
  reader r = {.mesh = mesh, .out = *out, .diag = &diag};
  if (!read_file(&r, path)) {
    *out = r.out;
    return true;
  }
  nabla_error_at(module, "nabla-auto-shard: machine '%s': %s", path, diag.what);
  return false;
}

/* ---- collectives ---- */

/* Pieces by which nabla-bench measures bandwidths: what is larger leaves the
 * caches. */
#define MEASURED (UINT64_C(4) << 20)

void nabla_exchange_add(const nabla_grid *grid,
                        const nabla_shard_machine *machine, const char *name,
                        const nabla_atom_list *atoms, MlirType from,
                        MlirType to, nabla_exchange *out) {
  const uint64_t n = (uint64_t)nabla_atoms_product(&grid->atoms, atoms);
  const uint64_t given = nabla_cost_array_bytes(from, 1);
  uint64_t bytes = 0;
  double moved = 0; /* what a ring moves, which need not be whole */
  if (n < 2) return;
  if (!strcmp(name, "nabla.all_slice")) { /* a copy */
    out->seconds +=
        2 * (double)nabla_cost_array_bytes(to, 1) / machine->bytes_per_second;
    return;
  }
  if (!strcmp(name, "nabla.all_gather")) {
    moved = (double)(bytes = (n - 1) * given);
    /* its own piece is read and written twice: into what others take, and into
     * the result */
    if (given > MEASURED)
      out->seconds +=
          4 * (double)(given - MEASURED) / machine->bytes_per_second;
  } else if (!strcmp(name, "nabla.reduce_scatter")) {
    moved = (double)(bytes = (n - 1) * nabla_cost_array_bytes(to, 1));
  } else if (!strcmp(name, "nabla.all_reduce")) {
    uint64_t count = 1;
    for (intptr_t i = 0; i < nabla_array_rank(from); i++)
      if (!nabla_is_dynamic(nabla_array_dim(from, i)))
        count *= (uint64_t)nabla_array_dim(from, i);
    bytes = 2 * (n - 1) * (count / n) * (count ? given / count : 0);
    moved = 2 * (double)(n - 1) * (double)given / (double)n;
  } else {
    moved = (double)(bytes = (n - 1) * (given / n));
  }
  double bandwidth = 0, latency = 0;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < atoms->count; i++) {
    const uint8_t axis = grid->atoms.axis[atoms->at[i]];
    if (seen >> axis & 1) continue;
    seen |= (uint32_t)1 << axis;
    latency += machine->latency[axis];
    if (bandwidth == 0 || machine->bandwidth[axis] < bandwidth)
      bandwidth = machine->bandwidth[axis];
  }
  out->bytes = nabla_cost_add(out->bytes, bytes);
  out->seconds += latency + moved / bandwidth;
}

typedef struct adder {
  const nabla_grid *grid;
  const nabla_shard_machine *machine;
  nabla_exchange *out;
} adder;

static void add(void *self, const char *name, const nabla_atom_list *atoms,
                MlirType from, MlirType to) {
  const adder *a = self;
  nabla_exchange_add(a->grid, a->machine, name, atoms, from, to, a->out);
}

bool nabla_exchange_reshard(const nabla_grid *grid,
                            const nabla_shard_machine *machine,
                            const nabla_division *from,
                            const nabla_division *to, nabla_exchange *out) {
  adder a = {grid, machine, out};
  const nabla_exchange_visitor visitor = {add, &a};
  if (nabla_reshard_visit(grid, from, to, &visitor)) return true;
  out->seconds += NABLA_PROHIBITIVE;
  return false;
}
