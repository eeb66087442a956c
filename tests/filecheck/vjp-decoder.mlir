// The LoRA step of a layer of a decoder: the base of each weight stays packed,
// forwards and backwards, and gradients go to a and b alone.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vjp{function=layer wrt=q.a,q.b,v.a,v.b},nabla-dispatch{policy=error})' | FileCheck "%s"
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vjp{function=layer wrt=q.a,q.b,v.a,v.b save=dots},nabla-dispatch{policy=error})' | FileCheck "%s"

// CHECK-LABEL: func.func @layer.vjp(
// CHECK-SAME: tensor<8x64xf32> {nabla.name = "q.a.gradient"}, tensor<64x8xf32> {nabla.name = "q.b.gradient"}
// CHECK-NOT: nabla.materialize
// CHECK-NOT: nabla.dot_general {{.*}}!nabla.implicit
// The cotangent of the loss comes back through down, up, gate and o, each
// transposed, and not through the bases of q, k and v: x has no gradient.
// CHECK-DAG: %[[D:.*]] = nabla.transpose %arg9 permutation = [1, 0] : !nabla.implicit<64x128xf32
// CHECK-DAG: nabla.fused_dot %{{.*}}, %[[D]] : {{.*}}!nabla.implicit<128x64xf32, #nabla.nf4<block = 64>, view<64x128
// CHECK-DAG: %[[U:.*]] = nabla.transpose %arg8 permutation = [1, 0] : !nabla.implicit<128x64xf32
// CHECK-DAG: nabla.fused_dot %{{.*}}, %[[U]] : {{.*}}!nabla.implicit<64x128xf32, #nabla.nf4<block = 64>, view<128x64
// CHECK-DAG: %[[G:.*]] = nabla.transpose %arg7 permutation = [1, 0] : !nabla.implicit<128x64xf32
// CHECK-DAG: nabla.fused_dot %{{.*}}, %[[G]] : {{.*}}!nabla.implicit<64x128xf32, #nabla.nf4<block = 64>, view<128x64
// CHECK-DAG: %[[O:.*]] = nabla.transpose %arg4 permutation = [1, 0] : !nabla.implicit<64x64xf32
// CHECK-DAG: nabla.fused_dot %{{.*}}, %[[O]] : {{.*}}!nabla.implicit<64x64xf32, #nabla.nf4<block = 64>, view<64x64
// CHECK-NOT: nabla.materialize
// CHECK: return
!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
!l = !nabla.implicit<64x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
!in = !nabla.implicit<128x64xf32, #nabla.nf4<block = 64>>
!out = !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>>
func.func @layer(%x: tensor<16x64xf32>, %wq: !l {nabla.name = "q"}, %wk: !w {nabla.name = "k"}, %wv: !l {nabla.name = "v"}, %wo: !w {nabla.name = "o"}, %n1: tensor<64xf32>, %n2: tensor<64xf32>, %gate: !in, %up: !in, %down: !out, %target: tensor<16x64xf32>) -> tensor<f32> {
  %h = nabla.rms_norm %x, %n1 eps = 1.0e-5 : tensor<16x64xf32>, tensor<64xf32>
  %q0 = nabla.linear %h, %wq : tensor<16x64xf32>, !l
  %k0 = nabla.linear %h, %wk : tensor<16x64xf32>, !w
  %v0 = nabla.linear %h, %wv : tensor<16x64xf32>, !l
  %q1 = nabla.reshape %q0 : tensor<16x64xf32> -> tensor<16x4x16xf32>
  %k1 = nabla.reshape %k0 : tensor<16x64xf32> -> tensor<16x4x16xf32>
  %v1 = nabla.reshape %v0 : tensor<16x64xf32> -> tensor<16x4x16xf32>
  %q2 = nabla.rope halves %q1 dim = 0 : tensor<16x4x16xf32>
  %k2 = nabla.rope halves %k1 dim = 0 : tensor<16x4x16xf32>
  %q = nabla.transpose %q2 permutation = [1, 0, 2] : tensor<16x4x16xf32>
  %k = nabla.transpose %k2 permutation = [1, 0, 2] : tensor<16x4x16xf32>
  %v = nabla.transpose %v1 permutation = [1, 0, 2] : tensor<16x4x16xf32>
  %a = nabla.attention %q, %k, %v causal : tensor<4x16x16xf32>, tensor<4x16x16xf32>, tensor<4x16x16xf32>
  %b = nabla.transpose %a permutation = [1, 0, 2] : tensor<4x16x16xf32>
  %c = nabla.reshape %b : tensor<16x4x16xf32> -> tensor<16x64xf32>
  %d = nabla.linear %c, %wo : tensor<16x64xf32>, !w
  %e = nabla.add %x, %d : tensor<16x64xf32>, tensor<16x64xf32>
  %f = nabla.rms_norm %e, %n2 eps = 1.0e-5 : tensor<16x64xf32>, tensor<64xf32>
  %g0 = nabla.linear %f, %gate : tensor<16x64xf32>, !in
  %g1 = nabla.silu %g0 : tensor<16x128xf32>
  %u = nabla.linear %f, %up : tensor<16x64xf32>, !in
  %m = nabla.mul %g1, %u : tensor<16x128xf32>, tensor<16x128xf32>
  %o = nabla.linear %m, %down : tensor<16x128xf32>, !out
  %y = nabla.add %e, %o : tensor<16x64xf32>, tensor<16x64xf32>
  %r = nabla.sub %y, %target : tensor<16x64xf32>, tensor<16x64xf32>
  %s = nabla.mul %r, %r : tensor<16x64xf32>, tensor<16x64xf32>
  %loss = nabla.reduce sum %s dims = [0, 1] : tensor<16x64xf32>
  return %loss : tensor<f32>
}
