/* The arrays that a scan slices and fills; see lower_scan.h. Slices of implicit
 * inputs are parts of their components, so that nothing is decoded; outputs are
 * written where they belong, into one tensor for each part. */
#include <inttypes.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/control/lower_scan.h"

static intptr_t rank_of(MlirType type) { return nabla_array_rank(type); }

void nabla_stack_describe(nabla_scan_stack *s, MlirType whole, MlirType slice) {
  *s = (nabla_scan_stack){.whole = whole, .slice = slice};
  s->implicit = nablaTypeIsAImplicit(whole);
  s->count = 1;
  s->parts[0].type = whole;
  if (!s->implicit) return;
  MlirType leaves[NABLA_MAX_LEAVES];
  nabla_slices_find(whole, slice, &s->slices);
  s->count = (intptr_t)nabla_implicit_leaves(whole, leaves);
  for (intptr_t i = 0; i < s->count; i++) s->parts[i].type = leaves[i];
}

static MlirType slice_leaf(const nabla_scan_stack *s, intptr_t index) {
  MlirType leaves[NABLA_MAX_LEAVES];
  nabla_implicit_leaves(s->slice, leaves);
  return leaves[index];
}

/* "%a, %b = nabla.unpack VALUE : TYPE", and so on for components that are
 * implicit; leaves go to `out`, which is moved behind them. */
