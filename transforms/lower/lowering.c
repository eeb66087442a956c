/* Functions, tensors and checks of lowerings; see lowering.h. */
#include "transforms/lower/lowering.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/ir/service_text.h"

static const nabla_element elements[] = {
    {"f64", "f64", "0xFFF0000000000000", true, false, NABLA_DTYPE_F32},
    {"f32", "f32", "0xFF800000", true, false, NABLA_DTYPE_F32},
    {"f16", "f32", "0xFF800000", true, false, NABLA_DTYPE_F16},
    {"bf16", "f32", "0xFF800000", true, false, NABLA_DTYPE_BF16},
    {"i64", "i64", "-9223372036854775808", false, false, NABLA_DTYPE_F32},
    {"i32", "i32", "-2147483648", false, false, NABLA_DTYPE_F32},
    {"i16", "i16", "-32768", false, false, NABLA_DTYPE_F32},
    {"i8", "i8", "-128", false, false, NABLA_DTYPE_F32},
    {"ui8", "i8", "0", false, true, NABLA_DTYPE_F32},
    {"i1", "i1", "0", false, true, NABLA_DTYPE_F32},
};

const nabla_element *nabla_element_named(const char *name) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (!strcmp(elements[i].name, name)) return &elements[i];
  return NULL;
}

const char *nabla_element_greatest(const nabla_element *element) {
  if (!strcmp(element->work, "f64")) return "0x7FF0000000000000";
  if (element->is_float) return "0x7F800000";
  if (element->is_unsigned) return "-1";
  if (!strcmp(element->work, "i8")) return "127";
  return !strcmp(element->work, "i32") ? "2147483647" : "9223372036854775807";
}

static const char *integer_name(MlirType type) {
  unsigned width = mlirIntegerTypeGetWidth(type);
  if (mlirIntegerTypeIsUnsigned(type)) return width == 8 ? "ui8" : NULL;
  if (!mlirIntegerTypeIsSignless(type)) return NULL;
  switch (width) {
    case 1:
      return "i1";
    case 8:
      return "i8";
    case 32:
      return "i32";
    case 64:
      return "i64";
    default:
      return NULL;
  }
}

const nabla_element *nabla_element_find(MlirType type) {
  const char *name = NULL;
  if (mlirTypeIsAF64(type)) name = "f64";
  if (mlirTypeIsAF32(type)) name = "f32";
  if (mlirTypeIsAF16(type)) name = "f16";
  if (mlirTypeIsABF16(type)) name = "bf16";
  if (mlirTypeIsAInteger(type)) name = integer_name(type);
  return name ? nabla_element_named(name) : NULL;
}

bool nabla_template_init(nabla_template *t, MlirOperation op,
                         nabla_features features) {
  *t = (nabla_template){.op = op};
  t->spec.features = features;
  t->emit.text = &t->text;
  t->emit.spec = &t->spec;
  t->operand_count = mlirOperationGetNumOperands(op);
  if (t->operand_count > NABLA_MAX_OPERANDS) {
    nabla_error_at(op, "has more operands than a lowering takes");
    return false;
  }
  for (intptr_t i = 0; i < t->operand_count; i++)
    t->operands[i] = mlirOperationGetOperand(op, i);
  return true;
}

void nabla_template_deinit(nabla_template *t) { nabla_text_deinit(&t->text); }

static void add_result_types(nabla_template *t) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(t->op); i++) {
    nabla_text_add(&t->text, "%s", i ? ", " : "");
    nabla_text_add_type(&t->text, nabla_result_type(t->op, i));
  }
}

void nabla_template_open(nabla_template *t) {
  nabla_text_add(&t->text, "func.func @t(");
  for (intptr_t i = 0; i < t->operand_count; i++) {
    nabla_text_add(&t->text, "%s%%v%u: ", i ? ", " : "", ++t->emit.last);
    nabla_text_add_type(&t->text, mlirValueGetType(t->operands[i]));
  }
  nabla_text_add(&t->text, ") -> (");
  add_result_types(t);
  nabla_text_add(&t->text, ") {\n");
}

#define OWN "nabla."

static bool is_own(MlirStringRef name) {
  return name.length > strlen(OWN) && !memcmp(name.data, OWN, strlen(OWN));
}

/* The op's name, or that of what it was made of, without "nabla.". */
static const char *short_name(const nabla_template *t, int *length) {
  MlirStringRef name = nabla_name(t->op);
  if (!mlirAttributeIsNull(mlirOperationGetDiscardableAttributeByName(
          t->op, nabla_ref(NABLA_OF_DOT))))
    name = nabla_ref("nabla.dot_general");
  const size_t skipped = is_own(name) ? strlen(OWN) : 0;
  *length = (int)(name.length - skipped);
  return name.data + skipped;
}

