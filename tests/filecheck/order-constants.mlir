// RUN: nabla-opt "%s" --nabla-order-constants --split-input-file | FileCheck "%s"

// Constants of bufferization are named and placed by their first uses.
// CHECK: memref.global "private" constant @nabla_constant_0 : memref<2xf32> = dense<2.0
// CHECK-NEXT: memref.global "private" constant @nabla_constant_1 : memref<2xf32> = dense<1.0
// CHECK-NEXT: func.func @f
memref.global "private" constant @__constant_2xf32 : memref<2xf32> = dense<1.0>
memref.global "private" constant @__constant_2xf32_0 : memref<2xf32> = dense<2.0>
// CHECK: memref.get_global @nabla_constant_0
// CHECK-NEXT: memref.get_global @nabla_constant_1
func.func @f() -> (memref<2xf32>, memref<2xf32>) {
  %a = memref.get_global @__constant_2xf32_0 : memref<2xf32>
  %b = memref.get_global @__constant_2xf32 : memref<2xf32>
  return %a, %b : memref<2xf32>, memref<2xf32>
}
// CHECK: memref.get_global @nabla_constant_1
func.func @g() -> memref<2xf32> {
  %a = memref.get_global @__constant_2xf32 : memref<2xf32>
  return %a : memref<2xf32>
}

// -----
// A name that a program has is not given again.
// CHECK: memref.global "private" constant @nabla_constant_1 : memref<2xf32> = dense<1.0
// CHECK: memref.global "private" constant @nabla_constant_0 : memref<2xf32> = dense<3.0
memref.global "private" constant @__constant_2xf32 : memref<2xf32> = dense<1.0>
memref.global "private" constant @nabla_constant_0 : memref<2xf32> = dense<3.0>
// CHECK: memref.get_global @nabla_constant_1
// CHECK-NEXT: memref.get_global @nabla_constant_0
func.func @f() -> (memref<2xf32>, memref<2xf32>) {
  %a = memref.get_global @__constant_2xf32 : memref<2xf32>
  %b = memref.get_global @nabla_constant_0 : memref<2xf32>
  return %a, %b : memref<2xf32>, memref<2xf32>
}

// -----
// Arrays of a program keep their names and places.
// CHECK: memref.global "private" @mine : memref<2xf32> = dense<1.0
// CHECK-NEXT: memref.global "private" @other : memref<2xf32> = dense<2.0
memref.global "private" @mine : memref<2xf32> = dense<1.0>
memref.global "private" @other : memref<2xf32> = dense<2.0>
func.func @f() -> memref<2xf32> {
  // CHECK: memref.get_global @other
  %a = memref.get_global @other : memref<2xf32>
  return %a : memref<2xf32>
}
