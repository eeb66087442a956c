/* See dump.h. */
#include "transforms/shard/solve/dump.h"

#include <mlir-c/BuiltinAttributes.h>

#include "transforms/cost/cost_count.h"
#include "transforms/state/state.h"

static void put_double(nabla_json_out *out, const char *key, double value) {
  nabla_json_out_key(out, key);
  nabla_json_out_double(out, value);
}

static void put_u64(nabla_json_out *out, const char *key, uint64_t value) {
  nabla_json_out_key(out, key);
  nabla_json_out_u64(out, value);
}

/* ---- the file ---- */

void nabla_shard_file_put(const nabla_grid *grid,
                          const nabla_shard_machine *machine,
                          nabla_json_out *out) {
  nabla_json_out_key(out, "schema");
  nabla_json_out_string(out, "nabla-shard-plan/1");
  nabla_json_out_key(out, "mesh");
  nabla_json_out_array(out);
  for (uint32_t i = 0; i < grid->mesh.count; i++) {
    nabla_json_out_object(out);
    nabla_json_out_key(out, "name");
    nabla_json_out_string(out, grid->mesh.axes[i]);
    put_u64(out, "devices", (uint64_t)grid->mesh.sizes[i]);
    put_double(out, "bandwidth", machine->bandwidth[i]);
    put_double(out, "latency", machine->latency[i]);
    nabla_json_out_object_end(out);
  }
  nabla_json_out_array_end(out);
  put_double(out, "operations_per_second", machine->operations_per_second);
  put_double(out, "bytes_per_second", machine->bytes_per_second);
}

/* ---- functions ---- */

static void put_layouts(const nabla_grid *grid, const char *key, intptr_t count,
                        const nabla_division *layouts, nabla_json_out *out) {
  nabla_json_out_key(out, key);
  nabla_json_out_array(out);
  for (intptr_t i = 0; i < count; i++)
    if (nabla_layout_takes(layouts[i].type))
      nabla_json_out_string(out, nabla_layout_format(grid, &layouts[i]).data);
    else
      nabla_json_out_null(out);
  nabla_json_out_array_end(out);
}

static void put_port(const nabla_shard_node *node, nabla_json_out *out) {
  static const char *const kinds[] = {[NABLA_PORT_CARRY] = "carry",
                                      [NABLA_PORT_SLICE] = "slice",
                                      [NABLA_PORT_OUTPUT] = "output"};
  nabla_json_out_key(out, "port");
  nabla_json_out_string(
      out, kinds[nabla_shard_port_of(node->op, node->argument).kind]);
  put_u64(out, "index", (uint64_t)node->argument);
}

static void put_node(const nabla_shard_problem *p, size_t n,
                     nabla_json_out *out) {
  const nabla_shard_node *node = &p->nodes[n];
  nabla_json_out_object(out);
  nabla_json_out_key(out, "what");
  if (mlirOperationIsNull(node->op)) {
    char fallback[32];
    const MlirStringRef argument =
        nabla_argument_name(p->function, node->argument, fallback);
    nabla_json_out_string(out, "argument");
    nabla_json_out_key(out, "name");
    nabla_json_out_string_n(out, argument.data, argument.length);
  } else {
    MlirStringRef name = nabla_name(node->op);
    nabla_json_out_string_n(out, name.data, name.length);
  }
  if (nabla_shard_node_is_port(node)) put_port(node, out);
  nabla_json_out_key(out, "choices");
  nabla_json_out_array(out);
  for (uint32_t i = 0; i < node->options->count; i++) {
    const nabla_shard_option *o = &node->options->all[i];
    nabla_json_out_object(out);
    put_layouts(p->grid, "operands", node->options->operand_count, o->operands,
                out);
    put_layouts(p->grid, "results", node->options->result_count, o->results,
                out);
    put_double(out, "seconds", o->seconds * (double)node->times);
    put_u64(out, "bytes_exchanged",
            nabla_cost_times(o->joins.bytes, node->times));
    nabla_json_out_object_end(out);
  }
  nabla_json_out_array_end(out);
  put_u64(out, "chosen", p->answer.chosen[n]);
  nabla_json_out_object_end(out);
}

