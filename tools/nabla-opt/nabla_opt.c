/* nabla-opt: mlir-opt with the nabla dialect, its passes and pipelines. One
 * option of its own: --rules FILE, which may be given several times. Unlike
 * mlir-opt's, an output file appears whole or not at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/dialect.h"
#include "lib/base/file.h"
#include "lib/base/nesting.h"
#include "tools/common/stream.h"
#include "transforms/user_rules/user_rules.h"

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

/* ---- the output file ---- */

/* The program, before MLIR's recursive parser reads it. */
static int reads(const char *text, size_t size) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!nabla_nesting_check(text, size, &diag)) return 1;
  char message[sizeof diag + 64];
  nabla_diag_format(&diag, message, sizeof message);
  fprintf(stderr, "nabla-opt: %s\n", message);
  return 0;
}

static int takes(const char *path) {
  return strcmp(path, "-") != 0 && !tool_is_stream(path);
}

/* Links are followed, as mlir-opt does. */
static int write_file(const char *path, const char *text, size_t size) {
  const nabla_output_options options = {.force = 1};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_output *output = NULL;
  tool_begin(); /* LLVM has handlers of its own by now */
  char *target = realpath(path, NULL);
  nabla_status status =
      nabla_output_create(target ? target : path, &options, &output, &diag);
  free(target);
  if (!status) status = nabla_output_write(output, 0, text, size, &diag);
  if (!status) status = nabla_output_commit(output, &diag);
  nabla_output_destroy(output);
  if (!status) return 0;
  char message[sizeof diag + 64];
  nabla_diag_format(&diag, message, sizeof message);
  fprintf(stderr, "nabla-opt: %s\n", message);
  return 1;
}

int main(int argc, char **argv) {
  static const nablaOptFile file = {reads, takes, write_file};
  tool_begin();
  argc = take_rules(argc, argv);
  if (argc < 0) return 2;
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  int status = nablaOptMain(argc, argv, "Nabla optimizer\n", registry, &file);
  mlirDialectRegistryDestroy(registry);
  return status;
}
