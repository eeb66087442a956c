// Numerics permit an error: kernels that use it where the target has the
// instructions and rows of the weight begin with blocks, f32 elsewhere.
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni numerics=int8' --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: FileCheck "%s" --check-prefix=VNNI --input-file="%t"
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx2,fma numerics=int8' | FileCheck "%s" --check-prefix=AVX2
// RUN: nabla-opt "%s" --nabla-lower-fused='features= numerics=int8' | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-opt "%s" --nabla-lower-fused='features=avx512f,avx512bw,avx512vl,avx512vnni' | FileCheck "%s" --check-prefix=NONE
// RUN: not nabla-opt "%s" --nabla-lower-fused=numerics=int4 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN

// REMARK: KernelChosen{{.*}}int8 numerics: kernel 'gemv_int8' for M = 1
// REMARK: KernelChosen{{.*}}int8 numerics: kernel '{{[a-z0-9_]+}}' in f32 for M = 1
// REMARK: KernelChosen{{.*}}int8 numerics: kernel 'gemv_int8_ggml' for M = 1
// VNNI: _int8_m1to1(
// VNNI: llvm.x86.avx512.vpdpbusd.512
// AVX2-NOT: avx512
// AVX2: llvm.x86.avx2.pmadd.ub.sw
// NONE-NOT: vpdpbusd
// NONE-NOT: pmadd
// NONE: call @nabla_parallel
// UNKNOWN: nabla-lower-fused: numerics 'int4' is none of f32, bf16, int8
func.func @linear(%x: tensor<1x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> tensor<1x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %y = nabla.fused_dot %x, %w : tensor<1x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<1x128xf32>
}

// Rows of 96 elements begin in the middle of blocks.
func.func @split(%x: tensor<1x96xf32>, %c: tensor<1536xi8>, %s: tensor<48xf32>) -> tensor<1x32xf32> {
  %w = nabla.pack %c, %s : tensor<1536xi8>, tensor<48xf32> -> !nabla.implicit<32x96xf32, #nabla.nf4<block = 64>>
  %y = nabla.fused_dot %x, %w : tensor<1x96xf32>, !nabla.implicit<32x96xf32, #nabla.nf4<block = 64>>
  return %y : tensor<1x32xf32>
}

// Blocks of GGUF files, of which one begins each row.
func.func @blocks(%x: tensor<1x256xf32>, %b: tensor<18432xi8>) -> tensor<1x128xf32> {
  %w = nabla.pack %b : tensor<18432xi8> -> !nabla.implicit<128x256xf32, #nabla.ggml<q4_k>>
  %y = nabla.fused_dot %x, %w : tensor<1x256xf32>, !nabla.implicit<128x256xf32, #nabla.ggml<q4_k>>
  return %y : tensor<1x128xf32>
}
