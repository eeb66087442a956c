/* Growable MLIR text. Kernels and lowerings are written as text and parsed, so
 * that the output of a generator is what --mlir-print-ir-after-all shows. */
#ifndef NABLA_KERNELS_BUILDER_TEXT_H
#define NABLA_KERNELS_BUILDER_TEXT_H

#include <stddef.h>

#include "nabla/status.h"

#define NABLA_TEXT_LIMIT ((size_t)16 << 20) /* bytes of one generated text */

/* Zero-initialised is valid. Additions after a failure do nothing: check
 * `failed` once, at the end. */
typedef struct nabla_text {
  char *data; /* NUL-terminated; NULL when empty */
  size_t size, capacity;
  int failed; /* out of memory, or beyond NABLA_TEXT_LIMIT */
} nabla_text;

void nabla_text_deinit(nabla_text *text);

/* Appends; printf's format. */
void nabla_text_add(nabla_text *text, const char *format, ...)
    NABLA_PRINTF(2, 3);

/* Appends a finite float so that MLIR reads back the same f64: "%.17e". */
void nabla_text_add_float(nabla_text *text, double value);

#endif
