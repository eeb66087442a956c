/* Formats that kernels made ahead of time (ahead.def) read. A plan converts the
 * scales of other formats once, when it is made: codes stay as they are, and a
 * block is cut into shorter ones that have its scale. */
#ifndef NABLA_QUANT_AHEAD_AHEAD_FORMATS_H
#define NABLA_QUANT_AHEAD_AHEAD_FORMATS_H

#include "nabla/encoding.h"

/* Conversions are numbered: 0 is the format itself. */
#define NABLA_AHEAD_CONVERSIONS 5u

/* The format after conversion `number` of the scales of a weight whose rows
 * have `k` elements: in f32, then in blocks of 64, 32 and 16 too.
 * @return 0 where there is no such conversion, or where it changes nothing */
int nabla_ahead_convert(const nabla_format *format, uint64_t k, uint32_t number,
                        nabla_format *out);

#endif
