// What no rule takes is materialized: one line for each pair of op and
// encoding, with a count, at the first of them.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics \
// RUN:   | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch=policy=off 2>&1 \
// RUN:   | FileCheck "%s" --check-prefixes=CHECK,OFF
// RUN: not nabla-opt "%s" --split-input-file --nabla-dispatch=policy=error 2>&1 \
// RUN:   | FileCheck "%s" --check-prefix=ERROR
// RUN: not nabla-opt "%s" --nabla-dispatch=policy=loud 2>&1 \
// RUN:   | FileCheck "%s" --check-prefix=POLICY

// POLICY: error: 'builtin.module' op nabla-dispatch: policy 'loud' is none of off, warn, error
// OFF-NOT: warning:

// CHECK-LABEL: func.func @reduce
// CHECK: %[[D:.*]] = nabla.materialize %{{.*}} : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
// CHECK: nabla.reduce sum %[[D]] dims = [1] : tensor<128x256xf32>
// ERROR: error: 'nabla.reduce' op would materialize 1 operand of #nabla.nf4<block = 64>, 32768 elements: no rule takes it
func.func @reduce(%w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>) -> tensor<128xf32> {
  // expected-warning @below {{'nabla.reduce' op materializes 1 operand of #nabla.nf4<block = 64>, 32768 elements: no rule takes it}}
  %0 = nabla.reduce sum %w dims = [1] : !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<128xf32>
}

// -----

// Counted over functions; another op or another encoding is another line.
// ERROR: error: 'nabla.add' op would materialize 3 operands of #nabla.nf4<block = 64>, 192 elements
// ERROR: error: 'nabla.add' op would materialize 1 operand of #nabla.nf4<block = 32>, 64 elements
// ERROR: error: 'nabla.mul' op would materialize 1 operand of #nabla.nf4<block = 64>, 64 elements
// CHECK-LABEL: func.func @count
// CHECK-COUNT-5: nabla.materialize
func.func @count(%w: !nabla.implicit<64xf32, #nabla.nf4<block = 64>>, %v: !nabla.implicit<64xf32, #nabla.nf4<block = 32>>, %x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-warning @below {{'nabla.add' op materializes 3 operands of #nabla.nf4<block = 64>, 192 elements: no rule takes it}}
  %0 = nabla.add %w, %w : !nabla.implicit<64xf32, #nabla.nf4<block = 64>>, !nabla.implicit<64xf32, #nabla.nf4<block = 64>>
  // expected-warning @below {{'nabla.add' op materializes 1 operand of #nabla.nf4<block = 32>, 64 elements: no rule takes it}}
  %1 = nabla.add %0, %v : tensor<64xf32>, !nabla.implicit<64xf32, #nabla.nf4<block = 32>>
  // expected-warning @below {{'nabla.mul' op materializes 1 operand of #nabla.nf4<block = 64>, 64 elements: no rule takes it}}
  %2 = nabla.mul %1, %w : tensor<64xf32>, !nabla.implicit<64xf32, #nabla.nf4<block = 64>>
  return %2 : tensor<64xf32>
}
func.func @more(%w: !nabla.implicit<64xf32, #nabla.nf4<block = 64>>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = nabla.add %x, %w : tensor<64xf32>, !nabla.implicit<64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<64xf32>
}

// -----

// Batched contractions.
// ERROR: error: 'nabla.dot_general' op would materialize 2 operands of #nabla.int8<block = 128>, 1024 elements: batches of the weight do not begin with whole blocks, one behind the other
// CHECK-LABEL: func.func @batched
// CHECK: %[[D:.*]] = nabla.materialize
// CHECK: nabla.dot_general %{{.*}}, %[[D]] batching = [0] x [0]
// CHECK: nabla.materialize
// CHECK-NOT: nabla.fused_dot
func.func @batched(%x: tensor<8x4x16xf32>, %w: !nabla.implicit<8x4x16xf32, #nabla.int8<block = 128>>) -> (tensor<8x4x4xf32>, tensor<8x4x4xf32>) {
  // expected-warning @below {{'nabla.dot_general' op materializes 2 operands of #nabla.int8<block = 128>, 1024 elements: batches of the weight do not begin with whole blocks, one behind the other}}
  %0 = nabla.dot_general %x, %w batching = [0] x [0] contracting = [2] x [2] : tensor<8x4x16xf32>, !nabla.implicit<8x4x16xf32, #nabla.int8<block = 128>>
  %1 = nabla.dot_general %w, %x batching = [0] x [0] contracting = [2] x [2] : !nabla.implicit<8x4x16xf32, #nabla.int8<block = 128>>, tensor<8x4x16xf32>
  return %0, %1 : tensor<8x4x4xf32>, tensor<8x4x4xf32>
}

