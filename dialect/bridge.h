/* What mlir-c 22 lacks, given by Bridge.cpp: passes with options, pipelines,
 * mlir-opt's main, warnings, remarks, features of a CPU, an interface.
 * camelCase marks the border to MLIR. */
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

/* An option of a pass. All are text to MLIR; the pass reads what it means. */
typedef struct nablaPassOption {
  const char *name, *description, *initial;
} nablaPassOption;

typedef struct nablaPassValue {
  const char *string; /* valid during the call */
} nablaPassValue;

/* A pass, static for ever. `run` may be called on several threads at once, each
 * on its own anchor op. */
typedef struct nablaPass {
  const char *flag, *summary;
  const char *anchor; /* "builtin.module", "func.func"; NULL: any op */
  intptr_t optionCount;
  const nablaPassOption *options;
  /* Called once per pass manager run, before threads start. What it returns
   * (not NULL: that is a failure) is shared, read-only, by all clones. */
  void *(*prepare)(MlirContext context, const nablaPassValue *values);
  void (*release)(void *prepared);
  MlirLogicalResult (*run)(MlirOperation op, const nablaPassValue *values,
                           void *prepared);
} nablaPass;

void nablaPassRegister(const nablaPass *pass);

/* A named pipeline; `text` is a textual pipeline, static for ever. */
void nablaPipelineRegister(const char *flag, const char *summary,
                           const char *text);

/* What mlir-opt's command line asks for. */
typedef struct nablaOpt {
  int argc;
  char **argv;
  const char *title;
  MlirDialectRegistry registry;
  const char *input, *output; /* names of files or "-", by nablaOptBegin */
} nablaOpt;

/* Reads the options; ends the process where they are wrong. The exit code when
 * a list was asked for, which is printed then, else -1. */
int nablaOptBegin(nablaOpt *opt);

/* Does to `text`, which a NUL follows and errors call `input`, what the options
 * say, and gives the result to `write`, in several calls; false: there were
 * errors. */
bool nablaOptRun(nablaOpt *opt, MlirStringRef text, MlirStringCallback write,
                 void *self);

/* Calls `visit` with each feature of an x86 CPU as LLVM spells it; false when
 * LLVM does not know `cpu`. */
bool nablaCpuFeatures(const char *cpu,
                      void (*visit)(void *self, const char *feature,
                                    intptr_t length),
                      void *self);

/* Whether one-shot bufferization knows what `op` does with its tensors. */
bool nablaOpHasBuffers(MlirOperation op);

/* What is told of changes that are made through a rewriter. */
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
/* Applies the best pattern that matches `op`, once. */
bool nablaRewritePattern(MlirOperation op, const nablaWatch *watch,
                         MlirFrozenRewritePatternSet patterns);

#ifdef __cplusplus
}
#endif

#endif
