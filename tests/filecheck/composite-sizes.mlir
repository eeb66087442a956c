// Sizes of results that no operand but a bias, a weight, positions, keys or a
// mask knows are theirs, as `add` has it; what disagrees is refused.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-decompose --verify-diagnostics -o "%t"

// CHECK-LABEL: @sizes
func.func @sizes(%x: tensor<2x?xf32>, %w: tensor<?x?xf32>, %b: tensor<5xf32>, %v: tensor<?xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x?xf32>, tensor<2x?xf32>) {
  %0 = nabla.linear %x, %w, %b : tensor<2x?xf32>, tensor<?x?xf32>, tensor<5xf32>
  %1 = nabla.rms_norm %x, %b eps = 1.0e-5 : tensor<2x?xf32>, tensor<5xf32>
  %2 = nabla.layer_norm %x, %b eps = 1.0e-5 : tensor<2x?xf32>, tensor<5xf32>
  %3 = nabla.layer_norm %x, %v, %b eps = 1.0e-5 : tensor<2x?xf32>, tensor<?xf32>, tensor<5xf32>
  // must not refine: no operand knows it
  %4 = nabla.linear %x, %w, %v : tensor<2x?xf32>, tensor<?x?xf32>, tensor<?xf32>
  %5 = nabla.rms_norm %x, %v eps = 1.0e-5 : tensor<2x?xf32>, tensor<?xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x?xf32>, tensor<2x?xf32>
}

// -----

// CHECK-LABEL: @rope
func.func @rope(%x: tensor<?x2x8xf32>, %p: tensor<3xi32>) -> tensor<3x2x8xf32> {
  %0 = nabla.rope interleaved %x, %p dim = 0 : tensor<?x2x8xf32>, tensor<3xi32>
  return %0 : tensor<3x2x8xf32>
}

// -----

// Batches of k and v, rows and heads of the mask. Heads of q are not those of
// k, of which they may be a multiple.
// CHECK-LABEL: @attention
func.func @attention(%q: tensor<?x?x?x8xf32>, %k: tensor<2x4x?x8xf32>, %v: tensor<?x?x6x5xf32>, %m: tensor<3x6xi1>, %h: tensor<4x3x6xi1>) -> (tensor<2x?x?x5xf32>, tensor<2x?x3x5xf32>, tensor<2x4x3x5xf32>) {
  %0 = nabla.attention %q, %k, %v : tensor<?x?x?x8xf32>, tensor<2x4x?x8xf32>, tensor<?x?x6x5xf32>
  %1 = nabla.attention %q, %k, %v mask(%m : tensor<3x6xi1>) : tensor<?x?x?x8xf32>, tensor<2x4x?x8xf32>, tensor<?x?x6x5xf32>
  %2 = nabla.attention %q, %k, %v mask(%h : tensor<4x3x6xi1>) : tensor<?x?x?x8xf32>, tensor<2x4x?x8xf32>, tensor<?x?x6x5xf32>
  return %0, %1, %2 : tensor<2x?x?x5xf32>, tensor<2x?x3x5xf32>, tensor<2x4x3x5xf32>
}

// -----

func.func @weight_and_bias(%x: tensor<2x?xf32>, %w: tensor<4xf32>, %b: tensor<5xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{'nabla.layer_norm' op the bias has shape 4, not 5}}
  %0 = nabla.layer_norm %x, %w, %b eps = 1.0e-5 : tensor<2x?xf32>, tensor<4xf32>, tensor<5xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @mask(%q: tensor<?x4x3x8xf32>, %k: tensor<2x4x6x8xf32>, %m: tensor<5x4x3x6xi1>) -> tensor<2x4x3x8xf32> {
  // expected-error @+1 {{'nabla.attention' op the mask is 5x4x3x6, q ?x4x3x8, k 2x4x6x8, v 2x4x6x8: they differ in dimension 0}}
  %0 = nabla.attention %q, %k, %k mask(%m : tensor<5x4x3x6xi1>) : tensor<?x4x3x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>
  return %0 : tensor<2x4x3x8xf32>
}
