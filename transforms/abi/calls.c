/* nabla-calls: custom calls are checked against their handlers, numbered, and
 * written into the manifest: calls of one target with equal attributes have one
 * number, and one state at run time. */
#include "transforms/abi/calls.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/attribute_to_tree.h"
#include "dialect/verify/checks.h"
#include "lib/base/json/json.h"
#include "transforms/passes.h"

#define MANIFEST "nabla.manifest"

static bool is_call(MlirOperation op) {
  return nabla_is(op, "nabla.custom_call");
}

static void target_of(MlirOperation op, char out[160]) {
  MlirStringRef name = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(op, nabla_ref("target")));
  snprintf(out, 160, "%.*s", (int)(name.length < 150 ? name.length : 150),
           name.data);
}

const nabla_call_handler *nabla_call_handler_of(MlirOperation op) {
  char target[160];
  target_of(op, target);
  return nabla_call_find(target, "cpu");
}

bool nabla_call_dtype(MlirType element, nabla_dtype *out) {
  static const struct {
    unsigned width;
    bool is_unsigned;
    nabla_dtype dtype;
  } integers[] = {{64, false, NABLA_DTYPE_I64},
                  {32, false, NABLA_DTYPE_I32},
                  {8, false, NABLA_DTYPE_I8},
                  {8, true, NABLA_DTYPE_U8},
                  {1, false, NABLA_DTYPE_BOOL}};
  *out = mlirTypeIsAF64(element)    ? NABLA_DTYPE_F64
         : mlirTypeIsAF32(element)  ? NABLA_DTYPE_F32
         : mlirTypeIsAF16(element)  ? NABLA_DTYPE_F16
         : mlirTypeIsABF16(element) ? NABLA_DTYPE_BF16
                                    : NABLA_DTYPE_COUNT;
  if (*out != NABLA_DTYPE_COUNT) return true;
  if (!mlirTypeIsAInteger(element)) return false;
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
    if (mlirIntegerTypeGetWidth(element) == integers[i].width &&
        mlirIntegerTypeIsUnsigned(element) == integers[i].is_unsigned) {
      *out = integers[i].dtype;
      return true;
    }
  return false;
}

/* ---- checking ---- */

static nabla_call_type_of type_of(MlirType type) {
  nabla_call_type_of out = {.rank = (uint32_t)nabla_array_rank(type)};
  (void)nabla_call_dtype(nabla_array_element(type), &out.dtype);
  return out;
}

/* The arguments as the program wrote them: one for each of `parts`. */
static size_t arguments_of(MlirOperation op, const nabla_call_handler *handler,
                           nabla_call_type_of out[NABLA_MAX_OPERANDS]) {
  MlirAttribute parts = mlirOperationGetAttributeByName(op, nabla_ref("parts"));
  intptr_t at = 0, count = mlirOperationGetNumOperands(op);
  size_t arguments = 0;
  for (intptr_t i = 0;
       !mlirAttributeIsNull(parts) && i < mlirDenseArrayGetNumElements(parts);
       i++) {
    int64_t own = mlirDenseI64ArrayGetElement(parts, i);
    out[arguments] = (nabla_call_type_of){0};
    if (own > 0) out[arguments] = type_of(nabla_operand_type(op, at));
    if ((size_t)i < handler->argument_count)
      out[arguments].encoding = handler->arguments[i].encoding;
    at += own;
    arguments++;
  }
  for (; at < count && !mlirTypeIsAIndex(nabla_operand_type(op, at)); at++)
    out[arguments++] = type_of(nabla_operand_type(op, at));
  return arguments;
}

static bool fail_diag(MlirOperation op, const nabla_diag *diag) {
  nabla_error_at(op, "%s%s%s", diag->what, *diag->next ? ": " : "", diag->next);
  return false;
}

