/* Specs of kernels for tests: of any encoding, geometry, epilogue, numerics. */
#ifndef NABLA_TESTS_KERNELS_RANDOM_SPEC_H
#define NABLA_TESTS_KERNELS_RANDOM_SPEC_H

#include "lib/kernels/fused_kernel.h"

/* Makes the weight blocks of a GGUF format, its storage whole ones. */
void set_blocks(nabla_fused_spec *spec, const nabla_ggml *format);

/* A spec of random numbers from `state`; not every one has a kernel. */
nabla_fused_spec random_spec(uint64_t *state);

#endif
