// Where no rule takes a lora or a nested array: one warning with its count.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics -o "%t"

!l = !nabla.implicit<32x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 4>>
func.func @slice(%x: tensor<3x64xf32>, %w: !l) -> tensor<3x16xf32> {
  %0 = nabla.slice %w starts = [8, 0] limits = [24, 64] : !l
  // expected-warning @+1 {{'nabla.dot_general' op materializes 1 operand of #nabla.lora<base = #nabla.nf4<block = 64>, rank = 4>, 1024 elements: only codes with scales have kernels}}
  %1 = nabla.dot_general %x, %0 contracting = [1] x [1] : tensor<3x64xf32>, !nabla.implicit<16x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 4>, view<32x64, strides = [64, 1], offset = 512>>
  return %1 : tensor<3x16xf32>
}

// -----

!w = !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>
func.func @join(%a: !w, %b: !w) -> tensor<8x64xf32> {
  // expected-warning @+1 {{'nabla.concatenate' op materializes 2 operands of #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>, 512 elements: its components, joined, are not those of the result}}
  %0 = nabla.concatenate %a, %b dim = 0 : !w, !w
  return %0 : tensor<8x64xf32>
}

// -----

!d = !nabla.implicit<4x64xf32, #nabla.dynamic8<block = 16>>
func.func @dynamic8(%x: tensor<3x64xf32>, %w: !d) -> tensor<3x4xf32> {
  // expected-warning @+1 {{'nabla.dot_general' op materializes 1 operand of #nabla.dynamic8<block = 16>, 256 elements: only codes with scales have kernels}}
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<3x64xf32>, !d
  return %0 : tensor<3x4xf32>
}
