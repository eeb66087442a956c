/* Lowering of materialize for custom encodings. The function that decodes one
 * element is called for each element, and LLVM inlines it. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "lib/kernels/builder/k.h"
#include "transforms/ir/components.h"
#include "transforms/lower/decode.h"

#define DECODE_LIMIT ((size_t)1 << 20) /* bytes of the text of a function */

typedef struct decoder {
  nabla_template *t;
  MlirType type;                  /* implicit */
  MlirOperation module, function; /* function: null if the text comes from C */
  char name[128];
  MlirType signature;
  nabla_text text; /* text from C */
} decoder;

static MlirOperation module_of(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "builtin.module"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* Returns a function of `module`; null if there is none of that name. */
static MlirOperation find_function(MlirOperation module, const char *name) {
  MlirBlock body = mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0));
  MlirOperation op = mlirBlockGetFirstOperation(body);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_is(op, "func.func")) continue;
    MlirAttribute own =
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(own), nabla_ref(name))) break;
  }
  return op;
}

static bool is_private(MlirOperation function) {
  MlirAttribute seen =
      mlirOperationGetAttributeByName(function, nabla_ref("sym_visibility"));
  return !mlirAttributeIsNull(seen) &&
         mlirStringRefEqual(mlirStringAttrGetValue(seen), nabla_ref("private"));
}

/* Returns whether a type is a tensor of the component's type, or the same with
 * any size. */
static bool takes(MlirType input, const nabla_implicit_component *part) {
  if (!mlirTypeIsARankedTensor(input) || mlirShapedTypeGetRank(input) != 1 ||
      !mlirAttributeIsNull(mlirRankedTensorTypeGetEncoding(input)) ||
      !mlirTypeEqual(mlirShapedTypeGetElementType(input), part->element))
    return false;
  int64_t dim = mlirShapedTypeGetDimSize(input, 0);
  return nabla_is_dynamic(dim) || dim == part->count;
}

/* Checks the function: (components..., index) -> f32, private, with a body. */
static bool check_function(decoder *d, MlirOperation function) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  intptr_t count = (intptr_t)nabla_implicit_components(d->type, parts);
  d->signature = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
  MlirType f = d->signature;
  bool good = is_private(function) &&
              !mlirBlockIsNull(mlirRegionGetFirstBlock(
                  mlirOperationGetRegion(function, 0))) &&
              mlirFunctionTypeGetNumInputs(f) == count + 1 &&
              mlirFunctionTypeGetNumResults(f) == 1 &&
              mlirTypeIsAIndex(mlirFunctionTypeGetInput(f, count)) &&
              mlirTypeIsAF32(mlirFunctionTypeGetResult(f, 0));
  for (intptr_t i = 0; good && i < count; i++)
    good = takes(mlirFunctionTypeGetInput(f, i), &parts[i]);
  if (good) return true;
  nabla_text text = {0};
  for (intptr_t i = 0; i < count; i++) {
    nabla_text_add(&text, "tensor<?x");
    nabla_text_add_type(&text, parts[i].element);
    nabla_text_add(&text, ">, ");
  }
  nabla_error_at(d->t->op,
                 "needs '%s', which decodes, to be func.func private "
                 "@%s(%sindex) -> f32, with a body",
                 d->name, d->name, text.data ? text.data : "");
  nabla_text_deinit(&text);
  return false;
}

static nabla_status collect(void *self, const void *data, size_t size,
                            nabla_diag *diag) {
  nabla_text *text = self;
  if (size > DECODE_LIMIT || text->size > DECODE_LIMIT)
    return nabla_fail(diag, NABLA_TOO_LARGE, "a decode function is too long");
  nabla_text_add(text, "%.*s", (int)size, (const char *)data);
  return NABLA_OK;
}

/* Names the function by a hash of everything that it depends on: encoding and
 * storage. */
static void name_function(decoder *d) {
  nabla_text text = {0};
  nablaImplicit p = nablaImplicitTypeParts(d->type);
  nabla_text_add_attribute(&text, p.encoding);
  bool whole = p.storageRank < 0;
  for (intptr_t i = 0; i < (whole ? p.rank : p.storageRank); i++)
    nabla_text_add(&text, "x%" PRId64, whole ? p.shape[i] : p.storage[i]);
  uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
  for (size_t i = 0; i < text.size; i++)
    hash = (hash ^ (uint8_t)text.data[i]) * 0x100000001b3;
  snprintf(d->name, sizeof d->name, "nabla_decode_%016" PRIx64, hash);
  nabla_text_deinit(&text);
}

/* Lets the C code of the encoding write the text, and checks it. */
static bool take_text(decoder *d) {
  nabla_diag diag = NABLA_DIAG_INIT;
  name_function(d);
  const nabla_sink sink = {collect, &d->text};
  if (nabla_custom_decode(d->type, d->name, &sink, &diag)) {
    nabla_error_at(d->t->op, "has an encoding whose decode failed: %s",
                   diag.what);
    return false;
  }
  MlirModule module = {NULL};
  if (!d->text.failed && d->text.data)
    module =
        mlirModuleCreateParse(nabla_op_context(d->t->op),
                              mlirStringRefCreate(d->text.data, d->text.size));
  if (mlirModuleIsNull(module)) {
    nabla_error_at(d->t->op,
                   "has an encoding whose decode wrote what does not parse");
    return false;
  }
  MlirOperation function =
      find_function(mlirModuleGetOperation(module), d->name);
  bool good = !mlirOperationIsNull(function);
  if (!good)
    nabla_error_at(d->t->op,
                   "has an encoding whose decode wrote no function '%s'",
                   d->name);
  good = good && check_function(d, function);
  mlirModuleDestroy(module);
  return good;
}

