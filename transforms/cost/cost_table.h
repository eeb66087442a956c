/* Costs by operation, in the order of their first occurrence; printed as text
 * and JSON. */
#ifndef NABLA_TRANSFORMS_COST_COST_TABLE_H
#define NABLA_TRANSFORMS_COST_COST_TABLE_H

#include "lib/base/json/json.h"
#include "transforms/cost/cost_count.h"

typedef struct nabla_cost_row {
  const char *op; /* static */
  nabla_cost cost;
} nabla_cost_row;

typedef struct nabla_cost_table {
  size_t count, capacity;
  nabla_cost_row *rows;
  uint64_t others; /* operations of other dialects, whose cost is not counted */
  bool has_while, has_cond, has_unknown;
} nabla_cost_table;

void nabla_cost_table_deinit(nabla_cost_table *t);
/* Removes all rows, and keeps the memory. */
void nabla_cost_table_clear(nabla_cost_table *t);

/* Adds `times` times a cost, or all rows of a table; returns false if out of
 * memory. */
bool nabla_cost_table_add(nabla_cost_table *t, const char *op,
                          const nabla_cost *cost, uint64_t times);
bool nabla_cost_table_merge(nabla_cost_table *to, const nabla_cost_table *from,
                            uint64_t times);

nabla_cost nabla_cost_table_total(const nabla_cost_table *t);

/* Prints the costs of a function of this name, in which unknown sizes counted
 * as `unknown`. */
void nabla_cost_table_print(const nabla_cost_table *t, MlirStringRef name,
                            uint64_t unknown, nabla_text *text);
void nabla_cost_table_put(const nabla_cost_table *t, MlirStringRef name,
                          uint64_t unknown, nabla_json_out *out);

#endif
