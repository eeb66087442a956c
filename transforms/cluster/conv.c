/* See conv.h. */
#include "transforms/cluster/conv.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/verify/checks.h"
#include "nabla/services.h"
#include "transforms/cluster/call.h"

/* Multiplications from which a kernel is worth its call and its memory. */
#define LEAST_PRODUCTS 8192

/* ---- which operations ---------------------------------------------------- */

static void read_order(MlirOperation op, const char *key, intptr_t rank,
                       int64_t out[NABLA_MAX_RANK]) {
  if (nabla_op_integers(op, key, out) == 0)
    for (intptr_t i = 0; i < rank; i++) out[i] = i;
}

/* A list of the spatial dimensions, at the end of the kernel's dimensions. */
static void read_list(MlirOperation op, const char *key, intptr_t spatial,
                      uint64_t out[NABLA_CONV_DIMS]) {
  int64_t list[NABLA_MAX_RANK];
  const intptr_t given = nabla_op_integers(op, key, list);
  for (int i = 0; i < NABLA_CONV_DIMS; i++) out[i] = 1;
  for (intptr_t i = 0; given && i < spatial; i++)
    out[NABLA_CONV_DIMS - spatial + i] = (uint64_t)list[i];
}

/* The size of the input in a spatial dimension, with its padding. */
static bool read_padded(MlirOperation op, intptr_t dim, int64_t size,
                        uint64_t *out) {
  int64_t low[NABLA_MAX_RANK] = {0}, high[NABLA_MAX_RANK] = {0};
  int64_t interior[NABLA_MAX_RANK], padded;
  nabla_op_integers(op, "low", low);
  nabla_op_integers(op, "high", high);
  if (nabla_op_integers(op, "input_dilation", interior) == 0) interior[dim] = 1;
  if (size == 0 || __builtin_mul_overflow(size - 1, interior[dim], &padded) ||
      __builtin_add_overflow(padded, 1, &padded) ||
      __builtin_add_overflow(padded, low[dim], &padded) ||
      __builtin_add_overflow(padded, high[dim], &padded) || padded < 1)
    return false;
  *out = (uint64_t)padded;
  return true;
}

/* Sizes of the input and its zeros, if the kernel has these: none lie between
 * elements. Else x is a copy with the sizes `padded`. */
static void set_input(nabla_conv *c, const uint64_t padded[NABLA_CONV_DIMS]) {
  int64_t low[NABLA_MAX_RANK] = {0}, interior[NABLA_MAX_RANK];
  nabla_conv_spec *spec = &c->spec;
  const intptr_t count = nabla_op_integers(c->op, "low", low);
  const intptr_t dilated = nabla_op_integers(c->op, "input_dilation", interior);
  for (intptr_t i = 0; i < count; i++)
    spec->low[NABLA_CONV_DIMS - count + i] = low[i];
  for (intptr_t i = 0; i < dilated; i++)
    c->is_copied = c->is_copied || interior[i] != 1;
  c->is_copied = c->is_copied || !nabla_conv_pads(spec);
  if (!c->is_copied) return;
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    spec->in[i] = padded[i];
    spec->low[i] = 0;
  }
}

/* Known sizes of all dimensions but the batch; false where there are others, or
 * no elements. */
static bool read_sizes(MlirOperation op, intptr_t rank, nabla_conv_spec *spec,
                       uint64_t padded[NABLA_CONV_DIMS]) {
  int64_t in_of[NABLA_MAX_RANK], kernel_of[NABLA_MAX_RANK];
  int64_t out_of[NABLA_MAX_RANK];
  const MlirType in = nabla_operand_type(op, 0);
  const MlirType kernel = nabla_operand_type(op, 1);
  const MlirType result = nabla_result_type(op, 0);
  read_order(op, "input_dims", rank, in_of);
  read_order(op, "kernel_dims", rank, kernel_of);
  read_order(op, "output_dims", rank, out_of);
  for (intptr_t i = 0; i < rank; i++) {
    const int64_t of_in = mlirShapedTypeGetDimSize(in, in_of[i]);
    const int64_t of_kernel = mlirShapedTypeGetDimSize(kernel, kernel_of[i]);
    const int64_t of_result = mlirShapedTypeGetDimSize(result, out_of[i]);
    if (nabla_is_dynamic(of_kernel) || of_kernel < 1) return false;
    if (i == 0) spec->outputs = (uint64_t)of_kernel / spec->groups;
    if (i == 1) spec->features = (uint64_t)of_kernel;
    if (i > 0 && (nabla_is_dynamic(of_in) || nabla_is_dynamic(of_result) ||
                  of_result < 1))
      return false;
    if (i < 2) continue;
    const intptr_t at = NABLA_CONV_DIMS - rank + i;
    spec->window[at] = (uint64_t)of_kernel;
    spec->out[at] = (uint64_t)of_result;
    spec->in[at] = (uint64_t)of_in;
    if (!read_padded(op, i - 2, of_in, &padded[at])) return false;
  }
  return spec->outputs > 0;
}

