/* No kernels made ahead of time: the table of libraries built without the
 * compiler, and of the program that makes the kernels. */
#include "lib/runtime/matmul/ahead.h"

const nabla_ahead_table nabla_ahead = {NULL, 0};
