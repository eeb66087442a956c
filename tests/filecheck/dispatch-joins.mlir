// Implicit arrays joined at legal cuts stay packed: their components are joined.
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error | FileCheck "%s"

!w = !nabla.implicit<4x64xf32, #nabla.nf4<block = 64>>
!ww = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!half = !nabla.implicit<3x5xf32, #nabla.splat<0.5 : f32>>

// CHECK-LABEL: func.func @concatenate
// CHECK-DAG: %[[A:.*]]:2 = nabla.unpack %arg0
// CHECK-DAG: %[[B:.*]]:2 = nabla.unpack %arg1
// CHECK: %[[C:.*]] = nabla.concatenate %{{.*}}#0, %{{.*}}#0 dim = 0 : tensor<128xi8>, tensor<128xi8>
// CHECK: %[[S:.*]] = nabla.concatenate %{{.*}}#1, %{{.*}}#1 dim = 0 : tensor<4xf32>, tensor<4xf32>
// CHECK: %[[P:.*]] = nabla.pack %[[C]], %[[S]] : tensor<256xi8>, tensor<8xf32> -> !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
// CHECK: return %[[P]]
func.func @concatenate(%a: !w, %b: !w) -> !ww {
  %0 = nabla.concatenate %a, %b dim = 0 : !w, !w
  return %0 : !ww
}

// CHECK-LABEL: func.func @stack
// CHECK: nabla.pack %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32> -> !nabla.implicit<2x4x64xf32, #nabla.nf4<block = 64>, view<8x64, strides = [256, 64, 1], offset = 0>>
// CHECK: nabla.fused_dot
func.func @stack(%a: !w, %b: !w, %x: tensor<3x64xf32>) -> tensor<3x2x4xf32> {
  %0 = nabla.stack %a, %b dim = 0 : !w, !w
  %1 = nabla.dot_general %x, %0 contracting = [1] x [2] : tensor<3x64xf32>, !nabla.implicit<2x4x64xf32, #nabla.nf4<block = 64>, view<8x64, strides = [256, 64, 1], offset = 0>>
  return %1 : tensor<3x2x4xf32>
}

// Of a piece the components are pieces.
// CHECK-LABEL: func.func @pieces
// CHECK: nabla.slice %{{.*}} starts = [32] limits = [128] : tensor<128xi8>
// CHECK: nabla.concatenate %{{.*}}, %{{.*}} dim = 0 : tensor<96xi8>, tensor<128xi8>
// CHECK: nabla.slice %{{.*}} starts = [1] limits = [4] : tensor<4xf32>
// CHECK: nabla.pack %{{.*}}, %{{.*}} : tensor<224xi8>, tensor<7xf32>
func.func @pieces(%a: !w) -> !nabla.implicit<7x64xf32, #nabla.nf4<block = 64>> {
  %0 = nabla.slice %a starts = [1, 0] limits = [4, 64] : !w
  %1 = nabla.concatenate %0, %a dim = 0 : !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [64, 1], offset = 64>>, !w
  return %1 : !nabla.implicit<7x64xf32, #nabla.nf4<block = 64>>
}

// One array is that array.
// CHECK-LABEL: func.func @one
// CHECK: %[[U:.*]]:2 = nabla.unpack %arg0
// CHECK: nabla.pack %{{.*}}#0, %{{.*}}#1
func.func @one(%a: !w) -> (!w, !nabla.implicit<1x4x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [0, 64, 1], offset = 0>>) {
  %0 = nabla.concatenate %a dim = 0 : !w
  %1 = nabla.stack %a dim = 0 : !w
  return %0, %1 : !w, !nabla.implicit<1x4x64xf32, #nabla.nf4<block = 64>, view<4x64, strides = [0, 64, 1], offset = 0>>
}

// CHECK-LABEL: func.func @splat
// CHECK: nabla.pack -> !nabla.implicit<6x5xf32, #nabla.splat<5.000000e-01 : f32>>
func.func @splat(%a: !half) -> !nabla.implicit<6x5xf32, #nabla.splat<0.5 : f32>> {
  %0 = nabla.concatenate %a, %a dim = 0 : !half, !half
  return %0 : !nabla.implicit<6x5xf32, #nabla.splat<0.5 : f32>>
}

// Everything else takes a splat as a constant.
// CHECK-LABEL: func.func @splats
// CHECK-DAG: nabla.dynamic_slice %{{.*}} at(%arg1, %arg1 : index, index) : tensor<3x5xf32> -> tensor<1x1xf32>
// CHECK-DAG: nabla.dynamic_update_slice %{{.*}}, %{{.*}} at(%arg1, %arg1 : index, index) : tensor<3x5xf32>, tensor<3x5xf32>
// CHECK-DAG: nabla.pad %{{.*}}, %arg2 low = [1, 1] high = [1, 1] : tensor<3x5xf32>, tensor<f32>
// CHECK-DAG: nabla.flip %{{.*}} dims = [0] : tensor<3x5xf32>
func.func @splats(%a: !half, %i: index, %v: tensor<f32>) -> (tensor<1x1xf32>, tensor<3x5xf32>, tensor<5x7xf32>, tensor<3x5xf32>) {
  %0 = nabla.dynamic_slice %a at(%i, %i : index, index) : !half -> tensor<1x1xf32>
  %1 = nabla.dynamic_update_slice %a, %a at(%i, %i : index, index) : !half, !half
  %2 = nabla.pad %a, %v low = [1, 1] high = [1, 1] : !half, tensor<f32>
  %3 = nabla.flip %a dims = [0] : !half
  return %0, %1, %2, %3 : tensor<1x1xf32>, tensor<3x5xf32>, tensor<5x7xf32>, tensor<3x5xf32>
}
