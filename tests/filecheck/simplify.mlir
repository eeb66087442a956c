// Identities that need no arithmetic, exact bit for bit.
// RUN: nabla-opt "%s" --split-input-file --nabla-simplify | FileCheck "%s"

// CHECK-LABEL: func.func @views_of_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]]
func.func @views_of_nothing(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nabla.transpose %x permutation = [0, 1] : tensor<4x4xf32>
  %1 = nabla.reshape %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = nabla.broadcast_in_dim %x dims = [0, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// The same type, but another array.
// CHECK-LABEL: func.func @views_of_something
// CHECK: nabla.transpose
// CHECK: nabla.broadcast_in_dim
func.func @views_of_something(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nabla.transpose %x permutation = [1, 0] : tensor<4x4xf32>
  %1 = nabla.broadcast_in_dim %x dims = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @transposes
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>
// CHECK: %[[T:.*]] = nabla.transpose %[[X]] permutation = [1, 0, 2] : tensor<2x3x4xf32>
// CHECK: return %[[X]], %[[T]]
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3x2x4xf32>) {
  %0 = nabla.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>
  %1 = nabla.transpose %0 permutation = [1, 2, 0] : tensor<4x2x3xf32>
  %2 = nabla.transpose %0 permutation = [2, 1, 0] : tensor<4x2x3xf32>
  return %1, %2 : tensor<2x3x4xf32>, tensor<3x2x4xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK-SAME: (%[[X:.*]]: tensor<24xf32>
// CHECK: %[[R:.*]] = nabla.reshape %[[X]] : tensor<24xf32> -> tensor<4x6xf32>
// CHECK: return %[[X]], %[[R]]
func.func @reshapes(%x: tensor<24xf32>) -> (tensor<24xf32>, tensor<4x6xf32>) {
  %0 = nabla.reshape %x : tensor<24xf32> -> tensor<2x12xf32>
  %1 = nabla.reshape %0 : tensor<2x12xf32> -> tensor<24xf32>
  %2 = nabla.reshape %0 : tensor<2x12xf32> -> tensor<4x6xf32>
  return %1, %2 : tensor<24xf32>, tensor<4x6xf32>
}

// Sizes that are checked at run time stay.
// CHECK-LABEL: func.func @checked
// CHECK: nabla.reshape %{{.*}} sizes
// CHECK: nabla.reshape %{{.*}} : tensor<?x?xf32> -> tensor<24xf32>
// CHECK: nabla.reshape %{{.*}} : tensor<24xf32> -> tensor<?x7xf32>
// CHECK: nabla.reshape %{{.*}} : tensor<?x7xf32> -> tensor<24xf32>
// CHECK: nabla.reshape %{{.*}} sizes
// CHECK: nabla.broadcast_in_dim %{{.*}} sizes
func.func @checked(%x: tensor<24xf32>, %y: tensor<?xf32>, %m: index) -> (tensor<24xf32>, tensor<24xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = nabla.reshape %x sizes(%m, %m) : tensor<24xf32> -> tensor<?x?xf32>
  %1 = nabla.reshape %0 : tensor<?x?xf32> -> tensor<24xf32>
  %2 = nabla.reshape %x : tensor<24xf32> -> tensor<?x7xf32>
  %3 = nabla.reshape %2 : tensor<?x7xf32> -> tensor<24xf32>
  %4 = nabla.reshape %y sizes(%m) : tensor<?xf32> -> tensor<?xf32>
  %5 = nabla.broadcast_in_dim %y dims = [0] sizes(%m) : tensor<?xf32> -> tensor<?xf32>
  return %1, %3, %4, %5 : tensor<24xf32>, tensor<24xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

!w = !nabla.implicit<4x6xf32, #nabla.nf4<block = 16>>

// Views of implicit arrays compose by their types; a round trip is nothing.
// CHECK-LABEL: func.func @implicit
// CHECK-SAME: (%[[W:.*]]: !nabla.implicit<4x6xf32, #nabla.nf4<block = 16>>)
// CHECK-NEXT: %[[R:.*]] = nabla.reshape %[[W]] : !nabla.implicit<4x6xf32, #nabla.nf4<block = 16>> -> !nabla.implicit<3x8xf32, #nabla.nf4<block = 16>, view<4x6, strides = [8, 1], offset = 0>>
// CHECK-NEXT: return %[[W]], %[[W]], %[[R]]
func.func @implicit(%w: !w) -> (!w, !w, !nabla.implicit<3x8xf32, #nabla.nf4<block = 16>, view<4x6, strides = [8, 1], offset = 0>>) {
  %0 = nabla.transpose %w permutation = [1, 0] : !w
  %1 = nabla.transpose %0 permutation = [1, 0] : !nabla.implicit<6x4xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1, 6], offset = 0>>
  %2 = nabla.reshape %w : !w -> !nabla.implicit<24xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1], offset = 0>>
  %3 = nabla.reshape %2 : !nabla.implicit<24xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1], offset = 0>> -> !w
  %4 = nabla.reshape %2 : !nabla.implicit<24xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1], offset = 0>> -> !nabla.implicit<3x8xf32, #nabla.nf4<block = 16>, view<4x6, strides = [8, 1], offset = 0>>
  return %1, %3, %4 : !w, !w, !nabla.implicit<3x8xf32, #nabla.nf4<block = 16>, view<4x6, strides = [8, 1], offset = 0>>
}

// A reshape that materializes is not composed with one that does not.
// CHECK-LABEL: func.func @materializing
// CHECK: nabla.reshape {{.*}} -> !nabla.implicit<24xf32
// CHECK: nabla.reshape {{.*}} -> tensor<24xf32>
func.func @materializing(%w: !w) -> tensor<24xf32> {
  %0 = nabla.reshape %w : !w -> !nabla.implicit<24xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1], offset = 0>>
  %1 = nabla.reshape %0 : !nabla.implicit<24xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1], offset = 0>> -> tensor<24xf32>
  return %1 : tensor<24xf32>
}

