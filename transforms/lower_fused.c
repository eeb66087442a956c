/* nabla-lower-fused: one kernel for each distinct fused operation of a module,
 * and a function around it that gathers its arguments and spreads it over
 * threads. The operation becomes a call of that function, which hides the
 * addresses: passes before bufferization would merge or fold what takes them,
 * and then what reads x would seem to stand where x was made, before writes
 * that are behind. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding.h"
#include "transforms/components.h"
#include "transforms/fused_spec.h"
#include "transforms/ir.h"
#include "transforms/passes.h"
#include "transforms/products.h"

static bool is_fused(MlirOperation op) {
  return nabla_is(op, "nabla.fused_dot");
}

typedef struct lowering {
  MlirOperation op;
  nabla_fused_spec spec;
  nabla_text name, function, text;
  /* x, codes, scales, zero points if there are, extra */
  MlirValue operands[NABLA_FUSED_WORDS];
  intptr_t count, components;
} lowering;

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
                          "the kernel: kernels read f32, f16 and bf16");
  nabla_op_spec spec = {"nabla.materialize", 1, &scales, -1, NULL, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static bool gather(lowering *l) {
  MlirOperation op = l->op;
  MlirValue components[NABLA_MAX_PARTS];
  if (mlirOperationIsNull(function_of(op))) {
    nabla_error_at(op, "is lowered inside of func.func only");
    return false;
  }
  l->components =
      nabla_components_split(mlirOperationGetOperand(op, 1), op, components);
  if (l->components != (l->spec.format.zero_point ? 3 : 2)) {
    nabla_error_at(op, "has a weight that is not codes and scales");
    return false;
  }
  components[1] = plain_scales(op, components[1]);
  l->operands[l->count++] = mlirOperationGetOperand(op, 0);
  for (intptr_t i = 0; i < l->components; i++)
    l->operands[l->count++] = components[i];
  for (intptr_t i = 2; i < mlirOperationGetNumOperands(op); i++)
    l->operands[l->count++] = mlirOperationGetOperand(op, i);
  return true;
}

/* Loads dimension `dim` of argument `index` as an i64, once. */
static void add_dim(lowering *l, const char *name, intptr_t index, int dim) {
  nabla_text_add(&l->text,
                 "  %%%s_i = arith.constant %d : index\n"
                 "  %%%s_d = tensor.dim %%a%d, %%%s_i : ",
                 name, dim, name, (int)index, name);
  nabla_text_add_type(&l->text, mlirValueGetType(l->operands[index]));
  nabla_text_add(&l->text,
                 "\n  %%%s = arith.index_cast %%%s_d : index to i64\n", name,
                 name);
}

static void require(lowering *l, intptr_t argument, int dim,
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
static void add_checks(lowering *l) {
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
#define LAYOUT "strided<[1], offset: ?>"
static bool is_component(const lowering *l, intptr_t argument) {
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
  nabla_text_add(text, anywhere ? ", " LAYOUT ">" : ">");
}

/* words[word] = the address of a buffer, or a number */
static void add_word(lowering *l, int word, const char *value) {
  nabla_text_add(&l->text,
                 "  %%w%d = arith.constant %d : index\n"
                 "  memref.store %%%s, %%words[%%w%d] : memref<%dxi64>\n",
                 word, word, value, word, NABLA_FUSED_WORDS);
}

/* Adds to the address %pWORD the offset at which `buffer` begins. */
static void add_offset(lowering *l, int word, const char *buffer,
                       MlirType tensor) {
  MlirType element = mlirShapedTypeGetElementType(tensor);
  int bytes = mlirTypeIsAF32(element) ? 4 : mlirTypeIsAInteger(element) ? 1 : 2;
  nabla_text_add(&l->text,
                 "  %%m%d:4 = memref.extract_strided_metadata %%%s : ", word,
                 buffer);
  add_memref(&l->text, tensor, true);
  nabla_text_add(&l->text, " -> memref<");
  nabla_text_add_type(&l->text, element);
  nabla_text_add(&l->text,
                 ">, index, index, index\n"
                 "  %%s%d = arith.constant %d : index\n"
                 "  %%o%d = arith.muli %%m%d#1, %%s%d : index\n"
                 "  %%t%d = arith.addi %%p%d, %%o%d : index\n",
                 word, bytes, word, word, word, word, word, word);
}

static void add_address(lowering *l, int word, const char *buffer,
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
  add_word(l, word, name);
}

/* The address of a tensor argument that the kernel only reads. */
static void add_input(lowering *l, int word, intptr_t argument) {
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

static void add_call(lowering *l) {
  MlirType result = nabla_result_type(l->op, 0);
  bool dynamic = nabla_is_dynamic(mlirShapedTypeGetDimSize(result, 0));
  nabla_text_add(&l->text,
                 "  %%y = memref.alloc(%s) : ", dynamic ? "%m_d" : "");
  add_memref(&l->text, result, false);
  nabla_text_add(&l->text, "\n");
  add_input(l, NABLA_FUSED_X, 0);
  add_address(l, NABLA_FUSED_Y, "y", result, false);
  add_word(l, NABLA_FUSED_M, "m");
  add_input(l, NABLA_FUSED_CODES, 1);
  add_input(l, NABLA_FUSED_SCALES, 2);
  if (l->components > 2) add_input(l, NABLA_FUSED_ZERO_POINTS, 3);
  for (intptr_t i = 1 + l->components; i < l->count; i++)
    add_input(l, NABLA_FUSED_EPILOGUE + (int)(i - 1 - l->components), i);
  nabla_text_add(&l->text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%dxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
                 "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
                 "  %%grain = arith.constant %llu : i64\n"
                 "  func.call @nabla_parallel(%%kernel, %%wp, %%n, %%grain) : "
                 "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
                 "  %%out = bufferization.to_tensor %%y restrict writable : ",
                 NABLA_FUSED_WORDS, l->name.data,
                 (unsigned long long)nabla_fused_grain(&l->spec));
  add_memref(&l->text, result, false);
  nabla_text_add(&l->text, " to ");
  nabla_text_add_type(&l->text, result);
  nabla_text_add(&l->text, "\n  return %%out : ");
  nabla_text_add_type(&l->text, result);
  nabla_text_add(&l->text, "\n}\n");
}

/* The kernel's name and, of what differs between its callers, the shapes. */
static void name_function(lowering *l) {
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
static void add_signature(lowering *l, bool names, bool layouts) {
  nabla_text_add(&l->text, "(");
  for (intptr_t i = 0; i < l->count; i++) {
    if (i) nabla_text_add(&l->text, ", ");
    if (names) nabla_text_add(&l->text, "%%a%d: ", (int)i);
    nabla_text_add_type(&l->text, mlirValueGetType(l->operands[i]));
    if (layouts && is_component(l, i))
      nabla_text_add(&l->text, " {bufferization.buffer_layout = " LAYOUT "}");
  }
  nabla_text_add(&l->text, ") -> ");
  nabla_text_add_type(&l->text, nabla_result_type(l->op, 0));
}

/* The words are on the stack of a function of their own: where the operation
 * stands could be in a loop. */
static void add_function(lowering *l) {
  if (nabla_module_has(l->op, l->name.data))
    nabla_text_add(&l->text, "llvm.func @%s(!llvm.ptr, i64, i64)",
                   l->name.data);
  else
    nabla_fused_emit(&l->spec, l->name.data, &l->text);
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

static void add_module(lowering *l) {
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

static bool lower(MlirOperation op, void *features) {
  lowering l = {.op = op};
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
  nabla_fused_name(&l.spec, &l.name);
  name_function(&l);
  bool done = !l.name.failed && !l.function.failed;
  if (done) {
    add_module(&l);
    done = nabla_template_replace(op, l.count, l.operands, &l.text);
  } else {
    nabla_error_at(op, "could not be named: out of memory");
  }
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
  nabla_products_mark(op);
  return nabla_ops_each(op, is_fused, lower, &features);
}