/* Where each element is a window, all are one row. */
static void join_rows(nabla_conv_spec *spec) {
  uint64_t all = 1;
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    if (spec->in[i] != spec->out[i] || spec->window[i] != 1 || spec->low[i])
      return;
    all *= spec->in[i];
  }
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    spec->in[i] = spec->out[i] = i == NABLA_CONV_DIMS - 1 ? all : 1;
    spec->stride[i] = 1;
  }
}

/* Of one image, or of all where their number is known. */
static bool is_worth(MlirOperation op, const nabla_conv_spec *spec) {
  int64_t in_of[NABLA_MAX_RANK] = {0};
  nabla_op_integers(op, "input_dims", in_of);
  const int64_t images =
      mlirShapedTypeGetDimSize(nabla_operand_type(op, 0), in_of[0]);
  const double one =
      (double)nabla_conv_units(spec) * (double)nabla_conv_unit_products(spec);
  return images != 0 && one * (nabla_is_dynamic(images) ? 1 : (double)images) >=
                            LEAST_PRODUCTS;
}

bool nabla_conv_of(MlirOperation op, nabla_features features, nabla_conv *out) {
  nabla_dtype dtype, of_kernel;
  *out = (nabla_conv){.op = op};
  if (!nabla_is(op, "nabla.conv_general")) return false;
  const MlirType type = nabla_operand_type(op, 0);
  if (!nabla_cluster_dtype(type, &dtype) || !nabla_cluster_is_f32(dtype) ||
      !nabla_cluster_dtype(nabla_operand_type(op, 1), &of_kernel) ||
      !nabla_cluster_is_f32(of_kernel))
    return false;
  const intptr_t rank = mlirShapedTypeGetRank(type), spatial = rank - 2;
  if (spatial < 1 || spatial > NABLA_CONV_DIMS) return false;
  nabla_conv_spec *spec = &out->spec;
  *spec =
      (nabla_conv_spec){.features_of_cpu = features,
                        .groups = (uint64_t)nabla_op_integer(op, "groups", 1),
                        .in = {1, 1, 1},
                        .out = {1, 1, 1},
                        .window = {1, 1, 1}};
  read_list(op, "strides", spatial, spec->stride);
  read_list(op, "kernel_dilation", spatial, spec->dilation);
  uint64_t padded[NABLA_CONV_DIMS] = {1, 1, 1};
  if (!read_sizes(op, rank, spec, padded) || nabla_conv_objection(spec))
    return false;
  set_input(out, padded);
  if (nabla_conv_objection(spec)) return false;
  join_rows(spec);
  out->last = op;
  return is_worth(op, spec);
}

/* ---- operands and result ------------------------------------------------- */

static MlirValue emit(const nabla_conv *c, const char *name, intptr_t count,
                      const MlirValue *operands, const MlirType *type,
                      intptr_t attribute_count,
                      const MlirNamedAttribute *attributes) {
  const nabla_op_spec spec = {name, count,           operands,  type ? 1 : -1,
                              type, attribute_count, attributes};
  return mlirOperationGetResult(nabla_op_create(c->last, &spec), 0);
}

static MlirType with_element(MlirType type, MlirType element) {
  int64_t shape[NABLA_MAX_RANK];
  const intptr_t rank = mlirShapedTypeGetRank(type);
  for (intptr_t i = 0; i < rank; i++)
    shape[i] = mlirShapedTypeGetDimSize(type, i);
  return mlirRankedTensorTypeGet(rank, shape, element, mlirAttributeGetNull());
}

