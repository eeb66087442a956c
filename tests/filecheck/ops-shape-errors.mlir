// What transpose, reshape, broadcast_in_dim refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.transpose' op permutation must name each of the 2 dimensions once}}
  %0 = nabla.transpose %a permutation = [0] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.transpose' op permutation must name each of the 2 dimensions once}}
  %0 = nabla.transpose %a permutation = [0, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.transpose' op permutation must name each of the 2 dimensions once}}
  %0 = nabla.transpose %a permutation = [0, 2] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.reshape' op 2x3 has 6 elements, 7 has 7}}
  %0 = nabla.reshape %a : tensor<2x3xf32> -> tensor<7xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.reshape' op keeps the element type}}
  %0 = nabla.reshape %a : tensor<2x3xf32> -> tensor<6xf16>
  return
}

// -----

func.func @f(%a: tensor<?x3xf32>) {
  // expected-error @+1 {{'nabla.reshape' op the result has 2 dynamic dimensions, sizes has 0}}
  %0 = nabla.reshape %a : tensor<?x3xf32> -> tensor<?x?xf32>
  return
}

// -----

func.func @f(%a: tensor<?x3xf32>, %n: index) {
  // expected-error @+1 {{'nabla.reshape' op the result has 0 dynamic dimensions, sizes has 1}}
  %0 = nabla.reshape %a sizes(%n) : tensor<?x3xf32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.reshape' op an implicit result needs an implicit operand}}
  %0 = nabla.reshape %a : tensor<2x3xf32> -> !nabla.implicit<6xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>) {
  // expected-error @+1 {{'nabla.reshape' op no strides express this reshape of the operand: write the tensor type as result, it is materialized}}
  %0 = nabla.reshape %a : !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>> -> !nabla.implicit<32xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1], offset = 0>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.reshape' op the result type is not this view of the operand}}
  %0 = nabla.reshape %a : !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<32xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<9223372036854775807x9223372036854775807xf32>)  {
  // expected-error @+1 {{'nabla.reshape' op has a tensor of more than 2^62 elements}}
  %0 = nabla.reshape %a : tensor<9223372036854775807x9223372036854775807xf32> -> tensor<1xf32>
  return 
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op dims name, for each of the 1 dimensions of the operand, another one of the 2 of the result}}
  %0 = nabla.broadcast_in_dim %a dims = [0, 1] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op dims name, for each of the 1 dimensions of the operand, another one of the 2 of the result}}
  %0 = nabla.broadcast_in_dim %a dims = [2] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op 3 does not broadcast to 2x3 along dimension 0}}
  %0 = nabla.broadcast_in_dim %a dims = [0] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op the result has 1 dynamic dimensions, sizes has 0}}
  %0 = nabla.broadcast_in_dim %a dims = [1] : tensor<3xf32> -> tensor<?x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op keeps the element type}}
  %0 = nabla.broadcast_in_dim %a dims = [1] : tensor<3xf32> -> tensor<2x3xf16>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op an implicit result needs an implicit operand}}
  %0 = nabla.broadcast_in_dim %a dims = [1] : tensor<3xf32> -> !nabla.implicit<2x3xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<3xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op the result type is not this view of the operand}}
  %0 = nabla.broadcast_in_dim %a dims = [1] : !nabla.implicit<3xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<2x3xf32, #nabla.nf4<block = 64>>
  return
}

// -----

// Products that wrap are no sizes that agree.
func.func @f(%a: tensor<4611686018427387904x4xf32>) {
  // expected-error @+1 {{'nabla.reshape' op has a tensor of more than 2^62 elements}}
  %0 = nabla.reshape %a : tensor<4611686018427387904x4xf32> -> tensor<4611686018427387904x8xf32>
  return
}