static bool check(MlirOperation op, const nabla_attribute_tree *attributes) {
  nabla_call_type_of arguments[NABLA_MAX_OPERANDS], results[NABLA_MAX_RESULTS];
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_call_handler *handler = nabla_call_handler_of(op);
  if (!handler) {
    char target[160];
    target_of(op, target);
    (void)!nabla_call_fail_unknown(target, "cpu", &diag);
    return fail_diag(op, &diag);
  }
  size_t argument_count = arguments_of(op, handler, arguments);
  size_t result_count = (size_t)mlirOperationGetNumResults(op);
  for (size_t i = 0; i < result_count; i++)
    results[i] = type_of(nabla_result_type(op, (intptr_t)i));
  if (nabla_call_check(handler, arguments, argument_count, results,
                       result_count, attributes, &diag))
    return fail_diag(op, &diag);
  if (mlirOperationHasInherentAttributeByName(op, nabla_ref("pure")) &&
      !mlirAttributeIsNull(
          mlirOperationGetInherentAttributeByName(op, nabla_ref("pure"))) &&
      !(handler->traits & NABLA_CALL_PURE)) {
    nabla_error_at(op, "is pure, and its handler does not say that it is");
    return false;
  }
  return true;
}

/* ---- numbering ---- */

typedef struct site {
  char *target;
  nabla_buffer attributes; /* text, with a NUL */
} site;

typedef struct numbering {
  site *sites;
  size_t count;
} numbering;

