/* Functions of vectors: kernels that are not of products, called through
 * @nabla_parallel with words of their own. */
#ifndef NABLA_KERNELS_BUILDER_VECTOR_FUNCTION_H
#define NABLA_KERNELS_BUILDER_VECTOR_FUNCTION_H

#include "lib/kernels/builder/emit.h"

/* Appends llvm.func internal @NAME(arguments, begin, end), whose body `write`
 * writes: it computes units [e->begin, e->end). e->scratch is `scratch` bytes
 * on the stack, a line each. */
void nabla_vector_function_emit(nabla_features features, const char *name,
                                uint64_t scratch,
                                void (*write)(nabla_emitter *e, void *self),
                                void *self, nabla_text *text);

/* Word `index` of the arguments as i64, as a pointer. */
nabla_ssa nabla_vector_function_word(nabla_emitter *e, unsigned index);
nabla_ssa nabla_vector_function_pointer(nabla_emitter *e, unsigned index);

#endif
