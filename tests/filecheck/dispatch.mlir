// Contractions with a packed operand become nabla.fused_dot: the weight as a
// view of N x K, the other side as a matrix of M x K.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics \
// RUN:   | FileCheck "%s" --implicit-check-not=nabla.materialize

// x . w, and nothing is moved when both already are as the kernel wants them.
// CHECK-LABEL: func.func @rhs_rows
// CHECK-SAME: (%[[X:.*]]: tensor<4x256xf32>, %[[W:.*]]: !nabla.implicit
// CHECK-NEXT: %[[Y:.*]] = nabla.fused_dot %[[X]], %[[W]] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
// CHECK-NEXT: return %[[Y]]
func.func @rhs_rows(%x: tensor<4x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<4x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x128xf32>
}

// The weight is stored K x N: a view, no bytes move.
// CHECK-LABEL: func.func @rhs_columns
// CHECK: %[[T:.*]] = nabla.transpose %{{.*}} permutation = [1, 0] : !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
// CHECK-NEXT: nabla.fused_dot %{{.*}}, %[[T]] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @rhs_columns(%x: tensor<4x256xf32>, %w: !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>) -> tensor<4x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [0] : tensor<4x256xf32>, !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x128xf32>
}

// w . x is computed as x^T . w and transposed back.
// CHECK-LABEL: func.func @lhs
// CHECK: %[[X:.*]] = nabla.transpose %{{.*}} permutation = [1, 0] : tensor<256x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nabla.fused_dot %[[X]], %{{.*}} : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.fp4<block = 32>>
// CHECK-NEXT: %[[R:.*]] = nabla.transpose %[[Y]] permutation = [1, 0] : tensor<4x128xf32>
// CHECK-NEXT: return %[[R]] : tensor<128x4xf32>
func.func @lhs(%w: !nabla.implicit<128x256xf32, #nabla.fp4<block = 32>>, %x: tensor<256x4xf32>) -> tensor<128x4xf32> {
  %y = nabla.dot_general %w, %x contracting = [1] x [0] : !nabla.implicit<128x256xf32, #nabla.fp4<block = 32>>, tensor<256x4xf32>
  return %y : tensor<128x4xf32>
}

// CHECK-LABEL: func.func @lhs_transposed
// CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : tensor<256x?xf32>
// CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : !nabla.implicit<256x128xf32
// CHECK: nabla.fused_dot {{.*}} : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.fp4<block = 32>, view<256x128, strides = [1, 128], offset = 0>>
// CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : tensor<?x128xf32>
func.func @lhs_transposed(%w: !nabla.implicit<256x128xf32, #nabla.fp4<block = 32>>, %x: tensor<256x?xf32>) -> tensor<128x?xf32> {
  %y = nabla.dot_general %w, %x contracting = [0] x [0] : !nabla.implicit<256x128xf32, #nabla.fp4<block = 32>>, tensor<256x?xf32>
  return %y : tensor<128x?xf32>
}

// -----

// A vector is a matrix of one row.
// CHECK-LABEL: func.func @vector
// CHECK: %[[X:.*]] = nabla.reshape %{{.*}} : tensor<256xf32> -> tensor<1x256xf32>
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[X]]
// CHECK: nabla.reshape %[[Y]] : tensor<1x128xf32> -> tensor<128xf32>
func.func @vector(%x: tensor<256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.int8<block = 0, blocks = leading>>) -> tensor<128xf32> {
  %y = nabla.dot_general %x, %w contracting = [0] x [1] : tensor<256xf32>, !nabla.implicit<128x256xf32, #nabla.int8<block = 0, blocks = leading>>
  return %y : tensor<128xf32>
}

// So is a weight of rank 1: the result has no column.
// CHECK-LABEL: func.func @weight_vector
// CHECK: %[[W:.*]] = nabla.reshape %{{.*}} : !nabla.implicit<256xf32, #nabla.int8<block = 64>> -> !nabla.implicit<1x256xf32, #nabla.int8<block = 64>, view<256, strides = [0, 1], offset = 0>>
// CHECK: %[[Y:.*]] = nabla.fused_dot %{{.*}}, %[[W]]
// CHECK: nabla.reshape %[[Y]] : tensor<4x1xf32> -> tensor<4xf32>
func.func @weight_vector(%x: tensor<4x256xf32>, %w: !nabla.implicit<256xf32, #nabla.int8<block = 64>>) -> tensor<4xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [0] : tensor<4x256xf32>, !nabla.implicit<256xf32, #nabla.int8<block = 64>>
  return %y : tensor<4xf32>
}

