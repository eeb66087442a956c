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

static bool is_fused(MlirOperation op) {
  return nabla_is(op, "nabla.fused_dot");
}

typedef struct lowering {
  MlirOperation op;
  nabla_fused_spec spec;
  nabla_fused_spec classes[NABLA_FUSED_CLASSES_MAX]; /* by ranges of M */
  nabla_text names[NABLA_FUSED_CLASSES_MAX];         /* of their kernels */
  uint32_t class_count;
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

/* %NAME, a `type`: of the values %NAMEi of all classes that of the one that M
 * is in. */
static void add_choice(lowering *l, const char *name, const char *type) {
  nabla_text *text = &l->text;
  uint32_t last = l->class_count - 1;
  for (uint32_t i = last; i-- > 0;) {
    nabla_text_add(text,
                   "  %%%ss%u = arith.select %%is%u, %%%s%u, %%%s%s%u : ", name,
                   i, i, name, i, name, i + 1 == last ? "" : "s", i + 1);
    nabla_text_add(text, "%s\n", type);
  }
}

/* The name that add_choice gave its result. */
static const char *chosen(const lowering *l) {
  return l->class_count == 1 ? "0" : "s0";
}

static void add_constant(lowering *l, const char *name, uint32_t class,
                         uint64_t value) {
  nabla_text_add(&l->text, "  %%%s%u = arith.constant %llu : i64\n", name,
                 class, (unsigned long long)value);
}

/* For each class: %isC whether M is at most its largest, %kernelC, %grainC. */
static void add_classes(lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++) {
    nabla_kernel kernel;
    nabla_fused_describe(&l->classes[i], &kernel);
    nabla_text_add(&l->text,
                   "  %%kernel%u = llvm.mlir.addressof @%s : !llvm.ptr\n", i,
                   l->names[i].data);
    add_constant(l, "grain", i, kernel.grain);
    if (i + 1 == l->class_count) break;
    add_constant(l, "most", i, l->classes[i].m_max);
    nabla_text_add(&l->text, "  %%is%u = arith.cmpi ule, %%m, %%most%u : i64\n",
                   i, i);
  }
  add_choice(l, "kernel", "!llvm.ptr");
  add_choice(l, "grain", "i64");
}

static bool has_prepare(const lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++)
    if (nabla_fused_has_prepare(&l->classes[i])) return true;
  return false;
}

/* %prepareC, and its %rowsC of x (those classes without have none), %sizeC of
 * the workspace in bytes. */
static void add_prepare_class(lowering *l, uint32_t class) {
  nabla_kernel kernel;
  const nabla_fused_spec *spec = &l->classes[class];
  nabla_fused_describe(spec, &kernel);
  int has = nabla_fused_has_prepare(spec);
  uint64_t row = 0, tile = has ? kernel.workspace.rows : 1;
  if (has) (void)nabla_kernel_tiles_size(&kernel.workspace, 1, spec->k, &row);
  nabla_text_add(&l->text,
                 "  %%prepare%u = llvm.mlir.addressof @%s%s : !llvm.ptr\n",
                 class, l->names[class].data, has ? "_prepare" : "");
  add_constant(l, "tile", class, tile);
  add_constant(l, "one_size", class, row);
  nabla_text_add(&l->text,
                 "  %%tiles%u = arith.ceildivui %%m, %%tile%u : i64\n"
                 "  %%size%u = arith.muli %%tiles%u, %%one_size%u : i64\n",
                 class, class, class, class, class);
  if (!has) add_constant(l, "rows", class, 0);
  if (has)
    nabla_text_add(&l->text, "  %%rows%u = arith.maxui %%m, %%m : i64\n",
                   class);
}

