// Convolutions of tensors become products: few windows are rows of x, elements
// that are windows columns; others have a kernel of their own (cluster-conv.mlir)
// or stay loops: what is small or of f64.
// RUN: nabla-opt "%s" --nabla-dispatch | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-dispatch --remarks-filter='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=CPU --implicit-check-not=unrealized_conversion_cast
// REMARK-DAG: remark: [Passed] conv_dense | Category:nabla-dispatch | {{.*}}becomes a product of the kernel and the windows of the input
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}the product is small, or not of f32, f16 or bf16
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}its windows are packed by a kernel of convolutions
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}groups have no kernel
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}a batch of another size than 1 has no kernel
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}its dimensions are in another order
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}all windows together are too large
// REMARK-DAG: remark: [Missed] Loops | Category:nabla-dispatch | {{.*}}a dimension of the kernel is not known
// CPU: llvm.func internal @nabla_fused_dense

// CHECK-LABEL: func.func @rows
// CHECK: %[[W:.*]] = nabla.reshape %arg1 : tensor<258x1x256xf32> -> tensor<258x256xf32>
// CHECK: nabla.slice %arg0 starts = [0, 0, 128] limits = [1, 1, 384]
// CHECK: %[[X:.*]] = nabla.concatenate
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[X]], %[[W]] : tensor<3x256xf32>, tensor<258x256xf32>
// CHECK: nabla.transpose %[[Y]] permutation = [1, 0]
func.func @rows(%x: tensor<1x1x512xf32>, %k: tensor<258x1x256xf32>) -> tensor<1x258x3xf32> {
  %r = nabla.conv_general %x, %k strides = [128] : tensor<1x1x512xf32>, tensor<258x1x256xf32>
  return %r : tensor<1x258x3xf32>
}

// CHECK-LABEL: func.func @pointwise
// CHECK: %[[W:.*]] = nabla.reshape %arg1 : tensor<64x64x1x1xf32> -> tensor<64x64xf32>
// CHECK: %[[X:.*]] = nabla.reshape %arg0 : tensor<1x64x20x20xf32> -> tensor<64x400xf32>
// CHECK: nabla.fused_dot %[[W]], %[[X]] contracting = [1] x [0] : tensor<64x64xf32>, tensor<64x400xf32>
func.func @pointwise(%x: tensor<1x64x20x20xf32>, %k: tensor<64x64x1x1xf32>) -> tensor<1x64x20x20xf32> {
  %r = nabla.conv_general %x, %k : tensor<1x64x20x20xf32>, tensor<64x64x1x1xf32>
  return %r : tensor<1x64x20x20xf32>
}

// CHECK-LABEL: func.func @loops
// CHECK-NOT: fused_dot
func.func @loops(%p: tensor<1x64x20x20xf32>, %q: tensor<64x64x3x3xf32>, %x: tensor<1x64x20xf32>, %k: tensor<64x64x3xf32>, %g: tensor<64x1x3xf32>, %s: tensor<1x4x20xf32>, %t: tensor<2x4x3xf32>,
    %d: tensor<1x64x20xf64>, %e: tensor<64x64x3xf64>, %b: tensor<2x64x20xf32>, %l: tensor<1x64x1024x1024xf32>, %m: tensor<64x64x1x1xf32>, %u: tensor<?x64x3xf32>) {
  %0 = nabla.conv_general %x, %g groups = 64 : tensor<1x64x20xf32>, tensor<64x1x3xf32>
  %1 = nabla.conv_general %s, %t : tensor<1x4x20xf32>, tensor<2x4x3xf32>
  %2 = nabla.conv_general %d, %e : tensor<1x64x20xf64>, tensor<64x64x3xf64>
  %3 = nabla.conv_general %b, %k : tensor<2x64x20xf32>, tensor<64x64x3xf32>
  %4 = nabla.conv_general %x, %k kernel_dims = [1, 0, 2] : tensor<1x64x20xf32>, tensor<64x64x3xf32>
  %5 = nabla.conv_general %l, %m : tensor<1x64x1024x1024xf32>, tensor<64x64x1x1xf32>
  %7 = nabla.conv_general %p, %q low = [1, 1] high = [1, 1] : tensor<1x64x20x20xf32>, tensor<64x64x3x3xf32>
  %6 = nabla.conv_general %x, %u : tensor<1x64x20xf32>, tensor<?x64x3xf32>
  return
}
