// RUN: nabla-opt "%s" --nabla-expand-copies | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-expand-copies | FileCheck "%s" --check-prefix=KERNEL
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

// Large ones, and of sizes that are not known: a kernel on the caller's threads.
// KERNEL-LABEL: func.func private @nabla_copy_box_2_f32
// KERNEL: call @nabla_parallel
// KERNEL: llvm.func internal @nabla_copy_box_kernel_2_32(
// KERNEL: llvm.intr.memcpy
// KERNEL: nontemporal
// CHECK-LABEL: func.func @large
// CHECK-COUNT-2: call @nabla_copy_box_2_f32
// CHECK-NOT: linalg.copy
// CHECK: return
func.func @large(%a: memref<40x40xf32, strided<[80, 1], offset: ?>>, %b: memref<40x40xf32>, %c: memref<?x4xf32, strided<[8, 2]>>, %d: memref<?x4xf32>) {
  memref.copy %a, %b : memref<40x40xf32, strided<[80, 1], offset: ?>> to memref<40x40xf32>
  memref.copy %c, %d : memref<?x4xf32, strided<[8, 2]>> to memref<?x4xf32>
  return
}
