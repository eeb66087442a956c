/* The external interface of a compiled module: one entry point for each public
 * function, and the manifest. Everything else becomes internal. */
#include <string.h>

#include "lib/kernels/builder/text.h"
#include "nabla/services.h"
#include "transforms/abi/argument_table.h"
#include "transforms/abi/services.h"

#define CIFACE "_mlir_ciface_" /* prefix by llvm.emit_c_interface */

/* Writes "@name", quoted if necessary. */
static void add_symbol(nabla_text *text, MlirContext context,
                       const char *prefix, MlirStringRef name) {
  nabla_text whole = {0};
  nabla_text_add(&whole, "%s%.*s", prefix, (int)name.length, name.data);
  if (whole.failed)
    text->failed = 1;
  else
    nabla_text_add_attribute(
        text, mlirFlatSymbolRefAttrGet(
                  context, mlirStringRefCreate(whole.data, whole.size)));
  nabla_text_deinit(&whole);
}

/* Returns the number of fields in the structure that a function with several
 * results returns; 0 if it returns one descriptor, whose first field is a
 * pointer. */
static intptr_t several_results(MlirType result) {
  if (!mlirTypeIsALLVMStructType(result)) return 0;
  intptr_t count = mlirLLVMStructTypeGetNumElementTypes(result);
  for (intptr_t i = 0; i < count; i++)
    if (!mlirTypeIsALLVMStructType(mlirLLVMStructTypeGetElementType(result, i)))
      return 0;
  return count;
}

static void load_pointer(nabla_text *text, const char *from, char letter,
                         intptr_t index) {
  nabla_text_add(text,
                 "  %%%c%lldp = llvm.getelementptr inbounds %%%s[%lld] : "
                 "(!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
                 "  %%%c%lld = llvm.load %%%c%lldp : !llvm.ptr -> !llvm.ptr\n",
                 letter, (long long)index, from, (long long)index, letter,
                 (long long)index, letter, (long long)index);
}

/* An entry point while it is written. */
typedef struct entry {
  MlirStringRef name;
  MlirType result;
  intptr_t arguments;
  bool tabled;  /* takes a table of all arguments */
  bool fills;   /* takes a table of all results, which it fills */
  size_t alias; /* number in the name of the alias for `result` */
} entry;

/* Stores the results from the structure %several to their destinations. */
static void store_several(nabla_text *text, const entry *e, intptr_t count) {
  for (intptr_t i = 0; i < count; i++) {
    long long n = i;
    MlirType field = mlirLLVMStructTypeGetElementType(e->result, i);
    load_pointer(text, "results", 'r', i);
    nabla_text_add(text,
                   "  %%f%lldp = llvm.getelementptr inbounds %%several[0, "
                   "%lld] : (!llvm.ptr) -> !llvm.ptr, !results%zu\n"
                   "  %%f%lld = llvm.load %%f%lldp : !llvm.ptr -> ",
                   n, n, e->alias, n, n);
    nabla_text_add_type(text, field);
    nabla_text_add(text, "\n  llvm.store %%f%lld, %%r%lld : ", n, n);
    nabla_text_add_type(text, field);
    nabla_text_add(text, ", !llvm.ptr\n");
  }
}

/* Writes the call of the C interface, with the services, the destination of the
 * result if there is one, and the arguments or their table. */
static void add_call(nabla_text *text, MlirContext context, const entry *e,
                     const char *result) {
  nabla_text_add(text, "  llvm.call ");
  add_symbol(text, context, CIFACE, e->name);
  nabla_text_add(text, "(%%services%s%s", *result ? ", " : "", result);
  for (intptr_t i = 0; i < e->arguments && !e->tabled; i++)
    nabla_text_add(text, ", %%a%lld", (long long)i);
  nabla_text_add(text, "%s%s) : (!llvm.ptr%s", e->tabled ? ", %arguments" : "",
                 e->fills ? ", %results" : "", *result ? ", !llvm.ptr" : "");
  for (intptr_t i = 0; i < e->arguments + e->fills; i++)
    nabla_text_add(text, ", !llvm.ptr");
  nabla_text_add(text, ") -> ()\n");
}

