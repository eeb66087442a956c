/* Functions around kernels, as text: they take tensors, put their addresses
 * into the words of a call (lib/runtime/matmul/kernel.h), and make a tensor of
 * what the kernel writes. Arguments are %a0, %a1, ...; those from %a1 on are
 * components of a weight, as many as there are. */
#ifndef NABLA_TRANSFORMS_FUSED_KERNEL_CALL_H
#define NABLA_TRANSFORMS_FUSED_KERNEL_CALL_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/kernels/fused_kernel.h"

typedef struct nabla_kernel_words {
  nabla_text *text;
  MlirType types[NABLA_FUSED_WORDS]; /* of the arguments */
  intptr_t count, components;
  int words[NABLA_FUSED_WORDS]; /* of each component */
  MlirType result;
} nabla_kernel_words;

/* Adds an argument, or a component, for which there is a word. */
void nabla_words_add_argument(nabla_kernel_words *w, MlirType type);
void nabla_words_add_component(nabla_kernel_words *w, MlirType type, int word);

/* "(%a0: TYPE, ...) -> TYPE", or without the names; `layouts`: with the layout
 * of what may begin anywhere. */
void nabla_words_signature(const nabla_kernel_words *w, bool names,
                           bool layouts);

/* %words, on the stack: a function calls these once, outside of loops. */
void nabla_words_open(const nabla_kernel_words *w);

/* Stores %VALUE, an i64, in a word. */
void nabla_words_store(const nabla_kernel_words *w, int word,
                       const char *value);

/* The result: %y, a memory of %SIZE (an index; "": none is open), and its
 * word. */
void nabla_words_result(const nabla_kernel_words *w, const char *size);

/* The words of an argument that the kernel reads, or of all components. */
void nabla_words_input(const nabla_kernel_words *w, int word,
                       intptr_t argument);
void nabla_words_components(const nabla_kernel_words *w);

/* %wp: the address of the words, once all are there. */
void nabla_words_pointer(const nabla_kernel_words *w);

/* Returns the result: the end of the function. */
void nabla_words_return(const nabla_kernel_words *w);

#endif
