// Splats that no rule takes are constants, which nabla-simplify folds; no
// implicit array may be taken for codes and scales.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics \
// RUN:   | FileCheck "%s" --implicit-check-not=nabla.materialize
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch=policy=error | FileCheck "%s"

// CHECK-LABEL: func.func @mul_half
// CHECK: %[[C:.*]] = nabla.constant dense<5.000000e-01> : tensor<4xf16>
// CHECK: nabla.mul %[[C]], %{{.*}} : tensor<4xf16>, tensor<4xf16>
func.func @mul_half(%x: tensor<4xf16>, %s: !nabla.implicit<4xf16, #nabla.splat<0.5 : f32>>) -> tensor<4xf16> {
  %0 = nabla.mul %s, %x : !nabla.implicit<4xf16, #nabla.splat<0.5 : f32>>, tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// CHECK-LABEL: func.func @every_op
// CHECK-DAG: nabla.add %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>
// CHECK-DAG: nabla.relu %{{.*}} : tensor<4xf32>
// CHECK-DAG: nabla.silu %{{.*}} : tensor<4xf32>
// CHECK-DAG: nabla.reduce max %{{.*}} dims = [0] : tensor<4xf32>
// CHECK-DAG: nabla.dot_general %{{.*}}, %{{.*}} contracting = [0] x [0] : tensor<4xf32>, tensor<4xf32>
// CHECK-DAG: nabla.dot_general %{{.*}}, %{{.*}} contracting = [0] x [0] : tensor<4xf32>, tensor<4xf32>
func.func @every_op(%x: tensor<4xf32>, %s: !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nabla.add %x, %s : tensor<4xf32>, !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>
  %1 = nabla.relu %s : !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>
  %2 = nabla.silu %s : !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>
  %3 = nabla.reduce max %s dims = [0] : !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>
  %4 = nabla.dot_general %x, %s contracting = [0] x [0] : tensor<4xf32>, !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>
  %5 = nabla.dot_general %s, %x contracting = [0] x [0] : !nabla.implicit<4xf32, #nabla.splat<3.0 : f32>>, tensor<4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A splat beside a packed weight: the splat becomes a constant, then the rule
// for packed weights takes the rest.
// CHECK-LABEL: func.func @splat_and_packed
// CHECK: %[[C:.*]] = nabla.constant dense<2.000000e+00> : tensor<4x64xf32>
// CHECK: nabla.fused_dot %[[C]]
func.func @splat_and_packed(%s: !nabla.implicit<4x64xf32, #nabla.splat<2.0 : f32>>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<4x8xf32> {
  %0 = nabla.dot_general %s, %w contracting = [1] x [1] : !nabla.implicit<4x64xf32, #nabla.splat<2.0 : f32>>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @packed_and_splat
// CHECK: nabla.constant dense<2.000000e+00> : tensor<4x64xf32>
// CHECK: nabla.fused_dot
func.func @packed_and_splat(%s: !nabla.implicit<4x64xf32, #nabla.splat<2.0 : f32>>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<8x4xf32> {
  %0 = nabla.dot_general %w, %s contracting = [1] x [1] : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>, !nabla.implicit<4x64xf32, #nabla.splat<2.0 : f32>>
  return %0 : tensor<8x4xf32>
}
