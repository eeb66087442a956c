/* linalg.generic and the elements in its body; see lowering.h. */
#include <inttypes.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/lower/lowering.h"

void nabla_generic_add(nabla_generic *g, const nabla_ssa_tensor *tensor,
                       const intptr_t *map) {
  g->output = g->count++;
  g->operands[g->output].tensor = *tensor;
  for (intptr_t i = 0; i < tensor->rank; i++)
    g->operands[g->output].map[i] = map ? map[i] : i;
}

static void add_map(nabla_text *text, intptr_t loops, intptr_t rank,
                    const intptr_t *map) {
  nabla_text_add(text, "affine_map<(");
  for (intptr_t i = 0; i < loops; i++)
    nabla_text_add(text, "%sd%d", i ? ", " : "", (int)i);
  nabla_text_add(text, ") -> (");
  for (intptr_t i = 0; i < rank; i++)
    nabla_text_add(text, map[i] < 0 ? "%s%d" : "%sd%d", i ? ", " : "",
                   (int)(map[i] < 0 ? -1 - map[i] : map[i]));
  nabla_text_add(text, ")>");
}

/* "ins(%v1, %v2 : TYPE, TYPE)" of operands [from, to). */
static void add_operands(nabla_text *text, const nabla_generic *g,
                         const char *word, intptr_t from, intptr_t to) {
  if (from == to) return;
  nabla_text_add(text, " %s(", word);
  for (intptr_t i = from; i < to; i++)
    nabla_text_add(text, "%s%%v%u", i > from ? ", " : "",
                   g->operands[i].tensor.value);
  for (intptr_t i = from; i < to; i++)
    nabla_text_add(text, "%s%s", i > from ? ", " : " : ",
                   nabla_ssa_tensor_type(&g->operands[i].tensor).data);
  nabla_text_add(text, ")");
}

void nabla_generic_begin(nabla_template *t, nabla_generic *g) {
  nabla_text *text = &t->text;
  bool has_second = g->count - g->output > 1;
  g->result = ++t->emit.last;
  nabla_text_add(text, "  %%v%u", g->result);
  if (has_second) nabla_text_add(text, ", %%v%u", ++t->emit.last);
  nabla_text_add(text, " = linalg.generic {indexing_maps = [");
  for (intptr_t i = 0; i < g->count; i++) {
    nabla_text_add(text, "%s", i ? ", " : "");
    add_map(text, g->loops, g->operands[i].tensor.rank, g->operands[i].map);
  }
  nabla_text_add(text, "], iterator_types = [");
  intptr_t first = g->loops - g->inner - g->reductions;
  for (intptr_t i = 0; i < g->loops; i++)
    nabla_text_add(
        text, "%s\"%s\"", i ? ", " : "",
        i >= first && i < first + g->reductions ? "reduction" : "parallel");
  nabla_text_add(text, "]}");
  add_operands(text, g, "ins", 0, g->output);
  add_operands(text, g, "outs", g->output, g->count);
  nabla_text_add(text, " {\n  ^bb0(");
  for (intptr_t i = 0; i < g->count; i++) {
    g->operands[i].element = ++t->emit.last;
    nabla_text_add(text, "%s%%v%u: %s", i ? ", " : "", t->emit.last,
                   g->operands[i].tensor.element->name);
  }
  nabla_text_add(text, "):\n");
}

nabla_ssa_tensor nabla_generic_end(nabla_template *t, nabla_generic *g,
                                   nabla_ssa element) {
  nabla_ssa_tensor out = g->operands[g->output].tensor;
  nabla_text_add(&t->text, "  linalg.yield %%v%u : %s\n  } -> %s\n", element,
                 out.element->name, nabla_ssa_tensor_type(&out).data);
  out.value = g->result;
  return out;
}

nabla_ssa_tensor nabla_generic_end_two(nabla_template *t, nabla_generic *g,
                                       nabla_ssa element, nabla_ssa second) {
  nabla_ssa_tensor out = g->operands[g->output].tensor;
  const nabla_ssa_tensor *other = &g->operands[g->output + 1].tensor;
  nabla_text_add(&t->text, "  linalg.yield %%v%u, %%v%u : %s, %s\n  } -> (%s, ",
                 element, second, out.element->name, other->element->name,
                 nabla_ssa_tensor_type(&out).data);
  nabla_text_add(&t->text, "%s)\n", nabla_ssa_tensor_type(other).data);
  out.value = g->result;
  return out;
}

nabla_ssa nabla_generic_load(nabla_template *t, const nabla_generic *g,
                             intptr_t index) {
  return nabla_element_load(t, g->operands[index].tensor.element,
                            g->operands[index].element);
}

nabla_ssa nabla_element_load(nabla_template *t, const nabla_element *element,
                             nabla_ssa value) {
  if (element->half != NABLA_DTYPE_F32) {
    nabla_ssa bits =
        k_op(&t->emit, "arith.bitcast %%v%u : %s to i16", value, element->name);
    return k_widen(&t->emit, NABLA_SCALAR, element->half, bits);
  }
  if (strcmp(element->name, element->work) != 0)
    return k_op(&t->emit, "builtin.unrealized_conversion_cast %%v%u : %s to %s",
                value, element->name, element->work);
  return value;
}

nabla_ssa nabla_element_store(nabla_template *t, const nabla_element *element,
                              nabla_ssa value) {
  if (element->half != NABLA_DTYPE_F32) {
    nabla_ssa bits = k_narrow(&t->emit, NABLA_SCALAR, element->half, value);
    return k_op(&t->emit, "arith.bitcast %%v%u : i16 to %s", bits,
                element->name);
  }
  if (strcmp(element->name, element->work) != 0)
    return k_op(&t->emit, "builtin.unrealized_conversion_cast %%v%u : %s to %s",
                value, element->work, element->name);
  return value;
}

nabla_ssa nabla_generic_index(nabla_template *t, intptr_t loop) {
  return k_op(&t->emit, "linalg.index %d : index", (int)loop);
}

nabla_ssa nabla_emit_f32_bits(nabla_template *t, uint32_t bits) {
  return k_op(&t->emit, "arith.constant 0x%08" PRIX32 " : f32", bits);
}

/* f64 has its own arithmetic, all others are of their work type. */
static nabla_ssa convert(nabla_template *t, const nabla_element *from,
                         const nabla_element *to, nabla_ssa value) {
  if (!strcmp(from->work, to->work)) return value;
  return k_op(&t->emit, "arith.%s %%v%u : %s to %s",
              strcmp(from->work, "f64") != 0 ? "extf" : "truncf", value,
              from->work, to->work);
}

nabla_ssa_tensor nabla_ssa_tensor_convert(nabla_template *t,
                                          nabla_ssa_tensor *tensor,
                                          const nabla_element *to) {
  if (tensor->element == to) return *tensor;
  nabla_generic g = {.loops = tensor->rank};
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, tensor, to->name);
  nabla_generic_add(&g, tensor, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa value = nabla_generic_load(t, &g, 0);
  value = convert(t, tensor->element, to, value);
  return nabla_generic_end(t, &g, nabla_element_store(t, to, value));
}