bool nabla_template_close(nabla_template *t, nabla_ssa result) {
  return nabla_template_close_all(t, 1, &result);
}

void nabla_template_add_where(nabla_template *t) {
  int length;
  const char *name = short_name(t, &length);
  if (t->where)
    nabla_text_add(&t->text,
                   NABLA_REQUIRE_EQUAL_TEXT
                   "llvm.mlir.global internal constant @nabla_where_%.*s("
                   "\"%s%.*s\\00\") {addr_space = 0 : i32}\n",
                   length, name, is_own(nabla_name(t->op)) ? OWN : "", length,
                   name);
}

bool nabla_template_close_all(nabla_template *t, intptr_t count,
                              const nabla_ssa *results) {
  nabla_text_add(&t->text, "  return");
  for (intptr_t i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : " ", results[i]);
  nabla_text_add(&t->text, " : ");
  add_result_types(t);
  nabla_text_add(&t->text, "\n}\n");
  nabla_template_add_where(t);
  if (t->where)
    nabla_text_add(
        &t->text,
        "func.func private @nabla_require_divisors(i64, !llvm.ptr)\n");
  return nabla_template_replace(t->op, t->operand_count, t->operands, &t->text);
}

nabla_type_text nabla_ssa_tensor_type(const nabla_ssa_tensor *tensor) {
  nabla_type_text text = {"tensor<"};
  size_t at = strlen(text.data), size = sizeof text.data;
  for (intptr_t i = 0; i < tensor->rank && at < size; i++) {
    int64_t dim = tensor->dims[i];
    at += (size_t)(nabla_is_dynamic(dim)
                       ? snprintf(text.data + at, size - at, "?x")
                       : snprintf(text.data + at, size - at, "%" PRId64 "x",
                                  dim));
  }
  if (at < size)
    (void)snprintf(text.data + at, size - at, "%s>", tensor->element->name);
  return text;
}

static nabla_ssa_tensor tensor_of(MlirType type) {
  nabla_ssa_tensor tensor = {
      .element = nabla_element_find(mlirShapedTypeGetElementType(type)),
      .rank = (intptr_t)mlirShapedTypeGetRank(type)};
  for (intptr_t i = 0; i < tensor.rank; i++)
    tensor.dims[i] = mlirShapedTypeGetDimSize(type, i);
  return tensor;
}

nabla_ssa_tensor nabla_template_operand(const nabla_template *t,
                                        intptr_t index) {
  MlirValue value = t->operands[index];
  nabla_ssa_tensor tensor = tensor_of(mlirValueGetType(value));
  intptr_t first = 0; /* the same value twice has the same sizes */
  while (!mlirValueEqual(t->operands[first], value)) first++;
  tensor.value = (nabla_ssa)first + 1;
  return tensor;
}

nabla_ssa_tensor nabla_template_result(const nabla_template *t) {
  return tensor_of(nabla_dense_type(nabla_result_type(t->op, 0)));
}

nabla_ssa_tensor nabla_ssa_tensor_static(const char *element, intptr_t rank,
                                         const int64_t *dims) {
  nabla_ssa_tensor tensor = {.element = nabla_element_named(element),
                             .rank = rank};
  for (intptr_t i = 0; i < rank; i++) tensor.dims[i] = dims[i];
  return tensor;
}

nabla_ssa nabla_emit_index(nabla_template *t, int64_t value) {
  return k_op(&t->emit, "arith.constant %" PRId64 " : index", value);
}

nabla_ssa nabla_ssa_tensor_size(nabla_template *t, nabla_ssa_tensor *tensor,
                                intptr_t dim) {
  if (tensor->sizes[dim]) return tensor->sizes[dim];
  if (nabla_is_dynamic(tensor->dims[dim])) {
    nabla_ssa index = nabla_emit_index(t, dim);
    tensor->sizes[dim] =
        k_op(&t->emit, "tensor.dim %%v%u, %%v%u : %s", tensor->value, index,
             nabla_ssa_tensor_type(tensor).data);
  } else {
    tensor->sizes[dim] = nabla_emit_index(t, tensor->dims[dim]);
  }
  return tensor->sizes[dim];
}

