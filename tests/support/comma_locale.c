/* A library to be preloaded: puts a program into the locale that NABLA_LOCALE
 * names, as an engine with a graphical interface may have done. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void enter(void) {
  const char *name = getenv("NABLA_LOCALE");
  if (name && setlocale(LC_ALL, name)) return;
  (void)fprintf(stderr, "comma_locale: no locale %s\n", name ? name : "(none)");
  _Exit(77);
}
