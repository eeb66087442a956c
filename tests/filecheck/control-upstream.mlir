// Upstream passes see through cond, while and scan, and the calls in them.
// RUN: nabla-opt "%s" --split-input-file --loop-invariant-code-motion | FileCheck "%s" --check-prefix=LICM
// RUN: nabla-opt "%s" --split-input-file --cse | FileCheck "%s" --check-prefix=CSE
// RUN: nabla-opt "%s" --split-input-file --inline | FileCheck "%s" --check-prefix=INLINE
// RUN: nabla-opt "%s" --split-input-file --canonicalize | FileCheck "%s" --check-prefix=CANON
// RUN: nabla-opt "%s" --split-input-file --sccp | FileCheck "%s" --check-prefix=SCCP
// RUN: nabla-opt "%s" --split-input-file --symbol-dce | FileCheck "%s" --check-prefix=DCE

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>

// What does not depend on the step leaves the loop, decoded once; what depends
// on the packed carry stays.
// LICM-LABEL: func.func @invariant
// LICM: nabla.materialize %arg0
// LICM-NEXT: nabla.scan
// LICM: nabla.dot_general
// LICM: nabla.yield
func.func @invariant(%w: !w, %v: !w, %x: tensor<?x8xf32>) -> (tensor<8x8xf32>, !w) {
  %h = nabla.materialize %v : !w
  %r:2 = nabla.scan init(%h, %v : tensor<8x8xf32>, !w) over(%x : tensor<?x8xf32>) -> tensor<8x8xf32>, !w {
  ^bb0(%c: tensor<8x8xf32>, %u: !w, %s: tensor<8xf32>):
    %d = nabla.materialize %w : !w
    %e = nabla.dot_general %d, %u contracting = [1] x [0] : tensor<8x8xf32>, !w
    %f = nabla.add %c, %e : tensor<8x8xf32>, tensor<8x8xf32>
    %q = nabla.quantize %f : tensor<8x8xf32> -> !w
    nabla.yield %f, %q : tensor<8x8xf32>, !w
  }
  return %r#0, %r#1 : tensor<8x8xf32>, !w
}

