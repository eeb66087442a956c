// What mlir-opt's command line does, with our passes, options and pipelines.
// RUN: nabla-opt "%s" --help | FileCheck "%s" --check-prefix=HELP
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-simplify,func.func(nabla-dispatch{policy=error},nabla-fuse),nabla-lower-implicit,nabla-lower-fused{features="avx2,fma"})' | FileCheck "%s" --check-prefix=TEXT
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(nabla-dispatch{policies=off})' 2>&1 | FileCheck "%s" --check-prefix=WRONG
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(nabla-dispatch{policy})' 2>&1 | FileCheck "%s" --check-prefix=VALUE
// RUN: not nabla-opt "%s" --nabla-cpu="numerics=int8" 2>&1 | FileCheck "%s" --check-prefix=NONE
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(nabla-cpu{numerics=int8})' 2>&1 | FileCheck "%s" --check-prefix=NONE
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(nabla-despatch)' 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN
// RUN: not nabla-opt "%s" --pass-pipeline='builtin.module(func.func(nabla-manifest))' 2>&1 | FileCheck "%s" --check-prefix=ANCHOR
// RUN: nabla-opt "%s" --nabla-cpu --dump-pass-pipeline -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=DUMP
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after-all -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=PRINT
// RUN: nabla-opt "%s" --nabla-dispatch --mlir-print-ir-before=nabla-dispatch --mlir-print-ir-after-all --mlir-print-ir-after-change -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=BEFORE
// RUN: nabla-opt "%s" --nabla-cpu --mlir-timing --mlir-timing-display=list -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=TIMING
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s"

// HELP-DAG: --nabla-dispatch {{ *}}- {{ *}}Applies the rules for implicit operands
// HELP-DAG: --policy=<string>
// HELP-DAG: --nabla-lower-fused
// HELP-DAG: --features=<string>
// HELP: --nabla-cpu {{ *}}- {{ *}}From the nabla dialect to the LLVM dialect
// HELP-NEXT: differentiate  no pass: nabla-vjp and nabla-jvp run before, on functions by name
// HELP-NEXT: batch  {{ *}}no pass: nabla-vmap runs before, on functions by name
// HELP-NEXT: shardings  {{ *}}nabla-propagate-sharding
// HELP-NEXT: manifest  {{ *}}nabla-manifest
// HELP-NEXT: partition  {{ *}}nabla-partition
// HELP-NEXT: dispatch  {{ *}}nabla-simplify,nabla-dispatch{
// HELP: device  {{ *}}no pass: a place for functions
// HELP-NEXT: kernels  {{ *}}nabla-lower-fused{features="host" numerics=f32 target=host}
// HELP: services  {{ *}}nabla-lower-services
// HELP-NEXT: --nabla-kernels

// TEXT: call @nabla_parallel
// TEXT: llvm.func internal @nabla_fused_

// WRONG: no such option policies
// VALUE: for the --policy option: requires a value!
// NONE: this pipeline has no options: write its passes out
// UNKNOWN: 'nabla-despatch' does not refer to a registered pass or pass pipeline
// ANCHOR: Can't add pass 'nabla-manifest' restricted to 'builtin.module' on a PassManager intended to run on 'func.func'

// DUMP: nabla-manifest
// DUMP: nabla-simplify
// DUMP: nabla-dispatch{policy=warn rules= target=host}
// DUMP: nabla-fuse
// DUMP: nabla-lower-implicit
// DUMP: nabla-lower-fused{features=host numerics=f32 target=host}
// DUMP: nabla-to-linalg
// DUMP: one-shot-bufferize
// DUMP: nabla-lower-services

// PRINT: IR Dump After nabla-dispatch
// PRINT: nabla.fused_dot
// PRINT: IR Dump After nabla-fuse
// PRINT: epilogue = ["silu"]
// PRINT: IR Dump After nabla-lower-implicit
// PRINT: nabla.pack
// PRINT: IR Dump After nabla-lower-fused
// PRINT: IR Dump After nabla-to-linalg
// PRINT: IR Dump After nabla-lower-services

// BEFORE: IR Dump Before nabla-dispatch
// BEFORE: nabla.dot_general
// BEFORE: IR Dump After nabla-dispatch
// BEFORE: nabla.fused_dot

// TIMING: Execution time report
// TIMING-DAG: nabla-dispatch
// TIMING-DAG: nabla-lower-fused

// CHECK: module attributes {{.*}}nabla.lowered
// CHECK: llvm.func @nabla_entry_linear
// CHECK-NOT: func.func
// CHECK-NOT: = nabla.
func.func @linear(%x: tensor<?x64xf32> {nabla.name = "x"}, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>> {nabla.name = "w"}) -> tensor<?x8xf32> {
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  %1 = nabla.silu %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
