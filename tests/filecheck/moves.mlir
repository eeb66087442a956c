// Large parts of arrays are copied: bufferization makes memref.copy of them, and
// nabla-expand-copies calls of a kernel.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast
// RUN: not nabla-opt "%s" --nabla-to-linalg=all=true 2>&1 | FileCheck "%s" --check-prefix=ERROR

// ERROR: no such option all
// LLVM-DAG: llvm.func internal @nabla_copy_box_kernel_2_32(
// LLVM-DAG: llvm.func internal @nabla_copy_box_kernel_2_16(

// CHECK-LABEL: func.func @slices
// CHECK: %[[S:.*]] = tensor.extract_slice %arg0[%{{.*}}, %{{.*}}] [30, 100] [2, 3]
// CHECK: bufferization.alloc_tensor() copy(%[[S]])
// CHECK-NOT: linalg.generic
// CHECK: tensor.extract_slice %arg1[%{{.*}}, %{{.*}}] [64, %{{.*}}] [1, 1]
// CHECK: bufferization.alloc_tensor() copy
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @slices(%x: tensor<64x400xf32>, %y: tensor<64x?xbf16>) -> (tensor<30x100xf32>, tensor<64x?xbf16>) {
  %0 = nabla.slice %x starts = [1, 2] limits = [61, 302] strides = [2, 3] : tensor<64x400xf32>
  %1 = nabla.slice %y starts = [0, 1] limits = [64, -1] : tensor<64x?xbf16>
  return %0, %1 : tensor<30x100xf32>, tensor<64x?xbf16>
}

// CHECK-LABEL: func.func @splits
// CHECK-COUNT-2: bufferization.alloc_tensor() copy
func.func @splits(%x: tensor<64x400xi32>) -> (tensor<64x100xi32>, tensor<64x300xi32>) {
  %0, %1 = nabla.split %x dim = 1 sizes = [100, 300] : tensor<64x400xi32>
  return %0, %1 : tensor<64x100xi32>, tensor<64x300xi32>
}

// Slices that are stacked are copied once, from where they are.
// CHECK-LABEL: func.func @windows
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: %[[A:.*]] = tensor.extract_slice %[[Y]]
// CHECK-NOT: alloc_tensor
// CHECK: tensor.insert_slice %[[A]] into
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @windows(%x: tensor<64x400xi32>) -> tensor<64x2x300xi32> {
  %y = nabla.add %x, %x : tensor<64x400xi32>, tensor<64x400xi32>
  %0 = nabla.slice %y starts = [0, 1] limits = [64, 301] : tensor<64x400xi32>
  %1 = nabla.slice %y starts = [0, 3] limits = [64, 303] : tensor<64x400xi32>
  %2 = nabla.stack %0, %1 dim = 1 : tensor<64x300xi32>, tensor<64x300xi32>
  return %2 : tensor<64x2x300xi32>
}

// CHECK-LABEL: func.func @pads
// CHECK: linalg.generic
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[%{{.*}}, %{{.*}}] [64, 400] [1, 1]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @pads(%x: tensor<64x400xf32>, %v: tensor<f32>) -> tensor<64x403xf32> {
  %0 = nabla.pad %x, %v low = [0, 1] high = [0, 2] : tensor<64x400xf32>, tensor<f32>
  return %0 : tensor<64x403xf32>
}

// CHECK-LABEL: func.func @joins
// CHECK: tensor.insert_slice %arg0 into
// CHECK: tensor.insert_slice %arg1 into
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @joins(%x: tensor<64x?xf32>, %y: tensor<64x?xf32>) -> tensor<64x?xf32> {
  %0 = nabla.concatenate %x, %y dim = 1 : tensor<64x?xf32>, tensor<64x?xf32>
  return %0 : tensor<64x?xf32>
}

// Must not fire on small results, pads that take away, arrays of no size.
// CHECK-LABEL: func.func @others
// CHECK-NOT: alloc_tensor
// CHECK: return
func.func @others(%x: tensor<64x400xf32>, %v: tensor<f32>, %e: tensor<0x400xf32>) -> (tensor<10x100xf32>, tensor<64x399xf32>, tensor<0x300xf32>, tensor<2x10x100xf32>) {
  %0 = nabla.slice %x starts = [0, 0] limits = [10, 100] : tensor<64x400xf32>
  %1 = nabla.pad %x, %v low = [0, -2] high = [0, 1] : tensor<64x400xf32>, tensor<f32>
  %2 = nabla.slice %e starts = [0, 0] limits = [0, 300] : tensor<0x400xf32>
  %3 = nabla.stack %0, %0 dim = 0 : tensor<10x100xf32>, tensor<10x100xf32>
  return %0, %1, %2, %3 : tensor<10x100xf32>, tensor<64x399xf32>, tensor<0x300xf32>, tensor<2x10x100xf32>
}
