/* Walks over the graph; see walk.h. */
#include "lib/array/walk.h"

#include <string.h>

#include "lib/array/trace.h"

#define LIMIT       (SIZE_MAX / 2)
#define FIRST_TABLE ((size_t)64)

/* An entry of the table of leaves. */
typedef struct slot {
  nabla_array *leaf;
  uint32_t number;
} slot;

void nabla_walk_init(nabla_walk *walk, nabla_scope *scope) {
  const nabla_allocator *allocator = nabla_engine_allocator(scope->engine);
  *walk = (nabla_walk){.allocator = allocator,
                       .recorder = scope->recorder,
                       .number = nabla_recorder_walk(scope->recorder),
                       .trace = scope->trace ? scope->trace->number : 0};
  nabla_buffer_init(&walk->nodes_memory, allocator, "a graph", LIMIT);
  nabla_buffer_init(&walk->leaves_memory, allocator, "a graph", LIMIT);
  nabla_buffer_init(&walk->results_memory, allocator, "a graph", LIMIT);
  nabla_buffer_init(&walk->key_memory, allocator, "a graph", LIMIT);
  nabla_buffer_init(&walk->stack, allocator, "a graph", LIMIT);
  nabla_buffer_init(&walk->table, allocator, "a graph", LIMIT);
}

void nabla_walk_deinit(nabla_walk *walk) {
  nabla_buffer_deinit(&walk->nodes_memory);
  nabla_buffer_deinit(&walk->leaves_memory);
  nabla_buffer_deinit(&walk->results_memory);
  nabla_buffer_deinit(&walk->key_memory);
  nabla_buffer_deinit(&walk->stack);
  nabla_buffer_deinit(&walk->table);
}

/* Appends a pointer. */
static nabla_status append(nabla_buffer *list, void *pointer,
                           nabla_diag *diag) {
  return nabla_buffer_append(list, &pointer, sizeof(void *), diag);
}

/* ---- leaves ---- */

static slot *find_slot(const nabla_walk *walk, const nabla_array *leaf) {
  slot *slots = (slot *)(void *)walk->table.data;
  const uint64_t mixed =
      (uint64_t)(uintptr_t)leaf * UINT64_C(0x9E3779B97F4A7C15);
  size_t at = (size_t)(mixed >> 32) & (walk->table_size - 1);
  while (slots[at].leaf && slots[at].leaf != leaf)
    at = (at + 1) & (walk->table_size - 1);
  return &slots[at];
}

static nabla_status grow_table(nabla_walk *walk, nabla_diag *diag) {
  const size_t size = walk->table_size ? 2 * walk->table_size : FIRST_TABLE;
  walk->table.size = 0;
  walk->table_size = size;
  NABLA_TRY(nabla_buffer_append(&walk->table, NULL, size * sizeof(slot), diag));
  for (size_t i = 0; i < walk->leaf_count; i++)
    *find_slot(walk, walk->leaves[i]) = (slot){walk->leaves[i], (uint32_t)i};
  return NABLA_OK;
}

static nabla_status number_leaf(nabla_walk *walk, nabla_array *leaf,
                                uint32_t *out, nabla_diag *diag) {
  if (2 * walk->leaf_count >= walk->table_size)
    NABLA_TRY(grow_table(walk, diag));
  slot *found = find_slot(walk, leaf);
  if (!found->leaf) {
    NABLA_TRY(append(&walk->leaves_memory, leaf, diag));
    walk->leaves = (nabla_array **)(void *)walk->leaves_memory.data;
    *found = (slot){leaf, (uint32_t)walk->leaf_count++};
  }
  *out = found->number;
  return NABLA_OK;
}

bool nabla_walk_has(const nabla_walk *walk, const nabla_array *array) {
  return array->node && array->node->trace == walk->trace;
}

uint32_t nabla_walk_leaf(const nabla_walk *walk, const nabla_array *leaf) {
  return find_slot(walk, leaf)->number;
}

/* ---- nodes ---- */

static nabla_status push(nabla_walk *walk, nabla_node *node, nabla_diag *diag) {
  node->walk = walk->number;
  node->next = 0;
  return append(&walk->stack, node, diag);
}

/* Appends a node, all operands of which were appended, and its part of the key:
 * what it does, and the numbers of its operands. */
static nabla_status add_node(nabla_walk *walk, nabla_node *node,
                             nabla_diag *diag) {
  node->number = (uint32_t)walk->node_count++;
  NABLA_TRY(append(&walk->nodes_memory, node, diag));
  NABLA_TRY(nabla_buffer_append(&walk->key_memory, &node->recorded->hash,
                                sizeof node->recorded->hash, diag));
  for (uint32_t i = 0; i < node->operand_count; i++) {
    nabla_array *operand = node->operands[i];
    uint32_t word[2] = {0, UINT32_MAX}; /* a leaf */
    if (nabla_walk_has(walk, operand)) {
      word[0] = operand->node->number;
      word[1] = operand->index;
    } else {
      NABLA_TRY(number_leaf(walk, operand, &word[0], diag));
    }
    NABLA_TRY(nabla_buffer_append(&walk->key_memory, word, sizeof word, diag));
  }
  return NABLA_OK;
}

/* Walks from a node, operands first. The stack is a list, not calls: a graph
 * may be deep. */
