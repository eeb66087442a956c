// Functions of more than 64 tensors take a table of them: each is read at its
// first use, and a call is given the buffers, of which a table is made once there
// are some.
// RUN: nabla-opt "%s" --nabla-table-arguments | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after=nabla-table-calls --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s" --check-prefix=CALLS
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=ENTRY

!t = tensor<4xf32>

// 64 are arguments.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME: %arg63: tensor<4xf32>)
// CHECK-NOT: nabla.argument_table
func.func @narrow(%a0: !t, %a1: !t, %a2: !t, %a3: !t, %a4: !t, %a5: !t, %a6: !t, %a7: !t, %a8: !t, %a9: !t, %a10: !t, %a11: !t, %a12: !t, %a13: !t, %a14: !t, %a15: !t, %a16: !t, %a17: !t, %a18: !t, %a19: !t, %a20: !t, %a21: !t, %a22: !t, %a23: !t, %a24: !t, %a25: !t, %a26: !t, %a27: !t, %a28: !t, %a29: !t, %a30: !t, %a31: !t, %a32: !t, %a33: !t, %a34: !t, %a35: !t, %a36: !t, %a37: !t, %a38: !t, %a39: !t, %a40: !t, %a41: !t, %a42: !t, %a43: !t, %a44: !t, %a45: !t, %a46: !t, %a47: !t, %a48: !t, %a49: !t, %a50: !t, %a51: !t, %a52: !t, %a53: !t, %a54: !t, %a55: !t, %a56: !t, %a57: !t, %a58: !t, %a59: !t, %a60: !t, %a61: !t, %a62: !t, %a63: !t) -> !t {
  return %a63 : !t
}

// A private function reads the two addresses of a descriptor alone: the rest is
// known.
// CALLS-LABEL: func.func private @wide(
// CALLS: %[[ADDRESS:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CALLS: llvm.load %[[ADDRESS]] : !llvm.ptr -> !llvm.ptr
// CALLS: %[[SECOND:.*]] = llvm.getelementptr %[[ADDRESS]][8]
// CALLS: llvm.load %[[SECOND]] : !llvm.ptr -> !llvm.ptr
// CALLS-NOT: -> !llvm.struct
// What is no tensor stays an argument.
// CHECK-LABEL: func.func private @wide(
// CHECK-SAME: %[[TABLE:.*]]: !llvm.ptr, %[[N:.*]]: index) -> tensor<4xf32>
// CHECK-SAME: nabla.argument_table
// CHECK-NOT: llvm.load
// CHECK: scf.for
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %[[TABLE]][512] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK: %[[ADDRESS:.*]] = llvm.load %[[PLACE]] : !llvm.ptr -> !llvm.ptr
// CHECK: %[[DESCRIPTOR:.*]] = llvm.load %[[ADDRESS]] : !llvm.ptr -> !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>
// CHECK: %[[BUFFER:.*]] = builtin.unrealized_conversion_cast %[[DESCRIPTOR]] : {{.*}} to memref<4xf32>
// CHECK: %[[TENSOR:.*]] = bufferization.to_tensor %[[BUFFER]] restrict : memref<4xf32> to tensor<4xf32>
// CHECK: return %[[TENSOR]]
func.func private @wide(%a0: !t, %a1: !t, %a2: !t, %a3: !t, %a4: !t, %a5: !t, %a6: !t, %a7: !t, %a8: !t, %a9: !t, %a10: !t, %a11: !t, %a12: !t, %a13: !t, %a14: !t, %a15: !t, %a16: !t, %a17: !t, %a18: !t, %a19: !t, %a20: !t, %a21: !t, %a22: !t, %a23: !t, %a24: !t, %a25: !t, %a26: !t, %a27: !t, %a28: !t, %a29: !t, %a30: !t, %a31: !t, %a32: !t, %a33: !t, %a34: !t, %a35: !t, %a36: !t, %a37: !t, %a38: !t, %a39: !t, %a40: !t, %a41: !t, %a42: !t, %a43: !t, %a44: !t, %a45: !t, %a46: !t, %a47: !t, %a48: !t, %a49: !t, %a50: !t, %a51: !t, %a52: !t, %a53: !t, %a54: !t, %a55: !t, %a56: !t, %a57: !t, %a58: !t, %a59: !t, %a60: !t, %a61: !t, %a62: !t, %a63: !t, %a64: !t, %n: index) -> !t {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%k = %c0) -> index {
    %m = arith.addi %k, %i : index
    scf.yield %m : index
  }
  return %a64 : !t
}