static MlirValue converted(const nabla_conv *c, MlirValue value,
                           MlirType element) {
  const MlirType type = mlirValueGetType(value);
  if (mlirTypeEqual(mlirShapedTypeGetElementType(type), element)) return value;
  const MlirType to = with_element(type, element);
  return emit(c, "nabla.convert", 1, &value, &to, 0, NULL);
}

/* With dimensions in the order of `key`, of f32. */
static MlirValue ordered(const nabla_conv *c, intptr_t operand,
                         const char *key) {
  int64_t order[NABLA_MAX_RANK];
  MlirValue value = mlirOperationGetOperand(c->op, operand);
  const intptr_t rank = mlirShapedTypeGetRank(mlirValueGetType(value));
  read_order(c->op, key, rank, order);
  value = converted(c, value, mlirF32TypeGet(nabla_op_context(c->op)));
  return nabla_value_transpose(c->last, value, rank, order);
}

static MlirValue padded(const nabla_conv *c, MlirValue x) {
  static const char *const keys[] = {"low", "high", "input_dilation"};
  MlirContext context = nabla_op_context(c->op);
  int64_t lists[3][NABLA_MAX_RANK] = {{0}};
  bool is_any = false;
  const intptr_t rank = mlirShapedTypeGetRank(mlirValueGetType(x));
  for (int k = 0; k < 3; k++) {
    int64_t list[NABLA_MAX_RANK];
    const intptr_t count = nabla_op_integers(c->op, keys[k], list);
    for (intptr_t i = 0; i < count; i++) {
      lists[k][i + 2] = list[i] - (k == 2);
      is_any = is_any || lists[k][i + 2];
    }
  }
  if (!is_any) return x;
  const MlirType element = mlirF32TypeGet(context);
  const MlirType scalar =
      mlirRankedTensorTypeGet(0, NULL, element, mlirAttributeGetNull());
  const MlirNamedAttribute zero =
      nabla_named(context, "value",
                  mlirDenseElementsAttrSplatGet(
                      scalar, mlirFloatAttrDoubleGet(context, element, 0)));
  const MlirValue operands[2] = {
      x, emit(c, "nabla.constant", 0, NULL, NULL, 1, &zero)};
  MlirNamedAttribute attributes[3];
  static const char *const names[] = {"low", "high", "interior"};
  for (int k = 0; k < 3; k++)
    attributes[k] = nabla_named(context, names[k],
                                mlirDenseI64ArrayGet(context, rank, lists[k]));
  return emit(c, "nabla.pad", 2, operands, NULL, 3, attributes);
}

bool nabla_conv_prepare(nabla_conv *c) {
  int64_t out_of[NABLA_MAX_RANK], shape[NABLA_MAX_RANK];
  const MlirType result = nabla_result_type(c->op, 0);
  const intptr_t rank = mlirShapedTypeGetRank(result);
  c->x = ordered(c, 0, "input_dims");
  if (c->is_copied) c->x = padded(c, c->x);
  c->w = ordered(c, 1, "kernel_dims");
  if (mlirValueIsNull(c->x) || mlirValueIsNull(c->w)) return false;
  read_order(c->op, "output_dims", rank, out_of);
  for (intptr_t i = 0; i < rank; i++)
    shape[i] = mlirShapedTypeGetDimSize(result, out_of[i]);
  shape[0] = mlirShapedTypeGetDimSize(mlirValueGetType(c->x), 0);
  c->result = mlirRankedTensorTypeGet(rank, shape,
                                      mlirF32TypeGet(nabla_op_context(c->op)),
                                      mlirAttributeGetNull());
  return true;
}

MlirValue nabla_conv_finish(const nabla_conv *c, MlirValue result) {
  int64_t out_of[NABLA_MAX_RANK], order[NABLA_MAX_RANK];
  const MlirType type = nabla_result_type(c->op, 0);
  const intptr_t rank = mlirShapedTypeGetRank(type);
  read_order(c->op, "output_dims", rank, out_of);
  for (intptr_t i = 0; i < rank; i++) order[out_of[i]] = i;
  result = converted(c, result, mlirShapedTypeGetElementType(type));
  return nabla_value_transpose(c->last, result, rank, order);
}

/* ---- the call ------------------------------------------------------------ */

