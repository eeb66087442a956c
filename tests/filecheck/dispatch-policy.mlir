// policy=error refuses a program with a miss, and only such a one.
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error | FileCheck "%s"
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(func.func(nabla-dispatch{policy=error}))' | FileCheck "%s"

// RUN: nabla-opt "%s" --nabla-dispatch=target=portable | FileCheck "%s"

// The mark that rules read the target from is gone.
// CHECK-NOT: nabla.target
// CHECK: nabla.fused_dot
func.func @linear(%x: tensor<?x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}
