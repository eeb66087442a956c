/* nabla-cost: prints the cost of each function, one line per operation, on
 * standard error, since standard output has the program. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/cost/cost_table.h"
#include "transforms/ir/call_graph.h"
#include "transforms/passes.h"

#define MAX_DEPTH 256 /* of nested regions and calls */

typedef struct function {
  MlirOperation op;
  nabla_cost_table costs;
  bool is_counted;
} function;

typedef struct counter {
  MlirOperation module;
  function *functions;
  size_t count;
  uint64_t unknown;
  int depth;
} counter;

static bool count_block(counter *c, MlirBlock block, uint64_t times,
                        nabla_cost_table *out);

static uint64_t weight(const nabla_cost_table *t) {
  nabla_cost all = nabla_cost_table_total(t);
  return nabla_cost_add(all.operations, nabla_cost_add(all.read, all.written));
}

/* Returns the cost of the costliest branch. */
static bool count_cond(counter *c, MlirOperation op, uint64_t times,
                       nabla_cost_table *out) {
  nabla_cost_table best = {0}, next = {0};
  bool good = true;
  for (intptr_t i = 0; good && i < mlirOperationGetNumRegions(op); i++) {
    nabla_cost_table_clear(&next);
    good = count_block(c, nabla_region_block(op, i), 1, &next);
    if (!good || (i > 0 && weight(&next) <= weight(&best))) continue;
    nabla_cost_table old = best;
    best = next;
    next = old;
  }
  good = good && nabla_cost_table_merge(out, &best, times);
  out->has_cond = true;
  nabla_cost_table_deinit(&best);
  nabla_cost_table_deinit(&next);
  return good;
}

static bool is_unknown(MlirType type) {
  if (!mlirTypeIsARankedTensor(type)) return false;
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return true;
  return false;
}

static function *callee_of(counter *c, MlirOperation call) {
  MlirStringRef name = mlirFlatSymbolRefAttrGetValue(
      mlirOperationGetAttributeByName(call, nabla_ref("callee")));
  for (size_t i = 0; i < c->count; i++)
    if (mlirStringRefEqual(
            name, mlirStringAttrGetValue(mlirOperationGetAttributeByName(
                      c->functions[i].op, nabla_ref("sym_name")))))
      return &c->functions[i];
  return NULL;
}

/* Counts each function once, after the functions that it calls. */
static bool count_function(counter *c, function *f) {
  if (f->is_counted) return true;
  f->is_counted = true;
  MlirBlock entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(f->op, 0));
  for (MlirBlock block = entry; !mlirBlockIsNull(block);
       block = mlirBlockGetNextInRegion(block))
    if (!count_block(c, block, 1, &f->costs)) return false;
  return true;
}

static bool count_row(counter *c, MlirOperation op, uint64_t times,
                      nabla_cost_table *out) {
  nabla_cost cost;
  if (!nabla_cost_of(op, c->unknown, &cost)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    out->has_unknown |= is_unknown(nabla_operand_type(op, i));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    out->has_unknown |= is_unknown(nabla_result_type(op, i));
  return nabla_cost_table_add(out, nabla_op_find(op)->name, &cost, times);
}

static bool count_op(counter *c, MlirOperation op, uint64_t times,
                     nabla_cost_table *out) {
  if (nabla_is(op, "nabla.cond")) return count_cond(c, op, times, out);
  if (nabla_is(op, "nabla.scan")) {
    uint64_t rounds = nabla_cost_rounds(op, c->unknown);
    out->has_unknown |= nabla_cost_rounds(op, c->unknown + 1) != rounds;
    return count_block(c, nabla_region_block(op, 0),
                       nabla_cost_times(times, rounds), out);
  }
  if (nabla_is(op, "nabla.remat"))
    return count_block(c, nabla_region_block(op, 0), times, out);
  if (nabla_is(op, "nabla.while")) {
    out->has_while = true;
    return count_block(c, nabla_region_block(op, 0), times, out) &&
           count_block(c, nabla_region_block(op, 1), times, out);
  }
  if (nabla_is(op, "func.call")) {
    function *f = callee_of(c, op);
    return !f || (count_function(c, f) &&
                  nabla_cost_table_merge(out, &f->costs, times));
  }
  if (nabla_is(op, "nabla.yield") || nabla_is(op, "nabla.condition") ||
      nabla_is(op, "func.return"))
    return true;
  if (nabla_op_find(op)) return count_row(c, op, times, out);
  out->others = nabla_cost_add(out->others, times);
  return true;
}

static bool count_block(counter *c, MlirBlock block, uint64_t times,
                        nabla_cost_table *out) {
  if (c->depth == MAX_DEPTH) {
    nabla_error_at(c->module,
                   "nabla-cost: more than %d regions and calls in each other",
                   MAX_DEPTH);
    return false;
  }
  c->depth++;
  bool good = true;
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       good && !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    good = count_op(c, op, times, out);
  c->depth--;
  return good;
}

/* ---- the pass ---- */

typedef struct options {
  bool is_json;
  uint64_t unknown;
} options;

static bool read_options(MlirOperation module, const nablaPassValue *values,
                         options *out) {
  const char *format = values[0].string, *number = values[1].string;
  char *end;
  *out = (options){.is_json = !strcmp(format, "json")};
  if (!out->is_json && strcmp(format, "text")) {
    nabla_error_at(module, "nabla-cost: format '%s' is none of text, json",
                   format);
    return false;
  }
  out->unknown = strtoull(number, &end, 10);
  if (*number >= '0' && *number <= '9' && !*end && strlen(number) <= 15)
    return true;
  nabla_error_at(module,
                 "nabla-cost: unknown is a number of at most 15 digits, not "
                 "'%s'",
                 number);
  return false;
}

/* The functions of this module; nested modules count their own. */
static bool find_functions(counter *c) {
  MlirBlock body = nabla_region_block(c->module, 0);
  size_t count = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    count += nabla_is(op, "func.func");
  c->functions = calloc(count + 1, sizeof *c->functions);
  if (!c->functions) return false;
  for (MlirOperation op = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func") && c->count < count)
      c->functions[c->count++].op = op;
  return true;
}

static nabla_status write_text(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  (void)diag;
  nabla_text_add(self, "%.*s", (int)size, (const char *)data);
  return NABLA_OK;
}

static bool print(const counter *c, const function *f, bool is_json) {
  nabla_text text = {0};
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(f->op, nabla_ref("sym_name")));
  bool good = true;
  if (is_json) {
    nabla_json_out out = {.self = &text, .write = write_text};
    nabla_cost_table_put(&f->costs, name, c->unknown, &out);
    good = !nabla_json_out_finish(&out);
    nabla_text_add(&text, "\n");
  } else {
    nabla_cost_table_print(&f->costs, name, c->unknown, &text);
  }
  good = good && !text.failed && fputs(text.data, stderr) >= 0;
  nabla_text_deinit(&text);
  return good;
}

MlirLogicalResult nabla_run_cost(MlirOperation module,
                                 const nablaPassValue *values, void *prepared) {
  (void)prepared;
  options o;
  if (!read_options(module, values, &o) || !nabla_call_graph_check(module))
    return mlirLogicalResultFailure();
  counter c = {.module = module, .unknown = o.unknown};
  bool good = find_functions(&c);
  for (size_t i = 0; good && i < c.count; i++)
    good = count_function(&c, &c.functions[i]);
  for (size_t i = 0; good && i < c.count; i++)
    good = print(&c, &c.functions[i], o.is_json);
  for (size_t i = 0; i < c.count; i++)
    nabla_cost_table_deinit(&c.functions[i].costs);
  free(c.functions);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
