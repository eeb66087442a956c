// What follows a fused_dot, and only it, becomes a step of its epilogue.
// RUN: nabla-opt "%s" --split-input-file --nabla-fuse | FileCheck "%s"

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @relu
// CHECK-NEXT: %[[Y:.*]] = nabla.fused_dot %arg0, %arg1 epilogue = ["relu"] : tensor<4x256xf32>, !nabla.implicit
// CHECK-NEXT: return %[[Y]]
func.func @relu(%x: tensor<4x256xf32>, %w: !w) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.relu %y : tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}

// CHECK-LABEL: func.func @silu
// CHECK-NEXT: nabla.fused_dot %arg0, %arg1 epilogue = ["silu"]
// CHECK-NEXT: return
func.func @silu(%x: tensor<4x256xf32>, %w: !w) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.silu %y : tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}

// A bias is a vector along the columns; on either side of the addition.
// CHECK-LABEL: func.func @bias
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2) epilogue = ["bias"] : tensor<4x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>, tensor<128xf32>
// CHECK-NOT: nabla.add
func.func @bias(%x: tensor<4x256xf32>, %w: !w, %b: tensor<128xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<128xf32> -> tensor<4x128xf32>
  %r = nabla.add %bb, %y : tensor<4x128xf32>, tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}

// CHECK-LABEL: func.func @residual
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2) epilogue = ["add"] : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>, tensor<?x128xf32>
// CHECK-NOT: nabla.add
func.func @residual(%x: tensor<?x256xf32>, %w: !w, %r: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %z = nabla.add %r, %y : tensor<?x128xf32>, tensor<?x128xf32>
  return %z : tensor<?x128xf32>
}

// Steps keep their order, and operands that of the steps.
// CHECK-LABEL: func.func @order
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2, %arg3, %arg2) epilogue = ["bias", "silu", "add", "relu", "bias"]
// CHECK-NEXT: return
func.func @order(%x: tensor<4x256xf32>, %w: !w, %b: tensor<128xf32>, %r: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<128xf32> -> tensor<4x128xf32>
  %0 = nabla.add %y, %bb : tensor<4x128xf32>, tensor<4x128xf32>
  %1 = nabla.silu %0 : tensor<4x128xf32>
  %2 = nabla.add %1, %r : tensor<4x128xf32>, tensor<4x128xf32>
  %3 = nabla.relu %2 : tensor<4x128xf32>
  %4 = nabla.add %bb, %3 : tensor<4x128xf32>, tensor<4x128xf32>
  return %4 : tensor<4x128xf32>
}

// CHECK-LABEL: func.func @other_order
// CHECK: epilogue = ["relu", "add", "bias"]
func.func @other_order(%x: tensor<4x256xf32>, %w: !w, %b: tensor<128xf32>, %r: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<128xf32> -> tensor<4x128xf32>
  %0 = nabla.relu %y : tensor<4x128xf32>
  %1 = nabla.add %0, %r : tensor<4x128xf32>, tensor<4x128xf32>
  %2 = nabla.add %1, %bb : tensor<4x128xf32>, tensor<4x128xf32>
  return %2 : tensor<4x128xf32>
}