// Rank 3, sizes known at run time: one size for the rows, and the sizes of the
// result come from x.
// CHECK-LABEL: func.func @batch_of_rows
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x256xf32>
// CHECK-DAG: %[[D0:.*]] = tensor.dim %[[X]], %c0
// CHECK-DAG: %[[D1:.*]] = tensor.dim %[[X]], %c1
// CHECK: %[[M:.*]] = arith.muli %[[D0]], %[[D1]] : index
// CHECK: %[[R:.*]] = nabla.reshape %[[X]] sizes(%[[M]]) : tensor<?x?x256xf32> -> tensor<?x256xf32>
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[R]]
// CHECK: nabla.reshape %[[Y]] sizes(%{{.*}}, %{{.*}}) : tensor<?x128xf32> -> tensor<?x?x128xf32>
func.func @batch_of_rows(%x: tensor<?x?x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<?x?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [2] x [1] : tensor<?x?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x?x128xf32>
}

// Free dimensions of x on both sides of the contracted one.
// CHECK-LABEL: func.func @contracted_in_the_middle
// CHECK: %[[T:.*]] = nabla.transpose %{{.*}} permutation = [0, 2, 1] : tensor<2x256x3xf32>
// CHECK: %[[R:.*]] = nabla.reshape %[[T]] : tensor<2x3x256xf32> -> tensor<6x256xf32>
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[R]]
// CHECK: nabla.reshape %[[Y]] : tensor<6x128xf32> -> tensor<2x3x128xf32>
func.func @contracted_in_the_middle(%x: tensor<2x256x3xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<2x3x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<2x256x3xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<2x3x128xf32>
}

// -----

// Two contracting dimensions, which are joined in the order in which they are
// listed; two free dimensions of the weight.
// CHECK-LABEL: func.func @joined
// CHECK: %[[X:.*]] = nabla.reshape %{{.*}} : tensor<4x8x32xf32> -> tensor<4x256xf32>
// CHECK: %[[W:.*]] = nabla.reshape %{{.*}} : !nabla.implicit<2x64x8x32xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<2x64x8x32, strides = [256, 1], offset = 0>>
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[X]], %[[W]]
// CHECK: nabla.reshape %[[Y]] : tensor<4x128xf32> -> tensor<4x2x64xf32>
func.func @joined(%x: tensor<4x8x32xf32>, %w: !nabla.implicit<2x64x8x32xf32, #nabla.nf4<block = 64>>) -> tensor<4x2x64xf32> {
  %y = nabla.dot_general %x, %w contracting = [1, 2] x [2, 3] : tensor<4x8x32xf32>, !nabla.implicit<2x64x8x32xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x2x64xf32>
}

// Nothing is contracted: an outer product.
// CHECK-LABEL: func.func @outer
// CHECK: %[[X:.*]] = nabla.reshape %{{.*}} : tensor<4xf32> -> tensor<4x1xf32>
// CHECK: %[[W:.*]] = nabla.reshape %{{.*}} : !nabla.implicit<64xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<64x1xf32, #nabla.nf4<block = 64>, view<64, strides = [1, 0], offset = 0>>
// CHECK: nabla.fused_dot %[[X]], %[[W]]
func.func @outer(%x: tensor<4xf32>, %w: !nabla.implicit<64xf32, #nabla.nf4<block = 64>>) -> tensor<4x64xf32> {
  %y = nabla.dot_general %x, %w contracting = [] x [] : tensor<4xf32>, !nabla.implicit<64xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x64xf32>
}

// An empty weight and no rows are matrices too.
// CHECK-LABEL: func.func @empty
// CHECK: nabla.fused_dot {{.*}} : tensor<0x0xf32>, !nabla.implicit<3x0xf32
func.func @empty(%x: tensor<0x0xf32>, %w: !nabla.implicit<3x0xf32, #nabla.nf4<block = 64>>) -> tensor<0x3xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<0x0xf32>, !nabla.implicit<3x0xf32, #nabla.nf4<block = 64>>
  return %y : tensor<0x3xf32>
}

// -----

