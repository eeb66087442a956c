// Products of two tensors become fused_dot where they are large enough, whatever
// dimensions are contracted and whatever sizes are known; epilogues join them.
// Small ones and f64 stay as they are.
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error --nabla-fuse | FileCheck "%s" --implicit-check-not=nabla.transpose
// RUN: nabla-opt "%s" --nabla-dispatch --remarks-filter='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=CPU --implicit-check-not=unrealized_conversion_cast
// REMARK-DAG: remark: [Passed] dot_dense | Category:nabla-dispatch | {{.*}}a product of tensors that is large enough becomes fused_dot
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}the product is small
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}kernels compute in f32, f16 and bf16
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}nothing is contracted
// CPU-DAG: llvm.func internal @nabla_fused_dense_{{.*}}_batches2_1
// CPU-DAG: llvm.mlir.global internal constant @nabla_where_fused_dot
// CPU-DAG: llvm.func internal @nabla_fused_dense_{{.*}}_open1
// CPU-DAG: llvm.func internal @nabla_fused_dense_{{.*}}_open6

// CHECK-LABEL: func.func @linear
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2) epilogue = ["bias", "silu"] : tensor<?x64xf32>, tensor<128x64xf32>, tensor<128xf32>
func.func @linear(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>, %b: tensor<128xf32>) -> tensor<?x128xf32> {
  %y = nabla.linear %x, %w, %b : tensor<?x64xf32>, tensor<128x64xf32>, tensor<128xf32>
  %z = nabla.silu %y : tensor<?x128xf32>
  return %z : tensor<?x128xf32>
}

// CHECK-LABEL: func.func @transposed
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2) contracting = [0] x [0] epilogue = ["add"] : tensor<64x?xf32>, tensor<64x128xf32>, tensor<?x128xf32>
func.func @transposed(%x: tensor<64x?xf32>, %w: tensor<64x128xf32>, %r: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [0] x [0] : tensor<64x?xf32>, tensor<64x128xf32>
  %z = nabla.add %y, %r : tensor<?x128xf32>, tensor<?x128xf32>
  return %z : tensor<?x128xf32>
}

// Neighbours are joined: four heads of 32, of 2 x 64 features.
// CHECK-LABEL: func.func @joined
// CHECK: %[[X:.*]] = nabla.reshape %arg0 sizes(%{{.*}}) : tensor<?x5x2x64xf32> -> tensor<?x128xf32>
// CHECK: %[[W:.*]] = nabla.reshape %arg1 : tensor<2x64x4x32xf32> -> tensor<128x128xf32>
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[X]], %[[W]] contracting = [1] x [0] : tensor<?x128xf32>, tensor<128x128xf32>
// CHECK: nabla.reshape %[[Y]] sizes(%{{.*}}) : tensor<?x128xf32> -> tensor<?x5x4x32xf32>
func.func @joined(%x: tensor<?x5x2x64xf32>, %w: tensor<2x64x4x32xf32>) -> tensor<?x5x4x32xf32> {
  %y = nabla.dot_general %x, %w contracting = [2, 3] x [0, 1] : tensor<?x5x2x64xf32>, tensor<2x64x4x32xf32>
  return %y : tensor<?x5x4x32xf32>
}

// One row of x, whose result has its rank again.
// CHECK-LABEL: func.func @vector
// CHECK: nabla.fused_dot %{{.*}}, %arg1 contracting = [1] x [0] : tensor<1x128xf16>, tensor<128x256xf16>
// CHECK: return %{{.*}} : tensor<256xf16>
func.func @vector(%x: tensor<128xf16>, %w: tensor<128x256xf16>) -> tensor<256xf16> {
  %y = nabla.dot_general %x, %w contracting = [0] x [0] : tensor<128xf16>, tensor<128x256xf16>
  return %y : tensor<256xf16>
}

// A weight of bf16 is read as it is, not widened as a whole.
// CHECK-LABEL: func.func @widened
// CHECK: nabla.fused_dot %arg0, %arg1 : tensor<4x128xf32>, tensor<128x128xbf16>
func.func @widened(%x: tensor<4x128xf32>, %w: tensor<128x128xbf16>) -> tensor<4x128xf32> {
  %f = nabla.convert %w : tensor<128x128xbf16> -> tensor<128x128xf32>
  %y = nabla.dot_general %x, %f contracting = [1] x [1] : tensor<4x128xf32>, tensor<128x128xf32>
  return %y : tensor<4x128xf32>
}

// CHECK-LABEL: func.func @small
// CHECK-NOT: fused_dot
// CHECK: nabla.linear
// CHECK-NOT: fused_dot
// CHECK: nabla.dot_general
func.func @small(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %y = nabla.linear %x, %w : tensor<16x16xf32>, tensor<16x16xf32>
  %z = nabla.dot_general %x, %w contracting = [0] x [1] : tensor<16x16xf32>, tensor<16x16xf32>
  return %y, %z : tensor<16x16xf32>, tensor<16x16xf32>
}

// CHECK-LABEL: func.func @double
// CHECK-NOT: fused_dot
// CHECK: nabla.dot_general
// CHECK: nabla.linear
// CHECK-NOT: fused_dot
func.func @double(%x: tensor<64x64xf64>, %w: tensor<64x64xf64>) -> (tensor<64x64xf64>, tensor<64x64xf64>) {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<64x64xf64>, tensor<64x64xf64>
  %z = nabla.linear %x, %w : tensor<64x64xf64>, tensor<64x64xf64>
  return %y, %z : tensor<64x64xf64>, tensor<64x64xf64>
}

// CHECK-LABEL: func.func @unknown
// CHECK: %[[Y:.*]] = nabla.fused_dot %arg0, %arg1 : tensor<64x64xf32>, tensor<?x64xf32>
// CHECK: nabla.fused_dot %[[Y]], %arg2 : tensor<64x?xf32>, tensor<128x?xf32>
func.func @unknown(%x: tensor<64x64xf32>, %w: tensor<?x64xf32>, %v: tensor<128x?xf32>) -> tensor<64x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<64x64xf32>, tensor<?x64xf32>
  %z = nabla.dot_general %y, %v contracting = [1] x [1] : tensor<64x?xf32>, tensor<128x?xf32>
  return %z : tensor<64x128xf32>
}

// CHECK-LABEL: func.func @outer
// CHECK-NOT: fused_dot
// CHECK: nabla.dot_general
func.func @outer(%x: tensor<640xf32>, %w: tensor<640xf32>) -> tensor<640x640xf32> {
  %y = nabla.dot_general %x, %w contracting = [] x [] : tensor<640xf32>, tensor<640xf32>
  return %y : tensor<640x640xf32>
}

// Batches, here in the middle as heads are, stay where they are.
// CHECK-LABEL: func.func @heads
// CHECK: nabla.fused_dot %arg0, %arg1(%arg2) batching = [0, 2] x [0, 2] contracting = [3] x [3] epilogue = ["add"] : tensor<2x?x4x64xf32>, tensor<2x50x4x64xf32>, tensor<2x4x?x50xf32>
func.func @heads(%x: tensor<2x?x4x64xf32>, %w: tensor<2x50x4x64xf32>, %r: tensor<2x4x?x50xf32>) -> tensor<2x4x?x50xf32> {
  %y = nabla.dot_general %x, %w batching = [0, 2] x [0, 2] contracting = [3] x [3] : tensor<2x?x4x64xf32>, tensor<2x50x4x64xf32>
  %z = nabla.add %y, %r : tensor<2x4x?x50xf32>, tensor<2x4x?x50xf32>
  return %z : tensor<2x4x?x50xf32>
}
