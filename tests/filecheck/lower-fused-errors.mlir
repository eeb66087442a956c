// RUN: nabla-opt "%s" --split-input-file --nabla-lower-fused=features=avx2 --verify-diagnostics -o "%t"

// No kernel computes in f64.
func.func @f64(%x: tensor<4x64xf64>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<4x8xf64> {
  // expected-error @below {{'nabla.fused_dot' op has no kernel: kernels compute in f32, f16 and bf16}}
  %y = nabla.fused_dot %x, %w : tensor<4x64xf64>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %y : tensor<4x8xf64>
}

// -----

// No kernel reads a weight of which neither dimension is consecutive.
!v = !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<64, strides = [8, 2], offset = 1>>
func.func @strided(%x: tensor<4x4xf32>, %w: !v) -> tensor<4x4xf32> {
  // expected-error @below {{'nabla.fused_dot' op has no kernel}}
  %y = nabla.fused_dot %x, %w : tensor<4x4xf32>, !v
  return %y : tensor<4x4xf32>
}

// -----

// Outside of a function there is no place for the argument words.
%x = tensor.empty() : tensor<4x64xf32>
%c = tensor.empty() : tensor<256xi8>
%s = tensor.empty() : tensor<8xf32>
%w = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
// expected-error @below {{'nabla.fused_dot' op is lowered inside of func.func only}}
%y = nabla.fused_dot %x, %w : tensor<4x64xf32>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

llvm.func @not_a_function() {
  %x = tensor.empty() : tensor<4x64xf32>
  %c = tensor.empty() : tensor<256xi8>
  %s = tensor.empty() : tensor<8xf32>
  %w = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !w
  // expected-error @below {{'nabla.fused_dot' op is lowered inside of func.func only}}
  %y = nabla.fused_dot %x, %w : tensor<4x64xf32>, !w
  llvm.return
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// A name that the lowering needs is taken by something else.
func.func private @nabla_parallel(f32)
func.func @taken(%x: tensor<4x64xf32>, %c: tensor<256xi8>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
  %w = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !w
  // expected-error @below {{'func.call' op incorrect number of operands for callee}}
  %y = nabla.fused_dot %x, %w : tensor<4x64xf32>, !w
  return %y : tensor<4x8xf32>
}
