// Every operation, printed as it is read; in the generic form too.
// RUN: nabla-opt "%s" > "%t.once"
// RUN: nabla-opt "%t.once" > "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: nabla-opt "%s" --mlir-print-op-generic | nabla-opt > "%t.generic"
// RUN: diff "%t.once" "%t.generic"
// RUN: nabla-opt "%s" --emit-bytecode | nabla-opt --allow-bytecode > "%t.bytecode"
// RUN: diff "%t.once" "%t.bytecode"
// RUN: FileCheck "%s" --input-file="%t.once"

!nf4 = !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @encoding
func.func @encoding(%x: tensor<4x8xf32>, %codes: tensor<16xi8>, %scales: tensor<1xf32>) {
  // CHECK: nabla.quantize %{{.*}} : tensor<4x8xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %0 = nabla.quantize %x : tensor<4x8xf32> -> !nf4
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %1 = nabla.materialize %0 : !nf4
  // CHECK: nabla.pack %{{.*}}, %{{.*}} : tensor<16xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %2 = nabla.pack %codes, %scales : tensor<16xi8>, tensor<1xf32> -> !nf4
  // CHECK: nabla.pack -> !nabla.implicit<4x8xf32, #nabla.splat<5.000000e-01 : f32>>
  %3 = nabla.pack -> !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>
  // CHECK: %{{.*}}:2 = nabla.unpack %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %4:2 = nabla.unpack %0 : !nf4
  // CHECK: nabla.unpack %{{.*}} : !nabla.implicit<4x8xf32, #nabla.splat<5.000000e-01 : f32>>
  nabla.unpack %3 : !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>
  // CHECK: nabla.materialize %{{.*}} {note = "kept"} : !nabla.implicit
  %5 = nabla.materialize %0 {note = "kept"} : !nf4
  return
}

// CHECK-LABEL: func.func @contraction
func.func @contraction(%a: tensor<8x4x16xf32>, %b: tensor<8x16x?xf32>, %x: tensor<?x8xf32>, %w: !nf4, %bias: tensor<4xf32>, %r: tensor<?x4xf32>) {
  // CHECK: nabla.dot_general %{{.*}}, %{{.*}} batching = [0] x [0] contracting = [2] x [1] : tensor<8x4x16xf32>, tensor<8x16x?xf32>
  %0 = nabla.dot_general %a, %b batching = [0] x [0] contracting = [2] x [1] : tensor<8x4x16xf32>, tensor<8x16x?xf32>
  // CHECK: nabla.dot_general %{{.*}}, %{{.*}} contracting = [1] x [1] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %1 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x8xf32>, !nf4
  // CHECK: nabla.dot_general %{{.*}}, %{{.*}} contracting = [] x [] : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.dot_general %bias, %bias contracting = [] x [] : tensor<4xf32>, tensor<4xf32>
  // CHECK: nabla.fused_dot %{{.*}}, %{{.*}} : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>{{$}}
  %3 = nabla.fused_dot %x, %w : tensor<?x8xf32>, !nf4
  // CHECK: nabla.fused_dot %{{.*}}, %{{.*}}(%{{.*}}, %{{.*}}) epilogue = ["bias", "silu", "add"] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<4xf32>, tensor<?x4xf32>
  %4 = nabla.fused_dot %x, %w(%bias, %r) epilogue = ["bias", "silu", "add"] : tensor<?x8xf32>, !nf4, tensor<4xf32>, tensor<?x4xf32>
  // CHECK: nabla.fused_dot %{{.*}}, %{{.*}} epilogue = ["relu"] : tensor<?x8xf32>
  %5 = nabla.fused_dot %x, %w epilogue = ["relu"] : tensor<?x8xf32>, !nf4
  return
}

