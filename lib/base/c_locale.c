/* See c_locale.h. */
#include "lib/base/c_locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* glibc and musl return a static object here, which cannot fail and which
 * freelocale() leaves alone. */
static locale_t c_locale(void) {
  return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int nabla_c_vsnprintf(char *out, size_t room, const char *format,
                      va_list arguments) {
  const locale_t plain = c_locale();
  if (!plain) return -1;
  const locale_t before = uselocale(plain);
  const int length = vsnprintf(out, room, format, arguments);
  (void)uselocale(before);
  freelocale(plain);
  return length;
}

int nabla_c_snprintf(char *out, size_t room, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = nabla_c_vsnprintf(out, room, format, arguments);
  va_end(arguments);
  return length;
}

double nabla_c_strtod(const char *text, char **end) {
  const locale_t plain = c_locale();
  if (!plain) {
    if (end) *end = (char *)text;
    return 0;
  }
  const locale_t before = uselocale(plain);
  const double value = strtod(text, end);
  (void)uselocale(before);
  freelocale(plain);
  return value;
}
