// Two dense operands of bf16 are multiplied as pairs of bf16, whichever
// dimension of either is consecutive and whether sizes of w are known or not.
// Other dtypes, one row, and CPUs without the instructions, or where they are
// slower, have kernels that compute in f32.
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-bf16' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=AMX
// RUN: FileCheck "%s" --check-prefix=TILES --input-file="%t"
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16,zen' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=ZEN
// RUN: FileCheck "%s" --check-prefix=DOTS --input-file="%t"
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16,avx512fp16' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=F32
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx,avx2,fma' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=F32

// TILES: llvm.x86.tdpbf16ps
// DOTS: llvm.x86.avx512bf16.dpbf16ps

// F32-NOT: gemm_bf16
// F32: bf16 numerics: kernel 'gemm_fma' in f32 for M = {{[0-9]+}} and more
// F32-NOT: gemm_bf16_dense

// AMX: kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @w_by_columns(%x: tensor<128x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<128x512xbf16> {
  %y = nabla.fused_dot %x, %w contracting = [1] x [0] : tensor<128x256xbf16>, tensor<256x512xbf16>
  return %y : tensor<128x512xbf16>
}

// AMX: kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @both_by_columns(%x: tensor<256x128xbf16>, %w: tensor<256x512xbf16>) -> tensor<128x512xbf16> {
  %y = nabla.fused_dot %x, %w contracting = [0] x [0] : tensor<256x128xbf16>, tensor<256x512xbf16>
  return %y : tensor<128x512xbf16>
}

// AMX: kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @x_by_columns(%x: tensor<256x128xbf16>, %w: tensor<512x256xbf16>) -> tensor<128x512xbf16> {
  %y = nabla.fused_dot %x, %w contracting = [0] x [1] : tensor<256x128xbf16>, tensor<512x256xbf16>
  return %y : tensor<128x512xbf16>
}

// AMX: kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @batches(%x: tensor<16x512x64xbf16>, %w: tensor<16x512x64xbf16>) -> tensor<16x512x512xbf16> {
  %y = nabla.fused_dot %x, %w batching = [0] x [0] contracting = [2] x [2] : tensor<16x512x64xbf16>, tensor<16x512x64xbf16>
  return %y : tensor<16x512x512xbf16>
}

// AMX: kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @heads(%x: tensor<512x16x64xbf16>, %w: tensor<512x16x64xbf16>) -> tensor<16x512x512xbf16> {
  %y = nabla.fused_dot %x, %w batching = [1] x [1] contracting = [2] x [2] : tensor<512x16x64xbf16>, tensor<512x16x64xbf16>
  return %y : tensor<16x512x512xbf16>
}

// AMX: kernel 'gemm_fma' in f32 for M = 0..1, kernel 'gemm_bf16_dense_amx' for M = 2..31, kernel 'gemm_bf16_dense_amx' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_fma' in f32 for M = 0..1, kernel 'gemm_bf16_dense_avx512' for M = 2..31, kernel 'gemm_bf16_dense_avx512' for M = {{[0-9]+}} and more
func.func @open(%x: tensor<?x?xbf16>, %w: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %y = nabla.fused_dot %x, %w contracting = [1] x [0] : tensor<?x?xbf16>, tensor<?x?xbf16>
  return %y : tensor<?x?xbf16>
}

// AMX: kernel 'gemv_transposed' in f32 for M = 1
// ZEN: kernel 'gemv_transposed' in f32 for M = 1
func.func @one_row(%x: tensor<1x256xbf16>, %w: tensor<256x512xbf16>) -> tensor<1x512xbf16> {
  %y = nabla.fused_dot %x, %w contracting = [1] x [0] : tensor<1x256xbf16>, tensor<256x512xbf16>
  return %y : tensor<1x512xbf16>
}

// AMX: kernel 'gemm_fma' for M = {{[0-9]+}} and more
// ZEN: kernel 'gemm_fma' for M = {{[0-9]+}} and more
func.func @f32(%x: tensor<128x256xf32>, %w: tensor<256x512xf32>) -> tensor<128x512xf32> {
  %y = nabla.fused_dot %x, %w contracting = [1] x [0] : tensor<128x256xf32>, tensor<256x512xf32>
  return %y : tensor<128x512xf32>
}
