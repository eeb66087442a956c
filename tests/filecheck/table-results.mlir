// Public functions with more than 16 results store the descriptors in the table of
// the entry point, and ask for the memory of each result: no deallocation sees
// these buffers.
// RUN: nabla-opt "%s" --nabla-table-results | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=ENTRY

// An allocation, a view of one, an argument, and the allocation again.
// CHECK-LABEL: func.func @wide(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[RESULTS:.*]]: !llvm.ptr) attributes {nabla.result_table}
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK: call @nabla_result(%[[ZERO]],
// CHECK-NOT: memref.alloc
// CHECK: %[[A:.*]] = builtin.unrealized_conversion_cast %{{.*}} to memref<4xf32>
// CHECK: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK: call @nabla_result(%[[ONE]],
// CHECK: %[[B:.*]] = builtin.unrealized_conversion_cast %{{.*}} to memref<4xf32>
// CHECK: memref.copy %[[X]], %[[A]]
// CHECK: memref.copy %[[X]], %[[B]]
// CHECK: %[[V:.*]] = memref.expand_shape %[[B]]
// CHECK: memref.copy %[[X]], %{{.*}} : memref<4xf32> to memref<4xf32>
// CHECK: memref.copy %[[A]], %{{.*}} : memref<4xf32> to memref<4xf32>
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %[[RESULTS]][8] :
// CHECK: %[[TO:.*]] = llvm.load %[[PLACE]]
// CHECK: %[[DESCRIPTOR:.*]] = builtin.unrealized_conversion_cast %[[V]]
// CHECK: call @nabla_store_descriptor_2(%[[DESCRIPTOR]], %[[TO]])
// CHECK: return{{$}}
func.func @wide(%x: memref<4xf32>) -> (memref<4xf32>, memref<2x2xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) {
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<4xf32>
  memref.copy %x, %a : memref<4xf32> to memref<4xf32>
  memref.copy %x, %b : memref<4xf32> to memref<4xf32>
  %v = memref.expand_shape %b [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
  return %a, %v, %x, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a, %a : memref<4xf32>, memref<2x2xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>
}

// 16 are returned; so are those of functions that others call.
// CHECK-LABEL: func.func @narrow(
// CHECK-NOT: !llvm.ptr
// CHECK: return %{{.*}}
func.func @narrow(%x: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) {
  return %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>
}

// CHECK-LABEL: func.func @called(
// CHECK-NOT: nabla.result_table
// CHECK: return %{{.*}}
func.func @called(%x: memref<4xf32>) -> (memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>) {
  return %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>
}

func.func @caller(%x: memref<4xf32>) -> memref<4xf32> {
  %r:17 = call @called(%x) : (memref<4xf32>) -> (memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<4xf32>)
  return %r#0 : memref<4xf32>
}

// ENTRY-LABEL: llvm.func @nabla_entry_tensors(
// ENTRY-SAME: %[[SERVICES:.*]]: !llvm.ptr, %[[ARGUMENTS:.*]]: !llvm.ptr, %[[TABLE:.*]]: !llvm.ptr)
// ENTRY: llvm.call @_mlir_ciface_tensors(%[[SERVICES]], %{{.*}}, %[[TABLE]])
func.func @tensors(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y = nabla.neg %x : tensor<4xf32>
  return %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y, %y : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Descriptors of one rank are stored by one function, whose calls end a stretch
// of stores.
// CHECK-LABEL: func.func private @nabla_store_descriptor_1(
// CHECK-SAME: passthrough = ["noinline"]
// CHECK: llvm.store
// CHECK-NOT: func.func private @nabla_store_descriptor_1(
