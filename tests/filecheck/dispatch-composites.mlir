// A composite with an implicit operand becomes its parts, which have rules; one
// without is left to nabla-decompose.
// RUN: nabla-opt "%s" --nabla-dispatch --verify-diagnostics | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-decompose --cse --nabla-fuse 2>/dev/null | FileCheck "%s" --check-prefix=FUSED
!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @linear(
// CHECK-NOT: nabla.linear
// CHECK: nabla.fused_dot
// CHECK-NOT: nabla.materialize
// CHECK: return
// FUSED-LABEL: func.func @linear(
// FUSED: %[[Y:.*]] = nabla.fused_dot %{{.*}}, %arg1(%arg2) epilogue = ["bias"]
// FUSED-NEXT: nabla.reshape %[[Y]]
// FUSED-NEXT: return
func.func @linear(%x: tensor<?x3x256xf32>, %w: !w, %b: tensor<128xf32>) -> tensor<?x3x128xf32> {
  %y = nabla.linear %x, %w, %b : tensor<?x3x256xf32>, !w, tensor<128xf32>
  return %y : tensor<?x3x128xf32>
}

// CHECK-LABEL: func.func @dense(
// CHECK-NEXT: nabla.linear
// CHECK-NEXT: nabla.rms_norm
// CHECK-NEXT: return
// FUSED-LABEL: func.func @dense(
// FUSED-NOT: nabla.linear
// FUSED: nabla.dot_general
func.func @dense(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %y = nabla.linear %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
  %z = nabla.rms_norm %y eps = 1.0e-6 : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// A weight that no kernel takes is reported, as that of any dot_general.
// CHECK-LABEL: func.func @without_kernel(
// CHECK: nabla.materialize
// CHECK: nabla.dot_general
func.func @without_kernel(%x: tensor<4x256xf32>, %w: !nabla.implicit<128x256xf32, #nabla.dynamic8<block = 64>>) -> tensor<4x128xf32> {
  // expected-warning @+1 {{'nabla.dot_general' op materializes 1 operand of #nabla.dynamic8<block = 64>, 32768 elements}}
  %y = nabla.linear %x, %w : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.dynamic8<block = 64>>
  return %y : tensor<4x128xf32>
}

// Ropes of the same positions share one table.
// FUSED-LABEL: func.func @tables(
// FUSED-COUNT-1: nabla.cos
// FUSED-NOT: nabla.cos
// FUSED: return
func.func @tables(%q: tensor<4x2x8xf32>, %k: tensor<4x1x8xf32>, %p: tensor<4xi64>) -> (tensor<4x2x8xf32>, tensor<4x1x8xf32>) {
  %a = nabla.rope halves %q, %p dim = 0 : tensor<4x2x8xf32>, tensor<4xi64>
  %b = nabla.rope halves %k, %p dim = 0 : tensor<4x1x8xf32>, tensor<4xi64>
  return %a, %b : tensor<4x2x8xf32>, tensor<4x1x8xf32>
}
