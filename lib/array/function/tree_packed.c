/* Packed leaves of trees in files; see tree_packed.h. */
#include "lib/array/function/tree_packed.h"

#include <stdio.h>
#include <string.h>

#include "lib/array/packed.h"
#include "lib/base/checked.h"
#include "quant/formats/packed.h"

#define ALIGNMENT ((size_t)64)

/* ---- writing ---- */

/* A leaf as the layout sees it. `parts` points into `tensor`. */
typedef struct leaf_parts {
  nabla_tensor tensor;
  nabla_components parts;
} leaf_parts;

static nabla_status list_parts(const char *name,
                               const nabla_weight_desc *weight, leaf_parts *out,
                               nabla_diag *diag) {
  const nabla_storage *layout = &weight->layout;
  nabla_tensor *tensor = &out->tensor;
  if (layout->kind != NABLA_STORAGE_PLANES ||
      (layout->format.scale == NABLA_SCALE_DYNAMIC8 &&
       layout->nested_block != NABLA_DYNAMIC8_BLOCK))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "the leaf '%s' is packed in a way that the Nabla layout "
                      "does not hold",
                      name);
  *tensor = (nabla_tensor){.name = name,
                           .name_length = strlen(name),
                           .dtype = weight->dtype,
                           .rank = weight->rank,
                           .shape = weight->shape,
                           .elements = 1,
                           .layout = NABLA_LAYOUT_NABLA};
  for (uint32_t i = 0; i < weight->rank; i++)
    tensor->elements *= weight->shape[i];
  const char *why =
      nabla_layout_objection(NABLA_LAYOUT_NABLA, tensor, &layout->format);
  if (why)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "the leaf '%s': %s", name, why);
  return nabla_components_of(tensor, &layout->format, NABLA_LAYOUT_NABLA,
                             &out->parts, diag);
}

nabla_status nabla_tree_declare_packed(nabla_safetensors_writer *writer,
                                       const char *name,
                                       const nabla_weight_desc *weight,
                                       uint32_t *version, nabla_diag *diag) {
  leaf_parts leaf;
  NABLA_TRY(list_parts(name, weight, &leaf, diag));
  const uint32_t needed = nabla_layout_version(&weight->layout.format);
  if (needed > *version) *version = needed;
  for (size_t i = 0; i < leaf.parts.count; i++) {
    const nabla_component *part = &leaf.parts.item[i];
    char text[2 * NABLA_TENSOR_FILE_MAX_NAME];
    size_t id;
    const int length = snprintf(text, sizeof text, "%.*s%s", (int)part->stem,
                                name, part->suffix);
    NABLA_TRY(nabla_safetensors_writer_add(
        writer, text, (size_t)length, part->dtype,
        part->shape ? part->shape : part->own_shape, part->rank, &id, diag));
  }
  return NABLA_OK;
}

nabla_status nabla_tree_label_packed(nabla_safetensors_writer *writer,
                                     uint32_t version, nabla_diag *diag) {
  char text[16];
  (void)snprintf(text, sizeof text, "%u", version);
  NABLA_TRY(
      nabla_safetensors_writer_add_metadata(writer, "format", "pt", diag));
  NABLA_TRY(nabla_safetensors_writer_add_metadata(
      writer, NABLA_LABEL_LAYOUT, nabla_layout_name(NABLA_LAYOUT_NABLA), diag));
  return nabla_safetensors_writer_add_metadata(writer, NABLA_LABEL_VERSION,
                                               text, diag);
}

