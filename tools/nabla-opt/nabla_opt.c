/* nabla-opt: mlir-opt with the nabla dialect, its passes and pipelines. One
 * option of its own: --rules FILE, which may be given several times. */
#include <stdio.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/dialect.h"
#include "transforms/outside_rules.h"

/* Takes "--rules FILE" and "--rules=FILE" out of the arguments; the new number
 * of them, or -1. */
static int take_rules(int argc, char **argv) {
  static const char option[] = "--rules";
  const size_t length = sizeof option - 1;
  int kept = 0;
  for (int i = 0; i < argc; i++) {
    const char *path = NULL;
    if (i == 0 || strncmp(argv[i], option, length)) {
      argv[kept++] = argv[i];
      continue;
    }
    if (argv[i][length] == '=') path = argv[i] + length + 1;
    if (!argv[i][length] && i + 1 < argc) path = argv[++i];
    if (!path || !nabla_rule_files_add(path)) {
      fprintf(stderr,
              "nabla-opt: --rules takes the name of a file, at most "
              "%d times\n",
              NABLA_RULE_FILES_MAX);
      return -1;
    }
  }
  argv[kept] = NULL;
  return kept;
}

int main(int argc, char **argv) {
  argc = take_rules(argc, argv);
  if (argc < 0) return 2;
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  int status = nablaOptMain(argc, argv, "Nabla optimizer\n", registry);
  mlirDialectRegistryDestroy(registry);
  return status;
}
