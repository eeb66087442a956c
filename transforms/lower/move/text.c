/* See text.h. */
#include "transforms/lower/move/text.h"

#include <string.h>

#include "dialect/verify/checks.h"
#include "transforms/copies/box.h"

unsigned nabla_move_bytes(const nabla_element *element) {
  return nabla_box_element_bytes(element->name);
}

void nabla_move_add_buffer(nabla_text *text, const nabla_ssa_tensor *tensor) {
  nabla_text_add(text, "memref%s",
                 nabla_ssa_tensor_type(tensor).data + strlen("tensor"));
}

void nabla_move_add_name(nabla_text *text, const nabla_ssa_tensor *tensor) {
  nabla_text_add(text, "_%s", tensor->element->name);
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (nabla_is_dynamic(tensor->dims[i]))
      nabla_text_add(text, "_any");
    else
      nabla_text_add(text, "_%lld", (long long)tensor->dims[i]);
}
