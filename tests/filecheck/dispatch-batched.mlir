// Contractions with batches of a packed weight: a scan whose slices stay packed.
// RUN: nabla-opt "%s" --nabla-dispatch 2>"%t" | FileCheck "%s" --implicit-check-not=materialize
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=CPU --implicit-check-not=unrealized_conversion_cast --implicit-check-not=where_scan
// CPU-DAG: llvm.func @nabla_entry_experts
// Sizes of batches that disagree are the contraction's, whatever it became.
// CPU-DAG: llvm.mlir.global internal constant @nabla_where_dot_general("nabla.dot_general\00")
!w = !nabla.implicit<8x64x128xf32, #nabla.nf4<block = 64>>
!w2 = !nabla.implicit<2x4x64x128xf32, #nabla.nf4<block = 64>>
!w3 = !nabla.implicit<100x192xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @experts
// CHECK: nabla.scan over(%arg0, %arg1 : tensor<8x?x128xf32>, !nabla.implicit<8x64x128xf32, #nabla.nf4<block = 64>>) sizes(%{{.*}}) attributes {nabla.dot_general} -> tensor<8x?x64xf32>
// CHECK: nabla.fused_dot %{{.*}}, %{{.*}} : tensor<?x128xf32>, !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>>
func.func @experts(%x: tensor<8x?x128xf32>, %w: !w) -> tensor<8x?x64xf32> {
  %y = nabla.dot_general %x, %w batching = [0] x [0] contracting = [2] x [2] : tensor<8x?x128xf32>, !w
  return %y : tensor<8x?x64xf32>
}

// The weight in front, batches in the middle of the other side.
// CHECK-LABEL: func.func @weight_first
// CHECK: %[[X:.*]] = nabla.transpose %arg0 permutation = [1, 0, 2]
// CHECK: nabla.scan over(%arg1, %[[X]] :
// CHECK: nabla.fused_dot
// CHECK: nabla.transpose %{{.*}} permutation = [1, 0]
func.func @weight_first(%x: tensor<?x8x128xf32>, %w: !w) -> tensor<8x64x?xf32> {
  %y = nabla.dot_general %w, %x batching = [0] x [1] contracting = [2] x [2] : !w, tensor<?x8x128xf32>
  return %y : tensor<8x64x?xf32>
}

// Two dimensions of batches, the weight contracted along its rows.
// CHECK-LABEL: func.func @two
// CHECK: nabla.scan over
// CHECK: nabla.scan over
// CHECK: nabla.fused_dot %{{.*}} : tensor<?x64xf32>, !nabla.implicit<128x64xf32, #nabla.nf4<block = 64>, view<64x128, strides = [1, 128], offset = 0>>
func.func @two(%x: tensor<4x?x2x64xf32>, %w: !w2) -> tensor<2x4x?x128xf32> {
  %y = nabla.dot_general %x, %w batching = [2, 0] x [0, 1] contracting = [3] x [2] : tensor<4x?x2x64xf32>, !w2
  return %y : tensor<2x4x?x128xf32>
}

// Sizes of batches are known from the weight, whatever the other side says.
// CHECK-LABEL: func.func @open_batches
// CHECK: nabla.scan over
// CHECK: nabla.scan over
// CHECK: nabla.fused_dot
func.func @open_batches(%x: tensor<?x?x3x128xf32>, %w: !w2) -> tensor<2x4x3x64xf32> {
  %y = nabla.dot_general %x, %w batching = [0, 1] x [0, 1] contracting = [3] x [3] : tensor<?x?x3x128xf32>, !w2
  return %y : tensor<2x4x3x64xf32>
}

// Rows of an empty choice: nothing is decoded.
// CHECK-LABEL: func.func @no_rows
func.func @no_rows(%w: !w3, %i: tensor<?x0xi64>) -> tensor<?x0x192xf32> {
  %y = nabla.gather %w, %i offset_dims = [2] collapsed_dims = [0] index_map = [0] vector_dim = 2 sizes = [1, 192] : !w3, tensor<?x0xi64>
  return %y : tensor<?x0x192xf32>
}
