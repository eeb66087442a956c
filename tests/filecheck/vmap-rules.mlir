// A function with rules is batched with its rules: all its tensors of floats get
// a batch, so that each example has its cotangent.
// RUN: nabla-opt "%s" --nabla-vmap="function=main in-axes=0,none axis-size=3" | FileCheck "%s"
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vmap{function=main in-axes=0,none axis-size=3},nabla-vjp{function=main.vmap wrt=1})' | FileCheck "%s" --check-prefix=GRADIENT

// CHECK-DAG: func.func private @f.vmap.{{[0-9]}}({{.*}}: tensor<3x4xf32>, {{.*}}: tensor<3x4xf32>) -> tensor<3x4xf32> attributes {nabla.jvp = @f_jvp.vmap.[[J:[0-9]]], nabla.vjp = [@f_forward.vmap.[[F:[0-9]]], @f_backward.vmap.[[B:[0-9]]]], no_inline}
// CHECK-DAG: func.func private @f_backward.vmap.{{[0-9]}}({{.*}}: tensor<3x4xf32>, {{.*}}: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
// CHECK-DAG: func.func private @f_jvp.vmap.{{[0-9]}}(
// CHECK-LABEL: func.func @main.vmap(
// CHECK: nabla.broadcast_in_dim %arg1 dims = [1] : tensor<4xf32> -> tensor<3x4xf32>
// GRADIENT-LABEL: func.func @main.vmap.vjp(
// GRADIENT: call @f_forward.vmap.
// GRADIENT: call @f_backward.vmap.
// GRADIENT: nabla.reduce sum %{{.*}} dims = [0] : tensor<3x4xf32>
func.func private @f_forward(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.mul %x, %w : tensor<4xf32>, tensor<4xf32>
  return %0, %w : tensor<4xf32>, tensor<4xf32>
}
func.func private @f_backward(%s: tensor<4xf32>, %u: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.mul %s, %u : tensor<4xf32>, tensor<4xf32>
  return %0, %u : tensor<4xf32>, tensor<4xf32>
}
func.func private @f_jvp(%x: tensor<4xf32>, %w: tensor<4xf32>, %dx: tensor<4xf32>, %dw: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.mul %x, %w : tensor<4xf32>, tensor<4xf32>
  return %0, %dx : tensor<4xf32>, tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.vjp = [@f_forward, @f_backward], nabla.jvp = @f_jvp, no_inline} {
  %0 = nabla.mul %x, %w : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @f(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
