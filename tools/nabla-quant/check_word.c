/* An option in the place of an argument. */
#include <ctype.h>

#include "tools/nabla-quant/cli.h"

nabla_status cli_check_word(const char *name, const char *argument,
                            nabla_diag *diag) {
  const char second = argument[0] == '-' ? argument[1] : '\0';
  if (second != '-' && !isalpha((unsigned char)second)) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "option '--%s' needs an argument, and '%s' looks like another "
                 "option",
                 name, argument);
  nabla_diag_set_next(diag, "if it is the argument, write --%s=%s", name,
                      argument);
  return status;
}
