// Functions of f32 in kernels of clusters: in f32 but where math.def says f64;
// numbers of a table are looked up by what the target has.
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" | FileCheck "%s" --check-prefixes=ANY,AVX512
// RUN: nabla-opt "%s" --nabla-cluster="features=avx2,fma" | FileCheck "%s" --check-prefixes=ANY,AVX2
// RUN: nabla-opt "%s" --nabla-cluster=features= | FileCheck "%s" --check-prefixes=ANY,NONE

!t = tensor<64x256xf32>

// Kernels stand in the reverse order of the functions.
// ANY-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_gelu
// ANY-NOT: f64
// AVX512: llvm.x86.avx512.permvar.sf.512
// AVX512: "llvm.ldexp"
// AVX2: llvm.x86.avx2.permps
// AVX2-NOT: llvm.ldexp
// NONE-NOT: llvm.x86
// NONE-NOT: llvm.ldexp
// ANY: llvm.return

// ANY-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_tanh
// ANY: llvm.fpext {{.*}} : vector<16xf32> to vector<16xf64>
// ANY: llvm.return

func.func @tanh(%x: !t) -> !t {
  %0 = nabla.tanh %x : !t
  return %0 : !t
}

func.func @gelu(%x: !t) -> !t {
  %0 = nabla.gelu %x : !t
  return %0 : !t
}
