/* Short texts of shapes and formats, for errors. */
#ifndef NABLA_RUNTIME_PROGRAM_TYPE_TO_TEXT_H
#define NABLA_RUNTIME_PROGRAM_TYPE_TO_TEXT_H

#include "nabla/executable.h"

/* Longer texts end in "...". */
#define NABLA_DESCRIBE_ROOM 80

typedef struct nabla_text_80 {
  char text[NABLA_DESCRIBE_ROOM];
} nabla_text_80;

/* "F32 [?,256]". `rank` may be any. */
nabla_text_80 nabla_describe_array(nabla_dtype dtype, uint32_t rank,
                                   const int64_t *shape);

/* "nf4 in blocks of 64, [128,256]", "int8 in rows, ...", "blocks of q4_0, ...",
 * or, for what is not packed, as above. */
nabla_text_80 nabla_describe_port(const nabla_port *port);
nabla_text_80 nabla_describe_weight(const nabla_weight_desc *weight);

#endif
