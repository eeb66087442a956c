/* Figures that docs/RELIABILITY.md states: a line `figure: NAME VALUE` in the
 * output of the test that holds them. */
#ifndef NABLA_TESTS_FIGURE_H
#define NABLA_TESTS_FIGURE_H

#include <stdio.h>

/* The name is `what` and `of`, with '_' for everything but letters and digits.
 */
static inline void figure_print(const char *what, const char *of,
                                size_t value) {
  char name[160];
  snprintf(name, sizeof name, "%s%s%s", what, *of ? "_" : "", of);
  for (char *c = name; *c; c++)
    if (!((*c | 32) >= 'a' && (*c | 32) <= 'z') && !(*c >= '0' && *c <= '9'))
      *c = '_';
  printf("figure: %s %zu\n", name, value);
  fflush(stdout);
}

#endif
