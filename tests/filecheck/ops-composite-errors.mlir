// What composites refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2x8xf32>, %w: tensor<4x8xf16>) {
  // expected-error @+1 {{operands have the same element type; nabla.convert makes it}}
  %y = nabla.linear %x, %w : tensor<2x8xf32>, tensor<4x8xf16>
  return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %w: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be tensor of floats or implicit array}}
  %y = "nabla.linear"(%x, %w) : (tensor<2x8xi32>, tensor<4x8xi32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{x has 1 to 15 dimensions, not 0}}
  %y = nabla.linear %x, %w : tensor<f32>, tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<4x2x4xf32>) {
  // expected-error @+1 {{w is a matrix of N x K, not 4x2x4}}
  %y = nabla.linear %x, %w : tensor<2x8xf32>, tensor<4x2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4xf32>) {
  // expected-error @+1 {{rows of x have as many elements as those of w, which is N x K: x is 2x8, w 8x4; nabla.transpose turns w round}}
  %y = nabla.linear %x, %w : tensor<2x8xf32>, tensor<8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{the bias has shape 4, not 8}}
  %y = nabla.linear %x, %w, %b : tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<1x8xf32>) {
  // expected-error @+1 {{the weight has shape 8, not 1x8}}
  %y = nabla.rms_norm %x, %w eps = 1.0e-5 : tensor<2x8xf32>, tensor<1x8xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{the input has 1 to 15 dimensions, not 0}}
  %y = nabla.rms_norm %x eps = 1.0e-5 : tensor<f32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{eps is finite and not negative}}
  %y = nabla.rms_norm %x eps = -1.0 : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{eps is finite and not negative}}
  %y = nabla.layer_norm %x eps = 0x7FF8000000000000 : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %b: tensor<7xf32>) {
  // expected-error @+1 {{the bias has shape 8, not 7}}
  %y = nabla.layer_norm %x, %x, %b eps = 0.0 : tensor<8xf32>, tensor<8xf32>, tensor<7xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{parameters are a weight and a bias, not 3}}
  %y = nabla.layer_norm %x, %x, %x, %x eps = 0.0 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{the input has 2 to 15 dimensions, not 1}}
  %y = nabla.rope halves %x dim = 0 : tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{dim is one of the first 1 dimensions}}
  %y = nabla.rope halves %x dim = 1 : tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{dim is one of the first 1 dimensions}}
  %y = nabla.rope halves %x dim = -1 : tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<3x7xf32>) {
  // expected-error @+1 {{the last dimension has pairs, not 7 elements}}
  %y = nabla.rope interleaved %x dim = 0 : tensor<3x7xf32>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %p: tensor<4xi64>) {
  // expected-error @+1 {{the positions has shape 3, not 4}}
  %y = nabla.rope interleaved %x, %p dim = 0 : tensor<3x8xf32>, tensor<4xi64>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>) {
  // expected-error @+1 {{theta is finite and greater than 0}}
  %y = nabla.rope halves %x dim = 0 theta = 0.0 : tensor<3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<2x3x8xf32>, %k: tensor<3x8xf32>) {
  // expected-error @+1 {{q, k and v have as many dimensions, not 3, 2 and 2}}
  %y = nabla.attention %q, %k, %k : tensor<2x3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x3x8xf32>, %k: tensor<3x3x8xf32>) {
  // expected-error @+1 {{q is ..HxTxD, k ..hxSxD and v ..hxSxE, with H a multiple of h: q is 4x3x8, k 3x3x8, v 3x3x8}}
  %y = nabla.attention %q, %k, %k : tensor<4x3x8xf32>, tensor<3x3x8xf32>, tensor<3x3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<4x3x8xf32>, %k: tensor<0x3x8xf32>) {
  // expected-error @+1 {{with H a multiple of h: q is 4x3x8, k 0x3x8, v 0x3x8}}
  %y = nabla.attention %q, %k, %k : tensor<4x3x8xf32>, tensor<0x3x8xf32>, tensor<0x3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>, %v: tensor<4x8xf32>) {
  // expected-error @+1 {{q is 3x8, k 3x8, v 4x8}}
  %y = nabla.attention %q, %q, %v : tensor<3x8xf32>, tensor<3x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>, %m: tensor<3x3xi8>) {
  // expected-error @+1 {{the mask is of i1 or of the element type of q}}
  %y = nabla.attention %q, %q, %q mask(%m : tensor<3x3xi8>) : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>, %m: tensor<1x3xi1>) {
  // expected-error @+1 {{the mask is TxS, with the last of q's other dimensions before that or none: it is 1x3, q 3x8, k 3x8}}
  %y = nabla.attention %q, %q, %q mask(%m : tensor<1x3xi1>) : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x?xf32>) {
  // expected-error @+1 {{scale = NUMBER is needed where the last dimension of q and k is not known}}
  %y = nabla.attention %q, %q, %q : tensor<3x?xf32>, tensor<3x?xf32>, tensor<3x?xf32>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>) {
  // expected-error @+1 {{scale is finite and not negative}}
  %y = nabla.attention %q, %q, %q scale = 0x7FF0000000000000 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

// A cache of narrower elements than q's is legal, a wider one is not.
func.func @f(%q: tensor<3x8xf16>, %k: tensor<3x8xf32>) {
  // expected-error @+1 {{k and v have the same element type, which is not wider than q's; nabla.convert makes it}}
  %y = nabla.attention %q, %k, %k : tensor<3x8xf16>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>, %k: tensor<3x8xf16>, %v: tensor<3x8xbf16>) {
  // expected-error @+1 {{k and v have the same element type}}
  %y = nabla.attention %q, %k, %v : tensor<3x8xf32>, tensor<3x8xf16>, tensor<3x8xbf16>
  return
}

// -----

func.func @f(%q: tensor<3x8xf32>, %n: tensor<3xi64>) {
  // expected-error @+1 {{operand #3 must be 0D tensor of}}
  %y = nabla.attention %q, %q, %q keys(%n : tensor<3xi64>) : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>
  return
}
