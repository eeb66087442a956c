// RUN: nabla-opt "%s" --nabla-expand-copies | FileCheck "%s"
// RUN: not nabla-opt "%s" --nabla-expand-copies=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

// CHECK-LABEL: func.func @strided
// CHECK-NOT: memref.copy
// CHECK: linalg.copy
func.func @strided(%a: memref<4x4xf32, strided<[8, 1], offset: ?>>, %b: memref<4x4xf32>) {
  memref.copy %a, %b : memref<4x4xf32, strided<[8, 1], offset: ?>> to memref<4x4xf32>
  return
}

// Must not fire on contiguous buffers, which become memcpy.
// CHECK-LABEL: func.func @contiguous
// CHECK: memref.copy
func.func @contiguous(%a: memref<?x4xf32>, %b: memref<?x4xf32>) {
  memref.copy %a, %b : memref<?x4xf32> to memref<?x4xf32>
  return
}

// OPTION: no such option all
