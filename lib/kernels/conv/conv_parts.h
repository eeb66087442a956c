/* Parts that the kernels of convolutions share; in conv.c but where a file is
 * named. */
#ifndef NABLA_KERNELS_CONV_CONV_PARTS_H
#define NABLA_KERNELS_CONV_CONV_PARTS_H

#include "lib/kernels/builder/k.h"
#include "lib/kernels/conv/conv.h"

/* A kernel being written. */
typedef struct nabla_conv_body {
  nabla_emitter *e;
  const nabla_conv_spec *spec;
  nabla_ssa x, w, y; /* addresses */
  nabla_ssa operands[NABLA_CONV_OPERANDS];
} nabla_conv_body;

/* Multiplications of an element of the result; results and elements of an image
 * and one feature; positions of a window. */
uint64_t nabla_conv_depth(const nabla_conv_spec *spec);
uint64_t nabla_conv_windows(const nabla_conv_spec *spec);
uint64_t nabla_conv_plane(const nabla_conv_spec *spec);
uint64_t nabla_conv_positions(const nabla_conv_spec *spec);

/* Elements of an image between neighbours of dimension `dim`. */
uint64_t nabla_conv_pitch(const nabla_conv_spec *spec, int dim);

/* Whether windows have zeros in front of or behind dimension `dim`; in any. */
int nabla_conv_is_padded(const nabla_conv_spec *spec, int dim);
int nabla_conv_is_any_padded(const nabla_conv_spec *spec);

/* Elements from the first to the last of dimension `dim` that windows have. */
uint64_t nabla_conv_reach(const nabla_conv_spec *spec, int dim);

/* The address of the first element of window 0, which may be a zero in front of
 * the image at `image`. */
nabla_ssa nabla_conv_origin(const nabla_conv_body *b, nabla_ssa image);

/* Bytes from the first element of a window to its element `k` of the depth. */
nabla_ssa nabla_conv_offset(const nabla_conv_body *b, nabla_ssa k);

/* The element of a plane in which row `row` of windows begins. */
nabla_ssa nabla_conv_row(const nabla_conv_body *b, nabla_ssa row);

/* a - b; the smaller one of two signed numbers; a / b and a % b. */
nabla_ssa nabla_conv_subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_conv_least(nabla_emitter *e, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_conv_rest(nabla_emitter *e, nabla_ssa a, uint64_t b);

/* `base` and any number of bytes, which may be negative. */
nabla_ssa nabla_conv_address(nabla_emitter *e, nabla_ssa base, nabla_ssa bytes);

/* Lanes in which mask is set, others from `rest`; stores of such lanes. */
nabla_ssa nabla_conv_load(nabla_emitter *e, nabla_ssa address, nabla_ssa mask,
                          nabla_ssa rest);
void nabla_conv_store(nabla_emitter *e, nabla_ssa address, nabla_ssa mask,
                      nabla_ssa value);

/* f32 at `address` and each of 16 numbers of elements (i32) from it. */
nabla_ssa nabla_conv_gather(nabla_emitter *e, nabla_ssa address,
                            nabla_ssa elements, nabla_ssa mask);

/* `value` behind the epilogue, if there is one: elements of an output from
 * `element` on. */
nabla_ssa nabla_conv_finished(const nabla_conv_body *b, nabla_ssa feature,
                              nabla_ssa element, nabla_ssa mask,
                              nabla_ssa value);

/* conv_panels.c, conv_rows.c */
uint64_t nabla_conv_panels_units(const nabla_conv_spec *spec);
uint64_t nabla_conv_panels_products(const nabla_conv_spec *spec);
uint64_t nabla_conv_panels_scratch(const nabla_conv_spec *spec);
int nabla_conv_panels_pads(const nabla_conv_spec *spec);
void nabla_conv_panels(const nabla_conv_body *b);
uint64_t nabla_conv_rows_units(const nabla_conv_spec *spec);
uint64_t nabla_conv_rows_products(const nabla_conv_spec *spec);
uint64_t nabla_conv_rows_scratch(const nabla_conv_spec *spec);
int nabla_conv_rows_pads(const nabla_conv_spec *spec);
void nabla_conv_rows(const nabla_conv_body *b);

#endif
