/* See pipelines.h. */
#include "transforms/pipelines.h"

/* Written for the reader of --mlir-print-ir-after-all: each line is a stage.
 * What has nothing to do in kernels, which are llvm.func and most of a module,
 * runs on func.func. */
void nabla_pipeline_cpu(nabla_text *out, const char *features,
                        const char *policy, const char *numerics) {
  nabla_text_add(out,
                 "nabla-manifest,"
                 "nabla-simplify,nabla-dispatch{policy=%s},nabla-fuse,"
                 "nabla-outline,nabla-decompose,nabla-simplify,nabla-calls,"
                 "nabla-lower-control,cse,nabla-lower-implicit,"
                 "nabla-lower-fused{features=\"%s\" numerics=%s},"
                 "nabla-to-linalg{features=\"%s\"},nabla-lower-switch,"
                 "nabla-outs-to-ins,",
                 policy, features, numerics, features);
  nabla_text_add(
      out,
      "func.func(convert-elementwise-to-linalg),nabla-resolve-dims,"
      "nabla-fuse-large,"
      "func.func(linalg-fuse-elementwise-ops,nabla-fuse-large-end,canonicalize,"
      "cse),nabla-check-ops,nabla-table-arguments,"
      "eliminate-empty-tensors,func.func(empty-tensor-to-alloc-tensor),"
      "one-shot-bufferize{bufferize-function-boundaries=true "
      "allow-return-allocs-from-loops=true "
      "function-boundary-type-conversion=identity-layout-map},"
      "drop-equivalent-buffer-results,"
      "ownership-based-buffer-deallocation,"
      "func.func(canonicalize,buffer-deallocation-simplification),"
      "bufferization-lower-deallocations,"
      "func.func(convert-bufferization-to-memref),"
      "nabla-table-calls,nabla-expand-copies,");
  nabla_text_add(out,
                 "func.func(convert-linalg-to-loops,"
                 "arith-expand{include-bf16=true},convert-vector-to-scf),"
                 "convert-scf-to-cf,"
                 "func.func(expand-strided-metadata,lower-affine,"
                 "convert-vector-to-llvm{enable-x86vector "
                 "reassociate-fp-reductions}),convert-to-llvm,"
                 "reconcile-unrealized-casts,cse,nabla-lower-bf16,"
                 "nabla-lower-services");
}
