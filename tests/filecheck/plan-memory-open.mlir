// nabla-plan-memory: allocations of sizes that are known where the function
// begins are parts of its block too; the offsets are computed there.
// RUN: nabla-opt "%s" --split-input-file --nabla-plan-memory | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-plan-memory --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=REMARK

// The size of an argument. The second array lies on the first, the third in the
// first one's place: on the array of static size alone.
// CHECK-LABEL: func.func @chain
// CHECK: memref.dim %arg0
// CHECK: %[[BLOCK:.*]] = memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK-NOT: memref.alloc
// CHECK: %[[S:.*]] = call @nabla_part_begin(
// CHECK: call @nabla_part_require(
// CHECK: %[[A:.*]] = call @nabla_part_begin(
// CHECK: call @nabla_part_require(
// CHECK: %[[B:.*]] = call @nabla_part_begin(
// CHECK: memref.copy
// CHECK: call @nabla_part_end(%[[A]],
// CHECK: %[[C:.*]] = call @nabla_part_begin(
// CHECK: call @nabla_part_end(%[[B]],
// CHECK: call @nabla_part_end(%[[C]],
// CHECK: memref.dealloc %[[BLOCK]] {bufferization.manual_deallocation}
// REMARK: 4 arrays in a block of 1024 bytes, of which 1024 are in use at the peak, 3 of sizes known at entry; 0 are allocated one by one
func.func @chain(%x: memref<?x4xf32>, %y: memref<?x4xf32>, %z: memref<256xf32>) {
  %c0 = arith.constant 0 : index
  %s = memref.alloc() : memref<256xf32>
  memref.copy %z, %s : memref<256xf32> to memref<256xf32>
  %n = memref.dim %x, %c0 : memref<?x4xf32>
  %a = memref.alloc(%n) : memref<?x4xf32>
  memref.copy %x, %a : memref<?x4xf32> to memref<?x4xf32>
  %b = memref.alloc(%n) : memref<?x4xf32>
  memref.copy %a, %b : memref<?x4xf32> to memref<?x4xf32>
  %m = memref.dim %b, %c0 : memref<?x4xf32>
  %c = memref.alloc(%m) : memref<?x4xf32>
  memref.copy %b, %c : memref<?x4xf32> to memref<?x4xf32>
  memref.copy %c, %y : memref<?x4xf32> to memref<?x4xf32>
  memref.copy %s, %z : memref<256xf32> to memref<256xf32>
  return
}

// -----

