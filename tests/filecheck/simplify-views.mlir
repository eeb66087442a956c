// Views of views become one, pieces that are the whole nothing; exact.
// RUN: nabla-opt "%s" --split-input-file --nabla-simplify | FileCheck "%s"

// CHECK-LABEL: func.func @slices
// CHECK-SAME: (%[[X:.*]]: tensor<20x9xf32>
// CHECK: %[[S:.*]] = nabla.slice %[[X]] starts = [7, 1] limits = [14, 2] strides = [6, 1] : tensor<20x9xf32>
// CHECK: %[[E:.*]] = nabla.slice %[[X]] starts = [0, 1] limits = [0, 5] strides = [1, 1] : tensor<20x9xf32>
// CHECK: return %[[S]], %[[E]]
func.func @slices(%x: tensor<20x9xf32>) -> (tensor<2x1xf32>, tensor<0x4xf32>) {
  %0 = nabla.slice %x starts = [1, 1] limits = [-1, 5] strides = [3, 1] : tensor<20x9xf32>
  %1 = nabla.slice %0 starts = [2, 0] limits = [5, 2] strides = [2, 3] : tensor<7x4xf32>
  %2 = nabla.slice %0 starts = [7, 0] limits = [7, 4] : tensor<7x4xf32>
  return %1, %2 : tensor<2x1xf32>, tensor<0x4xf32>
}

