// What dot_general, fused_dot refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op the lists of batching dimensions differ in length: 1 and 0}}
  %0 = nabla.dot_general %a, %b batching = [0] x [] contracting = [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op the lists of contracting dimensions differ in length: 2 and 1}}
  %0 = nabla.dot_general %a, %b contracting = [0, 1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op batching and contracting dimensions are distinct and less than the rank: 2 for lhs, 2 for rhs}}
  %0 = nabla.dot_general %a, %b contracting = [2] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op batching and contracting dimensions are distinct and less than the rank: 2 for lhs, 2 for rhs}}
  %0 = nabla.dot_general %a, %b contracting = [-1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op batching and contracting dimensions are distinct and less than the rank: 2 for lhs, 2 for rhs}}
  %0 = nabla.dot_general %a, %b contracting = [1, 1] x [0, 1] : tensor<3x3xf32>, tensor<3x3xf32>
  return
}

// -----

func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op batching and contracting dimensions are distinct and less than the rank: 2 for lhs, 2 for rhs}}
  %0 = nabla.dot_general %a, %b batching = [1] x [0] contracting = [1] x [1] : tensor<3x3xf32>, tensor<3x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op contracting dimensions disagree: 3 (dimension 1 of lhs) and 5 (dimension 1 of rhs)}}
  %0 = nabla.dot_general %a, %b contracting = [1] x [1] : tensor<2x3xf32>, tensor<4x5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op batching dimensions disagree: 2 (dimension 0 of lhs) and 4 (dimension 0 of rhs)}}
  %0 = nabla.dot_general %a, %b batching = [0] x [0] contracting = [1] x [1] : tensor<2x3xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf16>) {
  // expected-error @+1 {{'nabla.dot_general' op operands have the same element type}}
  %0 = nabla.dot_general %a, %b contracting = [1] x [1] : tensor<2x3xf32>, tensor<4x3xf16>
  return
}

// -----

func.func @f(%a: tensor<2x3xi32>, %b: tensor<4x3xi32>) {
  // expected-error @+1 {{'nabla.dot_general' op takes elements of types f64 f32 f16 bf16; nabla.convert makes them}}
  %0 = nabla.dot_general %a, %b contracting = [1] x [1] : tensor<2x3xi32>, tensor<4x3xi32>
  return
}

// -----

func.func @f(%a: tensor<1x1x1x1x1x1x1x1x1xf32>, %b: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  // expected-error @+1 {{'nabla.dot_general' op the result has more than 16 dimensions}}
  %0 = nabla.dot_general %a, %b contracting = [] x [] : tensor<1x1x1x1x1x1x1x1x1xf32>, tensor<1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+2 {{'nabla.dot_general' op inferred type(s) 'tensor<2x4xf32>' are incompatible with return type(s) of operation 'tensor<2x5xf32>'}}
  // expected-error @+1 {{'nabla.dot_general' op failed to infer returned types}}
  %0 = "nabla.dot_general"(%a, %b) {lhs_contracting = array<i64: 1>, rhs_contracting = array<i64: 1>} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x9xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op contracting dimensions disagree: 8 (dimension 1 of lhs) and 9 (dimension 1 of rhs)}}
  %0 = nabla.fused_dot %x, %w : tensor<?x8xf32>, !nabla.implicit<4x9xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>) {
  // expected-error @+1 {{'nabla.fused_dot' op w is a tensor or packed}}
  %0 = nabla.fused_dot %x, %w : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>
  return
}

// -----

func.func @f(%x: tensor<8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op x and w are of rank 2, not 8 and 4x8}}
  %0 = nabla.fused_dot %x, %w : tensor<8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op epilogue step 'gelu' is none of bias, add, relu, silu}}
  %0 = nabla.fused_dot %x, %w epilogue = ["gelu"] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op epilogue has more steps with an operand than operands}}
  %0 = nabla.fused_dot %x, %w epilogue = ["bias"] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'nabla.fused_dot' op operand of epilogue step 'bias' must be a vector of the columns of the result ?x4}}
  %0 = nabla.fused_dot %x, %w(%b) epilogue = ["bias"] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, %b: tensor<4xf16>) {
  // expected-error @+1 {{'nabla.fused_dot' op operand of epilogue step 'bias' must be a vector of the columns of the result ?x4}}
  %0 = nabla.fused_dot %x, %w(%b) epilogue = ["bias"] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<4xf16>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{'nabla.fused_dot' op operand of epilogue step 'add' must be of the shape of the result 3x4}}
  %0 = nabla.fused_dot %x, %w(%b) epilogue = ["relu", "add"] : tensor<3x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nabla.fused_dot' op epilogue takes 0 operands, not 1}}
  %0 = nabla.fused_dot %x, %w(%b) : tensor<3x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op an epilogue has at most 8 steps}}
  %0 = nabla.fused_dot %x, %w epilogue = ["relu", "relu", "relu", "relu", "relu", "relu", "relu", "relu", "relu"] : tensor<3x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<3x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op attribute 'epilogue' failed to satisfy constraint: string array attribute}}
  %0 = "nabla.fused_dot"(%x, %w) {epilogue = [3]} : (tensor<3x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> tensor<3x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.fused_dot' op with a packed w the last dimensions are contracted}}
  %0 = nabla.fused_dot %x, %w contracting = [1] x [1] : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%x: tensor<2x?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.fused_dot' op x and w have one contracting and one free dimension besides those of the batch, not 2x?x8 and 4x8}}
  %0 = nabla.fused_dot %x, %w contracting = [2] x [1] : tensor<2x?x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x8xf32>, %w: tensor<2x4x8xf32>, %r: tensor<3x4xf32>) {
  // expected-error @+1 {{'nabla.fused_dot' op operand of epilogue step 'add' must be of the shape of the result 2x3x4}}
  %0 = nabla.fused_dot %x, %w(%r) batching = [0] x [0] contracting = [2] x [2] epilogue = ["add"] : tensor<2x3x8xf32>, tensor<2x4x8xf32>, tensor<3x4xf32>
  return
}
