/* Arguments of public functions. */
#ifndef NABLA_BASE_REQUIRE_H
#define NABLA_BASE_REQUIRE_H

#include "nabla/status.h"

/* Returns NABLA_INVALID_ARGUMENT from the function around it when the argument
 * `pointer` is NULL; the message names it. First in every public function, for
 * every pointer whose comment does not allow NULL (`diag` always may be). */
#define NABLA_REQUIRE(pointer, diag)                          \
  do {                                                        \
    if (!(pointer))                                           \
      return nabla_fail((diag), NABLA_INVALID_ARGUMENT,       \
                        "the argument %s is NULL", #pointer); \
  } while (0)

/* Returns NABLA_INVALID_ARGUMENT unless `structure->struct_size` is the size
 * that this library knows. A larger one is of a newer header: members that it
 * sets would be ignored silently. docs/C_API.md, "Errors". */
#define NABLA_REQUIRE_SIZE(structure, what, diag)                 \
  do {                                                            \
    if ((structure)->struct_size != sizeof *(structure))          \
      return nabla_fail((diag), NABLA_INVALID_ARGUMENT,           \
                        what                                      \
                        " of %zu bytes: set struct_size to "      \
                        "sizeof(its type); this library has %zu", \
                        (size_t)(structure)->struct_size,         \
                        sizeof *(structure));                     \
  } while (0)

#endif
