// The ranges of M that have kernels of their own: one row has one where the
// body computes it in another way than few, AMX serves many.
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=LINES
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16,amx-bf16' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=AMX
// RUN: FileCheck "%s" --check-prefix=TILES --input-file="%t"
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni numerics=int8' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=INT8

// LINES: f32 numerics: kernel 'gemv_codeline' for M = 0..1, kernel 'gemv_codeline' for M = 2, kernel 'gemm_small_m' for M = 3..
// LINES-NOT: gemm_f32_bf16x3_amx
// AMX: f32 numerics: kernel 'gemv_codeline' for M = 0..1, {{.*}}kernel 'gemm_f32_bf16x3_amx' for M = 9 and more
// TILES: llvm.x86.tdpbf16ps
// TILES: call @{{.*}}_exact(
// INT8: int8 numerics: kernel 'gemv_int8' for M = 0..1
func.func @linear(%x: tensor<?x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> tensor<?x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}
