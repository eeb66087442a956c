// Large arrays of known sizes are concatenated by copies of runs.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --check-prefix=KERNEL
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast
// RUN: not nabla-opt "%s" --nabla-to-linalg=all=true 2>&1 | FileCheck "%s" --check-prefix=ERROR

// ERROR: no such option all
// LLVM: llvm.func @nabla_entry_columns

// CHECK-LABEL: func.func @columns
// CHECK: call @nabla_concatenate_at1_f32_64_128_f32_64_200(%arg0, %arg1)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @columns(%x: tensor<64x128xf32>, %y: tensor<64x200xf32>) -> tensor<64x328xf32> {
  %0 = nabla.concatenate %x, %y dim = 1 : tensor<64x128xf32>, tensor<64x200xf32>
  return %0 : tensor<64x328xf32>
}

// CHECK-LABEL: func.func @rows
// CHECK: call @nabla_concatenate_at0_bf16_4096_1024_bf16_4096_1024(%arg0, %arg0)
func.func @rows(%x: tensor<4096x1024xbf16>) -> tensor<8192x1024xbf16> {
  %0 = nabla.concatenate %x, %x dim = 0 : tensor<4096x1024xbf16>, tensor<4096x1024xbf16>
  return %0 : tensor<8192x1024xbf16>
}

// Must not fire on sizes that are not known, short runs, small results.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nabla_concatenate
// CHECK: return
func.func @others(%x: tensor<64x?xf32>, %y: tensor<4096x15xf32>, %z: tensor<4096x16xf32>, %s: tensor<64x64xf32>) -> (tensor<128x?xf32>, tensor<4096x31xf32>, tensor<128x64xf32>) {
  %0 = nabla.concatenate %x, %x dim = 0 : tensor<64x?xf32>, tensor<64x?xf32>
  %1 = nabla.concatenate %y, %z dim = 1 : tensor<4096x15xf32>, tensor<4096x16xf32>
  %2 = nabla.concatenate %s, %s dim = 0 : tensor<64x64xf32>, tensor<64x64xf32>
  return %0, %1, %2 : tensor<128x?xf32>, tensor<4096x31xf32>, tensor<128x64xf32>
}

// KERNEL: llvm.func internal @nabla_copy_runs_kernel_past(
// KERNEL: llvm.store {{.*}}nontemporal
// KERNEL: llvm.func internal @nabla_copy_runs_kernel(
// KERNEL-NOT: nontemporal
// KERNEL: llvm.intr.memcpy
