// Every error of the verifiers of operations with regions, and what would be
// legal.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics -o "%t"

func.func @cond_count(%p: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'nabla.cond' op i1 chooses between 2 regions, not 3: choose by index among others}}
  %0 = nabla.cond %p : i1 -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @cond_none(%p: index) {
  // expected-error @below {{'nabla.cond' op has a region to run}}
  "nabla.cond"(%p) : (index) -> ()
  return
}

// -----

func.func @cond_selector(%p: tensor<2xi1>) {
  // expected-error @below {{'nabla.cond' op operand #0 must be i1, i32, i64, index, or a tensor of one of the first three, of rank 0, but got 'tensor<2xi1>'}}
  nabla.cond %p : tensor<2xi1> {
    nabla.yield
  }, {
    nabla.yield
  }
  return
}

// -----

func.func @cond_arguments(%p: i1) {
  // expected-error @below {{'nabla.cond' op region #0 has no arguments: it uses values from outside as they are}}
  nabla.cond %p : i1 {
  ^bb0(%x: f32):
    nabla.yield
  }, {
    nabla.yield
  }
  return
}

// -----

func.func @cond_values(%p: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'nabla.cond' op region #1 hands on 0 values, not 1: one for each result}}
  %0 = nabla.cond %p : i1 -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield
  }
  return %0 : tensor<4xf32>
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
// Branches agree: one packed and one dense do not.
func.func @cond_type(%p: i1, %w: !w, %x: tensor<8x8xf32>) -> !w {
  // expected-error @below {{'nabla.cond' op region #1 hands on tensor<8x8xf32> as result #0, which is !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>}}
  %0 = nabla.cond %p : i1 -> !w {
    nabla.yield %w : !w
  }, {
    nabla.yield %x : tensor<8x8xf32>
  }
  return %0 : !w
}

// -----

func.func @cond_blocks(%p: i1) {
  // expected-error @below {{'nabla.cond' op expects region #0 to have 0 or 1 blocks}}
  nabla.cond %p : i1 {
  ^bb0:
    cf.br ^bb1
  ^bb1:
    nabla.yield
  }, {
    nabla.yield
  }
  return
}

// -----

func.func @cond_end(%p: i1) {
  // expected-error @below {{'nabla.cond' op region #0 ends without 'nabla.yield'}}
  nabla.cond %p : i1 {
    %c = arith.constant 1.0 : f32
  }, {
    nabla.yield
  }
  return
}

// -----

