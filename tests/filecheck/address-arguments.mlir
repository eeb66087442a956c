// Private functions take buffers of known sizes and strides by address, and
// descriptors are built right before the conversion to LLVM.
// RUN: nabla-opt "%s" --nabla-address-arguments | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-address-arguments --nabla-address-buffers | FileCheck "%s" --check-prefix=BUFFERS

// A plain buffer, one with strides and an offset, and one whose offset is not
// known: it is added before the call. One of unknown size stays as it is.
// CHECK-LABEL: func.func private @plain(
// CHECK-SAME: %[[A:.*]]: !llvm.ptr, %[[B:.*]]: !llvm.ptr, %[[C:.*]]: !llvm.ptr, %{{.*}}: memref<?xf32>, %{{.*}}: index)
// CHECK-DAG: builtin.unrealized_conversion_cast %[[A]] : !llvm.ptr to memref<2x3xf32>
// CHECK-DAG: builtin.unrealized_conversion_cast %[[B]] : !llvm.ptr to memref<2x3xf32, strided<[6, 2], offset: 4>>
// CHECK-DAG: builtin.unrealized_conversion_cast %[[C]] : !llvm.ptr to memref<2x3xf32, strided<[3, 1], offset: ?>>
// BUFFERS-LABEL: func.func private @plain(
// BUFFERS-SAME: %[[A:.*]]: !llvm.ptr, %[[B:.*]]: !llvm.ptr, %[[C:.*]]: !llvm.ptr,
// BUFFERS: llvm.insertvalue %[[A]], %{{.*}}[0]
// BUFFERS: llvm.insertvalue %[[A]], %{{.*}}[1]
// BUFFERS: %[[FOUR:.*]] = arith.constant 4 : i64
// BUFFERS: llvm.insertvalue %[[FOUR]], %{{.*}}[2]
// BUFFERS: %[[SIZE:.*]] = arith.constant 2 : i64
// BUFFERS: llvm.insertvalue %[[SIZE]], %{{.*}}[3, 0]
// BUFFERS: %[[STRIDE:.*]] = arith.constant 6 : i64
// BUFFERS: llvm.insertvalue %[[STRIDE]], %{{.*}}[4, 0]
// BUFFERS-NOT: !llvm.ptr to memref
func.func private @plain(%a: memref<2x3xf32>, %b: memref<2x3xf32, strided<[6, 2], offset: 4>>, %c: memref<2x3xf32, strided<[3, 1], offset: ?>>, %d: memref<?xf32>, %i: index) {
  memref.copy %a, %b : memref<2x3xf32> to memref<2x3xf32, strided<[6, 2], offset: 4>>
  memref.copy %a, %c : memref<2x3xf32> to memref<2x3xf32, strided<[3, 1], offset: ?>>
  %x = memref.load %d[%i] : memref<?xf32>
  memref.store %x, %d[%i] : memref<?xf32>
  return
}

// A buffer that is returned, also as a view, keeps the address of its
// allocation; so does one that comes out of a choice, of which nothing is known.
// CHECK-LABEL: func.func private @returned(
// CHECK-SAME: %{{.*}}: memref<4xf32>, %{{.*}}: !llvm.ptr)
func.func private @returned(%a: memref<4xf32>, %b: memref<4xf32>) -> memref<2x2xf32> {
  memref.copy %b, %a : memref<4xf32> to memref<4xf32>
  %v = memref.expand_shape %a [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
  return %v : memref<2x2xf32>
}
// CHECK-LABEL: func.func private @chosen(
// CHECK-SAME: %{{.*}}: i1, %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>)
func.func private @chosen(%c: i1, %a: memref<4xf32>, %b: memref<4xf32>) -> memref<4xf32> {
  %r = arith.select %c, %a, %b : memref<4xf32>
  return %r : memref<4xf32>
}
// Memory that the function makes may be returned.
// CHECK-LABEL: func.func private @made(
// CHECK-SAME: %{{.*}}: !llvm.ptr)
func.func private @made(%a: memref<4xf32>) -> memref<4xf32> {
  %r = memref.alloc() : memref<4xf32>
  memref.copy %a, %r : memref<4xf32> to memref<4xf32>
  return %r : memref<4xf32>
}

// Functions that something else than a call names, and public ones, stay.
// CHECK-LABEL: func.func private @named(
// CHECK-SAME: %{{.*}}: memref<4xf32>)
// CHECK-NOT: nabla.named
func.func private @named(%a: memref<4xf32>) {
  memref.copy %a, %a : memref<4xf32> to memref<4xf32>
  return
}

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:.*]]: memref<2x3xf32>, %{{.*}}: memref<2x3xf32, strided<[6, 2], offset: 4>>, %[[C:.*]]: memref<2x3xf32, strided<[3, 1], offset: ?>>,
// CHECK: %[[DA:.*]] = builtin.unrealized_conversion_cast %[[A]]
// CHECK: %[[PA:.*]] = llvm.extractvalue %[[DA]][1]
// CHECK: %[[DC:.*]] = builtin.unrealized_conversion_cast %[[C]]
// CHECK: %[[PC:.*]] = llvm.extractvalue %[[DC]][1]
// CHECK: %[[O:.*]] = llvm.extractvalue %[[DC]][2]
// CHECK: %[[BYTES:.*]] = arith.constant 4 : i64
// CHECK: %[[BEHIND:.*]] = arith.muli %[[O]], %[[BYTES]]
// CHECK: %[[P:.*]] = llvm.getelementptr %[[PC]][%[[BEHIND]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: call @plain(%[[PA]], %{{.*}}, %[[P]], %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, memref<?xf32>, index) -> ()
// CHECK: call @returned(%{{.*}}, %{{.*}}) : (memref<4xf32>, !llvm.ptr) -> memref<2x2xf32>
func.func @main(%a: memref<2x3xf32>, %b: memref<2x3xf32, strided<[6, 2], offset: 4>>, %c: memref<2x3xf32, strided<[3, 1], offset: ?>>, %d: memref<?xf32>, %e: memref<4xf32>, %f: memref<4xf32>, %i: index, %t: i1) -> memref<2x2xf32> {
  call @plain(%a, %b, %c, %d, %i) : (memref<2x3xf32>, memref<2x3xf32, strided<[6, 2], offset: 4>>, memref<2x3xf32, strided<[3, 1], offset: ?>>, memref<?xf32>, index) -> ()
  %r = call @returned(%e, %f) : (memref<4xf32>, memref<4xf32>) -> memref<2x2xf32>
  %s = call @chosen(%t, %e, %f) : (i1, memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %m = call @made(%s) : (memref<4xf32>) -> memref<4xf32>
  %g = constant @named : (memref<4xf32>) -> ()
  call @named(%m) : (memref<4xf32>) -> ()
  return %r : memref<2x2xf32>
}