// Nothing is left out; of sizes that are not known only `-1` says so.
// CHECK-LABEL: func.func @whole
// CHECK-SAME: (%[[X:.*]]: tensor<?x9xf32>
// CHECK: %[[S:.*]] = nabla.slice %[[X]] starts = [0, 0] limits = [4, 9]
// CHECK: %[[T:.*]] = nabla.slice %[[X]] starts = [0, 0] limits = [-1, 9] strides = [2, 1]
// CHECK: return %[[X]], %[[S]], %[[T]], %arg1, %arg1, %arg1
func.func @whole(%x: tensor<?x9xf32>, %y: tensor<4x6xf32>, %v: tensor<f32>) -> (tensor<?x9xf32>, tensor<4x9xf32>, tensor<?x9xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = nabla.slice %x starts = [0, 0] limits = [-1, 9] : tensor<?x9xf32>
  %1 = nabla.slice %x starts = [0, 0] limits = [4, 9] : tensor<?x9xf32>
  %2 = nabla.slice %x starts = [0, 0] limits = [-1, 9] strides = [2, 1] : tensor<?x9xf32>
  %3 = nabla.split %y dim = 0 sizes = [4] : tensor<4x6xf32>
  %4 = nabla.concatenate %3 dim = 1 : tensor<4x6xf32>
  %5 = nabla.pad %y, %v low = [0, 0] high = [0, 0] : tensor<4x6xf32>, tensor<f32>
  return %0, %1, %2, %3, %4, %5 : tensor<?x9xf32>, tensor<4x9xf32>, tensor<?x9xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @undone
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>
// CHECK-DAG: %[[P:.*]]:2 = nabla.split %[[X]] dim = 1
// CHECK-DAG: %[[C:.*]] = nabla.concatenate %[[P]]#1, %[[P]]#0 dim = 1
// CHECK-DAG: %[[F:.*]] = nabla.flip %{{.*}} dims = [1]
// CHECK: return %[[X]], %[[C]], %[[X]], %[[F]], %[[X]]
func.func @undone(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0:2 = nabla.split %x dim = 1 sizes = [3, 3] : tensor<4x6xf32>
  %1 = nabla.concatenate %0#0, %0#1 dim = 1 : tensor<4x3xf32>, tensor<4x3xf32>
  %2 = nabla.concatenate %0#1, %0#0 dim = 1 : tensor<4x3xf32>, tensor<4x3xf32>
  %3 = nabla.flip %x dims = [0, 1] : tensor<4x6xf32>
  %4 = nabla.flip %3 dims = [1, 0] : tensor<4x6xf32>
  %5 = nabla.flip %3 dims = [1] : tensor<4x6xf32>
  %6 = nabla.flip %x dims = [] : tensor<4x6xf32>
  return %1, %2, %4, %5, %6 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @broadcasts
// CHECK: nabla.broadcast_in_dim %arg0 dims = [0, 2] : tensor<4x1xf32> -> tensor<4x7x5xf32>
// CHECK-NEXT: return
func.func @broadcasts(%x: tensor<4x1xf32>) -> tensor<4x7x5xf32> {
  %0 = nabla.broadcast_in_dim %x dims = [1, 0] : tensor<4x1xf32> -> tensor<5x4xf32>
  %1 = nabla.broadcast_in_dim %0 dims = [2, 0] : tensor<5x4xf32> -> tensor<4x7x5xf32>
  return %1 : tensor<4x7x5xf32>
}

// -----

!w = !nabla.implicit<4x6xf32, #nabla.nf4<block = 16>>
!c = !nabla.implicit<4x1xf32, #nabla.nf4<block = 16>, view<4x6, strides = [6, 0], offset = 2>>

// A chain that comes to a view that it had, by whatever way, is that view.
// CHECK-LABEL: func.func @chains
// CHECK-SAME: (%[[W:.*]]: !nabla.implicit<4x6xf32
// CHECK: %[[C:.*]] = nabla.slice %[[W]] starts = [0, 2] limits = [4, 3] strides = [1, 1]
// CHECK: %[[R:.*]] = nabla.reshape %[[W]] : {{.*}} -> !nabla.implicit<2x2x6xf32
// CHECK: return %[[W]], %[[C]], %[[R]]
func.func @chains(%w: !w) -> (!w, !c, !nabla.implicit<2x2x6xf32, #nabla.nf4<block = 16>, view<4x6, strides = [12, 6, 1], offset = 0>>) {
  %0 = nabla.broadcast_in_dim %w dims = [1, 2] : !w -> !nabla.implicit<3x4x6xf32, #nabla.nf4<block = 16>, view<4x6, strides = [0, 6, 1], offset = 0>>
  %1 = nabla.slice %0 starts = [1, 0, 0] limits = [2, 4, 6] : !nabla.implicit<3x4x6xf32, #nabla.nf4<block = 16>, view<4x6, strides = [0, 6, 1], offset = 0>>
  %2 = nabla.reshape %1 : !nabla.implicit<1x4x6xf32, #nabla.nf4<block = 16>, view<4x6, strides = [0, 6, 1], offset = 0>> -> !w
  %3 = nabla.slice %w starts = [0, 1] limits = [4, 4] : !w
  %4 = nabla.slice %3 starts = [0, 1] limits = [4, 2] : !nabla.implicit<4x3xf32, #nabla.nf4<block = 16>, view<4x6, strides = [6, 1], offset = 1>>
  %5 = nabla.transpose %w permutation = [1, 0] : !w
  %6 = nabla.reshape %5 : !nabla.implicit<6x4xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1, 6], offset = 0>> -> !nabla.implicit<6x2x2xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1, 12, 6], offset = 0>>
  %7 = nabla.transpose %6 permutation = [1, 2, 0] : !nabla.implicit<6x2x2xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1, 12, 6], offset = 0>>
  return %2, %4, %7 : !w, !c, !nabla.implicit<2x2x6xf32, #nabla.nf4<block = 16>, view<4x6, strides = [12, 6, 1], offset = 0>>
}

// -----

// Code that is never reached may go round in circles.
// CHECK-LABEL: func.func @never_reached
func.func @never_reached() {
  return
^bb1:
  %a = nabla.slice %b starts = [0] limits = [4] : tensor<4xf32>
  %b = nabla.slice %a starts = [0] limits = [4] : tensor<4xf32>
  %c = nabla.flip %c dims = [0] : tensor<4xf32>
  %d = nabla.flip %d dims = [] : tensor<4xf32>
  %e = nabla.broadcast_in_dim %e dims = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %f = nabla.concatenate %f dim = 0 : tensor<4xf32>
  %u = nabla.slice %v starts = [0, 0] limits = [4, 4] : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  %v = nabla.reshape %u : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>> -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  return
}
