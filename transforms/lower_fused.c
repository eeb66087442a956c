/* nabla-lower-fused: one kernel for each distinct fused operation of a module,
 * and a function around it that gathers its arguments and spreads it over
 * threads. The operation becomes a call of that function, which hides the
 * addresses: passes before bufferization would merge or fold what takes them,
 * and then what reads x would seem to stand where x was made, before writes
 * that are behind. */
#include "transforms/lower_fused.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding.h"
#include "transforms/components.h"
#include "transforms/ir.h"
#include "transforms/passes.h"

static bool is_fused(MlirOperation op) {
  return nabla_is(op, "nabla.fused_dot");
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

/* Scales in dynamic8, all of the storage in order, whose absmax is dense. */
static bool are_nested(MlirType type) {
  if (!nablaTypeIsAImplicit(type)) return false;
  nabla_encoding_info info = nabla_implicit_encoding(type);
  nabla_strided view = nabla_implicit_strided(type);
  return info.kind == NABLA_KIND_DYNAMIC8 && mlirAttributeIsNull(info.nested) &&
         mlirTypeIsAF32(nabla_array_element(type)) && view.rank == 1 &&
         view.offset == 0 && view.strides[0] == 1 &&
         (uint64_t)view.shape[0] == nabla_implicit_storage_elements(type);
}

static void add_component(nabla_fused_lowering *l, MlirValue value, int word) {
  l->operands[l->count++] = value;
  l->words[l->components++] = word;
}

/* Codes of scales where the scales are; the rest behind all others. */
static void gather_nested(nabla_fused_lowering *l, MlirValue *scales,
                          MlirValue rest[3]) {
  MlirValue parts[NABLA_MAX_PARTS];
  MlirType type = mlirValueGetType(*scales);
  if (!are_nested(type) || nabla_components_split(*scales, l->op, parts) != 4) {
    *scales = plain_scales(l->op, *scales);
    return;
  }
  l->spec.format.scale = NABLA_SCALE_DYNAMIC8;
  l->spec.nested_block = nabla_implicit_encoding(type).block;
  *scales = parts[0];
  for (int i = 0; i < 3; i++) rest[i] = parts[i + 1];
}

static bool gather(nabla_fused_lowering *l) {
  MlirOperation op = l->op;
  MlirValue components[NABLA_MAX_PARTS], nested[3] = {{NULL}, {NULL}, {NULL}};
  if (mlirOperationIsNull(function_of(op))) {
    nabla_error_at(op, "is lowered inside of func.func only");
    return false;
  }
  intptr_t count =
      nabla_components_split(mlirOperationGetOperand(op, 1), op, components);
  if (count != (l->spec.format.zero_point ? 3 : 2)) {
    nabla_error_at(op, "has a weight that is not codes and scales");
    return false;
  }
  gather_nested(l, &components[1], nested);
  l->operands[l->count++] = mlirOperationGetOperand(op, 0);
  add_component(l, components[0], NABLA_FUSED_CODES);
  add_component(l, components[1], NABLA_FUSED_SCALES);
  if (count > 2) add_component(l, components[2], NABLA_FUSED_ZERO_POINTS);
  for (int i = 0; i < 3; i++)
    if (!mlirValueIsNull(nested[i]))
      add_component(l, nested[i], NABLA_FUSED_NESTED_SCALES + i);
  for (intptr_t i = 2; i < mlirOperationGetNumOperands(op); i++)
    l->operands[l->count++] = mlirOperationGetOperand(op, i);
  return true;
}

/* Loads dimension `dim` of argument `index` as an i64, once. */
static void add_dim(nabla_fused_lowering *l, const char *name, intptr_t index,
                    int dim) {
  nabla_text_add(&l->text,
                 "  %%%s_i = arith.constant %d : index\n"
                 "  %%%s_d = tensor.dim %%a%d, %%%s_i : ",
                 name, dim, name, (int)index, name);
  nabla_text_add_type(&l->text, mlirValueGetType(l->operands[index]));
  nabla_text_add(&l->text,
                 "\n  %%%s = arith.index_cast %%%s_d : index to i64\n", name,
                 name);
}

static void require(nabla_fused_lowering *l, intptr_t argument, int dim,
                    const char *equals) {
  char name[32];
  MlirType type = mlirValueGetType(l->operands[argument]);
  MlirType x = mlirValueGetType(l->operands[0]);
  bool known = strcmp(equals, "m") != 0 ||
               !nabla_is_dynamic(mlirShapedTypeGetDimSize(x, 0));
  if (known && !nabla_is_dynamic(mlirShapedTypeGetDimSize(type, dim)))
    return; /* both are static: verified */
  snprintf(name, sizeof name, "r%d_%d", (int)argument, dim);
  add_dim(l, name, argument, dim);
  nabla_text_add(&l->text,
                 "  func.call @nabla_require_equal(%%%s, %%%s, %%where) : "
                 "(i64, i64, !llvm.ptr) -> ()\n",
                 name, equals);
}

/* What is not known to agree before the run is checked in it. */
static void add_checks(nabla_fused_lowering *l) {
  nabla_text_add(&l->text,
                 "  %%n = arith.constant %llu : i64\n"
                 "  %%k = arith.constant %llu : i64\n"
                 "  %%where = llvm.mlir.addressof @nabla_where_fused_dot : "
                 "!llvm.ptr\n",
                 (unsigned long long)l->spec.n, (unsigned long long)l->spec.k);
  add_dim(l, "m", 0, 0);
  require(l, 0, 1, "k");
  intptr_t at = 1 + l->components;
  for (uint32_t i = 0; i < l->spec.step_count; i++) {
    if (l->spec.steps[i] == NABLA_STEP_BIAS) {
      require(l, at++, 0, "n");
    } else if (l->spec.steps[i] == NABLA_STEP_ADD) {
      require(l, at, 0, "m");
      require(l, at++, 1, "n");
    }
  }
}

/* Components may be a part of others, a slice that a scan takes: their buffers
 * begin anywhere. All else begins where its memory does. */
static const char *layout_of(MlirType tensor) {
  return mlirShapedTypeGetRank(tensor) ? "strided<[1], offset: ?>"
                                       : "strided<[], offset: ?>";
}

static bool is_component(const nabla_fused_lowering *l, intptr_t argument) {
  return argument >= 1 && argument <= l->components;
}

static void add_memref(nabla_text *text, MlirType tensor, bool anywhere) {
  nabla_text_add(text, "memref<");
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(tensor); i++) {
    int64_t dim = mlirShapedTypeGetDimSize(tensor, i);
    if (nabla_is_dynamic(dim))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%lldx", (long long)dim);
  }
  nabla_text_add_type(text, mlirShapedTypeGetElementType(tensor));
  if (anywhere) nabla_text_add(text, ", %s", layout_of(tensor));
  nabla_text_add(text, ">");
}

