// RUN: nabla-opt "%s" --nabla-table-results | FileCheck "%s"

// The function that stores descriptors has a name that no function of the
// program has.
// CHECK-LABEL: func.func @wide(
// CHECK: call @nabla_store_descriptor_2_1(
// CHECK-NOT: call @nabla_store_descriptor_2(
// CHECK: func.func @nabla_store_descriptor_2(%arg0: memref<4xf32>)
// CHECK: func.func private @nabla_store_descriptor_2_1(
// CHECK-SAME: passthrough = ["noinline"]
// CHECK-NOT: @nabla_store_descriptor_2_2
func.func @wide(%x: memref<2x2xf32>) -> (memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>) {
  return %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>, memref<2x2xf32>
}
func.func @nabla_store_descriptor_2(%x: memref<4xf32>) {
  return
}
