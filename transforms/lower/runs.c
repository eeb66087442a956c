/* See runs.h. */
#include "transforms/lower/runs.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/encoding/encoding_nested.h"
#include "lib/kernels/gather_rows.h"
#include "transforms/fused/fused_spec.h"
#include "transforms/ir/service_text.h"

/* Limits of a run: longer ones are not merged, since one thread decodes each
 * run, and fewer elements need no kernel. */
#define LONGEST 8192u
#define FEWEST  1024

bool nabla_runs_join(nabla_runs *runs, int64_t size, int64_t stride) {
  uint64_t length;
  if (nabla_is_dynamic(size) || size < 1) return false;
  if (size > 1 && (uint64_t)stride != runs->length) return false;
  if (__builtin_mul_overflow(runs->length, (uint64_t)size, &length))
    return false;
  if (runs->length > 1 && length > LONGEST) return false;
  runs->length = length;
  return true;
}

/* Adds the kernel arguments for codes, scales (or their components if they are
 * packed) and zero points. Returns false if kernels cannot read the array. */
static bool add_leaves(nabla_template *t, nabla_runs *runs, MlirType packed,
                       nabla_fused_spec *spec) {
  static const int nested[] = {NABLA_ARG_SCALES, NABLA_ARG_NESTED_SCALES,
                               NABLA_ARG_NESTED_OFFSET, NABLA_ARG_NESTED_MAP};
  int args[NABLA_MAX_LEAVES] = {NABLA_ARG_CODES};
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(packed, parts);
  intptr_t leaves = 1;
  for (uint32_t i = 1; i < count; i++) {
    MlirType type = nabla_component_type(&parts[i]);
    if (!nablaTypeIsAImplicit(type)) {
      args[leaves++] = i == 1 ? NABLA_ARG_SCALES : NABLA_ARG_ZERO_POINTS;
      continue;
    }
    if (!nabla_fused_nested_scales(type, spec)) return false;
    for (int j = 0; j < 4; j++) args[leaves++] = nested[j];
  }
  for (intptr_t i = 0; i < leaves; i++)
    nabla_kernel_args_add_component(&runs->call,
                                    mlirValueGetType(t->operands[i]), args[i]);
  return true;
}

static MlirType vector_of(int64_t size, MlirType element) {
  return mlirRankedTensorTypeGet(1, &size, element, mlirAttributeGetNull());
}

/* Returns the number of runs; NABLA_DYNAMIC if it is not known. */
static int64_t count_runs(const nabla_runs *runs,
                          const nabla_ssa_tensor *shape) {
  int64_t count = 1;
  for (intptr_t i = 0; i < runs->outer; i++) {
    if (nabla_is_dynamic(shape->dims[i])) return shape->dims[i];
    count *= shape->dims[i];
  }
  return count;
}

/* Defines %size and %runs, as indices. */
static void add_sizes(nabla_text *text, const nabla_runs *runs) {
  nabla_text_add(text,
                 "  %%zero = arith.constant 0 : index\n"
                 "  %%runs = tensor.dim %%a0, %%zero : ");
  nabla_text_add_type(text, runs->call.types[0]);
  nabla_text_add(text,
                 "\n  %%length = arith.constant %llu : index\n"
                 "  %%size = arith.muli %%runs, %%length : index\n",
                 (unsigned long long)runs->length);
}

/* Adds the kernel and the function that calls it, unless the module has them
 * already. */
