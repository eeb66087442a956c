// Slices, joined arrays, pieces, pads and flips, printed as they are read; the
// types that are inferred.
// RUN: nabla-opt "%s" > "%t.once"
// RUN: nabla-opt "%t.once" --emit-bytecode | nabla-opt --allow-bytecode > "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: FileCheck "%s" --input-file="%t.once"

!w = !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>
!odd = !nabla.implicit<3x5xf32, #nabla.nf4<block = 64>>
!rows = !nabla.implicit<3x5xf32, #nabla.int8<block = 0, blocks = leading>>
!half = !nabla.implicit<3x5xf32, #nabla.splat<0.5 : f32>>

// CHECK-LABEL: func.func @cut
func.func @cut(%x: tensor<?x8xf32>, %w: !w, %i: index, %j: tensor<i32>, %s: tensor<f64>) {
  // CHECK: %[[A:.*]] = nabla.slice %{{.*}} starts = [1, 0] limits = [-1, 8] strides = [2, 3] : tensor<?x8xf32>
  %0 = nabla.slice %x starts = [1, 0] limits = [-1, 8] strides = [2, 3] : tensor<?x8xf32>
  // CHECK: nabla.slice %[[A]] starts = [1, 0] limits = [5, 2] : tensor<?x3xf32>
  %1 = nabla.slice %0 starts = [1, 0] limits = [5, 2] : tensor<?x3xf32>
  // CHECK: %[[V:.*]] = nabla.slice %{{.*}} starts = [1, 2] limits = [4, 64] strides = [2, 5] : !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>
  %2 = nabla.slice %w starts = [1, 2] limits = [4, 64] strides = [2, 5] : !w
  // CHECK: nabla.materialize %[[V]] : !nabla.implicit<2x13xf32, #nabla.nf4<block = 64>, view<4x64, strides = [128, 5], offset = 66>>
  %3 = nabla.materialize %2 : !nabla.implicit<2x13xf32, #nabla.nf4<block = 64>, view<4x64, strides = [128, 5], offset = 66>>
  // CHECK: nabla.slice %{{.*}} starts = [] limits = [] : tensor<f64>
  %4 = nabla.slice %s starts = [] limits = [] : tensor<f64>
  // CHECK: nabla.dynamic_slice %{{.*}} at(%{{.*}}, %{{.*}} : index, tensor<i32>) sizes(%{{.*}}) : tensor<?x8xf32> -> tensor<?x2xf32>
  %5 = nabla.dynamic_slice %x at(%i, %j : index, tensor<i32>) sizes(%i) : tensor<?x8xf32> -> tensor<?x2xf32>
  // CHECK: nabla.dynamic_slice %{{.*}} at() : tensor<f64> -> tensor<f64>
  %6 = nabla.dynamic_slice %s at() : tensor<f64> -> tensor<f64>
  // CHECK: nabla.dynamic_update_slice %{{.*}}, %{{.*}} at(%{{.*}}, %{{.*}} : index, tensor<i32>) : !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>, tensor<?x8xf32>
  %7 = nabla.dynamic_update_slice %w, %x at(%i, %j : index, tensor<i32>) : !w, tensor<?x8xf32>
  // CHECK: %[[P:.*]]:2 = nabla.split %{{.*}} dim = 0 sizes = [1, 3] : !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>
  %8:2 = nabla.split %w dim = 0 sizes = [1, 3] : !w
  // CHECK: nabla.materialize %[[P]]#1 : !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [64, 1], offset = 64>>
  %9 = nabla.materialize %8#1 : !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [64, 1], offset = 64>>
  return
}

