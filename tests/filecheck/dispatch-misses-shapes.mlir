// Operations that move elements and have no rule for packed arrays: one warning
// for each, with a count. Where joined components are not those of the result,
// the reason is given.
// RUN: nabla-opt "%s" --nabla-dispatch --verify-diagnostics -o /dev/null

!w = !nabla.implicit<4x5xf32, #nabla.nf4<block = 64>>

func.func @misses(%w: !w, %x: tensor<2x2xf32>, %i: index, %v: tensor<f32>, %p: tensor<1xi32>) {
  // expected-warning @+1 {{'nabla.dynamic_update_slice' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %1 = nabla.dynamic_update_slice %w, %x at(%i, %i : index, index) : !w, tensor<2x2xf32>
  %2 = nabla.dynamic_update_slice %w, %x at(%i, %i : index, index) : !w, tensor<2x2xf32>
  // expected-warning @+1 {{'nabla.dynamic_slice' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: its size is not known}}
  %8 = nabla.dynamic_slice %w at(%i, %i : index, index) sizes(%i) : !w -> tensor<?x5xf32>
  // expected-warning @+1 {{'nabla.gather' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: it has too many attributes}}
  %12 = nabla.gather %w, %p offset_dims = [0, 1] index_map = [0] vector_dim = 0 sizes = [1, 5] {a, b, c, d, e, f, g, h, i, j, k, l, m} : !w, tensor<1xi32>
  // expected-warning @+1 {{'nabla.scatter' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %9 = nabla.scatter add %w, %p, %w offset_dims = [0, 1] index_map = [0] vector_dim = 0 : !w, tensor<1xi32>, !w
  // expected-warning @+1 {{'nabla.pool' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %11 = nabla.pool max %w window = [2, 2] : !w
  // expected-warning @+1 {{'nabla.pad' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %3 = nabla.pad %w, %v low = [0, 0] high = [1, 0] : !w, tensor<f32>
  // expected-warning @+1 {{'nabla.flip' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %4 = nabla.flip %w dims = [0] : !w
  // expected-warning @+1 {{'nabla.concatenate' op materializes 4 operands of #nabla.nf4<block = 64>, 80 elements: its components, joined, are not those of the result}}
  %5 = nabla.concatenate %w, %w dim = 0 : !w, !w
  %6 = nabla.concatenate %w, %w dim = 1 : !w, !w
  // expected-warning @+1 {{'nabla.stack' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: its components, joined, are not those of the result}}
  %7 = nabla.stack %w, %w dim = 0 : !w, !w
  return
}

// Why no fused_dot takes a convolution, one reason for each encoding.
!e = !nabla.implicit<4x2x3xf32, #nabla.nf4<block = 64>>
!f = !nabla.implicit<4x2x3xf32, #nabla.fp4<block = 64>>
!g = !nabla.implicit<4x2x3xf32, #nabla.nf4<block = 16>>
!h = !nabla.implicit<4x2x65xf32, #nabla.fp4<block = 16>>
!i = !nabla.implicit<4x2x3xf32, #nabla.int8<block = 16>, view<2x4x3, strides = [3, 12, 1], offset = 0>>
!j = !nabla.implicit<4x2x3xf32, #nabla.int8<block = 64>>
!k = !nabla.implicit<4x2x3xf32, #nabla.nf4<block = 32>>
func.func @convolutions(%x: tensor<1x4x9xf32>, %y: tensor<1x2x?xf32>, %z: tensor<1x2x9xf32>, %e: !e, %f: !f, %g: !g, %h: !h, %i: !i, %j: !j, %v: tensor<1x2x70xf32>, %k: !k) {
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.nf4<block = 64>, 24 elements: groups have no kernel}}
  %0 = nabla.conv_general %x, %e groups = 2 : tensor<1x4x9xf32>, !e
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.fp4<block = 64>, 24 elements: a feature or spatial dimension of the input is not known}}
  %1 = nabla.conv_general %y, %f : tensor<1x2x?xf32>, !f
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.nf4<block = 16>, 24 elements: it has no windows}}
  %2 = nabla.conv_general %z, %g low = [-7] : tensor<1x2x9xf32>, !g
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.fp4<block = 16>, 520 elements: its windows are too large}}
  %3 = nabla.conv_general %v, %h : tensor<1x2x70xf32>, !h
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.int8<block = 16>, 24 elements: no strides join the kernel's dimensions to rows and columns}}
  %4 = nabla.conv_general %z, %i : tensor<1x2x9xf32>, !i
  // expected-warning @+1 {{'nabla.conv_general' op materializes 2 operands of #nabla.int8<block = 64>, 48 elements: no rule takes it}}
  %5 = nabla.conv_general %j, %j low = [2] input_dims = [1, 0, 2] kernel_dims = [1, 0, 2] : !j, !j
  // expected-warning @+1 {{'nabla.conv_general' op materializes 1 operand of #nabla.nf4<block = 32>, 24 elements: it has so many windows that decoding the kernel costs less}}
  %6 = nabla.conv_general %v, %k : tensor<1x2x70xf32>, !k
  return
}
