/* nabla-lower-fused: one kernel for each distinct fused operation of a module,
 * and a function around it that gathers its arguments and spreads it over
 * threads. The operation becomes a call of that function, which hides the
 * addresses: passes before bufferization would merge or fold what takes them,
 * and then what reads x would seem to stand where x was made, before writes
 * that are behind. */
#include "transforms/fused/lower_fused.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "transforms/fused/single_gemm.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"
#include "transforms/ir/service_text.h"
#include "transforms/passes.h"

static bool is_fused(MlirOperation op) {
  return nabla_is(op, "nabla.fused_dot") ||
         nabla_is(op, "nabla.fused_attention");
}

/* The function around `op`; null when it stands elsewhere. */
static MlirOperation function_of(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "func.func"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* Scales that are packed themselves, as f32: kernels read these. */
static MlirValue plain_scales(MlirOperation op, MlirValue scales) {
  if (!nablaTypeIsAImplicit(mlirValueGetType(scales))) return scales;
  nablaOptimizationRemark(mlirOperationGetLocation(op), true,
                          "ScalesMaterialized", "nabla-lower-fused",
                          "decodes the packed scales of its weight in front of "
                          "the kernel: kernels read dense scales and dynamic8 "
                          "with f32 absmax");
  nabla_op_spec spec = {"nabla.materialize", 1, &scales, -1, NULL, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static bool is_dense(const nabla_fused_lowering *l) {
  return !nablaTypeIsAImplicit(nabla_operand_type(l->op, 1));
}

static void add_argument(nabla_fused_lowering *l, MlirValue value) {
  l->operands[l->count++] = value;
  nabla_kernel_args_add(&l->call, mlirValueGetType(value));
}

static void add_component(nabla_fused_lowering *l, MlirValue value, int arg) {
  l->operands[l->count++] = value;
  nabla_kernel_args_add_component(&l->call, mlirValueGetType(value), arg);
}

/* Codes of scales where the scales are; the rest behind all others. */
static void gather_nested(nabla_fused_lowering *l, MlirValue *scales,
                          MlirValue rest[3]) {
  MlirValue parts[NABLA_MAX_PARTS];
  MlirType type = mlirValueGetType(*scales);
  nabla_fused_spec spec = l->spec;
  if (!nablaTypeIsAImplicit(type) || !nabla_fused_nested_scales(type, &spec) ||
      nabla_components_split(*scales, l->op, parts) != 4) {
    *scales = plain_scales(l->op, *scales);
    return;
  }
  l->spec = spec;
  *scales = parts[0];
  for (int i = 0; i < 3; i++) rest[i] = parts[i + 1];
}

/* The arguments of a product with a dense weight. */
static void gather_dense(nabla_fused_lowering *l) {
  l->call.text = &l->text;
  l->call.result = nabla_result_type(l->op, 0);
  add_argument(l, mlirOperationGetOperand(l->op, 0));
  add_component(l, mlirOperationGetOperand(l->op, 1), NABLA_ARG_CODES);
  for (intptr_t i = 2; i < mlirOperationGetNumOperands(l->op); i++)
    add_argument(l, mlirOperationGetOperand(l->op, i));
}

static bool gather(nabla_fused_lowering *l) {
  MlirOperation op = l->op;
  MlirValue components[NABLA_MAX_PARTS], nested[3] = {{NULL}, {NULL}, {NULL}};
  if (mlirOperationIsNull(function_of(op))) {
    nabla_error_at(op, "is lowered inside of func.func only");
    return false;
  }
  if (is_dense(l)) {
    gather_dense(l);
    return true;
  }
  intptr_t count =
      nabla_components_split(mlirOperationGetOperand(op, 1), op, components);
  intptr_t wanted = l->spec.w.ggml ? 1 : l->spec.w.format.zero_point ? 3 : 2;
  if (count != wanted) {
    nabla_error_at(op, "has a weight that is not codes and scales");
    return false;
  }
  if (count > 1) gather_nested(l, &components[1], nested);
  l->call.text = &l->text;
  l->call.result = nabla_result_type(op, 0);
  add_argument(l, mlirOperationGetOperand(op, 0));
  add_component(l, components[0], NABLA_ARG_CODES);
  if (count > 1) add_component(l, components[1], NABLA_ARG_SCALES);
  if (count > 2) add_component(l, components[2], NABLA_ARG_ZERO_POINTS);
  for (int i = 0; i < 3; i++)
    if (!mlirValueIsNull(nested[i]))
      add_component(l, nested[i], NABLA_ARG_NESTED_SCALES + i);
  for (intptr_t i = 2; i < mlirOperationGetNumOperands(op); i++)
    add_argument(l, mlirOperationGetOperand(op, i));
  return true;
}

/* Loads dimension `dim` of argument `index` as an i64, once. */
void nabla_fused_add_dim(nabla_fused_lowering *l, const char *name,
                         intptr_t index, int dim) {
  nabla_text_add(&l->text,
                 "  %%%s_i = arith.constant %d : index\n"
                 "  %%%s_d = tensor.dim %%a%d, %%%s_i : ",
                 name, dim, name, (int)index, name);
  nabla_text_add_type(&l->text, mlirValueGetType(l->operands[index]));
  nabla_text_add(&l->text,
                 "\n  %%%s = arith.index_cast %%%s_d : index to i64\n", name,
                 name);
}

void nabla_fused_add_product(nabla_fused_lowering *l, const char *name,
                             intptr_t index, int64_t from) {
  MlirType type = mlirValueGetType(l->operands[index]);
  char factor[48];
  int count = 0;
  nabla_text_add(&l->text, "  %%%s_0 = arith.constant 1 : i64\n", name);
  for (int64_t d = from; d < mlirShapedTypeGetRank(type); d++) {
    (void)snprintf(factor, sizeof factor, "%s_d%d", name, (int)d);
    nabla_fused_add_dim(l, factor, index, (int)d);
    nabla_text_add(&l->text, "  %%%s_%d = arith.muli %%%s_%d, %%%s : i64\n",
                   name, count + 1, name, count, factor);
    count++;
  }
  nabla_text_add(&l->text,
                 "  %%%s_no = arith.constant 0 : i64\n"
                 "  %%%s = arith.addi %%%s_%d, %%%s_no : i64\n",
                 name, name, name, count, name);
}

/* `known`: whether %EQUALS is known when the program is compiled. */
static void require(nabla_fused_lowering *l, intptr_t argument, int64_t dim,
                    const char *equals, bool known) {
  char name[32];
  MlirType type = mlirValueGetType(l->operands[argument]);
  if (known && !nabla_is_dynamic(mlirShapedTypeGetDimSize(type, (intptr_t)dim)))
    return; /* both are static: verified */
  snprintf(name, sizeof name, "r%d_%d", (int)argument, (int)dim);
  nabla_fused_add_dim(l, name, argument, (int)dim);
  nabla_text_add(&l->text,
                 "  func.call @nabla_require_equal(%%%s, %%%s, %%where) : "
                 "(i64, i64, !llvm.ptr) -> ()\n",
                 name, equals);
}

static bool is_known(const nabla_fused_lowering *l, int64_t dim_of_x) {
  MlirType x = mlirValueGetType(l->operands[0]);
  return !nabla_is_dynamic(mlirShapedTypeGetDimSize(x, (intptr_t)dim_of_x));
}

/* The batches of argument `index`, in the dimensions `dims` (NULL: the first
 * ones), are as many as those of x. */
static void require_batches(nabla_fused_lowering *l, intptr_t index,
                            const int64_t *dims) {
  char name[32];
  for (intptr_t i = 0; i < l->dims.batches; i++) {
    (void)snprintf(name, sizeof name, "batch%d", (int)i);
    require(l, index, dims ? dims[i] : i, name,
            is_known(l, l->dims.x_batch[i]));
  }
}

/* %NAME: a size of the weight, `known` or that of its dimension `dim`. */
static void add_size(nabla_fused_lowering *l, const char *name, uint32_t open,
                     uint64_t known, int64_t dim) {
  if (l->spec.open & open)
    nabla_fused_add_dim(l, name, 1, (int)dim);
  else
    nabla_text_add(&l->text, "  %%%s = arith.constant %llu : i64\n", name,
                   (unsigned long long)known);
}

/* N, K, and what a kernel reads of them. */
static void add_sizes(nabla_fused_lowering *l) {
  const nabla_fused_dims *d = &l->dims;
  add_size(l, "n", NABLA_OPEN_N, l->spec.n, d->w_free);
  add_size(l, "k", NABLA_OPEN_K, l->spec.k, d->w_contracted);
  if (!l->spec.open) return;
  nabla_kernel_args_store(&l->call, NABLA_ARG_N, "n");
  nabla_kernel_args_store(&l->call, NABLA_ARG_K, "k");
  if (!(l->spec.open & NABLA_OPEN_STRIDE)) return;
  nabla_fused_add_product(
      l, "w_stride", 1,
      1 + (d->w_free < d->w_contracted ? d->w_free : d->w_contracted));
  nabla_kernel_args_store(&l->call, NABLA_ARG_W_STRIDE, "w_stride");
}

/* What is not known to agree before the run is checked in it. */
static void add_checks(nabla_fused_lowering *l) {
  char name[32];
  const nabla_fused_dims *d = &l->dims;
  const bool knows_n = !(l->spec.open & NABLA_OPEN_N);
  add_sizes(l);
  nabla_text_add(&l->text,
                 "  %%where = llvm.mlir.addressof @nabla_where_fused_dot : "
                 "!llvm.ptr\n");
  nabla_fused_add_dim(l, "m", 0, (int)d->x_free);
  for (intptr_t i = 0; i < d->batches; i++) {
    (void)snprintf(name, sizeof name, "batch%d", (int)i);
    nabla_fused_add_dim(l, name, 0, (int)d->x_batch[i]);
  }
  require(l, 0, d->x_contracted, "k", !(l->spec.open & NABLA_OPEN_K));
  if (!(l->spec.open & NABLA_OPEN_K) && is_dense(l))
    require(l, 1, d->w_contracted, "k", true);
  require_batches(l, 1, d->w_batch);
  intptr_t at = 1 + l->call.components;
  for (uint32_t i = 0; i < l->spec.step_count; i++) {
    if (l->spec.steps[i] == NABLA_STEP_BIAS) {
      require(l, at++, 0, "n", knows_n);
    } else if (l->spec.steps[i] == NABLA_STEP_ADD) {
      require_batches(l, at, NULL);
      require(l, at, d->batches, "m", is_known(l, d->x_free));
      require(l, at++, d->batches + 1, "n", knows_n);
    }
  }
}

/* The memory of the result, whose batches and rows may not be known. */
static void add_result(nabla_fused_lowering *l) {
  nabla_text sizes = {0};
  MlirType type = l->call.result;
  for (intptr_t i = 0; i <= l->dims.batches + 1; i++) {
    if (!nabla_is_dynamic(mlirShapedTypeGetDimSize(type, i))) continue;
    if (sizes.size) nabla_text_add(&sizes, ", %%");
    if (i < l->dims.batches)
      nabla_text_add(&sizes, "batch%d_d", (int)i);
    else
      nabla_text_add(&sizes, i == l->dims.batches ? "m_d" : "n_d");
  }
  nabla_kernel_args_result(&l->call, sizes.data ? sizes.data : "");
  l->text.failed |= sizes.failed;
  nabla_text_deinit(&sizes);
}

static void add_call(nabla_fused_lowering *l) {
  const nabla_kernel_args *w = &l->call;
  char kernel[32], grain[32];
  add_result(l);
  nabla_kernel_args_input(w, NABLA_ARG_X, 0);
  nabla_kernel_args_store(w, NABLA_ARG_M, "m");
  nabla_kernel_args_components(w);
  for (intptr_t i = 1 + w->components; i < w->count; i++)
    nabla_kernel_args_input(
        w, NABLA_ARG_EPILOGUE + (int)(i - 1 - w->components), i);
  nabla_kernel_args_pointer(w);
  nabla_fused_add_batch_args(l);
  nabla_fused_add_classes(l);
  nabla_fused_add_prepare(l);
  (void)snprintf(kernel, sizeof kernel, "kernel%s", nabla_fused_chosen(l));
  (void)snprintf(grain, sizeof grain, "grain%s", nabla_fused_chosen(l));
  nabla_fused_add_parallel(l, kernel, "n", grain, 0);
  nabla_kernel_args_return(w);
}

/* The dimensions of batches, which the kernel's name does not have. */
static void name_batches(nabla_fused_lowering *l) {
  const nabla_fused_dims *d = &l->dims;
  MlirType w = mlirValueGetType(l->operands[1]);
  nabla_text_add(&l->function, "_batch_%d%d%d%d", (int)d->x_free,
                 (int)d->x_contracted, (int)d->w_free, (int)d->w_contracted);
  for (intptr_t i = 0; i < d->batches; i++)
    nabla_text_add(&l->function, "_%dx%d", (int)d->x_batch[i],
                   (int)d->w_batch[i]);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(w); i++) {
    int64_t size = mlirShapedTypeGetDimSize(w, i);
    if (nabla_is_dynamic(size))
      nabla_text_add(&l->function, "_d");
    else
      nabla_text_add(&l->function, "_%lld", (long long)size);
  }
}

/* The kernel's name and, of what differs between its callers, the shapes. */
static void name_function(nabla_fused_lowering *l) {
  nabla_text_add(&l->function, "%s_on", l->name.data ? l->name.data : "");
  for (intptr_t i = 0; i < l->count; i++) {
    MlirType type = mlirValueGetType(l->operands[i]);
    if (i >= 1 && i <= l->call.components && !l->spec.open)
      continue; /* they are the kernel's */
    for (intptr_t d = 0; d < mlirShapedTypeGetRank(type); d++) {
      int64_t dim = mlirShapedTypeGetDimSize(type, d);
      if (nabla_is_dynamic(dim))
        nabla_text_add(&l->function, "_d");
      else
        nabla_text_add(&l->function, "_%lld", (long long)dim);
    }
  }
  if (l->dims.batches) name_batches(l);
}

/* The words are on the stack of a function of their own: where the operation
 * stands could be in a loop. */
static void add_function(nabla_fused_lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++) {
    nabla_fused_add_kernel(l, i);
    nabla_fused_add_batches(l, i);
  }
  nabla_text_add(&l->text, "\nfunc.func private @%s", l->function.data);
  if (nabla_module_has(l->op, l->function.data)) {
    nabla_kernel_args_signature(&l->call, false, false);
    nabla_text_add(&l->text, "\n");
    return;
  }
  nabla_kernel_args_signature(&l->call, true, true);
  nabla_text_add(&l->text, " {\n");
  nabla_kernel_args_open(&l->call);
  add_checks(l);
  add_call(l);
}

static void add_module(nabla_fused_lowering *l) {
  nabla_text_add(&l->text, NABLA_PARALLEL_TEXT NABLA_REQUIRE_EQUAL_TEXT
                 "llvm.mlir.global internal constant @nabla_where_fused_dot("
                 "\"nabla.fused_dot\\00\") {addr_space = 0 : i32}\n");
  add_function(l);
  nabla_text_add(&l->text, "func.func @t");
  nabla_kernel_args_signature(&l->call, true, false);
  nabla_text_add(&l->text, " {\n  %%y = func.call @%s(", l->function.data);
  for (intptr_t i = 0; i < l->count; i++)
    nabla_text_add(&l->text, "%s%%a%d", i ? ", " : "", (int)i);
  nabla_text_add(&l->text, ") : ");
  nabla_kernel_args_signature(&l->call, false, false);
  nabla_text_add(&l->text, "\n  return %%y : ");
  nabla_text_add_type(&l->text, nabla_result_type(l->op, 0));
  nabla_text_add(&l->text, "\n}\n");
}

/* Names the wrapper and the kernel of each range of M. */
static bool name_kernels(nabla_fused_lowering *l) {
  bool failed = false;
  nabla_fused_name(&l->spec, &l->name);
  name_function(l);
  l->class_count = nabla_fused_classes(&l->spec, l->classes);
  for (uint32_t i = 0; i < l->class_count; i++) {
    nabla_fused_name(&l->classes[i], &l->names[i]);
    failed = failed || l->names[i].failed;
  }
  return !failed && !l->name.failed && !l->function.failed;
}

bool nabla_lower_fused_cpu(MlirOperation op, const nabla_target *target,
                           const nabla_target_settings *settings) {
  nabla_fused_lowering l = {.op = op, .dims = nabla_fused_dims_of(op)};
  const char *objection =
      nabla_fused_spec_of_op(target, op, settings->features, &l.spec);
  if (nablaTypeIsAImplicit(nabla_operand_type(op, 1)))
    l.spec.numerics = settings->numerics;
  else
    l.spec.numerics = nabla_fused_dense_numerics(&l.spec);
  if (objection) {
    nabla_error_at(op, "has no kernel: %s", objection);
    return false;
  }
  if (!nabla_fused_spec_epilogue(op, &l.spec)) {
    nabla_error_at(op, "has an epilogue that no kernel has");
    return false;
  }
  if (!gather(&l)) return false;
  bool done = name_kernels(&l);
  if (done) {
    nabla_fused_report(&l);
    add_module(&l);
    done = nabla_template_replace(op, l.count, l.operands, &l.text);
  } else {
    nabla_error_at(op, "could not be named: out of memory");
  }
  for (uint32_t i = 0; i < l.class_count; i++) nabla_text_deinit(&l.names[i]);
  nabla_text_deinit(&l.name);
  nabla_text_deinit(&l.function);
  nabla_text_deinit(&l.text);
  return done;
}

typedef struct lowering {
  const nabla_target *target;
  nabla_target_settings settings;
} lowering;

static bool lower(MlirOperation op, void *given) {
  const lowering *l = given;
  if (nabla_is(op, "nabla.fused_attention"))
    return l->target->lower_attention(op, &l->settings);
  return l->target->lower_fused(op, l->target, &l->settings);
}

MlirLogicalResult nabla_run_lower_fused(MlirOperation op,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)prepared;
  lowering l = {.target = nabla_target_read(op, values[2].string)};
  if (!l.target) return mlirLogicalResultFailure();
  l.settings.features = l.target->features(values[0].string);
  if (!nabla_numerics_find(values[1].string, &l.settings.numerics))
    return nabla_error_at(op,
                          "nabla-lower-fused: numerics '%s' is none of f32, "
                          "bf16, int8",
                          values[1].string);
  nabla_single_gemm_mark(op);
  return nabla_ops_each(op, is_fused, lower, &l);
}