// CHECK-LABEL: func.func @shape
func.func @shape(%x: tensor<?x8xf32>, %w: !nf4, %n: index, %m: index) {
  // CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : tensor<?x8xf32>
  %0 = nabla.transpose %x permutation = [1, 0] : tensor<?x8xf32>
  // CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %1 = nabla.transpose %w permutation = [1, 0] : !nf4
  // CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>
  %2 = nabla.transpose %1 permutation = [1, 0] : !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>
  // Back where it was: no view is left.
  // CHECK: nabla.materialize %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %3 = nabla.materialize %2 : !nf4
  // CHECK: nabla.reshape %{{.*}} : tensor<?x8xf32> -> tensor<?x4xf32>
  %4 = nabla.reshape %x : tensor<?x8xf32> -> tensor<?x4xf32>
  // CHECK: nabla.reshape %{{.*}} sizes(%{{.*}}, %{{.*}}) : tensor<?x8xf32> -> tensor<?x4x?xf32>
  %5 = nabla.reshape %x sizes(%n, %m) : tensor<?x8xf32> -> tensor<?x4x?xf32>
  // CHECK: nabla.reshape %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<2x2x8xf32, #nabla.nf4<block = 64>, view<4x8, strides = [16, 8, 1], offset = 0>>
  %6 = nabla.reshape %w : !nf4 -> !nabla.implicit<2x2x8xf32, #nabla.nf4<block = 64>, view<4x8, strides = [16, 8, 1], offset = 0>>
  // CHECK: nabla.reshape %{{.*}} : !nabla.implicit<8x4xf32, {{.*}}> -> tensor<32xf32>
  %7 = nabla.reshape %1 : !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>> -> tensor<32xf32>
  // CHECK: nabla.broadcast_in_dim %{{.*}} dims = [1, 2] sizes(%{{.*}}) : tensor<?x8xf32> -> tensor<2x?x8xf32>
  %8 = nabla.broadcast_in_dim %x dims = [1, 2] sizes(%n) : tensor<?x8xf32> -> tensor<2x?x8xf32>
  // CHECK: nabla.broadcast_in_dim %{{.*}} dims = [1, 2] : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<3x4x8xf32, #nabla.nf4<block = 64>, view<4x8, strides = [0, 8, 1], offset = 0>>
  %9 = nabla.broadcast_in_dim %w dims = [1, 2] : !nf4 -> !nabla.implicit<3x4x8xf32, #nabla.nf4<block = 64>, view<4x8, strides = [0, 8, 1], offset = 0>>
  return
}

// CHECK-LABEL: func.func @elements
func.func @elements(%x: tensor<?x8xf32>, %h: tensor<f16>, %u: tensor<?xui8>, %w: !nf4) {
  // CHECK: nabla.relu %{{.*}} : tensor<?x8xf32>
  %0 = nabla.relu %x : tensor<?x8xf32>
  // CHECK: nabla.silu %{{.*}} : tensor<f16>
  %1 = nabla.silu %h : tensor<f16>
  // CHECK: nabla.relu %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %2 = nabla.relu %w : !nf4
  // CHECK: nabla.add %{{.*}}, %{{.*}} : tensor<?xui8>, tensor<?xui8>
  %3 = nabla.add %u, %u : tensor<?xui8>, tensor<?xui8>
  // CHECK: nabla.mul %{{.*}}, %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<?x8xf32>
  %4 = nabla.mul %w, %x : !nf4, tensor<?x8xf32>
  // The static dimension is the result's.
  // CHECK: nabla.relu %{{.*}} : tensor<4x8xf32>
  %5 = nabla.relu %4 : tensor<4x8xf32>
  // CHECK: nabla.reduce sum %{{.*}} dims = [1] : tensor<?x8xf32>
  %6 = nabla.reduce sum %x dims = [1] : tensor<?x8xf32>
  // CHECK: nabla.reduce max %{{.*}} dims = [0, 1] keep_dims : tensor<?x8xf32>
  %7 = nabla.reduce max %x dims = [0, 1] keep_dims : tensor<?x8xf32>
  // CHECK: nabla.relu %{{.*}} : tensor<1x1xf32>
  %8 = nabla.relu %7 : tensor<1x1xf32>
  // CHECK: nabla.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xbf16>
  %9 = nabla.constant dense<[1.0, 2.0]> : tensor<2xbf16>
  // CHECK: nabla.constant dense<255> : tensor<3xui8>
  %10 = nabla.constant dense<255> : tensor<3xui8>
  return
}