// One tensor gets the two addresses of a descriptor here, 64 pass theirs on: a loop over
// their numbers in this function's table copies the pointers. The first number
// stands for the tensor, whose pointer is stored after the loop.
// CHECK-LABEL: func.func @calls(
// CHECK-SAME: !llvm.ptr) -> tensor<4xf32>
// CHECK: %[[OWN:.*]] = bufferization.to_buffer %{{.*}} read_only : tensor<4xf32> to memref<4xf32>
// CHECK: %[[CAST:.*]] = builtin.unrealized_conversion_cast %[[OWN]], {{.*}} to !llvm.ptr
// CHECK: call @wide(%[[CAST]], %{{.*}}) : (!llvm.ptr, index) -> tensor<4xf32>
// CALLS-LABEL: func.func @calls(
// CALLS: %[[MEMORY:.*]] = memref.alloc() : memref<536xi8>
// CALLS: %[[TABLE:.*]] = llvm.inttoptr
// CALLS: %[[NUMBERS:.*]] = llvm.mlir.addressof @nabla_entries_0
// CALLS: %[[COUNT:.*]] = arith.constant 65 : i64
// CALLS: call @nabla_fill_table(%[[TABLE]], %arg0, %[[NUMBERS]], %[[COUNT]])
// CALLS-COUNT-3: llvm.store
// CALLS-NOT: llvm.store
// CALLS: call @wide(
// CALLS-NEXT: memref.dealloc %{{.*}} : memref<536xi8>
// ENTRY-LABEL: llvm.func @nabla_entry_calls(
// ENTRY-SAME: %[[SERVICES:.*]]: !llvm.ptr, %[[ARGUMENTS:.*]]: !llvm.ptr, %[[RESULTS:.*]]: !llvm.ptr)
// ENTRY: llvm.call @_mlir_ciface_calls(%[[SERVICES]], %{{.*}}, %[[ARGUMENTS]])
func.func @calls(%a0: !t, %a1: !t, %a2: !t, %a3: !t, %a4: !t, %a5: !t, %a6: !t, %a7: !t, %a8: !t, %a9: !t, %a10: !t, %a11: !t, %a12: !t, %a13: !t, %a14: !t, %a15: !t, %a16: !t, %a17: !t, %a18: !t, %a19: !t, %a20: !t, %a21: !t, %a22: !t, %a23: !t, %a24: !t, %a25: !t, %a26: !t, %a27: !t, %a28: !t, %a29: !t, %a30: !t, %a31: !t, %a32: !t, %a33: !t, %a34: !t, %a35: !t, %a36: !t, %a37: !t, %a38: !t, %a39: !t, %a40: !t, %a41: !t, %a42: !t, %a43: !t, %a44: !t, %a45: !t, %a46: !t, %a47: !t, %a48: !t, %a49: !t, %a50: !t, %a51: !t, %a52: !t, %a53: !t, %a54: !t, %a55: !t, %a56: !t, %a57: !t, %a58: !t, %a59: !t, %a60: !t, %a61: !t, %a62: !t, %a63: !t, %a64: !t) -> !t {
  %n = arith.constant 3 : index
  %own = nabla.add %a0, %a1 : !t, !t
  %r = func.call @wide(%own, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29, %a30, %a31, %a32, %a33, %a34, %a35, %a36, %a37, %a38, %a39, %a40, %a41, %a42, %a43, %a44, %a45, %a46, %a47, %a48, %a49, %a50, %a51, %a52, %a53, %a54, %a55, %a56, %a57, %a58, %a59, %a60, %a61, %a62, %a63, %a64, %n) : (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, !t, index) -> !t
  return %r : !t
}
