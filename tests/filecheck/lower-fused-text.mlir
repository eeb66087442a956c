// Kernels take little time to compile: a constant is there once, however often
// it is used, what is not used is not there, operations are those of the LLVM
// dialect, and LLVM does not look for vectors in their loops.
// RUN: nabla-opt "%s" --nabla-lower-fused=features=avx | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: llvm.func internal @nabla_fused_
// CHECK: %[[K:.*]] = llvm.mlir.constant(256 : i64) : i64
// CHECK-NOT: llvm.mlir.constant(256 : i64)
// CHECK-NOT: llvm.getelementptr %arg0[5]
// CHECK: llvm.mul %{{.*}}, %[[K]] overflow<nsw, nuw> : i64
// CHECK-NOT: {{ (arith|vector)\.}}
// CHECK-NOT: llvm.mlir.constant(256 : i64)
// CHECK: llvm.return

// LLVM: #[[V:.*]] = #llvm.loop_vectorize<disable = true>
// LLVM: #[[A:.*]] = #llvm.loop_annotation<vectorize = #[[V]]>
// LLVM-LABEL: llvm.func internal @nabla_fused_
// LLVM: llvm.br ^{{.*}} {loop_annotation = #[[A]]}
// LLVM: llvm.return
func.func @f(%x: tensor<1x256xf32>, %w: !w) -> tensor<1x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<1x256xf32>, !w
  return %y : tensor<1x128xf32>
}