nabla_ssa_tensor nabla_ssa_tensor_empty(nabla_template *t,
                                        nabla_ssa_tensor *shape,
                                        const char *element) {
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i])) nabla_ssa_tensor_size(t, shape, i);
  nabla_ssa_tensor out = *shape;
  out.element = nabla_element_named(element);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.empty(", out.value);
  const char *comma = "";
  for (intptr_t i = 0; i < out.rank; i++) {
    if (!nabla_is_dynamic(out.dims[i])) continue;
    nabla_text_add(&t->text, "%s%%v%u", comma, out.sizes[i]);
    comma = ", ";
  }
  nabla_text_add(&t->text, ") : %s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

nabla_ssa_tensor nabla_ssa_tensor_full(nabla_template *t,
                                       nabla_ssa_tensor *shape,
                                       const char *element, const char *value) {
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, element);
  nabla_type_text type = nabla_ssa_tensor_type(&out);
  nabla_ssa constant = k_op(&t->emit, "arith.constant %s : %s", value, element);
  nabla_ssa filled =
      k_op(&t->emit, "linalg.fill ins(%%v%u : %s) outs(%%v%u : %s) -> %s",
           constant, element, out.value, type.data, type.data);
  out.value = filled;
  return out;
}

/* "[[0, 1, 2]]", or "[]" for rank 0, appended. */
static void add_groups(nabla_template *t, intptr_t rank) {
  nabla_text_add(&t->text, rank ? "[[" : "[");
  for (intptr_t i = 0; i < rank; i++)
    nabla_text_add(&t->text, "%s%d", i ? ", " : "", (int)i);
  nabla_text_add(&t->text, rank ? "]]" : "]");
}

static nabla_ssa_tensor expand(nabla_template *t, const nabla_ssa_tensor *flat,
                               const nabla_ssa_tensor *shape) {
  nabla_ssa_tensor out = *shape;
  out.element = flat->element;
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.expand_shape %%v%u ", out.value,
                 flat->value);
  add_groups(t, flat->rank ? out.rank : 0);
  nabla_text_add(&t->text, " output_shape [");
  for (intptr_t i = 0; i < out.rank; i++) {
    const char *comma = i ? ", " : "";
    if (nabla_is_dynamic(out.dims[i]))
      nabla_text_add(&t->text, "%s%%v%u", comma, out.sizes[i]);
    else
      nabla_text_add(&t->text, "%s%" PRId64, comma, out.dims[i]);
  }
  nabla_text_add(&t->text, "] : %s", nabla_ssa_tensor_type(flat).data);
  nabla_text_add(&t->text, " into %s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

static void collapse(nabla_template *t, const nabla_ssa_tensor *from,
                     nabla_ssa_tensor *to) {
  to->value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.collapse_shape %%v%u ", to->value,
                 from->value);
  add_groups(t, to->rank ? from->rank : 0);
  nabla_text_add(&t->text, " : %s", nabla_ssa_tensor_type(from).data);
  nabla_text_add(&t->text, " into %s\n", nabla_ssa_tensor_type(to).data);
}

/* Product of the dimensions; dynamic when one is, or when it is too large. */
static int64_t elements_of(const nabla_ssa_tensor *tensor) {
  int64_t all = 1;
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (nabla_is_dynamic(tensor->dims[i]) ||
        __builtin_mul_overflow(all, tensor->dims[i], &all))
      return mlirShapedTypeGetDynamicSize();
  return all;
}

nabla_ssa_tensor nabla_ssa_tensor_flatten(nabla_template *t,
                                          const nabla_ssa_tensor *tensor) {
  nabla_ssa_tensor flat = {.element = tensor->element, .rank = 1};
  if (tensor->rank == 1) return *tensor;
  flat.dims[0] = elements_of(tensor);
  if (tensor->rank == 0) return expand(t, tensor, &flat);
  collapse(t, tensor, &flat);
  return flat;
}

nabla_ssa_tensor nabla_ssa_tensor_unflatten(nabla_template *t,
                                            const nabla_ssa_tensor *flat,
                                            const nabla_ssa_tensor *shape) {
  nabla_ssa_tensor line = *flat, out = *shape;
  line.dims[0] = elements_of(shape);
  if (line.dims[0] != flat->dims[0])
    line.value = k_op(&t->emit, "tensor.cast %%v%u : %s to %s", flat->value,
                      nabla_ssa_tensor_type(flat).data,
                      nabla_ssa_tensor_type(&line).data);
  out.element = flat->element;
  out.value = line.value;
  if (shape->rank == 0) collapse(t, &line, &out);
  return shape->rank > 1 ? expand(t, &line, shape) : out;
}

static nabla_ssa as_i64(nabla_template *t, nabla_ssa index) {
  return k_op(&t->emit, "arith.index_cast %%v%u : index to i64", index);
}

static void name_op(nabla_template *t) {
  int length;
  const char *name = short_name(t, &length);
  if (!t->where)
    t->where =
        k_op(&t->emit, "llvm.mlir.addressof @nabla_where_%.*s : !llvm.ptr",
             length, name);
}

void nabla_template_require_divisors(nabla_template *t, nabla_ssa zeros) {
  name_op(t);
  k_line(&t->emit,
         "func.call @nabla_require_divisors(%%v%u, %%v%u) : "
         "(i64, !llvm.ptr) -> ()",
         zeros, t->where);
}

void nabla_template_require(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  name_op(t);
  nabla_ssa first = as_i64(t, a), second = as_i64(t, b);
  k_line(&t->emit,
         "func.call @nabla_require_equal(%%v%u, %%v%u, %%v%u) : "
         "(i64, i64, !llvm.ptr) -> ()",
         first, second, t->where);
}

/* Gives a dimension of unknown size the size that it was found to have. A
 * slice, not a cast: the size that a cast tells, canonicalize hands to what
 * makes the tensor, which then writes before the comparison. A tensor without
 * elements is left as it is: nothing writes to it, and MLIR refuses slices of
 * it. */
static void cut_to_size(nabla_template *t, nabla_ssa_tensor *tensor,
                        intptr_t dim, int64_t size) {
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (tensor->dims[i] == 0) return;
  for (intptr_t i = 0; i < tensor->rank; i++)
    (void)nabla_ssa_tensor_size(t, tensor, i);
  const nabla_ssa_tensor from = *tensor;
  tensor->dims[dim] = size;
  tensor->sizes[dim] = 0;
  tensor->value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract_slice %%v%u[",
                 tensor->value, from.value);
  for (intptr_t i = 0; i < from.rank; i++)
    nabla_text_add(&t->text, i ? ", 0" : "0");
  for (intptr_t i = 0; i < from.rank; i++)
    if (nabla_is_dynamic(tensor->dims[i]))
      nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "] [", tensor->sizes[i]);
    else
      nabla_text_add(&t->text, "%s%lld", i ? ", " : "] [",
                     (long long)tensor->dims[i]);
  for (intptr_t i = 0; i < from.rank; i++)
    nabla_text_add(&t->text, i ? ", 1" : "] [1");
  nabla_text_add(&t->text, "] : %s to %s\n", nabla_ssa_tensor_type(&from).data,
                 nabla_ssa_tensor_type(tensor).data);
}

