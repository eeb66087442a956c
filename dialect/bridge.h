/* Functions that mlir-c 22 lacks, defined in Bridge.cpp: passes with options,
 * pipelines, mlir-opt's main, warnings, remarks, features of a CPU, an
 * interface. camelCase marks the border to MLIR. */
#ifndef NABLA_DIALECT_BRIDGE_H
#define NABLA_DIALECT_BRIDGE_H

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>
#include <mlir-c/Rewrite.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Warnings (mlir-c has errors only). */
void nablaEmitWarning(MlirLocation location, const char *text);

/* An optimization remark of MLIR's remark engine: silent unless asked for with
 * --remarks-filter*. `missed`: the optimization did not happen. */
void nablaOptimizationRemark(MlirLocation location, bool missed,
                             const char *name, const char *category,
                             const char *text);

/* An option of a pass. Every value is text to MLIR; the pass parses it. */
typedef struct nablaPassOption {
  const char *name, *description, *initial;
} nablaPassOption;

typedef struct nablaPassValue {
  const char *string; /* valid during the call */
} nablaPassValue;

/* A pass; the structure is static. `run` may be called on several threads at
 * once, each with its own anchor op. */
typedef struct nablaPass {
  const char *flag, *summary;
  const char *anchor; /* "builtin.module", "func.func"; NULL: any op */
  intptr_t optionCount;
  const nablaPassOption *options;
  /* Called once per run of a pass manager, before threads start. Its result is
   * shared, read-only, by all clones of the pass; NULL is a failure. */
  void *(*prepare)(MlirContext context, const nablaPassValue *values);
  void (*release)(void *prepared);
  MlirLogicalResult (*run)(MlirOperation op, const nablaPassValue *values,
                           void *prepared);
} nablaPass;

void nablaPassRegister(const nablaPass *pass);

/* A named pipeline; `text` is a textual pipeline. Both are static. */
void nablaPipelineRegister(const char *flag, const char *summary,
                           const char *text);

/* The values of mlir-opt's command-line options. */
typedef struct nablaOpt {
  int argc;
  char **argv;
  const char *title;
  MlirDialectRegistry registry;
  const char *input, *output; /* names of files or "-", set by nablaOptBegin */
} nablaOpt;

/* Parses the options; ends the process if they are invalid. If an option asks
 * for a list, prints it and returns the exit code; otherwise returns -1. */
int nablaOptBegin(nablaOpt *opt);

/* Runs the passes of the options on `text`, which must end with a NUL and which
 * errors call `input`, and passes the result to `write` in several calls.
 * Returns false if there were errors. */
bool nablaOptRun(nablaOpt *opt, MlirStringRef text, MlirStringCallback write,
                 void *self);

/* Calls `visit` with each feature of an x86 CPU in LLVM's spelling; returns
 * false if LLVM does not know `cpu`. */
bool nablaCpuFeatures(const char *cpu,
                      void (*visit)(void *self, const char *feature,
                                    intptr_t length),
                      void *self);

/* Returns whether `op` implements the interface of one-shot bufferization. */
bool nablaOpHasBuffers(MlirOperation op);

/* Callbacks for changes that are made through a rewriter. */
typedef struct nablaWatch {
  void *self;
  void (*inserted)(void *self, MlirOperation op);
  void (*erased)(void *self, MlirOperation op);
  /* `same`: the values have the types of the results that they replace */
  void (*replaced)(void *self, MlirOperation op, bool same);
} nablaWatch;

/* Calls `run` with a rewriter that inserts before `op`. */
void nablaRewrite(MlirOperation op, const nablaWatch *watch,
                  void (*run)(MlirRewriterBase rewriter, void *self),
                  void *self);
/* Applies to `op`, once, the best pattern that matches it. */
bool nablaRewritePattern(MlirOperation op, const nablaWatch *watch,
                         MlirFrozenRewritePatternSet patterns);

#ifdef __cplusplus
}
#endif

#endif