/* Attributes of passes, which no handler sees. */
static bool is_of_passes(MlirStringRef name) {
  static const char *const own[] = {
      NABLA_CALL_SITE, NABLA_CALL_BATCH, NABLA_CALL_IN_PLACE,
      "nabla.vjp",     "nabla.jvp",      "nabla.symbolic_zeros"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (nabla_text_equals(name, own[i])) return true;
  return false;
}

/* The dictionary of the op, but for what is Nabla's. */
static MlirAttribute dictionary_of(MlirOperation op) {
  MlirNamedAttribute kept[64];
  intptr_t count = mlirOperationGetNumDiscardableAttributes(op), at = 0;
  for (intptr_t i = 0; i < count && at < 64; i++) {
    MlirNamedAttribute one = mlirOperationGetDiscardableAttribute(op, i);
    if (!is_of_passes(mlirIdentifierStr(one.name))) kept[at++] = one;
  }
  if (count > 64) return mlirAttributeGetNull();
  return mlirDictionaryAttrGet(nabla_op_context(op), at, kept);
}

static bool write_attributes(MlirOperation op, nabla_buffer *out) {
  nabla_arena arena = {0};
  nabla_attribute_tree attributes;
  nabla_diag diag = NABLA_DIAG_INIT;
  MlirAttribute dictionary = dictionary_of(op);
  const char *why = "has more than 64 of them";
  if (!mlirAttributeIsNull(dictionary))
    why = nabla_attribute_to_tree(dictionary, &arena, &attributes);
  bool good = !why;
  if (why) nabla_error_at(op, "has attributes of which one %s", why);
  good = good && check(op, &attributes);
  if (good && (nabla_attribute_tree_write(&attributes, out, &diag) ||
               nabla_buffer_append(out, NULL, 1, &diag)))
    good = fail_diag(op, &diag);
  nabla_arena_clear(&arena);
  return good;
}

static bool same(const site *s, const char *target, const nabla_buffer *text) {
  return !strcmp(s->target, target) && s->attributes.size == text->size &&
         !memcmp(s->attributes.data, text->data, text->size);
}

static bool number(MlirOperation op, void *self) {
  numbering *n = self;
  char target[160];
  nabla_buffer text;
  target_of(op, target);
  nabla_buffer_init(&text, NULL, "attributes", (size_t)1 << 20);
  bool good = write_attributes(op, &text);
  size_t at = 0;
  while (good && at < n->count && !same(&n->sites[at], target, &text)) at++;
  if (good && at == n->count) {
    site *grown = realloc(n->sites, (n->count + 1) * sizeof *grown);
    char *copy = strdup(target);
    if (grown) n->sites = grown;
    good = grown && copy;
    if (good)
      n->sites[n->count++] = (site){copy, text};
    else
      free(copy);
    if (good) text.data = NULL, text.size = 0;
  }
  if (good)
    mlirOperationSetAttributeByName(
        op, nabla_ref(NABLA_CALL_SITE),
        mlirIntegerAttrGet(mlirIntegerTypeGet(nabla_op_context(op), 64),
                           (int64_t)at));
  if (text.data) nabla_buffer_deinit(&text);
  return good;
}

/* ---- the manifest ---- */

static nabla_status write_text(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  (void)diag;
  nabla_text_add(self, "%.*s", (int)size, (const char *)data);
  return NABLA_OK;
}

static bool add_to_manifest(MlirOperation module, const numbering *n) {
  MlirAttribute old =
      mlirOperationGetAttributeByName(module, nabla_ref(MANIFEST));
  if (n->count == 0 || mlirAttributeIsNull(old)) return true;
  MlirStringRef before = mlirStringAttrGetValue(old);
  nabla_text text = {0};
  nabla_json_out out = {.self = &text, .write = write_text};
  nabla_json_out_array(&out);
  for (size_t i = 0; i < n->count; i++) {
    nabla_json_out_object(&out);
    nabla_json_out_key(&out, "target");
    nabla_json_out_string(&out, n->sites[i].target);
    nabla_json_out_key(&out, "attributes");
    nabla_json_out_string(&out, (const char *)n->sites[i].attributes.data);
    nabla_json_out_object_end(&out);
  }
  nabla_json_out_array_end(&out);
  nabla_text all = {0};
  bool good = !nabla_json_out_finish(&out) && !text.failed && before.length > 1;
  if (good) /* without the brace that ends it */
    nabla_text_add(&all, "%.*s,\"calls\":%s}", (int)before.length - 1,
                   before.data, text.data);
  good = good && !all.failed;
  if (good)
    mlirOperationSetAttributeByName(
        module, nabla_ref(MANIFEST),
        mlirStringAttrGet(nabla_op_context(module), nabla_ref(all.data)));
  else
    nabla_error_at(module, "has too many custom calls to describe");
  nabla_text_deinit(&all);
  nabla_text_deinit(&text);
  return good;
}

MlirLogicalResult nabla_run_calls(MlirOperation op,
                                  const nablaPassValue *values,
                                  void *prepared) {
  (void)values, (void)prepared;
  numbering n = {0};
  bool good =
      mlirLogicalResultIsSuccess(nabla_ops_each(op, is_call, number, &n)) &&
      add_to_manifest(op, &n);
  for (size_t i = 0; i < n.count; i++) {
    free(n.sites[i].target);
    nabla_buffer_deinit(&n.sites[i].attributes);
  }
  free(n.sites);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}

/* ---- keys ---- */

static int describe(void *self, const nabla_call_handler *h) {
  nabla_text_add(self, "call %s %u %d %d", h->target, h->traits, h->is_variadic,
                 h->takes_any_attributes);
  for (size_t i = 0; i < h->argument_count + h->result_count; i++) {
    const nabla_call_parameter *p = i < h->argument_count
                                        ? &h->arguments[i]
                                        : &h->results[i - h->argument_count];
    nabla_text_add(self, " %s:%u:%d:%s", p->name, p->dtypes, p->rank,
                   p->encoding ? p->encoding : "");
  }
  for (size_t i = 0; i < h->attribute_count; i++)
    nabla_text_add(self, " %s=%d%d", h->attributes[i].name,
                   (int)h->attributes[i].kind, h->attributes[i].is_optional);
  nabla_text_add(self, "\n");
  return 1;
}

void nabla_call_handlers_describe(nabla_text *out) {
  nabla_call_handlers(NULL, describe, out);
}
