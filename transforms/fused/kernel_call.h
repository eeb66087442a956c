/* Functions around kernels, as text: they take tensors, put their addresses
 * into the words of a call (lib/runtime/matmul/kernel.h), and make a tensor of
 * what the kernel writes. Arguments are %a0, %a1, ...; those from %a1 on are
 * components of a weight, as many as there are. */
#ifndef NABLA_TRANSFORMS_FUSED_KERNEL_CALL_H
#define NABLA_TRANSFORMS_FUSED_KERNEL_CALL_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/kernels/fused_kernel.h"

typedef struct nabla_kernel_args {
  nabla_text *text;
  MlirType types[NABLA_KERNEL_ARGS]; /* of the arguments */
  intptr_t count, components;
  int args[NABLA_KERNEL_ARGS];        /* of each component */
  bool is_strided[NABLA_KERNEL_ARGS]; /* arguments with any strides, but that
                                         elements of the last dimension are
                                         consecutive */
  MlirType result;
} nabla_kernel_args;

/* Adds an argument, or a component, for which there is a word. */
void nabla_kernel_args_add(nabla_kernel_args *w, MlirType type);
void nabla_kernel_args_add_component(nabla_kernel_args *w, MlirType type,
                                     int arg);

/* "(%a0: TYPE, ...) -> TYPE", or without the names; `layouts`: with the layout
 * of what may begin anywhere. */
void nabla_kernel_args_signature(const nabla_kernel_args *w, bool names,
                                 bool layouts);

/* %words, on the stack: a function calls these once, outside of loops. */
void nabla_kernel_args_open(const nabla_kernel_args *w);

/* Stores %VALUE, an i64, in a word. */
void nabla_kernel_args_store(const nabla_kernel_args *w, int arg,
                             const char *value);

/* The result: %y, a memory of %SIZE (an index; "": none is open), and its
 * word. */
void nabla_kernel_args_result(const nabla_kernel_args *w, const char *size);

/* The words of an argument that the kernel reads, or of all components. */
void nabla_kernel_args_input(const nabla_kernel_args *w, int arg,
                             intptr_t argument);
void nabla_kernel_args_components(const nabla_kernel_args *w);

/* Stores, for an argument that is strided, elements between neighbours of
 * dimension `dim` in a word. */
void nabla_kernel_args_stride(const nabla_kernel_args *w, int arg,
                              intptr_t argument, intptr_t dim, int word);

/* %wp: the address of the words, once all are there. */
void nabla_kernel_args_pointer(const nabla_kernel_args *w);

/* Returns the result: the end of the function. */
void nabla_kernel_args_return(const nabla_kernel_args *w);

#endif
