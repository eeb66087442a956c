/* See kernel_call.h. */
#include "transforms/fused/kernel_call.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/encoding/encoding.h"
#include "transforms/ir/ir.h"

void nabla_kernel_args_add(nabla_kernel_args *w, MlirType type) {
  w->types[w->count++] = type;
}

void nabla_kernel_args_add_component(nabla_kernel_args *w, MlirType type,
                                     int arg) {
  nabla_kernel_args_add(w, type);
  w->args[w->components++] = arg;
}

/* Layouts of arguments. Components may be a part of others, a slice that a scan
 * takes: their buffers begin anywhere. All else begins where its memory does,
 * unless it may have strides. */
typedef enum layout { WHOLE, ANYWHERE, STRIDED } layout;

/* Strides around a dimension of no elements are unknown to upstream, too: with
 * others an array would need an allocation of that layout, which upstream makes
 * without its offset. */
static void add_layout(nabla_text *text, MlirType tensor, layout how) {
  intptr_t rank = mlirShapedTypeGetRank(tensor);
  nabla_text_add(text, "strided<[");
  for (intptr_t i = 0; i < rank; i++) {
    int64_t stride = how == STRIDED && i + 1 < rank ? -1 : 1;
    for (intptr_t d = i + 1; d < rank && stride >= 0; d++) {
      int64_t size = mlirShapedTypeGetDimSize(tensor, d);
      if (nabla_is_dynamic(size) || size == 0 ||
          __builtin_mul_overflow(stride, size, &stride))
        stride = -1;
    }
    nabla_text_add(text, "%s", i ? ", " : "");
    if (stride < 0)
      nabla_text_add(text, "?");
    else
      nabla_text_add(text, "%lld", (long long)stride);
  }
  nabla_text_add(text, "], offset: ?>");
}

static layout layout_of(const nabla_kernel_args *w, intptr_t argument) {
  if (w->is_strided[argument]) return STRIDED;
  return argument >= 1 && argument <= w->components ? ANYWHERE : WHOLE;
}

static void add_memref(nabla_text *text, MlirType tensor, layout how) {
  nabla_text_add(text, "memref<");
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(tensor); i++) {
    int64_t dim = mlirShapedTypeGetDimSize(tensor, i);
    if (nabla_is_dynamic(dim))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%lldx", (long long)dim);
  }
  nabla_text_add_type(text, mlirShapedTypeGetElementType(tensor));
  if (how != WHOLE) {
    nabla_text_add(text, ", ");
    add_layout(text, tensor, how);
  }
  nabla_text_add(text, ">");
}

/* Adds to the address %pWORD the offset at which `buffer` begins. */
static void add_offset(const nabla_kernel_args *w, int arg, const char *buffer,
                       MlirType tensor, layout how) {
  MlirType element = mlirShapedTypeGetElementType(tensor);
  int bytes = mlirTypeIsAF32(element) ? 4 : mlirTypeIsAInteger(element) ? 1 : 2;
  int rank = (int)mlirShapedTypeGetRank(tensor);
  nabla_text_add(w->text,
                 "  %%m%d:%d = memref.extract_strided_metadata %%%s : ", arg,
                 2 + 2 * rank, buffer);
  add_memref(w->text, tensor, how);
  nabla_text_add(w->text, " -> memref<");
  nabla_text_add_type(w->text, element);
  nabla_text_add(w->text, ">, index");
  for (int i = 0; i < 2 * rank; i++) nabla_text_add(w->text, ", index");
  nabla_text_add(w->text,
                 "\n"
                 "  %%s%d = arith.constant %d : index\n"
                 "  %%o%d = arith.muli %%m%d#1, %%s%d : index\n"
                 "  %%t%d = arith.addi %%p%d, %%o%d : index\n",
                 arg, bytes, arg, arg, arg, arg, arg, arg);
}

static void add_address(const nabla_kernel_args *w, int arg, const char *buffer,
                        MlirType tensor, layout how) {
  char name[32];
  nabla_text_add(
      w->text, "  %%p%d = memref.extract_aligned_pointer_as_index %%%s : ", arg,
      buffer);
  add_memref(w->text, tensor, how);
  nabla_text_add(w->text, " -> index\n");
  if (how != WHOLE) add_offset(w, arg, buffer, tensor, how);
  nabla_text_add(w->text, "  %%q%d = arith.index_cast %%%c%d : index to i64\n",
                 arg, how != WHOLE ? 't' : 'p', arg);
  snprintf(name, sizeof name, "q%d", arg);
  nabla_kernel_args_store(w, arg, name);
}

