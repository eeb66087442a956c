// Arguments become implicit: what uses them takes them so, views become views,
// and only what cannot keeps a decoded array.
// RUN: nabla-opt "%s" --nabla-implicitize="function=f args=w,2 encoding=nf4<block=64>" --verify-diagnostics | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-implicitize="function=f args=w,2 encoding='#nabla.nf4<block = 64>'" 2>/dev/null | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-implicitize="function=f args=w,2 encoding=nf4<block=64>" --nabla-dispatch 2>/dev/null | FileCheck "%s" --check-prefix=DISPATCH

// CHECK-LABEL: func.func @f(
// CHECK-SAME: %arg0: tensor<4x128xf32>, %arg1: !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>> {nabla.name = "w"}, %arg2: !nabla.implicit<3x64x128xf32, #nabla.nf4<block = 64>>, %arg3: tensor<64x128xf32>)
// CHECK: %[[D:.*]] = nabla.materialize %arg1
// CHECK: nabla.linear %arg0, %arg1 : tensor<4x128xf32>, !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>>
// CHECK: %[[T:.*]] = nabla.transpose %arg1 permutation = [1, 0] : !nabla.implicit<
// CHECK: %[[R:.*]] = nabla.reshape %[[T]] : {{.*}} -> !nabla.implicit<128x8x8xf32, #nabla.nf4<block = 64>, view<64x128, strides = [1, 1024, 128], offset = 0>>
// CHECK: nabla.dot_general %arg0, %[[R]]
// CHECK: %[[B:.*]] = nabla.broadcast_in_dim %arg1 dims = [1, 2] : {{.*}} -> !nabla.implicit<2x64x128xf32, #nabla.nf4<block = 64>, view<64x128, strides = [0, 128, 1], offset = 0>>
// CHECK: nabla.exp %[[B]]
// CHECK: nabla.add %arg1, %arg3
// CHECK: nabla.scan init(%arg0 : tensor<4x128xf32>) over(%arg2 : !nabla.implicit<3x64x128xf32, #nabla.nf4<block = 64>>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4x128xf32>, %[[W:.*]]: !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>>)
// CHECK-NEXT: nabla.linear %[[X]], %[[W]]
// CHECK: call @other(%[[D]])
// DISPATCH-LABEL: func.func @f(
// DISPATCH-COUNT-3: nabla.fused_dot
func.func private @other(tensor<64x128xf32>)
func.func @f(%x: tensor<4x128xf32>, %w: tensor<64x128xf32> {nabla.name = "w"}, %s: tensor<3x64x128xf32>, %y: tensor<64x128xf32>) -> tensor<4x128xf32> {
  %0 = nabla.linear %x, %w : tensor<4x128xf32>, tensor<64x128xf32>
  %t = nabla.transpose %w permutation = [1, 0] : tensor<64x128xf32>
  %r = nabla.reshape %t : tensor<128x64xf32> -> tensor<128x8x8xf32>
  %1 = nabla.dot_general %x, %r contracting = [1] x [0] : tensor<4x128xf32>, tensor<128x8x8xf32>
  %b = nabla.broadcast_in_dim %w dims = [1, 2] : tensor<64x128xf32> -> tensor<2x64x128xf32>
  %2 = nabla.exp %b : tensor<2x64x128xf32>
  %3 = nabla.add %w, %y : tensor<64x128xf32>, tensor<64x128xf32>
  %4 = nabla.scan init(%x : tensor<4x128xf32>) over(%s : tensor<3x64x128xf32>) -> tensor<4x128xf32> {
  ^bb0(%c: tensor<4x128xf32>, %v: tensor<64x128xf32>):
    %5 = nabla.linear %c, %v : tensor<4x128xf32>, tensor<64x128xf32>
    %6 = nabla.concatenate %5, %5 dim = 1 : tensor<4x64xf32>, tensor<4x64xf32>
    nabla.yield %6 : tensor<4x128xf32>
  }
  // expected-warning @+1 {{'func.call' op does not take an implicit array here: nabla.materialize stays before it}}
  func.call @other(%w) : (tensor<64x128xf32>) -> ()
  return %4 : tensor<4x128xf32>
}

// CHECK-LABEL: func.func @untouched(
// CHECK-SAME: tensor<64x128xf32>
func.func @untouched(%w: tensor<64x128xf32>) -> tensor<64x128xf32> {
  return %w : tensor<64x128xf32>
}
