/* A Llama decoder as a plain forward pass in double precision, one token after
 * the other: what programs of nabla_decoder_write are compared with. Weights
 * are read, packed or not, by nabla_weight_read. */
#ifndef NABLA_TESTS_LLAMA_REFERENCE_H
#define NABLA_TESTS_LLAMA_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/decoder.h"

typedef struct llama_reference llama_reference;

/* `shape` as nabla_decoder_write gave it. A tensor that is missing ends the
 * test program. */
llama_reference *llama_reference_create(nabla_model *model,
                                        const nabla_decoder_shape *shape,
                                        double theta, double eps);
void llama_reference_destroy(llama_reference *r);

/* Feeds a token; the logits after it, which live until the next call. */
const double *llama_reference_step(llama_reference *r, int64_t token);

#endif