static void add_buffer(nabla_text *text, const char *name, MlirType type) {
  nabla_text_add(
      text, "  %%b%s = bufferization.to_buffer %%%s read_only : ", name, name);
  nabla_text_add_type(text, type);
  nabla_text_add(text, " to ");
  nabla_cluster_add_memref(text, type);
  nabla_text_add(text, "\n");
}

static int words_of(const nabla_conv *c) {
  return NABLA_CONV_WORDS + c->spec.operand_count;
}

static void add_operands(const nabla_conv *c, nabla_text *text) {
  char name[16], buffer[24];
  MlirValue values[2 * NABLA_CONV_STEPS];
  nabla_conv_arguments(c, values);
  for (int i = 0; i < c->spec.operand_count; i++) {
    const MlirType type = mlirValueGetType(values[i]);
    (void)snprintf(name, sizeof name, "o%d", i);
    add_buffer(text, name, type);
    (void)snprintf(buffer, sizeof buffer, "b%s", name);
    nabla_cluster_add_address(text, buffer, type);
    (void)snprintf(buffer, sizeof buffer, "bo%d_q", i);
    nabla_cluster_add_word(text, words_of(c), NABLA_CONV_WORDS + i, buffer);
  }
}

static void add_signature(const nabla_conv *c, const char *name,
                          nabla_text *text) {
  nabla_conv_add_globals(c, text);
  nabla_text_add(text, "func.func private @%s(%%x: ", name);
  nabla_text_add_type(text, mlirValueGetType(c->x));
  nabla_text_add(text, ", %%w: ");
  nabla_text_add_type(text, mlirValueGetType(c->w));
  nabla_conv_add_arguments(c, text);
  nabla_text_add(text, ") -> ");
  nabla_text_add_type(text, c->result);
  nabla_text_add(text,
                 " {\n  %%words = %s() : memref<%dxi64>\n"
                 "  %%zero = arith.constant 0 : index\n"
                 "  %%images = tensor.dim %%x, %%zero : ",
                 "memref.alloca", words_of(c));
  nabla_text_add_type(text, mlirValueGetType(c->x));
  nabla_text_add(text, "\n  %%n = arith.index_cast %%images : index to i64\n");
  nabla_conv_add_checks(c, text);
}

static void add_units(const nabla_conv *c, nabla_text *text) {
  const uint64_t products = nabla_conv_unit_products(&c->spec);
  const uint64_t grain = NABLA_CLUSTER_TASK_COST / products + 1;
  nabla_text_add(text,
                 "  %%each = arith.constant %" PRIu64
                 " : i64\n"
                 "  %%units = arith.muli %%n, %%each : i64\n"
                 "  %%grain = arith.constant %" PRId64 " : i64\n",
                 nabla_conv_units(&c->spec),
                 (int64_t)(grain | NABLA_PARALLEL_WHOLE));
}

void nabla_conv_write_call(const nabla_conv *c, const char *name,
                           const char *kernel, nabla_text *text) {
  static const char *const words[] = {"bx_q", "bw_q", "by_q"};
  const MlirType x = mlirValueGetType(c->x), w = mlirValueGetType(c->w);
  add_signature(c, name, text);
  add_buffer(text, "x", x);
  add_buffer(text, "w", w);
  nabla_text_add(text, "  %%by = memref.alloc(%s) : ",
                 nabla_is_dynamic(mlirShapedTypeGetDimSize(c->result, 0))
                     ? "%images"
                     : "");
  nabla_cluster_add_memref(text, c->result);
  nabla_text_add(text, "\n");
  nabla_cluster_add_address(text, "bx", x);
  nabla_cluster_add_address(text, "bw", w);
  nabla_cluster_add_address(text, "by", c->result);
  for (int i = 0; i < NABLA_CONV_WORDS; i++)
    nabla_cluster_add_word(text, words_of(c), i, words[i]);
  add_operands(c, text);
  add_units(c, text);
  nabla_cluster_add_parallel(text, words_of(c), kernel);
  nabla_text_add(text,
                 "  %%y = bufferization.to_tensor %%by restrict writable : ");
  nabla_cluster_add_memref(text, c->result);
  nabla_text_add(text, " to ");
  nabla_text_add_type(text, c->result);
  nabla_text_add(text, "\n  return %%y : ");
  nabla_text_add_type(text, c->result);
  nabla_text_add(text, "\n}\n");
}