/* The component of a weight that a part of the file holds. */
static const nabla_weight_component *find_component(
    const nabla_weight_desc *weight, nabla_component_kind kind) {
  const bool is_nested = weight->layout.format.scale == NABLA_SCALE_DYNAMIC8;
  const char *const names[NABLA_COMPONENT_KINDS] = {
      [NABLA_COMPONENT_CODES] = "codes",
      [NABLA_COMPONENT_SCALES] = is_nested ? "scales.codes" : "scales",
      [NABLA_COMPONENT_ZERO_POINTS] = "zero_points",
      [NABLA_COMPONENT_NESTED_SCALES] = "scales.scales",
      [NABLA_COMPONENT_NESTED_MAP] = "scales.map",
      [NABLA_COMPONENT_NESTED_OFFSET] = "scales.offset"};
  nabla_weight_component known[NABLA_WEIGHT_MAX_COMPONENTS];
  uint32_t count;
  if (!names[kind] || nabla_weight_components(weight, known, &count, NULL))
    return NULL;
  for (uint32_t i = 0; i < count && i < weight->component_count; i++)
    if (!strcmp(known[i].name, names[kind])) return &weight->components[i];
  return NULL;
}

static nabla_status write_part(nabla_safetensors_writer *writer,
                               const leaf_parts *leaf,
                               const nabla_weight_desc *weight,
                               const nabla_component *part, size_t id,
                               nabla_diag *diag) {
  if (part->kind == NABLA_COMPONENT_DESCRIPTION) {
    nabla_description_text text = {.size = 0};
    NABLA_TRY(nabla_description_write(&leaf->tensor, &weight->layout.format,
                                      NABLA_LAYOUT_NABLA, 0, &text, diag));
    return nabla_safetensors_writer_write(writer, id, 0, text.data, text.size,
                                          diag);
  }
  const nabla_weight_component *from = find_component(weight, part->kind);
  if (!from || from->bytes < part->bytes)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the leaf '%s' lacks a component of %llu bytes",
                      leaf->tensor.name, (unsigned long long)part->bytes);
  if (!part->bytes) return NABLA_OK;
  return nabla_safetensors_writer_write(writer, id, 0, from->data,
                                        (size_t)part->bytes, diag);
}

nabla_status nabla_tree_write_packed(nabla_safetensors_writer *writer,
                                     const char *name,
                                     const nabla_weight_desc *weight,
                                     size_t *id, nabla_diag *diag) {
  leaf_parts leaf;
  NABLA_TRY(list_parts(name, weight, &leaf, diag));
  for (size_t i = 0; i < leaf.parts.count; i++)
    NABLA_TRY(
        write_part(writer, &leaf, weight, &leaf.parts.item[i], (*id)++, diag));
  return NABLA_OK;
}

/* ---- reading ---- */

nabla_status nabla_tree_copy_weight(nabla_scope *scope,
                                    const nabla_weight_desc *weight,
                                    nabla_array **out, nabla_diag *diag) {
  nabla_weight_desc copy = *weight;
  size_t bytes = ALIGNMENT;
  void *memory;
  for (uint32_t i = 0; i < copy.component_count; i++)
    if (!nabla_add_size(bytes, (size_t)copy.components[i].bytes + ALIGNMENT,
                        &bytes))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the sizes overflow");
  nabla_array *holder = nabla_array_new(scope);
  if (!holder) return nabla_scope_status(scope, diag);
  const nabla_allocator *allocator = holder->allocator;
  nabla_array_leave(holder);
  NABLA_TRY(nabla_alloc_raw(allocator, 1, bytes, &memory, diag));
  char *at = memory;
  for (uint32_t i = 0; i < copy.component_count; i++) {
    nabla_weight_component *component = &copy.components[i];
    const size_t past = (uintptr_t)at % ALIGNMENT;
    if (past) at += ALIGNMENT - past;
    if (component->bytes) memcpy(at, component->data, (size_t)component->bytes);
    component->data = at;
    at += component->bytes;
  }
  nabla_array *array = nabla_array_of_weight(scope, &copy);
  if (!array) {
    nabla_free(allocator, memory, 1, bytes);
    return nabla_scope_status(scope, diag);
  }
  array->owned = memory;
  array->owned_bytes = bytes;
  *out = array;
  return NABLA_OK;
}
