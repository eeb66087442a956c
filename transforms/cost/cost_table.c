/* See cost_table.h. */
#include "transforms/cost/cost_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void nabla_cost_table_deinit(nabla_cost_table *t) {
  free(t->rows);
  *t = (nabla_cost_table){0};
}

void nabla_cost_table_clear(nabla_cost_table *t) {
  *t = (nabla_cost_table){.rows = t->rows, .capacity = t->capacity};
}

static bool reserve(nabla_cost_table *t) {
  if (t->count < t->capacity) return true;
  size_t capacity = t->capacity ? 2 * t->capacity : 8;
  nabla_cost_row *rows = realloc(t->rows, capacity * sizeof *rows);
  if (!rows) return false;
  t->rows = rows;
  t->capacity = capacity;
  return true;
}

bool nabla_cost_table_add(nabla_cost_table *t, const char *op,
                          const nabla_cost *cost, uint64_t times) {
  size_t i = 0;
  while (i < t->count && strcmp(t->rows[i].op, op)) i++;
  if (i == t->count) {
    if (!reserve(t)) return false;
    t->rows[t->count++] = (nabla_cost_row){.op = op};
  }
  nabla_cost *to = &t->rows[i].cost;
  to->count = nabla_cost_add(to->count, nabla_cost_times(times, cost->count));
  to->operations =
      nabla_cost_add(to->operations, nabla_cost_times(times, cost->operations));
  to->read = nabla_cost_add(to->read, nabla_cost_times(times, cost->read));
  to->written =
      nabla_cost_add(to->written, nabla_cost_times(times, cost->written));
  return true;
}

bool nabla_cost_table_merge(nabla_cost_table *to, const nabla_cost_table *from,
                            uint64_t times) {
  bool good = true;
  for (size_t i = 0; good && i < from->count; i++)
    good =
        nabla_cost_table_add(to, from->rows[i].op, &from->rows[i].cost, times);
  to->others =
      nabla_cost_add(to->others, nabla_cost_times(times, from->others));
  to->has_while |= from->has_while;
  to->has_cond |= from->has_cond;
  to->has_unknown |= from->has_unknown;
  return good;
}

nabla_cost nabla_cost_table_total(const nabla_cost_table *t) {
  nabla_cost all = {0};
  for (size_t i = 0; i < t->count; i++) {
    const nabla_cost *c = &t->rows[i].cost;
    all.count = nabla_cost_add(all.count, c->count);
    all.operations = nabla_cost_add(all.operations, c->operations);
    all.read = nabla_cost_add(all.read, c->read);
    all.written = nabla_cost_add(all.written, c->written);
  }
  return all;
}

/* ---- printing ---- */

static void add_line(nabla_text *text, const char *name, const nabla_cost *c) {
  nabla_text_add(
      text, "%-28s %10" PRIu64 " %20" PRIu64 " %20" PRIu64 " %20" PRIu64 "\n",
      name, c->count, c->operations, c->read, c->written);
}

void nabla_cost_table_print(const nabla_cost_table *t, MlirStringRef name,
                            uint64_t unknown, nabla_text *text) {
  nabla_cost all = nabla_cost_table_total(t);
  nabla_text_add(text, "@%.*s\n%-28s %10s %20s %20s %20s\n", (int)name.length,
                 name.data, "operation", "count", "operations", "bytes read",
                 "bytes written");
  for (size_t i = 0; i < t->count; i++)
    add_line(text, t->rows[i].op, &t->rows[i].cost);
  add_line(text, "total", &all);
  if (t->has_unknown)
    nabla_text_add(text, "sizes that are not known count as %" PRIu64 "\n",
                   unknown);
  if (t->has_while) nabla_text_add(text, "each while counts as one round\n");
  if (t->has_cond)
    nabla_text_add(text, "each cond counts as its costliest branch\n");
  if (t->others)
    nabla_text_add(text,
                   "%" PRIu64 " operation%s of other dialects not counted\n",
                   t->others, t->others == 1 ? "" : "s");
  nabla_text_add(text, "\n");
}

static void put_cost(nabla_json_out *out, const char *name,
                     const nabla_cost *c) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "operation");
  nabla_json_out_string(out, name);
  nabla_json_out_key(out, "count");
  nabla_json_out_u64(out, c->count);
  nabla_json_out_key(out, "operations");
  nabla_json_out_u64(out, c->operations);
  nabla_json_out_key(out, "bytes_read");
  nabla_json_out_u64(out, c->read);
  nabla_json_out_key(out, "bytes_written");
  nabla_json_out_u64(out, c->written);
  nabla_json_out_object_end(out);
}

void nabla_cost_table_put(const nabla_cost_table *t, MlirStringRef name,
                          uint64_t unknown, nabla_json_out *out) {
  nabla_cost all = nabla_cost_table_total(t);
  nabla_json_out_object(out);
  nabla_json_out_key(out, "function");
  nabla_json_out_string_n(out, name.data, name.length);
  nabla_json_out_key(out, "unknown_size");
  nabla_json_out_u64(out, unknown);
  nabla_json_out_key(out, "others");
  nabla_json_out_u64(out, t->others);
  nabla_json_out_key(out, "costs");
  nabla_json_out_array(out);
  for (size_t i = 0; i < t->count; i++)
    put_cost(out, t->rows[i].op, &t->rows[i].cost);
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "total");
  put_cost(out, "total", &all);
  nabla_json_out_object_end(out);
}
