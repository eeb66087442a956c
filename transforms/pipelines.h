/* Named pipelines: text, so that a tool shows exactly what the compiler runs.
 */
#ifndef NABLA_TRANSFORMS_PIPELINES_H
#define NABLA_TRANSFORMS_PIPELINES_H

#include "lib/kernels/builder/text.h"

/* Appends the passes of `nabla-cpu`, from a program to the LLVM dialect, to be
 * put into builtin.module(...).
 * @param features  of the target, as LLVM spells them, or "host"
 * @param policy    of nabla-dispatch
 * @param numerics  of kernels, by name (nabla/numerics.h) */
void nabla_pipeline_cpu(nabla_text *out, const char *features,
                        const char *policy, const char *numerics);

#endif
