/* Declarations that lower_scan.c (the loop) and scan_slices.c (arrays that are
 * sliced and filled) share. Both write the lowering of a nabla.scan as text. */
#ifndef NABLA_TRANSFORMS_CONTROL_LOWER_SCAN_H
#define NABLA_TRANSFORMS_CONTROL_LOWER_SCAN_H

#include "dialect/control.h"
#include "transforms/lower/lowering.h"

/* Replaces a nabla.scan by scf.for; false after an error was reported. */
bool nabla_lower_scan(MlirOperation op);

/* An SSA value in the text, and its type. */
typedef struct nabla_typed {
  nabla_ssa value;
  MlirType type;
} nabla_typed;

/* A stacked array: an operand of which each step reads a slice, or a result of
 * which each step writes one. */
typedef struct nabla_scan_stack {
  MlirType whole, slice;
  bool implicit;
  nabla_slices slices;                  /* set if implicit */
  intptr_t count;                       /* of parts */
  nabla_typed parts[NABLA_MAX_LEAVES];  /* the tensor, or the leaves */
  nabla_typed filled[NABLA_MAX_LEAVES]; /* of a result: values in the body */
  nabla_ssa sizes[NABLA_MAX_RANK];      /* of the slice; 0 where static */
} nabla_scan_stack;

typedef struct nabla_scan_text {
  nabla_template t;
  nabla_scan_parts s;
  nabla_scan_stack *inputs, *outputs;
  nabla_typed *carries, *given; /* in the body: carried values; yielded ones */
  int64_t known;                /* number of steps, or dynamic */
  nabla_ssa length, at, zero, one;
} nabla_scan_text;

nabla_ssa nabla_scan_fresh(nabla_scan_text *l);
void nabla_scan_type(nabla_scan_text *l, MlirType type);
/* The SSA value of operand `index` of the op. */
nabla_ssa nabla_scan_argument(intptr_t index);
nabla_ssa nabla_scan_dim(nabla_scan_text *l, nabla_ssa value, MlirType type,
                         intptr_t index);
/* Writes a check that fails at run time for a negative size. */
void nabla_scan_require_size(nabla_scan_text *l, nabla_ssa size);

void nabla_stack_describe(nabla_scan_stack *s, MlirType whole, MlirType slice);
/* Write the text before the loop. `*size` is the index of the next operand that
 * gives a size; it is advanced. */
void nabla_stack_open_input(nabla_scan_text *l, intptr_t index);
void nabla_stack_open_output(nabla_scan_text *l, intptr_t index,
                             intptr_t *size);
/* Write, in the loop, the read of slice `at` and the write of slice `at`. */
nabla_typed nabla_stack_take(nabla_scan_text *l, const nabla_scan_stack *s);
void nabla_stack_put(nabla_scan_text *l, nabla_scan_stack *s,
                     nabla_typed given);
/* Packs leaves into a value of `type`: one nabla.pack for each level. */
nabla_ssa nabla_stack_pack(nabla_scan_text *l, const nabla_typed *leaves,
                           MlirType type);

#endif
