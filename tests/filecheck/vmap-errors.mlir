// What nabla-vmap refuses, and in which words.
// RUN: split-file "%s" "%t"
// RUN: nabla-opt "%t/default.mlir" --split-input-file --verify-diagnostics --nabla-vmap
// RUN: nabla-opt "%t/axes.mlir" --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(nabla-vmap{in-axes=0,3})'
// RUN: nabla-opt "%t/word.mlir" --verify-diagnostics --pass-pipeline='builtin.module(nabla-vmap{in-axes=zero})'
// RUN: nabla-opt "%t/size.mlir" --verify-diagnostics --pass-pipeline='builtin.module(nabla-vmap{axis-size=-3})'
// RUN: nabla-opt "%t/none.mlir" --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(nabla-vmap{in-axes=none})'
// RUN: nabla-opt "%t/out.mlir" --verify-diagnostics --pass-pipeline='builtin.module(nabla-vmap{out-axes=none})'

//--- default.mlir
// expected-error @+1 {{nabla-vmap: there is no function @main}}
module {
  func.func @other() {
    return
  }
}

// -----

// expected-error @+1 {{nabla-vmap: argument 1 has no batch (it is a number): say none for it in in-axes}}
func.func @main(%x: tensor<3xf32>, %n: index) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// -----

// expected-error @+1 {{nabla-vmap: argument 0 has no batch (packed arrays have static sizes: give axis-size)}}
func.func @main(%w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) {
  return
}

// -----

func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{'tensor.expand_shape' op has no rule for batches: nabla-vmap knows operations of the nabla dialect, arith, math, tensor.dim, tensor.cast and func.call}}
  %y = tensor.expand_shape %x [[0, 1]] output_shape [3, 1] : tensor<3xf32> into tensor<3x1xf32>
  %z = tensor.collapse_shape %y [[0, 1]] : tensor<3x1xf32> into tensor<3xf32>
  return %z : tensor<3xf32>
}

// -----

func.func @main(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %y = nabla.cond %p : tensor<i1> -> tensor<3xf32> {
    // expected-error @+1 {{'nabla.custom_call' op nabla-vmap: has effects, and stands in a cond whose choice differs by example: all branches would be run}}
    %a = nabla.custom_call @print(%x) : (tensor<3xf32>) -> tensor<3xf32>
    nabla.yield %a : tensor<3xf32>
  }, {
    nabla.yield %x : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}

// -----

func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %r = nabla.while(%x) : tensor<f32> cond {
  ^bb0(%a: tensor<f32>):
    %p = nabla.compare lt %a, %y : tensor<f32>, tensor<f32>
    nabla.condition %p, %a : tensor<i1>, tensor<f32>
  } do {
  ^bb0(%a: tensor<f32>):
    // expected-error @+1 {{'nabla.custom_call' op nabla-vmap: has effects, and stands in a while that ends at another step for each example}}
    %b = nabla.custom_call @print(%a) : (tensor<f32>) -> tensor<f32>
    nabla.yield %b : tensor<f32>
  }
  return %r : tensor<f32>
}

// -----

// expected-error @+1 {{nabla-vmap: has a derivative of its own, which is that of one example: run nabla-vjp (nabla-jvp) before nabla-vmap}}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> attributes {nabla.jvp = @main_jvp} {
  return %x : tensor<3xf32>
}
func.func private @main_jvp(%x: tensor<3xf32>, %t: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  return %x, %t : tensor<3xf32>, tensor<3xf32>
}

// -----

// expected-error @+1 {{nabla-vmap: has no body, or one of several blocks: use nabla.cond, nabla.while and nabla.scan}}
func.func private @main(%x: tensor<3xf32>) -> tensor<3xf32>

// -----

// expected-error @+1 {{nabla-vmap: there is a function @main.vmap already}}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
func.func @main.vmap(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// -----

func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{nabla-vmap: nabla.batch is "scan" (one example after the other, the default), "expand" (called once, with size 1 where an array has no batch) or "broadcast" (repeated there)}}
  %y = nabla.custom_call @scale(%x) {nabla.batch = "loop"} : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @main(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32> {
  // expected-error @+1 {{nabla-vmap: an array has 16 dimensions already, as many as there can be}}
  %y = nabla.reshape %x : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32> -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return %y : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
}

//--- axes.mlir
// expected-error @+1 {{nabla-vmap: in-axes=0,3: is no dimension of it (number 1); one axis for all, or one of each: a dimension of the batched array, from its end if negative, or none}}
func.func @main(%x: tensor<3xf32>, %y: tensor<2x3xf32>) {
  return
}

// -----

// expected-error @+1 {{nabla-vmap: in-axes=0,3: there are more or fewer arrays (number 2)}}
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>) {
  return
}

//--- word.mlir
// expected-error @+1 {{nabla-vmap: in-axes=zero: is no axis (number 0)}}
func.func @main(%x: tensor<3xf32>) {
  return
}

//--- size.mlir
// expected-error @+1 {{nabla-vmap: axis-size=-3 is no size: a number from 0 on, or ? for one that is known when it runs}}
func.func @main(%x: tensor<3xf32>) {
  return
}

//--- none.mlir
// expected-error @+1 {{nabla-vmap: no argument has a batch: give axis-size}}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

//--- out.mlir
// expected-error @+1 {{nabla-vmap: result 0 differs by example: out-axes says none for it}}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
