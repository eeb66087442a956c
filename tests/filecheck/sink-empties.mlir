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