/* Allocates the workspace and fills it from x. */
static void add_prepare(lowering *l) {
  if (!has_prepare(l)) return;
  for (uint32_t i = 0; i < l->class_count; i++) add_prepare_class(l, i);
  add_choice(l, "prepare", "!llvm.ptr");
  add_choice(l, "rows", "i64");
  add_choice(l, "size", "i64");
  add_choice(l, "tile", "i64");
  const char *at = chosen(l);
  nabla_text_add(
      &l->text,
      "  %%bytes = arith.index_cast %%size%s : i64 to index\n"
      "  %%work = memref.alloc(%%bytes) {alignment = 64 : i64} : memref<?xi8>\n"
      "  %%work_i = memref.extract_aligned_pointer_as_index %%work : "
      "memref<?xi8> -> index\n"
      "  %%work_q = arith.index_cast %%work_i : index to i64\n",
      at);
  add_word(l, NABLA_FUSED_WORKSPACE, "work_q");
  nabla_text_add(
      &l->text,
      "  func.call @nabla_parallel(%%prepare%s, %%wp, %%rows%s, %%tile%s) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
      at, at, at);
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
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n",
                 NABLA_FUSED_WORDS);
  add_classes(l);
  add_prepare(l);
  nabla_text_add(
      &l->text,
      "  func.call @nabla_parallel(%%kernel%s, %%wp, %%n, %%grain%s) : "
      "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
      "  %%out = bufferization.to_tensor %%y restrict writable : ",
      chosen(l), chosen(l));
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

/* The kernel of a class, declared when the module has it. */
static void add_kernel(lowering *l, uint32_t class) {
  const char *name = l->names[class].data;
  if (!nabla_module_has(l->op, name)) {
    nabla_fused_emit(&l->classes[class], name, &l->text);
    return;
  }
  nabla_text_add(&l->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", name);
  if (nabla_fused_has_prepare(&l->classes[class]))
    nabla_text_add(&l->text, "llvm.func @%s_prepare(!llvm.ptr, i64, i64)\n",
                   name);
}

/* The words are on the stack of a function of their own: where the operation
 * stands could be in a loop. */
static void add_function(lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++) add_kernel(l, i);
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

/* Names the wrapper and the kernel of each range of M. */
static bool name_kernels(lowering *l) {
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

/* Says which bodies were chosen, and which of them compute in f32 although less
 * would do. */
static void report(const lowering *l) {
  char text[320];
  int used = snprintf(text, sizeof text,
                      "%s numerics:", nabla_numerics_name(l->spec.numerics));
  for (uint32_t i = 0; i < l->class_count; i++) {
    const nabla_fused_spec *spec = &l->classes[i];
    const char *body = nabla_fused_body(spec);
    char range[48] = "";
    if (spec->m_max && spec->m_max == spec->m_min)
      snprintf(range, sizeof range, "%llu", (unsigned long long)spec->m_max);
    else if (spec->m_max)
      snprintf(range, sizeof range, "%llu..%llu",
               (unsigned long long)spec->m_min,
               (unsigned long long)spec->m_max);
    else
      snprintf(range, sizeof range, "%llu and more",
               (unsigned long long)spec->m_min);
    if (used < (int)sizeof text)
      used += snprintf(text + used, sizeof text - (size_t)used,
                       "%s kernel '%s'%s for M = %s", i ? "," : "", body,
                       spec->numerics == l->spec.numerics ? "" : " in f32",
                       range);
  }
  nablaOptimizationRemark(mlirOperationGetLocation(l->op), false,
                          "KernelChosen", "nabla-lower-fused", text);
}

/* What the pass was told. */
typedef struct settings {
  nabla_features features;
  nabla_numerics numerics;
} settings;

static bool lower(MlirOperation op, void *given) {
  const settings *options = given;
  lowering l = {.op = op};
  const char *objection =
      nabla_fused_spec_of(nabla_operand_type(op, 0), nabla_operand_type(op, 1),
                          options->features, &l.spec);
  l.spec.numerics = options->numerics;
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
    report(&l);
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
  settings options = {.features = nabla_features_parse(values[0].string)};
  if (!nabla_numerics_find(values[1].string, &options.numerics))
    return nabla_error_at(op,
                          "nabla-lower-fused: numerics '%s' is none of f32, "
                          "bf16, int8",
                          values[1].string);
  return nabla_ops_each(op, is_fused, lower, &options);
}