func.func @while_takes(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  // expected-error @below {{'nabla.while' op region #1 takes 0 values, not 1: one for each carry}}
  %0 = nabla.while(%x) : tensor<4xf32> cond {
  ^bb0(%a: tensor<4xf32>):
    nabla.condition %p, %a : i1, tensor<4xf32>
  } do {
    nabla.yield %x : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @while_argument(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  // expected-error @below {{'nabla.while' op region #0 takes tensor<?xf32> as carry #0, which is tensor<4xf32>}}
  %0 = nabla.while(%x) : tensor<4xf32> cond {
  ^bb0(%a: tensor<?xf32>):
    nabla.condition %p, %a : i1, tensor<?xf32>
  } do {
  ^bb0(%a: tensor<4xf32>):
    nabla.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<8x8xf32, #nabla.int8<block = 64>>
func.func @while_carry(%w: !w, %v: !v, %p: i1) -> !w {
  // expected-error @below {{'nabla.while' op region #1 hands on !nabla.implicit<8x8xf32, #nabla.int8<block = 64>> as carry #0, which is !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>}}
  %0 = nabla.while(%w) : !w cond {
  ^bb0(%a: !w):
    nabla.condition %p, %a : i1, !w
  } do {
  ^bb0(%a: !w):
    nabla.yield %v : !v
  }
  return %0 : !w
}

// -----

func.func @while_end(%x: f32) -> f32 {
  // expected-error @below {{'nabla.while' op region #0 ends without 'nabla.condition'}}
  %0 = nabla.while(%x) : f32 cond {
  ^bb0(%a: f32):
    nabla.yield %a : f32
  } do {
  ^bb0(%a: f32):
    nabla.yield %a : f32
  }
  return %0 : f32
}

// -----

func.func @while_results(%x: f32, %p: i1) {
  // expected-error @below {{'nabla.while' op failed to verify that results have the types of the carries}}
  %0 = "nabla.while"(%x) ({
  ^bb0(%a: f32):
    nabla.condition %p, %a : i1, f32
  }, {
  ^bb0(%a: f32):
    nabla.yield %a : f32
  }) : (f32) -> f16
  return
}

// -----

func.func @scan_nothing(%x: tensor<3xf32>) {
  // expected-error @below {{'nabla.scan' op needs a carry or an output}}
  nabla.scan over(%x : tensor<3xf32>) {
  ^bb0(%a: tensor<f32>):
    nabla.yield
  }
  return
}

// -----

func.func @scan_length(%x: f32) -> f32 {
  // expected-error @below {{'nabla.scan' op needs an input or a length}}
  %0 = nabla.scan init(%x : f32) -> f32 {
  ^bb0(%a: f32):
    nabla.yield %a : f32
  }
  return %0 : f32
}

// -----

func.func @scan_two_lengths(%x: f32, %y: tensor<3xf32>, %n: index) -> f32 {
  // expected-error @below {{'nabla.scan' op has the length of its inputs: leave length away}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) length(%n) -> f32 {
  ^bb0(%a: f32, %b: tensor<f32>):
    nabla.yield %a : f32
  }
  return %0 : f32
}

// -----

func.func @scan_results(%x: f32, %y: tensor<3xf32>) {
  // expected-error @below {{'nabla.scan' op gives 0 results, not one for each of 1 carries}}
  nabla.scan init(%x : f32) over(%y : tensor<3xf32>) {
  ^bb0(%a: f32, %b: tensor<f32>):
    nabla.yield %a : f32
  }
  return
}

// -----

func.func @scan_arguments(%x: f32, %y: tensor<3xf32>) -> f32 {
  // expected-error @below {{'nabla.scan' op region #0 takes 1 values, not 2: one for each carry and input}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) -> f32 {
  ^bb0(%a: f32):
    nabla.yield %a : f32
  }
  return %0 : f32
}

// -----

func.func @scan_values(%x: f32, %y: tensor<3xf32>) -> f32 {
  // expected-error @below {{'nabla.scan' op region #0 hands on 2 values, not 1: one for each result}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) -> f32 {
  ^bb0(%a: f32, %b: tensor<f32>):
    nabla.yield %a, %b : f32, tensor<f32>
  }
  return %0 : f32
}

// -----

func.func @scan_end(%x: f32, %y: tensor<3xf32>) -> f32 {
  // expected-error @below {{'nabla.scan' op region #0 ends without 'nabla.yield'}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) -> f32 {
  ^bb0(%a: f32, %b: tensor<f32>):
    %c = arith.addf %a, %a : f32
  }
  return %0 : f32
}

// -----

func.func @scan_carry(%x: f32, %y: tensor<3xf32>) -> f32 {
  // expected-error @below {{'nabla.scan' op region #0 hands on tensor<f32> as carry #0, which is f32}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) -> f32 {
  ^bb0(%a: f32, %b: tensor<f32>):
    nabla.yield %b : tensor<f32>
  }
  return %0 : f32
}

// -----

func.func @scan_result(%x: f32, %y: tensor<3xf32>) -> f64 {
  // expected-error @below {{'nabla.scan' op region #0 gives f64 as carry #0, which is f32}}
  %0 = nabla.scan init(%x : f32) over(%y : tensor<3xf32>) -> f64 {
  ^bb0(%a: f32, %b: tensor<f32>):
    nabla.yield %a : f32
  }
  return %0 : f64
}

// -----