static void write_entry(nabla_text *text, MlirContext context, const entry *e) {
  intptr_t several = several_results(e->result);
  int none = mlirTypeEqual(e->result, mlirLLVMVoidTypeGet(context));
  if (several) {
    nabla_text_add(text, "!results%zu = ", e->alias);
    nabla_text_add_type(text, e->result);
    nabla_text_add(text, "\n");
  }
  nabla_text_add(text, "llvm.func ");
  add_symbol(text, context, CIFACE, e->name);
  nabla_text_add(text, "(!llvm.ptr%s", none ? "" : ", !llvm.ptr");
  for (intptr_t i = 0; i < e->arguments + e->fills; i++)
    nabla_text_add(text, ", !llvm.ptr");
  nabla_text_add(text, ")\nllvm.func ");
  add_symbol(text, context, NABLA_ENTRY_PREFIX, e->name);
  nabla_text_add(text,
                 "(%%services: !llvm.ptr, %%arguments: !llvm.ptr, %%results: "
                 "!llvm.ptr) attributes {" NABLA_ENTRY_MARK "} {\n");
  if (several)
    nabla_text_add(text,
                   "  %%one = llvm.mlir.constant(1 : i64) : i64\n"
                   "  %%several = llvm.alloca %%one x !results%zu : (i64) -> "
                   "!llvm.ptr\n",
                   e->alias);
  for (intptr_t i = 0; i < e->arguments && !e->tabled; i++)
    load_pointer(text, "arguments", 'a', i);
  if (none) {
    add_call(text, context, e, "");
  } else if (several) {
    add_call(text, context, e, "%several");
    store_several(text, e, several);
  } else {
    load_pointer(text, "results", 'r', 0);
    add_call(text, context, e, "%r0");
  }
  nabla_text_add(text, "  llvm.return\n}\n");
}

/* Returns whether the C interface takes only pointers, as descriptors are
 * passed, and returns nothing: this is so if all arguments and results of the
 * function are tensors. */
static int is_of_tensors(MlirType type, MlirContext context) {
  intptr_t count = mlirLLVMFunctionTypeGetNumInputs(type);
  for (intptr_t i = 0; i < count; i++)
    if (!mlirTypeIsALLVMPointerType(mlirLLVMFunctionTypeGetInput(type, i)))
      return 0;
  return mlirTypeEqual(mlirLLVMFunctionTypeGetReturnType(type),
                       mlirLLVMVoidTypeGet(context));
}

static void add_entry(nabla_lowering *l, MlirOperation function) {
  MlirStringRef name = nabla_symbol_name(function);
  if (!nabla_services_taken_by(function) ||
      !nabla_op_has(function, "llvm.emit_c_interface") ||
      nabla_text_starts(name, CIFACE))
    return;
  nabla_text text = {0};
  nabla_text_add(&text, CIFACE "%.*s", (int)name.length, name.data);
  MlirOperation ciface = {NULL};
  if (!text.failed)
    ciface = mlirSymbolTableLookup(l->symbols,
                                   mlirStringRefCreate(text.data, text.size));
  nabla_text_deinit(&text);
  MlirType type;
  if (mlirOperationIsNull(ciface) ||
      (type = nabla_function_type(ciface), !is_of_tensors(type, l->context))) {
    nabla_services_refuse(l, function,
                          "takes or gives something that is no tensor", name);
    return;
  }
  MlirType result =
      mlirLLVMFunctionTypeGetReturnType(nabla_function_type(function));
  int none = mlirTypeEqual(result, mlirLLVMVoidTypeGet(l->context));
  const bool fills = nabla_op_has(function, NABLA_RESULT_TABLE_MARK);
  const entry e = {
      .name = name,
      .result = result,
      .arguments = mlirLLVMFunctionTypeGetNumInputs(type) - 1 - !none - fills,
      .tabled = nabla_op_has(function, NABLA_TABLE_MARK),
      .fills = fills,
      .alias = l->entries.size,
  };
  write_entry(&l->entries, l->context, &e);
  if (l->entries.failed)
    nabla_services_refuse(l, function, "has too many results", name);
}

