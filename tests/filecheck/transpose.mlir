// Large transposes are done by a kernel in tiles, where the target has AVX2.
// RUN: nabla-opt "%s" --nabla-to-linalg="features=avx2" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-to-linalg="features=" | FileCheck "%s" --check-prefix=PLAIN
// RUN: nabla-opt "%s" --nabla-to-linalg="features=avx2" | FileCheck "%s" --check-prefix=KERNEL
// RUN: not nabla-opt "%s" --nabla-to-linalg=all=true 2>&1 | FileCheck "%s" --check-prefix=ERROR

// ERROR: no such option all
// PLAIN-NOT: nabla_transpose

// CHECK-LABEL: func.func @two
// CHECK: call @nabla_transpose_f32_at1_64_any
func.func @two(%x: tensor<64x?xf32>) -> tensor<?x64xf32> {
  %y = nabla.transpose %x permutation = [1, 0] : tensor<64x?xf32>
  return %y : tensor<?x64xf32>
}

// Groups of dimensions; results beyond the caches are stored past them.
// CHECK-LABEL: func.func @groups
// CHECK: call @nabla_transpose_bf16_at2_4_8_64
// CHECK: call @nabla_transpose_f32_at1_4096_1024
func.func @groups(%x: tensor<4x8x64xbf16>, %z: tensor<4096x1024xf32>) -> (tensor<64x4x8xbf16>, tensor<1024x4096xf32>) {
  %y = nabla.transpose %x permutation = [2, 0, 1] : tensor<4x8x64xbf16>
  %w = nabla.transpose %z permutation = [1, 0] : tensor<4096x1024xf32>
  return %y, %w : tensor<64x4x8xbf16>, tensor<1024x4096xf32>
}

// Must not fire on small arrays, bytes, and permutations of other kinds.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nabla_transpose
// CHECK: return
func.func @others(%a: tensor<4x8xf32>, %b: tensor<64x64xi8>, %c: tensor<16x16x16xf32>) -> (tensor<8x4xf32>, tensor<64x64xi8>, tensor<16x16x16xf32>) {
  %x = nabla.transpose %a permutation = [1, 0] : tensor<4x8xf32>
  %y = nabla.transpose %b permutation = [1, 0] : tensor<64x64xi8>
  %z = nabla.transpose %c permutation = [0, 2, 1] : tensor<16x16x16xf32>
  return %x, %y, %z : tensor<8x4xf32>, tensor<64x64xi8>, tensor<16x16x16xf32>
}

// KERNEL: llvm.func internal @nabla_transpose_kernel_32_past(
// KERNEL: llvm.shufflevector
// KERNEL: llvm.store {{.*}}nontemporal
// KERNEL: llvm.func internal @nabla_transpose_kernel_16(
// KERNEL-NOT: nontemporal
// KERNEL: llvm.func internal @nabla_transpose_kernel_32(
