/* See cost_count.h. */
#include "transforms/cost/cost_count.h"

#include <ctype.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"

uint64_t nabla_cost_add(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t nabla_cost_times(uint64_t a, uint64_t b) {
  return a && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

/* ---- sizes ---- */

static bool is_array(MlirType type) {
  return nablaTypeIsAImplicit(type) || mlirTypeIsARankedTensor(type);
}

static uint64_t dim_of(MlirType type, intptr_t index, uint64_t unknown) {
  int64_t dim = nabla_array_dim(type, index);
  return nabla_is_dynamic(dim) ? unknown : (uint64_t)dim;
}

/* Elements of dimensions [0, end) of an array. */
static uint64_t elements_to(MlirType type, intptr_t end, uint64_t unknown) {
  uint64_t all = 1;
  for (intptr_t i = 0; i < end; i++)
    all = nabla_cost_times(all, dim_of(type, i, unknown));
  return all;
}

static uint64_t elements_of(MlirType type, uint64_t unknown) {
  if (!is_array(type)) return 0;
  return elements_to(type, nabla_array_rank(type), unknown);
}

static uint64_t width_of(MlirType element) {
  unsigned bits = mlirTypeIsAFloat(element) ? mlirFloatTypeGetWidth(element)
                  : mlirTypeIsAInteger(element)
                      ? mlirIntegerTypeGetWidth(element)
                      : 64;
  return (bits + 7) / 8;
}

/* An implicit array has the size of its components: of a view, the whole
 * storage's. */
uint64_t nabla_cost_array_bytes(MlirType type, uint64_t unknown) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  if (!is_array(type)) return 0;
  if (!nablaTypeIsAImplicit(type))
    return nabla_cost_times(elements_of(type, unknown),
                            width_of(nabla_array_element(type)));
  uint64_t all = 0;
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++)
    all = nabla_cost_add(all, nabla_cost_array_bytes(parts[i].type, unknown));
  return all;
}

/* ---- what formulas are made of ---- */

/* Product of the listed dimensions of operand `operand`. */
static uint64_t listed(MlirOperation op, intptr_t operand, const char *key,
                       uint64_t unknown) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t count = nabla_op_integers(op, key, dims);
  uint64_t all = 1;
  for (intptr_t i = 0; i < count; i++)
    all = nabla_cost_times(all, dim_of(nabla_operand_type(op, operand),
                                       (intptr_t)dims[i], unknown));
  return all;
}

/* Elements that are contracted into one of the result. */
static uint64_t contracted(MlirOperation op, uint64_t unknown) {
  if (nabla_is(op, "nabla.dot_general"))
    return listed(op, 0, "lhs_contracting", unknown);
  if (mlirOperationGetNumOperands(op) < 2) return 1;
  MlirType first = nabla_operand_type(op, 0),
           second = nabla_operand_type(op, 1);
  if (nabla_is(op, "nabla.fused_dot") || nabla_is(op, "nabla.linear"))
    return dim_of(first, nabla_array_rank(first) - 1, unknown);
  if (nabla_is(op, "nabla.attention") || nabla_is(op, "nabla.fused_attention"))
    return dim_of(second, nabla_array_rank(second) - 2, unknown);
  if (!nabla_is(op, "nabla.conv_general")) return 1;
  int64_t dims[NABLA_MAX_RANK];
  intptr_t feature =
      nabla_op_integers(op, "kernel_dims", dims) ? (intptr_t)dims[0] : 0;
  uint64_t kernels = dim_of(second, feature, unknown);
  return kernels ? elements_of(second, unknown) / kernels : 0;
}

typedef struct sizes {
  uint64_t n, m, k, r, in, out, part;
} sizes;