// Views of the weight: transposed by hand, reshaped, repeated along N.
// CHECK-LABEL: func.func @transposed_view
// CHECK: nabla.fused_dot {{.*}} : tensor<?x128xf32>, !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>, view<128x256, strides = [1, 256], offset = 0>>
func.func @transposed_view(%x: tensor<?x128xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<?x256xf32> {
  %t = nabla.transpose %w permutation = [1, 0] : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %y = nabla.dot_general %x, %t contracting = [1] x [1] : tensor<?x128xf32>, !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>, view<128x256, strides = [1, 256], offset = 0>>
  return %y : tensor<?x256xf32>
}

// CHECK-LABEL: func.func @twice_transposed
// CHECK: nabla.fused_dot {{.*}} : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
func.func @twice_transposed(%x: tensor<?x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<?x128xf32> {
  %t = nabla.transpose %w permutation = [1, 0] : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %y = nabla.dot_general %x, %t contracting = [1] x [0] : tensor<?x256xf32>, !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>, view<128x256, strides = [1, 256], offset = 0>>
  return %y : tensor<?x128xf32>
}

// CHECK-LABEL: func.func @reshaped_view
// CHECK: nabla.fused_dot {{.*}} : tensor<4x64xf32>, !nabla.implicit<512x64xf32, #nabla.nf4<block = 64>, view<128x256, strides = [64, 1], offset = 0>>
func.func @reshaped_view(%x: tensor<4x64xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<4x512xf32> {
  %r = nabla.reshape %w : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<512x64xf32, #nabla.nf4<block = 64>, view<128x256, strides = [64, 1], offset = 0>>
  %y = nabla.dot_general %x, %r contracting = [1] x [1] : tensor<4x64xf32>, !nabla.implicit<512x64xf32, #nabla.nf4<block = 64>, view<128x256, strides = [64, 1], offset = 0>>
  return %y : tensor<4x512xf32>
}

// CHECK-LABEL: func.func @broadcast_view
// CHECK: nabla.fused_dot {{.*}} : tensor<4x64xf32>, !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<64, strides = [0, 1], offset = 0>>
func.func @broadcast_view(%x: tensor<4x64xf32>, %w: !nabla.implicit<64xf32, #nabla.nf4<block = 64>>) -> tensor<4x3xf32> {
  %b = nabla.broadcast_in_dim %w dims = [1] : !nabla.implicit<64xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<64, strides = [0, 1], offset = 0>>
  %y = nabla.dot_general %x, %b contracting = [1] x [1] : tensor<4x64xf32>, !nabla.implicit<3x64xf32, #nabla.nf4<block = 64>, view<64, strides = [0, 1], offset = 0>>
  return %y : tensor<4x3xf32>
}

// -----

// f16 and bf16, also as the element type of the weight.
// CHECK-LABEL: func.func @f16
// CHECK: nabla.fused_dot {{.*}} : tensor<?x256xf16>, !nabla.implicit<128x256xf16, #nabla.nf4<block = 64>>
func.func @f16(%x: tensor<?x256xf16>, %w: !nabla.implicit<128x256xf16, #nabla.nf4<block = 64>>) -> tensor<?x128xf16> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x256xf16>, !nabla.implicit<128x256xf16, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf16>
}
// CHECK-LABEL: func.func @bf16
// CHECK: nabla.fused_dot {{.*}} : tensor<?x256xbf16>, !nabla.implicit<128x256xbf16, #nabla.int8<block = 64>>
func.func @bf16(%x: tensor<?x256xbf16>, %w: !nabla.implicit<128x256xbf16, #nabla.int8<block = 64>>) -> tensor<?x128xbf16> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x256xbf16>, !nabla.implicit<128x256xbf16, #nabla.int8<block = 64>>
  return %y : tensor<?x128xbf16>
}

// A size that nobody knows is checked when the product runs.
// CHECK-LABEL: func.func @unknown_k
// CHECK: nabla.fused_dot {{.*}} : tensor<?x?xf32>, !nabla.implicit<128x256xf32
func.func @unknown_k(%x: tensor<?x?xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x?xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}

// Dead code, and code that is never reached, are dispatched as any other.
// CHECK-LABEL: func.func @never_reached
// CHECK: nabla.fused_dot
// CHECK: nabla.fused_dot
func.func @never_reached(%x: tensor<4x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return
^bb1:
  %z = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return
}

// Must not fire: both sides are dense, and ops that take implicit arrays.
// CHECK-LABEL: func.func @dense
// CHECK-NEXT: nabla.dot_general
// CHECK-NEXT: nabla.unpack
// CHECK-NEXT: return
func.func @dense(%x: tensor<4x8xf32>, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<4x4xf32> {
  %y = nabla.dot_general %x, %x contracting = [1] x [1] : tensor<4x8xf32>, tensor<4x8xf32>
  %c, %s = nabla.unpack %w : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x4xf32>
}
