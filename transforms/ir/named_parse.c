/* See named_parse.h: errors are kept until the parser is done, then reported
 * again with the right location. */
#include "transforms/ir/named_parse.h"

#include <mlir-c/Diagnostics.h>

#include "transforms/ir/ir.h"

#define MAX_KEPT 16 /* errors of one file */

typedef struct kept {
  nabla_text text;
  unsigned line, column;
} kept;

typedef struct keeper {
  kept all[MAX_KEPT];
  int count;
} keeper;

static void add_chunk(MlirStringRef chunk, void *text) {
  nabla_text_add(text, "%.*s", (int)chunk.length, chunk.data);
}

static MlirLogicalResult keep(MlirDiagnostic diagnostic, void *self) {
  keeper *k = self;
  if (k->count == MAX_KEPT) return mlirLogicalResultSuccess();
  kept *to = &k->all[k->count++];
  MlirLocation at = mlirDiagnosticGetLocation(diagnostic);
  to->line = to->column = 1;
  if (mlirLocationIsAFileLineColRange(at)) {
    to->line = (unsigned)mlirLocationFileLineColRangeGetStartLine(at);
    to->column = (unsigned)mlirLocationFileLineColRangeGetStartColumn(at);
  }
  mlirDiagnosticPrint(diagnostic, add_chunk, &to->text);
  return mlirLogicalResultSuccess();
}

static MlirWalkResult rename_op(MlirOperation op, void *path) {
  MlirLocation at = mlirOperationGetLocation(op);
  if (mlirLocationIsAFileLineColRange(at))
    mlirOperationSetLocation(
        op, mlirLocationFileLineColGet(
                nabla_op_context(op), nabla_ref(path),
                (unsigned)mlirLocationFileLineColRangeGetStartLine(at),
                (unsigned)mlirLocationFileLineColRangeGetStartColumn(at)));
  return MlirWalkResultAdvance;
}

MlirModule nabla_parse_named(MlirContext context, const char *path,
                             const char *text, size_t size) {
  keeper k = {.count = 0};
  MlirDiagnosticHandlerID id =
      mlirContextAttachDiagnosticHandler(context, keep, &k, NULL);
  MlirModule module =
      mlirModuleCreateParse(context, mlirStringRefCreate(text, size));
  mlirContextDetachDiagnosticHandler(context, id);
  for (int i = 0; i < k.count; i++) {
    kept *at = &k.all[i];
    if (mlirModuleIsNull(module))
      mlirEmitError(mlirLocationFileLineColGet(context, nabla_ref(path),
                                               at->line, at->column),
                    at->text.data ? at->text.data : "");
    nabla_text_deinit(&at->text);
  }
  if (!mlirModuleIsNull(module)) {
    char *name = (char *)(uintptr_t)path;
    mlirOperationWalk(mlirModuleGetOperation(module), rename_op, name,
                      MlirWalkPreOrder);
  }
  return module;
}
