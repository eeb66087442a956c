/* See call_graph.h. */
#include "transforms/ir/call_graph.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>

typedef struct node {
  MlirOperation function;
  nabla_op_list calls; /* calls in its body */
  size_t next;         /* the next call to follow */
  enum { UNSEEN, ACTIVE, DONE } state;
} node;

static bool is_function(MlirOperation op) { return nabla_is(op, "func.func"); }
static bool is_call(MlirOperation op) { return nabla_is(op, "func.call"); }

/* Finds the function beside `caller` that `call` names. A linear search:
 * functions are few. */
static node *find(node *nodes, size_t count, MlirOperation caller,
                  MlirOperation call) {
  MlirOperation module = mlirOperationGetParentOperation(caller);
  MlirAttribute callee =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  MlirStringRef name = mlirFlatSymbolRefAttrGetValue(callee);
  for (size_t i = 0; i < count; i++) {
    MlirAttribute symbol = mlirOperationGetAttributeByName(
        nodes[i].function, nabla_ref("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(symbol), name) &&
        mlirOperationEqual(mlirOperationGetParentOperation(nodes[i].function),
                           module))
      return &nodes[i];
  }
  return NULL;
}

/* Follows calls from `start`, depth first; `path` has space for all nodes. */
static bool walk(node *nodes, size_t count, node *start, node **path) {
  size_t depth = 0;
  path[depth++] = start;
  start->state = ACTIVE;
  while (depth > 0) {
    node *at = path[depth - 1];
    if (at->next == at->calls.count) {
      at->state = DONE;
      depth--;
      continue;
    }
    MlirOperation call = at->calls.ops[at->next++];
    node *to = find(nodes, count, at->function, call);
    if (!to || to->state == DONE) continue;
    if (to->state == ACTIVE) {
      nabla_error_at(call,
                     "closes a circle of calls: recursion cannot be compiled; "
                     "nabla.while repeats");
      return false;
    }
    to->state = ACTIVE;
    path[depth++] = to;
  }
  return true;
}

bool nabla_call_graph_check(MlirOperation module) {
  nabla_op_list functions = nabla_ops_collect(module, is_function);
  size_t count = functions.count;
  node *nodes = calloc(count + 1, sizeof *nodes);
  node **path = calloc(count + 1, sizeof *path);
  bool good = nodes && path && !functions.failed;
  for (size_t i = 0; good && i < count; i++) {
    nodes[i].function = functions.ops[i];
    nodes[i].calls = nabla_ops_collect(functions.ops[i], is_call);
    good = !nodes[i].calls.failed;
  }
  for (size_t i = 0; good && i < count; i++)
    if (nodes[i].state == UNSEEN) good = walk(nodes, count, &nodes[i], path);
  for (size_t i = 0; nodes && i < count; i++)
    nabla_op_list_deinit(&nodes[i].calls);
  free(nodes);
  free(path);
  nabla_op_list_deinit(&functions);
  return good;
}
