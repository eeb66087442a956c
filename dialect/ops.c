/* ops.def as a table; see ops.h. */
#include "dialect/ops.h"

#include <string.h>

static const nabla_op_row rows[] = {
#define OP(id, verify, infer, lowering, implicit, vjp, jvp, batch, factor, \
           cost)                                                           \
  {"nabla." #id, NABLA_IMPLICIT_##implicit,                                \
   #lowering,    #vjp,                                                     \
   #jvp,         #batch,                                                   \
   #factor,      #cost},
#include "dialect/ops.def"
#undef OP
};

const nabla_op_row *nabla_op_rows(size_t *out_count) {
  *out_count = sizeof rows / sizeof *rows;
  return rows;
}

static const nabla_op_row *find_name(MlirStringRef name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].name) == name.length &&
        !memcmp(rows[i].name, name.data, name.length))
      return &rows[i];
  return NULL;
}

const nabla_op_row *nabla_op_find(MlirOperation op) {
  return find_name(mlirIdentifierStr(mlirOperationGetName(op)));
}
