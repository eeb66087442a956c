// A pass that fails leaves a reproducer, which fails in the same way; so does
// one with a list of features, whose commas stay in the option.
// RUN: not nabla-opt "%s" --nabla-simplify --nabla-dispatch=policy=error --mlir-pass-pipeline-crash-reproducer="%t.mlir" -o "%t.out" 2>&1 | FileCheck "%s"
// RUN: FileCheck "%s" --check-prefix=FILE --input-file="%t.mlir"
// RUN: not nabla-opt "%t.mlir" --run-reproducer -o "%t.out" 2>&1 | FileCheck "%s" --check-prefix=AGAIN
// RUN: not nabla-opt "%s" --nabla-simplify --nabla-dispatch=policy=error --mlir-pass-pipeline-crash-reproducer="%t.local.mlir" --mlir-pass-pipeline-local-reproducer --mlir-disable-threading -o "%t.out" 2>&1 | FileCheck "%s"
// RUN: FileCheck "%s" --check-prefix=LOCAL --input-file="%t.local.mlir"
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(nabla-lower-fused{features="avx2,fma"},func.func(nabla-dispatch{policy=error}))' --mlir-pass-pipeline-crash-reproducer="%t.list.mlir" -o "%t.out" 2>&1 | FileCheck "%s"
// RUN: not nabla-opt "%t.list.mlir" --run-reproducer -o "%t.out" 2>&1 | FileCheck "%s" --check-prefix=AGAIN

// CHECK: error: 'nabla.reduce' op would materialize 1 operand
// CHECK: reproducer generated at
// FILE: nabla.reduce
// FILE: pipeline: "builtin.module(nabla-simplify, nabla-dispatch{policy=error rules= target=host})"
// LOCAL: pipeline: "builtin.module(nabla-dispatch{policy=error rules= target=host})"
// AGAIN: error: 'nabla.reduce' op would materialize 1 operand
func.func @miss(%w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<8xf32> {
  %0 = nabla.reduce sum %w dims = [1] : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<8xf32>
}