func.func @scan_lengths(%x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<?xf32> {
  // expected-error @below {{'nabla.scan' op input #1 has length 4, others have 3}}
  %0 = nabla.scan over(%x, %y : tensor<3xf32>, tensor<4xf32>) -> tensor<?xf32> {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    nabla.yield %a : tensor<f32>
  }
  return %0 : tensor<?xf32>
}

// -----

func.func @scan_rank(%x: tensor<f32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @below {{'nabla.scan' op input #1 has from 1 to 16 dimensions}}
  %0 = nabla.scan over(%y, %x : tensor<3xf32>, tensor<f32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    nabla.yield %a : tensor<f32>
  }
  return %0 : tensor<3xf32>
}

// -----

func.func @scan_scalar(%y: tensor<3xf32>, %x: f32) -> f32 {
  // expected-error @below {{'nabla.scan' op output #0 is no array to be stacked}}
  %0 = nabla.scan over(%y : tensor<3xf32>) -> f32 {
  ^bb0(%a: tensor<f32>):
    nabla.yield %x : f32
  }
  return %0 : f32
}

// -----

func.func @scan_slice(%y: tensor<3x4xf32>) -> tensor<3xf32> {
  // expected-error @below {{'nabla.scan' op input #0 is tensor<3x4xf32>: tensor<3xf32> is no slice of it}}
  %0 = nabla.scan over(%y : tensor<3x4xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    nabla.yield %a : tensor<3xf32>
  }
  return %0 : tensor<3xf32>
}

// -----

// Half a block.
!ws = !nabla.implicit<3x4x8xf32, #nabla.nf4<block = 64>>
!w = !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
func.func @scan_blocks(%y: !ws) -> tensor<3x4x8xf32> {
  // expected-error @below {{!nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> is no slice of it; implicit ones have whole blocks, one behind the other}}
  %0 = nabla.scan over(%y : !ws) -> tensor<3x4x8xf32> {
  ^bb0(%a: !w):
    %d = nabla.materialize %a : !w
    nabla.yield %d : tensor<4x8xf32>
  }
  return %0 : tensor<3x4x8xf32>
}

// -----

// Columns, which lie between each other.
!ws = !nabla.implicit<64x3x8xf32, #nabla.nf4<block = 64>, view<3x8x64, strides = [1, 512, 64], offset = 0>>
!w = !nabla.implicit<3x8xf32, #nabla.nf4<block = 64>>
func.func @scan_columns(%y: !ws) -> tensor<64x3x8xf32> {
  // expected-error @below {{!nabla.implicit<3x8xf32, #nabla.nf4<block = 64>> is no slice of it; implicit ones have whole blocks, one behind the other}}
  %0 = nabla.scan over(%y : !ws) -> tensor<64x3x8xf32> {
  ^bb0(%a: !w):
    %d = nabla.materialize %a : !w
    nabla.yield %d : tensor<3x8xf32>
  }
  return %0 : tensor<64x3x8xf32>
}

// -----

// Nothing encodes what is stacked.
!ws = !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>
func.func @scan_encodes(%y: tensor<3x8x8xf32>) -> !ws {
  // expected-error @below {{'nabla.scan' op output #0 is !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>: tensor<8x8xf32> is no slice of it}}
  %0 = nabla.scan over(%y : tensor<3x8x8xf32>) -> !ws {
  ^bb0(%a: tensor<8x8xf32>):
    nabla.yield %a : tensor<8x8xf32>
  }
  return %0 : !ws
}

// -----

func.func @scan_sizes(%y: tensor<3x?xf32>) -> tensor<3x?xf32> {
  // expected-error @below {{'nabla.scan' op slices of outputs have 1 sizes that are not known, sizes has 0}}
  %0 = nabla.scan over(%y : tensor<3x?xf32>) -> tensor<3x?xf32> {
  ^bb0(%a: tensor<?xf32>):
    nabla.yield %a : tensor<?xf32>
  }
  return %0 : tensor<3x?xf32>
}

// -----

func.func @yield_alone() {
  // expected-error @below {{'nabla.yield' op expects parent op to be one of 'nabla.cond, nabla.while, nabla.scan, nabla.remat, nabla.shard_map'}}
  nabla.yield
}

// -----

func.func @condition_alone(%p: i1) {
  // expected-error @below {{'nabla.condition' op expects parent op 'nabla.while'}}
  nabla.condition %p : i1
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<8x8xf32, #nabla.int8<block = 64>>
func.func private @callee(!w)
func.func @wrong_callee(%v: !v) {
  // expected-error @below {{'func.call' op operand type mismatch: expected operand type '!nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>', but provided '!nabla.implicit<8x8xf32, #nabla.int8<block = 64>>' for operand number 0}}
  call @callee(%v) : (!v) -> ()
  return
}

// -----

func.func @empty(%p: i1) {
  // expected-error @below {{'nabla.cond' op region #0 ('branches') failed to verify constraint: region with 1 blocks}}
  "nabla.cond"(%p) ({}, {}) : (i1) -> ()
  return
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func @packed_and_dense(%p: tensor<i1>, %a: !w, %b: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'nabla.cond' op region #0 hands on !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>> as result #0, which is tensor<8x64xf32>: nabla.materialize the packed one}}
  %0 = nabla.cond %p : tensor<i1> -> tensor<8x64xf32> {
    nabla.yield %a : !w
  }, {
    nabla.yield %b : tensor<8x64xf32>
  }
  return %0 : tensor<8x64xf32>
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func @dense_and_packed(%p: tensor<i1>, %a: !w, %b: tensor<8x64xf32>) -> !w {
  // expected-error @+1 {{'nabla.cond' op region #1 hands on tensor<8x64xf32> as result #0, which is !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>: nabla.materialize the packed one}}
  %0 = nabla.cond %p : tensor<i1> -> !w {
    nabla.yield %a : !w
  }, {
    nabla.yield %b : tensor<8x64xf32>
  }
  return %0 : !w
}