/* Moves the parsed entry points to the module. */
static void take_entries(nabla_lowering *l) {
  MlirModule module = {NULL};
  if (!l->entries.failed && l->entries.data)
    module = mlirModuleCreateParse(
        l->context, mlirStringRefCreate(l->entries.data, l->entries.size));
  if (mlirModuleIsNull(module)) {
    l->failed = l->entries.failed || l->entries.data;
    return;
  }
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  while (!mlirOperationIsNull(op)) {
    MlirOperation next = mlirOperationGetNextInBlock(op);
    if (nabla_op_has(op, NABLA_ENTRY_MARK)) {
      MlirStringRef name = nabla_symbol_name(op);
      MlirOperation taken = mlirSymbolTableLookup(l->symbols, name);
      if (!mlirOperationIsNull(taken))
        nabla_services_refuse(l, taken, "is a name of the runtime", name);
      mlirOperationRemoveFromParent(op);
      mlirBlockAppendOwnedOperation(l->body, op);
    }
    op = next;
  }
  mlirModuleDestroy(module);
}

/* Adds a constant with the manifest and a NUL. */
static void add_manifest(nabla_lowering *l) {
  MlirAttribute manifest = mlirOperationGetAttributeByName(
      l->module, nabla_ref(NABLA_MANIFEST_MARK));
  if (mlirAttributeIsNull(manifest) || !mlirAttributeIsAString(manifest))
    return;
  MlirStringRef json = mlirStringAttrGetValue(manifest);
  MlirContext context = l->context;
  nabla_text text = {0};
  nabla_text_add(&text, "%.*s", (int)json.length, json.data);
  if (text.failed || text.size != json.length) {
    nabla_text_deinit(&text);
    nabla_services_refuse(l, l->module, "is too long or holds a NUL",
                          nabla_ref(NABLA_MANIFEST_MARK));
    return;
  }
  MlirType array = mlirLLVMArrayTypeGet(mlirIntegerTypeGet(context, 8),
                                        (unsigned)text.size + 1);
  MlirNamedAttribute attributes[] = {
      nabla_named(context, "global_type", mlirTypeAttrGet(array)),
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(NABLA_MANIFEST_SYMBOL))),
      nabla_named(
          context, "linkage",
          mlirAttributeParseGet(context, nabla_ref("#llvm.linkage<external>"))),
      nabla_named(context, "constant", mlirUnitAttrGet(context)),
      nabla_named(context, "value",
                  mlirStringAttrGet(
                      context, mlirStringRefCreate(text.data, text.size + 1))),
  };
  nabla_text_deinit(&text);
  MlirRegion region = mlirRegionCreate();
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("llvm.mlir.global"), mlirOperationGetLocation(l->module));
  mlirOperationStateAddAttributes(&state, 5, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  nabla_op_build(l->body, (MlirOperation){NULL}, &state);
}

static int is_public(MlirOperation op) {
  return nabla_op_has(op, NABLA_ENTRY_MARK);
}

/* Makes definitions internal and erases declarations, whose calls were replaced
 * or refused before. */
static void hide_and_drop(nabla_lowering *l) {
  MlirAttribute internal =
      mlirAttributeParseGet(l->context, nabla_ref("#llvm.linkage<internal>"));
  MlirOperation op = mlirBlockGetFirstOperation(l->body), next;
  for (; !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    int function = nabla_is(op, "llvm.func");
    int defined = nabla_function_has_body(op) || nabla_op_has(op, "value");
    if (!defined)
      mlirOperationDestroy(op);
    else if (!function || !is_public(op))
      nabla_op_set(op, "linkage", internal);
  }
}

void nabla_services_add_entries(nabla_lowering *l) {
  nabla_services_each_function(l, add_entry);
  if (!l->failed) take_entries(l);
  nabla_text_deinit(&l->entries);
  if (l->failed) return;
  hide_and_drop(l);
  MlirOperation taken =
      mlirSymbolTableLookup(l->symbols, nabla_ref(NABLA_MANIFEST_SYMBOL));
  if (!mlirOperationIsNull(taken))
    nabla_services_refuse(l, l->module, "is a name of the runtime",
                          nabla_ref(NABLA_MANIFEST_SYMBOL));
  else
    add_manifest(l);
}