// -----

// No strides join the weight's dimensions: K is dimensions 0 and 2.
// CHECK-LABEL: func.func @not_joined
// CHECK: nabla.materialize
// CHECK-NOT: nabla.fused_dot
// ERROR: no strides join its dimensions to rows and columns
func.func @not_joined(%x: tensor<5x2x8xf32>, %w: !nabla.implicit<2x4x8xf32, #nabla.nf4<block = 64>>) -> tensor<5x4xf32> {
  // expected-warning @below {{no strides join its dimensions to rows and columns}}
  %0 = nabla.dot_general %x, %w contracting = [1, 2] x [0, 2] : tensor<5x2x8xf32>, !nabla.implicit<2x4x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<5x4xf32>
}

// -----

// Of two contracted sizes only their product would be checked at run time.
// CHECK-LABEL: func.func @unknown_twice
// CHECK: nabla.materialize
// CHECK-NOT: nabla.fused_dot
// ERROR: more than one contracted dimension is not known
func.func @unknown_twice(%x: tensor<5x?x?xf32>, %w: !nabla.implicit<7x8x8xf32, #nabla.nf4<block = 64>>) -> tensor<5x7xf32> {
  // expected-warning @below {{more than one contracted dimension is not known}}
  %0 = nabla.dot_general %x, %w contracting = [1, 2] x [1, 2] : tensor<5x?x?xf32>, !nabla.implicit<7x8x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<5x7xf32>
}

// -----

// One of them is what the reshape checks.
// CHECK-LABEL: func.func @unknown_once
// CHECK: nabla.fused_dot
func.func @unknown_once(%x: tensor<5x?x8xf32>, %w: !nabla.implicit<7x8x8xf32, #nabla.nf4<block = 64>>) -> tensor<5x7xf32> {
  %0 = nabla.dot_general %x, %w contracting = [1, 2] x [1, 2] : tensor<5x?x8xf32>, !nabla.implicit<7x8x8xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<5x7xf32>
}

// -----

// More rows than 63 bits count.
// CHECK-LABEL: func.func @huge
// CHECK: nabla.materialize
// ERROR: it has too many rows
func.func @huge(%x: tensor<4294967296x4294967296x64xf32>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> tensor<4294967296x4294967296x8xf32> {
  // expected-warning @below {{it has too many rows}}
  %0 = nabla.dot_general %x, %w contracting = [2] x [1] : tensor<4294967296x4294967296x64xf32>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<4294967296x4294967296x8xf32>
}

// -----

// Both sides packed: each is materialized, and counted.
// CHECK-LABEL: func.func @both
// CHECK-COUNT-2: nabla.materialize
// ERROR: 'nabla.dot_general' op would materialize 2 operands of #nabla.nf4<block = 64>, 128 elements: no rule takes it
func.func @both(%w: !nabla.implicit<64xf32, #nabla.nf4<block = 64>>) -> tensor<f32> {
  // expected-warning @below {{'nabla.dot_general' op materializes 2 operands of #nabla.nf4<block = 64>, 128 elements: no rule takes it}}
  %0 = nabla.dot_general %w, %w contracting = [0] x [0] : !nabla.implicit<64xf32, #nabla.nf4<block = 64>>, !nabla.implicit<64xf32, #nabla.nf4<block = 64>>
  return %0 : tensor<f32>
}

// -----

// A view that was asked for as a tensor.
// CHECK-LABEL: func.func @tensor_of_a_view
// CHECK: %[[D:.*]] = nabla.materialize
// CHECK: nabla.reshape %[[D]] : tensor<8x8xf32> -> tensor<64xf32>
// ERROR: 'nabla.reshape' op would materialize 1 operand of #nabla.nf4<block = 64>, 64 elements: the result is a tensor
func.func @tensor_of_a_view(%w: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>) -> tensor<64xf32> {
  // expected-warning @below {{'nabla.reshape' op materializes 1 operand of #nabla.nf4<block = 64>, 64 elements: the result is a tensor}}
  %0 = nabla.reshape %w : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>> -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

// Views that stay implicit say nothing; nor does a program without a miss fail
// under policy=error.
// CHECK-LABEL: func.func @views
// CHECK-NOT: nabla.materialize
// CHECK: return
func.func @views(%w: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>) -> !nabla.implicit<64xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1], offset = 0>> {
  %0 = nabla.reshape %w : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<64xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1], offset = 0>>
  return %0 : !nabla.implicit<64xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1], offset = 0>>
}