static void add_function(nabla_template *t, const nabla_runs *runs,
                         const nabla_fused_spec *spec, const char *kernel) {
  const nabla_kernel_args *w = &runs->call;
  int64_t size = mlirShapedTypeGetDimSize(w->result, 0);
  if (nabla_module_has(t->op, kernel))
    nabla_text_add(&t->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  else
    nabla_gather_rows_emit(spec, kernel, &t->text);
  nabla_text_add(&t->text, NABLA_PARALLEL_TEXT "func.func private @%s",
                 runs->name.data);
  nabla_kernel_args_signature(w, true, true);
  nabla_text_add(&t->text, " {\n");
  nabla_kernel_args_open(w);
  add_sizes(&t->text, runs);
  nabla_kernel_args_result(w, nabla_is_dynamic(size) ? "size" : "");
  nabla_kernel_args_input(w, NABLA_ARG_X, 0);
  nabla_kernel_args_components(w);
  nabla_kernel_args_pointer(w);
  nabla_text_add(
      &t->text,
      "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
      "  %%n = arith.index_cast %%runs : index to i64\n"
      "  %%grain = arith.constant %lld : i64\n"
      "  func.call @nabla_parallel(%%kernel, %%wp, %%n, %%grain) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
      kernel,
      (long long)(nabla_gather_rows_grain(spec) | NABLA_PARALLEL_WHOLE));
  nabla_kernel_args_return(w);
}

bool nabla_runs_begin(nabla_template *t, nabla_runs *runs, MlirType packed,
                      const nabla_ssa_tensor *shape) {
  nabla_fused_spec spec;
  nabla_text kernel = {0};
  if (nabla_fused_weight_of(packed, t->spec.features, &spec)) return false;
  int open = 0;
  for (intptr_t i = 0; i < shape->rank; i++) {
    if (!shape->dims[i]) return false; /* nothing to decode */
    open += nabla_is_dynamic(shape->dims[i]);
  }
  spec.y_type = spec.w_type;
  spec.x_type = spec.w_type = NABLA_DTYPE_F32;
  spec.m_min = spec.m_max = spec.n = spec.stride_k = 1;
  spec.k = runs->length;
  spec.stride_n = runs->aligned;
  int64_t count = count_runs(runs, shape), all = count;
  if (!nabla_is_dynamic(count) &&
      (__builtin_mul_overflow(count, (int64_t)runs->length, &all) ||
       all < FEWEST))
    return false;
  runs->call.text = &t->text;
  runs->call.result = vector_of(all, nabla_array_element(packed));
  nabla_kernel_args_add(
      &runs->call,
      vector_of(count, mlirIntegerTypeGet(nabla_op_context(t->op), 64)));
  if (open > 1 || !add_leaves(t, runs, packed, &spec) ||
      nabla_gather_rows_objection(&spec))
    return false;
  nabla_text_add(&kernel, "nabla_runs_as_%s_", nabla_dtype_name(spec.y_type));
  nabla_fused_name(&spec, &kernel);
  nabla_text_add(&runs->name, "%s_of_", kernel.data ? kernel.data : "");
  if (nabla_is_dynamic(count))
    nabla_text_add(&runs->name, "any");
  else
    nabla_text_add(&runs->name, "%lld", (long long)count);
  bool good = !kernel.failed && !runs->name.failed;
  if (good) add_function(t, runs, &spec, kernel.data);
  nabla_text_deinit(&kernel);
  return good;
}

nabla_ssa_tensor nabla_runs_end(nabla_template *t, const nabla_runs *runs,
                                const nabla_ssa_tensor *starts,
                                const nabla_ssa_tensor *shape) {
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, starts);
  nabla_ssa_tensor out = {.element = shape->element, .rank = 1};
  out.dims[0] = mlirShapedTypeGetDimSize(runs->call.result, 0);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = func.call @%s(%%v%u", out.value,
                 runs->name.data, flat.value);
  for (intptr_t i = 0; i < runs->call.components; i++)
    nabla_text_add(&t->text, ", %%v%u", nabla_template_operand(t, i).value);
  nabla_text_add(&t->text, ") : ");
  nabla_kernel_args_signature(&runs->call, false, false);
  nabla_text_add(&t->text, "\n");
  return nabla_ssa_tensor_unflatten(t, &out, shape);
}

void nabla_runs_deinit(nabla_runs *runs) { nabla_text_deinit(&runs->name); }
