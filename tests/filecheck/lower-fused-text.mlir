// Kernels take little time to compile: a constant is there once, however often
// it is used.
// RUN: nabla-opt "%s" --nabla-lower-fused=features=avx | FileCheck "%s"

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: llvm.func internal @nabla_fused_
// CHECK: %[[K:.*]] = arith.constant 256 : i64
// CHECK-NOT: arith.constant 256 : i64
// CHECK: arith.muli %{{.*}}, %[[K]] overflow<nsw, nuw> : i64
// CHECK-NOT: arith.constant 256 : i64
// CHECK: llvm.return
func.func @f(%x: tensor<1x256xf32>, %w: !w) -> tensor<1x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<1x256xf32>, !w
  return %y : tensor<1x128xf32>
}
