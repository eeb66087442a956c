// Custom calls are merged and left out where they are pure, and only there.
// RUN: nabla-opt "%s" --cse --canonicalize | FileCheck "%s"

// CHECK-LABEL: func.func @pure
// CHECK-COUNT-1: nabla.custom_call @f(%{{.*}}) pure
// CHECK-NOT: nabla.custom_call
// CHECK-LABEL: func.func @not_pure
// CHECK-COUNT-3: nabla.custom_call @f
func.func @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.custom_call @f(%x) pure {a = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nabla.custom_call @f(%x) pure {a = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nabla.custom_call @f(%x) pure {a = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func @not_pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.custom_call @f(%x) {a = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nabla.custom_call @f(%x) {a = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nabla.custom_call @f(%x) {a = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
