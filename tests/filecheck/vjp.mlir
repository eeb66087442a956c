// nabla-vjp makes @NAME.vjp beside @NAME: arguments, cotangents of results;
// results, gradients. Absent cotangents are absent.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-vjp{function=layer},nabla-vjp{function=sums wrt=0},nabla-vjp{function=none wrt=y},nabla-vjp{function=halves},nabla-vjp{function=pick},nabla-vjp{function=rows},nabla-vjp{function=call},nabla-vjp{function=own},nabla-vjp{function=round},nabla-vjp{function=loop},nabla-vjp{function=stop})' | FileCheck "%s"

// CHECK-LABEL: func.func @layer(
// CHECK-NEXT: nabla.linear
// CHECK-NEXT: nabla.tanh
// CHECK-LABEL: func.func @layer.vjp(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32> {nabla.name = "x"}, %[[W:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<8xf32>, %[[U:.*]]: tensor<?x8xf32> {nabla.name = "y.cotangent"})
// CHECK-SAME: -> (tensor<?x8xf32> {nabla.name = "y"}, tensor<?x4xf32> {nabla.name = "x.gradient"}, tensor<8x4xf32>, tensor<8xf32>)
// CHECK: %[[Y:.*]] = nabla.tanh
// CHECK: %[[V:.*]] = nabla.mul %[[U]],
// CHECK-NEXT: %[[DB:.*]] = nabla.reduce sum %[[V]] dims = [0]
// CHECK-NEXT: %[[DX:.*]] = nabla.dot_general %[[V]], %[[W]] contracting = [1] x [0]
// CHECK-NEXT: %[[DW:.*]] = nabla.dot_general %[[V]], %[[X]] contracting = [0] x [0]
// CHECK-NEXT: return %[[Y]], %[[DX]], %[[DW]], %[[DB]]
func.func @layer(%x: tensor<?x4xf32> {nabla.name = "x"}, %w: tensor<8x4xf32>, %b: tensor<8xf32>)
    -> (tensor<?x8xf32> {nabla.name = "y"}) {
  %0 = nabla.linear %x, %w, %b : tensor<?x4xf32>, tensor<8x4xf32>, tensor<8xf32>
  %1 = nabla.tanh %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// The last use is the first term of a sum. What does not depend on the argument
// has no cotangent; integers have none.
// CHECK-LABEL: func.func @sums.vjp(
// CHECK-SAME: %[[A:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>, %[[U:[^:]*]]: tensor<4xf32>, %[[V:[^:]*]]: tensor<4xf32>)
// CHECK-SAME: -> (tensor<4xf32>, tensor<i64>, tensor<4xf32>, tensor<4xf32>)
// CHECK: nabla.argmax
// CHECK-NEXT: %[[L:.*]] = nabla.mul %[[U]], %[[B]]
// CHECK-NEXT: %[[S:.*]] = nabla.add %[[V]], %[[L]]
// CHECK-NEXT: return {{.*}}, %[[S]]
func.func @sums(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>, tensor<4xf32>) {
  %0 = nabla.mul %a, %b : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.neg %b : tensor<4xf32>
  %2 = nabla.add %a, %1 : tensor<4xf32>, tensor<4xf32>
  %3 = nabla.argmax %a dim = 0 : tensor<4xf32>
  return %0, %3, %2 : tensor<4xf32>, tensor<i64>, tensor<4xf32>
}

// Without a path to the argument the gradient is zeros, and nothing else.
// CHECK-LABEL: func.func @none.vjp(
// CHECK-NEXT: %[[F:.*]] = nabla.floor
// CHECK-NEXT: %[[Z:.*]] = nabla.full 0.0
// CHECK-NEXT: return %[[F]], %[[Z]]
func.func @none(%x: tensor<2xf32>, %y: tensor<2xf32> {nabla.name = "y"}) -> tensor<2xf32> {
  %0 = nabla.floor %y : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// f16 is computed in f32: one conversion in, one out, also of sums.
// CHECK-LABEL: func.func @halves.vjp(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf16>, %[[U:[^:]*]]: tensor<4xf16>)
// CHECK: %[[E:.*]] = nabla.exp %[[X]] : tensor<4xf16>
// CHECK: %[[P:.*]] = nabla.convert %{{.*}} : tensor<4xf32> -> tensor<4xf16>
// CHECK-DAG: %[[A:.*]] = nabla.convert %[[U]] : tensor<4xf16> -> tensor<4xf32>
// CHECK-DAG: %[[Q:.*]] = nabla.convert %[[P]] : tensor<4xf16> -> tensor<4xf32>
// CHECK: %[[S:.*]] = nabla.add %[[A]], %[[Q]] : tensor<4xf32>
// CHECK: nabla.convert %[[S]] : tensor<4xf32> -> tensor<4xf16>
func.func @halves(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nabla.exp %x : tensor<4xf16>
  %1 = nabla.add %0, %x : tensor<4xf16>, tensor<4xf16>
  return %1 : tensor<4xf16>
}

// The branch that was taken runs again; both give cotangents of the same values.
// CHECK-LABEL: func.func @pick.vjp(
// CHECK: nabla.cond
// CHECK: nabla.cond %arg0 : tensor<i1> -> tensor<4xf32>, tensor<4xf32> {
// CHECK: nabla.exp
// CHECK: }, {
// CHECK-NOT: nabla.exp
// CHECK: nabla.yield
func.func @pick(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.cond %p : tensor<i1> -> tensor<4xf32> {
    %1 = nabla.exp %x : tensor<4xf32>
    nabla.yield %1 : tensor<4xf32>
  }, {
    nabla.yield %y : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// A gather moves boxes inside: so does its transpose, which a scatter would drop.
// CHECK-LABEL: func.func @rows.vjp(
// CHECK: nabla.gather
// CHECK: %[[L:.*]] = nabla.maximum %arg1, %{{.*}} : tensor<3x1xi64>
// CHECK: %[[I:.*]] = nabla.minimum %[[L]], %{{.*}} : tensor<3x1xi64>
// CHECK: nabla.scatter add %{{.*}}, %[[I]], %arg2
func.func @rows(%x: tensor<5x4xf32>, %i: tensor<3x1xi64>) -> tensor<3x4xf32> {
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 4] : tensor<5x4xf32>, tensor<3x1xi64>
  return %0 : tensor<3x4xf32>
}

// One derivative for both calls.
// CHECK: func.func private @square.pullback(
// CHECK-NOT: @square.pullback_
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.mul %x, %x : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @call.vjp(
// CHECK: call @square(
// CHECK: call @square(
// CHECK: call @square.pullback(
// CHECK: call @square.pullback(
func.func @call(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @square(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A derivative of one's own: what the forward function saves reaches the other.
!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func private @f_forward(%x: tensor<2x64xf32>, %w: !w) -> (tensor<2x8xf32>, tensor<2x64xf32>, !w)
func.func private @f_backward(%s: tensor<2x64xf32>, %w: !w, %u: tensor<2x8xf32>) -> tensor<2x64xf32>
func.func private @f(%x: tensor<2x64xf32>, %w: !w) -> tensor<2x8xf32> attributes {nabla.vjp = [@f_forward, @f_backward], no_inline}
// CHECK-LABEL: func.func @own.vjp(
// CHECK-NEXT: %[[R:.*]]:3 = call @f_forward(%arg0, %arg1)
// CHECK-NEXT: %[[G:.*]] = call @f_backward(%[[R]]#1, %[[R]]#2, %arg2)
// CHECK-NEXT: return %[[R]]#0, %[[G]]
func.func @own(%x: tensor<2x64xf32>, %w: !w) -> tensor<2x8xf32> {
  %0 = func.call @f(%x, %w) : (tensor<2x64xf32>, !w) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// Straight through, whatever the body does; the other argument gets none.
func.func private @q(%x: tensor<8x64xf32>, %s: tensor<f32>) -> !w attributes {nabla.straight_through} {
  %0 = nabla.round %x : tensor<8x64xf32>
  %1 = nabla.quantize %0 : tensor<8x64xf32> -> !w
  return %1 : !w
}
// CHECK-LABEL: func.func @round.vjp(
// CHECK: %[[Q:.*]] = call @q(
// CHECK: %[[D:.*]] = nabla.materialize %[[Q]]
// CHECK: %[[Z:.*]] = nabla.full 0.0{{.*}} -> tensor<f32>
// CHECK: return %[[D]], %arg2, %[[Z]]
func.func @round(%x: tensor<8x64xf32>, %s: tensor<f32>) -> tensor<8x64xf32> {
  %0 = func.call @q(%x, %s) : (tensor<8x64xf32>, tensor<f32>) -> !w
  %1 = nabla.materialize %0 : !w
  return %1 : tensor<8x64xf32>
}

// The loop stacks its carries; the other one goes back, and sums what is outside.
// CHECK-LABEL: func.func @loop.vjp(
// CHECK: %[[F:.*]]:2 = nabla.scan init(%arg0 : tensor<4xf32>) over(%arg1 : tensor<9x4xf32>) -> tensor<4xf32>, tensor<9x4xf32>
// CHECK: %[[B:.*]]:3 = nabla.scan init(%arg3, %{{.*}} : tensor<4xf32>, tensor<4xf32>) over(%[[F]]#1, %arg1 : tensor<9x4xf32>, tensor<9x4xf32>) reverse -> tensor<4xf32>, tensor<4xf32>, tensor<9x4xf32>
// CHECK: return %[[F]]#0, %[[B]]#0, %[[B]]#2, %[[B]]#1
func.func @loop(%h: tensor<4xf32>, %xs: tensor<9x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.scan init(%h : tensor<4xf32>) over(%xs : tensor<9x4xf32>) -> tensor<4xf32> {
  ^bb0(%s: tensor<4xf32>, %x: tensor<4xf32>):
    %1 = nabla.mul %s, %w : tensor<4xf32>, tensor<4xf32>
    %2 = nabla.add %1, %x : tensor<4xf32>, tensor<4xf32>
    nabla.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// One factor is a constant; nabla-dispatch removes the operation.
// CHECK-LABEL: func.func @stop.vjp(
// CHECK-NEXT: %[[S:.*]] = nabla.stop_gradient %arg0
// CHECK-NEXT: %[[Y:.*]] = nabla.mul %arg0, %[[S]]
// CHECK-NEXT: %[[G:.*]] = nabla.mul %arg1, %[[S]]
// CHECK-NEXT: return %[[Y]], %[[G]]
func.func @stop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.stop_gradient %x : tensor<4xf32>
  %1 = nabla.mul %x, %0 : tensor<4xf32>, tensor<4xf32>
  return %1 : tensor<4xf32>
}
