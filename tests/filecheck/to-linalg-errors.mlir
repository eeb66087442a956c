// What nabla-to-linalg refuses, and which pass should have run.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics --nabla-to-linalg

func.func @fused(%x: tensor<?x8xf32>, %c: tensor<16xi8>, %s: tensor<1xf32>) -> tensor<?x4xf32> {
  %w = nabla.pack %c, %s : tensor<16xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  // expected-error @+1 {{'nabla.fused_dot' op has no lowering to linalg: run --nabla-lower-fused first}}
  %0 = nabla.fused_dot %x, %w : tensor<?x8xf32>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<?x4xf32>
}

// -----

func.func @dispatch(%c: tensor<16xi8>, %s: tensor<1xf32>) -> tensor<4x8xf32> {
  %w = nabla.pack %c, %s : tensor<16xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  // expected-error @+1 {{'nabla.relu' op has an implicit operand: run --nabla-dispatch first}}
  %0 = nabla.relu %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @reshape(%c: tensor<16xi8>, %s: tensor<1xf32>) -> tensor<32xf32> {
  %w = nabla.pack %c, %s : tensor<16xi8>, tensor<1xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  // expected-error @+1 {{'nabla.reshape' op has an implicit operand: run --nabla-dispatch first}}
  %0 = nabla.reshape %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// -----

func.func @materialize(%w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'nabla.materialize' op has an operand whose components are not known here: run --nabla-lower-implicit first}}
  %0 = nabla.materialize %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @fused_gather(%w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, %i: tensor<2xi64>) -> tensor<1x8xf32> {
  // expected-error @+1 {{'nabla.fused_gather' op has an operand whose components are not known here: run --nabla-lower-implicit first}}
  %0 = nabla.fused_gather %w, %i offset_dims = [0, 1] index_map = [0, 1] vector_dim = 0 sizes = [1, 8] : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, tensor<2xi64>
  return %0 : tensor<1x8xf32>
}

// -----

func.func @concatenate(%c: tensor<32xi8>, %s: tensor<1xf32>) -> tensor<2x64xf32> {
  %w = nabla.pack %c, %s : tensor<32xi8>, tensor<1xf32> -> !nabla.implicit<1x64xf32, #nabla.nf4<block = 64>>
  // expected-error @+1 {{'nabla.concatenate' op has an implicit operand: run --nabla-dispatch first}}
  %0 = nabla.concatenate %w, %w dim = 0 : !nabla.implicit<1x64xf32, #nabla.nf4<block = 64>>, !nabla.implicit<1x64xf32, #nabla.nf4<block = 64>>
  %1 = nabla.materialize %0 : !nabla.implicit<2x64xf32, #nabla.nf4<block = 64>>
  return %1 : tensor<2x64xf32>
}

// -----

func.func @unpack(%w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> tensor<16xi8> {
  // expected-error @+1 {{'nabla.unpack' op has an operand whose components are not known here: run --nabla-lower-implicit first}}
  %c, %s = nabla.unpack %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return %c : tensor<16xi8>
}

// -----

func.func @returned(%x: tensor<4x8xf32>) -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> {
  // expected-error @+1 {{'nabla.pack' op has an implicit value that is still used: run --nabla-lower-implicit first}}
  %w = nabla.quantize %x : tensor<4x8xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  // expected-error @+1 {{'func.return' op has an implicit value that is still used: run --nabla-lower-implicit first}}
  return %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
}

// -----

func.func @passed(%w: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> {
  // expected-error @+1 {{'func.return' op has an implicit value that is still used: run --nabla-lower-implicit first}}
  return %w : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
}

// -----

func.func @attribute(%a: tensor<4xf32, "anything">) {
  // expected-error @+1 {{'nabla.relu' op has a tensor with an attribute, which says nothing here: write it without}}
  %0 = nabla.relu %a : tensor<4xf32, "anything">
  return
}

// -----

// Nothing to do is no error, and a value that nothing uses goes away.
func.func @unused(%x: tensor<4x8xf32>) {
  %w = nabla.quantize %x : tensor<4x8xf32> -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @control(%p: i1, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.cond %p : i1 -> tensor<4xf32> {
    // expected-error @below {{'nabla.yield' op has no lowering to linalg: run --nabla-lower-control first}}
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// A size behind a tensor without a rank would not be compared.
func.func @unranked(%x: tensor<?xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tensor.cast' op has a tensor without a rank, which cannot be compiled: give it its dimensions, as in tensor<?x?xf32>}}
  %a = tensor.cast %x : tensor<?xf32> to tensor<*xf32>
  %b = tensor.cast %a : tensor<*xf32> to tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

func.func private @inner(%x: tensor<*xf32>) -> tensor<2x?xf32> {
  // expected-error @+1 {{'tensor.cast' op has a tensor without a rank}}
  %a = tensor.cast %x : tensor<*xf32> to tensor<2x?xf32>
  return %a : tensor<2x?xf32>
}
