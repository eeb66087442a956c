// Implicit values stay implicit through regions; a scan whose slices are tensors
// asks for its input as a tensor, which is reported.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics | FileCheck "%s"
// RUN: not nabla-opt "%s" --split-input-file --nabla-dispatch=policy=error 2>&1 | FileCheck "%s" --check-prefix=ERROR

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!ws = !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @flows
// CHECK-NOT: nabla.materialize
// CHECK: nabla.fused_dot
// CHECK-NOT: nabla.materialize
// CHECK: return
func.func @flows(%ws: !ws, %w: !w, %p: i1, %x: tensor<?x8xf32>) -> (tensor<?x8xf32>, !w) {
  %0:2 = nabla.scan init(%x, %w : tensor<?x8xf32>, !w) over(%ws : !ws) -> tensor<?x8xf32>, !w {
  ^bb0(%a: tensor<?x8xf32>, %b: !w, %c: !w):
    %d = nabla.cond %p : i1 -> !w {
      nabla.yield %b : !w
    }, {
      %e = nabla.while(%c) : !w cond {
      ^bb0(%f: !w):
        nabla.condition %p, %f : i1, !w
      } do {
      ^bb0(%f: !w):
        nabla.yield %b : !w
      }
      nabla.yield %e : !w
    }
    %y = nabla.dot_general %a, %d contracting = [1] x [1] : tensor<?x8xf32>, !w
    nabla.yield %y, %c : tensor<?x8xf32>, !w
  }
  return %0#0, %0#1 : tensor<?x8xf32>, !w
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!h = !nabla.implicit<2x8x4xf32, #nabla.nf4<block = 64>>

// Half a block for each step: the input, and nothing else, is materialized.
// CHECK-LABEL: func.func @halves
// CHECK-SAME: (%[[H:[^:]*]]: !nabla.implicit<2x8x4xf32, #nabla.nf4<block = 64>>, %[[W:[^:]*]]: !nabla
// CHECK: %[[D:.*]] = nabla.materialize %[[H]]
// CHECK-NOT: nabla.materialize
// CHECK: nabla.scan init(%[[W]] : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>) over(%[[D]] : tensor<2x8x4xf32>)
// ERROR: error: 'nabla.scan' op would materialize 1 operand of #nabla.nf4<block = 64>, 64 elements: its slices are tensors
func.func @halves(%h: !h, %w: !w) -> (!w, tensor<2x8x4xf32>) {
  // expected-warning @below {{'nabla.scan' op materializes 1 operand of #nabla.nf4<block = 64>, 64 elements: its slices are tensors}}
  %0:2 = nabla.scan init(%w : !w) over(%h : !h) -> !w, tensor<2x8x4xf32> {
  ^bb0(%a: !w, %b: tensor<8x4xf32>):
    nabla.yield %a, %b : !w, tensor<8x4xf32>
  }
  return %0#0, %0#1 : !w, tensor<2x8x4xf32>
}
