/* Kernels of convolutions of f32: "panels", an implicit product of matrices
 * whose panels of windows are packed from the image, and "rows", vectors along
 * a row of the result, for groups of few outputs (depthwise). */
#ifndef NABLA_KERNELS_CONV_CONV_H
#define NABLA_KERNELS_CONV_CONV_H

#include "lib/kernels/fused_kernel.h"

/* Spatial dimensions, the last one innermost; fewer have sizes of 1 in front.
 */
#define NABLA_CONV_DIMS 3

/* Arrays that an epilogue reads, at most. */
#define NABLA_CONV_OPERANDS 6

/* Words of a kernel: the input [N, groups * features, in...], the kernel
 * [groups * outputs, features, window...], the result, operands of the
 * epilogue. */
enum { NABLA_CONV_X, NABLA_CONV_W, NABLA_CONV_Y, NABLA_CONV_WORDS };

/* Where a vector of results is, in values of the kernel: its feature of the
 * result and its first element there, i64; lanes that exist, 0: all; addresses
 * of the operands. */
typedef struct nabla_conv_place {
  unsigned feature, element, mask;
  const unsigned *operands;
} nabla_conv_place;

/* Writes what becomes of a vector of 16 results before it is stored. */
struct nabla_emitter;
typedef unsigned nabla_conv_epilogue(struct nabla_emitter *e, const void *self,
                                     const nabla_conv_place *place,
                                     unsigned value);

/* A convolution. All sizes are at least 1. */
typedef struct nabla_conv_spec {
  nabla_features features_of_cpu;
  uint64_t groups, outputs, features; /* the last two of one group */
  uint64_t in[NABLA_CONV_DIMS], out[NABLA_CONV_DIMS];
  /* Zeros in front of the input; below 0: elements that are left out. The
   * number behind it follows from `out`, strides, windows and dilation. */
  int64_t low[NABLA_CONV_DIMS];
  uint64_t window[NABLA_CONV_DIMS], stride[NABLA_CONV_DIMS];
  uint64_t dilation[NABLA_CONV_DIMS];
  nabla_conv_epilogue *epilogue; /* NULL: none */
  const void *epilogue_self;
  int operand_count;
  uint32_t arrays; /* bit i: operand i has the shape of the result */
} nabla_conv_spec;

/* Why a convolution has no kernel, or NULL. */
const char *nabla_conv_objection(const nabla_conv_spec *spec);

/* Whether the kernel applies such padding itself. Else the caller copies the
 * input with its zeros, and `low` is 0. */
int nabla_conv_pads(const nabla_conv_spec *spec);

/* "panels" or "rows". */
const char *nabla_conv_kernel(const nabla_conv_spec *spec);

/* Units of work in each image of the batch, and multiplications in a unit. */
uint64_t nabla_conv_units(const nabla_conv_spec *spec);
uint64_t nabla_conv_unit_products(const nabla_conv_spec *spec);

/* Appends llvm.func internal @NAME(arguments, begin, end). An element is the
 * sum, in a fixed order, of sums of at most 288 products each. */
void nabla_conv_emit(const nabla_conv_spec *spec, const char *name,
                     nabla_text *text);

#endif