static sizes sizes_of(MlirOperation op, uint64_t unknown) {
  sizes s = {.k = contracted(op, unknown)};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    s.in = nabla_cost_add(
        s.in, nabla_cost_array_bytes(nabla_operand_type(op, i), unknown));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    s.out = nabla_cost_add(
        s.out, nabla_cost_array_bytes(nabla_result_type(op, i), unknown));
  if (mlirOperationGetNumResults(op) > 0)
    s.n = elements_of(nabla_result_type(op, 0), unknown);
  if (mlirOperationGetNumOperands(op) < 1) return s;
  MlirType first = nabla_operand_type(op, 0);
  if (!is_array(first)) return s;
  s.m = elements_of(first, unknown);
  intptr_t rank = nabla_array_rank(first);
  s.r = rank > 0 ? elements_to(first, rank - 1, unknown) : 1;
  double share = s.m ? (double)s.n / (double)s.m : 0;
  double part = share * (double)nabla_cost_array_bytes(first, unknown);
  s.part = part < 1e18 ? (uint64_t)(part + 0.999) : UINT64_MAX;
  return s;
}

/* ---- formulas ---- */

/* A number or a symbol of `length` characters. */
static bool factor(const char *at, size_t length, const sizes *s,
                   uint64_t *out) {
  const struct {
    const char *name;
    uint64_t value;
  } symbols[] = {{"n", s->n},   {"m", s->m},     {"k", s->k},      {"r", s->r},
                 {"in", s->in}, {"out", s->out}, {"part", s->part}};
  *out = 0;
  if (isdigit((unsigned char)*at)) {
    for (size_t i = 0; i < length; i++) {
      if (!isdigit((unsigned char)at[i])) return false;
      *out = *out * 10 + (uint64_t)(at[i] - '0');
    }
    return true;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
    if (strlen(symbols[i].name) == length &&
        !memcmp(symbols[i].name, at, length)) {
      *out = symbols[i].value;
      return true;
    }
  return false;
}

/* Evaluates a sum of products, which ends at ';' or with the text. If `written`
 * is not NULL, it receives the products with the factor "out", and `sum` the
 * others. */
static bool evaluate(const char *text, const sizes *s, uint64_t *sum,
                     uint64_t *written) {
  uint64_t product = 1, value;
  bool is_out = false;
  *sum = 0;
  for (const char *at = text;;) {
    while (*at == ' ') at++;
    if (*at == '+' || *at == ';' || !*at) {
      uint64_t *to = is_out && written ? written : sum;
      *to = nabla_cost_add(*to, product);
      if (*at != '+') return true;
      product = 1;
      is_out = false;
      at++;
      continue;
    }
    size_t length = strcspn(at, " +;");
    if (!factor(at, length, s, &value)) return false;
    is_out = is_out || (length == 3 && !memcmp(at, "out", 3));
    product = nabla_cost_times(product, value);
    at += length;
  }
}

static bool has_implicit(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nablaTypeIsAImplicit(nabla_operand_type(op, i))) return true;
  return false;
}

bool nabla_cost_of(MlirOperation op, uint64_t unknown, nabla_cost *out) {
  *out = (nabla_cost){.count = 1};
  const nabla_op_row *row = nabla_op_find(op);
  sizes s = sizes_of(op, unknown);
  const char *bytes = nabla_cost_bytes(row->cost);
  if (evaluate(nabla_cost_operations(row->cost), &s, &out->operations, NULL) &&
      evaluate(bytes, &s, &out->read, &out->written)) {
    if (row->cost == NABLA_COST_view && has_implicit(op))
      out->read = out->written = 0;
    return true;
  }
  nabla_error_at(op,
                 "has a cost with a symbol that costs.def does not explain");
  return false;
}

/* ---- loops ---- */

uint64_t nabla_cost_rounds(MlirOperation op, uint64_t unknown) {
  nabla_scan_parts scan = nabla_scan_read(op);
  for (intptr_t i = scan.carries; i < scan.carries + scan.inputs; i++) {
    int64_t dim = nabla_array_dim(nabla_operand_type(op, i), 0);
    if (!nabla_is_dynamic(dim)) return (uint64_t)dim;
  }
  if (!scan.lengths) return unknown;
  MlirOperation length = nabla_defining_op(
      mlirOperationGetOperand(op, scan.carries + scan.inputs));
  if (!nabla_is(length, "arith.constant")) return unknown;
  MlirAttribute value =
      mlirOperationGetAttributeByName(length, nabla_ref("value"));
  int64_t rounds =
      mlirAttributeIsAInteger(value) ? mlirIntegerAttrGetValueInt(value) : -1;
  return rounds < 0 ? unknown : (uint64_t)rounds;
}