// A size that depends on an element of an input, which nothing writes to: it is
// read at the beginning.
// CHECK-LABEL: func.func @element
// CHECK: memref.load %arg1[]
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK-NOT: memref.alloc
// REMARK: 2 arrays in a block of 1024 bytes, of which 1024 are in use at the peak, 1 of sizes known at entry; 0 are allocated one by one
func.func @element(%x: memref<256xf32>, %p: memref<i64>, %y: memref<256xf32>) {
  %one = arith.constant 1 : index
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %i = memref.load %p[] : memref<i64>
  %at = arith.index_cast %i : i64 to index
  %n = arith.addi %at, %one : index
  %b = memref.alloc(%n) : memref<?xf32>
  %v = memref.subview %a[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %v, %b : memref<?xf32, strided<[1]>> to memref<?xf32>
  %w = memref.subview %y[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %b, %w : memref<?xf32> to memref<?xf32, strided<[1]>>
  return
}

// -----

// A state may have been written to: its elements are not read at the beginning.
// CHECK-LABEL: func.func @state
// CHECK: call @nabla_part_begin
// CHECK: memref.alloc(%{{.*}}) : memref<?xf32>
// REMARK: 1 arrays in a block of 1024 bytes, of which 1024 are in use at the peak; 1 are allocated one by one
func.func @state(%x: memref<256xf32>, %p: memref<index> {nabla.state = "p"}, %y: memref<256xf32>) {
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %n = memref.load %p[] : memref<index>
  %b = memref.alloc(%n) : memref<?xf32>
  %v = memref.subview %a[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %v, %b : memref<?xf32, strided<[1]>> to memref<?xf32>
  %w = memref.subview %y[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %b, %w : memref<?xf32> to memref<?xf32, strided<[1]>>
  return
}

// -----

// Nor are those of an argument of a private function, and an element that may
// not be there.
// CHECK-LABEL: func.func private @private_element
// CHECK: memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK-NOT: call @nabla_part_begin
func.func private @private_element(%x: memref<256xf32>, %p: memref<index>) {
  %n = memref.load %p[] : memref<index>
  %b = memref.alloc(%n) : memref<?xf32>
  %v = memref.subview %x[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %v, %b : memref<?xf32, strided<[1]>> to memref<?xf32>
  return
}
// CHECK-LABEL: func.func @no_element
// CHECK: call @nabla_part_begin
// CHECK: memref.alloc(%{{.*}}) : memref<?xf32>
func.func @no_element(%x: memref<256xf32>, %p: memref<?xindex>) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %n = memref.load %p[%c0] : memref<?xindex>
  %b = memref.alloc(%n) : memref<?xf32>
  %v = memref.subview %a[0] [%n] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %v, %b : memref<?xf32, strided<[1]>> to memref<?xf32>
  return
}

// -----

// Nothing is divided by zero at the beginning, and by numbers that may be -1
// only where the program says so.
// CHECK-LABEL: func.func @divided
// CHECK: %[[D:.*]] = arith.maxui %{{.*}}, %{{.*}} : index
// CHECK: arith.divui %{{.*}}, %[[D]] : index
// CHECK: call @nabla_part_begin
// CHECK: call @nabla_part_begin
// CHECK-NOT: memref.alloc
// CHECK-LABEL: func.func @divided_signed
// CHECK: call @nabla_part_begin
// CHECK: memref.alloc(%{{.*}}) : memref<?xf32>
func.func @divided(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<256xf32>
  %n = memref.dim %x, %c0 : memref<?xf32>
  %m = memref.dim %y, %c0 : memref<?xf32>
  %d = arith.divui %n, %m : index
  %b = memref.alloc(%d) : memref<?xf32>
  memref.copy %x, %b : memref<?xf32> to memref<?xf32>
  return
}
func.func @divided_signed(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<256xf32>
  %n = memref.dim %x, %c0 : memref<?xf32>
  %m = memref.dim %y, %c0 : memref<?xf32>
  %d = arith.divsi %n, %m : index
  %b = memref.alloc(%d) : memref<?xf32>
  memref.copy %x, %b : memref<?xf32> to memref<?xf32>
  return
}

// -----

// In a loop an array is a part, in a branch it is not: its size may make no
// sense, or be large, where the branch is not taken.
// CHECK-LABEL: func.func @loop
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK: scf.for
// CHECK: call @nabla_part_begin
// CHECK: call @nabla_part_end
// CHECK-LABEL: func.func @branch
// CHECK: scf.if
// CHECK-NEXT: memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK-NOT: call @nabla_part_begin
func.func @loop(%x: memref<?xf32>, %n: index, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = memref.dim %x, %c0 : memref<?xf32>
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloc(%s) : memref<?xf32>
    memref.copy %x, %t : memref<?xf32> to memref<?xf32>
    memref.copy %t, %y : memref<?xf32> to memref<?xf32>
  }
  return
}
func.func @branch(%x: memref<?xf32>, %c: i1, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %s = memref.dim %x, %c0 : memref<?xf32>
  scf.if %c {
    %t = memref.alloc(%s) : memref<?xf32>
    memref.copy %x, %t : memref<?xf32> to memref<?xf32>
    memref.copy %t, %y : memref<?xf32> to memref<?xf32>
  }
  return
}

// -----

// A private function says by a function of its own how much it needs; a caller
// that does not know the sizes where it begins allocates before the call.
// CHECK-LABEL: func.func private @callee
// CHECK-SAME: %[[P:[^:]*]]: !llvm.ptr)
// CHECK: call @nabla_part_begin(%[[P]],
// CHECK-NOT: memref.alloc
func.func private @callee(%x: memref<?xf32>, %n: index) {
  %t = memref.alloc(%n) : memref<?xf32>
  memref.copy %x, %t : memref<?xf32> to memref<?xf32>
  memref.copy %t, %x : memref<?xf32> to memref<?xf32>
  return
}
// CHECK-LABEL: func.func @knows
// CHECK: %[[N:.*]] = memref.dim %arg0
// CHECK: call @nabla_plan_sizes(%[[N]]) : (index) -> i64
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK: call @nabla_part_require
// CHECK: %[[PART:.*]] = call @nabla_part_begin
// CHECK: call @callee(%{{.*}}, %{{.*}}, %[[PART]])
// CHECK: call @nabla_part_end(%[[PART]],
func.func @knows(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  call @callee(%x, %n) : (memref<?xf32>, index) -> ()
  return
}
// CHECK-LABEL: func.func @knows_not
// CHECK: %[[N:.*]] = memref.load
// CHECK: call @nabla_plan_sizes(%[[N]]) : (index) -> i64
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK: call @callee(
// CHECK-NEXT: memref.dealloc
// REMARK: 1 arrays in a block of 0 bytes, of which 0 are in use at the peak, 1 of sizes known at entry; 0 are allocated one by one
// REMARK: 0 arrays in a block of 0 bytes, of which 0 are in use at the peak; 1 are allocated one by one
func.func @knows_not(%x: memref<?xf32>, %p: memref<?xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    %n = memref.load %p[%i] : memref<?xindex>
    func.call @callee(%x, %n) : (memref<?xf32>, index) -> ()
  }
  return
}
// CHECK: func.func private @nabla_plan_sizes(%{{.*}}: index) -> i64

// -----

// The size of an array of a private function's that the caller has as a view.
// CHECK-LABEL: func.func @views
// CHECK: arith.muli
// CHECK: call @nabla_plan_sizes(
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK-NOT: memref.alloc
// CHECK: call @of_view(
func.func private @of_view(%x: memref<?xf32, strided<[?], offset: ?>>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32, strided<[?], offset: ?>>
  %t = memref.alloc(%n) : memref<?xf32>
  memref.copy %x, %t : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32>
  memref.copy %t, %x : memref<?xf32> to memref<?xf32, strided<[?], offset: ?>>
  return
}
func.func @views(%x: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?x?xf32>
  %m = memref.dim %x, %c1 : memref<?x?xf32>
  %a = memref.alloc(%n, %m) : memref<?x?xf32>
  memref.copy %x, %a : memref<?x?xf32> to memref<?x?xf32>
  %b = memref.collapse_shape %a [[0, 1]] : memref<?x?xf32> into memref<?xf32>
  %c = memref.cast %b : memref<?xf32> to memref<?xf32, strided<[?], offset: ?>>
  call @of_view(%c) : (memref<?xf32, strided<[?], offset: ?>>) -> ()
  memref.copy %a, %x : memref<?x?xf32> to memref<?x?xf32>
  return
}

// -----

// Dimensions that do not agree are found before memory of such sizes is asked
// for: the first check is made at the beginning too, the second is of a size
// that is not known there, the third comes after all arrays.
// CHECK-LABEL: func.func @checks
// CHECK: memref.load
// CHECK: call @nabla_require_equal(
// CHECK-NOT: call @nabla_require_equal(
// CHECK: memref.alloc(%{{.*}}) {bufferization.manual_deallocation} : memref<?xi8>
// CHECK: call @nabla_require_equal(
// CHECK: call @nabla_require_equal(
// CHECK: call @nabla_require_equal(
func.func private @nabla_require_equal(i64, i64, !llvm.ptr)
llvm.mlir.global constant @text("text") {addr_space = 0 : i32}
func.func @checks(%x: memref<256xf32>, %p: memref<i64>, %q: memref<?xi64>, %i: index) {
  %c256 = arith.constant 256 : i64
  %a = memref.alloc() : memref<256xf32>
  memref.copy %x, %a : memref<256xf32> to memref<256xf32>
  %where = llvm.mlir.addressof @text : !llvm.ptr
  %n = memref.load %p[] : memref<i64>
  func.call @nabla_require_equal(%n, %c256, %where) : (i64, i64, !llvm.ptr) -> ()
  %m = memref.load %q[%i] : memref<?xi64>
  func.call @nabla_require_equal(%m, %n, %where) : (i64, i64, !llvm.ptr) -> ()
  %size = arith.index_cast %n : i64 to index
  %b = memref.alloc(%size) : memref<?xf32>
  %v = memref.subview %a[0] [%size] [1] : memref<256xf32> to memref<?xf32, strided<[1]>>
  memref.copy %v, %b : memref<?xf32, strided<[1]>> to memref<?xf32>
  func.call @nabla_require_equal(%n, %n, %where) : (i64, i64, !llvm.ptr) -> ()
  return
}