static nabla_status visit(nabla_walk *walk, nabla_node *root,
                          nabla_diag *diag) {
  if (root->walk == walk->number) return NABLA_OK;
  NABLA_TRY(push(walk, root, diag));
  while (walk->stack.size) {
    nabla_node *node;
    memcpy(&node, walk->stack.data + walk->stack.size - sizeof(void *),
           sizeof(void *));
    if (node->next == node->operand_count) {
      walk->stack.size -= sizeof(void *);
      NABLA_TRY(add_node(walk, node, diag));
      continue;
    }
    const nabla_array *operand = node->operands[node->next++];
    if (nabla_walk_has(walk, operand) && operand->node->walk != walk->number)
      NABLA_TRY(push(walk, operand->node, diag));
  }
  return NABLA_OK;
}

/* ---- results ---- */

static nabla_status add_result(nabla_walk *walk, nabla_array *array,
                               nabla_diag *diag) {
  uint32_t word[2] = {0, UINT32_MAX}; /* a leaf */
  if (nabla_walk_has(walk, array)) {
    word[0] = array->node->number;
    word[1] = array->index;
  } else {
    NABLA_TRY(number_leaf(walk, array, &word[0], diag));
  }
  walk->result_count++;
  NABLA_TRY(append(&walk->results_memory, array, diag));
  return nabla_buffer_append(&walk->key_memory, word, sizeof word, diag);
}

static bool is_among(size_t count, nabla_array *const *arrays,
                     const nabla_array *array) {
  for (size_t i = 0; i < count; i++)
    if (arrays[i] == array) return true;
  return false;
}

static nabla_status add_held(nabla_walk *walk, size_t count,
                             nabla_array *const *arrays, nabla_diag *diag) {
  nabla_node **nodes = (nabla_node **)(void *)walk->nodes_memory.data;
  for (size_t i = 0; i < walk->node_count; i++)
    for (uint32_t k = 0; k < nodes[i]->recorded->result_count; k++) {
      nabla_array *array = nodes[i]->results[k];
      if (array && array->users && !is_among(count, arrays, array))
        NABLA_TRY(add_result(walk, array, diag));
    }
  return NABLA_OK;
}

static void finish(nabla_walk *walk) {
  walk->nodes = (nabla_node **)(void *)walk->nodes_memory.data;
  walk->results = (nabla_array **)(void *)walk->results_memory.data;
  walk->key = (nabla_graph_key){
      XXH3_128bits(walk->key_memory.data, walk->key_memory.size),
      walk->key_memory.data, walk->key_memory.size};
}

nabla_status nabla_walk_from(nabla_walk *walk, size_t count,
                             nabla_array *const *arrays, nabla_diag *diag) {
  const uint32_t end[2] = {UINT32_MAX, UINT32_MAX}; /* of the nodes */
  for (size_t i = 0; i < count; i++)
    if (arrays[i]->node) NABLA_TRY(visit(walk, arrays[i]->node, diag));
  if (!walk->node_count) return NABLA_OK;
  NABLA_TRY(nabla_buffer_append(&walk->key_memory, end, sizeof end, diag));
  for (size_t i = 0; i < count; i++)
    if (arrays[i]->node && !is_among(i, arrays, arrays[i]))
      NABLA_TRY(add_result(walk, arrays[i], diag));
  NABLA_TRY(add_held(walk, count, arrays, diag));
  finish(walk);
  return NABLA_OK;
}

/* What is no part of the key of a realization: there all leaves have a use. */
static nabla_status add_leaf_types(nabla_walk *walk, size_t argument_count,
                                   nabla_diag *diag) {
  const uint64_t head[2] = {argument_count, walk->leaf_count};
  NABLA_TRY(nabla_buffer_append(&walk->key_memory, head, sizeof head, diag));
  for (size_t i = 0; i < walk->leaf_count; i++) {
    const nabla_dense *type = &walk->leaves[i]->dense;
    const uint32_t word[2] = {(uint32_t)type->dtype, type->rank};
    NABLA_TRY(nabla_buffer_append(&walk->key_memory, word, sizeof word, diag));
    if (type->rank)
      NABLA_TRY(nabla_buffer_append(&walk->key_memory, type->shape,
                                    type->rank * sizeof type->shape[0], diag));
  }
  return NABLA_OK;
}

nabla_status nabla_walk_trace(nabla_walk *walk, size_t argument_count,
                              nabla_array *const *arguments,
                              size_t result_count, nabla_array *const *results,
                              nabla_diag *diag) {
  const uint32_t end[2] = {UINT32_MAX, UINT32_MAX - 1};
  uint32_t number;
  for (size_t i = 0; i < argument_count; i++)
    NABLA_TRY(number_leaf(walk, arguments[i], &number, diag));
  for (size_t i = 0; i < result_count; i++)
    if (nabla_walk_has(walk, results[i]))
      NABLA_TRY(visit(walk, results[i]->node, diag));
  NABLA_TRY(nabla_buffer_append(&walk->key_memory, end, sizeof end, diag));
  for (size_t i = 0; i < result_count; i++)
    NABLA_TRY(add_result(walk, results[i], diag));
  NABLA_TRY(add_leaf_types(walk, argument_count, diag));
  finish(walk);
  return NABLA_OK;
}
