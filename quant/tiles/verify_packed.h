/* Inside quant/: what opening does not look at in a packed tensor, every scale
 * and every code. */
#ifndef NABLA_QUANT_TILES_VERIFY_PACKED_H
#define NABLA_QUANT_TILES_VERIFY_PACKED_H

#include "quant/tiles/tensor_reader.h"

/* Reads all scales of a tensor, scratch->tile at a time. *found, which is
 * NABLA_DIAG_INIT, describes the first one that does not decode (tensor, file,
 * byte) and how many there are.
 * @return what reading returns; that a scale is bad is no failure */
NABLA_MUST_USE nabla_status
nabla_packed_check_scales(const nabla_values *values, nabla_scratch *scratch,
                          nabla_diag *found, nabla_diag *diag);

/* The same of all bytes of its codes: those that no writer makes. */
NABLA_MUST_USE nabla_status nabla_packed_check_codes(const nabla_values *values,
                                                     nabla_scratch *scratch,
                                                     nabla_diag *found,
                                                     nabla_diag *diag);

/* Checks the `size` bytes of its codes from byte `at` on, which were read.
 * @return NABLA_CORRUPT for the first one that is none */
NABLA_MUST_USE nabla_status nabla_packed_check_bytes(const nabla_values *values,
                                                     uint64_t at,
                                                     const uint8_t *codes,
                                                     size_t size,
                                                     nabla_diag *diag);

#endif
