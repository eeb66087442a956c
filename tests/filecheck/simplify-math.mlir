// nabla-simplify on the operations of NablaMath.td.
// RUN: nabla-opt "%s" --nabla-simplify --canonicalize | FileCheck "%s"

// CHECK-LABEL: func.func @folded
// CHECK-NEXT: %[[ABS:.*]] = nabla.abs %arg0
// CHECK-NEXT: %[[ROUND:.*]] = nabla.round %arg0
// CHECK-NEXT: return %arg0, %arg2, %[[ABS]], %[[ROUND]], %arg0, %arg0, %arg0, %arg0, %arg0, %arg2
func.func @folded(%x: tensor<4xf32>, %c: tensor<4xi1>, %i: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xi8>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>) {
  %zero = nabla.constant dense<0.0> : tensor<4xf32>
  %one = nabla.constant dense<1.0> : tensor<4xf32>
  %0 = nabla.neg %x : tensor<4xf32>
  %1 = nabla.neg %0 : tensor<4xf32>
  %2 = nabla.not %i : tensor<4xi8>
  %3 = nabla.not %2 : tensor<4xi8>
  %4 = nabla.abs %x : tensor<4xf32>
  %5 = nabla.abs %4 : tensor<4xf32>
  %6 = nabla.round %x : tensor<4xf32>
  %7 = nabla.round %6 : tensor<4xf32>
  %8 = nabla.convert %x : tensor<4xf32> -> tensor<4xf32>
  %9 = nabla.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  %10 = nabla.maximum %x, %x : tensor<4xf32>, tensor<4xf32>
  %11 = nabla.sub %x, %zero : tensor<4xf32>, tensor<4xf32>
  %12 = nabla.div %x, %one : tensor<4xf32>, tensor<4xf32>
  %13 = nabla.and %i, %i : tensor<4xi8>, tensor<4xi8>
  return %1, %3, %5, %7, %8, %9, %10, %11, %12, %13 : tensor<4xf32>, tensor<4xi8>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi8>
}

// x - -0 is not x for x = -0; sizes are compared at run time; another rounding
// is another number; conversions there and back lose bits.
// CHECK-LABEL: func.func @kept
// CHECK: nabla.sub
// CHECK: nabla.select
// CHECK: nabla.floor
// CHECK: nabla.ceil
// CHECK: nabla.convert
// CHECK: nabla.convert
func.func @kept(%x: tensor<4xf32>, %c: tensor<?xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %minus = nabla.constant dense<-0.0> : tensor<4xf32>
  %0 = nabla.sub %x, %minus : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.select %c, %x, %x : tensor<?xi1>, tensor<4xf32>, tensor<4xf32>
  %2 = nabla.floor %x : tensor<4xf32>
  %3 = nabla.ceil %2 : tensor<4xf32>
  %4 = nabla.convert %x : tensor<4xf32> -> tensor<4xf16>
  %5 = nabla.convert %4 : tensor<4xf16> -> tensor<4xf32>
  return %0, %1, %3, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