/* Adds to the address %pWORD the offset at which `buffer` begins. */
static void add_offset(nabla_fused_lowering *l, int word, const char *buffer,
                       MlirType tensor) {
  MlirType element = mlirShapedTypeGetElementType(tensor);
  int bytes = mlirTypeIsAF32(element) ? 4 : mlirTypeIsAInteger(element) ? 1 : 2;
  nabla_text_add(&l->text,
                 "  %%m%d:%d = memref.extract_strided_metadata %%%s : ", word,
                 mlirShapedTypeGetRank(tensor) ? 4 : 2, buffer);
  add_memref(&l->text, tensor, true);
  nabla_text_add(&l->text, " -> memref<");
  nabla_text_add_type(&l->text, element);
  nabla_text_add(&l->text,
                 ">, index%s\n"
                 "  %%s%d = arith.constant %d : index\n"
                 "  %%o%d = arith.muli %%m%d#1, %%s%d : index\n"
                 "  %%t%d = arith.addi %%p%d, %%o%d : index\n",
                 mlirShapedTypeGetRank(tensor) ? ", index, index" : "", word,
                 bytes, word, word, word, word, word, word);
}

static void add_address(nabla_fused_lowering *l, int word, const char *buffer,
                        MlirType tensor, bool anywhere) {
  char name[32];
  nabla_text_add(&l->text,
                 "  %%p%d = memref.extract_aligned_pointer_as_index %%%s : ",
                 word, buffer);
  add_memref(&l->text, tensor, anywhere);
  nabla_text_add(&l->text, " -> index\n");
  if (anywhere) add_offset(l, word, buffer, tensor);
  nabla_text_add(&l->text, "  %%q%d = arith.index_cast %%%c%d : index to i64\n",
                 word, anywhere ? 't' : 'p', word);
  snprintf(name, sizeof name, "q%d", word);
  nabla_fused_add_word(l, word, name);
}

/* The address of a tensor argument that the kernel only reads. */
static void add_input(nabla_fused_lowering *l, int word, intptr_t argument) {
  MlirType type = mlirValueGetType(l->operands[argument]);
  char buffer[32];
  snprintf(buffer, sizeof buffer, "b%d", word);
  nabla_text_add(&l->text,
                 "  %%%s = bufferization.to_buffer %%a%d read_only : ", buffer,
                 (int)argument);
  nabla_text_add_type(&l->text, type);
  nabla_text_add(&l->text, " to ");
  add_memref(&l->text, type, is_component(l, argument));
  nabla_text_add(&l->text, "\n");
  add_address(l, word, buffer, type, is_component(l, argument));
}

