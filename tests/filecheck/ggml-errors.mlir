// What blocks of GGUF files cannot be, and what would be legal.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{#nabla.ggml: takes the name of a format: q4_0, q4_1, q5_0, q8_0, iq4_nl, q4_k, q5_k, q6_k, mxfp4}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml<q9_0>>

// -----

// expected-error @+1 {{#nabla.ggml: takes the name of a format}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml>

// -----

// expected-error @+1 {{#nabla.ggml: takes the name of a format}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml<q4_0, block = 32>>

// -----

// expected-error @+1 {{#nabla.ggml: takes the name of a format}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml<name = "q4_0">>

// -----

// expected-error @+1 {{#nabla.ggml: takes the name of a format}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml<7 : i64>>

// -----

// expected-error @+1 {{#nabla.ggml<q4_0> has blocks of 32 elements: a storage of 100 elements is no whole number of them, one of 128 is}}
func.func private @f() -> !nabla.implicit<4x25xf32, #nabla.ggml<q4_0>>

// -----

// expected-error @+1 {{#nabla.ggml<q6_k> has blocks of 256 elements: a storage of 128 elements is no whole number of them, one of 256 is}}
func.func private @f() -> !nabla.implicit<4x32xf32, #nabla.ggml<q6_k>>

// -----

// A view has a storage of its own.
// expected-error @+1 {{#nabla.ggml<q4_0> has blocks of 32 elements: a storage of 33 elements}}
func.func private @f() -> !nabla.implicit<32xf32, #nabla.ggml<q4_0>, view<33, strides = [1], offset = 0>>

// -----

// expected-error @+1 {{#nabla.ggml<q4_k> has blocks of 256 elements: a storage of 32 elements}}
func.func private @f() -> !nabla.implicit<4x8xf32, #nabla.lora<base = #nabla.ggml<q4_k>, rank = 2>>

// -----

// expected-error @+1 {{#nabla.nf4: scales are packed in an encoding that stores them}}
func.func private @f() -> !nabla.implicit<4x512xf32, #nabla.nf4<block = 64, scale = #nabla.ggml<q8_0>>>

// -----

!w = !nabla.implicit<4x32xf32, #nabla.ggml<q4_0>>
func.func @quantize(%x: tensor<4x32xf32>) -> !w {
  // expected-error @+1 {{programs decode the blocks of GGUF files only: make them with nabla_ggml_encode (nabla/ggml.h; in Python quantize_array), and nabla.pack them}}
  %q = nabla.quantize %x : tensor<4x32xf32> -> !w
  return %q : !w
}

// -----

!w = !nabla.implicit<4x32xf32, #nabla.lora<base = #nabla.ggml<q4_0>, rank = 2>>
func.func @quantize_lora(%x: tensor<4x32xf32>) -> !w {
  // expected-error @+1 {{programs decode the blocks of GGUF files only}}
  %q = nabla.quantize %x : tensor<4x32xf32> -> !w
  return %q : !w
}

// -----

!w = !nabla.implicit<4x32xf32, #nabla.ggml<q4_0>>
func.func @pack(%x: tensor<71xi8>) -> !w {
  // expected-error @+1 {{component 'blocks' is tensor<72xi8>}}
  %q = nabla.pack %x : tensor<71xi8> -> !w
  return %q : !w
}

// -----

!w = !nabla.implicit<4x32xf32, #nabla.ggml<q4_0>>
func.func @levels(%w: !w) -> tensor<4x32xf32> {
  // expected-error @+1 {{levels = 2 is not legal: the array has 1}}
  %d = nabla.materialize %w levels = 2 : !w
  return %d : tensor<4x32xf32>
}
