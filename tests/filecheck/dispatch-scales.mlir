// What acts on the scales of a packed array, and an identity in a contraction.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --verify-diagnostics | FileCheck "%s"

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<64x8xf32, #nabla.nf4<block = 64>, view<8x64, strides = [1, 64], offset = 0>>
!two = !nabla.implicit<8x64xf32, #nabla.splat<2.0 : f32>>
!third = !nabla.implicit<8x64xf32, #nabla.splat<0.3333 : f32>>
!one = !nabla.implicit<8x64xf32, #nabla.splat<1.0 : f32>>

// CHECK-LABEL: func.func @negated
// CHECK: %[[P:.*]]:2 = nabla.unpack %arg1
// CHECK: %[[N:.*]] = nabla.neg %[[P]]#1 : tensor<8xf32>
// CHECK: %[[Q:.*]] = nabla.pack %[[P]]#0, %[[N]]
// CHECK: nabla.fused_dot %arg0, %[[Q]]
func.func @negated(%x: tensor<?x64xf32>, %w: !w) -> tensor<?x8xf32> {
  %0 = nabla.neg %w : !w
  %1 = nabla.dot_general %x, %0 contracting = [1] x [1] : tensor<?x64xf32>, !w
  return %1 : tensor<?x8xf32>
}

// A view of packed components is negated where they are.
// CHECK-LABEL: func.func @negated_view
// CHECK: nabla.neg %{{.*}} : tensor<8xf32>
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<64x8xf32, {{.*}}view<8x64
func.func @negated_view(%v: !v) -> !v {
  %0 = nabla.neg %v : !v
  return %0 : !v
}

// CHECK-LABEL: func.func @scaled
// CHECK: %[[C:.*]] = nabla.constant dense<2.000000e+00> : tensor<8xf32>
// CHECK: nabla.mul %{{.*}}#1, %[[C]] : tensor<8xf32>, tensor<8xf32>
// CHECK: %[[Q:.*]] = nabla.pack
// CHECK: nabla.mul %{{.*}} : tensor<8xf32>, tensor<8xf32>
// CHECK: %[[R:.*]] = nabla.pack
// CHECK: return %[[Q]], %[[R]], %arg0
func.func @scaled(%w: !w, %two: !two, %third: !third, %one: !one) -> (!w, !w, !w) {
  %0 = nabla.mul %w, %two : !w, !two
  %1 = nabla.mul %third, %w : !third, !w
  %2 = nabla.mul %w, %one : !w, !one
  return %0, %1, %2 : !w, !w, !w
}

// CHECK-LABEL: func.func @converted
// CHECK: %[[P:.*]]:2 = nabla.unpack %arg0
// CHECK: %[[Q:.*]] = nabla.pack %[[P]]#0, %[[P]]#1 : {{.*}} -> !nabla.implicit<8x64xbf16, #nabla.nf4<block = 64>>
// CHECK: return %[[Q]]
func.func @converted(%w: !w) -> !nabla.implicit<8x64xbf16, #nabla.nf4<block = 64>> {
  %0 = nabla.convert %w : !w -> !nabla.implicit<8x64xbf16, #nabla.nf4<block = 64>>
  return %0 : !nabla.implicit<8x64xbf16, #nabla.nf4<block = 64>>
}

// -----

// Must not fire: scales without a sign, of little range, factors that their
// type does not hold; a factor that is a tensor.
!mx = !nabla.implicit<2x32xf32, #nabla.mxfp4>
!half = !nabla.implicit<2x32xf32, #nabla.nf4<block = 32, scale = f16>>
!brain = !nabla.implicit<2x32xf32, #nabla.nf4<block = 32, scale = bf16>>
!short = !nabla.implicit<2x32xf16, #nabla.nf4<block = 32>>
!two = !nabla.implicit<2x32xf32, #nabla.splat<2.0 : f32>>
!three = !nabla.implicit<2x32xf32, #nabla.splat<3.0 : f32>>
!three16 = !nabla.implicit<2x32xf16, #nabla.splat<3.0 : f32>>
!inf = !nabla.implicit<2x32xf32, #nabla.splat<0x7F800000 : f32>>
func.func @kept(%mx: !mx, %half: !half, %brain: !brain, %short: !short, %two: !two, %three: !three, %three16: !three16, %inf: !inf, %x: tensor<2x32xf32>) {
  // expected-warning @+1 {{'nabla.neg' op materializes 1 operand of #nabla.mxfp4, 64 elements: its scales have no sign}}
  %0 = nabla.neg %mx : !mx
  // expected-warning @+1 {{'nabla.mul' op materializes 1 operand of #nabla.nf4<block = 32, scale = f16>, 64 elements: no rule takes it}}
  %1 = nabla.mul %half, %two : !half, !two
  // expected-warning @+1 {{'nabla.mul' op materializes 3 operands of #nabla.nf4<block = 32, scale = bf16>, 192 elements: no rule takes it}}
  %2 = nabla.mul %brain, %three : !brain, !three
  // expected-warning @+1 {{'nabla.mul' op materializes 1 operand of #nabla.nf4<block = 32>, 64 elements: no rule takes it}}
  %3 = nabla.mul %three16, %short : !three16, !short
  %4 = nabla.mul %inf, %brain : !inf, !brain
  %5 = nabla.mul %brain, %x : !brain, tensor<2x32xf32>
  return
}