// The residual of one product is another: the first takes the sum.
// CHECK-LABEL: func.func @residual_of_a_product
// CHECK-NEXT: %[[B:.*]] = nabla.fused_dot %arg0, %arg1 : tensor
// CHECK-NEXT: %[[A:.*]] = nabla.fused_dot %arg0, %arg1(%[[B]]) epilogue = ["relu", "add"]
// CHECK-NEXT: return %[[A]]
func.func @residual_of_a_product(%x: tensor<4x256xf32>, %w: !w) -> tensor<4x128xf32> {
  %a = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %b = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.relu %a : tensor<4x128xf32>
  %s = nabla.add %b, %r : tensor<4x128xf32>, tensor<4x128xf32>
  return %s : tensor<4x128xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// Through the reshape that nabla-dispatch makes for x of rank 3: it goes behind.
// CHECK-LABEL: func.func @through_a_reshape
// CHECK: %[[Y:.*]] = nabla.fused_dot %arg0, %arg1(%arg2) epilogue = ["bias", "silu"]
// CHECK: %[[R:.*]] = nabla.reshape %[[Y]] sizes(%arg3, %arg4) : tensor<?x128xf32> -> tensor<?x?x128xf32>
// CHECK-NEXT: return %[[R]]
func.func @through_a_reshape(%x: tensor<?x256xf32>, %w: !w, %b: tensor<128xf32>, %m: index, %n: index) -> tensor<?x?x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %r = nabla.reshape %y sizes(%m, %n) : tensor<?x128xf32> -> tensor<?x?x128xf32>
  %bb = nabla.broadcast_in_dim %b dims = [2] sizes(%m, %n) : tensor<128xf32> -> tensor<?x?x128xf32>
  %0 = nabla.add %r, %bb : tensor<?x?x128xf32>, tensor<?x?x128xf32>
  %1 = nabla.silu %0 : tensor<?x?x128xf32>
  return %1 : tensor<?x?x128xf32>
}

// Must not fire: the reshape moves columns into rows, so that the bias is none.
// CHECK-LABEL: func.func @reshape_of_the_columns
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.reshape
// CHECK: nabla.add
func.func @reshape_of_the_columns(%x: tensor<4x256xf32>, %w: !w, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.reshape %y : tensor<4x128xf32> -> tensor<8x64xf32>
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<64xf32> -> tensor<8x64xf32>
  %0 = nabla.add %r, %bb : tensor<8x64xf32>, tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// Must not fire: somebody else wants the product as it is.
// CHECK-LABEL: func.func @two_users
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.relu
func.func @two_users(%x: tensor<4x256xf32>, %w: !w) -> (tensor<4x128xf32>, tensor<4x128xf32>) {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.relu %y : tensor<4x128xf32>
  return %y, %r : tensor<4x128xf32>, tensor<4x128xf32>
}

// CHECK-LABEL: func.func @doubled
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.add
func.func @doubled(%x: tensor<4x256xf32>, %w: !w) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %r = nabla.add %y, %y : tensor<4x128xf32>, tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}

// Must not fire: a vector along the rows is no bias (though it is as long, and
// may be added as a whole).
// CHECK-LABEL: func.func @bias_of_the_rows
// CHECK: %[[B:.*]] = nabla.broadcast_in_dim
// CHECK: nabla.fused_dot %arg0, %arg1(%[[B]]) epilogue = ["add"]
func.func @bias_of_the_rows(%x: tensor<128x256xf32>, %w: !w, %b: tensor<128xf32>) -> tensor<128x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<128x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [0] : tensor<128xf32> -> tensor<128x128xf32>
  %r = nabla.add %y, %bb : tensor<128x128xf32>, tensor<128x128xf32>
  return %r : tensor<128x128xf32>
}

// One number that is repeated is none either, nor is a vector of unknown length.
// CHECK-LABEL: func.func @bias_of_one
// CHECK: epilogue = ["add"]
func.func @bias_of_one(%x: tensor<4x256xf32>, %w: !w, %b: tensor<1xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<1xf32> -> tensor<4x128xf32>
  %r = nabla.add %y, %bb : tensor<4x128xf32>, tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}
// CHECK-LABEL: func.func @bias_of_unknown
// CHECK: epilogue = ["add"]
func.func @bias_of_unknown(%x: tensor<4x256xf32>, %w: !w, %b: tensor<?xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %bb = nabla.broadcast_in_dim %b dims = [1] : tensor<?xf32> -> tensor<4x128xf32>
  %r = nabla.add %y, %bb : tensor<4x128xf32>, tensor<4x128xf32>
  return %r : tensor<4x128xf32>
}

