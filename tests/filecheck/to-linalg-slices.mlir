// Slices, joined arrays, pieces, pads and flips in linalg and tensor: indices
// are computed, parts are written in place, places are clamped.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --implicit-check-not='= nabla.'
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast

// LLVM: llvm.func @nabla_entry_slice

// CHECK-LABEL: func.func @slice
// CHECK-NOT: call
// CHECK: tensor.empty() : tensor<2x3xf32>
// CHECK: linalg.generic
// CHECK: %[[I:.*]] = linalg.index 0 : index
// CHECK: arith.muli %[[I]]
// CHECK: tensor.extract %arg0
func.func @slice(%x: tensor<5x8xf32>) -> tensor<2x3xf32> {
  %0 = nabla.slice %x starts = [1, 2] limits = [4, 5] strides = [2, 1] : tensor<5x8xf32>
  return %0 : tensor<2x3xf32>
}

// A limit is checked where the size is not known.
// CHECK-LABEL: func.func @slice_unknown
// CHECK: %[[N:.*]] = tensor.dim %arg0
// CHECK: %[[M:.*]] = arith.minsi %{{.*}}, %[[N]] : index
// CHECK: arith.index_cast %[[M]] : index to i64
// CHECK: call @nabla_require_equal
// CHECK: tensor.empty() : tensor<3xf32>
func.func @slice_unknown(%x: tensor<?xf32>) -> tensor<3xf32> {
  %0 = nabla.slice %x starts = [1] limits = [4] : tensor<?xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @dynamic_slice
// CHECK: %[[I:.*]] = tensor.extract %arg1[] : tensor<i32>
// CHECK: %[[P:.*]] = arith.index_cast %[[I]] : i32 to index
// CHECK: %[[L:.*]] = arith.minsi %[[P]], %{{.*}} : index
// CHECK: arith.maxsi %[[L]], %{{.*}} : index
func.func @dynamic_slice(%x: tensor<8xf32>, %i: tensor<i32>) -> tensor<3xf32> {
  %0 = nabla.dynamic_slice %x at(%i : tensor<i32>) : tensor<8xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @dynamic_update_slice
// CHECK: %[[S:.*]] = tensor.extract_slice %arg0
// CHECK: %[[G:.*]] = linalg.generic {{.*}} outs(%[[S]]
// CHECK: tensor.insert_slice %[[G]] into %arg0
func.func @dynamic_update_slice(%x: tensor<8xf32>, %y: tensor<2xf32>, %i: index) -> tensor<8xf32> {
  %0 = nabla.dynamic_update_slice %x, %y at(%i : index) : tensor<8xf32>, tensor<2xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @concatenate
// CHECK: %[[E:.*]] = tensor.empty() : tensor<5x8xf32>
// CHECK: %[[A:.*]] = tensor.insert_slice %{{.*}} into %[[E]]
// CHECK: tensor.insert_slice %{{.*}} into %[[A]]
func.func @concatenate(%x: tensor<2x8xf32>, %y: tensor<3x8xf32>) -> tensor<5x8xf32> {
  %0 = nabla.concatenate %x, %y dim = 0 : tensor<2x8xf32>, tensor<3x8xf32>
  return %0 : tensor<5x8xf32>
}

// CHECK-LABEL: func.func @split
// CHECK: tensor.empty() : tensor<2x3xui8>
// CHECK: tensor.empty() : tensor<2x5xui8>
func.func @split(%x: tensor<2x8xui8>) -> (tensor<2x3xui8>, tensor<2x5xui8>) {
  %0:2 = nabla.split %x dim = 1 sizes = [3, 5] : tensor<2x8xui8>
  return %0#0, %0#1 : tensor<2x3xui8>, tensor<2x5xui8>
}

// Every third element of the result is one of the operand.
// CHECK-LABEL: func.func @pad
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<f32>)
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}] [%{{.*}}] [3]
// CHECK: tensor.insert_slice
func.func @pad(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<11xf32> {
  %0 = nabla.pad %x, %v low = [-1] high = [2] interior = [2] : tensor<4xf32>, tensor<f32>
  return %0 : tensor<11xf32>
}

// CHECK-LABEL: func.func @flip
// CHECK: arith.constant -1 : index
// CHECK: tensor.extract %arg0
func.func @flip(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = nabla.flip %x dims = [0] : tensor<?xf32>
  return %0 : tensor<?xf32>
}
