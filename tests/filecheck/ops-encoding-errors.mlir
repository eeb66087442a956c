// What quantize, materialize, pack, unpack refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{'nabla.quantize' op the result describes another array than the operand}}
  %0 = "nabla.quantize"(%a) : (tensor<4x4xf32>) -> !nabla.implicit<4x5xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<4x4xf16>) {
  // expected-error @+1 {{'nabla.quantize' op the result describes another array than the operand}}
  %0 = nabla.quantize %a : tensor<4x4xf16> -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<4x?xf32>) {
  // expected-error @+1 {{'nabla.quantize' op the result describes another array than the operand}}
  %0 = nabla.quantize %a : tensor<4x?xf32> -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.quantize' op the result is no view: quantize, then take the view}}
  %0 = nabla.quantize %a : tensor<4x8xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>, view<8x4, strides = [1, 4], offset = 0>>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.quantize' op cannot encode into a splat or an identity}}
  %0 = nabla.quantize %a : tensor<4x8xf32> -> !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>
  return
}

// -----

func.func @f(%a: tensor<4x8xi8>) {
  // expected-error @+1 {{'nabla.quantize' op operand #0 must be tensor of floats of 64-bit float or 32-bit float or 16-bit float or bfloat16 type values, but got 'tensor<4x8xi8>'}}
  %0 = nabla.quantize %a : tensor<4x8xi8> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<*xf32>) {
  // expected-error @+1 {{custom op 'nabla.quantize' invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %0 = nabla.quantize %a : tensor<*xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{'nabla.materialize' op operand #0 must be implicit array, but got 'tensor<4x4xf32>'}}
  %0 = "nabla.materialize"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+2 {{'nabla.materialize' op inferred type(s) 'tensor<4x8xf32>' are incompatible with return type(s) of operation 'tensor<4x4xf32>'}}
  // expected-error @+1 {{'nabla.materialize' op failed to infer returned types}}
  %0 = "nabla.materialize"(%a) : (!nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%c: tensor<16xi8>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pack' op the encoding has 2 components, not 1}}
  %0 = nabla.pack %c : tensor<16xi8> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%c: tensor<17xi8>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'codes' is tensor<16xi8>}}
  %0 = nabla.pack %c, %s : tensor<17xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%c: tensor<16xi8>, %s: tensor<2xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'scales' is tensor<1xf32>}}
  %0 = nabla.pack %c, %s : tensor<16xi8>, tensor<2xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%c: tensor<16xi8>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pack' op the encoding has 0 components, not 2}}
  %0 = nabla.pack %c, %s : tensor<16xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>
  return
}

// -----

func.func @f(%c: tensor<?xi8>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'codes' is tensor<16xi8>}}
  %0 = nabla.pack %c, %s : tensor<?xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%c: tensor<4x4xi8>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'codes' is tensor<16xi8>}}
  %0 = nabla.pack %c, %s : tensor<4x4xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+2 {{'nabla.unpack' op inferred type(s) 'tensor<16xi8>', 'tensor<1xf32>' are incompatible with return type(s) of operation 'tensor<16xi8>'}}
  // expected-error @+1 {{'nabla.unpack' op failed to infer returned types}}
  %0 = "nabla.unpack"(%a) : (!nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> tensor<16xi8>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.unpack' op operand #0 must be implicit array, but got 'tensor<4x8xf32>'}}
  %0 = "nabla.unpack"(%a) : (tensor<4x8xf32>) -> tensor<16xi8>
  return
}