// CHECK-LABEL: func.func @join
func.func @join(%x: tensor<?x8xf32>, %y: tensor<2x?xf32>, %w: !w, %odd: !odd, %rows: !rows, %half: !half, %v: tensor<f32>) {
  // CHECK: %[[C:.*]] = nabla.concatenate %{{.*}}, %{{.*}} dim = 1 : tensor<?x8xf32>, tensor<2x?xf32>
  %0 = nabla.concatenate %x, %y dim = 1 : tensor<?x8xf32>, tensor<2x?xf32>
  // CHECK: nabla.flip %[[C]] dims = [1] : tensor<2x?xf32>
  %1 = nabla.flip %0 dims = [1] : tensor<2x?xf32>
  // CHECK: %[[S:.*]] = nabla.stack %{{.*}}, %{{.*}} dim = 1 : tensor<?x8xf32>, tensor<2x?xf32>
  %2 = nabla.stack %x, %y dim = 1 : tensor<?x8xf32>, tensor<2x?xf32>
  // CHECK: nabla.pad %[[S]], %{{.*}} low = [-1, 0, 1] high = [0, 2, -1] interior = [0, 1, 2] : tensor<2x2x8xf32>, tensor<f32>
  %3 = nabla.pad %2, %v low = [-1, 0, 1] high = [0, 2, -1] interior = [0, 1, 2] : tensor<2x2x8xf32>, tensor<f32>
  // CHECK: nabla.flip %{{.*}} dims = [] : tensor<1x5x22xf32>
  %4 = nabla.flip %3 dims = [] : tensor<1x5x22xf32>

  // Blocks end where arrays do.
  %5 = nabla.concatenate %w, %w dim = 0 : !w, !w
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  %6 = nabla.materialize %5 : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  // The last array may end anywhere.
  %7 = nabla.reshape %w : !w -> !nabla.implicit<256xf32, #nabla.nf4<block = 64>, view<4x64, strides = [1], offset = 0>>
  %8 = nabla.stack %w, %w dim = 0 : !w, !w
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<2x4x64xf32, #nabla.nf4<block = 64>, view<8x64, strides = [256, 64, 1], offset = 0>>
  %9 = nabla.materialize %8 : !nabla.implicit<2x4x64xf32, #nabla.nf4<block = 64>, view<8x64, strides = [256, 64, 1], offset = 0>>
  %10 = nabla.concatenate %rows, %rows dim = 0 : !rows, !rows
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<6x5xf32, #nabla.int8<block = 0, blocks = leading>>
  %11 = nabla.materialize %10 : !nabla.implicit<6x5xf32, #nabla.int8<block = 0, blocks = leading>>
  %12 = nabla.concatenate %half, %half dim = 1 : !half, !half
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<3x10xf32, #nabla.splat<5.000000e-01 : f32>>
  %13 = nabla.materialize %12 : !nabla.implicit<3x10xf32, #nabla.splat<5.000000e-01 : f32>>

  // A block would hold elements of two arrays; columns; two encodings; a view.
  %14 = nabla.concatenate %odd, %odd dim = 0 : !odd, !odd
  // CHECK: nabla.relu %{{.*}} : tensor<6x5xf32>
  %15 = nabla.relu %14 : tensor<6x5xf32>
  %16 = nabla.concatenate %w, %w dim = 1 : !w, !w
  // CHECK: nabla.relu %{{.*}} : tensor<4x128xf32>
  %17 = nabla.relu %16 : tensor<4x128xf32>
  %18 = nabla.concatenate %rows, %odd dim = 0 : !rows, !odd
  // CHECK: nabla.relu %{{.*}} : tensor<6x5xf32>
  %19 = nabla.relu %18 : tensor<6x5xf32>
  %20 = nabla.slice %w starts = [0, 0] limits = [3, 64] strides = [2, 1] : !w
  %21 = nabla.concatenate %20, %20 dim = 0 : !nabla.implicit<2x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [128, 1], offset = 0>>, !nabla.implicit<2x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [128, 1], offset = 0>>
  // CHECK: nabla.relu %{{.*}} : tensor<4x64xf32>
  %22 = nabla.relu %21 : tensor<4x64xf32>

  // Pieces that begin with a block are arrays.
  %23:2 = nabla.split %w dim = 0 sizes = [1, 3] : !w
  %24 = nabla.concatenate %23#1, %23#0 dim = 0 : !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [64, 1], offset = 64>>, !nabla.implicit<1x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [0, 1], offset = 0>>
  // CHECK: nabla.relu %{{.*}} : !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>
  %25 = nabla.relu %24 : !w
  return
}
