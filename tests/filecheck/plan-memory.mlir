// nabla-plan-memory: allocations become parts of one block. All that is left
// keeps its memref.alloc, which upstream's deallocation sees.
// RUN: nabla-opt "%s" --split-input-file --nabla-plan-memory | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-plan-memory --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=REMARK

// Three buffers of 1 KiB, two of which live at one time: b takes the place
// after a, and c that of a.
// CHECK-LABEL: func.func @chain
// CHECK: %[[BLOCK:.*]] = memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
// CHECK-NOT: memref.alloc
// CHECK: %[[A:.*]] = call @nabla_part_begin(%[[BASE:[^,]*]],
// CHECK: %[[B:.*]] = call @nabla_part_begin(%[[BASE]],
// CHECK: memref.copy
// CHECK: call @nabla_part_end(%[[A]],
// CHECK: %[[C:.*]] = call @nabla_part_begin(%[[BASE]],
// CHECK: memref.copy
// CHECK: call @nabla_part_end(%[[B]],
// CHECK: memref.copy
// CHECK: call @nabla_part_end(%[[C]],
// CHECK: memref.dealloc %[[BLOCK]] {bufferization.manual_deallocation}
// REMARK: 3 arrays in a block of 2048 bytes, of which 2048 are in use at the peak; 0 are allocated one by one
func.func @chain(%x: memref<256xf32>, %y: memref<256xf32>) {
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %b = memref.alloc() : memref<256xf32>
  memref.copy %a, %b : memref<256xf32> to memref<256xf32>
  %c = memref.alloc() : memref<256xf32>
  memref.copy %b, %c : memref<256xf32> to memref<256xf32>
  memref.copy %c, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// A use of a view is a use of the buffer: a and b live at the same time.
// CHECK-LABEL: func.func @views
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
func.func @views(%x: memref<256xf32>, %y: memref<128xf32>) {
  %a = memref.alloc() : memref<256xf32>
  %v = memref.subview %a[128] [128] [1] : memref<256xf32> to memref<128xf32, strided<[1], offset: 128>>
  %b = memref.alloc() : memref<256xf32>
  memref.copy %x, %b : memref<256xf32> to memref<256xf32>
  memref.copy %v, %y : memref<128xf32, strided<[1], offset: 128>> to memref<128xf32>
  return
}

// -----

// A result leaves its function.
// CHECK-LABEL: func.func @escapes
// CHECK-NEXT: %[[A:.*]] = memref.alloc() : memref<256xf32>
// CHECK-NOT: call @nabla_part_begin
// CHECK: return %[[A]]
// REMARK: 0 arrays in a block of 0 bytes, of which 0 are in use at the peak; 1 are allocated one by one
func.func @escapes() -> memref<256xf32> {
  %a = memref.alloc() : memref<256xf32>
  return %a : memref<256xf32>
}

// -----

// A lifetime that depends on a condition: the buffer is yielded or not.
// CHECK-LABEL: func.func @conditional
// CHECK: scf.if
// CHECK-NEXT: memref.alloc() : memref<256xf32>
// CHECK-NOT: call @nabla_part_begin
func.func @conditional(%x: memref<256xf32>, %c: i1, %y: memref<256xf32>) {
  %a = scf.if %c -> memref<256xf32> {
    %n = memref.alloc() : memref<256xf32>
    scf.yield %n : memref<256xf32>
  } else {
    scf.yield %x : memref<256xf32>
  }
  memref.copy %a, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// A buffer that a loop hands from step to step stays an allocation, one of a
// step is a part.
// CHECK-LABEL: func.func @loop
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
// CHECK: scf.for
// CHECK: call @nabla_part_begin
// CHECK: memref.alloc() : memref<256xf32>
// CHECK: call @nabla_part_end
func.func @loop(%x: memref<256xf32>, %n: index, %y: memref<256xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %init = memref.alloc() : memref<256xf32>
  memref.copy %x, %init : memref<256xf32> to memref<256xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%v = %init) -> memref<256xf32> {
    %t = memref.alloc() : memref<256xf32>
    memref.copy %v, %t : memref<256xf32> to memref<256xf32>
    %next = memref.alloc() : memref<256xf32>
    memref.copy %t, %next : memref<256xf32> to memref<256xf32>
    scf.yield %next : memref<256xf32>
  }
  memref.copy %r, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// The caller has the memory of a private function, its result too.
// CHECK-LABEL: func.func private @callee
// CHECK-SAME: (%{{.*}}: memref<256xf32>, %{{.*}}: memref<256xf32>, %[[P:.*]]: !llvm.ptr) {
// CHECK: call @nabla_part_begin(%[[P]],
// CHECK-NOT: memref.alloc
func.func private @callee(%x: memref<256xf32>) -> memref<256xf32> {
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %b = memref.alloc() : memref<256xf32>
  memref.copy %a, %b : memref<256xf32> to memref<256xf32>
  return %b : memref<256xf32>
}
// CHECK-LABEL: func.func @caller
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<3072xi8>
// CHECK-NOT: memref.alloc
// CHECK: call @callee(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<256xf32>, memref<256xf32>, !llvm.ptr) -> ()
// CHECK: call @callee(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<256xf32>, memref<256xf32>, !llvm.ptr) -> ()
func.func @caller(%x: memref<256xf32>, %y: memref<256xf32>) {
  %a = call @callee(%x) : (memref<256xf32>) -> memref<256xf32>
  %b = call @callee(%a) : (memref<256xf32>) -> memref<256xf32>
  memref.copy %b, %y : memref<256xf32> to memref<256xf32>
  memref.copy %x, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// An array inside of a loop lies behind the one that lives around it.
// CHECK-LABEL: func.func @inside
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
// CHECK: scf.for
// CHECK-NEXT: %[[AT:.*]] = arith.constant 1024 : i64
// CHECK: func.call @nabla_part_begin(%{{[^,]*}}, %[[AT]],
func.func @inside(%x: memref<256xf32>, %n: index, %y: memref<256xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloc() : memref<256xf32>
    memref.copy %x, %t : memref<256xf32> to memref<256xf32>
    memref.copy %t, %y : memref<256xf32> to memref<256xf32>
  }
  memref.copy %a, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// The branches share their memory, which is as large as the greater one.
// CHECK-LABEL: func.func @branches
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
func.func @branches(%x: memref<256xf32>, %c: i1, %y: memref<256xf32>) {
  scf.if %c {
    %a = memref.alloc() : memref<256xf32>
    memref.copy %x, %a : memref<256xf32> to memref<256xf32>
    memref.copy %a, %y : memref<256xf32> to memref<256xf32>
  } else {
    %a = memref.alloc() : memref<256xf32>
    %b = memref.alloc() : memref<256xf32>
    memref.copy %x, %a : memref<256xf32> to memref<256xf32>
    memref.copy %a, %b : memref<256xf32> to memref<256xf32>
    memref.copy %b, %y : memref<256xf32> to memref<256xf32>
  }
  return
}

// -----

// A branch gives the array or another one: it lives as long as the result.
// CHECK-LABEL: func.func @chosen
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
func.func @chosen(%x: memref<256xf32>, %c: i1, %y: memref<256xf32>) {
  %a = memref.alloc() : memref<256xf32>
  %v = scf.if %c -> memref<256xf32> {
    scf.yield %a : memref<256xf32>
  } else {
    scf.yield %x : memref<256xf32>
  }
  %b = memref.alloc() : memref<256xf32>
  memref.copy %x, %b : memref<256xf32> to memref<256xf32>
  memref.copy %v, %y : memref<256xf32> to memref<256xf32>
  memref.copy %b, %y : memref<256xf32> to memref<256xf32>
  return
}

// -----

// Memory whose address is taken, also by another name of it in a loop, lives to
// the end.
// CHECK-LABEL: func.func @address
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
func.func @address(%x: memref<256xf32>, %y: memref<256xf32>) -> index {
  %a = memref.alloc() : memref<256xf32>
  %p = memref.extract_aligned_pointer_as_index %a : memref<256xf32> -> index
  %b = memref.alloc() : memref<256xf32>
  memref.copy %x, %b : memref<256xf32> to memref<256xf32>
  memref.copy %b, %y : memref<256xf32> to memref<256xf32>
  return %p : index
}

// CHECK-LABEL: func.func @address_in_loop
// CHECK: memref.alloc() {bufferization.manual_deallocation} : memref<2048xi8>
func.func @address_in_loop(%x: memref<256xf32>, %n: index, %y: memref<256xf32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<256xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %a, %p = %c0) -> (memref<256xf32>, index) {
    %q = memref.extract_aligned_pointer_as_index %v : memref<256xf32> -> index
    scf.yield %v, %q : memref<256xf32>, index
  }
  %b = memref.alloc() : memref<256xf32>
  memref.copy %x, %b : memref<256xf32> to memref<256xf32>
  memref.copy %b, %y : memref<256xf32> to memref<256xf32>
  return %r#1 : index
}

// -----

// A result that is an allocation in another shape: the caller allocates it, too.
// CHECK-LABEL: func.func private @reshaped(
// CHECK-SAME: %[[X:.*]]: memref<4xf32>, %[[R:.*]]: memref<4xf32>) {
// CHECK: memref.copy %[[X]], %[[R]]
// CHECK-LABEL: func.func @takes_reshaped(
// CHECK: %[[BLOCK:.*]] = memref.alloc() {bufferization.manual_deallocation} : memref<64xi8>
// CHECK-NOT: memref.alloc
// CHECK: %[[V:.*]] = memref.reinterpret_cast %[[A:.*]] to offset: [0], sizes: [2, 2], strides: [2, 1]
// CHECK: call @reshaped(%{{.*}}, %[[A]])
// CHECK: memref.copy %[[V]]
func.func private @reshaped(%x: memref<4xf32>) -> memref<2x2xf32> {
  %a = memref.alloc() : memref<4xf32>
  memref.copy %x, %a : memref<4xf32> to memref<4xf32>
  %v = memref.expand_shape %a [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
  return %v : memref<2x2xf32>
}
func.func @takes_reshaped(%x: memref<4xf32>, %y: memref<2x2xf32>) {
  %v = call @reshaped(%x) : (memref<4xf32>) -> memref<2x2xf32>
  memref.copy %v, %y : memref<2x2xf32> to memref<2x2xf32>
  return
}
