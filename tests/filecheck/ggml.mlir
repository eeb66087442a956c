// Blocks of GGUF files: one component of bytes, views, pieces that are whole
// blocks; what is printed is read back as the same.
// RUN: nabla-opt "%s" | nabla-opt | FileCheck "%s"
// RUN: nabla-opt "%s" --mlir-print-op-generic | nabla-opt | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-lower-implicit 2>/dev/null | FileCheck "%s" --check-prefix=LOWERED

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !nabla.implicit<4x32xf32, #nabla.ggml<q4_0>>,
// CHECK-SAME: !nabla.implicit<256xbf16, #nabla.ggml<q6_k>>,
// CHECK-SAME: !nabla.implicit<0x7xf16, #nabla.ggml<mxfp4>>)
func.func private @types(
  !nabla.implicit<4x32xf32, #nabla.ggml<q4_0>>,
  !nabla.implicit<256xbf16, #nabla.ggml<q6_k>>,
  !nabla.implicit<0x7xf16, #nabla.ggml<mxfp4>>)

!q4_0 = !nabla.implicit<4x64xf32, #nabla.ggml<q4_0>>
!q8_0 = !nabla.implicit<4x64xf32, #nabla.ggml<q8_0>>
!q4_k = !nabla.implicit<4x64xf32, #nabla.ggml<q4_k>>
!q6_k = !nabla.implicit<4x64xf32, #nabla.ggml<q6_k>>

// Bytes of a block for 32 or 256 elements.
// CHECK-LABEL: func.func @components
// CHECK: nabla.unpack %{{.*}} : !nabla.implicit<4x64xf32, #nabla.ggml<q4_0>>
// CHECK: return %{{.*}} : tensor<144xi8>, tensor<272xi8>, tensor<144xi8>, tensor<210xi8>
func.func @components(%a: !q4_0, %b: !q8_0, %c: !q4_k, %d: !q6_k) -> (tensor<144xi8>, tensor<272xi8>, tensor<144xi8>, tensor<210xi8>) {
  %0 = nabla.unpack %a : !q4_0
  %1 = nabla.unpack %b : !q8_0
  %2 = nabla.unpack %c : !q4_k
  %3 = nabla.unpack %d : !q6_k
  return %0, %1, %2, %3 : tensor<144xi8>, tensor<272xi8>, tensor<144xi8>, tensor<210xi8>
}

// CHECK-LABEL: func.func @views
// CHECK: nabla.transpose %{{.*}} permutation = [1, 0] : !nabla.implicit<4x64xf32, #nabla.ggml<q4_0>>
// CHECK: nabla.materialize %{{.*}} : !nabla.implicit<2x64xf32, #nabla.ggml<q4_0>, view<4x64, strides = [64, 1], offset = 128>>
// LOWERED-LABEL: func.func @views(
// LOWERED-SAME: tensor<144xi8>
// LOWERED: nabla.materialize %{{.*}} : !nabla.implicit<64x4xf32, #nabla.ggml<q4_0>, view<4x64, strides = [1, 64], offset = 0>>
func.func @views(%a: !q4_0) -> (tensor<64x4xf32>, tensor<2x64xf32>) {
  %t = nabla.transpose %a permutation = [1, 0] : !q4_0
  %s = nabla.slice %a starts = [2, 0] limits = [4, 64] strides = [1, 1] : !q4_0
  %d = nabla.materialize %t : !nabla.implicit<64x4xf32, #nabla.ggml<q4_0>, view<4x64, strides = [1, 64], offset = 0>>
  %e = nabla.materialize %s : !nabla.implicit<2x64xf32, #nabla.ggml<q4_0>, view<4x64, strides = [64, 1], offset = 128>>
  return %d, %e : tensor<64x4xf32>, tensor<2x64xf32>
}

// Joined arrays stay packed where a block ends.
// LOWERED-LABEL: func.func @join(
// LOWERED: nabla.concatenate %{{.*}} dim = 0 : tensor<144xi8>, tensor<36xi8>
func.func @join(%a: !q4_0, %b: !nabla.implicit<1x64xf32, #nabla.ggml<q4_0>>) -> !nabla.implicit<5x64xf32, #nabla.ggml<q4_0>> {
  %j = nabla.concatenate %a, %b dim = 0 : !q4_0, !nabla.implicit<1x64xf32, #nabla.ggml<q4_0>>
  return %j : !nabla.implicit<5x64xf32, #nabla.ggml<q4_0>>
}