void nabla_kernel_args_signature(const nabla_kernel_args *w, bool names,
                                 bool layouts) {
  nabla_text_add(w->text, "(");
  for (intptr_t i = 0; i < w->count; i++) {
    if (i) nabla_text_add(w->text, ", ");
    if (names) nabla_text_add(w->text, "%%a%d: ", (int)i);
    nabla_text_add_type(w->text, w->types[i]);
    if (!layouts || layout_of(w, i) == WHOLE) continue;
    nabla_text_add(w->text, " {bufferization.buffer_layout = ");
    add_layout(w->text, w->types[i], layout_of(w, i));
    nabla_text_add(w->text, "}");
  }
  nabla_text_add(w->text, ") -> ");
  nabla_text_add_type(w->text, w->result);
}

void nabla_kernel_args_open(const nabla_kernel_args *w) {
  nabla_text_add(w->text, "  %%words = %s() : memref<%dxi64>\n",
                 "memref.alloca", NABLA_KERNEL_ARGS);
}

void nabla_kernel_args_store(const nabla_kernel_args *w, int arg,
                             const char *value) {
  nabla_text_add(w->text,
                 "  %%w%d = arith.constant %d : index\n"
                 "  memref.store %%%s, %%words[%%w%d] : memref<%dxi64>\n",
                 arg, arg, value, arg, NABLA_KERNEL_ARGS);
}

void nabla_kernel_args_result(const nabla_kernel_args *w, const char *size) {
  nabla_text_add(w->text, "  %%y = memref.alloc(%s%s) : ", *size ? "%" : "",
                 size);
  add_memref(w->text, w->result, WHOLE);
  nabla_text_add(w->text, "\n");
  add_address(w, NABLA_ARG_Y, "y", w->result, WHOLE);
}

void nabla_kernel_args_input(const nabla_kernel_args *w, int arg,
                             intptr_t argument) {
  MlirType type = w->types[argument];
  char buffer[32];
  snprintf(buffer, sizeof buffer, "b%d", arg);
  nabla_text_add(w->text,
                 "  %%%s = bufferization.to_buffer %%a%d read_only : ", buffer,
                 (int)argument);
  nabla_text_add_type(w->text, type);
  nabla_text_add(w->text, " to ");
  add_memref(w->text, type, layout_of(w, argument));
  nabla_text_add(w->text, "\n");
  add_address(w, arg, buffer, type, layout_of(w, argument));
}

void nabla_kernel_args_stride(const nabla_kernel_args *w, int arg,
                              intptr_t argument, intptr_t dim, int word) {
  const int rank = (int)mlirShapedTypeGetRank(w->types[argument]);
  char name[32];
  snprintf(name, sizeof name, "step%d_%d", arg, (int)dim);
  nabla_text_add(w->text, "  %%%s = arith.index_cast %%m%d#%d : index to i64\n",
                 name, arg, 2 + rank + (int)dim);
  nabla_kernel_args_store(w, word, name);
}

void nabla_kernel_args_components(const nabla_kernel_args *w) {
  for (intptr_t i = 0; i < w->components; i++)
    nabla_kernel_args_input(w, w->args[i], 1 + i);
}

void nabla_kernel_args_pointer(const nabla_kernel_args *w) {
  nabla_text_add(w->text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%dxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n",
                 NABLA_KERNEL_ARGS);
}

void nabla_kernel_args_return(const nabla_kernel_args *w) {
  nabla_text_add(w->text,
                 "  %%out = bufferization.to_tensor %%y restrict writable : ");
  add_memref(w->text, w->result, WHOLE);
  nabla_text_add(w->text, " to ");
  nabla_text_add_type(w->text, w->result);
  nabla_text_add(w->text, "\n  return %%out : ");
  nabla_text_add_type(w->text, w->result);
  nabla_text_add(w->text, "\n}\n");
}