// Out of both regions of a while.
// LICM-LABEL: func.func @both_regions
// LICM: nabla.materialize
// LICM: arith.constant 3
// LICM: nabla.while
// LICM-NOT: nabla.materialize
// LICM: return
func.func @both_regions(%w: !w, %n: index) -> tensor<8x8xf32> {
  %h = nabla.materialize %w : !w
  %r:2 = nabla.while(%n, %h) : index, tensor<8x8xf32> cond {
  ^bb0(%i: index, %c: tensor<8x8xf32>):
    %three = arith.constant 3 : index
    %p = arith.cmpi slt, %i, %three : index
    nabla.condition %p, %i, %c : i1, index, tensor<8x8xf32>
  } do {
  ^bb0(%i: index, %c: tensor<8x8xf32>):
    %t = nabla.transpose %w permutation = [1, 0] : !w
    %d = nabla.materialize %t : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1, 8], offset = 0>>
    %e = nabla.add %c, %d : tensor<8x8xf32>, tensor<8x8xf32>
    %j = arith.addi %i, %i : index
    nabla.yield %j, %e : index, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// A whole cond is invariant too; a while, which may never end, is not moved.
// LICM-LABEL: func.func @nested
// LICM: nabla.cond
// LICM: nabla.scan
// LICM: nabla.while
// LICM: return
func.func @nested(%w: !w, %v: !w, %p: i1, %n: index, %x: tensor<?x8xf32>) -> tensor<?x8x8xf32> {
  %r = nabla.scan over(%x : tensor<?x8xf32>) -> tensor<?x8x8xf32> {
  ^bb0(%s: tensor<8xf32>):
    %a = nabla.while(%n) : index cond {
    ^bb0(%i: index):
      nabla.condition %p, %i : i1, index
    } do {
    ^bb0(%i: index):
      nabla.yield %i : index
    }
    %c = nabla.cond %p : i1 -> !w {
      nabla.yield %w : !w
    }, {
      nabla.yield %v : !w
    }
    %d = nabla.materialize %c : !w
    nabla.yield %d : tensor<8x8xf32>
  }
  return %r : tensor<?x8x8xf32>
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>

// Two equal conds with packed results are one; so are equal ops inside and
// outside.
// CSE-LABEL: func.func @equal
// CSE-SAME: (%[[P:[^:]*]]: i1, %[[W:[^:]*]]: !nabla
// CSE: %[[D:.*]] = nabla.materialize %[[W]]
// CSE: %[[C:.*]] = nabla.cond
// CSE-NOT: nabla.cond
// CSE: %[[S:.*]] = nabla.scan
// CSE-NOT: nabla.materialize
// CSE: nabla.add %{{.*}}, %[[D]]
// CSE: return %[[C]], %[[C]]
func.func @equal(%p: i1, %w: !w, %v: !w, %x: tensor<?x8x8xf32>) -> (!w, !w, tensor<8x8xf32>) {
  %d = nabla.materialize %w : !w
  %a = nabla.cond %p : i1 -> !w {
    nabla.yield %w : !w
  }, {
    nabla.yield %v : !w
  }
  %b = nabla.cond %p : i1 -> !w {
    nabla.yield %w : !w
  }, {
    nabla.yield %v : !w
  }
  %s = nabla.scan init(%d : tensor<8x8xf32>) over(%x : tensor<?x8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%c: tensor<8x8xf32>, %y: tensor<8x8xf32>):
    %e = nabla.materialize %w : !w
    %f = nabla.add %c, %e : tensor<8x8xf32>, tensor<8x8xf32>
    nabla.yield %f : tensor<8x8xf32>
  }
  return %a, %b, %s : !w, !w, tensor<8x8xf32>
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!t = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1, 8], offset = 0>>

// Calls in regions, with packed arguments and results.
// INLINE-LABEL: func.func @calls
// INLINE-NOT: call
// INLINE: nabla.scan
// INLINE: nabla.cond
// INLINE: %[[T:.*]] = nabla.transpose
// INLINE: nabla.yield %[[T]]
// DCE-NOT: @nobody
// DCE: func.func private @turn
// DCE: func.func @calls
func.func private @turn(%w: !w) -> !t {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  return %t : !t
}
func.func private @nobody(%w: !w) -> !w {
  return %w : !w
}
func.func @calls(%p: i1, %w: !w, %v: !t, %x: tensor<?x8xf32>) -> tensor<?x8x8xf32> {
  %r = nabla.scan over(%x : tensor<?x8xf32>) -> tensor<?x8x8xf32> {
  ^bb0(%s: tensor<8xf32>):
    %c = nabla.cond %p : i1 -> !t {
      %t = func.call @turn(%w) : (!w) -> !t
      nabla.yield %t : !t
    }, {
      nabla.yield %v : !t
    }
    %d = nabla.materialize %c : !t
    nabla.yield %d : tensor<8x8xf32>
  }
  return %r : tensor<?x8x8xf32>
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>

// A packed carry that never changes is used from outside.
// CANON-LABEL: func.func @unchanged
// CANON-SAME: (%[[W:[^:]*]]: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, %[[H:[^:]*]]: tensor<?x8xf32>, %[[X:[^:]*]]: tensor<?x8xf32>)
// CANON: %[[R:.*]] = nabla.scan init(%[[H]] : tensor<?x8xf32>) over(%[[X]] : tensor<?x8xf32>) -> tensor<?x8xf32> {
// CANON: nabla.dot_general %{{.*}}, %[[W]]
// CANON: return %[[R]], %[[W]]
func.func @unchanged(%w: !w, %h: tensor<?x8xf32>, %x: tensor<?x8xf32>) -> (tensor<?x8xf32>, !w) {
  %r:3 = nabla.scan init(%h, %w : tensor<?x8xf32>, !w) over(%x : tensor<?x8xf32>) -> tensor<?x8xf32>, !w, tensor<?x8xf32> {
  ^bb0(%c: tensor<?x8xf32>, %u: !w, %s: tensor<8xf32>):
    %y = nabla.dot_general %c, %u contracting = [1] x [1] : tensor<?x8xf32>, !w
    nabla.yield %y, %u, %s : tensor<?x8xf32>, !w, tensor<8xf32>
  }
  return %r#0, %r#1 : tensor<?x8xf32>, !w
}

// The branch of a constant, and a while whose packed carry goes round.
// CANON-LABEL: func.func @chosen
// CANON-SAME: (%[[W:[^:]*]]: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, %[[V:[^:]*]]: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>,
// CANON-NOT: nabla.cond
// CANON: nabla.while(%{{.*}}, %{{.*}}) : i1, tensor<8xf32> cond
// CANON: return %{{.*}}, %[[V]]
func.func @chosen(%w: !w, %v: !w, %p: i1, %x: tensor<8xf32>) -> (tensor<8xf32>, !w) {
  %last = arith.constant 7 : index
  %c = nabla.cond %last : index -> !w {
    nabla.yield %w : !w
  }, {
    nabla.yield %v : !w
  }
  %r:3 = nabla.while(%p, %c, %x) : i1, !w, tensor<8xf32> cond {
  ^bb0(%q: i1, %u: !w, %a: tensor<8xf32>):
    nabla.condition %q, %q, %u, %a : i1, i1, !w, tensor<8xf32>
  } do {
  ^bb0(%q: i1, %u: !w, %a: tensor<8xf32>):
    %b = nabla.dot_general %a, %u contracting = [0] x [0] : tensor<8xf32>, !w
    %f = arith.constant false
    nabla.yield %f, %u, %b : i1, !w, tensor<8xf32>
  }
  return %r#2, %r#1 : tensor<8xf32>, !w
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>

// A constant comes out of regions and private functions; a branch that is never
// taken does not count.
// SCCP-LABEL: func.func @constants
// SCCP-DAG: %[[F:.*]] = arith.constant 4 : index
// SCCP: return %[[F]], %[[F]], %{{.*}} : index, index
func.func private @four() -> index {
  %c = arith.constant 4 : index
  return %c : index
}
func.func @constants(%w: !w, %x: tensor<?x8xf32>, %p: i1) -> (index, index, !w) {
  %one = arith.constant 1 : index
  %a = nabla.cond %one : index -> index {
    %c = arith.constant 3 : index
    nabla.yield %c : index
  }, {
    %c = func.call @four() : () -> index
    nabla.yield %c : index
  }
  %four = arith.constant 4 : index
  %r:2 = nabla.scan init(%four, %w : index, !w) over(%x : tensor<?x8xf32>) -> index, !w {
  ^bb0(%i: index, %u: !w, %s: tensor<8xf32>):
    %v = nabla.cond %p : i1 -> !w {
      nabla.yield %u : !w
    }, {
      nabla.yield %w : !w
    }
    nabla.yield %a, %v : index, !w
  }
  return %a, %r#0, %r#1 : index, index, !w
}
