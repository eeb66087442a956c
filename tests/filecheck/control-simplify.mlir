// Canonical forms of operations with regions, and what must stay as it is.
// RUN: nabla-opt "%s" --nabla-simplify | FileCheck "%s"

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @known
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf32>, %[[Y:[^:]*]]: tensor<4xf32>)
// CHECK-NOT: nabla.cond
// CHECK: %[[A:.*]] = nabla.add
// CHECK: return %[[A]], %[[Y]], %[[Y]], %[[X]]
func.func @known(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %true = nabla.constant dense<true> : tensor<i1>
  %false = arith.constant false
  %less = arith.constant -1 : i64
  %zero = nabla.constant dense<0> : tensor<i32>
  %0 = nabla.cond %true : tensor<i1> -> tensor<4xf32> {
    %a = nabla.add %x, %y : tensor<4xf32>, tensor<4xf32>
    nabla.yield %a : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  %1 = nabla.cond %false : i1 -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  %2 = nabla.cond %less : i64 -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  %3 = nabla.cond %zero : tensor<i32> -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// One value from all branches is that value; a result that nobody uses goes.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: (%{{.*}}: i1, %[[W:[^:]*]]: !nabla
// CHECK: %[[R:.*]] = nabla.cond %{{.*}} : i1 -> f32 {
// CHECK: nabla.yield %{{.*}} : f32
// CHECK: return %[[R]], %[[W]]
func.func @shared(%p: i1, %w: !w, %f: f32, %g: f32, %x: tensor<8x8xf32>) -> (f32, !w) {
  %0:3 = nabla.cond %p : i1 -> !w, f32, !w {
    %q = nabla.quantize %x : tensor<8x8xf32> -> !w
    nabla.yield %w, %f, %q : !w, f32, !w
  }, {
    nabla.yield %w, %g, %w : !w, f32, !w
  }
  return %0#1, %0#0 : f32, !w
}

// Must stay: the same op in both branches is made in each.
// CHECK-LABEL: func.func @made_inside
// CHECK: nabla.cond %{{.*}} -> !nabla
// CHECK: nabla.quantize
// CHECK: nabla.quantize
func.func @made_inside(%p: i1, %x: tensor<8x8xf32>) -> !w {
  %0 = nabla.cond %p : i1 -> !w {
    %q = nabla.quantize %x : tensor<8x8xf32> -> !w
    nabla.yield %q : !w
  }, {
    %q = nabla.quantize %x : tensor<8x8xf32> -> !w
    nabla.yield %q : !w
  }
  return %0 : !w
}

// Carries that never change leave a while and a scan, one in the other.
// CHECK-LABEL: func.func @invariant
// CHECK-SAME: (%[[W:[^:]*]]: !nabla
// CHECK: %[[R:.*]] = nabla.scan init(%{{.*}} : tensor<8xf32>) over(%{{.*}} : tensor<?x8xf32>) -> tensor<8xf32> {
// CHECK: nabla.while(%{{.*}}) : tensor<8xf32> cond {
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: tensor<8xf32>):
// CHECK: nabla.condition %{{.*}}, %[[A]] : i1, tensor<8xf32>
// CHECK: nabla.dot_general %{{.*}}, %[[W]]
// CHECK: return %[[R]], %[[W]]
func.func @invariant(%w: !w, %h: tensor<8xf32>, %x: tensor<?x8xf32>, %p: i1) -> (tensor<8xf32>, !w) {
  %0:2 = nabla.scan init(%w, %h : !w, tensor<8xf32>) over(%x : tensor<?x8xf32>) -> !w, tensor<8xf32> {
  ^bb0(%v: !w, %a: tensor<8xf32>, %b: tensor<8xf32>):
    %1:2 = nabla.while(%v, %a) : !w, tensor<8xf32> cond {
    ^bb0(%u: !w, %c: tensor<8xf32>):
      nabla.condition %p, %u, %c : i1, !w, tensor<8xf32>
    } do {
    ^bb0(%u: !w, %c: tensor<8xf32>):
      %d = nabla.dot_general %c, %u contracting = [0] x [1] : tensor<8xf32>, !w
      nabla.yield %u, %d : !w, tensor<8xf32>
    }
    nabla.yield %1#0, %1#1 : !w, tensor<8xf32>
  }
  return %0#1, %0#0 : tensor<8xf32>, !w
}

// Outputs and results that nobody uses go; what the regions use stays.
// CHECK-LABEL: func.func @unused
// CHECK: nabla.scan init(%{{.*}} : tensor<8xf32>) over(%{{.*}} : tensor<?x8xf32>) -> tensor<8xf32>, tensor<?x8xf32> {
// CHECK: nabla.yield %{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf32>
// CHECK: return
func.func @unused(%h: tensor<8xf32>, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0:3 = nabla.scan init(%h : tensor<8xf32>) over(%x : tensor<?x8xf32>) -> tensor<8xf32>, tensor<?x8xf32>, tensor<?x8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %c = nabla.add %a, %b : tensor<8xf32>, tensor<8xf32>
    nabla.yield %c, %a, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  return %0#2 : tensor<?x8xf32>
}

// With an output go the sizes of its slices.
// CHECK-LABEL: func.func @unused_sizes
// CHECK-SAME: %[[A:[^ :]*]]: index, %[[B:[^ :]*]]: index, %[[C:[^ :]*]]: index, %[[D:[^ :]*]]: index)
// CHECK: nabla.scan over(%{{.*}} : tensor<2x?x?xf32>) sizes(%[[A]], %[[B]]) -> tensor<2x?x?xf32> {
// CHECK: return
func.func @unused_sizes(%x: tensor<2x?x?xf32>, %a: index, %b: index, %c: index, %d: index) -> tensor<2x?x?xf32> {
  %0:3 = nabla.scan over(%x : tensor<2x?x?xf32>) sizes(%c, %d, %a, %b, %d, %c) -> tensor<2x?x?xf32>, tensor<2x?x?xf32>, tensor<2x?x?xf32> {
  ^bb0(%y: tensor<?x?xf32>):
    nabla.yield %y, %y, %y : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
  }
  return %0#1 : tensor<2x?x?xf32>
}

// Must stay: carries that change places.
// CHECK-LABEL: func.func @swap
// CHECK: nabla.scan init(%{{.*}}, %{{.*}} : !nabla
func.func @swap(%w: !w, %v: !w, %n: index) -> !w {
  %0:2 = nabla.scan init(%w, %v : !w, !w) length(%n) -> !w, !w {
  ^bb0(%a: !w, %b: !w):
    nabla.yield %b, %a : !w, !w
  }
  return %0#0 : !w
}

// Carries that start with results of the same op, in code that is never reached.
// CHECK-LABEL: func.func @never_reached
// CHECK: %[[R:.*]]:2 = nabla.while(%[[R]]#1, %[[R]]#0) : f32, f32
func.func @never_reached() {
  return
^bb1:
  %true = arith.constant true
  %1:2 = nabla.while(%1#1, %1#0) : f32, f32 cond {
  ^bb0(%a: f32, %b: f32):
    nabla.condition %true, %a, %b : i1, f32, f32
  } do {
  ^bb0(%a: f32, %b: f32):
    nabla.yield %a, %b : f32, f32
  }
  cf.br ^bb1
}
