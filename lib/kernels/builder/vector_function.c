/* See vector_function.h. */
#include "lib/kernels/builder/vector_function.h"

#include "lib/kernels/builder/k.h"

nabla_ssa nabla_vector_function_word(nabla_emitter *e, unsigned index) {
  return k_op(e, "llvm.load %%v%u {alignment = 8 : i64} : !llvm.ptr -> i64",
              k_op(e,
                   "llvm.getelementptr %%args[%u] : (!llvm.ptr) -> !llvm.ptr, "
                   "i64",
                   index));
}

nabla_ssa nabla_vector_function_pointer(nabla_emitter *e, unsigned index) {
  nabla_ssa address = nabla_vector_function_word(e, index);
  return k_op(e, "llvm.inttoptr %%v%u : i64 to !llvm.ptr", address);
}

typedef struct vector_function {
  uint64_t scratch;
  void (*write)(nabla_emitter *e, void *self);
  void *self;
} vector_function;

static void write_all(nabla_emitter *e, const void *context) {
  const vector_function *f = context;
  nabla_ssa zero = k_i64(e, 0);
  e->begin = k_op(e, "arith.addi %%begin, %%v%u : i64", zero);
  e->end = k_op(e, "arith.addi %%end, %%v%u : i64", zero);
  if (f->scratch)
    e->scratch = k_op(e,
                      "llvm.alloca %%v%u x i8 {alignment = 64 : i64} : (i64) "
                      "-> !llvm.ptr",
                      k_i64(e, f->scratch));
  f->write(e, f->self);
}

void nabla_vector_function_emit(nabla_features features, const char *name,
                                uint64_t scratch,
                                void (*write)(nabla_emitter *e, void *self),
                                void *self, nabla_text *text) {
  const vector_function function = {scratch, write, self};
  const nabla_fused_spec spec = {.features = features};
  nabla_emitter e = {.spec = &spec, .name = name};
  nabla_emit_kernel(&e, "", write_all, &function, text);
}
