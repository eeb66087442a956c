/* A cache line of codes for GEMVs with lanes along k: 64 bytes, whose codes of
 * up to 4 bits are 16 dwords of 32 / bits each, and whose lanes have one scale
 * each. Products are summed before they are scaled. */
#ifndef NABLA_KERNELS_F32_CODE_LINE_H
#define NABLA_KERNELS_F32_CODE_LINE_H

#include "lib/kernels/builder/emit.h"

typedef struct nabla_code_line {
  nabla_ssa codes;  /* byte */
  nabla_ssa scales; /* of the lanes */
  nabla_ssa zeros;  /* the same of zero points, or 0 */
} nabla_code_line;

/* Codes in 64 bytes, and vectors of them; whether a code is a byte. */
unsigned nabla_code_line_elements(const nabla_fused_spec *spec);
unsigned nabla_code_line_vectors(const nabla_fused_spec *spec);
int nabla_code_line_is_wide(const nabla_fused_spec *spec);

/* Whether each lane of a line that begins with a block has one scale. */
int nabla_code_line_has_scales(const nabla_fused_spec *spec);

/* The line from element `flat` on; prefetches one that follows. */
nabla_code_line nabla_emit_code_line(nabla_emitter *e, nabla_ssa flat);

/* Vector i of the line, without its scale. Of codes of up to 4 bits it has code
 * i of each dword, `dwords`. */
nabla_ssa nabla_emit_code_line_weights(nabla_emitter *e,
                                       const nabla_code_line *at,
                                       nabla_ssa dwords, unsigned i);

#endif
