/* nabla-manual KIND TOOL: prints the man page of a tool or its completion for a
 * shell; nabla-manual markdown: prints docs/CLI.md. A program of the build. */
#include <string.h>

#include "tools/manual/manual.h"

static const struct {
  const char *name;
  void (*print)(const manual_page *page);
} kinds[] = {
    {"man", manual_print_man},
    {"bash", manual_print_bash},
    {"zsh", manual_print_zsh},
    {"fish", manual_print_fish},
};

static int print(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "markdown"))
    return manual_print_markdown(), 1;
  const manual_page *page = argc == 3 ? manual_find(argv[2]) : NULL;
  for (size_t i = 0; page && i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(argv[1], kinds[i].name)) return kinds[i].print(page), 1;
  return 0;
}

int main(int argc, char **argv) {
  if (!print(argc, argv)) {
    fputs("usage: nabla-manual man|bash|zsh|fish TOOL, or markdown\n", stderr);
    return TOOL_EXIT_USAGE;
  }
  return fflush(stdout) || ferror(stdout) ? TOOL_EXIT_IO : TOOL_EXIT_OK;
}