// Must not fire: the sum knows more than the product.
// CHECK-LABEL: func.func @refined
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.add
func.func @refined(%x: tensor<?x256xf32>, %w: !w, %r: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %z = nabla.add %y, %r : tensor<?x128xf32>, tensor<4x128xf32>
  return %z : tensor<4x128xf32>
}

// Must not fire: the product would be computed in each turn of the loop.
// CHECK-LABEL: func.func @in_a_loop
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: scf.for
// CHECK: nabla.relu
func.func @in_a_loop(%x: tensor<4x256xf32>, %w: !w, %a: index, %b: index, %z: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %l = scf.for %i = %a to %b step %a iter_args(%c = %z) -> (tensor<4x128xf32>) {
    %r = nabla.relu %y : tensor<4x128xf32>
    scf.yield %r : tensor<4x128xf32>
  }
  return %l : tensor<4x128xf32>
}

// Must not fire: mul is no step; a splat is no residual before nabla-dispatch.
// CHECK-LABEL: func.func @not_steps
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.mul
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.add
func.func @not_steps(%x: tensor<4x256xf32>, %w: !w, %r: tensor<4x128xf32>, %s: !nabla.implicit<4x128xf32, #nabla.splat<1.0 : f32>>) -> (tensor<4x128xf32>, tensor<4x128xf32>) {
  %0 = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %1 = nabla.mul %0, %r : tensor<4x128xf32>, tensor<4x128xf32>
  %2 = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %3 = nabla.add %2, %s : tensor<4x128xf32>, !nabla.implicit<4x128xf32, #nabla.splat<1.0 : f32>>
  return %1, %3 : tensor<4x128xf32>, tensor<4x128xf32>
}

// Must not fire: there is no product.
// CHECK-LABEL: func.func @dense
// CHECK: nabla.dot_general
// CHECK: nabla.relu
func.func @dense(%x: tensor<4x256xf32>) -> tensor<4x4xf32> {
  %0 = nabla.dot_general %x, %x contracting = [1] x [1] : tensor<4x256xf32>, tensor<4x256xf32>
  %1 = nabla.relu %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// An epilogue has eight steps; the ninth stays behind.
// CHECK-LABEL: func.func @nine
// CHECK: %[[Y:.*]] = nabla.fused_dot %arg0, %arg1 epilogue = ["relu", "silu", "relu", "silu", "relu", "silu", "relu", "silu"]
// CHECK: nabla.relu %[[Y]]
func.func @nine(%x: tensor<4x256xf32>, %w: !w) -> tensor<4x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<4x256xf32>, !w
  %1 = nabla.relu %y : tensor<4x128xf32>
  %2 = nabla.silu %1 : tensor<4x128xf32>
  %3 = nabla.relu %2 : tensor<4x128xf32>
  %4 = nabla.silu %3 : tensor<4x128xf32>
  %5 = nabla.relu %4 : tensor<4x128xf32>
  %6 = nabla.silu %5 : tensor<4x128xf32>
  %7 = nabla.relu %6 : tensor<4x128xf32>
  %8 = nabla.silu %7 : tensor<4x128xf32>
  %9 = nabla.relu %8 : tensor<4x128xf32>
  return %9 : tensor<4x128xf32>
}

