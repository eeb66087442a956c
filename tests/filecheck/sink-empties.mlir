// Each iteration has a buffer of its own.
// RUN: nabla-opt "%s" --nabla-sink-empties | FileCheck "%s"

// CHECK-LABEL: @loop
func.func @loop(%n: index, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: %[[E:.*]] = tensor.empty() : tensor<3xf32>
  // CHECK: %[[T:.*]] = linalg.exp ins(%arg1 : tensor<3xf32>) outs(%[[E]]
  %e = tensor.empty() : tensor<3xf32>
  %t = linalg.exp ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  // CHECK: scf.for
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %t, %b = %t) -> (tensor<3xf32>, tensor<3xf32>) {
    // CHECK: %[[F:.*]] = tensor.empty() : tensor<3xf32>
    // CHECK-NEXT: linalg.exp ins(%{{.*}} : tensor<3xf32>) outs(%[[F]]
    %y = linalg.exp ins(%a : tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
    scf.yield %y, %a : tensor<3xf32>, tensor<3xf32>
  }
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xf32>
}

// A branch runs once: it keeps what is before it.
// CHECK-LABEL: @branch
func.func @branch(%p: i1, %x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK-NEXT: %[[E:.*]] = tensor.empty()
  // CHECK-NOT: tensor.empty
  %e = tensor.empty() : tensor<3xf32>
  %r = scf.if %p -> tensor<3xf32> {
    %y = linalg.exp ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
    scf.yield %y : tensor<3xf32>
  } else {
    scf.yield %x : tensor<3xf32>
  }
  return %r : tensor<3xf32>
}

// A value that is returned and inserted into a slice, also reshaped, is not made
// in the slice.
// CHECK-LABEL: @kept(
func.func @kept(%cache: tensor<8x4xf32>, %x: tensor<2x2xf32>, %i: index) -> (tensor<2x2xf32>, tensor<8x4xf32>) {
  // CHECK: %[[A:.*]] = bufferization.alloc_tensor() : tensor<2x2xf32>
  // CHECK: linalg.exp ins({{.*}}) outs(%[[A]]
  %e = tensor.empty() : tensor<2x2xf32>
  %y = linalg.exp ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %flat = tensor.collapse_shape %y [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %row = tensor.expand_shape %flat [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  %r = tensor.insert_slice %row into %cache[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  return %y, %r : tensor<2x2xf32>, tensor<8x4xf32>
}

// One that is inserted alone is.
// CHECK-LABEL: @inserted(
func.func @inserted(%cache: tensor<8x4xf32>, %x: tensor<1x4xf32>, %n: index, %i: index) -> (tensor<?x4xf32>, tensor<8x4xf32>) {
  // CHECK: %[[E:.*]] = tensor.empty() : tensor<1x4xf32>
  // CHECK: linalg.exp ins({{.*}}) outs(%[[E]]
  %e = tensor.empty() : tensor<1x4xf32>
  %y = linalg.exp ins(%x : tensor<1x4xf32>) outs(%e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %r = tensor.insert_slice %y into %cache[%i, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  // CHECK: tensor.empty(%{{.*}}) : tensor<?x4xf32>
  %f = tensor.empty(%n) : tensor<?x4xf32>
  %c = arith.constant 0.0 : f32
  %z = linalg.fill ins(%c : f32) outs(%f : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %z, %r : tensor<?x4xf32>, tensor<8x4xf32>
}
