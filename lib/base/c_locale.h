/* Numbers as text with a decimal point, whatever locale the program has set:
 * printf and strtod of a program that called setlocale() may use a comma, which
 * neither IR nor a file format has. Any thread may call these functions. */
#ifndef NABLA_BASE_C_LOCALE_H
#define NABLA_BASE_C_LOCALE_H

#include <stdarg.h>
#include <stddef.h>

#include "nabla/status.h"

/* vsnprintf in the C locale. */
NABLA_PRINTF(3, 0)
int nabla_c_vsnprintf(char *out, size_t room, const char *format,
                      va_list arguments);

/* snprintf in the C locale. */
NABLA_PRINTF(3, 4)
int nabla_c_snprintf(char *out, size_t room, const char *format, ...);

/* strtod in the C locale; `end` may be NULL. Sets errno as strtod does. */
double nabla_c_strtod(const char *text, char **end);

#endif