// unpack(pack(x)), also through a view, is x; what is dead then goes.
// CHECK-LABEL: func.func @components
// CHECK-SAME: (%[[C:.*]]: tensor<12xi8>, %[[S:.*]]: tensor<2xf32>)
// CHECK-NEXT: return %[[C]], %[[S]]
func.func @components(%c: tensor<12xi8>, %s: tensor<2xf32>) -> (tensor<12xi8>, tensor<2xf32>) {
  %q = nabla.pack %c, %s : tensor<12xi8>, tensor<2xf32> -> !w
  %t = nabla.transpose %q permutation = [1, 0] : !w
  %0, %1 = nabla.unpack %t : !nabla.implicit<6x4xf32, #nabla.nf4<block = 16>, view<4x6, strides = [1, 6], offset = 0>>
  return %0, %1 : tensor<12xi8>, tensor<2xf32>
}

// Must not fire: decoding gives back what was encoded, rounded.
// CHECK-LABEL: func.func @round_trip
// CHECK-NEXT: nabla.quantize
// CHECK-NEXT: nabla.materialize
// CHECK-NEXT: return
func.func @round_trip(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %q = nabla.quantize %x : tensor<4x6xf32> -> !w
  %d = nabla.materialize %q : !w
  return %d : tensor<4x6xf32>
}

// -----

// x * 1 and x + -0 are x.
// CHECK-LABEL: func.func @neutral
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>
// CHECK: return %[[X]], %[[X]], %[[X]], %[[X]]
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = nabla.constant dense<1.0> : tensor<4xf32>
  %zero = nabla.constant dense<-0.0> : tensor<4xf32>
  %0 = nabla.mul %x, %one : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.mul %one, %x : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.add %x, %zero : tensor<4xf32>, tensor<4xf32>
  %3 = nabla.add %zero, %x : tensor<4xf32>, tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Must not fire: -0 + 0 is 0; x * -1; a sum that knows more than x.
// CHECK-LABEL: func.func @not_neutral
// CHECK: nabla.add %arg0
// CHECK: nabla.mul %arg0
// CHECK: nabla.mul %arg1
// CHECK: nabla.mul %arg0
func.func @not_neutral(%x: tensor<4xf32>, %y: tensor<?xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nabla.constant dense<0.0> : tensor<4xf32>
  %minus = nabla.constant dense<-1.0> : tensor<4xf32>
  %one = nabla.constant dense<1.0> : tensor<4xf32>
  %ones = nabla.constant dense<[1.0, 1.0, 1.0, 2.0]> : tensor<4xf32>
  %0 = nabla.add %x, %zero : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.mul %x, %minus : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.mul %y, %one : tensor<?xf32>, tensor<4xf32>
  %3 = nabla.mul %x, %ones : tensor<4xf32>, tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Code that is never reached may go round in circles: nothing to fold there,
// and nothing that does not end.
// CHECK-LABEL: func.func @never_reached
func.func @never_reached() {
  return
^bb1:
  %a = nabla.transpose %c permutation = [1, 2, 0] : tensor<4x4x4xf32>
  %b = nabla.transpose %a permutation = [1, 2, 0] : tensor<4x4x4xf32>
  %c = nabla.transpose %b permutation = [1, 2, 0] : tensor<4x4x4xf32>
  %d = nabla.transpose %d permutation = [1, 0] : tensor<4x4xf32>
  %e = nabla.reshape %e : tensor<4xf32> -> tensor<4xf32>
  %f = nabla.reshape %g : tensor<4xf32> -> tensor<2x2xf32>
  %g = nabla.reshape %f : tensor<2x2xf32> -> tensor<4xf32>
  %k = nabla.constant dense<1.0> : tensor<4xf32>
  %m = nabla.mul %m, %k : tensor<4xf32>, tensor<4xf32>
  %q = nabla.pack %cc, %ss : tensor<8xi8>, tensor<1xf32> -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  %cc, %ss = nabla.unpack %q : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  %v = nabla.transpose %u permutation = [1, 0] : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  %u = nabla.transpose %v permutation = [1, 0] : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>, view<4x4, strides = [1, 4], offset = 0>>
  %x, %y = nabla.unpack %u : !nabla.implicit<4x4xf32, #nabla.nf4<block = 16>>
  return
}