static void add_call(nabla_fused_lowering *l) {
  MlirType result = nabla_result_type(l->op, 0);
  bool dynamic = nabla_is_dynamic(mlirShapedTypeGetDimSize(result, 0));
  nabla_text_add(&l->text,
                 "  %%y = memref.alloc(%s) : ", dynamic ? "%m_d" : "");
  add_memref(&l->text, result, false);
  nabla_text_add(&l->text, "\n");
  add_input(l, NABLA_FUSED_X, 0);
  add_address(l, NABLA_FUSED_Y, "y", result, false);
  nabla_fused_add_word(l, NABLA_FUSED_M, "m");
  for (intptr_t i = 0; i < l->components; i++) add_input(l, l->words[i], 1 + i);
  for (intptr_t i = 1 + l->components; i < l->count; i++)
    add_input(l, NABLA_FUSED_EPILOGUE + (int)(i - 1 - l->components), i);
  nabla_text_add(&l->text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%dxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n",
                 NABLA_FUSED_WORDS);
  nabla_fused_add_classes(l);
  nabla_fused_add_prepare(l);
  nabla_text_add(
      &l->text,
      "  func.call @nabla_parallel(%%kernel%s, %%wp, %%n, %%grain%s) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
      "  %%out = bufferization.to_tensor %%y restrict writable : ",
      nabla_fused_chosen(l), nabla_fused_chosen(l));
  add_memref(&l->text, result, false);
  nabla_text_add(&l->text, " to ");
  nabla_text_add_type(&l->text, result);
  nabla_text_add(&l->text, "\n  return %%out : ");
  nabla_text_add_type(&l->text, result);
  nabla_text_add(&l->text, "\n}\n");
}

/* The kernel's name and, of what differs between its callers, the shapes. */
static void name_function(nabla_fused_lowering *l) {
  nabla_text_add(&l->function, "%s_on", l->name.data ? l->name.data : "");
  for (intptr_t i = 0; i < l->count; i++) {
    MlirType type = mlirValueGetType(l->operands[i]);
    if (is_component(l, i)) continue; /* codes and scales are the kernel's */
    for (intptr_t d = 0; d < mlirShapedTypeGetRank(type); d++) {
      int64_t dim = mlirShapedTypeGetDimSize(type, d);
      if (nabla_is_dynamic(dim))
        nabla_text_add(&l->function, "_d");
      else
        nabla_text_add(&l->function, "_%lld", (long long)dim);
    }
  }
}

/* "(%a0: TYPE, ...) -> TYPE", or without the names; `layouts`: with the layout
 * of what may begin anywhere. */
static void add_signature(nabla_fused_lowering *l, bool names, bool layouts) {
  nabla_text_add(&l->text, "(");
  for (intptr_t i = 0; i < l->count; i++) {
    if (i) nabla_text_add(&l->text, ", ");
    if (names) nabla_text_add(&l->text, "%%a%d: ", (int)i);
    nabla_text_add_type(&l->text, mlirValueGetType(l->operands[i]));
    if (layouts && is_component(l, i))
      nabla_text_add(&l->text, " {bufferization.buffer_layout = %s}",
                     layout_of(mlirValueGetType(l->operands[i])));
  }
  nabla_text_add(&l->text, ") -> ");
  nabla_text_add_type(&l->text, nabla_result_type(l->op, 0));
}

/* The words are on the stack of a function of their own: where the operation
 * stands could be in a loop. */
static void add_function(nabla_fused_lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++) nabla_fused_add_kernel(l, i);
  nabla_text_add(&l->text, "\nfunc.func private @%s", l->function.data);
  if (nabla_module_has(l->op, l->function.data)) {
    add_signature(l, false, false);
    nabla_text_add(&l->text, "\n");
    return;
  }
  add_signature(l, true, true);
  nabla_text_add(&l->text, " {\n  %%words = %s() : memref<%dxi64>\n",
                 "memref.alloca", NABLA_FUSED_WORDS);
  add_checks(l);
  add_call(l);
}

static void add_module(nabla_fused_lowering *l) {
  nabla_text_add(
      &l->text,
      "func.func private @nabla_parallel(!llvm.ptr, !llvm.ptr, i64, i64)\n"
      "func.func private @nabla_require_equal(i64, i64, !llvm.ptr)\n"
      "llvm.mlir.global internal constant @nabla_where_fused_dot("
      "\"nabla.fused_dot\\00\") {addr_space = 0 : i32}\n");
  add_function(l);
  nabla_text_add(&l->text, "func.func @t");
  add_signature(l, true, false);
  nabla_text_add(&l->text, " {\n  %%y = func.call @%s(", l->function.data);
  for (intptr_t i = 0; i < l->count; i++)
    nabla_text_add(&l->text, "%s%%a%d", i ? ", " : "", (int)i);
  nabla_text_add(&l->text, ") : ");
  add_signature(l, false, false);
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

static bool lower(MlirOperation op, void *features) {
  nabla_fused_lowering l = {.op = op};
  const char *objection =
      nabla_fused_spec_of(nabla_operand_type(op, 0), nabla_operand_type(op, 1),
                          *(const nabla_features *)features, &l.spec);
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

MlirLogicalResult nabla_run_lower_fused(MlirOperation op,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)prepared;
  nabla_features features = nabla_features_parse(values[0].string);
  return nabla_ops_each(op, is_fused, lower, &features);
}