// -----

!i = !nabla.implicit<4x4xf32, #nabla.identity>
!w = !nabla.implicit<8x4xf32, #nabla.nf4<block = 32>>

// CHECK-LABEL: func.func @identities
// CHECK: %[[T:.*]] = nabla.transpose %arg0 permutation = [1, 0]
// CHECK: %[[M:.*]] = nabla.materialize %arg1
// CHECK: %[[U:.*]] = nabla.transpose %arg2 permutation = [1, 0]
// CHECK: %[[E:.*]] = nabla.materialize %[[U]] : !nabla.implicit<4x4xf32, #nabla.identity>
// CHECK: return %arg0, %[[T]], %[[M]], %[[E]], %arg3
func.func @identities(%x: tensor<?x4xf32>, %w: !w, %i: !i, %y: tensor<4x3xf32>) -> (tensor<?x4xf32>, tensor<4x?xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x3xf32>) {
  %0 = nabla.dot_general %x, %i contracting = [1] x [0] : tensor<?x4xf32>, !i
  %1 = nabla.dot_general %i, %x contracting = [1] x [1] : !i, tensor<?x4xf32>
  %2 = nabla.dot_general %w, %i contracting = [1] x [1] : !w, !i
  %3 = nabla.dot_general %i, %i contracting = [0] x [1] : !i, !i
  %4 = nabla.dot_general %i, %y contracting = [1] x [0] : !i, tensor<4x3xf32>
  return %0, %1, %2, %3, %4 : tensor<?x4xf32>, tensor<4x?xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x3xf32>
}

// The transpose of an identity is one; no other view is.
// CHECK-LABEL: func.func @views_of_identities
// CHECK: nabla.transpose %arg0 {{.*}} : !nabla.implicit<2x4xf32, #nabla.identity>
// CHECK: nabla.slice %{{.*}} : tensor<2x4xf32>
func.func @views_of_identities(%i: !nabla.implicit<2x4xf32, #nabla.identity>) -> (!nabla.implicit<4x2xf32, #nabla.identity>, tensor<1x4xf32>) {
  %0 = nabla.transpose %i permutation = [1, 0] : !nabla.implicit<2x4xf32, #nabla.identity>
  // expected-warning @+1 {{'nabla.slice' op materializes 1 operand of #nabla.identity, 8 elements: the result is a tensor}}
  %1 = nabla.slice %i starts = [0, 0] limits = [1, 4] : !nabla.implicit<2x4xf32, #nabla.identity>
  return %0, %1 : !nabla.implicit<4x2xf32, #nabla.identity>, tensor<1x4xf32>
}

// -----

// Must not fire: no square; two contracted dimensions, or none; a size that has
// to be compared.
!r = !nabla.implicit<4x2xf32, #nabla.identity>
!i = !nabla.implicit<4x4xf32, #nabla.identity>
func.func @no_identity(%x: tensor<3x4xf32>, %y: tensor<4x4xf32>, %z: tensor<3x?xf32>, %r: !r, %i: !i) {
  // expected-warning @+1 {{'nabla.dot_general' op materializes 4 operands of #nabla.identity, 56 elements: the identity is not square}}
  %0 = nabla.dot_general %x, %r contracting = [1] x [0] : tensor<3x4xf32>, !r
  %1 = nabla.dot_general %y, %i contracting = [0, 1] x [0, 1] : tensor<4x4xf32>, !i
  %2 = nabla.dot_general %i, %y batching = [0] x [0] contracting = [1] x [1] : !i, tensor<4x4xf32>
  %3 = nabla.dot_general %z, %i contracting = [1] x [0] : tensor<3x?xf32>, !i
  return
}
