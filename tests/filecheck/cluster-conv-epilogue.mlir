// Operations of elements that are the only user of a convolution, and of each
// other, are a part of its kernel. Values that are used twice, other types and
// orders, other broadcasts and other blocks are not.
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" --remarks-filter='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=CPU --implicit-check-not=unrealized_conversion_cast
// REMARK: computes conv_general, add, silu, sub by one kernel of panels
// REMARK: computes conv_general, mul, maximum by one kernel of rows
// REMARK: computes conv_general, add by one kernel of panels
// REMARK-COUNT-4: computes conv_general by one kernel of panels
// REMARK-NOT: computes conv_general
// CPU: llvm.func internal @nabla_cluster_0_conv

!t = tensor<1x64x20x20xf32>
!k = tensor<64x64x3x3xf32>

// Kernels and functions stand in the reverse order of their uses. Sizes of open
// batches are compared.
// CHECK-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_conv
// CHECK: func.func private @nabla_cluster_call_{{[0-9]+}}_conv_general({{.*}}: tensor<?x64x22xf32>, {{.*}}: tensor<64x64x3xf32>, {{.*}}: tensor<?x64x20xf32>)
// CHECK: llvm.mlir.addressof @nabla_where_add
// CHECK: call @nabla_require_equal

// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[Y:.*]] = call @nabla_cluster_call_{{.*}}(%arg0, %arg1, %arg2, %arg3) :
// CHECK-NEXT: return %[[Y]]
func.func @chain(%x: !t, %k: !k, %b: tensor<64xf32>, %r: !t) -> !t {
  %0 = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] : !t, !k
  %1 = nabla.broadcast_in_dim %b dims = [1] : tensor<64xf32> -> !t
  %2 = nabla.add %0, %1 : !t, !t
  %3 = nabla.silu %2 : !t
  %4 = nabla.sub %r, %3 : !t, !t
  return %4 : !t
}

// A number is in the kernel.
// CHECK-LABEL: func.func @depthwise
// CHECK-NEXT: %[[Y:.*]] = call @nabla_cluster_call_{{.*}}(%arg0, %arg1, %arg2) :
// CHECK-NEXT: return %[[Y]]
func.func @depthwise(%x: !t, %k: tensor<64x1x3x3xf32>, %b: tensor<1x64x1x1xf32>) -> !t {
  %c = nabla.constant dense<0.5> : !t
  %0 = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] groups = 64 : !t, tensor<64x1x3x3xf32>
  %1 = nabla.broadcast_in_dim %b dims = [0, 1, 2, 3] : tensor<1x64x1x1xf32> -> !t
  %2 = nabla.mul %1, %0 : !t, !t
  %3 = nabla.maximum %2, %c : !t, !t
  return %3 : !t
}

// CHECK-LABEL: func.func @open_batch
// CHECK-NEXT: call @nabla_cluster_call_{{.*}}(%arg0, %arg1, %arg2)
// CHECK-NEXT: return
func.func @open_batch(%x: tensor<?x64x22xf32>, %k: tensor<64x64x3xf32>, %r: tensor<?x64x20xf32>) -> tensor<?x64x20xf32> {
  %0 = nabla.conv_general %x, %k : tensor<?x64x22xf32>, tensor<64x64x3xf32>
  %1 = nabla.add %0, %r : tensor<?x64x20xf32>, tensor<?x64x20xf32>
  return %1 : tensor<?x64x20xf32>
}

// CHECK-LABEL: func.func @two_uses
// CHECK-NEXT: %[[C:.*]] = call @nabla_cluster_call_{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: %[[R:.*]] = call @nabla_cluster_call_{{.*}}(%[[C]])
// CHECK-NEXT: return %[[C]], %[[R]]
func.func @two_uses(%x: !t, %k: !k) -> (!t, !t) {
  %0 = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] : !t, !k
  %1 = nabla.silu %0 : !t
  return %0, %1 : !t, !t
}

// CHECK-LABEL: func.func @of_rows
// CHECK-NEXT: %[[C:.*]] = call @nabla_cluster_call_{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: call @nabla_cluster_call_{{.*}}(%[[C]], %arg2)
func.func @of_rows(%x: !t, %k: !k, %b: tensor<20xf32>) -> !t {
  %0 = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] : !t, !k
  %1 = nabla.broadcast_in_dim %b dims = [3] : tensor<20xf32> -> !t
  %2 = nabla.add %0, %1 : !t, !t
  return %2 : !t
}

// CHECK-LABEL: func.func @in_order
// CHECK: call @nabla_cluster_call_{{.*}}(%arg0, %arg1) :
// CHECK-NEXT: nabla.transpose
// CHECK-NEXT: call @nabla_cluster_call
func.func @in_order(%x: !t, %k: !k) -> tensor<1x20x20x64xf32> {
  %0 = nabla.conv_general %x, %k low = [1, 1] high = [1, 1] output_dims = [0, 3, 1, 2] : !t, !k
  %1 = nabla.silu %0 : tensor<1x20x20x64xf32>
  return %1 : tensor<1x20x20x64xf32>
}

// CHECK-LABEL: func.func @of_f16
// CHECK: call @nabla_cluster_call_{{.*}} : (tensor<2x64x20xf32>, tensor<64x64x3xf32>) -> tensor<2x64x18xf32>
// CHECK: call @nabla_cluster_call
func.func @of_f16(%x: tensor<2x64x20xf16>, %k: tensor<64x64x3xf16>) -> tensor<2x64x18xf16> {
  %0 = nabla.conv_general %x, %k : tensor<2x64x20xf16>, tensor<64x64x3xf16>
  %1 = nabla.silu %0 : tensor<2x64x18xf16>
  return %1 : tensor<2x64x18xf16>
}
