// A slice of known or unknown size that attention alone reads is a view, also
// behind a reshape; one that something else reads too is gathered.
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after=nabla-state-results --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s"

// CHECK-LABEL: func.func @attend
// CHECK-SAME: %{{[a-z0-9]*}}: memref<2x1x64xf32>, %{{[a-z0-9]*}}: memref<i64>, %[[K:[a-z0-9]*]]: memref<3x2x32x64xf32>)
// CHECK-NOT: memref.alloc{{.*}}memref<2x?x64xf32
// CHECK: memref.subview %[[K]]
// CHECK-NOT: memref.alloc{{.*}}memref<2x?x64xf32
// CHECK: call @nabla_attention
func.func @attend(%q: tensor<2x1x64xf32>, %p: tensor<i64>, %k: tensor<3x2x32x64xf32> {nabla.name = "k"}) -> tensor<2x1x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i = tensor.extract %p[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %s = nabla.dynamic_slice %k at (%c1, %c0, %c0, %c0 : index, index, index, index) sizes(%n) : tensor<3x2x32x64xf32> -> tensor<1x2x?x64xf32>
  %a = nabla.reshape %s sizes(%n) : tensor<1x2x?x64xf32> -> tensor<2x?x64xf32>
  %y = nabla.attention %q, %a, %a : tensor<2x1x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>
  return %y : tensor<2x1x64xf32>
}

// CHECK-LABEL: func.func @both
// CHECK: memref.alloc{{.*}}memref<2x?x64xf32
func.func @both(%q: tensor<2x1x64xf32>, %p: tensor<i64>, %k: tensor<2x32x64xf32> {nabla.name = "k"}) -> (tensor<2x1x64xf32>, tensor<2x?x64xf32>) {
  %c0 = arith.constant 0 : index
  %i = tensor.extract %p[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %s = nabla.dynamic_slice %k at (%c0, %c0, %c0 : index, index, index) sizes(%n) : tensor<2x32x64xf32> -> tensor<2x?x64xf32>
  %y = nabla.attention %q, %s, %s : tensor<2x1x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>
  %e = nabla.exp %s : tensor<2x?x64xf32>
  return %y, %e : tensor<2x1x64xf32>, tensor<2x?x64xf32>
}

// A weight is read one element after the other: rows of a matrix, and a matrix of
// several, are views; a part with gaps is copied.
// CHECK-LABEL: func.func @weights
// CHECK-SAME: %[[X:[a-z0-9]*]]: memref<2x1x134xf32>, %[[W:[a-z0-9]*]]: memref<3x2x37x134xf32>
// CHECK: memref.subview %[[W]]
// CHECK-NOT: memref.alloc
// CHECK: call @nabla_fused_dense
// CHECK: memref.alloc{{.*}}memref<2x34x134xf32>
// CHECK: call @nabla_fused_dense{{.*}}memref<2x34x134xf32
func.func @weights(%x: tensor<2x1x134xf32>, %w: tensor<3x2x37x134xf32>, %v: tensor<2x37x150xf32>, %i: index) -> (tensor<2x1x37xf32>, tensor<2x1x34xf32>) {
  %c0 = arith.constant 0 : index
  %s = nabla.dynamic_slice %w at (%i, %c0, %c0, %c0 : index, index, index, index) : tensor<3x2x37x134xf32> -> tensor<1x2x37x134xf32>
  %m = nabla.reshape %s : tensor<1x2x37x134xf32> -> tensor<2x37x134xf32>
  %a = nabla.dot_general %x, %m batching = [0] x [0] contracting = [2] x [2] : tensor<2x1x134xf32>, tensor<2x37x134xf32>
  %p = nabla.slice %v starts = [0, 3, 7] limits = [-1, 37, 141] : tensor<2x37x150xf32>
  %b = nabla.dot_general %x, %p batching = [0] x [0] contracting = [2] x [2] : tensor<2x1x134xf32>, tensor<2x34x134xf32>
  return %a, %b : tensor<2x1x37xf32>, tensor<2x1x34xf32>
}

// Also of a state.
// CHECK-LABEL: func.func @state
// CHECK: memref.alloc{{.*}}memref<2x34x134xf32>
// CHECK: call @nabla_fused_dense{{.*}}memref<2x34x134xf32
func.func @state(%s: tensor<2x37x150xf32> {nabla.state = "s"}, %x: tensor<2x1x134xf32>) -> (tensor<2x37x150xf32> {nabla.state = "s"}, tensor<2x1x34xf32>) {
  %p = nabla.slice %s starts = [0, 3, 7] limits = [-1, 37, 141] : tensor<2x37x150xf32>
  %y = nabla.dot_general %x, %p batching = [0] x [0] contracting = [2] x [2] : tensor<2x1x134xf32>, tensor<2x34x134xf32>
  return %s, %y : tensor<2x37x150xf32>, tensor<2x1x34xf32>
}

// Parts with a dimension of 1 of their own are stacked behind it.
// CHECK-LABEL: func.func @stack
func.func @stack(%x: tensor<1x?x3x3xf32>) -> tensor<1x?x3x2x3xf32> {
  %y = nabla.stack %x, %x dim = 3 : tensor<1x?x3x3xf32>, tensor<1x?x3x3xf32>
  return %y : tensor<1x?x3x2x3xf32>
}
