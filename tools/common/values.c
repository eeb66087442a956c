/* Lists of values, "a|b". */
#include <string.h>
#include <strings.h>

#include "lib/base/edit_distance.h"
#include "tools/common/options.h"

int tool_value(const char *values, size_t index, const char **out,
               size_t *length) {
  if (!values || !strcmp(values, TOOL_PATH)) return 0;
  while (index-- > 0) {
    values = strchr(values, '|');
    if (!values) return 0;
    values++;
  }
  *out = values;
  *length = strcspn(values, "|");
  return 1;
}

void tool_list_values(const char *values, const char *separator, char *out,
                      size_t size) {
  const char *value;
  size_t used = strlen(out), length;
  for (size_t i = 0; tool_value(values, i, &value, &length); i++) {
    int wrote = snprintf(out + used, size - used, "%s%.*s", i ? separator : "",
                         (int)length, value);
    if (wrote < 0 || (size_t)wrote >= size - used) return;
    used += (size_t)wrote;
  }
}

nabla_status tool_find_value(const char *unknown, const char *values,
                             const char *argument, size_t *out,
                             nabla_diag *diag) {
  const char *value;
  char list[1024] = "";
  const size_t typed = strlen(argument);
  size_t length;
  nabla_nearest near = nabla_nearest_begin(argument, typed);
  for (size_t i = 0; tool_value(values, i, &value, &length); i++) {
    if (length == typed && !strncasecmp(value, argument, length))
      return *out = i, NABLA_OK;
    nabla_nearest_offer(&near, value, length);
  }
  tool_list_values(values, ", ", list, sizeof list);
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s '%s'", unknown, argument);
  if (near.best)
    nabla_diag_set_next(diag, "did you mean '%.*s'? Legal are %s",
                        (int)near.best_length, near.best, list);
  else
    nabla_diag_set_next(diag, "legal are %s", list);
  return status;
}
