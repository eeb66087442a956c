/* Unsigned numbers as decimal text. snprintf takes ten times as long, which
 * shows where millions of tensors are listed. */
#ifndef NABLA_BASE_DECIMAL_H
#define NABLA_BASE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NABLA_DECIMAL 20 /* digits of 2^64 - 1 */

/* Writes a number, without a NUL, and returns its end. `to` has space for
 * NABLA_DECIMAL bytes. */
static inline char *nabla_decimal_write(char *to, uint64_t value) {
  char text[NABLA_DECIMAL];
  size_t at = sizeof text;
  do text[--at] = (char)('0' + value % 10);
  while (value /= 10);
  memcpy(to, text + at, sizeof text - at);
  return to + (sizeof text - at);
}

#endif
