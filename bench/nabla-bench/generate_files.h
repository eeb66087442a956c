/* The files of the verb generate: a synthetic model, and models for llama.cpp,
 * in the folder `models` of the peers' folder, each written once. */
#ifndef NABLA_BENCH_GENERATE_FILES_H
#define NABLA_BENCH_GENERATE_FILES_H

#include "bench/nabla-bench/bench.h"
#include "nabla/model.h"

/* The path of the synthetic Llama, which make_checkpoint (examples), beside
 * this program, writes when it is not there.
 * @return NABLA_UNSUPPORTED without make_checkpoint; NABLA_IO */
NABLA_MUST_USE nabla_status bench_files_synthetic(char *out, size_t size,
                                                  nabla_diag *diag);

/* The path of `model`, found at `path`, as a GGUF file of the type `format`,
 * which the peer's program nabla-peer-write-gguf writes when it is not there.
 * @return NABLA_UNSUPPORTED without that program, or if it refuses; NABLA_IO */
NABLA_MUST_USE nabla_status bench_files_gguf(nabla_model *model,
                                             const char *path,
                                             const char *format, char *out,
                                             size_t size, nabla_diag *diag);

#endif