// Code that is never reached may go round in circles.
// CHECK-LABEL: func.func @never_reached
func.func @never_reached(%w: !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>>) {
  return
^bb1:
  %f = nabla.fused_dot %g, %w epilogue = ["relu"] : tensor<4x4xf32>, !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>>
  %g = nabla.silu %f : tensor<4x4xf32>
  return
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// How many rows a bias is repeated for is the number of rows of the product, by
// way of whatever moves x.
// CHECK-LABEL: func.func @rows_of_x
// CHECK: nabla.fused_dot {{.*}} epilogue = ["bias", "relu", "bias"]
// CHECK-NEXT: return
func.func @rows_of_x(%x: tensor<256x?xf32>, %w: !w, %b: tensor<128xf32>) -> tensor<?x128xf32> {
  %t = nabla.transpose %x permutation = [1, 0] : tensor<256x?xf32>
  %y = nabla.fused_dot %t, %w : tensor<?x256xf32>, !w
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c1 : tensor<256x?xf32>
  %0 = nabla.broadcast_in_dim %b dims = [1] sizes(%m) : tensor<128xf32> -> tensor<?x128xf32>
  %1 = nabla.add %y, %0 : tensor<?x128xf32>, tensor<?x128xf32>
  %2 = nabla.relu %1 : tensor<?x128xf32>
  %n = tensor.dim %t, %c0 : tensor<?x256xf32>
  %3 = nabla.broadcast_in_dim %b dims = [1] sizes(%n) : tensor<128xf32> -> tensor<?x128xf32>
  %4 = nabla.add %2, %3 : tensor<?x128xf32>, tensor<?x128xf32>
  return %4 : tensor<?x128xf32>
}

// Any other number might not be: the array is added as a whole, which is checked
// at run time.
// CHECK-LABEL: func.func @rows_of_something_else
// CHECK: %[[B:.*]] = nabla.broadcast_in_dim
// CHECK: nabla.fused_dot %arg0, %arg1(%[[B]]) epilogue = ["add"]
func.func @rows_of_something_else(%x: tensor<?x256xf32>, %w: !w, %b: tensor<128xf32>, %m: index) -> tensor<?x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %0 = nabla.broadcast_in_dim %b dims = [1] sizes(%m) : tensor<128xf32> -> tensor<?x128xf32>
  %1 = nabla.add %y, %0 : tensor<?x128xf32>, tensor<?x128xf32>
  return %1 : tensor<?x128xf32>
}

// So might a dimension that there is not.
// CHECK-LABEL: func.func @rows_of_nothing
// CHECK-COUNT-3: epilogue = ["add"]
func.func @rows_of_nothing(%x: tensor<?x256xf32>, %u: tensor<*xf32>, %w: !w, %b: tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf32>) {
  %t = nabla.transpose %x permutation = [1, 0] : tensor<?x256xf32>
  %c99 = arith.constant 99 : index
  %minus = arith.constant -1 : index
  %m = tensor.dim %t, %c99 : tensor<256x?xf32>
  %n = tensor.dim %t, %minus : tensor<256x?xf32>
  %o = tensor.dim %u, %c99 : tensor<*xf32>
  %y0 = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %b0 = nabla.broadcast_in_dim %b dims = [1] sizes(%m) : tensor<128xf32> -> tensor<?x128xf32>
  %0 = nabla.add %y0, %b0 : tensor<?x128xf32>, tensor<?x128xf32>
  %y1 = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %b1 = nabla.broadcast_in_dim %b dims = [1] sizes(%n) : tensor<128xf32> -> tensor<?x128xf32>
  %1 = nabla.add %y1, %b1 : tensor<?x128xf32>, tensor<?x128xf32>
  %y2 = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %b2 = nabla.broadcast_in_dim %b dims = [1] sizes(%o) : tensor<128xf32> -> tensor<?x128xf32>
  %2 = nabla.add %y2, %b2 : tensor<?x128xf32>, tensor<?x128xf32>
  return %0, %1, %2 : tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf32>
}

// CHECK-LABEL: func.func @rows_of_another_reshape
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor
// CHECK: nabla.reshape
// CHECK: nabla.add
func.func @rows_of_another_reshape(%x: tensor<?x256xf32>, %w: !w, %b: tensor<128xf32>, %m: index, %n: index) -> tensor<?x?x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %r = nabla.reshape %y sizes(%m, %n) : tensor<?x128xf32> -> tensor<?x?x128xf32>
  %0 = nabla.broadcast_in_dim %b dims = [2] sizes(%n, %m) : tensor<128xf32> -> tensor<?x?x128xf32>
  %1 = nabla.add %r, %0 : tensor<?x?x128xf32>, tensor<?x?x128xf32>
  return %1 : tensor<?x?x128xf32>
}