static void unpack(nabla_scan_text *l, nabla_ssa value, MlirType type,
                   nabla_typed **out) {
  nabla_text *text = &l->t.text;
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_ssa values[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  if (count == 0) return;
  nabla_text_add(text, "  ");
  for (uint32_t i = 0; i < count; i++) {
    values[i] = nabla_scan_fresh(l);
    nabla_text_add(text, "%s%%v%u", i ? ", " : "", values[i]);
  }
  nabla_text_add(text, " = nabla.unpack %%v%u : ", value);
  nabla_scan_type(l, type);
  nabla_text_add(text, "\n");
  for (uint32_t i = 0; i < count; i++) {
    if (nablaTypeIsAImplicit(parts[i].type))
      unpack(l, values[i], parts[i].type, out);
    else
      (*out)++->value = values[i];
  }
}

/* `leaves` is moved behind those of `type`. */
static nabla_ssa pack(nabla_scan_text *l, const nabla_typed **leaves,
                      MlirType type) {
  nabla_text *text = &l->t.text;
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_ssa values[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++)
    values[i] = nablaTypeIsAImplicit(parts[i].type)
                    ? pack(l, leaves, parts[i].type)
                    : (*leaves)++->value;
  nabla_ssa out = nabla_scan_fresh(l);
  nabla_text_add(text, "  %%v%u = nabla.pack ", out);
  for (uint32_t i = 0; i < count; i++)
    nabla_text_add(text, "%s%%v%u", i ? ", " : "", values[i]);
  for (uint32_t i = 0; i < count; i++) {
    nabla_text_add(text, "%s", i ? ", " : " : ");
    nabla_scan_type(l, parts[i].type);
  }
  nabla_text_add(text, " -> ");
  nabla_scan_type(l, type);
  nabla_text_add(text, "\n");
  return out;
}

nabla_ssa nabla_stack_pack(nabla_scan_text *l, const nabla_typed *leaves,
                           MlirType type) {
  return pack(l, &leaves, type);
}

void nabla_stack_open_input(nabla_scan_text *l, intptr_t index) {
  nabla_scan_stack *s = &l->inputs[index];
  nabla_ssa value = nabla_scan_argument(l->s.carries + index);
  if (s->implicit) {
    nabla_typed *parts = s->parts;
    unpack(l, value, s->whole, &parts);
    return;
  }
  s->parts[0].value = value;
  for (intptr_t i = 0; i < rank_of(s->slice); i++)
    if (nabla_is_dynamic(nabla_array_dim(s->slice, i)))
      s->sizes[i] = nabla_scan_dim(l, value, s->whole, i + 1);
}

/* A tensor whose `?` are, in order, those of `sizes`: one for each dimension,
 * 0 for a static one. */
static nabla_ssa empty(nabla_scan_text *l, MlirType type,
                       const nabla_ssa *sizes) {
  nabla_text *text = &l->t.text;
  nabla_ssa out = nabla_scan_fresh(l);
  const char *comma = "";
  nabla_text_add(text, "  %%v%u = tensor.empty(", out);
  for (intptr_t i = 0; i < rank_of(type); i++) {
    if (!nabla_is_dynamic(nabla_array_dim(type, i))) continue;
    nabla_text_add(text, "%s%%v%u", comma, sizes[i]);
    comma = ", ";
  }
  nabla_text_add(text, ") : ");
  nabla_scan_type(l, type);
  nabla_text_add(text, "\n");
  return out;
}

/* `*size`: the next of the operands that give sizes. */
void nabla_stack_open_output(nabla_scan_text *l, intptr_t index,
                             intptr_t *size) {
  nabla_scan_stack *s = &l->outputs[index];
  for (intptr_t i = 0; i < rank_of(s->slice); i++) {
    if (!nabla_is_dynamic(nabla_array_dim(s->slice, i))) continue;
    s->sizes[i] = nabla_scan_argument((*size)++);
    nabla_scan_require_size(l, s->sizes[i]);
  }
  int64_t length = nabla_array_dim(s->whole, 0);
  if (!nabla_is_dynamic(length) && length != l->known)
    nabla_template_require(&l->t, nabla_emit_index(&l->t, length), l->length);
  nabla_ssa sizes[NABLA_MAX_RANK + 1] = {l->length};
  memcpy(sizes + 1, s->sizes, sizeof s->sizes);
  for (intptr_t i = 0; i < s->count; i++)
    s->parts[i].value = empty(l, s->parts[i].type, sizes);
}

/* "[%at, 0, 0] [1, 4, %n] [1, 1, 1] : " for a slice of a tensor. */
static void add_place(nabla_scan_text *l, const nabla_scan_stack *s) {
  nabla_text *text = &l->t.text;
  intptr_t rank = rank_of(s->slice);
  nabla_text_add(text, "[%%v%u", l->at);
  for (intptr_t i = 0; i < rank; i++) nabla_text_add(text, ", 0");
  nabla_text_add(text, "] [1");
  for (intptr_t i = 0; i < rank; i++) {
    if (s->sizes[i])
      nabla_text_add(text, ", %%v%u", s->sizes[i]);
    else
      nabla_text_add(text, ", %" PRId64, nabla_array_dim(s->slice, i));
  }
  nabla_text_add(text, "] [1");
  for (intptr_t i = 0; i < rank; i++) nabla_text_add(text, ", 1");
  nabla_text_add(text, "] : ");
}

/* The same for component `index`. */
static void add_component_place(nabla_scan_text *l, const nabla_scan_stack *s,
                                intptr_t index, nabla_ssa first) {
  nabla_text_add(&l->t.text, "[%%v%u] [%" PRId64 "] [1] : ", first,
                 s->slices.count[index]);
}

static nabla_ssa first_element(nabla_scan_text *l, const nabla_scan_stack *s,
                               intptr_t index) {
  nabla_ssa count = nabla_emit_index(&l->t, s->slices.count[index]);
  return k_op(&l->t.emit, "arith.muli %%v%u, %%v%u : index", l->at, count);
}

/* Known to have no elements: MLIR takes no slice at 0 of 0. */
static bool is_empty(const nabla_scan_stack *s) {
  for (intptr_t i = 0; i < rank_of(s->slice); i++)
    if (nabla_array_dim(s->slice, i) == 0) return !s->implicit;
  return false;
}

nabla_typed nabla_stack_take(nabla_scan_text *l, const nabla_scan_stack *s) {
  nabla_text *text = &l->t.text;
  nabla_typed parts[NABLA_MAX_LEAVES];
  if (is_empty(s)) return (nabla_typed){empty(l, s->slice, s->sizes), s->slice};
  for (intptr_t i = 0; i < s->count; i++) {
    parts[i] = s->parts[i];
    if (s->implicit && s->slices.shared[i]) continue;
    nabla_ssa first = s->implicit ? first_element(l, s, i) : 0;
    parts[i] = (nabla_typed){nabla_scan_fresh(l), s->slice};
    if (s->implicit) parts[i].type = slice_leaf(s, i);
    nabla_text_add(text, "  %%v%u = tensor.extract_slice %%v%u", parts[i].value,
                   s->parts[i].value);
    if (s->implicit)
      add_component_place(l, s, i, first);
    else
      add_place(l, s);
    nabla_scan_type(l, s->parts[i].type);
    nabla_text_add(text, " to ");
    nabla_scan_type(l, parts[i].type);
    nabla_text_add(text, "\n");
  }
  if (!s->implicit) return parts[0];
  return (nabla_typed){nabla_stack_pack(l, parts, s->slice), s->slice};
}

/* Puts the slice `given` into the output; sizes are those that were said. */
void nabla_stack_put(nabla_scan_text *l, nabla_scan_stack *s,
                     nabla_typed given) {
  nabla_text *text = &l->t.text;
  nabla_typed parts[NABLA_MAX_LEAVES] = {given};
  if (s->implicit) {
    nabla_typed *at = parts;
    unpack(l, given.value, given.type, &at);
    for (intptr_t i = 0; i < s->count; i++) parts[i].type = slice_leaf(s, i);
  }
  for (intptr_t i = 0; !s->implicit && i < rank_of(s->slice); i++)
    if (s->sizes[i])
      nabla_template_require(
          &l->t, nabla_scan_dim(l, given.value, given.type, i), s->sizes[i]);
  for (intptr_t i = 0; i < s->count && !is_empty(s); i++) {
    nabla_ssa first = s->implicit ? first_element(l, s, i) : 0;
    nabla_ssa out = nabla_scan_fresh(l);
    nabla_text_add(text, "  %%v%u = tensor.insert_slice %%v%u into %%v%u", out,
                   parts[i].value, s->filled[i].value);
    if (s->implicit)
      add_component_place(l, s, i, first);
    else
      add_place(l, s);
    nabla_scan_type(l, parts[i].type);
    nabla_text_add(text, " into ");
    nabla_scan_type(l, s->parts[i].type);
    nabla_text_add(text, "\n");
    s->filled[i].value = out;
  }
}
