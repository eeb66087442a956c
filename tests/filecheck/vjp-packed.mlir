// With respect to x a product with a packed weight is one with the transposed
// weight, which nabla-dispatch makes a kernel: nothing is materialized.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vjp{function=x},nabla-vjp{function=master},nabla-vjp{function=lora wrt=x,w.a,w.b},nabla-dispatch{policy=error})' | FileCheck "%s"

// CHECK-NOT: nabla.materialize
!w = !nabla.implicit<256x64xf32, #nabla.nf4<block = 64>>
// CHECK-LABEL: func.func @x.vjp(
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor<4x64xf32>, !nabla.implicit<256x64xf32, #nabla.nf4<block = 64>>
// CHECK: %[[T:.*]] = nabla.transpose %arg1 permutation = [1, 0]
// CHECK: nabla.fused_dot %arg2, %[[T]] : tensor<4x256xf32>, !nabla.implicit<64x256xf32, {{.*}}view<256x64, strides = [1, 64]
func.func @x(%x: tensor<4x64xf32>, %w: !w) -> tensor<4x256xf32> {
  %0 = nabla.linear %x, %w : tensor<4x64xf32>, !w
  return %0 : tensor<4x256xf32>
}

// The gradient of the master goes straight through its quantization.
// CHECK-LABEL: func.func @master.vjp(
// CHECK: %[[Q:.*]] = nabla.quantize %arg1
// CHECK: %[[Y:.*]] = nabla.fused_dot %arg0, %[[Q]]
// CHECK: %[[T:.*]] = nabla.transpose %[[Q]] permutation = [1, 0]
// CHECK: %[[DX:.*]] = nabla.fused_dot %arg2, %[[T]]
// CHECK: %[[DM:.*]] = nabla.fused_dot %arg2, %arg0 contracting = [0] x [0]
// CHECK: return %[[Y]], %[[DX]], %[[DM]]
func.func @master(%x: tensor<4x64xf32>, %m: tensor<256x64xf32>) -> tensor<4x256xf32> {
  %0 = nabla.quantize %m : tensor<256x64xf32> -> !w
  %1 = nabla.dot_general %x, %0 contracting = [1] x [1] : tensor<4x64xf32>, !w
  return %1 : tensor<4x256xf32>
}

// The base of a lora has no gradient and stays packed; a and b have one.
!l = !nabla.implicit<256x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
// CHECK-LABEL: func.func @lora.vjp(
// CHECK-SAME: tensor<8x64xf32> {nabla.name = "w.a.gradient"}, tensor<256x8xf32> {nabla.name = "w.b.gradient"})
// CHECK: %[[P:.*]]:3 = nabla.unpack %arg1
// CHECK-NOT: nabla.unpack
// CHECK: %[[X:.*]] = nabla.dot_general %arg0, %[[P]]#1 contracting = [1] x [1]
// CHECK: %[[V:.*]] = nabla.fused_dot %arg2, %[[P]]#2 contracting = [1] x [0]
// CHECK: %[[DB:.*]] = nabla.fused_dot %arg2, %[[X]] contracting = [0] x [0]
// CHECK: %[[DA:.*]] = nabla.dot_general %[[V]], %arg0 contracting = [0] x [0]
// CHECK: return %{{.*}}, %{{.*}}, %[[DA]], %[[DB]]
func.func @lora(%x: tensor<4x64xf32> {nabla.name = "x"}, %w: !l {nabla.name = "w"}) -> tensor<4x256xf32> {
  %0 = nabla.linear %x, %w : tensor<4x64xf32>, !l
  return %0 : tensor<4x256xf32>
}
