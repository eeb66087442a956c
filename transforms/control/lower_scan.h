/* The text of a scan's lowering: what lower_scan.c (the loop) and scan_slices.c
 * (arrays that are sliced and filled) share. */
#ifndef NABLA_TRANSFORMS_CONTROL_LOWER_SCAN_H
#define NABLA_TRANSFORMS_CONTROL_LOWER_SCAN_H

#include "dialect/control.h"
#include "transforms/lower/lowering.h"

/* Replaces a nabla.scan by scf.for; false after an error was reported. */
bool nabla_lower_scan(MlirOperation op);

/* A value of the text with its type. */
typedef struct nabla_typed {
  nabla_ssa value;
  MlirType type;
} nabla_typed;

/* A stacked array: an operand that is sliced, or a result that is filled. */
typedef struct nabla_stack {
  MlirType whole, slice;
  bool implicit;
  nabla_slices slices;                  /* implicit */
  intptr_t count;                       /* of parts */
  nabla_typed parts[NABLA_MAX_LEAVES];  /* the tensor, or the leaves */
  nabla_typed filled[NABLA_MAX_LEAVES]; /* of an output, in the loop's body */
  nabla_ssa sizes[NABLA_MAX_RANK];      /* of the slice; 0 where static */
} nabla_stack;

typedef struct nabla_scan_text {
  nabla_template t;
  nabla_scan s;
  nabla_stack *inputs, *outputs;
  nabla_typed *carries, *given; /* in the body: its carries; what it gives */
  int64_t known;                /* the length, or that it is dynamic */
  nabla_ssa length, at, zero, one;
} nabla_scan_text;

nabla_ssa nabla_scan_fresh(nabla_scan_text *l);
void nabla_scan_type(nabla_scan_text *l, MlirType type);
/* The number of operand `index` of the op. */
nabla_ssa nabla_scan_argument(intptr_t index);
nabla_ssa nabla_scan_dim(nabla_scan_text *l, nabla_ssa value, MlirType type,
                         intptr_t index);
/* Fails at run time for a negative size. */
void nabla_scan_require_size(nabla_scan_text *l, nabla_ssa size);

void nabla_stack_describe(nabla_stack *s, MlirType whole, MlirType slice);
/* In front of the loop. `*size`: the next of the operands that give sizes. */
void nabla_stack_open_input(nabla_scan_text *l, intptr_t index);
void nabla_stack_open_output(nabla_scan_text *l, intptr_t index,
                             intptr_t *size);
/* In the loop, at index `at`. */
nabla_typed nabla_stack_take(nabla_scan_text *l, const nabla_stack *s);
void nabla_stack_put(nabla_scan_text *l, nabla_stack *s, nabla_typed given);
/* nabla.pack of leaves, and of what is packed of them. */
nabla_ssa nabla_stack_pack(nabla_scan_text *l, const nabla_typed *leaves,
                           MlirType type);

#endif
