// Packed components are not copied by loops and branches: what is invariant is
// read where it lies, a slice is a part of its buffer.
// RUN: nabla-opt "%s" --nabla-cpu --mlir-disable-threading --mlir-print-ir-before=convert-bufferization-to-memref -o "%t" 2>&1 | FileCheck "%s"

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!ws = !nabla.implicit<3x8x64xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @slices
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: scf.for
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: %[[S:.*]] = memref.subview %arg0
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: call @nabla_fused_{{[^(]*}}(%{{[^,]*}}, %[[S]],
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: return
func.func @slices(%ws: !ws, %x: tensor<?x64xf32>, %h: tensor<?x8xf32>) -> (tensor<?x8xf32>) {
  %r = nabla.scan init(%h : tensor<?x8xf32>) over(%ws : !ws) -> tensor<?x8xf32> {
  ^bb0(%c: tensor<?x8xf32>, %w: !w):
    %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
    %z = nabla.add %y, %c : tensor<?x8xf32>, tensor<?x8xf32>
    nabla.yield %z : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// Through a call in the loop.
// CHECK-LABEL: func.func @called
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: %[[S:.*]] = memref.subview %arg0
// CHECK: call @inner(%{{[^,]*}}, %[[S]],
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: return
func.func private @inner(%x: tensor<?x64xf32>, %w: !w) -> tensor<?x8xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
  return %y : tensor<?x8xf32>
}
func.func @called(%ws: !ws, %x: tensor<?x64xf32>, %h: tensor<?x8xf32>) -> (tensor<?x8xf32>) {
  %r = nabla.scan init(%h : tensor<?x8xf32>) over(%ws : !ws) -> tensor<?x8xf32> {
  ^bb0(%c: tensor<?x8xf32>, %w: !w):
    %y = func.call @inner(%x, %w) : (tensor<?x64xf32>, !w) -> tensor<?x8xf32>
    nabla.yield %y : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @invariant
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: scf.while
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: return
func.func @invariant(%w: !w, %x: tensor<?x64xf32>, %n: index) -> tensor<?x8xf32> {
  %h = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
  %one = arith.constant 1 : index
  %r:3 = nabla.while(%n, %h, %w) : index, tensor<?x8xf32>, !w cond {
  ^bb0(%i: index, %a: tensor<?x8xf32>, %v: !w):
    %p = arith.cmpi ne, %i, %one : index
    nabla.condition %p, %i, %a, %v : i1, index, tensor<?x8xf32>, !w
  } do {
  ^bb0(%i: index, %a: tensor<?x8xf32>, %v: !w):
    %j = arith.subi %i, %one : index
    %y = nabla.dot_general %x, %v contracting = [1] x [1] : tensor<?x64xf32>, !w
    %b = nabla.add %a, %y : tensor<?x8xf32>, tensor<?x8xf32>
    nabla.yield %j, %b, %v : index, tensor<?x8xf32>, !w
  }
  return %r#1 : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @chosen
// CHECK-NOT: memref.copy
// CHECK: return
func.func @chosen(%p: tensor<i1>, %a: !w, %b: !w, %x: tensor<?x64xf32>) -> tensor<?x8xf32> {
  %w = nabla.cond %p : tensor<i1> -> !w {
    nabla.yield %a : !w
  }, {
    nabla.yield %b : !w
  }
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
  return %y : tensor<?x8xf32>
}

// Packed values that change places in each step, and slices that are carried on.
// CHECK-LABEL: func.func @rotated
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: scf.for
// CHECK-NOT: memref.copy {{.*}}xi8
// CHECK: return
func.func @rotated(%a: !w, %b: !w, %ws: !ws, %x: tensor<?x64xf32>) -> tensor<?x8xf32> {
  %r:3 = nabla.scan init(%a, %b, %b : !w, !w, !w) over(%ws : !ws) -> !w, !w, !w {
  ^bb0(%c: !w, %d: !w, %e: !w, %f: !w):
    nabla.yield %d, %e, %f : !w, !w, !w
  }
  %y = nabla.dot_general %x, %r#0 contracting = [1] x [1] : tensor<?x64xf32>, !w
  return %y : tensor<?x8xf32>
}