static void put_edge(const nabla_shard_problem *p, size_t i,
                     nabla_json_out *out) {
  const nabla_choice_edge *edge = &p->choice.edges[i];
  const uint32_t columns = p->choice.nodes[edge->b].count;
  nabla_json_out_object(out);
  put_u64(out, "from", edge->a);
  put_u64(out, "result", (uint64_t)p->uses[i].result);
  put_u64(out, "to", edge->b);
  nabla_json_out_key(out, "operand");
  if (p->uses[i].operand >= 0)
    nabla_json_out_u64(out, (uint64_t)p->uses[i].operand);
  else
    nabla_json_out_null(out);
  nabla_json_out_key(out, "seconds");
  nabla_json_out_array(out);
  for (uint32_t a = 0; a < p->choice.nodes[edge->a].count; a++) {
    nabla_json_out_array(out);
    for (uint32_t b = 0; b < columns; b++)
      nabla_json_out_double(out, edge->costs[(size_t)a * columns + b]);
    nabla_json_out_array_end(out);
  }
  nabla_json_out_array_end(out);
  nabla_json_out_object_end(out);
}

static void put_u64s(nabla_json_out *out, size_t count, const uint64_t *all) {
  nabla_json_out_array(out);
  for (size_t i = 0; i < count; i++) nabla_json_out_u64(out, all[i]);
  nabla_json_out_array_end(out);
}

static void put_load(const nabla_choice *choice, const nabla_choice_load *load,
                     nabla_json_out *out) {
  nabla_json_out_object(out);
  put_u64(out, load->is_edge ? "edge" : "node", load->at);
  put_u64(out, "first", load->first);
  put_u64(out, "last", load->last);
  nabla_json_out_key(out, "bytes");
  if (!load->is_edge) {
    put_u64s(out, choice->nodes[load->at].count, load->bytes);
  } else {
    const nabla_choice_edge *edge = &choice->edges[load->at];
    const size_t columns = choice->nodes[edge->b].count;
    nabla_json_out_array(out);
    for (size_t a = 0; a < choice->nodes[edge->a].count; a++)
      put_u64s(out, columns, load->bytes + a * columns);
    nabla_json_out_array_end(out);
  }
  nabla_json_out_object_end(out);
}

void nabla_shard_problem_put(const nabla_shard_problem *p,
                             nabla_json_out *out) {
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(p->function, nabla_ref("sym_name")));
  const nabla_choice_answer *a = &p->answer;
  nabla_json_out_object(out);
  nabla_json_out_key(out, "name");
  nabla_json_out_string_n(out, name.data, name.length);
  nabla_json_out_key(out, "nodes");
  nabla_json_out_array(out);
  for (size_t n = 0; n < p->node_count; n++) put_node(p, n, out);
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "edges");
  nabla_json_out_array(out);
  for (size_t i = 0; i < p->use_count; i++) put_edge(p, i, out);
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "loads");
  nabla_json_out_array(out);
  for (size_t i = 0; i < p->choice.load_count; i++)
    put_load(&p->choice, &p->choice.loads[i], out);
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "memory_limit");
  if (p->choice.memory == UINT64_MAX)
    nabla_json_out_null(out);
  else
    nabla_json_out_u64(out, p->choice.memory);
  put_double(out, "seconds", a->cost);
  put_double(out, "bound", a->bound);
  nabla_json_out_key(out, "exact");
  nabla_json_out_bool(out, a->bound >= a->cost && !p->cut_count);
  put_u64(out, "nodes_cut", p->cut_count);
  put_u64(out, "subproblems", a->subproblems);
  put_u64(out, "bytes_exchanged", nabla_shard_problem_bytes(p, a->chosen));
  put_u64(out, "bytes_held", a->bytes);
  nabla_json_out_object_end(out);
}
