// Gather and scatter: printed as they are read, types, linalg, rules.
// RUN: nabla-opt "%s" > "%t.once"
// RUN: nabla-opt "%t.once" --emit-bytecode | nabla-opt --allow-bytecode > "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: FileCheck "%s" --input-file="%t.once"
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error | FileCheck "%s" --check-prefix=RULE --implicit-check-not=nabla.materialize
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-lower-implicit --nabla-to-linalg | FileCheck "%s" --check-prefix=LINALG --implicit-check-not='= nabla.'
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast

// LLVM: llvm.func @nabla_entry_gather

!w = !nabla.implicit<100x64xbf16, #nabla.nf4<block = 64>>
!half = !nabla.implicit<3x5xf32, #nabla.splat<0.5 : f32>>

// A place is clamped, then read.
// CHECK-LABEL: func.func @gather
// CHECK: nabla.gather %{{.*}}, %{{.*}} offset_dims = [0, 2] index_map = [1] vector_dim = 1 sizes = [-1, 2] : tensor<?x8xf32>, tensor<3x1xi32>
// LINALG-LABEL: func.func @gather
// LINALG: linalg.generic
// LINALG: %[[I:.*]] = tensor.extract %arg1[%{{.*}}, %{{.*}}] : tensor<3x1xi32>
// LINALG: %[[P:.*]] = arith.index_cast %[[I]] : i32 to index
// LINALG: %[[L:.*]] = arith.minsi %[[P]], %{{.*}} : index
// LINALG: arith.maxsi %[[L]], %{{.*}} : index
// LINALG: tensor.extract %arg0
func.func @gather(%x: tensor<?x8xf32>, %i: tensor<3x1xi32>) -> tensor<?x3x2xf32> {
  %0 = nabla.gather %x, %i offset_dims = [0, 2] index_map = [1] vector_dim = 1 sizes = [-1, 2] : tensor<?x8xf32>, tensor<3x1xi32>
  return %0 : tensor<?x3x2xf32>
}

// CHECK-LABEL: func.func @batched
// CHECK: nabla.gather %{{.*}}, %{{.*}} offset_dims = [] collapsed_dims = [1] batching = [0] x [0] index_map = [1] vector_dim = 2 sizes = [1, 1] : tensor<4x8xi1>, tensor<4x?xi64>
func.func @batched(%x: tensor<4x8xi1>, %i: tensor<4x?xi64>) -> tensor<4x?xi1> {
  %0 = nabla.gather %x, %i offset_dims = [] collapsed_dims = [1] batching = [0] x [0] index_map = [1] vector_dim = 2 sizes = [1, 1] : tensor<4x8xi1>, tensor<4x?xi64>
  return %0 : tensor<4x?xi1>
}

// Rows of a packed table are decoded where they are read, of a view of it too.
// RULE-LABEL: func.func @rows
// RULE: %[[V:.*]] = nabla.slice
// RULE: nabla.fused_gather %[[V]], %arg1 offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 32] : !nabla.implicit<100x32xbf16, #nabla.nf4<block = 64>, view<100x64, strides = [64, 2], offset = 1>>, tensor<?xi32>
// LINALG-LABEL: func.func @rows
// LINALG: tensor.empty(%{{.*}}) : tensor<?x32xbf16>
// LINALG: arith.shrui
func.func @rows(%w: !w, %i: tensor<?xi32>) -> tensor<?x32xbf16> {
  %0 = nabla.slice %w starts = [0, 1] limits = [-1, -1] strides = [1, 2] : !w
  %1 = nabla.gather %0, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 32] : !nabla.implicit<100x32xbf16, #nabla.nf4<block = 64>, view<100x64, strides = [64, 2], offset = 1>>, tensor<?xi32>
  return %1 : tensor<?x32xbf16>
}

// A dynamic slice of a packed array is a gather with one place.
// RULE-LABEL: func.func @box
// RULE: %[[A:.*]] = arith.index_cast %{{.*}} : index to i64
// RULE: %[[B:.*]] = tensor.extract %arg1[] : tensor<i32>
// RULE: %[[C:.*]] = arith.extsi %[[B]] : i32 to i64
// RULE: %[[P:.*]] = tensor.from_elements %[[A]], %[[C]] : tensor<2xi64>
// RULE: nabla.fused_gather %arg0, %[[P]] offset_dims = [0, 1] index_map = [0, 1] vector_dim = 0 sizes = [2, 5]
func.func @box(%w: !w, %j: tensor<i32>) -> tensor<2x5xbf16> {
  %i = arith.constant 7 : index
  %0 = nabla.dynamic_slice %w at(%i, %j : index, tensor<i32>) : !w -> tensor<2x5xbf16>
  return %0 : tensor<2x5xbf16>
}

// Indices outside are left out; the array is carried from update to update.
// CHECK-LABEL: func.func @scatter
// CHECK: nabla.scatter max %{{.*}}, %{{.*}}, %{{.*}} offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<?x8xf16>, tensor<3xi64>, tensor<3x8xf16>
// LINALG-LABEL: func.func @scatter
// LINALG: scf.for {{.*}} iter_args(%[[A:.*]] = %arg0)
// LINALG: scf.for {{.*}} iter_args(%[[B:.*]] = %[[A]])
// LINALG: arith.cmpi ult
// LINALG: scf.if
// LINALG: arith.maximumf
// LINALG: tensor.insert %{{.*}} into %[[B]]
// LINALG: } else {
// LINALG-NEXT: scf.yield %[[B]]
func.func @scatter(%x: tensor<?x8xf16>, %i: tensor<3xi64>, %u: tensor<3x8xf16>) -> tensor<?x8xf16> {
  %0 = nabla.scatter max %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<?x8xf16>, tensor<3xi64>, tensor<3x8xf16>
  return %0 : tensor<?x8xf16>
}

// RULE-LABEL: func.func @splats
// RULE: nabla.gather %{{.*}}, %arg1 {{.*}} : tensor<3x5xf32>, tensor<2xi64>
// RULE: nabla.scatter set %{{.*}}, %arg1, %{{.*}} {{.*}} : tensor<3x5xf32>, tensor<2xi64>, tensor<3x5xf32>
func.func @splats(%s: !half, %i: tensor<2xi64>) -> (tensor<1x5xf32>, tensor<3x5xf32>) {
  %0 = nabla.gather %s, %i offset_dims = [0, 1] index_map = [0, 1] vector_dim = 0 sizes = [1, 5] : !half, tensor<2xi64>
  %1 = nabla.scatter set %s, %i, %s offset_dims = [0, 1] index_map = [0, 1] vector_dim = 0 : !half, tensor<2xi64>, !half
  return %0, %1 : tensor<1x5xf32>, tensor<3x5xf32>
}
