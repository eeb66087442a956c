// The gradients of a lora that is divided: of x, a and b. No weight is gathered.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vjp{function=lora wrt=x,w.a,w.b},nabla-propagate-sharding,nabla-partition)' | FileCheck "%s"

// CHECK-LABEL: @lora.vjp(
// CHECK-SAME: tensor<4x64xf32> {nabla.name = "x.gradient"}, tensor<8x64xf32> {nabla.name = "w.a.gradient"}, tensor<256x8xf32> {nabla.name = "w.b.gradient"}
// CHECK-NEXT: %[[W:.*]]:3 = nabla.unpack %arg1 : {{.*}} -> !nabla.implicit<128x64xf32, #nabla.nf4<block = 32>>, tensor<8x64xf32>, tensor<128x8xf32>
// CHECK-NOT: nabla.pack
// CHECK: %[[B:.*]] = nabla.dot_general %arg2, %[[W]]#0 contracting = [1] x [0]
// CHECK: nabla.all_reduce sum
// CHECK-NOT: nabla.pack
// CHECK: return
!l = !nabla.implicit<256x64xf32, #nabla.lora<base = #nabla.nf4<block = 32>, rank = 8>>
nabla.mesh @m <["model"=2]>
func.func @lora(%x: tensor<4x64xf32> {nabla.name = "x"}, %w: !l {nabla.name = "w", nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) -> tensor<4x256xf32> {
  %y = nabla.linear %x, %w : tensor<4x64xf32>, !l
  return %y : tensor<4x256xf32>
}
