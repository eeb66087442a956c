// Gathers of whole rows are copies of rows by a kernel, on any target; every
// other gather is loops.
// RUN: nabla-opt "%s" --nabla-to-linalg="features=avx512f" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-to-linalg="features=" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --check-prefix=KERNEL
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast
// RUN: not nabla-opt "%s" --nabla-to-linalg=all=true 2>&1 | FileCheck "%s" --check-prefix=ERROR

// ERROR: no such option all
// LLVM: llvm.func @nabla_entry_embedding

// An embedding look-up: sizes that are not known are checked before the call.
// CHECK-LABEL: func.func @embedding
// CHECK: call @nabla_require_equal
// CHECK: call @nabla_copy_rows_f32_any_64_by_i32_any_at1(
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @embedding(%x: tensor<?x64xf32>, %i: tensor<?xi32>) -> tensor<?x64xf32> {
  %y = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, -1] : tensor<?x64xf32>, tensor<?xi32>
  return %y : tensor<?x64xf32>
}

// Rows of two dimensions, places of one component; results beyond the caches
// are stored past them.
// CHECK-LABEL: func.func @places
// CHECK: call @nabla_copy_rows_bf16_40_4_8_by_i64_1_100_at0(
// CHECK: call @nabla_copy_rows_f32_40_4096_by_i64_2_512_at2(
func.func @places(%x: tensor<40x4x8xbf16>, %i: tensor<1x100xi64>, %z: tensor<40x4096xf32>, %k: tensor<2x512xi64>) -> (tensor<100x4x8xbf16>, tensor<2x512x4096xf32>) {
  %y = nabla.gather %x, %i offset_dims = [1, 2] collapsed_dims = [0] index_map = [0]
      vector_dim = 0 sizes = [1, 4, 8] : tensor<40x4x8xbf16>, tensor<1x100xi64>
  %w = nabla.gather %z, %k offset_dims = [2] collapsed_dims = [0] index_map = [0]
      vector_dim = 2 sizes = [1, 4096] : tensor<40x4096xf32>, tensor<2x512xi64>
  return %y, %w : tensor<100x4x8xbf16>, tensor<2x512x4096xf32>
}

// Must not fire on short rows, few rows, parts of rows, columns, rows that are
// not the last dimensions of the result, boxes of two rows, unknown rows.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nabla_copy_rows
// CHECK: return
func.func @others(%a: tensor<64x15xf32>, %b: tensor<64x64xf32>, %i: tensor<100xi32>, %few: tensor<15xi32>, %u: tensor<64x?xf32>) -> (tensor<100x15xf32>, tensor<15x64xf32>, tensor<100x32xf32>, tensor<100x64xf32>, tensor<64x100xf32>, tensor<100x2x64xf32>, tensor<100x?xf32>) {
  %0 = nabla.gather %a, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, 15] : tensor<64x15xf32>, tensor<100xi32>
  %1 = nabla.gather %b, %few offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, 64] : tensor<64x64xf32>, tensor<15xi32>
  %2 = nabla.gather %b, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, 32] : tensor<64x64xf32>, tensor<100xi32>
  %3 = nabla.gather %b, %i offset_dims = [1] collapsed_dims = [1] index_map = [1]
      vector_dim = 1 sizes = [64, 1] : tensor<64x64xf32>, tensor<100xi32>
  %4 = nabla.gather %b, %i offset_dims = [0] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, 64] : tensor<64x64xf32>, tensor<100xi32>
  %5 = nabla.gather %b, %i offset_dims = [1, 2] index_map = [0]
      vector_dim = 1 sizes = [2, 64] : tensor<64x64xf32>, tensor<100xi32>
  %6 = nabla.gather %u, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, -1] : tensor<64x?xf32>, tensor<100xi32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<100x15xf32>, tensor<15x64xf32>, tensor<100x32xf32>, tensor<100x64xf32>, tensor<64x100xf32>, tensor<100x2x64xf32>, tensor<100x?xf32>
}

// KERNEL: llvm.func internal @nabla_copy_rows_kernel_i64_past(
// KERNEL: llvm.store {{.*}}nontemporal
// KERNEL: llvm.func internal @nabla_copy_rows_kernel_i64(
// KERNEL-NOT: nontemporal
// KERNEL: llvm.func internal @nabla_copy_rows_kernel_i32(
// KERNEL: llvm.sext
