// Convolutions of f32, f16 and bf16 of known sizes, but for the batch, have a
// kernel: it gets f32 in order, and has zeros around the image itself, but where
// the input is dilated or its rows of zeros would be too long. What is small, of
// f64 or of unknown sizes does not.
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f" --remarks-filter='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f no-fusion=on" | FileCheck "%s" --check-prefix=OFF
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=CPU --implicit-check-not=unrealized_conversion_cast
// REMARK-COUNT-2: remark: [Passed] Cluster | Category:nabla-cluster | {{.*}}computes conv_general by one kernel of panels
// REMARK: remark: [Passed] Cluster | Category:nabla-cluster | {{.*}}computes conv_general by one kernel of rows
// REMARK: remark: [Passed] Cluster | Category:nabla-cluster | {{.*}}computes conv_general by one kernel of panels
// REMARK-COUNT-2: remark: [Passed] Cluster | Category:nabla-cluster | {{.*}}computes conv_general by one kernel of rows
// REMARK-NOT: computes conv_general
// OFF-NOT: call @nabla
// CPU: llvm.func internal @nabla_cluster_0_conv

// CHECK-LABEL: func.func @panels
// CHECK-NEXT: call @nabla_cluster_call_{{.*}}(%arg0, %arg1) : (tensor<1x64x20x20xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x20x20xf32>
func.func @panels(%x: tensor<1x64x20x20xf32>, %k: tensor<64x64x3x3xf32>) -> tensor<1x64x20x20xf32> {
  %r = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] : tensor<1x64x20x20xf32>, tensor<64x64x3x3xf32>
  return %r : tensor<1x64x20x20xf32>
}

// CHECK-LABEL: func.func @batch_in_order
// CHECK: %[[X:.*]] = nabla.transpose %{{.*}} permutation = [0, 2, 1]
// CHECK: %[[Y:.*]] = call @nabla_cluster_call_{{.*}} : (tensor<?x64x20xf32>, tensor<64x64x3xf32>) -> tensor<?x64x18xf32>
// CHECK: nabla.transpose
func.func @batch_in_order(%x: tensor<?x20x64xf16>, %k: tensor<64x64x3xf16>) -> tensor<?x18x64xf16> {
  %r = nabla.conv_general %x, %k input_dims = [0, 2, 1] output_dims = [0, 2, 1] : tensor<?x20x64xf16>, tensor<64x64x3xf16>
  return %r : tensor<?x18x64xf16>
}

// CHECK-LABEL: func.func @depthwise
// CHECK: call @nabla_cluster_call_{{.*}} : (tensor<2x64x22x22xf32>, tensor<64x1x3x3xf32>) -> tensor<2x64x20x20xf32>
func.func @depthwise(%x: tensor<2x64x22x22xf32>, %k: tensor<64x1x3x3xf32>) -> tensor<2x64x20x20xf32> {
  %r = nabla.conv_general %x, %k groups = 64 : tensor<2x64x22x22xf32>, tensor<64x1x3x3xf32>
  return %r : tensor<2x64x20x20xf32>
}

// Zeros between elements are not the kernel's.
// CHECK-LABEL: func.func @dilated
// CHECK: %[[P:.*]] = nabla.pad %arg0, %{{.*}} low = [0, 0, 1] high = [0, 0, 0] interior = [0, 0, 1]
// CHECK: call @nabla_cluster_call_{{.*}}(%[[P]], %arg1)
func.func @dilated(%x: tensor<2x64x20xf32>, %k: tensor<64x64x3xf32>) -> tensor<2x64x38xf32> {
  %r = nabla.conv_general %x, %k low = [1] input_dilation = [2] : tensor<2x64x20xf32>, tensor<64x64x3xf32>
  return %r : tensor<2x64x38xf32>
}

// CHECK-LABEL: func.func @depthwise_padded
// CHECK-NEXT: call @nabla_cluster_call_{{.*}}(%arg0, %arg1)
func.func @depthwise_padded(%x: tensor<2x64x20x20xf32>, %k: tensor<64x1x3x3xf32>) -> tensor<2x64x20x20xf32> {
  %r = nabla.conv_general %x, %k low = [2, 0] high = [0, 2] groups = 64 : tensor<2x64x20x20xf32>, tensor<64x1x3x3xf32>
  return %r : tensor<2x64x20x20xf32>
}

// CHECK-LABEL: func.func @long_rows
// CHECK: nabla.pad
func.func @long_rows(%x: tensor<1x2x3x4096xf32>, %k: tensor<2x1x3x3xf32>) -> tensor<1x2x3x4096xf32> {
  %r = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] groups = 2 : tensor<1x2x3x4096xf32>, tensor<2x1x3x3xf32>
  return %r : tensor<1x2x3x4096xf32>
}

// CHECK-LABEL: func.func @loops
// CHECK-COUNT-3: nabla.conv_general
// CHECK-NOT: call
func.func @loops(%s: tensor<1x4x20xf32>, %t: tensor<2x4x3xf32>, %d: tensor<2x64x20xf64>, %e: tensor<64x64x3xf64>, %u: tensor<2x64x?xf32>, %k: tensor<64x64x3xf32>) {
  %0 = nabla.conv_general %s, %t : tensor<1x4x20xf32>, tensor<2x4x3xf32>
  %1 = nabla.conv_general %d, %e : tensor<2x64x20xf64>, tensor<64x64x3xf64>
  %2 = nabla.conv_general %u, %k : tensor<2x64x?xf32>, tensor<64x64x3xf32>
  return
}