static bool find_decode(decoder *d) {
  MlirAttribute symbol =
      nabla_custom_function(nablaImplicitTypeParts(d->type).encoding);
  d->module = module_of(d->t->op);
  if (mlirOperationIsNull(d->module)) {
    nabla_error_at(d->t->op, "is lowered inside of a module only");
    return false;
  }
  if (mlirAttributeIsNull(symbol)) return take_text(d);
  MlirStringRef name = mlirFlatSymbolRefAttrGetValue(symbol);
  snprintf(d->name, sizeof d->name, "%.*s",
           (int)(name.length < 100 ? name.length : 100), name.data);
  d->function = find_function(d->module, d->name);
  if (!mlirOperationIsNull(d->function)) return check_function(d, d->function);
  nabla_error_at(d->t->op, "needs the function '%s', which decodes", d->name);
  return false;
}

/* Allows components that are slices of larger arrays: their buffers may have
 * any offset. */
static void allow_offsets(const decoder *d) {
  MlirOperation function = find_function(d->module, d->name);
  int64_t one = 1;
  MlirAttribute layout = mlirStridedLayoutAttrGet(
      nabla_op_context(d->module), mlirShapedTypeGetDynamicStrideOrOffset(), 1,
      &one);
  const intptr_t count = mlirFunctionTypeGetNumInputs(d->signature) - 1;
  MlirAttribute *layouts = calloc((size_t)count + 1, sizeof *layouts);
  for (intptr_t i = 0; layouts && i < count; i++) layouts[i] = layout;
  nabla_arguments_protect(function, 0, count);
  if (layouts)
    nabla_arguments_set(function, "bufferization.buffer_layout", layouts);
  free(layouts);
}

/* Adds the function, or its declaration if the module has it already. */
static void add_function(decoder *d) {
  if (d->text.data && !nabla_module_has(d->t->op, d->name)) {
    nabla_text_add(&d->t->text, "%s\n", d->text.data);
    return;
  }
  nabla_text_add(&d->t->text, "func.func private @\"%s\"", d->name);
  nabla_text_add_type(&d->t->text, d->signature);
  nabla_text_add(&d->t->text, "\n");
}

/* Casts the components to the types that the function takes. */
static void cast_components(decoder *d, nabla_ssa *out) {
  nabla_template *t = d->t;
  for (intptr_t i = 0; i < t->operand_count; i++) {
    MlirType from = mlirValueGetType(t->operands[i]);
    MlirType to = mlirFunctionTypeGetInput(d->signature, i);
    out[i] = (nabla_ssa)(i + 1);
    if (mlirTypeEqual(from, to)) continue;
    out[i] = ++t->emit.last;
    nabla_text_add(&t->text, "  %%v%u = tensor.cast %%v%u : ", out[i],
                   (nabla_ssa)(i + 1));
    nabla_text_add_type(&t->text, from);
    nabla_text_add(&t->text, " to ");
    nabla_text_add_type(&t->text, to);
    nabla_text_add(&t->text, "\n");
  }
}

static nabla_ssa call(decoder *d, const nabla_ssa *components, nabla_ssa at) {
  nabla_template *t = d->t;
  nabla_ssa index = k_op(&t->emit, "arith.index_cast %%v%u : i64 to index", at);
  nabla_ssa value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = func.call @\"%s\"(", value, d->name);
  for (intptr_t i = 0; i < t->operand_count; i++)
    nabla_text_add(&t->text, "%%v%u, ", components[i]);
  nabla_text_add(&t->text, "%%v%u) : ", index);
  nabla_text_add_type(&t->text, d->signature);
  nabla_text_add(&t->text, "\n");
  return value;
}

static bool write(decoder *d) {
  nabla_template *t = d->t;
  nabla_ssa components[NABLA_MAX_PARTS];
  add_function(d);
  nabla_template_open(t);
  cast_components(d, components);
  nabla_strided view = nabla_implicit_strided(d->type);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, shape.element->name);
  nabla_generic g = {.loops = shape.rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa value = call(d, components, nabla_flat_index(t, &view));
  value = nabla_element_store(t, shape.element, value);
  bool done = nabla_template_close(t, nabla_generic_end(t, &g, value).value);
  if (done) allow_offsets(d);
  return done;
}

bool nabla_lower_custom(nabla_template *t, MlirType type) {
  decoder d = {.t = t, .type = type};
  t->operand_count = nabla_components_find(t->operands[0], t->operands);
  if (t->operand_count < 0) {
    nabla_error_at(t->op,
                   "has an operand whose components are not known here: "
                   "run --nabla-lower-implicit first");
    return false;
  }
  bool done = find_decode(&d) && write(&d);
  nabla_text_deinit(&d.text);
  return done;
}
