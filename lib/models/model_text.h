/* Inside lib/models: text of a program, given to a sink in pieces. */
#ifndef NABLA_MODELS_MODEL_TEXT_H
#define NABLA_MODELS_MODEL_TEXT_H

#include <stddef.h>

#include "nabla/sink.h"
#include "nabla/status.h"
#include "nabla/weight.h"

/* Zero-initialised but for `sink` and `diag`. Errors stick; the first is given
 * by nabla_model_text_finish. */
typedef struct nabla_model_text {
  const nabla_sink *sink;
  nabla_diag *diag;
  nabla_status status;
  size_t held;
  char buffer[8192];
} nabla_model_text;

/* Adds at most 1000 bytes; numbers are written as in the C locale. */
NABLA_PRINTF(2, 3)
void nabla_model_text_add(nabla_model_text *text, const char *format, ...);

/* Gives what is held to the sink. */
NABLA_MUST_USE nabla_status nabla_model_text_finish(nabla_model_text *text);

/* Room for a type. */
#define NABLA_MODEL_TYPE_SIZE 512

/* The type that an argument has to have for this weight: "tensor<2x3xbf16>",
 * "!nabla.implicit<2x3xf32, #nabla.nf4<block = 64>>".
 * @return NABLA_UNSUPPORTED  no program takes such a weight */
NABLA_MUST_USE nabla_status nabla_model_type(const nabla_weight_desc *weight,
                                             char out[NABLA_MODEL_TYPE_SIZE],
                                             nabla_diag *diag);

#endif
