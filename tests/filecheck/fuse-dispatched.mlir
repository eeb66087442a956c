// What nabla-dispatch makes of x of rank 3 is fused too: sizes are followed
// through its reshapes.
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-fuse | FileCheck "%s"

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @rank_three
// CHECK: nabla.fused_dot %{{.*}}, %arg1(%arg2) epilogue = ["bias", "silu"]
// CHECK: nabla.reshape
// CHECK-NEXT: return
func.func @rank_three(%x: tensor<?x?x256xf32>, %w: !w, %b: tensor<128xf32>) -> tensor<?x?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [2] x [1] : tensor<?x?x256xf32>, !w
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?x256xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x256xf32>
  %0 = nabla.broadcast_in_dim %b dims = [2] sizes(%m, %n) : tensor<128xf32> -> tensor<?x?x128xf32>
  %1 = nabla.add %y, %0 : tensor<?x?x128xf32>, tensor<?x?x128xf32>
  %2 = nabla.silu %1 : tensor<?x?x128xf32>
  return %2 : tensor<?x?x128xf32>
}
