// Operations that repeat, one copy behind the other, become a function.
// RUN: nabla-opt "%s" --nabla-outline | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-outline --nabla-outline | FileCheck "%s"
// RUN: nabla-opt "%s" --remarks-filter=nabla.* --nabla-outline 2>&1 >/dev/null | FileCheck "%s" --check-prefix=REMARK
// REMARK: remark: {{.*}}Outlined{{.*}}3 times 8 operations

// What is equal in all copies is one argument; what is used behind a copy is a
// result; a packed argument stays packed.
// CHECK: func.func private @outlined_0(%[[X:.*]]: tensor<?x64xf32> {bufferization.writable = false}, %[[W:.*]]: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>, %[[B:.*]]: tensor<?x64xf32> {bufferization.writable = false}) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
// CHECK-NEXT: %[[D:.*]] = nabla.fused_dot %[[X]], %[[W]]
// CHECK-NEXT: %[[A:.*]] = nabla.abs %[[D]]
// CHECK-NEXT: %[[M:.*]] = nabla.mul %[[A]], %[[B]]
// CHECK-NEXT: nabla.add %[[M]], %[[X]]
// CHECK-NEXT: nabla.neg
// CHECK-NEXT: nabla.exp
// CHECK-NEXT: nabla.sin
// CHECK-NEXT: %[[L:.*]] = nabla.add %{{.*}}, %[[B]]
// CHECK-NEXT: return %[[A]], %[[L]]
// CHECK: func.func @layers(
// CHECK-NEXT: %[[R:.*]]:2 = call @outlined_0(%arg0, %arg1, %arg4)
// CHECK-NEXT: %[[S:.*]]:2 = call @outlined_0(%[[R]]#1, %arg2, %arg4)
// CHECK-NEXT: %[[T:.*]]:2 = call @outlined_0(%[[S]]#1, %arg3, %arg4)
// CHECK-NEXT: return %[[T]]#1, %[[S]]#0
!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
!t = tensor<?x64xf32>
func.func @layers(%x: !t, %w0: !w, %w1: !w, %w2: !w, %b: !t) -> (!t, !t) {
  %a0 = nabla.fused_dot %x, %w0 : !t, !w
  %a1 = nabla.abs %a0 : !t
  %a2 = nabla.mul %a1, %b : !t, !t
  %a3 = nabla.add %a2, %x : !t, !t
  %a4 = nabla.neg %a3 : !t
  %a5 = nabla.exp %a4 : !t
  %a6 = nabla.sin %a5 : !t
  %a7 = nabla.add %a6, %b : !t, !t
  %b0 = nabla.fused_dot %a7, %w1 : !t, !w
  %b1 = nabla.abs %b0 : !t
  %b2 = nabla.mul %b1, %b : !t, !t
  %b3 = nabla.add %b2, %a7 : !t, !t
  %b4 = nabla.neg %b3 : !t
  %b5 = nabla.exp %b4 : !t
  %b6 = nabla.sin %b5 : !t
  %b7 = nabla.add %b6, %b : !t, !t
  %c0 = nabla.fused_dot %b7, %w2 : !t, !w
  %c1 = nabla.abs %c0 : !t
  %c2 = nabla.mul %c1, %b : !t, !t
  %c3 = nabla.add %c2, %b7 : !t, !t
  %c4 = nabla.neg %c3 : !t
  %c5 = nabla.exp %c4 : !t
  %c6 = nabla.sin %c5 : !t
  %c7 = nabla.add %c6, %b : !t, !t
  return %c7, %b1 : !t, !t
}

// Two copies, short ones, others in an attribute, or in where data comes from,
// and parts of a dense array, which a call would copy, stay.
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @two(
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.abs %x : tensor<4xf32>
  %1 = nabla.neg %0 : tensor<4xf32>
  %2 = nabla.exp %1 : tensor<4xf32>
  %3 = nabla.sin %2 : tensor<4xf32>
  %4 = nabla.cos %3 : tensor<4xf32>
  %5 = nabla.floor %4 : tensor<4xf32>
  %6 = nabla.ceil %5 : tensor<4xf32>
  %7 = nabla.sqrt %6 : tensor<4xf32>
  %8 = nabla.abs %7 : tensor<4xf32>
  %9 = nabla.neg %8 : tensor<4xf32>
  %10 = nabla.exp %9 : tensor<4xf32>
  %11 = nabla.sin %10 : tensor<4xf32>
  %12 = nabla.cos %11 : tensor<4xf32>
  %13 = nabla.floor %12 : tensor<4xf32>
  %14 = nabla.ceil %13 : tensor<4xf32>
  %15 = nabla.sqrt %14 : tensor<4xf32>
  return %15 : tensor<4xf32>
}

// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @others(
func.func @others(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a0 = nabla.softmax %x dim = 0 : tensor<8xf32>
  %a1 = nabla.neg %a0 : tensor<8xf32>
  %a2 = nabla.add %a1, %a0 : tensor<8xf32>, tensor<8xf32>
  %a3 = nabla.neg %a2 : tensor<8xf32>
  %a4 = nabla.abs %a3 : tensor<8xf32>
  %a5 = nabla.rms_norm %a4 eps = 1.0 : tensor<8xf32>
  %a6 = nabla.exp %a5 : tensor<8xf32>
  %a7 = nabla.sin %a6 : tensor<8xf32>
  %b0 = nabla.softmax %a7 dim = 0 : tensor<8xf32>
  %b1 = nabla.neg %b0 : tensor<8xf32>
  %b2 = nabla.add %b1, %a0 : tensor<8xf32>, tensor<8xf32>
  %b3 = nabla.neg %b2 : tensor<8xf32>
  %b4 = nabla.abs %b3 : tensor<8xf32>
  %b5 = nabla.rms_norm %b4 eps = 1.0 : tensor<8xf32>
  %b6 = nabla.exp %b5 : tensor<8xf32>
  %b7 = nabla.sin %b6 : tensor<8xf32>
  %c0 = nabla.softmax %b7 dim = 0 : tensor<8xf32>
  %c1 = nabla.neg %c0 : tensor<8xf32>
  %c2 = nabla.add %c1, %c0 : tensor<8xf32>, tensor<8xf32>
  %c3 = nabla.neg %c2 : tensor<8xf32>
  %c4 = nabla.abs %c3 : tensor<8xf32>
  %c5 = nabla.rms_norm %c4 eps = 2.0 : tensor<8xf32>
  %c6 = nabla.exp %c5 : tensor<8xf32>
  %c7 = nabla.sin %c6 : tensor<8xf32>
  return %c7 : tensor<8xf32>
}

// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @parts(
func.func @parts(%x: tensor<1x8xf32>, %w: tensor<3x8xf32>) -> tensor<1x8xf32> {
  %u = nabla.slice %w starts = [0, 0] limits = [1, 8] : tensor<3x8xf32>
  %v = nabla.slice %w starts = [1, 0] limits = [2, 8] : tensor<3x8xf32>
  %z = nabla.slice %w starts = [2, 0] limits = [3, 8] : tensor<3x8xf32>
  %a0 = nabla.mul %x, %u : tensor<1x8xf32>, tensor<1x8xf32>
  %a1 = nabla.neg %a0 : tensor<1x8xf32>
  %a2 = nabla.abs %a1 : tensor<1x8xf32>
  %a3 = nabla.exp %a2 : tensor<1x8xf32>
  %a4 = nabla.sin %a3 : tensor<1x8xf32>
  %a5 = nabla.cos %a4 : tensor<1x8xf32>
  %a6 = nabla.floor %a5 : tensor<1x8xf32>
  %a7 = nabla.sqrt %a6 : tensor<1x8xf32>
  %b0 = nabla.mul %a7, %v : tensor<1x8xf32>, tensor<1x8xf32>
  %b1 = nabla.neg %b0 : tensor<1x8xf32>
  %b2 = nabla.abs %b1 : tensor<1x8xf32>
  %b3 = nabla.exp %b2 : tensor<1x8xf32>
  %b4 = nabla.sin %b3 : tensor<1x8xf32>
  %b5 = nabla.cos %b4 : tensor<1x8xf32>
  %b6 = nabla.floor %b5 : tensor<1x8xf32>
  %b7 = nabla.sqrt %b6 : tensor<1x8xf32>
  %c0 = nabla.mul %b7, %z : tensor<1x8xf32>, tensor<1x8xf32>
  %c1 = nabla.neg %c0 : tensor<1x8xf32>
  %c2 = nabla.abs %c1 : tensor<1x8xf32>
  %c3 = nabla.exp %c2 : tensor<1x8xf32>
  %c4 = nabla.sin %c3 : tensor<1x8xf32>
  %c5 = nabla.cos %c4 : tensor<1x8xf32>
  %c6 = nabla.floor %c5 : tensor<1x8xf32>
  %c7 = nabla.sqrt %c6 : tensor<1x8xf32>
  return %c7 : tensor<1x8xf32>
}

// CHECK-LABEL: func.func private @declared(
func.func private @declared(tensor<4xf32>)

// Calls that take states are no group where its function would need a table of
// arguments: 24 layers stay 24 calls.
// CHECK-LABEL: func.func @calls(
// CHECK-COUNT-24: call @layer(
func.func private @layer(!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
func.func @calls(%x0: !t, %w: !t {nabla.state = "w"}) -> !t {
  %x1 = call @layer(%x0, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x2 = call @layer(%x1, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x3 = call @layer(%x2, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x4 = call @layer(%x3, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x5 = call @layer(%x4, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x6 = call @layer(%x5, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x7 = call @layer(%x6, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x8 = call @layer(%x7, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x9 = call @layer(%x8, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x10 = call @layer(%x9, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x11 = call @layer(%x10, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x12 = call @layer(%x11, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x13 = call @layer(%x12, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x14 = call @layer(%x13, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x15 = call @layer(%x14, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x16 = call @layer(%x15, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x17 = call @layer(%x16, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x18 = call @layer(%x17, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x19 = call @layer(%x18, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x20 = call @layer(%x19, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x21 = call @layer(%x20, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x22 = call @layer(%x21, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x23 = call @layer(%x22, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  %x24 = call @layer(%x23, %w, %w, %w, %w, %w, %w, %w, %w, %w) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) -> !t
  return %x24 : !t
}
