// nabla-jvp makes @NAME.jvp beside @NAME: arguments, then their tangents;
// results, then their tangents.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-jvp{function=layer wrt=x},nabla-jvp{function=ints},nabla-jvp{function=while},nabla-jvp{function=loop},nabla-jvp{function=call},nabla-jvp{function=twice},nabla-jvp{function=twice.jvp})' | FileCheck "%s"

// CHECK-LABEL: func.func @layer.jvp(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32> {nabla.name = "x"}, %[[W:.*]]: tensor<8x4xf32>, %[[V:.*]]: tensor<?x4xf32> {nabla.name = "x.tangent"})
// CHECK: %[[Y:.*]] = nabla.dot_general %[[X]], %[[W]] contracting = [1] x [1]
// CHECK-NEXT: %[[T:.*]] = nabla.dot_general %[[V]], %[[W]] contracting = [1] x [1]
// CHECK-NEXT: %[[E:.*]] = nabla.exp %[[Y]]
// CHECK-NEXT: %[[U:.*]] = nabla.mul %[[T]], %[[E]]
// CHECK-NEXT: return %[[E]], %[[U]]
func.func @layer(%x: tensor<?x4xf32> {nabla.name = "x"}, %w: tensor<8x4xf32>) -> tensor<?x8xf32> {
  %0 = nabla.linear %x, %w : tensor<?x4xf32>, tensor<8x4xf32>
  %1 = nabla.exp %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// Integers have no tangents.
// CHECK-LABEL: func.func @ints.jvp(
// CHECK-SAME: -> (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>)
func.func @ints(%x: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>) {
  %0 = nabla.is_nan %x : tensor<4xf32>
  %1 = nabla.add %x, %x : tensor<4xf32>, tensor<4xf32>
  return %0, %1 : tensor<4xi1>, tensor<4xf32>
}

// CHECK-LABEL: func.func @while.jvp(
// CHECK: nabla.while(%arg0, %arg2) : tensor<f32>, tensor<f32> cond {
// CHECK: nabla.condition %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<f32>, tensor<f32>
func.func @while(%x: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {
  %0 = nabla.while(%x) : tensor<f32> cond {
  ^bb0(%a: tensor<f32>):
    %p = nabla.compare lt %a, %limit : tensor<f32>, tensor<f32>
    nabla.condition %p, %a : tensor<i1>, tensor<f32>
  } do {
  ^bb0(%a: tensor<f32>):
    %b = nabla.mul %a, %a : tensor<f32>, tensor<f32>
    nabla.yield %b : tensor<f32>
  }
  return %0 : tensor<f32>
}

// The counter has no tangent, the carry and its slices have.
// CHECK-LABEL: func.func @loop.jvp(
// CHECK: nabla.scan init(%arg0, %{{.*}}, %arg2 : tensor<4xf32>, tensor<i64>, tensor<4xf32>) over(%arg1, %arg3 : tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<4xf32>, tensor<i64>, tensor<4xf32>
func.func @loop(%h: tensor<4xf32>, %xs: tensor<9x4xf32>) -> tensor<4xf32> {
  %n = nabla.constant dense<0> : tensor<i64>
  %0, %1 = nabla.scan init(%h, %n : tensor<4xf32>, tensor<i64>) over(%xs : tensor<9x4xf32>) -> tensor<4xf32>, tensor<i64> {
  ^bb0(%s: tensor<4xf32>, %k: tensor<i64>, %x: tensor<4xf32>):
    %2 = nabla.mul %s, %x : tensor<4xf32>, tensor<4xf32>
    nabla.yield %2, %k : tensor<4xf32>, tensor<i64>
  }
  return %0 : tensor<4xf32>
}

// CHECK: func.func private @square.jvp(
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.mul %x, %x : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @call.jvp(
// CHECK-NEXT: %[[R:.*]]:2 = call @square.jvp(%arg0, %arg1)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
func.func @call(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Second derivatives: what is made can be differentiated.
// CHECK-LABEL: func.func @twice.jvp.jvp(
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.sin %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
