// An instruction that the target lacks is not in the kernel.
// RUN: nabla-opt "%s" --nabla-lower-fused='features=' | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-opt "%s" --nabla-lower-fused=features=nothing-known | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-opt "%s" --nabla-lower-fused=features=avx2,fma | FileCheck "%s" --check-prefix=AVX2
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-lower-fused{features="avx512f,avx512bw,avx512vl,avx2,fma"})' | FileCheck "%s" --check-prefix=AVX512
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-lower-fused{features="avx512f,-avx2"})' | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-opt "%s" --nabla-lower-fused="features=avx2,fma target=portable" | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-opt "%s" --nabla-dispatch=target=portable --nabla-lower-fused="features=avx2,fma target=x86" | FileCheck "%s" --check-prefix=AVX2
// RUN: not nabla-opt "%s" --nabla-lower-fused=target=sparc 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN
// RUN: not nabla-opt "%s" --nabla-dispatch=target=sparc 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN
// RUN: not nabla-opt "%s" --nabla-to-linalg=target=sparc 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN
// RUN: nabla-opt "%s" --nabla-lower-fused | FileCheck "%s" --check-prefix=HOST

// UNKNOWN: there is no target 'sparc': legal are host, x86, portable

// NONE-NOT: llvm.x86
// NONE: call @nabla_parallel
// AVX2-NOT: avx512
// AVX2: llvm.x86.avx2.permps
// AVX512: llvm.x86.avx512.permvar.sf.512
// HOST: nabla.kernel
func.func @linear(%x: tensor<?x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> tensor<?x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}
