/* nabla-auto-shard: divides a program for the least time of a run, by a model
 * of computation and exchange, within a limit of memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "lib/base/file/file.h"
#include "transforms/cost/cost_count.h"
#include "transforms/ir/functions.h"
#include "transforms/passes.h"
#include "transforms/shard/solve/dump.h"
#include "transforms/shard/ties.h"

#define CATEGORY "nabla-auto-shard"

typedef struct solving {
  nabla_grid grid;
  nabla_shard_machine machine;
  nabla_option_lists lists;
  uint64_t memory;
  nabla_json_out *dump; /* NULL: none */
} solving;

/* ---- options of the pass ---- */

/* "1073741824", "16 GiB" or "16GiB". */
static bool read_memory(MlirOperation module, const char *text, uint64_t *out) {
  static const char *const units[] = {"", "B", "KiB", "MiB", "GiB", "TiB"};
  char *end;
  *out = UINT64_MAX;
  if (!*text) return true;
  const uint64_t number = strtoull(text, &end, 10);
  const size_t digits = (size_t)(end - text);
  while (*end == ' ') end++;
  for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
    const unsigned shift = i > 1 ? 10 * (i - 1) : 0;
    if (strcmp(end, units[i]) || *text < '0' || *text > '9' || digits > 18 ||
        !number || number > UINT64_MAX >> shift)
      continue;
    *out = number << shift;
    return true;
  }
  nabla_error_at(module,
                 "nabla-auto-shard: memory is a number of bytes, or of KiB, "
                 "MiB, GiB or TiB, such as 16GiB, not '%s'",
                 text);
  return false;
}

/* ---- functions ---- */

/* Functions that nothing calls; others are divided as their callers ask. */
static bool is_function(MlirOperation op) {
  if (!nabla_is(op, "func.func") || nabla_is_private(op)) return false;
  MlirBlock body = nabla_function_body(op);
  return !mlirBlockIsNull(body) &&
         mlirBlockIsNull(mlirBlockGetNextInRegion(body)) &&
         mlirAttributeIsNull(
             mlirOperationGetAttributeByName(op, nabla_ref(NABLA_PARTITIONED)));
}

static uint64_t arguments_of(const nabla_shard_problem *p) {
  uint64_t all = 0;
  for (size_t n = 0; n < p->node_count; n++)
    all =
        nabla_cost_add(all, p->nodes[n].options->all[p->answer.chosen[n]].held);
  return all;
}

static void report(const nabla_shard_problem *p) {
  char text[256];
  const nabla_choice_answer *a = &p->answer;
  MlirLocation location = mlirOperationGetLocation(p->function);
  const double gap = a->cost > 0 ? (a->cost - a->bound) / a->cost : 0;
  snprintf(text, sizeof text,
           "a run is modelled as %.4g s, %" PRIu64
           " bytes are exchanged, a device holds %" PRIu64
           " bytes, of which arguments are %" PRIu64,
           a->cost, nabla_shard_problem_bytes(p, a->chosen), a->bytes,
           arguments_of(p));
  nablaOptimizationRemark(location, false, "AutoShard", CATEGORY, text);
  if (p->cut_count) {
    snprintf(text, sizeof text,
             "nabla-auto-shard: %.4g s is not shown to be the least: of %zu "
             "arguments, operations and ports of scans, which can be divided "
             "in many ways, at most %d ways each were tried",
             a->cost, p->cut_count, NABLA_MOST_OPTIONS);
    nablaEmitWarning(location, text);
  }
  if (a->bound >= a->cost || p->cut_count) return;
  snprintf(text, sizeof text,
           "nabla-auto-shard: %.4g s is not shown to be the least: no division "
           "takes less than %.4g s, a gap of %.2g %%",
           a->cost, a->bound, 100 * gap);
  nablaEmitWarning(location, text);
}

static bool solve(MlirOperation function, void *self) {
  solving *s = self;
  nabla_shard_problem p;
  bool good = nabla_shard_problem_read(function, &s->lists, &p);
  p.choice.memory = s->memory;
  good = good && nabla_choice_solve(&p.choice, &p.answer);
  if (!good) nabla_error_at(function, "is too large for nabla-auto-shard");
  if (good && !p.answer.is_feasible) {
    nabla_error_at(function,
                   "nabla-auto-shard: a run takes %" PRIu64
                   " bytes of each device in the smallest division that was "
                   "found, more than memory=%" PRIu64,
                   p.answer.bytes, s->memory);
    good = false;
  }
  if (good) {
    report(&p);
    if (s->dump) nabla_shard_problem_put(&p, s->dump);
    good = nabla_shard_problem_write(&p);
  }
  nabla_shard_problem_deinit(&p);
  return good;
}

/* ---- the file ---- */

typedef struct file {
  nabla_output *output;
  uint64_t at;
} file;

static nabla_status write_file(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  file *f = self;
  f->at += size;
  return nabla_output_write(f->output, f->at - size, data, size, diag);
}

static bool solve_all(MlirOperation module, solving *s) {
  return mlirLogicalResultIsSuccess(
      nabla_ops_each(module, is_function, solve, s));
}

static bool solve_into(MlirOperation module, solving *s, const char *path) {
  nabla_diag diag = NABLA_DIAG_INIT;
  file f = {.at = 0};
  const nabla_output_options options = {.force = 1};
  nabla_json_out out = {.self = &f, .write = write_file, .diag = &diag};
  nabla_status status = nabla_output_create(path, &options, &f.output, &diag);
  bool good = !status;
  if (good) {
    s->dump = &out;
    nabla_json_out_object(&out);
    nabla_shard_file_put(&s->grid, &s->machine, &out);
    nabla_json_out_key(&out, "functions");
    nabla_json_out_array(&out);
    good = solve_all(module, s);
    nabla_json_out_array_end(&out);
    nabla_json_out_object_end(&out);
    status = nabla_json_out_finish(&out);
    if (good && !status) status = nabla_output_commit(f.output, &diag);
  }
  nabla_output_destroy(f.output);
  if (status)
    nabla_error_at(module, "nabla-auto-shard: dump '%s': %s", path, diag.what);
  return good && !status;
}

MlirLogicalResult nabla_run_auto_shard(MlirOperation op,
                                       const nablaPassValue *values,
                                       void *prepared) {
  (void)prepared;
  solving s = {.dump = NULL};
  size_t meshes = 0;
  if (!read_memory(op, values[0].string, &s.memory) ||
      !nabla_shard_begin(op, &s.grid, &meshes))
    return mlirLogicalResultFailure();
  if (!meshes) {
    nabla_error_at(op, "nabla-auto-shard: the module has no nabla.mesh");
    return mlirLogicalResultFailure();
  }
  if (!nabla_shard_machine_read(op, &s.grid.mesh, values[1].string, &s.machine))
    return mlirLogicalResultFailure();
  s.lists.grid = &s.grid;
  s.lists.machine = &s.machine;
  const bool good = *values[2].string ? solve_into(op, &s, values[2].string)
                                      : solve_all(op, &s);
  nabla_option_lists_deinit(&s.lists);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
