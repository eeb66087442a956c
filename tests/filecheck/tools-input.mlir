// Input that is no program: MLIR's diagnostics with a location, exit 1.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics -o "%t"
// RUN: not nabla-opt "%s" --split-input-file -o "%t" 2>&1 | FileCheck "%s"
// RUN: not nabla-opt "%t.missing" 2>&1 | FileCheck "%s" --check-prefix=MISSING

// MISSING: missing: cannot open: No such file or directory

// CHECK: tools-input.mlir:[[@LINE+3]]:8: error: 'nabla.dot_general' op contracting dimensions disagree: 256 (dimension 1 of lhs) and 64 (dimension 1 of rhs)
func.func @shapes(%x: tensor<4x256xf32>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<4x8xf32> {
  // expected-error @below {{'nabla.dot_general' op contracting dimensions disagree: 256 (dimension 1 of lhs) and 64 (dimension 1 of rhs)}}
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<4x256xf32>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<4x8xf32>
}

// -----

// CHECK: block = 63 is not legal: a power of two from 16 to 4096
// expected-error @below {{block = 63 is not legal: a power of two from 16 to 4096}}
func.func private @block(!nabla.implicit<8x64xf32, #nabla.nf4<block = 63>>)

// -----

// CHECK: expected operation name in quotes
func.func @syntax() {
  // expected-error @below {{expected operation name in quotes}}
  %0 = 5
  return
}