void nabla_tensors_agree(nabla_template *t, nabla_ssa_tensor *a, intptr_t a_dim,
                         nabla_ssa_tensor *b, intptr_t b_dim) {
  bool both =
      !nabla_is_dynamic(a->dims[a_dim]) && !nabla_is_dynamic(b->dims[b_dim]);
  if (both || (a->value == b->value && a_dim == b_dim)) return;
  nabla_ssa first = nabla_ssa_tensor_size(t, a, a_dim);
  nabla_template_require(t, first, nabla_ssa_tensor_size(t, b, b_dim));
}

void nabla_operands_agree(nabla_template *t, nabla_ssa_tensor *a,
                          intptr_t a_dim, nabla_ssa_tensor *b, intptr_t b_dim) {
  nabla_tensors_agree(t, a, a_dim, b, b_dim);
  bool a_is_dynamic = nabla_is_dynamic(a->dims[a_dim]);
  bool b_is_dynamic = nabla_is_dynamic(b->dims[b_dim]);
  if (a_is_dynamic && !b_is_dynamic) cut_to_size(t, a, a_dim, b->dims[b_dim]);
  if (b_is_dynamic && !a_is_dynamic) cut_to_size(t, b, b_dim, a->dims[a_dim]);
}

void nabla_template_take_sizes(nabla_template *t, intptr_t first,
                               nabla_ssa_tensor *tensor) {
  for (intptr_t i = 0; i < tensor->rank; i++) {
    if (!nabla_is_dynamic(tensor->dims[i])) continue;
    tensor->sizes[i] = (nabla_ssa)++first;
    nabla_ssa zero = nabla_emit_index(t, 0);
    nabla_ssa least = k_op(&t->emit, "arith.minsi %%v%u, %%v%u : index",
                           tensor->sizes[i], zero);
    nabla_template_require(t, least, zero);
  }
}
