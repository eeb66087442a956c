/* See the header. */
#include "transforms/profile/profile_texts.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Dialect/LLVM.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/encoding.h"

/* ---- names ---- */

static void add_name(char *names, MlirStringRef name) {
  const size_t used = strlen(names);
  if (used + name.length + 3 > NABLA_PROFILE_NAMES) return;
  for (char *at = names; (at = strstr(at, name.data)); at += name.length)
    if (!at[name.length] || at[name.length] == ',') return;
  snprintf(names + used, NABLA_PROFILE_NAMES - used, "%s%.*s", used ? ", " : "",
           (int)name.length, name.data);
}

void nabla_profile_add_names(char *names, MlirLocation location) {
  if (mlirLocationIsAName(location)) {
    const MlirLocation child = mlirLocationNameGetChildLoc(location);
    if (mlirLocationIsAName(child)) {
      nabla_profile_add_names(names, child);
      return;
    }
    char text[64];
    const MlirStringRef name =
        mlirIdentifierStr(mlirLocationNameGetName(location));
    snprintf(text, sizeof text, "%.*s", (int)name.length, name.data);
    add_name(names, mlirStringRefCreateFromCString(text));
  } else if (mlirLocationIsAFused(location)) {
    const intptr_t count = (intptr_t)mlirLocationFusedGetNumLocations(location);
    MlirLocation *all = malloc((size_t)(count + 1) * sizeof *all);
    if (!all) return;
    mlirLocationFusedGetLocations(location, all);
    for (intptr_t i = 0; i < count; i++) nabla_profile_add_names(names, all[i]);
    free(all);
  }
}

/* ---- texts ---- */

size_t nabla_profile_text(nabla_profile_texts *p, const char *what) {
  char text[NABLA_PROFILE_TEXT];
  (void)snprintf(text, sizeof text, "%s", what);
  for (char *at = text; *at; at++)
    if (*at == '"' || *at == '\\' || *at < ' ') *at = '_';
  for (size_t i = 0; i < p->count; i++)
    if (!strcmp(p->texts[i], text)) return i;
  if (p->count == p->capacity) {
    const size_t capacity = p->capacity ? 2 * p->capacity : 64;
    void *texts = realloc(p->texts, capacity * sizeof *p->texts);
    if (!texts) {
      p->failed = true;
      return 0;
    }
    p->texts = texts;
    p->capacity = capacity;
  }
  snprintf(p->texts[p->count], NABLA_PROFILE_TEXT, "%s", text);
  nabla_text_add(&p->globals,
                 "llvm.mlir.global internal constant @nabla_profile_%zu(\"%s"
                 "\\00\") {addr_space = 0 : i32}\n",
                 p->count, text);
  return p->count++;
}

MlirValue nabla_profile_address(MlirOperation before, size_t number) {
  const MlirContext context = nabla_op_context(before);
  const MlirType type = mlirLLVMPointerTypeGet(context, 0);
  char name[48];
  snprintf(name, sizeof name, "nabla_profile_%zu", number);
  const MlirNamedAttribute global =
      nabla_named(context, "global_name",
                  mlirFlatSymbolRefAttrGet(context, nabla_ref(name)));
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = "llvm.mlir.addressof",
                                               .result_count = 1,
                                               .results = &type,
                                               .attribute_count = 1,
                                               .attributes = &global}),
      0);
}

bool nabla_profile_add_globals(MlirOperation module, nabla_profile_texts *p) {
  if (p->failed) return false;
  if (!p->count) return true;
  nabla_text_add(&p->globals,
                 "func.func private @nabla_profile(!llvm.ptr, i64, i64)\n"
                 "func.func private @nabla_hold(!llvm.ptr, i64, !llvm.ptr)\n");
  if (p->globals.failed) return false;
  const MlirModule made = mlirModuleCreateParse(nabla_op_context(module),
                                                nabla_ref(p->globals.data));
  if (mlirModuleIsNull(made)) return false;
  const MlirBlock to =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0));
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(made));
  while (!mlirOperationIsNull(op)) {
    const MlirOperation next = mlirOperationGetNextInBlock(op);
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(to, op);
    op = next;
  }
  mlirModuleDestroy(made);
  return true;
}

void nabla_profile_texts_deinit(nabla_profile_texts *p) {
  nabla_text_deinit(&p->globals);
  free(p->texts);
  *p = (nabla_profile_texts){.texts = NULL};
}
